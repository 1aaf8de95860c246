"""Recomputes the privacy loss of every block from the log alone, and checks that the ledger followed its rules.

    python3 tools/audit.py DIRECTORY [--json] [--head LENGTH:HASH or FILE]... [--no-blocks]

DIRECTORY is the directory of an engine, or a bundle of `sage audit export`: it contains `log.db`, and `releases` if
anything was released. Log heads that were exported earlier (files with a line `sage-head-2 LENGTH HASH ...`) show whether
the log still contains what it did then; those in `heads` of a bundle are always checked. Without any head, a log that was
rewritten from some record on, with a new hash chain, cannot be distinguished from the original. Nothing is written.

This program was written from the description of the log (docs/reference/log-format.md) and from the proofs, not from the
kernel's code, so that the two are unlikely to share a mistake. It needs only Python's standard library. It reads the
whole log from its first record, in a single pass, and keeps every sum as an integer. It checks:

- the chain of hashes, and that each event has its one encoding                                    audit_log.py
- the order of events, and at each charge that all sums were within the caps then in force         audit_ledger.py
- that caps keep the promised ceiling, and that no charge is below the cost of its mechanisms       audit_price.py
- that reports and counts in the notes are the contents of releases, each paid for once            audit_catalog.py
- that the files of releases and blocks have the digests that events name, and no release is extra  audit_files.py

It also prints what it cannot check: costs that it computes only in part are counted by kind. It does not read rows, so
it cannot check that a mechanism did what its cost declares.

Exit code 0: no violation. 1: a violation, or a log that cannot be read to its end. 2: wrong usage.
"""

import argparse
import json
import pathlib
import re
import sys
from typing import Any, Optional

import audit_log
import audit_price
from audit_catalog import Catalog
from audit_files import Files
from audit_ledger import Ledger, Stream

MOST_SHOWN = 50

# The argument that named a head, and the head's length and hash.
Head = tuple[str, tuple[int, bytes]]


class Audit:
    """One pass over a log, and its findings."""

    def __init__(self, directory: pathlib.Path, heads: list[Head]) -> None:
        self.directory, self.heads = directory, heads
        self.violations: list[str] = []
        self.length, self.hash = 0, bytes(32)
        self.ledger = Ledger(self.fault)
        self.files = Files(self.fault, self.violations.append)
        self.catalog = Catalog(self.fault, self.files)

    def fault(self, number: int, what: str) -> None:
        self.violations.append(f"record {number}: {what}")

    def run(self) -> None:
        waiting = {head: name for name, head in self.heads if head != (0, bytes(32))}
        try:
            for record in audit_log.records(self.directory):
                self.take(record)
                self.length, self.hash = record.number + 1, record.hash
                waiting.pop((self.length, self.hash), None)
        except audit_log.Broken as broken:
            self.violations.append(f"{broken}; nothing after it was read")
        for (length, _), name in waiting.items():
            self.violations.append(f"the given head is not in this log: {name}, of {length} records, was cut off or replaced")
        self.catalog.close(self.ledger)

    def take(self, record: audit_log.Record) -> None:
        try:
            event = audit_log.event(record.body)
        except audit_log.Broken as broken:
            raise audit_log.Broken(f"record {record.number}: {broken}") from broken
        self.ledger.apply(record, event)
        if event.name == "note":
            self.catalog.apply(record.number, *event.content)

    def result(self) -> dict[str, Any]:
        return {
            "agreed": not self.violations,
            "head": {"length": self.length, "hash": self.hash.hex()},
            "streams": [described(stream) for stream in self.ledger.streams],
            "prices": dict(sorted(self.ledger.prices.items())),
            "judged_reports": self.catalog.judged,
            "heads_checked": len(self.heads),
            "files_checked": self.files.checked,
            "blocks_checked": self.files.parts_here is True,
            "violations": self.violations,
        }


def described(stream: Stream) -> dict[str, Any]:
    counts = {name: stream.counts[name] for name in ("charged", "started", "cancelled", "released", "burnt")}
    books = [largest(stream, book) for book in range(len(stream.policy.books()))]
    return {"name": stream.name, "blocks": len(stream.keys), "retired": len(stream.retired), **counts, "books": books}


