//! How good are models that are trained with derived hyper-parameters?
//!
//! Real tables, no hyper-parameter written: the loss on held-out rows, the constant's and that of a non-private model
//! (the better of plain ridge or logistic regression and the same learner at ε = 30), and the excess over the latter
//! divided by the constant's. δ is 10⁻⁶; the filter is the default one. Noise is seeded. Prints one JSON object per line.
//! `SAGE_DATA=<folder> cargo run --release --manifest-path experiments/Cargo.toml --bin defaults [task] [seeds]`.

#[path = "../../../crates/sage-learn/tests/quality/flights.rs"]
mod flights;
#[path = "../../../crates/sage-learn/tests/quality/plain.rs"]
mod plain;
#[path = "../../../crates/sage-learn/tests/quality/table.rs"]
mod table;
#[allow(dead_code, reason = "the tests of quality use its other encodings")]
#[path = "../../../crates/sage-learn/tests/quality/taxi.rs"]
mod taxi;

use sage_kernel::noise::SeededNoise;
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, Lane,
    Mechanism, MemoryLog, Policy, Rate, Request, RequestKey, Rows, Rule, Session, Sigma, TableNoise,
};
use sage_learn::encode::{Encoded, Encoding, Field, FieldKind, Key, KeyKind, Label, LabelKind, Scale, Span, Stated};
use sage_learn::network::{CalibrationNoise, ChargedSteps, Hyperparameters, Inputs, Loss, Network, Shape};
use table::{Table, real};

const EPSILONS: [&str; 3] = ["0.1", "0.5", "1"];
/// The strides between training rows.
const EVERY: [usize; 3] = [1, 10, 100];
/// Stands for no privacy where there is no non-private trainer.
const LOOSE: &str = "30";
const WIDTH: u32 = 64;

fn filter(epsilon: &str) -> Filter {
    let (epsilon, delta) = (Epsilon::ceiling(epsilon).expect("a ceiling"), Delta::ceiling("1e-6").expect("a ceiling"));
    Filter::new(Rule::Renyi, Ceiling { epsilon, delta }).expect("a filter")
}

fn opened(cost: Cost, filter: Filter, rows: Encoded, seed: u64) -> Session<Encoded, SeededNoise> {
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let stream = gate.create_stream(0, "rows", Policy::single(filter, AccessModes::EnforcedOnly)).expect("a stream");
    gate.add_blocks(0, stream, vec!["0".to_owned()]).expect("a block");
    let request = Request {
        key: RequestKey::from_text("one"),
        stream,
        context: ContextId(0),
        blocks: Blocks::range(0, 0).expect("a block"),
        costs: [Some(cost), None],
        access: AccessMode::Enforced,
        purpose: "defaults".to_owned(),
    };
    let outcome = gate.charge(0, vec![request]).expect("the log takes it").remove(0);
    let ChargeOutcome::Granted(grant) = outcome else { panic!("not granted: {outcome:?}") };
    let permit = gate.start(0, grant).expect("starts");
    permit.open(SeededNoise::new(seed), |_| Ok::<_, ()>([vec![rows], Vec::new()])).expect("opens")
}

/// The least multiplier with which the filter admits these mechanisms into an empty budget.
fn least_sigma(filter: &Filter, mechanisms: impl Fn(Sigma) -> Vec<Mechanism>) -> Sigma {
    let block = Blocks::range(0, 0).expect("a block");
    let fits = |units: u64| {
        let cost = Cost::new(mechanisms(Sigma::from_units(units).expect("a multiplier"))).expect("a cost");
        let amounts = filter.price(&cost, Lane::Train, &block);
        amounts.is_ok_and(|amounts| filter.admits(&vec![0; filter.caps().len()], &amounts))
    };
    let (mut outside, mut within) = (10_000_000u64, 1_000_000_000_000_000u64);
    while within - outside > within / 10_000 {
        let middle = ((outside as f64) * (within as f64)).sqrt() as u64;
        let middle = middle.clamp(outside + 1, within - 1);
        if fits(middle) { within = middle } else { outside = middle }
    }
    Sigma::from_units(within).expect("a multiplier")
}

