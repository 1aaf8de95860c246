//! The kernel's measurements, for `cargo xtask bench kernel`, which prints them beside the peers'.
//!
//! A measurement is an entry of the table: a name, a unit, and a function that gives the number. One
//! JSON object a line is printed, `name`, `ours`, `unit`, and `value` where the work computes something
//! worth comparing with a peer. With names as arguments only those run. What a peer measures too has the
//! same name and unit in `xtask/peers/kernel_peers.py`.

use std::hint::black_box;
use std::time::Instant;

use sage_kernel::noise::{DiscreteGaussian, DiscreteLaplace, RoundedGaussian, SecureNoise};
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Decision, Delta, Epsilon, Filter, Gate,
    Mechanism, MemoryLog, Policy, Request, RequestKey, Rule, Sigma, Split, StreamId,
};
use sha2::{Digest, Sha256};

struct Measurement {
    name: &'static str,
    unit: &'static str,
    measure: fn() -> Outcome,
}

/// The number measured, and what the work computed.
struct Outcome {
    ours: f64,
    value: Option<f64>,
}

const fn entry(name: &'static str, unit: &'static str, measure: fn() -> Outcome) -> Measurement {
    Measurement { name, unit, measure }
}

const MEASUREMENTS: &[Measurement] = &[
    entry("hash_event", "ns/event", hash_event),
    entry("charge_basic_100", "charges/s", || charges_each_second(Rule::Basic, 100)),
    entry("charge_renyi_100", "charges/s", || charges_each_second(Rule::Renyi, 100)),
    entry("charge_renyi_10000", "charges/s", || charges_each_second(Rule::Renyi, 10_000)),
    entry("charge_history_10", "ns/charge", || charge_after(10)),
    entry("charge_history_1000", "ns/charge", || charge_after(1_000)),
    entry("charge_history_100000", "ns/charge", || charge_after(100_000)),
    entry("open_snapshot_1000000", "s", || open_after(1_000_000)),
    entry("lanes_drawn", "rows/s", lanes_drawn),
    entry("discrete_laplace", "ns/draw", discrete_laplace),
    entry("discrete_gaussian", "ns/draw", discrete_gaussian),
    entry("fast_gaussian", "draws/s", fast_gaussian),
];

/// The shortest time of `runs`, in seconds, with what the last run computed.
fn best_of<T>(runs: usize, mut work: impl FnMut() -> T) -> (f64, Option<T>) {
    let mut best = f64::INFINITY;
    let mut value = None;
    for _ in 0..runs {
        let start = Instant::now();
        value = Some(black_box(work()));
        best = best.min(start.elapsed().as_secs_f64());
    }
    (best, value)
}

/// Nanoseconds for one of the `count` things that `work` does.
fn nanoseconds_each<T>(runs: usize, count: u32, work: impl FnMut() -> T) -> Outcome {
    let (seconds, _) = best_of(runs, work);
    Outcome { ours: seconds / f64::from(count) * 1e9, value: None }
}

/// The floor under every charge: one link of the hash chain over an event of common size.
fn hash_event() -> Outcome {
    let count = 10_000;
    nanoseconds_each(10, count, || {
        let mut head = [0_u8; 32];
        for _ in 0..count {
            let event = Sha256::new().chain_update(head).chain_update([7; 168]);
            head = event.finalize().into();
        }
        head
    })
}

/// A gate on a log in memory with one stream of so many blocks.
struct World {
    gate: Gate<MemoryLog>,
    cost: Cost,
    blocks: u32,
    dice: u64,
    keys: u64,
}

impl World {
    fn new(rule: Rule, blocks: u32) -> Self {
        let ceiling = Ceiling {
            epsilon: Epsilon::ceiling("1").expect("a ceiling"),
            delta: Delta::ceiling("1e-6").expect("a ceiling"),
        };
        let filter = Filter::new(rule, ceiling).expect("a filter");
        let part = match rule {
            Rule::Renyi => {
                Mechanism::Gaussian { sigma: Sigma::cost("1e6").expect("a multiplier"), coordinates: 1, count: 1 }
            }
            _ => Mechanism::Pure { epsilon: Epsilon::cost("1e-9").expect("a loss") },
        };
        let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
        let stream =
            gate.create_stream(0, "rides", Policy::single(filter, AccessModes::EnforcedOnly)).expect("a stream");
        gate.add_blocks(0, stream, (0..blocks).map(|block| block.to_string()).collect()).expect("blocks");
        Self { gate, cost: Cost::new(vec![part]).expect("a cost"), blocks, dice: 7, keys: 0 }
    }

    /// Requests for a window of so many blocks, each at an offset of its own.
    fn requests(&mut self, window: u32, count: u32) -> Vec<Request> {
        let mut request = || {
            self.keys += 1;
            self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let first = (self.dice >> 33) as u32 % (self.blocks - window + 1);
            Request {
                key: RequestKey::from_text(&self.keys.to_string()),
                stream: StreamId(0),
                context: ContextId(0),
                blocks: Blocks::range(first, first + window - 1).expect("blocks"),
                costs: [Some(self.cost.clone()), None],
                access: AccessMode::Enforced,
                purpose: "bench".to_owned(),
            }
        };
        (0..count).map(|_| request()).collect()
    }