def largest(stream: Stream, book: int) -> dict[str, Any]:
    """The largest privacy loss of any lane of any block in a book."""
    name, found = stream.policy.books()[book]
    worst: tuple[float, Optional[str], Optional[str]] = (0.0, None, None)
    for (index, lane, block), sums in stream.sums.items():
        if index == book:
            lost = audit_price.loss(found, sums)
            if lost is None:
                worst = (float("inf"), stream.keys[block], audit_log.LANES[lane])
            elif lost > worst[0]:
                worst = (lost, stream.keys[block], audit_log.LANES[lane])
    return {
        "name": name,
        "rule": found.rule,
        "epsilon_ceiling": found.epsilon / audit_price.LOSS_UNITS,
        "delta": found.delta / audit_price.DELTA_UNITS,
        "epsilon_largest": None if worst[0] == float("inf") else worst[0],
        "block": worst[1],
        "lane": worst[2],
    }


def shown(result: dict[str, Any]) -> str:
    """The result as text."""
    lines = [f"{result['head']['length']} records, head {result['head']['hash']}"]
    for stream in result["streams"]:
        counts = ", ".join(f"{stream[name]} {name}" for name in ("charged", "cancelled", "released", "burnt"))
        lines.append(f"stream {stream['name']!r}: {stream['blocks']} blocks ({stream['retired']} retired), {counts}")
        for book in stream["books"]:
            lost = "not known" if book["epsilon_largest"] is None else f"{book['epsilon_largest']:.9g}"
            where = f" (block {book['block']!r}, {book['lane']} lane)" if book["block"] is not None else ""
            ceiling = f"ceiling {book['epsilon_ceiling']:.9g} at delta {book['delta']:.3g}"
            lines.append(f"  {book['name']}, {book['rule']}: largest loss {lost}{where}, {ceiling}")
    lines += [f"costs {name}: {count}" for name, count in result["prices"].items()]
    if result["judged_reports"]:
        lines.append(f"judged reports: {result['judged_reports']}")
    checked = ", ".join(f"{count} {name}" for name, count in result["files_checked"].items())
    lines.append(f"files checked by their digests: {checked}")
    if not result["blocks_checked"]:
        lines.append("parts of blocks were not checked")
    if not result["heads_checked"]:
        lines.append("no exported head was given: a log that was cut, or rewritten with a new hash chain, would not be found")
    found = result["violations"]
    lines += [f"VIOLATION {text}" for text in found[:MOST_SHOWN]]
    if len(found) > MOST_SHOWN:
        lines.append(f"and {len(found) - MOST_SHOWN} more; --json lists them all")
    lines.append("agreed" if result["agreed"] else f"violations: {len(found)}")
    return "\n".join(lines)


def exported(text: str) -> Head:
    found = re.fullmatch(r"(\d+):([0-9a-f]{64})", text)
    if found is None and pathlib.Path(text).is_file():
        line = pathlib.Path(text).read_text(errors="replace").split("\n")[0]
        found = re.fullmatch(r"sage-head-[12] (\d+) ([0-9a-f]{64})( .*)?", line)
    if found is None:
        raise argparse.ArgumentTypeError("a head is LENGTH:HASH, the hash as 64 hexadecimal digits, or an exported file")
    return text, (int(found[1]), bytes.fromhex(found[2]))


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(description="Recompute every block's privacy loss from the log alone.")
    parser.add_argument("directory", type=pathlib.Path, help="the directory that contains log.db")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--head", type=exported, action="append", default=[], metavar="LENGTH:HASH", help="a head that must be in the log, or its file"
    )
    parser.add_argument("--no-blocks", action="store_true", help="do not read the parts of blocks")
    given = parser.parse_args(arguments)
    if not (given.directory / "log.db").is_file():
        parser.error(f"{given.directory} contains no log.db")
    bundled = given.directory / "heads"
    kept = sorted(bundled.iterdir()) if bundled.is_dir() else []
    try:
        heads = given.head + [exported(str(path)) for path in kept]
    except argparse.ArgumentTypeError as error:
        parser.error(f"{bundled}: {error}")
    audit = Audit(given.directory, heads)
    audit.run()
    audit.files.close(given.directory, blocks=not given.no_blocks)
    result = audit.result()
    print(json.dumps(result, indent=2) if given.json else shown(result))
    return 0 if result["agreed"] else 1


if __name__ == "__main__":
    sys.exit(main())
