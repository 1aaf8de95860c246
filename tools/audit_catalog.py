"""Checks the notes of the training loop against the ledger: each verdict was released once, by its own charge.

Notes do not affect budgets, so nothing here changes a sum. Bodies are JSON. A report's digest is computed from its bytes
inside the note and not from a new serialisation, which could write numbers differently.
"""

import hashlib
import json
import re
from typing import Any, Callable

import audit_blake3
from audit_files import Files, Manifest
from audit_ledger import Ledger

JUDGED = re.compile(rb'\{"note":"run-stepped","run":\d+,"step":\{"step":"judged","report":')
PURPOSE = re.compile(r"run (\d+) of ")
# A pipeline file in its canonical form has its name in the first section.
NAME = re.compile(r'^name = ("(?:[^"\\]|\\.)*")$', re.MULTILINE)
FOLDER = re.compile(r"[0-9a-f]{64}")


def attempt_key(run: int, serial: int) -> bytes:
    """The request key of an attempt."""
    return hashlib.sha256(f"run {run} attempt {serial}".encode()).digest()


def query_key(who: str, name: str) -> bytes:
    """The request key of a query."""
    return hashlib.sha256(f"asked: query of {who}: {name}".encode()).digest()


class Catalog:
    """The runs according to the notes; checked at the end, when all releases are known."""

    def __init__(self, fault: Callable[[int, str], None], files: Files) -> None:
        self.fault, self.files = fault, files
        self.owners: dict[str, str] = {}
        self.runs: list[tuple[str, str, bool]] = []
        self.chosen: dict[bytes, tuple[int, int]] = {}
        self.last: dict[int, int] = {}
        self.claims: list[tuple[int, str, bytes, bytes]] = []
        self.charged: list[tuple[int, int, int]] = []
        self.judged = 0

    def apply(self, number: int, kind: str, body: bytes) -> None:
        if kind != "catalog":
            return
        try:
            note = json.loads(body)
            name = note["note"]
            if name == "run-stepped":
                self.step(number, note["run"], note["step"], body)
            elif name == "run-submitted":
                self.submitted(note)
            elif name == "rows-ingested":
                for part in Manifest(bytes.fromhex(note["manifest"])).parts(number, str(note["stream"])):
                    self.files.parts[part.path()] = part
            elif name in ("blocks-deleted", "quarantine-erased"):
                self.forget(str(note["stream"]), note)
            elif name == "units-counted":
                self.claims.append((number, "a count of units", audit_blake3.digest(body), b""))
            elif name == "query-answered":
                key = query_key(str(note["by"]), str(note["key"]))
                self.claims.append((number, "the result of a query", audit_blake3.digest(body), key))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            self.fault(number, f"a note of the catalog that cannot be read ({type(error).__name__})")

    def forget(self, stream: str, note: dict[str, Any]) -> None:
        """Removes deleted files from the list of expected files."""
        gone = set(note["blocks"]) if note["note"] == "blocks-deleted" else {"_quarantine"}
        batches = note.get("files")
        self.files.parts = {
            path: part
            for path, part in self.files.parts.items()
            if not (part.stream == stream and part.block in gone and (batches is None or part.file in batches))
        }

    def submitted(self, note: dict[str, Any]) -> None:
        named = NAME.search(str(note["text"]))
        name = json.loads(named[1]) if named else ""
        # A run that tests a released model again releases nothing new.
        again = '\nkind = "release"\n' in str(note["text"])
        self.runs.append((name, str(note["stream"]), again))
        self.owners.setdefault(name, str(note["stream"]))

    def step(self, number: int, run: int, step: dict[str, Any], body: bytes) -> None:
        if step["step"] == "chosen":
            serial = step["attempt"]["serial"]
            key = attempt_key(run, serial)
            if key in self.chosen:
                self.fault(number, f"attempt {serial} of run {run} is chosen twice")
            self.chosen[key] = (run, serial)
            self.last[run] = serial
        elif step["step"] == "charged":
            self.charged.append((number, run, self.last.get(run, 0)))
        elif step["step"] == "judged":
            self.judge(number, run, step, body)

    def judge(self, number: int, run: int, step: dict[str, Any], body: bytes) -> None:
        start = JUDGED.match(body)
        if start is None:
            self.fault(number, "a judged step that is not in its canonical form")
            return
        written = body[start.end() :].decode()
        report, end = json.JSONDecoder().raw_decode(written)
        if report != step["report"]:
            self.fault(number, "a judged step with two reports")
        digest = audit_blake3.digest(written[:end].encode())
        what = f"the report of run {run}, attempt {report['serial']}"
        if report["run"] != run:
            self.fault(number, f"{what} names run {report['run']}")
        self.judged += 1
        self.claims.append((number, what, digest, attempt_key(run, report["serial"])))
        again = 0 < run <= len(self.runs) and self.runs[run - 1][2]
        if (report["verdict"] == "accept" and not again) != (report["release"] is not None):
            self.fault(number, f"{what} is accepted without a release, or releases without being accepted")
        if report["release"] is not None:
            self.released(number, run, str(report["release"]))
        self.files.reports.add(digest.hex())

    def released(self, number: int, run: int, folder: str) -> None:
        if not FOLDER.fullmatch(folder):
            self.fault(number, f"release {folder!r} has no folder with files")
            return
        self.files.releases.setdefault(folder, number)
        name, stream, _ = self.runs[run - 1] if 0 < run <= len(self.runs) else ("", "", False)
        if name and self.owners[name] != stream:
            self.fault(number, f"run {run} of stream {stream!r} releases under a name of stream {self.owners[name]!r}")

    def close(self, ledger: Ledger) -> None:
        """Checks all notes against all grants."""
        grants = sorted(ledger.grants.items())
        for number, what, digest, key in self.claims:
            found = [grant for _, grant in grants if grant.state == "released" and grant.digest == digest]
            if len(found) != 1:
                self.fault(number, f"{what} is the content of {len(found)} releases, not of one")
            elif key and found[0].charge.key != key:
                self.fault(number, f"{what} was released by a grant of something else")
        for number, run, serial in self.charged:
            if attempt_key(run, serial) not in ledger.keys:
                self.fault(number, f"attempt {serial} of run {run} is noted as charged and is not")
        for number, grant in grants:
            self.paid(number, grant.charge.purpose, grant.charge.key)

    def paid(self, number: int, purpose: str, key: bytes) -> None:
        """A charge for a run has the key of an attempt that was chosen; keys are used once, so each attempt has one charge."""
        named = PURPOSE.match(purpose)
        if named and self.chosen.get(key, (0, 0))[0] != int(named[1]):
            self.fault(number, f"is charged for run {named[1]}, but no attempt of it was chosen under this key")
