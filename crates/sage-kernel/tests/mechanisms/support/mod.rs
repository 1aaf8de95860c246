//! Shared by the tests of the mechanisms: rows, charges, seeds and the public grids.

pub(crate) mod distinguish;

use sage_kernel::noise::{SeededNoise, uniform_below};
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, Mechanism,
    MemoryLog, Permit, Policy, Rate, Request, RequestKey, Rows, Rule, Session, Sigma, StreamId,
};

/// A batch of rows of numbers.
#[derive(Clone, Debug)]
pub(crate) struct TestRows(pub(crate) Vec<Vec<f64>>);

impl Rows for TestRows {
    type Row<'rows> = &'rows [f64];

    fn count(&self) -> usize {
        self.0.len()
    }

    fn row(&self, index: usize) -> &[f64] {
        &self.0[index]
    }
}

/// A session with noise that can be repeated.
pub(crate) type Seeded = Session<TestRows, SeededNoise>;

/// A gate with blocks enough, each of which is charged once.
pub(crate) struct Yard {
    gate: Gate<MemoryLog>,
    streams: [StreamId; 2],
    used: u32,
}

/// Blocks of a yard's streams.
const BLOCKS: u32 = 4096;

impl Yard {
    pub(crate) fn new() -> Self {
        let mut gate = Gate::open(MemoryLog::default()).expect("an empty log opens");
        let streams = [(Rule::Basic, "1000000", "basic"), (Rule::Renyi, "55", "renyi")].map(|(rule, epsilon, name)| {
            let ceiling = Ceiling { epsilon: epsilon_of(epsilon), delta: delta_of("0.5") };
            let filter = Filter::new(rule, ceiling).expect("a filter");
            let policy = Policy::single(filter, AccessModes::AttestedToo);
            let stream = gate.create_stream(0, name, policy).expect("a stream");
            let keys = (0..BLOCKS).map(|block| block.to_string()).collect();
            gate.add_blocks(0, stream, keys).expect("blocks");
            stream
        });
        Self { gate, streams, used: 0 }
    }

    /// Charges the costs on a fresh block and opens a session on the rows.
    ///
    /// Costs with Gaussian parts go to a stream under the Rényi rule, others to one under the basic rule.
    pub(crate) fn open(&mut self, costs: [Option<Cost>; 2], rows: [Vec<TestRows>; 2], seed: u64) -> Seeded {
        self.open_through(AccessMode::Enforced, costs, rows, seed)
    }

    pub(crate) fn open_through(
        &mut self, access: AccessMode, costs: [Option<Cost>; 2], rows: [Vec<TestRows>; 2], seed: u64,
    ) -> Seeded {
        self.permit(access, costs).open(SeededNoise::new(seed), |_| Ok::<_, ()>(rows)).expect("opens")
    }

    /// Leave to read under a charge on a fresh block.
    pub(crate) fn permit(&mut self, access: AccessMode, costs: [Option<Cost>; 2]) -> Permit {
        if self.used == BLOCKS {
            *self = Self::new();
        }
        let pure = |part: &Mechanism| matches!(part, Mechanism::Pure { .. } | Mechanism::Laplace { .. });
        let basic = costs.iter().flatten().all(|cost| cost.parts().iter().all(pure));
        let request = Request {
            key: RequestKey::from_text(&format!("{}", self.used)),
            stream: self.streams[usize::from(!basic)],
            context: ContextId(0),
            blocks: Blocks::range(self.used, self.used).expect("a block"),
            costs,
            access,
            purpose: "test".to_owned(),
        };
        self.used += 1;
        let outcome = self.gate.charge(0, vec![request]).expect("the log takes it").remove(0);
        let ChargeOutcome::Granted(grant) = outcome else { panic!("not granted: {outcome:?}") };
        self.gate.start(0, grant).expect("starts")
    }

    /// The hash of the log's first record, which summaries are bound to.
    pub(crate) fn origin(&self) -> [u8; 32] {
        self.gate.log().records[0].hash
    }

    /// A session on rows of the train lane.
    pub(crate) fn train(&mut self, parts: Vec<Mechanism>, rows: &[Vec<f64>], seed: u64) -> Seeded {
        let cost = Cost::new(parts).expect("a cost");
        self.open([Some(cost), None], [vec![TestRows(rows.to_vec())], Vec::new()], seed)
    }
}

pub(crate) fn epsilon_of(text: &str) -> Epsilon {
    Epsilon::cost(text).expect("an epsilon")
}

pub(crate) fn delta_of(text: &str) -> Delta {
    Delta::cost(text).expect("a delta")
}

pub(crate) fn sigma_of(text: &str) -> Sigma {
    Sigma::cost(text).expect("a sigma")
}

