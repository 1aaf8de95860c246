//! The learners' measurements, for `cargo xtask bench learn`, which prints them beside the peers'.
//!
//! As in the kernel's own bench program, one JSON object per line is printed. A step is a complete one: sampling, forward
//! and backward pass, clipping, summing, noise and a momentum update. Measurements that a peer has too have the same
//! name in `xtask/peers/learn_peers.py`.

use std::process::Command;
use std::time::Instant;

use sage_kernel::noise::{RoundedGaussian, SecureNoise};
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Delta, Epsilon, Filter, Gate, Lane, MemoryLog,
    Policy, Request, RequestKey, Rule, Session,
};
use sage_learn::encode::{Encoded, Layout};
use sage_learn::network::{Inputs, Loss, Network, Plan, Rates, Shape, Training, Work, train};

/// Set in a process that measures its own memory.
const CHILD: &str = "SAGE_BENCH_LEARN_CHILD";

/// A kind of network, its rows and its batch.
#[derive(Clone, Copy)]
enum Task {
    Taxi,
    Criteo,
    Logistic,
}

impl Task {
    /// The number of categories of each field.
    fn fields(self) -> Vec<u32> {
        match self {
            Self::Taxi => vec![24, 7, 12, 8, 10],
            Self::Criteo | Self::Logistic => vec![1000; 26],
        }
    }

    fn layout(self) -> Layout {
        let fields = self.fields();
        let numbers = if matches!(self, Self::Taxi) { 0 } else { 13 };
        Layout { numbers, active: fields.len() as u32, columns: fields.iter().sum() }
    }

    fn shape(self) -> Shape {
        let (inputs, hidden, loss) = match self {
            Self::Taxi => (Inputs::Direct, vec![5000, 100], Loss::Squared),
            Self::Criteo => (Inputs::Embedded { fields: self.fields(), width: 8 }, vec![1024, 32], Loss::Logistic),
            Self::Logistic => (Inputs::Direct, Vec::new(), Loss::Logistic),
        };
        Shape::new(self.layout(), inputs, hidden, loss).expect("a shape")
    }

    const fn batch(self) -> u32 {
        if matches!(self, Self::Logistic) { 512 } else { 1024 }
    }

    /// Synthetic rows.
    fn rows(self, count: usize) -> Encoded {
        let (layout, fields) = (self.layout(), self.fields());
        let mut dice = 7u64;
        let mut next = move || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            dice >> 33
        };
        let numbers = (0..count * layout.numbers as usize).map(|_| (next() % 2001) as f32 / 1000.0 - 1.0).collect();
        let mut indices = Vec::with_capacity(count * fields.len());
        for _ in 0..count {
            let mut start = 0;
            for &width in &fields {
                indices.push(start + next() as u32 % width);
                start += width;
            }
        }
        let label =
            |word: u64| if matches!(self, Self::Taxi) { (word % 1000) as f32 / 1000.0 } else { (word % 2) as f32 };
        let labels = (0..count).map(|_| label(next())).collect();
        Encoded::from_parts(layout, numbers, indices, labels).expect("rows that fit")
    }
}

/// A session on synthetic rows with a sufficient charge, and the plan of a run of `steps` steps.
fn opened(task: Task, rows: usize, steps: u32) -> (Session<Encoded, SecureNoise>, Plan) {
    let target = Ceiling {
        epsilon: Epsilon::ceiling("10").expect("a ceiling"),
        delta: Delta::ceiling("1e-6").expect("a ceiling"),
    };
    let work = |steps: u32| Work { rows: rows as f64, batch: f64::from(task.batch()), steps, clip: 1.0 };
    let shape = task.shape();
    let all = Plan::new(&shape, work(100 * steps), target, Rule::Renyi).expect("a plan");
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let policy = Policy::single(Filter::new(Rule::Renyi, target).expect("a filter"), AccessModes::EnforcedOnly);
    let stream = gate.create_stream(0, "rides", policy).expect("a stream");
    gate.add_blocks(0, stream, vec!["0".to_owned()]).expect("a block");
    let request = Request {
        key: RequestKey::from_text("bench"),
        stream,
        context: ContextId(0),
        blocks: Blocks::range(0, 0).expect("a block"),
        costs: [all.charge(), None],
        access: AccessMode::Enforced,
        purpose: "bench".to_owned(),
    };
    let answer = gate.charge(0, vec![request]).expect("a healthy log").remove(0);
    let ChargeOutcome::Granted(grant) = answer else { panic!("not granted") };
    let permit = gate.start(0, grant).expect("starts");
    let noise = SecureNoise::new().expect("randomness");
    let session = permit.open(noise, |_| Ok::<_, ()>([vec![task.rows(rows)], Vec::new()])).expect("opens");
    (session, all.first(steps))
}

