//! Measurements of the loop, for `cargo xtask bench loop`.
//!
//! One JSON object a line is printed: `name`, `ours`, `peer`, `unit`. The peer of `attempt_overhead` is the bare
//! learner on the same rows in the same run: the same query, encoding, steps and test, without plan, notes, report
//! and release. With names as arguments only those run.

use std::time::Instant;

use sage_engine::allocate::{Allocation, Counting, Event, PipelineId, Resources, Scheduler};
use sage_engine::generate::{self, TAXI, Taxi};
use sage_engine::ingest::Source;
use sage_engine::plan::Recipe;
use sage_engine::stream::{StreamFile, parse_time};
use sage_engine::{
    AccessMode, Blocks, ChargeRequest, Cost, Engine, EngineOptions, Lane, Opened, Principal, TableNoise,
};
use sage_learn::network::{self, Inputs, Loss, Network, Rates, Shape, Training};
use sage_learn::validate::{Bound, LossCheck, LossTarget, Risk};
use tempfile::TempDir;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|word| word == name);
    if wanted("attempt_overhead") {
        attempt_overhead();
    }
    if wanted("allocate") {
        allocate();
    }
}

fn line(name: &str, ours: f64, peer: Option<f64>, unit: &str) {
    let peer = peer.map_or_else(|| "null".to_owned(), |peer| peer.to_string());
    println!("{{\"name\": \"{name}\", \"ours\": {ours}, \"peer\": {peer}, \"unit\": \"{unit}\"}}");
}

const CAPACITY: Resources = Resources([1_000_000_000, 1_000_000, 1_000_000_000, 1_000_000]);

/// So many blocks, and so many pipelines that wait, each with a question about the newest hundred blocks.
fn waiting(pipelines: u64, blocks: u32) -> Allocation {
    let mut allocation = Allocation::new(Scheduler::EvenSplit, Counting::Primary);
    allocation.apply(Event::Arrive { pipelines: (1..=pipelines).map(PipelineId).collect() }).expect("arrive");
    (0..blocks).for_each(|_| allocation.apply(Event::Block { capacity: CAPACITY }).expect("a block"));
    let newest = Blocks::range(blocks - 100, blocks - 1).expect("a range");
    for number in 1..=pipelines {
        let cost = Resources([1_000_000_000, 1, 1, 1]);
        let ask = Event::Request { pipeline: PipelineId(number), blocks: newest.clone(), cost };
        allocation.apply(ask).expect("asks");
    }
    allocation
}

