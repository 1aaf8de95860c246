"""Checks the files beside the log: each file that an event names has its digest, and each release is named by an event.

A release is a folder below `releases`, named after the digest of its files; a report is a file below `releases/reports`,
named after its own digest. The manifests of batches name parts of blocks with their digests. Parts are checked if the
directory contains `blocks`, which a bundle for auditors does not.
"""

import dataclasses
import pathlib
from typing import Callable, Iterator, Optional

import audit_blake3

BUNDLE = "sage bundle 1"


@dataclasses.dataclass
class Part:
    """A file of rows that a manifest names."""

    number: int
    stream: str
    block: str
    file: str
    digest: bytes

    def path(self) -> str:
        return f"{self.stream}/{self.block}/{self.file}"


class Manifest:
    """Decodes the canonical encoding of a batch's manifest."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def parts(self, number: int, stream: str) -> list[Part]:
        if self.take(1) != b"\1":
            raise ValueError("another version")
        batch = self.text()
        found = [part for _ in range(2) for part in self.listed(number, stream, batch)]
        if self.at != len(self.data):
            raise ValueError("bytes are left over")
        return found

    def listed(self, number: int, stream: str, batch: bytes) -> Iterator[Part]:
        name, before = audit_blake3.digest(batch).hex()[:16], b""
        for _ in range(self.number()):
            shared = self.number()
            block = before[:shared] + self.text()
            sequence, digest, before = self.number(), self.take(32), block
            yield Part(number, stream, block.decode(), f"part-{name}-{sequence}.parquet", digest)

    def take(self, length: int) -> bytes:
        taken = self.data[self.at : self.at + length]
        if len(taken) != length:
            raise ValueError("the bytes end too early")
        self.at += length
        return taken

    def number(self) -> int:
        value = 0
        for shift in range(0, 63, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a number is too long")

    def text(self) -> bytes:
        return self.take(self.number())


def holds_files(path: pathlib.Path) -> bool:
    """Whether there is anything but empty folders, which a process that was killed during a release can leave."""
    return not path.is_dir() or any(not below.is_dir() for below in path.rglob("*"))


def release_digests(folder: pathlib.Path) -> set[str]:
    """The digests of the files of a release (names, lengths and bytes), in the forms for statistics and for models."""
    files = sorted((path.relative_to(folder).as_posix().encode(), path) for path in folder.rglob("*") if path.is_file())
    parts = [part for name, path in files for part in (name, path.read_bytes())]
    data = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return {audit_blake3.digest(data).hex(), audit_blake3.derived(BUNDLE, data).hex()}


class Files:
    """The files that the log names."""

    def __init__(self, fault: Callable[[int, str], None], found: Callable[[str], None]) -> None:
        self.fault, self.found = fault, found
        self.releases: dict[str, int] = {}
        self.reports: set[str] = set()
        self.parts: dict[str, Part] = {}
        self.checked = {"releases": 0, "reports": 0, "parts": 0}
        self.parts_here: Optional[bool] = None

    def close(self, directory: pathlib.Path, blocks: bool) -> None:
        self.check_releases(directory / "releases")
        self.parts_here = blocks and (directory / "blocks").is_dir()
        if self.parts_here:
            self.check_parts(directory / "blocks")

    def check_releases(self, store: pathlib.Path) -> None:
        for name, number in sorted(self.releases.items()):
            folder = store / name
            if not folder.is_dir() or not any(folder.iterdir()):
                self.fault(number, f"release {name!r} has no folder with files")
                continue
            self.checked["releases"] += 1
            if name not in release_digests(folder):
                self.fault(number, f"release {name!r}: its files are not those that were released")
        for path in sorted(store.iterdir()) if store.is_dir() else []:
            if path.name == "reports" and path.is_dir():
                self.check_reports(path)
            elif path.name not in self.releases and holds_files(path):
                self.found(f"releases/{path.name} is in the store of releases and no event of the log released it")

    def check_reports(self, folder: pathlib.Path) -> None:
        """Reports are copies of bytes in the log, kept for a restart."""
        for path in sorted(folder.iterdir()):
            digest = audit_blake3.digest(path.read_bytes()).hex() if path.is_file() else ""
            self.checked["reports"] += 1
            if path.name != f"{digest}.json":
                self.found(f"releases/reports/{path.name} has another digest than its name")
            elif digest not in self.reports:
                self.found(f"releases/reports/{path.name} is a report that no event of the log released")

    def check_parts(self, store: pathlib.Path) -> None:
        for path, part in sorted(self.parts.items()):
            file = store / path
            if not file.resolve().is_relative_to(store.resolve()) or not file.is_file():
                self.fault(part.number, f"blocks/{path} is named by the log and is missing")
                continue
            self.checked["parts"] += 1
            if audit_blake3.digest(file.read_bytes()) != part.digest:
                self.fault(part.number, f"blocks/{path} is not the file that was ingested")
