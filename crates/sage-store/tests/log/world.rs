//! The fixture of the log tests: one stream, a hundred blocks, and charges on them.

#![allow(dead_code, reason = "every test program uses a part of it")]

use std::path::Path;

use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ContextId, Cost, Delta, Epsilon, Filter, Gate, Log, Mechanism, Policy,
    Request, RequestKey, Rule, StreamId,
};
use sage_store::log::{BoxedLog, Directory, GroupCommit, HeadCheck, Heads, SoundGate};

/// How many blocks the stream has.
pub(crate) const BLOCKS: u32 = 100;

/// How many charges fit on a block: the ceiling divided by the cost of a charge.
pub(crate) const FITTING: u32 = 100_000;

/// A policy under which `fitting` charges of [`request`] fit on every block.
pub(crate) fn policy(fitting: u32) -> Policy {
    let epsilon = Epsilon::ceiling(&format!("{fitting}e-6")).expect("a ceiling");
    let ceiling = Ceiling { epsilon, delta: Delta::ceiling("1e-6").expect("a ceiling") };
    Policy::single(Filter::new(Rule::Basic, ceiling).expect("a filter"), AccessModes::EnforcedOnly)
}

/// Creates the stream and its blocks if the log is empty.
pub(crate) fn create_stream<L: Log>(gate: &mut Gate<L>, fitting: u32) {
    if gate.head().length == 0 {
        let stream = gate.create_stream(1, "rides", policy(fitting)).expect("a new stream");
        gate.add_blocks(2, stream, (0..BLOCKS).map(|block| format!("day={block:03}")).collect()).expect("new blocks");
    }
}

/// A request for all blocks under this key.
pub(crate) fn request(key: &str) -> Request {
    let part = Mechanism::Pure { epsilon: Epsilon::cost("1e-6").expect("a loss") };
    Request {
        key: RequestKey::from_text(key),
        stream: StreamId(0),
        context: ContextId(0),
        blocks: Blocks::range(0, BLOCKS - 1).expect("blocks"),
        costs: [Some(Cost::new(vec![part]).expect("a cost")), None],
        access: AccessMode::Enforced,
        purpose: "test".to_owned(),
    }
}

/// A gate that may grant.
pub(crate) fn sound<L: Log>(gate: Gate<L>, heads: Heads) -> SoundGate<L> {
    match heads.check(gate).expect("heads that can be compared") {
        HeadCheck::Sound(sound) => sound,
        HeadCheck::RolledBack(gate) => panic!("rolled back to {:?}", gate.head()),
    }
}

/// The verified log of a directory.
pub(crate) fn gate(directory: &Path) -> Gate<BoxedLog> {
    Directory::open(directory).expect("a free directory").gate().expect("a valid chain")
}

/// Opens the log of a directory with a stream in it, as a server does.
pub(crate) fn open_group_commit(directory: &Path, heads: Heads) -> GroupCommit<BoxedLog> {
    let mut gate = gate(directory);
    create_stream(&mut gate, FITTING);
    GroupCommit::new(sound(gate, heads), || 3)
}

/// A temporary folder, in memory if the system supports it, for tests that do not need a real disk.
pub(crate) fn memory_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// Whether the long form of a test is requested.
pub(crate) fn soak() -> bool {
    std::env::var_os("SAGE_SOAK").is_some_and(|value| value == "1")
}

/// A pseudorandom generator. Its seed reproduces a run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A generator with the seed `SAGE_SEED`, or a different one in each run. Prints the seed.
    pub(crate) fn seeded() -> Self {
        let given = std::env::var("SAGE_SEED").ok().map(|seed| seed.parse().expect("SAGE_SEED is a number"));
        let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
        println!("SAGE_SEED={seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
