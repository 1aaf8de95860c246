"""A second implementation of the ledger's rules: the order of events, and whether every charge was within its caps.

Unlike the ledger of the kernel, it reports an event that breaks a rule and still applies it, because the result is what
happened to each block, not what should have happened.
"""

import collections
import hashlib
from dataclasses import dataclass, field
from typing import Callable, Iterator, Optional

import audit_price
from audit_log import LANES, Charge, Cost, Event, Filter, Policy, Ranges, Record

# The largest epsilon that a change of policy may set; noise is priced up to it (block.md).
RAISED = 16 * 10**12
STATES = ("charged", "started", "cancelled", "released", "burnt")


@dataclass
class Grant:
    number: int
    charge: Charge
    state: str = "charged"
    digest: bytes = b""
    # Whether its amounts are in the sums; amounts for blocks or books that do not exist are not.
    counted: bool = False


@dataclass
class Stream:
    name: str
    policy: Policy
    keys: list[str] = field(default_factory=list)
    retired: set[int] = field(default_factory=set)
    # Charged and not cancelled, by book, lane and block: one number per component.
    sums: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)
    counts: collections.Counter = field(default_factory=collections.Counter)

    def spent(self, book: int, lane: int, block: int) -> list[int]:
        return self.sums.get((book, lane, block)) or [0] * len(self.policy.books()[book][1].parts)


def every(ranges: Ranges) -> Iterator[int]:
    for first, last in ranges:
        yield from range(first, last + 1)


def fits(found: Filter, sums: list[int]) -> bool:
    """Whether the rule of a filter admits these sums."""
    within = [(part.name, done <= part.cap) for part, done in zip(found.parts, sums)]
    if found.rule != "renyi":
        return all(inside for _, inside in within)
    required = all(inside for name, inside in within if name == "delta")
    return required and any(inside for name, inside in within if name != "delta")


def loosens(old: Filter, new: Filter) -> bool:
    caps = any(after.cap > before.cap for before, after in zip(old.parts, new.parts))
    return caps or new.epsilon > old.epsilon or new.delta > old.delta


def cannot_become(old: Filter, new: Filter) -> Optional[str]:
    """Why a filter cannot be replaced by another one, with any approvals; None if it can."""
    kinds = lambda found: [(part.name, part.index) for part in found.parts]
    if old.rule != new.rule or kinds(old) != kinds(new):
        return "counts by another rule or other components"
    if old.rule == "fixed":
        return "a fixed list does not change"
    if new.epsilon > max(old.epsilon, RAISED):
        return "raises epsilon above 16"
    if old.rule == "renyi":
        # Different shares of delta would cost the sum of both, so all caps move together and delta stays.
        moved = lambda part: max(0, part.cap + new.epsilon - old.epsilon) if part.cap else 0
        wanted = [part.cap if part.name == "delta" else moved(part) for part in old.parts]
        if new.delta != old.delta or [part.cap for part in new.parts] != wanted:
            return "its caps do not move by what its epsilon moves"
    return None