/// A model with derived hyper-parameters, charged to a new stream whose ceiling is the stated ε.
fn trained(shape: &Shape, rows: Encoded, epsilon: &str, seed: u64) -> Network {
    let filter = filter(epsilon);
    let derived = Hyperparameters::DERIVED;
    let coordinates = shape.parameters();
    let one = |sigma| vec![Mechanism::SampledGaussian { rate: Rate::LIMIT, sigma, coordinates, steps: 1 }];
    let whole = least_sigma(&filter, one).units() as f64 / 1e9;
    let plan = derived.plan_steps(shape, rows.count() as f64, whole);
    let table = |share: f64| {
        TableNoise::Gaussian(Sigma::from_units((whole / share.sqrt() * 1e9) as u64).expect("a multiplier"))
    };
    let (moments, calibration) = (table(plan.moments_share), CalibrationNoise::Table(table(plan.calibration_share)));
    let rate = Rate::from_units((plan.share * Rate::LIMIT.units() as f64) as u64).expect("a rate");
    let charged = |sigma| ChargedSteps { moments, rate, sigma, steps: plan.steps, calibration };
    let mechanisms = |sigma| charged(sigma).mechanisms(shape).expect("priced");
    let sigma = least_sigma(&filter, mechanisms);
    let mut session = opened(Cost::new(mechanisms(sigma)).expect("a cost"), filter, rows, seed);
    derived.train(&mut session, Lane::Train, shape.clone(), &charged(sigma), 1, &mut |_| true).expect("trains").0
}

/// A table with a label.
struct Task {
    name: &'static str,
    table: Table,
    training: usize,
    encoding: Encoding,
    loss: Loss,
    hidden: Vec<u32>,
}

impl Task {
    fn rows(&self, every: usize) -> Encoded {
        self.table.encode(&self.encoding, (0..self.training).step_by(every))
    }

    fn loss(&self, predicted: &[f64], held_out: &Encoded) -> f64 {
        match self.loss {
            Loss::Squared => plain::squared(predicted, held_out),
            Loss::Logistic | Loss::Softmax { .. } => plain::log_loss(predicted, held_out),
        }
    }

    fn run(&self, seeds: u64) {
        let held_out = self.table.encode(&self.encoding, self.training..self.table.rows());
        let shape =
            Shape::new(self.encoding.layout(), Inputs::Direct, self.hidden.clone(), self.loss).expect("a shape");
        let mean = plain::mean(&self.rows(1));
        let constant = self.loss(&vec![mean; held_out.count()], &held_out);
        let linear = match self.loss {
            Loss::Squared => plain::line(&plain::ridge(&self.rows(1)), &held_out),
            Loss::Logistic | Loss::Softmax { .. } => plain::chances(&plain::logistic(&self.rows(1)), &held_out),
        };
        let of_network = |every: usize, epsilon: &str, seed: u64| {
            let network = trained(&shape, self.rows(every), epsilon, seed);
            self.loss(&plain::predictions(&network, &held_out), &held_out)
        };
        let best = self.loss(&linear, &held_out).min(of_network(1, LOOSE, 1));
        for every in EVERY {
            for epsilon in EPSILONS {
                let started = std::time::Instant::now();
                let losses: Vec<f64> = (1..=seeds).map(|seed| of_network(every, epsilon, seed)).collect();
                let seconds = started.elapsed().as_secs_f64() / seeds as f64;
                let average = losses.iter().sum::<f64>() / losses.len() as f64;
                let worst = losses.iter().fold(f64::NEG_INFINITY, |worst, &loss| worst.max(loss));
                let excess = (average - best) / (constant - best);
                let (task, rows) = (self.name, self.training.div_ceil(every));
                println!(
                    "{{\"task\":\"{task}\",\"rows\":{rows},\"epsilon\":{epsilon},\"seeds\":{seeds},\"constant\":\
                     {constant:.6},\"non_private\":{best:.6},\"mean\":{average:.6},\"worst\":{worst:.6},\"excess\":\
                     {excess:.4},\"seconds\":{seconds:.1}}}"
                );
            }
        }
    }
}

fn flights(hidden: &[u32], name: &'static str) -> Option<Task> {
    let flights = flights::Flights::read()?;
    let encoding = flights.encoding();
    let (table, training) = (flights.table, flights.training);
    Some(Task { name, table, training, encoding, loss: Loss::Logistic, hidden: hidden.to_vec() })
}

/// The duration of a ride, or whether it takes more than 20 minutes.
fn taxi(loss: Loss, hidden: &[u32], name: &'static str) -> Option<Task> {
    let rides = taxi::Rides::read()?;
    let mut stated: Stated = rides.for_the_best_line().into();
    let (mut table, training) = (rides.table, rides.training);
    if loss == Loss::Logistic {
        table = table.with("long", |table, row| f64::from(table.numbers("label")[row] > 20.0 / 150.0));
        stated.label = Label { column: table.column_index("long"), kind: LabelKind::Truth };
    }
    let encoding = Encoding::new(stated).expect("an encoding");
    Some(Task { name, table, training, encoding, loss, hidden: hidden.to_vec() })
}

fn category(table: &Table, name: &'static str, kind: KeyKind) -> Field {
    Field { name: name.to_owned(), kind: FieldKind::Category(Key { column: table.column_index(name), kind }) }
}