    /// Decides, hashes, appends and applies them, a hundred to an append as under load.
    fn charge(&mut self, requests: Vec<Request>) {
        let mut requests = requests.into_iter();
        loop {
            let group: Vec<Request> = requests.by_ref().take(100).collect();
            if group.is_empty() {
                return;
            }
            let outcomes = self.gate.charge(1, group).expect("a healthy log");
            assert!(outcomes.iter().all(|outcome| matches!(outcome, ChargeOutcome::Granted(_))), "everything fits");
        }
    }
}

/// A window of so many blocks in a stream of 10⁴ that has had 10⁴ windows charged before.
fn charges_each_second(rule: Rule, window: u32) -> Outcome {
    let mut world = World::new(rule, 10_000);
    let before = world.requests(100, 10_000);
    world.charge(before);
    let count = 200_000 / window.max(100);
    let mut best = 0.0f64;
    // Short runs, so that the best of them does not pay for a growing vector.
    for _ in 0..60 {
        let requests = world.requests(window, count);
        let start = Instant::now();
        world.charge(requests);
        best = best.max(f64::from(count) / start.elapsed().as_secs_f64());
    }
    Outcome { ours: best, value: None }
}

/// One charge over 100 blocks, after so many on the same blocks.
fn charge_after(history: u32) -> Outcome {
    let mut world = World::new(Rule::Renyi, 100);
    let before = world.requests(100, history);
    world.charge(before);
    let count = 1_000;
    // The same requests again and again: the decision is measured, not the first touch of its input.
    let requests = world.requests(100, count);
    nanoseconds_each(200, count, || {
        requests.iter().filter(|request| matches!(world.gate.ledger().decide(request), Decision::Admitted(_))).count()
    })
}

/// A log of so many grants, all started and burnt, opened from a snapshot of all of them.
fn open_after(grants: u32) -> Outcome {
    let mut world = World::new(Rule::Basic, 10_000);
    for _ in 0..grants / 10_000 {
        for group in world.requests(1, 10_000).chunks(100) {
            for outcome in world.gate.charge(1, group.to_vec()).expect("a healthy log") {
                let ChargeOutcome::Granted(grant) = outcome else { panic!("everything fits") };
                let id = world.gate.start(1, grant).expect("a start").grant();
                world.gate.burn(1, id).expect("a running grant");
            }
        }
    }
    let snapshot = world.gate.snapshot(2).expect("a healthy log");
    let ledger = world.gate.ledger().clone();
    let mut log = Some(world.gate.into_log());
    let mut seconds = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        let gate = Gate::open_from(log.take().expect("a log"), &snapshot).expect("vouched for");
        seconds = seconds.min(start.elapsed().as_secs_f64());
        assert!(*gate.ledger() == ledger, "the same state");
        log = Some(gate.into_log());
    }
    Outcome { ours: seconds, value: None }
}

fn lanes_drawn() -> Outcome {
    let mut source = SecureNoise::new().expect("randomness");
    let mut test = vec![false; 1 << 20];
    let (seconds, _) = best_of(20, || Split::DEFAULT.draw_many(&mut source, &mut test).expect("randomness"));
    Outcome { ours: f64::from(1 << 20) / seconds, value: None }
}

const DRAWS: usize = 100_000;

fn discrete_laplace() -> Outcome {
    let mut source = SecureNoise::new().expect("randomness");
    let sampler = DiscreteLaplace::new(1 << 20, 1).expect("a scale");
    let mut drawn = vec![0; DRAWS];
    nanoseconds_each(20, DRAWS as u32, || sampler.fill(&mut source, &mut drawn))
}

fn discrete_gaussian() -> Outcome {
    let mut source = SecureNoise::new().expect("randomness");
    let sampler = DiscreteGaussian::new(5 << 20, 1).expect("a scale");
    let mut drawn = vec![0; DRAWS];
    nanoseconds_each(20, DRAWS as u32, || sampler.fill(&mut source, &mut drawn))
}

fn fast_gaussian() -> Outcome {
    let mut source = SecureNoise::new().expect("randomness");
    let sampler = RoundedGaussian::new();
    let mut drawn = vec![0; 4096];
    let (seconds, _) = best_of(20, || {
        for _ in 0..256 {
            sampler.fill(&mut source, &mut drawn).expect("randomness");
        }
    });
    Outcome { ours: 256.0 * 4096.0 / seconds, value: None }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    for measurement in MEASUREMENTS {
        if names.is_empty() || names.iter().any(|name| *name == measurement.name) {
            let Outcome { ours, value } = (measurement.measure)();
            let value = value.map_or(String::new(), |value| format!(r#", "value": {value:?}"#));
            let Measurement { name, unit, .. } = measurement;
            println!(r#"{{"name": "{name}", "ours": {ours:?}, "unit": "{unit}"{value}}}"#);
        }
    }
}
