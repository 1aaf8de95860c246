"""Tests of the auditor: clean logs pass, and every planted fault is found where it was planted.

    python3 -m unittest discover tools

Logs are written by hand (`log_writer.py`), so that the reader is checked against the page and not against itself.
"""

import contextlib
import hashlib
import io
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import audit
import audit_blake3
import audit_log
import audit_price
import log_writer as w

CRATES = HERE.parent / "crates"
EPSILON, DELTA = 10**12, 10**12
PURE = w.mechanism("pure", EPSILON // 10)
# Share 1/2 of half of delta at order 24, as in a filter of (1, 1e-6) that has this order alone.
CAP = int((1 - audit_price.conversion(24, 0.5 * 0.5e-6)) * 1e12) - 1000
RHO = 22_937_446_600


def single(made, **more):
    return w.policy(("default", made), **more)


def renyi(epsilon=EPSILON, order=CAP, delta_cap=DELTA // 2):
    parts = [("delta", delta_cap), ("order", 18, order), ("infinity", epsilon)]
    return w.filtered("renyi", epsilon, DELTA, parts)


def strong(rho=RHO):
    return w.filtered("strong", EPSILON, DELTA, [("rho", rho), ("delta", DELTA // 2)])


DECLARED = w.blocks((0, 1)) + b"\0" + w.cost(PURE) + w.number(3)
FIXED = w.filtered("fixed", EPSILON, DELTA, [("declaration", 0, 3)], [DECLARED])
BASE = [w.created("rides", single(w.basic(EPSILON, DELTA))), w.added(0, "a", "b", "c")]


def pure(key="one", epsilon=EPSILON // 10, amount=None, where=w.blocks((0, 1)), **more):
    """A charge of a pure loss on the train lane under a basic filter."""
    amounts = [[[epsilon if amount is None else amount, 0]], []]
    return w.charged(key, where, [w.cost(w.mechanism("pure", epsilon)), None], amounts, **more)


def under(made, mechanism, amounts, delta=0, access=w.ENFORCED, declared=0):
    """A log with one charge of one mechanism under a filter."""
    charge = w.charged("one", w.blocks((0, 0)), [w.cost(mechanism, delta=delta), None], [[amounts], []], access=access)
    return [w.created("rides", single(made, declared=declared)), w.added(0, "a"), charge]


def changes(before, after, *names):
    return [w.created("rides", before), w.added(0, "a"), w.changed(0, after, *names)]


def up(value):
    return math.ceil(value * 1e12 * (1 + 1e-9))


ATTESTED = w.attested("ada", "a reason")
LAPLACE = w.mechanism("laplace", EPSILON // 10, 3)
GAUSSIAN = w.mechanism("gaussian", 50 * 10**9, 1, 1)
SAMPLED = w.mechanism("sampled", 10**10, 4 * 10**9, 1, 1000)
CONCENTRATED = w.mechanism("zcdp", 10**9)
BOX = w.mechanism("box", EPSILON // 10, 7)
HALF = w.created("r", w.policy(("a", w.basic(EPSILON, DELTA)), ("b", w.basic(EPSILON, DELTA)), joint=w.basic(EPSILON, DELTA)))


def jointly(key, context, epsilon):
    amounts = [[[epsilon, 0], [epsilon, 0]], []]
    return w.charged(key, w.blocks((0, 0)), [w.cost(w.mechanism("pure", epsilon)), None], amounts, context=context)


CLEAN = {
    "nothing": [],
    "a life": BASE + [pure(), w.started(2), w.released(2), pure("two"), w.cancelled(5), pure("three"), w.started(7), w.burnt(7)],
    "exactly the ceiling": BASE + [pure(str(n)) for n in range(10)],
    "budget after a cancel": BASE + [pure(epsilon=EPSILON), w.cancelled(2), pure("two", EPSILON)],
    "two lanes": BASE + [w.charged("k", w.blocks((0, 2)), [w.cost(PURE)] * 2, [[[EPSILON // 10, 0]]] * 2)],
    "ranges": BASE + [pure(where=w.blocks((0, 0), (2, 2)))],
    "retired, others charged": BASE + [w.retired(0, w.blocks((2, 2))), w.retired(0, w.blocks((2, 2))), pure()],
    "retired while it ran": BASE + [pure(), w.started(2), w.retired(0, w.blocks((0, 0))), w.released(2)],
    "retired, then cancelled": BASE + [pure(), w.retired(0, w.blocks((0, 0))), w.cancelled(2)],
    "tightened by one": changes(single(w.basic(EPSILON, DELTA)), single(w.basic(EPSILON - 1, DELTA)), "ada"),
    "loosened by two": changes(single(w.basic(EPSILON, DELTA)), single(w.basic(EPSILON + 1, DELTA)), "ada", "bob"),
    "a filter moved": changes(single(renyi()), single(renyi(2 * EPSILON, CAP + EPSILON)), "ada", "bob"),
    "below what waits": BASE + [pure(), w.changed(0, single(w.basic(5, DELTA)), "ada"), w.started(2)],
    "a joint book": [HALF, w.added(0, "x"), jointly("1", 0, EPSILON // 2), jointly("2", 1, EPSILON // 2)],
    "laplace, basic": under(w.basic(EPSILON, DELTA), LAPLACE, [3 * EPSILON // 10, 0]),
    "laplace, renyi": under(renyi(), LAPLACE, [0, up(3 * audit_price.laplace(24, 0.1)), 3 * EPSILON // 10]),
    "gaussian, renyi": under(renyi(), GAUSSIAN, [1, up(24 / 5000), w.TOP]),
    "gaussian, strong": under(strong(), GAUSSIAN, [up(1 / 5000), 1]),
    "gaussian, basic": under(w.basic(EPSILON, DELTA), GAUSSIAN, [up(audit_price.gaussian_epsilon(0.02, 1e-9)), 10**9], 10**9),
    "sampled, renyi": under(renyi(), SAMPLED, [1, up(1000 * audit_price.sampled(24, 0.01, 4)), w.TOP]),
    "concentrated, strong": under(strong(), CONCENTRATED, [10**9, 0]),
    "pure, strong": under(strong(), PURE, [up(0.1 * math.tanh(0.05)), 0]),
    "a box, attested": under(w.basic(EPSILON, DELTA), BOX, [EPSILON // 10, 7], access=ATTESTED, declared=1),
    "a curve": under(renyi(), w.curve([None] * 18 + [5] + [None] * 14, 3), [3, 5, w.TOP], access=ATTESTED, declared=1),
    "declared before": [w.created("r", single(FIXED)), w.added(0, "a", "b")]
    + [w.charged(str(n), w.blocks((0, n % 2)), [w.cost(PURE), None], [[[1]], []]) for n in range(3)],
}

# Each violation, and a part of the message that must report it.
FAULTS = {
    "above the cap": (BASE + [pure(str(n)) for n in range(11)], "record 12: is more than is left on block 0"),
    "above the joint cap": ([HALF, w.added(0, "x"), jointly("1", 0, EPSILON // 2), jointly("2", 1, EPSILON // 2 + 1)], "joint"),
    "above delta": (under(renyi(), BOX, [DELTA, 1, EPSILON // 10], access=ATTESTED, declared=1), "is more than is left"),
    "above every order": (under(renyi(), GAUSSIAN, [1, CAP + 1, w.TOP]), "is more than is left"),
    "on a retired block": (BASE + [w.retired(0, w.blocks((1, 1))), pure()], "record 3: charges a retired block"),
    "started on a retired block": (BASE + [pure(), w.retired(0, w.blocks((1, 1))), w.started(2)], "starts on a retired"),
    "cancelled after the start": (BASE + [pure(), w.started(2), w.cancelled(2)], "is started and cannot be cancelled"),
    "started twice": (BASE + [pure(), w.started(2), w.started(2)], "is started and cannot be started"),
    "started after a cancel": (BASE + [pure(), w.cancelled(2), w.started(2)], "is cancelled and cannot be started"),
    "released without a start": (BASE + [pure(), w.released(2)], "is charged and cannot be released"),
    "burnt without a start": (BASE + [pure(), w.burnt(2)], "is charged and cannot be burnt"),
    "released twice": (BASE + [pure(), w.started(2), w.released(2), w.released(2)], "is released and cannot be"),
    "no such grant": (BASE + [pure(), w.started(1)], "names grant 1, which does not exist"),
    "the same key": (BASE + [pure(), pure()], "record 3: uses the key of record 2 again"),
    "the same key for another": (BASE + [pure(), pure(epsilon=5)], "uses the key of record 2 again"),
    "the key of a cancelled one": (BASE + [pure(), w.cancelled(2), pure()], "uses the key"),
    "an unknown stream": (BASE + [pure(stream=1)], "names stream 1"),
    "an unknown context": (BASE + [pure(context=1)], "names context 1"),
    "an unknown block": (BASE + [pure(where=w.blocks((3, 3)))], "names block 3"),
    "far too many blocks": (BASE + [pure(where=w.blocks((0, 2**32 - 1))), w.started(2)], "names block 4294967295"),
    "a block again": (BASE + [w.added(0, "a")], "adds a block whose key is taken"),
    "a stream again": (BASE + [BASE[0]], "a second time"),
    "a mode that is not allowed": (BASE + [pure(access=ATTESTED)], "uses the attested access mode"),
    "a mode that was withdrawn": (
        [w.created("r", single(w.basic(EPSILON, DELTA), declared=1)), w.added(0, "a", "b"), pure(access=ATTESTED)]
        + [w.changed(0, single(w.basic(EPSILON, DELTA)), "ada"), w.started(2)],
        "starts in the attested access mode",
    ),
    "not attested": (under(w.basic(EPSILON, DELTA), BOX, [EPSILON // 10, 7], declared=1), "must be attested"),
    "no lane": (BASE + [w.charged("k", w.blocks((0, 0)), [None, None], [[], []])], "charges no lane"),
    "amounts of another lane": (BASE + [w.charged("k", w.blocks((0, 0)), [w.cost(PURE), None], [[], [[5, 0]]])], "its amounts"),
    "loosened by one": (changes(single(w.basic(5, 5)), single(w.basic(6, 5)), "ada"), "without two names"),
    "loosened by one, twice": (changes(single(w.basic(5, 5)), single(w.basic(6, 5)), "ada", "ada"), "without two names"),
    "loosened by one and nobody": (changes(single(w.basic(5, 5)), single(w.basic(6, 5)), "ada", ""), "without two names"),
    "a mode allowed by one": (changes(single(w.basic(5, 5)), single(w.basic(5, 5), declared=1), "ada"), "without two names"),
    "changed by nobody": (changes(single(w.basic(5, 5)), single(w.basic(4, 5))), "without a name"),
    "raised too far": (changes(single(w.basic(5, 5)), single(w.basic(17 * EPSILON, 5)), "ada", "bob"), "above 16"),
    "another rule": (changes(single(w.basic(EPSILON, DELTA)), single(strong()), "ada", "bob"), "another rule"),
    "another context": (changes(single(w.basic(5, 5)), w.policy(("x", w.basic(5, 5))), "ada", "bob"), "changes the contexts"),
    "caps moved by more": (changes(single(renyi()), single(renyi(2 * EPSILON, CAP + EPSILON + 1)), "a", "b"), "do not move"),
    "a cap too high, renyi": ([w.created("r", single(renyi(order=CAP + 10**11)))], "does not keep its ceiling"),
    "a cap too high, strong": ([w.created("r", single(strong(RHO * 2)))], "does not keep its ceiling"),
    "a pure loss below its cost": (BASE + [pure(amount=EPSILON // 10 - 1)], "epsilon is charged"),
    "laplace below its cost": (under(w.basic(EPSILON, DELTA), LAPLACE, [EPSILON // 10, 0]), "epsilon is charged"),
    "laplace below its curve": (under(renyi(), LAPLACE, [0, up(2.9 * audit_price.laplace(24, 0.1)), EPSILON]), "order 18"),
    "gaussian below its curve": (under(renyi(), GAUSSIAN, [1, up(23 / 5000), w.TOP]), "order 18 is charged"),
    "gaussian with a bound": (under(renyi(), GAUSSIAN, [1, up(24 / 5000), 5]), "infinity is charged 5"),
    "gaussian without deviation": (under(renyi(), GAUSSIAN, [0, up(24 / 5000), w.TOP]), "delta is charged 0"),
    "gaussian below its rho": (under(strong(), GAUSSIAN, [up(0.9 / 5000), 1]), "rho is charged"),
    "gaussian below its epsilon": (under(w.basic(EPSILON, DELTA), GAUSSIAN, [10**10, 10**9], 10**9), "epsilon is charged"),
    "sampled below its curve": (under(renyi(), SAMPLED, [1, up(999 * audit_price.sampled(24, 0.01, 4)), w.TOP]), "order 18"),
    "a curve below itself": (under(renyi(), w.curve([9] * 33, 3), [3, 8, 9], access=ATTESTED, declared=1), "order 18"),
    "what was not declared": (
        [w.created("r", single(FIXED)), w.added(0, "a", "b"), w.charged("k", w.blocks((0, 0)), [w.cost(LAPLACE), None], [[[1]], []])],
        "not one use of what was declared",
    ),
    "redundant digits": (BASE + [b"\x04\x82\x00"], "redundant digits"),
    "trailing bytes": (BASE + [pure() + b"\0"], "record 2: has bytes after its end"),
    "a cut event": (BASE + [pure()[:-1]], "ends too early"),
    "no event": (BASE + [b""], "ends too early"),
    "an unknown event": (BASE + [b"\x0c"], "no event has the byte 12"),
    "an unknown mechanism": (BASE + [pure().replace(b"\1" + w.number(EPSILON // 10), b"\x09" + w.number(EPSILON // 10), 1)], "no mech"),
    "text that is none": ([b"\x09\x01\xff\x00"], "not UTF-8"),
    "a number too large": (BASE + [w.started(2**64)], "is not from 0 to"),
    "a mechanism for nothing": (BASE + [pure(epsilon=0)], "is not from 1 to"),
    "no blocks": (BASE + [pure(where=w.blocks())], "is not from 1 to"),
    "a filter out of shape": ([w.created("r", single(w.filtered("basic", 5, 5, [("delta", 5), ("epsilon", 5)])))], "components"),
    "a cap above the ceiling": ([w.created("r", single(w.filtered("basic", 5, 5, [("epsilon", 6), ("delta", 5)])))], "components"),
    "a false snapshot": (BASE + [w.snapshot(bytes(32))], "record 2: commits to a state"),
    "a note that is no JSON": ([w.note("catalog", b"{")], "cannot be read"),
}


def framed(files):
    """Names and contents as a release's digest takes them."""
    parts = [part for name, content in sorted(files.items()) for part in (name.encode(), content)]
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


class Directory(unittest.TestCase):
    """A directory of its own for each test."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def audited(self, records, head=None, kept=None):
        """The result and the exit code for a log of these records."""
        (self.directory / "log.db").unlink(missing_ok=True)
        w.store(self.directory, records, kept)
        return self.printed([str(self.directory), "--json", *(["--head", head] if head else [])])

    def printed(self, arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = audit.main(arguments)
        return json.loads(out.getvalue()), code

    def assertFound(self, records, what, **more):
        result, code = self.audited(records, **more)
        self.assertEqual((code, result["agreed"]), (1, False), what)
        self.assertTrue(any(what in each for each in result["violations"]), (what, result["violations"]))


class Logs(Directory):
    def test_clean_logs_pass(self):
        for name, bodies in CLEAN.items():
            with self.subTest(name):
                result, code = self.audited(w.chain(bodies))
                self.assertEqual((code, result["violations"]), (0, []))
                self.assertEqual(set(result["prices"]) - {"agreed", "charged more than was found"}, set())

    def test_planted_faults_are_found(self):
        for name, (bodies, what) in FAULTS.items():
            with self.subTest(name):
                self.assertFound(w.chain(bodies), what)

    def test_sums_are_those_of_the_charges(self):
        bodies = CLEAN["a life"] + [pure("four", where=w.blocks((1, 1)))]
        stream = self.audited(w.chain(bodies))[0]["streams"][0]
        book = stream["books"][0]
        self.assertEqual([stream[name] for name in ("charged", "cancelled", "released", "burnt")], [4, 1, 1, 1])
        self.assertEqual((book["epsilon_largest"], book["block"], book["lane"]), (0.3, "b", "train"))

    def test_losses_are_stated_at_the_ceiling(self):
        half = CAP // 2
        for made, amounts, wanted in [
            (renyi(), [1, half, w.TOP], (half + EPSILON - CAP) / 1e12),
            (renyi(), [1, CAP, EPSILON // 4], 0.25),
            (strong(), [RHO, 1], 1.0),
        ]:
            result = self.audited(w.chain(under(made, GAUSSIAN, amounts)))[0]
            self.assertAlmostEqual(result["streams"][0]["books"][0]["epsilon_largest"], wanted, places=8)

    def test_damage_to_the_chain_is_found(self):
        sound = w.chain(CLEAN["a life"])
        number, time, previous, body, found = sound[3]
        for name, records, what in [
            ("a flipped bit", [*sound[:3], (3, time, previous, bytes([body[0] ^ 1]) + body[1:], found), *sound[4:]], "record 3: its hash"),
            ("another time", [*sound[:3], (3, time + 1, previous, body, found), *sound[4:]], "record 3: its hash"),
            ("a dropped record", sound[:3] + sound[4:], "record 3: missing"),
            ("a dropped first record", sound[1:], "record 0: missing"),
            ("swapped records", [*sound[:3], (3, *sound[4][1:]), (4, *sound[3][1:]), *sound[5:]], "record 3: does not name"),
            ("a repeated record", [*sound[:4], (4, *sound[3][1:]), *((n + 1, *rest) for n, *rest in sound[4:])], "record 4: does not"),
        ]:
            with self.subTest(name):
                self.assertFound(records, what)

    def test_a_cut_tail_is_found_by_the_file_or_by_a_head(self):
        sound = w.chain(CLEAN["a life"])
        end = (len(sound), sound[-1][4])
        self.assertFound(sound[:-1], "the stored head is not that of the last record", kept=end)
        self.assertFound(sound[:-1], "the given head is not in this log", head=f"{end[0]}:{end[1].hex()}")
        for length in (0, 1, len(sound)):
            before = sound[length - 1][4] if length else bytes(32)
            self.assertEqual(self.audited(sound, head=f"{length}:{before.hex()}")[1], 0)

    def test_a_policy_that_was_rewritten_and_chained_anew_is_found_by_any_exported_head(self):
        """A writer of the log can rewrite the hash chain: only an exported head shows that."""
        spent = [pure(), w.started(2), w.released(2)]
        true = w.chain(BASE + spent)
        forged = w.chain([w.created("rides", single(w.basic(16 * EPSILON, DELTA))), BASE[1]] + spent)
        self.assertEqual(self.audited(forged)[1], 0)
        for number, _, _, _, found in true:
            file = self.directory / "head"
            file.write_text(f"sage-head-2 {number + 1} {found.hex()} 0 {'0' * 64} {'0' * 128}\n")
            self.assertEqual(self.audited(true, head=str(file))[1], 0)
            self.assertFound(forged, "the given head is not in this log", head=str(file))
        # The heads of a bundle are compared without asking.
        (self.directory / "heads").mkdir()
        file.rename(self.directory / "heads" / "0")
        self.assertEqual(self.audited(true)[0]["heads_checked"], 1)
        self.assertFound(forged, "the given head is not in this log")

    def test_every_kind_of_flipped_bit_is_an_answer(self):
        """Bytes that are not an event are refused, whatever they are: no other exception comes out."""
        lines = (CRATES / "sage-kernel/tests/golden/format-1.txt").read_text().splitlines()
        read = 0
        for body in (bytes.fromhex(line.split()[1]) for line in lines):
            for bit in range(len(body) * 8):
                other = bytearray(body)
                other[bit // 8] ^= 1 << bit % 8
                try:
                    audit_log.event(bytes(other))
                    read += 1
                except audit_log.Broken:
                    pass
        self.assertGreater(read, 0)

    def test_the_golden_events_are_read(self):
        previous, names = bytes(32), []
        for number, line in enumerate((CRATES / "sage-kernel/tests/golden/format-1.txt").read_text().splitlines()):
            time, body, found = line.split()
            self.assertEqual(w.chain([bytes.fromhex(body)])[0][3].hex(), body)
            said = b"sagelog1" + number.to_bytes(8, "little") + int(time).to_bytes(8, "little") + previous + bytes.fromhex(body)
            self.assertEqual(hashlib.sha256(said).hexdigest(), found)
            previous = bytes.fromhex(found)
            names.append(audit_log.event(bytes.fromhex(body)).name)
        self.assertEqual(len(set(names)), 11)

    def test_the_golden_file_is_clean(self):
        shutil.copy(CRATES / "sage-store/tests/golden/log-format-1.db", self.directory / "log.db")
        result, code = self.printed([str(self.directory), "--json"])
        self.assertEqual((code, result["head"]["length"], result["prices"]), (0, 8, {"agreed": 2}))
        self.assertEqual([each.name for each in self.directory.iterdir()], ["log.db"])

    def test_a_true_snapshot_passes(self):
        bodies = BASE + [pure(), w.started(2), pure("two"), w.retired(0, w.blocks((2, 2)))]
        records = w.chain(bodies)
        name, made = w.text("rides"), single(w.basic(EPSILON, DELTA))
        spent = b"".join((EPSILON // 10 if n in (0, 2) else 0).to_bytes(12, "little") for n in range(12))
        state = b"sagestat" + w.number(6) + records[-1][4] + w.number(1) + name + made
        state += w.many(map(w.text, "abc")) + b"\1" + w.blocks((2, 2)) + spent + w.number(2)
        for number, key, stage in ((2, b"one", 1), (4, b"two", 0)):
            state += w.number(number) + hashlib.sha256(key).digest() + bytes([stage])
        state += pure("two")[1:]
        result, code = self.audited(w.chain([*bodies, w.snapshot(hashlib.sha256(state).digest())]))
        self.assertEqual((code, result["violations"]), (0, []))

    def test_wrong_usage_is_an_error(self):
        for arguments in ([], [str(self.directory)], [str(self.directory), "--head", "5"]):
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit) as left:
                audit.main(arguments)
            self.assertEqual(left.exception.code, 2)

    def test_it_runs_as_a_program_and_speaks_to_people(self):
        w.store(self.directory, w.chain(CLEAN["a life"]))
        ran = subprocess.run([sys.executable, str(HERE / "audit.py"), str(self.directory)], capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stderr, ran.stdout.splitlines()[-1]), (0, "", "agreed"))
        self.assertIn("largest loss 0.2 (block 'a', train lane), ceiling 1 at delta 1e-06", ran.stdout)


class Loop(Directory):
    """A run of a pipeline, from the choice to the release."""

    FILES = {"graph.json": b"{}", "model.onnx": b"weights" * 300, "tables/speed.parquet": b"PAR1 0.5 PAR1"}
    RELEASE = audit_blake3.derived("sage bundle 1", framed(FILES)).hex()
    STATISTIC = {"receipt.json": b"{}", "statistic.json": b'{"lines":[]}', "statistic.parquet": b"PAR1 17 PAR1"}

    def report(self, verdict="accept", **more):
        release = self.RELEASE if verdict == "accept" else None
        found = {"run": 1, "serial": 1, "verdict": verdict, "estimates": [{"value": 0.25, "low": None, "high": 1e-7}]}
        return {**found, "confidence": 0.95, "explanation": 'a "word"', "release": release, **more}

    def step(self, **step):
        return w.note("catalog", self.form({"note": "run-stepped", "run": 1, "step": step}))

    def form(self, value):
        return json.dumps(value, separators=(",", ":")).encode()

    def run_of(self, report, released=None, key="run 1 attempt 1", purpose="run 1 of line"):
        content = self.form(report) if released is None else released
        shutil.rmtree(self.directory / "releases", ignore_errors=True)
        (self.directory / "releases").mkdir()
        if report["release"] == self.RELEASE:
            self.shelve(self.RELEASE, self.FILES)
        reports = self.directory / "releases" / "reports"
        reports.mkdir()
        (reports / f"{audit_blake3.digest(content).hex()}.json").write_bytes(content)
        chosen = self.step(step="chosen", attempt={"serial": 1}, blocks=[[0, 1]], resources=[0, 0, 0, 0])
        charge = pure(key, purpose=purpose)
        return BASE + [chosen, charge, self.step(step="charged"), w.started(3)] + [
            w.released(3, audit_blake3.digest(content)), self.step(step="judged", report=report)
        ]  # fmt: skip

    def shelve(self, digest, files):
        for name, content in files.items():
            path = self.directory / "releases" / digest / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def test_a_statistic_passes(self):
        digest = audit_blake3.digest(framed(self.STATISTIC)).hex()
        records = w.chain(self.run_of(self.report(release=digest)))
        self.shelve(digest, self.STATISTIC)
        result, code = self.audited(records)
        self.assertEqual((code, result["violations"], result["files_checked"]["releases"]), (0, [], 1))
        (self.directory / "releases" / digest / "statistic.parquet").write_bytes(b"PAR1 18 PAR1")
        self.assertFound(records, "its files are not those that were released")

    def test_releases_that_are_not_what_the_log_says_are_found(self):
        """Altered weights, a missing model file, a changed feature table and a smuggled release were all "agreed"."""
        records = w.chain(self.run_of(self.report()))
        folder = self.directory / "releases" / self.RELEASE
        other = {**self.FILES, "model.onnx": b"another model"}
        changed, smuggled = "its files are not those that were released", "no event of the log released it"
        for name, plant, what in [
            ("altered weights", lambda: (folder / "model.onnx").write_bytes(b"weightz" + b"weights" * 299), changed),
            ("a missing file", lambda: (folder / "model.onnx").unlink(), changed),
            ("a changed table", lambda: (folder / "tables/speed.parquet").write_bytes(b"PAR1 0.6 PAR1"), changed),
            ("one file more", lambda: (folder / "rows.parquet").touch(), changed),
            ("a renamed file", lambda: (folder / "graph.json").rename(folder / "graph.txt"), changed),
            ("no file", lambda: shutil.rmtree(folder), "has no folder with files"),
            ("a smuggled release", lambda: self.shelve(audit_blake3.derived("sage bundle 1", framed(other)).hex(), other), smuggled),
            ("a smuggled file", lambda: (self.directory / "releases" / "model.onnx").touch(), smuggled),
            ("a forged report", lambda: (self.directory / "releases/reports/x.json").touch(), "another digest than its name"),
            ("a smuggled report", lambda: (self.directory / "releases/reports" / f"{audit_blake3.digest(b'{}').hex()}.json").write_bytes(b"{}"), "no event"),
        ]:
            with self.subTest(name):
                self.assertEqual(self.audited(records)[1], 0)
                plant()
                self.assertFound(records, what)
                shutil.rmtree(self.directory / "releases")
                self.run_of(self.report())

    def test_an_empty_folder_of_a_killed_process_is_no_release(self):
        """A process killed between making the folder of a release and its first file left a "violation"."""
        records = w.chain(self.run_of(self.report()))
        left = self.directory / "releases" / ("cd" * 32) / "tables"
        left.mkdir(parents=True)
        result, code = self.audited(records)
        self.assertEqual((code, result["violations"]), (0, []))
        (left / "speed.parquet").touch()
        self.assertFound(records, "no event of the log released it")

    def test_a_release_under_a_name_of_another_stream_is_found(self):
        submitted = lambda stream: w.note(
            "catalog", self.form({"note": "run-submitted", "stream": stream, "text": f'[pipeline]\nname = "line"\nstream = "{stream}"\n'})
        )
        for first, found in [("rides", 0), ("walks", 1)]:
            run = self.run_of(self.report(run=2), key="run 2 attempt 1", purpose="run 2 of line")
            run = [body.replace(b'"run":1,"step"', b'"run":2,"step"') for body in run]
            run = [(w.note("catalog", body[body.index(b"{") :]) if body[0] == 9 else body) for body in run]
            bodies = run[:2] + [submitted(first), submitted("rides")] + run[2:5] + [w.started(5), w.released(5, run[6][-32:])] + run[7:]
            result, code = self.audited(w.chain(bodies))
            self.assertEqual(code, found, result["violations"])
            self.assertEqual(any("under a name of stream 'walks'" in each for each in result["violations"]), bool(found))

    def test_a_model_that_is_tested_again_is_accepted_without_a_release(self):
        text = '[pipeline]\nname = "again"\nstream = "rides"\n\n[train]\nkind = "release"\nrelease = "line@1"\n'
        submitted = w.note("catalog", self.form({"note": "run-submitted", "stream": "rides", "text": text}))
        run = self.run_of(self.report(release=None), purpose="run 1 of again")
        bodies = run[:2] + [submitted] + run[2:5] + [w.started(4), w.released(4, run[6][-32:])] + run[7:]
        self.assertEqual(self.audited(w.chain(bodies))[0]["violations"], [])

    def test_parts_of_blocks_have_their_digests(self):
        rows, aside = b"PAR1 rows PAR1", b"PAR1 aside PAR1"
        name = f"part-{audit_blake3.digest(b'b1').hex()[:16]}-0.parquet"
        listed = lambda block, content: b"\x01\x00" + bytes([len(block)]) + block + b"\x00" + audit_blake3.digest(content)
        manifest = b"\x01\x02b1" + listed(b"day=1", rows) + listed(b"_quarantine", aside)
        note = lambda **more: w.note("catalog", self.form({"stream": "rides", "by": "dan", **more}))
        bodies = BASE + [note(note="rows-ingested", manifest=manifest.hex())]
        parts = {"day=1": rows, "_quarantine": aside}
        for block, content in parts.items():
            (self.directory / "blocks/rides" / block).mkdir(parents=True)
            (self.directory / "blocks/rides" / block / name).write_bytes(content)
        result, code = self.audited(w.chain(bodies))
        self.assertEqual((code, result["violations"], result["files_checked"]["parts"]), (0, [], 2))
        for block, content in parts.items():
            file = self.directory / "blocks/rides" / block / name
            file.write_bytes(content + b" ")
            self.assertFound(w.chain(bodies), "is not the file that was ingested")
            file.unlink()
            self.assertFound(w.chain(bodies), "is missing")
            file.write_bytes(content)
        (self.directory / "blocks/rides/day=1" / name).unlink()
        deleted = note(note="blocks-deleted", blocks=["day=1"])
        self.assertEqual(self.audited(w.chain(bodies + [deleted]))[1], 0)

    def test_a_run_passes(self):
        for report in (self.report(), self.report("retry"), self.report(explanation="long " * 1000)):
            result, code = self.audited(w.chain(self.run_of(report)))
            self.assertEqual((code, result["violations"], result["judged_reports"]), (0, [], 1))

    def test_planted_faults_of_runs_are_found(self):
        sound = self.run_of(self.report())
        again = BASE + [sound[2], sound[3], w.started(3), sound[6], pure("x"), w.started(6), w.released(6, sound[6][-32:]), sound[7]]
        for name, bodies, what in [
            ("another report", self.run_of(self.report(), self.form(self.report("retry"))), "of 0 releases"),
            ("released twice", again, "of 2 releases"),
            ("not released", sound[:6] + sound[7:], "of 0 releases"),
            ("another's charge", self.run_of(self.report(), key="other", purpose=""), "by a grant of something else"),
            ("noted as charged", sound[:3] + [sound[4]], "noted as charged and is not"),
            ("charged under another key", self.run_of(self.report(), key="other"), "no attempt of it was chosen"),
            ("charged unchosen", BASE + [pure("run 1 attempt 1", purpose="run 1 of line")], "no attempt of it was chosen"),
            ("charged twice", sound + [pure("more", purpose="run 1 of line")], "no attempt of it was chosen"),
            ("chosen twice", sound[:3] + [sound[2]], "is chosen twice"),
            ("accepted, nothing released", self.run_of(self.report(release=None)), "accepted without a release"),
            ("of another run", self.run_of(self.report(run=2)), "names run 2"),
            ("no folder", self.run_of(self.report(release="cd" * 32)), "has no folder"),
            ("a folder elsewhere", self.run_of(self.report(release="../releases")), "has no folder"),
        ]:
            with self.subTest(name):
                self.assertFound(w.chain(bodies), what)

    def test_a_count_is_the_content_of_a_release(self):
        count = self.form({"note": "units-counted", "stream": "rides", "level": 0, "first": 0, "train": 3, "test": 4})
        bodies = BASE + [pure(), w.started(2), w.released(2, audit_blake3.digest(count)), w.note("catalog", count)]
        self.assertEqual(self.audited(w.chain(bodies))[1], 0)
        self.assertFound(w.chain(bodies[:-1] + [w.note("catalog", count.replace(b"3", b"5"))]), "of 0 releases")

    def test_an_answer_is_the_content_of_a_release_under_its_own_key(self):
        answer = self.form({"note": "query-answered", "stream": "rides", "key": "k", "by": "mia", "answer": {"lines": []}})
        of = lambda key: BASE + [pure(key), w.started(2), w.released(2, audit_blake3.digest(answer)), w.note("catalog", answer)]
        own = of("asked: query of mia: k")
        self.assertEqual(self.audited(w.chain(own))[1], 0)
        self.assertFound(w.chain(of("asked: query of mia: other")), "by a grant of something else")
        self.assertFound(w.chain(own[:-1] + [w.note("catalog", answer.replace(b"rides", b"walks"))]), "of 0 releases")


class Numbers(unittest.TestCase):
    """Formulas against values computed elsewhere, with many digits."""

    def test_digests_are_the_published_ones(self):
        for length, wanted in [
            (0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
            (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"),
            (1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"),
            (1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"),
            (3073, "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3"),
            (5120, "9cadc15fed8b5d854562b26a9536d9707cadeda9b143978f319ab34230535833"),
        ]:
            self.assertEqual(audit_blake3.digest(bytes(n % 251 for n in range(length))).hex(), wanted)

    def test_derived_digests_are_the_published_ones(self):
        context = "BLAKE3 2019-12-27 16:29:52 test vectors context"
        for length, wanted in [
            (0, "2cc39783c223154fea8dfb7c1b1660f2ac2dcbd1c1de8277b0b0dd39b7e50d7d"),
            (2049, "2ea477c5515cc3dd606512ee72bb3e0e758cfae7232826f35fb98ca1bcbdf273"),
        ]:
            self.assertEqual(audit_blake3.derived(context, bytes(n % 251 for n in range(length))).hex(), wanted)

    def test_formulas_have_their_values(self):
        for found, wanted in [
            (audit_price.pure(2, 0.1), 0.009958584394956255),
            (audit_price.pure(24, 0.1), 0.07237641322157899),
            (audit_price.laplace(2, 0.1), 0.009644207840344587),
            (audit_price.laplace(24, 0.1), 0.0711558594851797),
            (audit_price.sampled(2, 0.01, 1.0), 0.00017181342207454794),
            (audit_price.sampled(8, 0.01, 1.0), 0.0008936439076060318),
            (audit_price.sampled(32, 0.01, 1.0), 11.24627593704807),
            (audit_price.sampled(1024, 0.01, 1.0), 507.39032818137656),
            (audit_price.sampled(16, 0.1, 2.0), 0.04529183908362197),
            (audit_price.conversion(10, 1e-6) + 0.1, 1.273853424894421),
            (audit_price.concentrated(0.0229374466887, 5e-7), 1),
            (audit_price.concentrated(1.3066703534729, 5e-8), 10),
            (audit_price.gaussian_epsilon(1 / 4.224678889326835, 1e-6), 1),
            (audit_price.gaussian_epsilon(1 / 0.652935384358216, 1e-6), 8),
        ]:
            self.assertAlmostEqual(found / wanted, 1, delta=1e-11)

    def test_small_losses_do_not_cancel(self):
        for epsilon in (1e-3, 1e-6, 1e-9, 1e-12):
            for order in (1.25, 2, 24):
                self.assertAlmostEqual(audit_price.pure(order, epsilon) / (order * epsilon**2 / 2), 1, delta=order * epsilon)
                self.assertAlmostEqual(audit_price.laplace(order, epsilon) / (order * epsilon**2 / 2), 1, delta=order * epsilon)

    def test_large_losses_are_continuous(self):
        for formula in (audit_price.pure, audit_price.laplace):
            for order in (1.25, 2, 24, 1024):
                edge = 600 / (order if formula is audit_price.pure else order - 1)
                self.assertAlmostEqual(formula(order, edge * (1 - 1e-12)) / formula(order, edge * (1 + 1e-12)), 1, delta=1e-9)
                self.assertLessEqual(formula(order, 1e6), 1e6)

    def test_shares_undo_conversions(self):
        for order in audit_log.ORDERS:
            self.assertAlmostEqual(audit_price.share(order, audit_price.conversion(order, 1e-7)) / 1e-7, 1, delta=1e-9)


if __name__ == "__main__":
    unittest.main()
