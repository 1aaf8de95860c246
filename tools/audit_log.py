"""Reads the log's file, its hash chain and the bytes of its events, as docs/reference/log-format.md specifies them.

Decoded events are not trusted yet: `audit_ledger.py` checks them. Nothing here writes.
"""

import hashlib
import pathlib
import sqlite3
import urllib.parse
from dataclasses import dataclass
from typing import Callable, Iterator, NamedTuple, Optional, TypeVar

APPLICATION, FORMAT = 0x53414745, 1
WIDE, NARROW = 2**64 - 1, 2**32 - 1
LARGEST_LOSS, ONE_DELTA, ONE_RATE = 10**18, 10**18, 10**12
ORDERS = (
    1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 14,
    16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 192, 256, 512, 1024,
)  # fmt: skip
LANES = ("train", "test")
RULES = ("basic", "strong", "renyi", "fixed")
PARTS = ("epsilon", "delta", "rho", "order", "infinity", "declaration")

# Name, then the least and the largest value of each number, by the mechanism's byte.
LOSS, COUNT = (1, LARGEST_LOSS), (1, NARROW)
MECHANISMS = {
    1: ("pure", LOSS),
    2: ("laplace", LOSS, COUNT),
    3: ("gaussian", LOSS, COUNT, COUNT),
    4: ("sampled", (1, ONE_RATE), LOSS, COUNT, COUNT),
    5: ("zcdp", LOSS),
    6: ("box", (0, LARGEST_LOSS), (0, ONE_DELTA - 1)),
}

Item = TypeVar("Item")
Ranges = tuple[tuple[int, int], ...]
Mechanism = tuple  # its name and its numbers


class Broken(Exception):
    """The log is malformed or altered at this point, and nothing after it can be trusted."""


class Record(NamedTuple):
    number: int
    time: int
    previous: bytes
    body: bytes
    hash: bytes


@dataclass(frozen=True)
class Cost:
    delta: int
    mechanisms: tuple[Mechanism, ...]


class Declaration(NamedTuple):
    blocks: Ranges
    lane: int
    cost: Cost
    times: int


class Part(NamedTuple):
    """A component of a filter: what it counts, its index among those of its kind, and its cap."""

    name: str
    index: int
    cap: int


@dataclass(frozen=True)
class Filter:
    rule: str
    epsilon: int
    delta: int
    parts: tuple[Part, ...]
    declarations: tuple[Declaration, ...]


@dataclass(frozen=True)
class Policy:
    contexts: tuple[tuple[str, Filter], ...]
    joint: Optional[Filter]
    declared: bool
    raw: bytes

    def books(self) -> list[tuple[str, Filter]]:
        return [*self.contexts, *([("joint", self.joint)] if self.joint else [])]


@dataclass(frozen=True)
class Charge:
    key: bytes
    stream: int
    context: int
    blocks: Ranges
    costs: tuple[Optional[Cost], Optional[Cost]]
    declared: bool
    purpose: str
    amounts: tuple[tuple[tuple[int, ...], ...], ...]
    raw: bytes


class Event(NamedTuple):
    name: str
    content: tuple


def records(directory: pathlib.Path) -> Iterator[Record]:
    """The records in order, each after its hash has been verified."""
    path = (directory / "log.db").resolve()
    # Without a write-ahead file no process has the log open; SQLite must then not create files beside it.
    idle = not path.with_name("log.db-wal").exists()
    address = "file:" + urllib.parse.quote(str(path)) + ("?mode=ro&immutable=1" if idle else "?mode=ro")
    connection = sqlite3.connect(address, uri=True)
    try:
        connection.execute("BEGIN")
        for name, wanted in (("application_id", APPLICATION), ("user_version", FORMAT)):
            if connection.execute(f"PRAGMA {name}").fetchone()[0] != wanted:
                raise Broken(f"log.db is not a log of format {FORMAT}: {name} is not {wanted}")
        yield from chained(connection)
        if idle and path.with_name("log.db-wal").exists():
            raise Broken("the log came into use while it was read: run this again")
    except (sqlite3.Error, TypeError, OverflowError) as error:
        raise Broken(f"log.db cannot be read: {error}") from error
    finally:
        connection.close()


def chained(connection: sqlite3.Connection) -> Iterator[Record]:
    length, previous = 0, bytes(32)
    for row in connection.execute("SELECT number, time, previous, body, hash FROM record ORDER BY number"):
        record = Record(row[0], row[1] % 2**64, *map(bytes, row[2:]))
        if record.number != length:
            raise Broken(f"record {length}: missing, the next one has number {record.number}")
        if record.previous != previous:
            raise Broken(f"record {length}: does not name the hash of the record before it")
        hashed = b"sagelog1" + length.to_bytes(8, "little") + record.time.to_bytes(8, "little") + previous + record.body
        if hashlib.sha256(hashed).digest() != record.hash:
            raise Broken(f"record {length}: its hash is not that of its content")
        length, previous = length + 1, record.hash
        yield record
    if connection.execute("SELECT length, hash FROM head").fetchall() != [(length, previous)]:
        raise Broken(f"record {length}: the stored head is not that of the last record")