class Ledger:
    """The streams, grants and sums that result from the events."""

    def __init__(self, fault: Callable[[int, str], None]) -> None:
        self.fault = fault
        self.streams: list[Stream] = []
        self.grants: dict[int, Grant] = {}
        self.keys: dict[bytes, int] = {}
        self.prices: collections.Counter = collections.Counter()

    def apply(self, record: Record, found: Event) -> None:
        """Applies one event; notes are applied by the catalog."""
        if found.name in ("started", "cancelled", "released", "burnt"):
            self.step(record.number, found.name, *found.content)
        elif found.name == "snapshot":
            self.snapshot(record, *found.content)
        elif found.name != "note":
            getattr(self, found.name)(record.number, *found.content)

    def known(self, number: int, stream: int) -> Optional[Stream]:
        if stream < len(self.streams):
            return self.streams[stream]
        self.fault(number, f"names stream {stream}, which does not exist")
        return None

    def promise(self, number: int, policy: Policy) -> None:
        for name, found in policy.books():
            broken = audit_price.promised(found)
            if broken:
                self.fault(number, f"the {found.rule} filter of {name} does not keep its ceiling: {broken}")
            if found.rule == "fixed" and not audit_price.listed(found):
                self.prices["fixed lists that plain addition does not bound"] += 1

    def created(self, number: int, name: str, policy: Policy) -> None:
        if any(stream.name == name for stream in self.streams):
            self.fault(number, f"creates stream {name!r} a second time")
        self.promise(number, policy)
        self.streams.append(Stream(name, policy))

    def added(self, number: int, at: int, keys: tuple[str, ...]) -> None:
        stream = self.known(number, at)
        if stream:
            if len({*stream.keys, *keys}) != len(stream.keys) + len(keys):
                self.fault(number, "adds a block whose key is taken")
            stream.keys.extend(keys)

    def retired(self, number: int, at: int, blocks: Ranges) -> None:
        stream = self.known(number, at)
        if stream and self.exist(number, stream, blocks):
            stream.retired.update(every(blocks))

    def exist(self, number: int, stream: Stream, blocks: Ranges) -> bool:
        if blocks[-1][1] < len(stream.keys):
            return True
        self.fault(number, f"names block {blocks[-1][1]}, which stream {stream.name!r} does not have")
        return False

    def changed(self, number: int, at: int, policy: Policy, names: tuple[str, ...]) -> None:
        stream = self.known(number, at)
        if stream is None:
            return
        old, new = stream.policy.books(), policy.books()
        if [name for name, _ in old] != [name for name, _ in new] or bool(stream.policy.joint) != bool(policy.joint):
            self.fault(number, "changes the contexts or the joint book of a policy")
            return
        pairs = [(before, after) for (_, before), (_, after) in zip(old, new)]
        for reason in filter(None, (cannot_become(*pair) for pair in pairs)):
            self.fault(number, f"a policy that cannot follow: {reason}")
        looser = policy.declared > stream.policy.declared or any(loosens(*pair) for pair in pairs)
        if len({name for name in names if name.strip()}) < (2 if looser else 1):
            self.fault(number, "loosens a policy without two names" if looser else "changes a policy without a name")
        self.promise(number, policy)
        if all(len(before.parts) == len(after.parts) for before, after in pairs):
            stream.policy = policy

    def charged(self, number: int, charge: Charge) -> None:
        if charge.key in self.keys:
            self.fault(number, f"uses the key of record {self.keys[charge.key]} again")
        self.keys.setdefault(charge.key, number)
        self.grants[number] = Grant(number, charge)
        stream = self.known(number, charge.stream)
        if stream is None:
            return
        stream.counts["charged"] += 1
        if not self.books(stream, charge):
            self.fault(number, f"names context {charge.context}, which does not exist")
        elif self.exist(number, stream, charge.blocks) and self.sound(number, stream, charge):
            self.grants[number].counted = True
            self.admit(number, stream, charge)

    def books(self, stream: Stream, charge: Charge) -> list[int]:
        """The indices of the books that a charge is entered in."""
        contexts = len(stream.policy.contexts)
        joint = [contexts] if stream.policy.joint else []
        return [charge.context, *joint] if charge.context < contexts else []

    def sound(self, number: int, stream: Stream, charge: Charge) -> bool:
        """Checks a charge apart from its caps; returns false if its amounts cannot be added to any sums."""
        if not stream.retired.isdisjoint(every(charge.blocks)):
            self.fault(number, "charges a retired block")
        if charge.declared and not stream.policy.declared:
            self.fault(number, "uses the attested access mode, which the policy does not allow")
        attested = any(each[0] in ("box", "curve") for cost in charge.costs if cost for each in cost.mechanisms)
        if attested and not charge.declared:
            self.fault(number, "has a cost that must be attested and is not")
        if charge.costs == (None, None):
            self.fault(number, "charges no lane")
        sizes = [len(stream.policy.books()[book][1].parts) for book in self.books(stream, charge)]
        for cost, amounts in zip(charge.costs, charge.amounts):
            if [len(book) for book in amounts] != (sizes if cost else []):
                self.fault(number, "its amounts are not those of its lanes and books")
                return False
        return True

    def admit(self, number: int, stream: Stream, charge: Charge) -> None:
        """Adds the amounts to the sums, checks every sum against the caps, and recomputes the cost."""
        policy = stream.policy.books()
        for lane, cost in enumerate(charge.costs):
            for book, amounts in zip(self.books(stream, charge), charge.amounts[lane]):
                name, found = policy[book]
                for block in every(charge.blocks):
                    sums = [a + b for a, b in zip(stream.spent(book, lane, block), amounts)]
                    stream.sums[book, lane, block] = sums
                    if not fits(found, sums):
                        self.fault(number, f"is more than is left on block {block}, {LANES[lane]} lane, context {name}")
                self.reprice(number, charge, (lane, name, found), amounts, cost)

    def reprice(self, number: int, charge: Charge, book: tuple, amounts: tuple[int, ...], cost: Optional[Cost]) -> None:
        lane, name, found = book
        assert cost is not None, "amounts of a lane without a cost were refused above"
        if found.rule == "fixed":
            self.declared(number, charge, book, amounts)
            return
        wanted = audit_price.price(found, cost)
        for part, amount, least in zip(found.parts, amounts, wanted.components):
            if not audit_price.covers(amount, least):
                what = f"{part.name} {part.index}" if part.name == "order" else part.name
                where = f"{LANES[lane]} lane, context {name}"
                self.fault(number, f"{where}: {what} is charged {amount}, costs {least:.15g}")
        if wanted.missing:
            self.prices["partly priced again, without " + ", ".join(wanted.missing)] += 1
            return
        roundings = len(cost.mechanisms) + 2
        same = all(audit_price.agrees(*pair, roundings) for pair in zip(amounts, wanted.components))
        self.prices["agreed" if same else "charged more than was found"] += 1

    def declared(self, number: int, charge: Charge, book: tuple, amounts: tuple[int, ...]) -> None:
        """A charge on a fixed list uses up one declaration with exactly these blocks, lane and cost."""
        lane, name, found = book
        used = [index for index, amount in enumerate(amounts) if amount]
        right = len(used) == 1 and amounts[used[0]] == 1
        if right:
            named = found.declarations[used[0]]
            right = named.lane == lane and named.cost == charge.costs[lane] and covered(charge.blocks, named.blocks)
        if not right:
            self.fault(number, f"{LANES[lane]} lane, context {name}: is not one use of what was declared")
        self.prices["agreed" if right else "undeclared"] += 1

    def step(self, number: int, name: str, at: int, digest: bytes = b"") -> None:
        grant = self.grants.get(at)
        if grant is None:
            self.fault(number, f"names grant {at}, which does not exist")
            return
        if grant.state != ("started" if name in ("released", "burnt") else "charged"):
            self.fault(number, f"grant {at} is {grant.state} and cannot be {name}")
        stream = self.streams[grant.charge.stream] if grant.charge.stream < len(self.streams) else None
        if stream:
            stream.counts[name] += 1
            if name == "started" and grant.counted:
                self.may_read(number, stream, grant.charge)
            if name == "cancelled" and grant.state == "charged" and grant.counted:
                self.take_back(stream, grant.charge)
        grant.state, grant.digest = name, digest

    def may_read(self, number: int, stream: Stream, charge: Charge) -> None:
        if not stream.retired.isdisjoint(every(charge.blocks)):
            self.fault(number, "starts on a retired block")
        if charge.declared and not stream.policy.declared:
            self.fault(number, "starts in the attested access mode, which the policy does not allow any more")

    def take_back(self, stream: Stream, charge: Charge) -> None:
        for at, amounts in amounts_of(self.books(stream, charge), charge):
            stream.sums[at] = [a - b for a, b in zip(stream.sums[at], amounts)]

    def snapshot(self, record: Record, digest: bytes) -> None:
        if hashlib.sha256(self.state(record)).digest() != digest:
            self.fault(record.number, "commits to a state that is not the one reached here")

    def state(self, record: Record) -> bytes:
        """The bytes of a snapshot of the state before this record."""
        waiting = [grant for _, grant in sorted(self.grants.items()) if grant.state == "charged"]
        parts = [b"sagestat", digits(record.number), record.previous, digits(len(self.streams))]
        for at, stream in enumerate(self.streams):
            parts += [text(stream.name), stream.policy.raw, digits(len(stream.keys)), *map(text, stream.keys)]
            own = [grant for grant in waiting if grant.counted and grant.charge.stream == at]
            parts += [retirement(stream.retired), self.started(stream, own)]
        parts.append(digits(len(self.grants)))
        for number, grant in sorted(self.grants.items()):
            parts += [digits(number), grant.charge.key, bytes([STATES.index(grant.state)]), grant.digest]
        parts += [grant.charge.raw for grant in waiting]
        return b"".join(parts)

    def started(self, stream: Stream, waiting: list[Grant]) -> bytes:
        """The sums of charges that have started: all sums less those of waiting charges."""
        held: dict[tuple[int, int, int], list[int]] = {}
        for grant in waiting:
            for at, amounts in amounts_of(self.books(stream, grant.charge), grant.charge):
                held[at] = [a + b for a, b in zip(held.get(at, [0] * len(amounts)), amounts)]
        written = []
        for book in range(len(stream.policy.books())):
            for lane in range(len(LANES)):
                for block in range(len(stream.keys)):
                    sums = stream.spent(book, lane, block)
                    less = held.get((book, lane, block), [0] * len(sums))
                    written += [(a - b).to_bytes(12, "little") for a, b in zip(sums, less)]
        return b"".join(written)


def amounts_of(books: list[int], charge: Charge) -> Iterator[tuple[tuple[int, int, int], tuple[int, ...]]]:
    for lane, lists in enumerate(charge.amounts):
        for book, amounts in zip(books, lists):
            for block in every(charge.blocks):
                yield (book, lane, block), amounts


def covered(inner: Ranges, outer: Ranges) -> bool:
    return all(any(low <= first and last <= high for low, high in outer) for first, last in inner)


def digits(value: int) -> bytes:
    """A number in the log's encoding."""
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes(written) + bytes([value])


def text(value: str) -> bytes:
    return digits(len(value.encode())) + value.encode()


def retirement(retired: set[int]) -> bytes:
    """The retired blocks, optional: the fewest ranges, each after a gap."""
    ranges: list[list[int]] = []
    for block in sorted(retired):
        if ranges and ranges[-1][1] == block - 1:
            ranges[-1][1] = block
        else:
            ranges.append([block, block])
    written, free = b"", 0
    for first, last in ranges:
        written += digits(first - free) + digits(last - first)
        free = last + 2
    return b"\1" + digits(len(ranges)) + written if ranges else b"\0"