fn number(table: &Table, name: &'static str, low: f64, high: f64) -> Field {
    let scale = Scale { low, high, span: Span::Signed, missing: Some(0.0) };
    Field { name: name.to_owned(), kind: FieldKind::Number { column: table.column_index(name), scale } }
}

/// Whether a purchase is of ten pieces or more.
fn retail(hidden: &[u32], name: &'static str) -> Option<Task> {
    const HOUR: f64 = 3.6e6;
    let path = real("online_retail_2009_2010.parquet")?;
    let table = Table::read(&path, &["InvoiceDate", "Quantity", "UnitPrice", "Country", "StockCode"])
        .sorted("InvoiceDate", |_, _| true)
        .with("many", |table, row| f64::from(table.numbers("Quantity")[row] >= 10.0))
        .with("hour", |table, row| (table.numbers("InvoiceDate")[row] / HOUR).floor() % 24.0)
        .with("day", |table, row| (table.numbers("InvoiceDate")[row] / (24.0 * HOUR)).floor() % 7.0);
    let prices = vec![0.3, 0.5, 0.7, 0.9, 1.3, 1.7, 2.2, 3.0, 4.0, 5.0, 8.0, 12.0];
    let fields = vec![
        category(&table, "Country", KeyKind::HashText(64)),
        category(&table, "StockCode", KeyKind::HashText(256)),
        category(&table, "hour", KeyKind::HashInteger(32)),
        category(&table, "day", KeyKind::HashInteger(16)),
        category(&table, "UnitPrice", KeyKind::Bucket(prices)),
    ];
    let label = Label { column: table.column_index("many"), kind: LabelKind::Truth };
    let encoding = Encoding::new(Stated { fields, label }).expect("an encoding");
    let training = table.held_out_from("InvoiceDate");
    Some(Task { name, table, training, encoding, loss: Loss::Logistic, hidden: hidden.to_vec() })
}

/// The duration of a ride between coordinates.
fn coordinates() -> Option<Task> {
    let path = real("taxi_latlong.parquet")?;
    const COORDINATES: [&str; 4] = ["pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude"];
    let mut names = vec!["pickup_datetime", "dropoff_datetime", "trip_distance"];
    names.extend(COORDINATES);
    let table = Table::read(&path, &names)
        .with("seconds", |table, row| {
            (table.numbers("dropoff_datetime")[row] - table.numbers("pickup_datetime")[row]) / 1e3
        })
        .sorted("pickup_datetime", |table, row| {
            let (seconds, miles) = (table.numbers("seconds")[row], table.numbers("trip_distance")[row]);
            seconds > 0.0 && seconds <= 9000.0 && miles > 0.0 && miles < 100.0
        })
        .with("hour", |table, row| (table.numbers("pickup_datetime")[row] / 3.6e6).floor() % 24.0);
    let mut fields = vec![number(&table, "trip_distance", 0.0, 20.0)];
    fields.extend([0, 2].map(|index| number(&table, COORDINATES[index], -74.05, -73.75)));
    fields.extend([1, 3].map(|index| number(&table, COORDINATES[index], 40.6, 40.9)));
    fields.push(category(&table, "hour", KeyKind::HashInteger(32)));
    let table = table.with("label", |table, row| table.numbers("seconds")[row] / 9000.0);
    let label = Label { column: table.column_index("label"), kind: LabelKind::Number { low: 0.0, high: 1.0 } };
    let encoding = Encoding::new(Stated { fields, label }).expect("an encoding");
    let training = table.held_out_from("pickup_datetime");
    Some(Task { name: "coordinates_mlp", table, training, encoding, loss: Loss::Squared, hidden: vec![WIDTH] })
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next().unwrap_or_default();
    let seeds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let network: &[u32] = &[WIDTH];
    type Load<'task> = Box<dyn Fn(&'static str) -> Option<Task> + 'task>;
    let tasks: [(&'static str, Load<'_>); 7] = [
        ("flights_logistic", Box::new(|name| flights(&[], name))),
        ("flights_mlp", Box::new(|name| flights(network, name))),
        ("taxi_mlp", Box::new(|name| taxi(Loss::Squared, network, name))),
        ("taxi_logistic", Box::new(|name| taxi(Loss::Logistic, &[], name))),
        ("retail_logistic", Box::new(|name| retail(&[], name))),
        ("retail_mlp", Box::new(|name| retail(network, name))),
        ("coordinates_mlp", Box::new(|_| coordinates())),
    ];
    for (name, load) in tasks {
        if name.contains(only.as_str()) {
            load(name).iter().for_each(|task| task.run(seeds));
        }
    }
}
