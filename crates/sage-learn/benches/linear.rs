//! The linear learner's measurements, one JSON object per line: `name`, `ours`, `unit`.
//!
//! Best of several runs, on one core. Measurements that a peer has too have the same name and unit in
//! `xtask/peers/learn_linear.py`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sage_kernel::noise::SecureNoise;
use sage_kernel::{
    AccessMode, AccessModes, BlockId, BlockPart, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon,
    Filter, Gate, Lane, MemoryLog, Permit, Policy, Request, RequestKey, Rule, Sigma, Summary, SummaryKey, SummaryTag,
};
use sage_learn::encode::{Encoded, Layout};
use sage_learn::linear::{AdaSsp, Ridge};

/// Ten categorical fields with six values each: with the constant one, 61 features.
const FIELDS: u32 = 10;
const VALUES: u32 = 6;
const LAYOUT: Layout = Layout { numbers: 0, active: FIELDS, columns: FIELDS * VALUES };

/// A gate with one stream, which grants permits on all of its blocks.
struct Yard {
    gate: Gate<MemoryLog>,
    blocks: u32,
    requests: u32,
}

impl Yard {
    fn new(blocks: u32) -> Self {
        let ceiling = Ceiling {
            epsilon: Epsilon::ceiling("55").expect("a ceiling"),
            delta: Delta::ceiling("0.5").expect("a ceiling"),
        };
        let filter = Filter::new(Rule::Renyi, ceiling).expect("a filter");
        let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
        let stream =
            gate.create_stream(0, "rides", Policy::single(filter, AccessModes::EnforcedOnly)).expect("a stream");
        gate.add_blocks(0, stream, (0..blocks).map(|block| block.to_string()).collect()).expect("blocks");
        Self { gate, blocks, requests: 0 }
    }

    fn permit(&mut self, cost: Cost) -> Permit {
        self.requests += 1;
        let request = Request {
            key: RequestKey::from_text(&self.requests.to_string()),
            stream: sage_kernel::StreamId(0),
            context: ContextId(0),
            blocks: Blocks::range(0, self.blocks - 1).expect("blocks"),
            costs: [Some(cost), None],
            access: AccessMode::Enforced,
            purpose: "bench".to_owned(),
        };
        let ChargeOutcome::Granted(grant) = self.gate.charge(0, vec![request]).expect("a healthy log").remove(0) else {
            panic!("everything fits")
        };
        self.gate.start(0, grant).expect("a start")
    }
}

/// Synthetic rows from a seed.
fn rows(count: usize, seed: u64) -> Encoded {
    let mut state = seed;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let mut indices = Vec::with_capacity(count * FIELDS as usize);
    let mut labels = Vec::with_capacity(count);
    for _ in 0..count {
        indices.extend((0..FIELDS).map(|field| field * VALUES + draw() % VALUES));
        labels.push((draw() % 1024) as f32 / 1024.0);
    }
    Encoded::from_parts(LAYOUT, Vec::new(), indices, labels).expect("rows of the layout")
}

fn noise() -> SecureNoise {
    SecureNoise::new().expect("randomness")
}

fn plan() -> AdaSsp {
    AdaSsp::new(LAYOUT, (0.0, 1.0), Sigma::cost("50").expect("a multiplier"), Ridge::Adaptive).expect("bounds")
}

/// The shortest time of `runs`, each with a new session.
fn best_of(runs: usize, mut run: impl FnMut() -> Duration) -> f64 {
    (0..runs).map(|_| run().as_secs_f64()).fold(f64::INFINITY, f64::min)
}

/// Rows per second, from encoded rows to a model.
fn adassp() -> f64 {
    let count = 1 << 20;
    let plan = plan();
    let mut yard = Yard::new(1);
    let seconds = best_of(20, || {
        let permit = yard.permit(Cost::new(plan.mechanisms()).expect("a cost"));
        let batch = rows(count, 7);
        let mut session = permit.open(noise(), |_| Ok::<_, ()>([vec![batch], Vec::new()])).expect("opens");
        let start = Instant::now();
        black_box(plan.train(&mut session, Lane::Train).expect("covered"));
        start.elapsed()
    });
    count as f64 / seconds
}

/// Blocks of the summaries' window.
const BLOCKS: u32 = 1_000;
const TAG: SummaryTag = SummaryTag([1; 32]);
const KEY: SummaryKey = SummaryKey::from_bytes([2; 32]);

const fn part(block: u32) -> BlockPart {
    BlockPart { block: BlockId(block), lane: Lane::Train, source: [0; 32] }
}

/// The summaries of all blocks, of a thousand rows each.
fn summarise(plan: &AdaSsp, permit: &Permit) -> Vec<Arc<Summary>> {
    let bounds = plan.one_hot_bounds().expect("one-hot columns alone");
    let label = plan.signed_label();
    let one = |block: u32| {
        let rows = [rows(1_000, u64::from(block))];
        let summary = permit.summarise_one_hot(part(block), TAG, bounds, &rows, |row, named| {
            named.copy_from_slice(row.indices);
            label(row.label)
        });
        Arc::new(summary.expect("covered").expect("few rows"))
    };
    (0..BLOCKS).map(one).collect()
}

/// Milliseconds from a permit and the cached summaries of a window to a model.
fn from_summaries(read: impl Fn(&Permit) -> Vec<Arc<Summary>>, yard: &mut Yard) -> f64 {
    let plan = plan();
    let seconds = best_of(50, || {
        let permit = yard.permit(Cost::new(plan.mechanisms()).expect("a cost"));
        let noise = noise();
        let start = Instant::now();
        let opened =
            permit.open_with_summaries(noise, TAG, |permit| Ok::<_, ()>(([Vec::new(), Vec::new()], read(permit))));
        black_box(plan.train(&mut opened.expect("opens"), Lane::Train).expect("covered"));
        start.elapsed()
    });
    seconds * 1e3
}

/// From summaries in memory.
fn adassp_summaries() -> f64 {
    let mut yard = Yard::new(BLOCKS);
    let kept = summarise(&plan(), &yard.permit(Cost::new(plan().mechanisms()).expect("a cost")));
    from_summaries(|_| kept.clone(), &mut yard)
}

/// From their bytes, each checked and opened.
fn adassp_sealed() -> f64 {
    let mut yard = Yard::new(BLOCKS);
    let permit = yard.permit(Cost::new(plan().mechanisms()).expect("a cost"));
    let sealed: Vec<Vec<u8>> =
        summarise(&plan(), &permit).iter().map(|summary| permit.seal(&KEY, summary).expect("covered")).collect();
    let open = |permit: &Permit| {
        let open = |(block, bytes): (u32, &Vec<u8>)| permit.unseal(&KEY, part(block), TAG, bytes).map(Arc::new);
        (0..BLOCKS).zip(&sealed).map(|sealed| open(sealed).expect("as sealed")).collect()
    };
    from_summaries(open, &mut yard)
}

struct Measurement {
    name: &'static str,
    unit: &'static str,
    measure: fn() -> f64,
}

const MEASUREMENTS: &[Measurement] = &[
    Measurement { name: "adassp", unit: "rows/s", measure: adassp },
    Measurement { name: "adassp_summaries", unit: "ms", measure: adassp_summaries },
    Measurement { name: "adassp_sealed", unit: "ms", measure: adassp_sealed },
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    for Measurement { name, unit, measure } in MEASUREMENTS {
        if names.is_empty() || names.iter().any(|known| known == name) {
            let ours = measure();
            println!(r#"{{"name": "{name}", "ours": {ours:?}, "unit": "{unit}"}}"#);
        }
    }
}