/// Rows per second in complete private steps, the best of several short runs.
fn rows_each_second(task: Task, threads: usize) -> f64 {
    // Short runs, so that the best of them is undisturbed where a machine is shared; long enough that the first
    // use of their memory counts for as little as in a training.
    let steps = if matches!(task, Task::Logistic) { 40 } else { 4 };
    let (mut session, plan) = opened(task, 200_000, steps);
    let training = Training { rates: Rates::Constant(0.01), momentum: 0.9, decay: 0.0, threads };
    let mut network = Network::new(task.shape(), 1);
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        network = train(&mut session, Lane::Train, &plan, &training, network).expect("trains");
        best = best.min(start.elapsed().as_secs_f64() / f64::from(steps));
    }
    f64::from(task.batch()) / best
}

/// The share of a step of the Taxi network on one thread that its noise takes.
fn noise_share(rows_each_second: f64) -> f64 {
    let mut source = SecureNoise::new().expect("randomness");
    let sampler = RoundedGaussian::new();
    let mut drawn = vec![0; 4096];
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..Task::Taxi.shape().parameters().div_ceil(4096) {
            sampler.fill(&mut source, &mut drawn).expect("randomness");
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    best * rows_each_second / f64::from(Task::Taxi.batch())
}

/// The peak memory of training the Taxi network on ten million rows.
fn memory() -> f64 {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).env(CHILD, "1").output().expect("runs");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

fn child() {
    let (mut session, plan) = opened(Task::Taxi, 10_000_000, 10);
    let training = Training { rates: Rates::Constant(0.01), momentum: 0.9, decay: 0.0, threads: 2 };
    train(&mut session, Lane::Train, &plan, &training, Network::new(Task::Taxi.shape(), 1)).expect("trains");
    let status = std::fs::read_to_string("/proc/self/status").expect("a process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kibibytes: f64 = peak.trim().trim_end_matches("kB").trim().parse().expect("a number");
    println!("{}", kibibytes / 1024.0);
}

fn print(name: &str, ours: f64, unit: &str) {
    println!(r#"{{"name": "{name}", "ours": {ours:?}, "unit": "{unit}"}}"#);
}

fn main() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| *wanted == name);
    for (task, name, peers) in [
        (Task::Taxi, "taxi", &["pytorch", "opacus_ghost", "opacus"][..]),
        (Task::Criteo, "criteo", &["pytorch", "opacus_ghost"]),
        (Task::Logistic, "logistic_hashed", &["pytorch", "opacus_ghost"]),
    ] {
        for (threads, behind) in [(1, ""), (2, "_2")] {
            let mut names = peers.iter().map(|peer| format!("{name}_vs_{peer}{behind}")).collect::<Vec<_>>();
            names.retain(|name| wanted(name));
            if !names.is_empty() {
                let ours = rows_each_second(task, threads);
                names.iter().for_each(|name| print(name, ours, "rows/s"));
            }
        }
    }
    if wanted("noise_share") {
        print("noise_share", noise_share(rows_each_second(Task::Taxi, 1)), "of a step");
    }
    if wanted("taxi_threads_2") {
        let faster = rows_each_second(Task::Taxi, 2) / rows_each_second(Task::Taxi, 1);
        print("taxi_threads_2", faster, "times one thread");
    }
    if wanted("taxi_memory_mib") {
        print("taxi_memory_mib", memory(), "MiB");
    }
}