class Bytes:
    """Decodes one event and refuses every encoding but the canonical one."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise Broken("ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, least: int = 0, most: int = WIDE) -> int:
        value, shift = 0, 0
        while True:
            digit = self.take(1)[0]
            value |= (digit & 127) << shift
            if digit < 128:
                break
            shift += 7
        if digit == 0 and shift:
            raise Broken("a number has redundant digits")
        if not least <= value <= most:
            raise Broken(f"the number {value} is not from {least} to {most}")
        return value

    def choice(self, names: tuple[str, ...]) -> str:
        byte = self.take(1)[0]
        if byte >= len(names):
            raise Broken(f"the byte {byte} means nothing here")
        return names[byte]

    def text(self) -> str:
        try:
            return self.take(self.number()).decode()
        except UnicodeDecodeError as error:
            raise Broken("a text is not UTF-8") from error

    def many(self, read: Callable[[], Item]) -> tuple[Item, ...]:
        # Every item has at least one byte, so a count that is too large ends with "ends too early".
        return tuple(read() for _ in range(self.number()))

    def maybe(self, read: Callable[[], Item]) -> Optional[Item]:
        return read() if self.choice(("none", "some")) == "some" else None

    def blocks(self) -> Ranges:
        ranges, free = [], 0
        for _ in range(self.number(least=1)):
            first = free + self.number()
            last = first + self.number()
            if last > NARROW:
                raise Broken("a block has a number of more than 32 bits")
            ranges.append((first, last))
            free = last + 2
        return tuple(ranges)

    def mechanism(self) -> Mechanism:
        byte = self.take(1)[0]
        if byte == 7:
            bounds = tuple(self.maybe(lambda: self.number(most=LARGEST_LOSS)) for _ in range(len(ORDERS) + 1))
            found: Mechanism = ("curve", bounds, self.number(most=ONE_DELTA - 1))
            free = found[2] == 0 and 0 in bounds
        elif byte in MECHANISMS:
            name, *limits = MECHANISMS[byte]
            found = (name, *(self.number(least, most) for least, most in limits))
            free = not any(found[1:])
        else:
            raise Broken(f"no mechanism has the byte {byte}")
        if free:
            raise Broken("a mechanism that costs nothing")
        return found

    def cost(self) -> Cost:
        cost = Cost(self.number(most=ONE_DELTA - 1), self.many(self.mechanism))
        if not cost.mechanisms:
            raise Broken("a cost without mechanisms")
        return cost

    def part(self) -> Part:
        name = self.choice(PARTS)
        last = {"order": len(ORDERS) - 1, "declaration": NARROW}.get(name)
        return Part(name, 0 if last is None else self.number(most=last), self.number())

    def declaration(self) -> Declaration:
        return Declaration(self.blocks(), LANES.index(self.choice(LANES)), self.cost(), self.number(most=NARROW))

    def filter(self) -> Filter:
        rule, epsilon, delta = self.choice(RULES), self.number(*LOSS), self.number(most=ONE_DELTA - 1)
        found = Filter(rule, epsilon, delta, self.many(self.part), self.many(self.declaration))
        shape = [part.name for part in found.parts if part.name != "order" or rule != "renyi"]
        declared = [("declaration", index, each.times) for index, each in enumerate(found.declarations)]
        wanted = {"basic": ["epsilon", "delta"], "strong": ["rho", "delta"], "renyi": ["delta", "infinity"]}
        if rule == "fixed":
            sound = bool(declared) and list(found.parts) == declared
        else:
            ends = [found.parts[0].name, found.parts[-1].name] if found.parts else []
            sound = not declared and shape == ends == wanted[rule]
        above = {"epsilon": epsilon, "delta": delta, "order": epsilon, "infinity": epsilon}
        if not sound or any(part.cap > above.get(part.name, part.cap) for part in found.parts):
            raise Broken(f"the components of a {rule} filter are not those of its rule, or above its ceiling")
        return found

    def policy(self) -> Policy:
        start = self.at
        contexts = self.many(lambda: (self.text(), self.filter()))
        if not contexts:
            raise Broken("a policy without contexts")
        joint, declared = self.maybe(self.filter), self.choice(("enforced", "declared")) == "declared"
        return Policy(contexts, joint, declared, self.data[start : self.at])

    def charge(self) -> Charge:
        key, stream, context, where = self.take(32), self.number(most=NARROW), self.number(most=NARROW), self.blocks()
        costs = (self.maybe(self.cost), self.maybe(self.cost))
        declared = self.choice(("enforced", "declared")) == "declared"
        if declared:
            self.text(), self.text()
        purpose = self.text()
        amounts = tuple(self.many(lambda: self.many(self.number)) for _ in LANES)
        return Charge(key, stream, context, where, costs, declared, purpose, amounts, self.data[1:])


def event(body: bytes) -> Event:
    """The event in a record's body."""
    left = Bytes(body)
    stream = lambda: left.number(most=NARROW)
    readers: dict[int, tuple] = {
        1: ("created", left.text, left.policy),
        2: ("added", stream, lambda: left.many(left.text)),
        3: ("charged", left.charge),
        4: ("started", left.number),
        5: ("cancelled", left.number),
        6: ("released", left.number, lambda: left.take(32)),
        7: ("burnt", left.number),
        8: ("retired", stream, left.blocks),
        9: ("note", left.text, lambda: left.take(left.number())),
        10: ("changed", stream, left.policy, lambda: left.many(left.text)),
        11: ("snapshot", lambda: left.take(32)),
    }
    byte = left.take(1)[0]
    if byte not in readers:
        raise Broken(f"no event has the byte {byte}")
    name, *parts = readers[byte]
    found = Event(name, tuple(read() for read in parts))
    if left.at != len(body):
        raise Broken("has bytes after its end")
    return found