pub(crate) fn rate_of(text: &str) -> Rate {
    Rate::cost(text).expect("a rate")
}

pub(crate) fn laplace(epsilon: Epsilon, count: u32) -> Mechanism {
    Mechanism::Laplace { epsilon, count }
}

pub(crate) fn gaussian(sigma: Sigma, coordinates: u32, count: u32) -> Mechanism {
    Mechanism::Gaussian { sigma, coordinates, count }
}

/// So many tables with discrete Gaussian noise: each is 1/(2σ²)-concentrated.
pub(crate) fn concentrated(sigma: Sigma, count: u64) -> Mechanism {
    let units = 500_000_000_000_000_000_000_000_000_000 / u128::from(sigma.units()).pow(2) + 1;
    let units = u64::try_from(units * u128::from(count)).expect("within range");
    Mechanism::Zcdp { rho: Epsilon::from_units(units).expect("within range") }
}

pub(crate) fn sampled(rate: Rate, sigma: Sigma, coordinates: u32, steps: u32) -> Mechanism {
    Mechanism::SampledGaussian { rate, sigma, coordinates, steps }
}

/// The seed of this run: printed, and taken from `SAGE_SEED` to repeat one.
pub(crate) fn run_seed(test: &str) -> u64 {
    let given = std::env::var("SAGE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(0x5a6e_0001);
    println!("{test}: SAGE_SEED={seed}");
    seed
}

/// The size of a run: the first in CI, the second with `SAGE_SOAK=1`.
pub(crate) fn size(ci: usize, soak: usize) -> usize {
    if std::env::var("SAGE_SOAK").is_ok_and(|text| text == "1") { soak } else { ci }
}

/// One seed out of several numbers.
pub(crate) fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |seed, &part| {
        let word = (seed ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 31).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 29
    })
}

/// Numbers for making up test data; the noise of the mechanisms has a source of its own.
pub(crate) struct Dice(SeededNoise);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SeededNoise::new(seed ^ 0xd1ce))
    }

    pub(crate) fn word(&mut self) -> u64 {
        uniform_below(&mut self.0, u64::MAX).expect("seeded words")
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound as u64) as usize
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from all over the floats: ordinary ones mostly, every hostile one now and then.
    pub(crate) fn hostile(&mut self) -> f64 {
        match self.below(8) {
            0 => EXTREMES[self.below(EXTREMES.len())],
            1 => f64::from_bits(self.word()),
            2 => (self.unit() - 0.5) * 1e-3,
            3 => (self.unit() - 0.5) * 1e6,
            _ => (self.unit() - 0.5) * 4.0,
        }
    }
}

/// Values that break sums: edges, rounding ties, overflow, subnormals, NaN payloads.
pub(crate) const EXTREMES: [f64; 28] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    f64::NAN,
    f64::from_bits(0x7ff8_0000_dead_beef),
    f64::from_bits(0xfff0_0000_0000_0001),
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    1e308,
    -1e308,
    f64::MIN_POSITIVE,
    5e-324,
    -5e-324,
    1e-300,
    9_007_199_254_740_992.0,
    9_007_199_254_740_993.0,
    -9_007_199_254_740_992.0,
    1.000_000_000_000_000_2,
    0.999_999_999_999_999_9,
    4.768_371_582_031_25e-7,
    4.768_371_582_031_26e-7,
    4.768_371_582_031_24e-7,
    0.1,
];

/// The lattice of a vector release, from public parameters alone: a second derivation of what
/// `vector.rs` does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    /// One lattice unit, in units of the exact sums.
    pub(crate) step: f64,
    /// The most one row may move the lattice point, in lattice units: 2^24 / σ.
    pub(crate) reach: f64,
}

impl Grid {
    pub(crate) fn new(length: u128, sigma: Sigma, coordinates: u64) -> Self {
        let reach = (u128::from(1u32 << 24) * 1_000_000_000) / u128::from(sigma.units());
        let target = reach - u128::from(coordinates.isqrt()) - 1;
        let shift =
            (0..=100).rev().find(|&shift| target.leading_zeros() > shift && (target << shift) / length < 1 << 40);
        let shift = shift.expect("a shift");
        let multiplier = (target << shift) / length;
        let step = 2f64.powi(shift as i32) / multiplier as f64;
        Self { step, reach: 16_777_216e9 / sigma.units() as f64 }
    }
}

/// A vector's unit on a grid that gives the clip so many units.
pub(crate) fn unit_of(clip: f64, length: u64, width: usize) -> f64 {
    clip / ((length as f64 - 0.5 * (width as f64).sqrt() - 1.0) * (1.0 - 1e-12))
}
