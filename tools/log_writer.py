"""Writes logs of format 1 by hand, for the tests of the auditor.

It is written from docs/reference/log-format.md and shares no code with the auditor, so that the two can disagree. It also
writes invalid logs: every function returns bytes, and a test may cut, swap or replace them.
"""

import hashlib
import pathlib
import sqlite3
from typing import Iterable, Optional, Sequence

NOWHERE = bytes(32)
TOP = 2**64 - 1
RULES = {"basic": 0, "strong": 1, "renyi": 2, "fixed": 3}
PARTS = {"epsilon": 0, "delta": 1, "rho": 2, "order": 3, "infinity": 4, "declaration": 5}
KINDS = {"pure": 1, "laplace": 2, "gaussian": 3, "sampled": 4, "zcdp": 5, "box": 6}


def number(value: int) -> bytes:
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes(digits) + bytes([value])


def numbers(*values: int) -> bytes:
    return b"".join(map(number, values))


def data(value: bytes) -> bytes:
    return number(len(value)) + value


def text(value: str) -> bytes:
    return data(value.encode())


def many(items: Iterable[bytes]) -> bytes:
    items = list(items)
    return number(len(items)) + b"".join(items)


def maybe(item: Optional[bytes]) -> bytes:
    return b"\0" if item is None else b"\1" + item


def blocks(*ranges: tuple[int, int]) -> bytes:
    """Ranges given by their first and last block."""
    written, free = [], 0
    for first, last in ranges:
        written.append(numbers(first - free, last - first))
        free = last + 2
    return many(written)


def mechanism(kind: str, *values: int) -> bytes:
    return bytes([KINDS[kind]]) + numbers(*values)


def curve(bounds: Sequence[Optional[int]], delta: int) -> bytes:
    return b"\7" + b"".join(maybe(None if bound is None else number(bound)) for bound in bounds) + number(delta)


def cost(*mechanisms: bytes, delta: int = 0) -> bytes:
    return number(delta) + many(mechanisms)


def filtered(rule: str, epsilon: int, delta: int, parts: Sequence[tuple], declared: Sequence[bytes] = ()) -> bytes:
    """Each part is a name, for orders and declarations an index, and a cap."""
    written = [bytes([PARTS[name]]) + numbers(*values) for name, *values in parts]
    return bytes([RULES[rule]]) + numbers(epsilon, delta) + many(written) + many(declared)


def basic(epsilon: int, delta: int) -> bytes:
    return filtered("basic", epsilon, delta, [("epsilon", epsilon), ("delta", delta)])


def policy(*contexts: tuple[str, bytes], joint: Optional[bytes] = None, declared: int = 0) -> bytes:
    return many(text(name) + made for name, made in contexts) + maybe(joint) + bytes([declared])


def created(name: str, made: bytes) -> bytes:
    return b"\1" + text(name) + made


def added(stream: int, *keys: str) -> bytes:
    return b"\2" + number(stream) + many(map(text, keys))


ENFORCED = b"\0"


def attested(author: str, reason: str) -> bytes:
    return b"\1" + text(author) + text(reason)


def charged(
    key: str,
    where: bytes,
    costs: Sequence[Optional[bytes]],
    amounts: Sequence[Sequence[Sequence[int]]],
    stream: int = 0,
    context: int = 0,
    access: bytes = ENFORCED,
    purpose: str = "a test",
) -> bytes:
    head = b"\3" + hashlib.sha256(key.encode()).digest() + numbers(stream, context) + where
    lanes = b"".join(many(many(map(number, book)) for book in lane) for lane in amounts)
    return head + maybe(costs[0]) + maybe(costs[1]) + access + text(purpose) + lanes


def started(grant: int) -> bytes:
    return b"\4" + number(grant)


def cancelled(grant: int) -> bytes:
    return b"\5" + number(grant)


def released(grant: int, digest: bytes = bytes(range(32))) -> bytes:
    return b"\6" + number(grant) + digest


def burnt(grant: int) -> bytes:
    return b"\7" + number(grant)


def retired(stream: int, where: bytes) -> bytes:
    return b"\x08" + number(stream) + where


def note(kind: str, body: bytes) -> bytes:
    return b"\x09" + text(kind) + data(body)


def changed(stream: int, made: bytes, *names: str) -> bytes:
    return b"\x0a" + number(stream) + made + many(map(text, names))


def snapshot(digest: bytes) -> bytes:
    return b"\x0b" + digest


Record = tuple[int, int, bytes, bytes, bytes]


def chain(bodies: Sequence[bytes], start: int = 1_700_000_000_000) -> list[Record]:
    records, previous = [], NOWHERE
    for index, body in enumerate(bodies):
        time = start + index
        hashed = b"sagelog1" + index.to_bytes(8, "little") + time.to_bytes(8, "little") + previous + body
        found = hashlib.sha256(hashed).digest()
        records.append((index, time, previous, body, found))
        previous = found
    return records


def store(directory: pathlib.Path, records: Sequence[Record], head: Optional[tuple[int, bytes]] = None) -> None:
    connection = sqlite3.connect(directory / "log.db")
    connection.executescript(
        """PRAGMA application_id = 0x53414745; PRAGMA user_version = 1; PRAGMA journal_mode = wal;
        PRAGMA synchronous = off;
        CREATE TABLE record (number INTEGER PRIMARY KEY, time INTEGER NOT NULL, previous BLOB NOT NULL,
            body BLOB NOT NULL, hash BLOB NOT NULL) STRICT;
        CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), length INTEGER NOT NULL,
            hash BLOB NOT NULL) STRICT;"""
    )
    connection.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?)", records)
    end = head or (len(records), records[-1][4] if records else NOWHERE)
    connection.execute("INSERT INTO head VALUES (1, ?, ?)", end)
    connection.commit()
    connection.close()