/// A new block comes, and every request is evaluated again: the best of many, since each takes less than a
/// tenth of a millisecond and others use the machine as well.
fn new_block(pipelines: u64, blocks: u32) -> f64 {
    let mut allocation = waiting(pipelines, blocks);
    let mut best = f64::INFINITY;
    for _ in 0..25 {
        let start = Instant::now();
        allocation.apply(Event::Block { capacity: CAPACITY }).expect("a block");
        std::hint::black_box(allocation.ready());
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    best
}

fn allocate() {
    let whole = new_block(10_000, 10_000);
    line("allocate_10k_10k", whole, None, "ms");
    line("allocate_growth_blocks", whole / new_block(10_000, 1_000), None, "times, for ten times the blocks");
    line("allocate_growth_pipelines", whole / new_block(1_000, 10_000), None, "times, for ten times the pipelines");
}

const NETWORK: &str = r#"
[pipeline]
name = "duration"
stream = "taxi"
label = { sql = "duration / 3600", bounds = [0, 2.5] }
window = { min = BLOCKS }
filter = "distance > 0 AND duration BETWEEN 60 AND 9000"
features = [
  { column = "distance", scale = [0, 30] },
  { sql = "extract(hour from pickup)", name = "hour", onehot = 24 },
  { sql = "extract(dow from pickup)", name = "day", onehot = 7 },
]
[train]
kind = "mlp"
layers = [64, 16]
batch = 1024
epochs = 1
learning_rate = 0.3
rows = ROWS
[validate]
metric = "mse"
target = 0.1
bound = 1.0
"#;

const RIDES: u64 = 1_000_000;

fn principal(name: &str) -> Principal {
    Principal::named(name).expect("a name")
}

fn with_rides(folder: &TempDir) -> (Engine, Vec<String>) {
    let taxi = Taxi::new(RIDES, "2026-01-01".parse().expect("a day"), 3).expect("rides");
    generate::write(&taxi, &folder.path().join("rides"), None).expect("written");
    let Ok(Opened::Ready(engine)) = Engine::open(&folder.path().join("sage"), &EngineOptions::default()) else {
        panic!("a new directory")
    };
    let file = TAXI.replace("epsilon = \"1.0\"", "epsilon = \"16\"");
    engine.create_stream(&principal("ada"), &file).expect("a stream");
    let source = Source::path(folder.path().join("rides"));
    engine.ingest(&principal("dan"), "taxi", "all", source).expect("a batch");
    let blocks = engine.open_before("taxi", parse_time("2027-01-01").expect("a time")).expect("a stream");
    engine.seal(&principal("dan"), "taxi", &blocks).expect("sealed");
    (*engine, blocks)
}

fn attempt_overhead() {
    let folder = tempfile::tempdir().expect("a directory");
    let (engine, blocks) = with_rides(&folder);
    let rows = RIDES * 9 / 10 / blocks.len() as u64;
    let text = NETWORK.replace("BLOCKS", &blocks.len().to_string()).replace("ROWS", &rows.to_string());
    let mut best = [f64::INFINITY; 2];
    for turn in 0..3 {
        let own = text.replace("\"duration\"", &format!("\"duration-{turn}\""));
        engine.submit_at(&principal("mia"), &own, 0).expect("submitted");
        let start = Instant::now();
        let job = engine.next_job(1).expect("nothing fails").expect("an attempt");
        engine.perform(job).expect("nothing fails");
        best[0] = best[0].min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        bare(&engine, &own, &blocks, turn);
        best[1] = best[1].min(start.elapsed().as_secs_f64());
        while engine.next_job(2).expect("nothing fails").is_some() {}
    }
    line("attempt_overhead", best[0], Some(best[1]), "s");
}

/// The same training and test by hand.
fn bare(engine: &Engine, text: &str, blocks: &[String], turn: usize) {
    let pipeline = sage_engine::pipeline::Pipeline::parse(text).expect("a pipeline");
    let file = StreamFile::parse(&TAXI.replace("epsilon = \"1.0\"", "epsilon = \"16\"")).expect("a file");
    let recipe = Recipe::new(pipeline, &file, &sage_engine::plan::NoTables).expect("a recipe");
    let inputs = recipe.inputs().expect("inputs");
    let shape = Shape::new(inputs.encoding().layout(), Inputs::Direct, vec![64, 16], Loss::Squared).expect("a shape");
    let rows = (RIDES * 9 / 10) as f64;
    let work = network::Work::epochs(rows, 1024.0, 1.0, 1.0);
    let rate = sage_kernel::Rate::from_units((1024.0 / rows * 1e12) as u64).expect("a rate");
    let sigma = sage_engine::Sigma::from_units(1_000_000_000).expect("a sigma");
    let step = sage_kernel::Step { rate, sigma, clip: 1.0 };
    let plan = network::Plan::with_noise(&shape, step, work.steps, 1024.0).expect("a plan");
    let noise = TableNoise::Laplace(sage_engine::Epsilon::cost("0.5").expect("a number"));
    let cost = |part| Some(Cost::new(vec![part]).expect("a cost"));
    let ask = ChargeRequest {
        key: format!("bare {turn}"),
        stream: "taxi".to_owned(),
        context: None,
        blocks: blocks.to_vec(),
        costs: [cost(plan.mechanism()), cost(noise.mechanism().expect("a price"))],
        access: AccessMode::Enforced,
        purpose: "a measurement".to_owned(),
    };
    let granted = engine.charge(&principal("mia"), ask).expect("granted");
    let mut session = engine.open_encoded(granted, recipe.query(), inputs.encoding()).expect("a session");
    let training = Training { rates: Rates::Constant(0.3), momentum: 0.0, decay: 0.0, threads: 2 };
    let network = Network::new(shape, 1);
    let network = network::train(&mut session, Lane::Train, &plan, &training, network).expect("trained");
    let one = network.row_predictor();
    let target = LossTarget::new(0.1, 1.0).expect("a target");
    let check = LossCheck { target, bound: Bound::default(), noise, risk: Risk::new(0.05).expect("a risk") };
    let miss = |row: sage_learn::encode::UnitExamples<'_>| 2.5 * f64::from(one.forward(&row) - row.label);
    check.run(&mut session, |row| miss(row).powi(2)).expect("a verdict");
    engine.release(session.finish(), [turn as u8; 32]).expect("released");
}
