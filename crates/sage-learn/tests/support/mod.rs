//! Shared by the tests of the learners: permits on one stream, and random numbers for synthetic rows.

#![allow(dead_code, reason = "each test binary uses its part")]

use sage_kernel::noise::SecureNoise;
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, Mechanism,
    MemoryLog, Permit, Policy, Request, RequestKey, Rows, Rule, Session, StreamId,
};

/// A permit for the blocks of a new stream, with the same charge on both lanes.
pub(crate) fn permit(parts: Vec<Mechanism>, blocks: u32) -> Permit {
    let ceiling = Ceiling {
        epsilon: Epsilon::ceiling("20").expect("a ceiling"),
        delta: Delta::ceiling("0.5").expect("a ceiling"),
    };
    let pure = |part: &Mechanism| matches!(part, Mechanism::Pure { .. } | Mechanism::Laplace { .. });
    let rule = if parts.iter().all(pure) { Rule::Basic } else { Rule::Renyi };
    let filter = Filter::new(rule, ceiling).expect("a filter");
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let stream = gate.create_stream(0, "rides", Policy::single(filter, AccessModes::EnforcedOnly)).expect("a stream");
    gate.add_blocks(0, stream, (0..blocks).map(|block| block.to_string()).collect()).expect("blocks");
    let cost = Cost::new(parts).expect("a cost");
    let request = Request {
        key: RequestKey::from_text("one"),
        stream: StreamId(0),
        context: ContextId(0),
        blocks: Blocks::range(0, blocks - 1).expect("blocks"),
        costs: [Some(cost.clone()), Some(cost)],
        access: AccessMode::Enforced,
        purpose: "test".to_owned(),
    };
    match gate.charge(0, vec![request]).expect("a healthy log").remove(0) {
        ChargeOutcome::Granted(grant) => gate.start(0, grant).expect("a start"),
        other => panic!("not granted: {other:?}"),
    }
}

/// A session on these rows.
pub(crate) fn session<R: Rows>(parts: Vec<Mechanism>, train: R, test: R) -> Session<R> {
    let opened = permit(parts, 1).open(noise(), |_| Ok::<_, ()>([vec![train], vec![test]]));
    opened.expect("opens")
}

pub(crate) fn noise() -> SecureNoise {
    SecureNoise::new().expect("randomness")
}

/// Pseudo-random numbers for synthetic rows.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (self.word() % u64::from(bound)) as u32
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Rows of one number.
pub(crate) struct Numbers(pub(crate) Vec<f64>);

impl Rows for Numbers {
    type Row<'rows> = f64;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn row(&self, index: usize) -> f64 {
        self.0[index]
    }
}
