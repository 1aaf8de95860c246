//! Shared by the tests of learners: charged sessions on encoded rows, seeds, and random numbers for synthetic rows.

#![allow(dead_code, reason = "each test binary uses its part")]

use sage_kernel::noise::SeededNoise;
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, MemoryLog,
    Policy, Request, RequestKey, Rule, Session,
};
use sage_learn::encode::Encoded;
use sage_learn::network::Shape;

/// A session on rows of the train lane, under a charge in a stream that admits almost anything.
pub(crate) fn opened(cost: Cost, rows: Vec<Encoded>, noise: SeededNoise) -> Session<Encoded, SeededNoise> {
    let ceiling = Ceiling {
        epsilon: Epsilon::ceiling("40").expect("a ceiling"),
        delta: Delta::ceiling("0.5").expect("a ceiling"),
    };
    let filter = Filter::new(Rule::Renyi, ceiling).expect("a filter");
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let stream = gate.create_stream(0, "rows", Policy::single(filter, AccessModes::EnforcedOnly)).expect("a stream");
    gate.add_blocks(0, stream, vec!["0".to_owned()]).expect("a block");
    let request = Request {
        key: RequestKey::from_text("test"),
        stream,
        context: ContextId(0),
        blocks: Blocks::range(0, 0).expect("a block"),
        costs: [Some(cost), None],
        access: AccessMode::Enforced,
        purpose: "test".to_owned(),
    };
    let outcome = gate.charge(0, vec![request]).expect("the log takes it").remove(0);
    let ChargeOutcome::Granted(grant) = outcome else { panic!("not granted: {outcome:?}") };
    let permit = gate.start(0, grant).expect("starts");
    permit.open(noise, |_| Ok::<_, ()>([rows, Vec::new()])).expect("opens")
}

/// The seed of this run: from `SAGE_SEED` if it is set, and printed so that a run can be repeated.
pub(crate) fn run_seed(test: &str) -> u64 {
    let given = std::env::var("SAGE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(0x5a6e_0001);
    println!("{test}: SAGE_SEED={seed}");
    seed
}

/// Pseudo-random numbers for synthetic rows.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        (self.word() % u64::from(limit)) as u32
    }

    /// Uniform from minus one to one.
    pub(crate) fn signed(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// The generator after the weights of a shape have been drawn from it.
    pub(crate) fn after(mut self, shape: &Shape) -> Self {
        for _ in 0..shape.parameters() {
            self.word();
        }
        self
    }
}
