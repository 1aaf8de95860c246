//! Serving times, one JSON object per line: `name`, `ours`, `peer`, `ratio`, `unit`.
//!
//! The bundle is the Taxi network's, from times and numbers to a prediction. A single row is compared
//! with its target; a thousand rows with the network's matrix products alone, by the product that training uses, of rows
//! without a zero.

use std::hint::black_box;
use std::time::Instant;

use sage_learn::encode::{
    Categories, Encoded, Encoding, Field, FieldKind, Key, KeyKind, Label, LabelKind, Layout, Stated,
};
use sage_learn::network::{Inputs, Loss, Network, Shape};
use sage_model::bundle::{Cells, Feature, Graph, Model, Predictor, fields};
use sage_model::formula::{Cell, Column, Domain, Formula, Missing, Part};

/// The longest that one row may take, in microseconds.
const MOST_MICROSECONDS: f64 = 1_000.0;
const ROWS: usize = 1_000;

fn key(column: u32, kind: KeyKind) -> FieldKind {
    FieldKind::Category(Key { column, kind })
}

/// Hour, weekday, month, and two numbers in buckets: 61 one-hot columns.
fn encoding() -> Encoding {
    let wholes = |first: i64, last: i64| KeyKind::OneOf(Categories::Integers((first..last).collect()));
    let edges = |count: u32| KeyKind::Bucket((1..count).map(f64::from).collect());
    let kinds =
        [key(0, wholes(0, 23)), key(1, wholes(0, 6)), key(2, wholes(1, 12)), key(3, edges(7)), key(4, edges(9))];
    let field = |(index, kind)| Field { name: format!("field {index}"), kind };
    let label = Label { column: 5, kind: LabelKind::Number { low: 0.0, high: 1.0 } };
    Encoding::new(Stated { fields: kinds.into_iter().enumerate().map(field).collect(), label }).expect("an encoding")
}

fn graph() -> Graph {
    let column = |name: &str, domain, missing| Column { name: name.to_owned(), domain, missing };
    let number = Domain::Number { low: 0.0, high: 20.0 };
    let columns = [
        column("at", Domain::Time { first: 0, last: 2_000_000_000 }, Missing::Never),
        column("miles", number.clone(), Missing::Possible),
        column("speed", number, Missing::Possible),
    ];
    let of = |name: &str| Formula::Column(name.to_owned());
    let part = |part| Formula::Part(part, Box::new(of("at")));
    let sources = [part(Part::Hour), part(Part::DayOfWeek), part(Part::Month), of("speed"), of("miles")];
    let feature = |(index, formula)| Feature { name: format!("feature {index}"), formula };
    let sources: Vec<Feature> = sources.into_iter().enumerate().map(feature).collect();
    let encoding = encoding();
    assert_eq!(encoding.layout(), Layout { numbers: 0, active: 5, columns: 61 });
    let shape = Shape::new(encoding.layout(), Inputs::Direct, vec![5000, 100], Loss::Squared).expect("a shape");
    let network = Network::new(shape, 1);
    fields(&columns, &sources, &encoding).expect("fields").with(Model::Network(&network)).expect("a graph")
}

/// Synthetic rows.
fn rows(count: usize) -> Vec<Vec<Cell>> {
    let row = |index: usize| {
        let number = |factor: usize| Cell::Number((index * factor % 2_000) as f64 / 100.0);
        vec![Cell::Whole((index * 7_919_003 % 2_000_000_000) as i64), number(379), number(831)]
    };
    (0..count).map(row).collect()
}

/// Seconds of each run, the shortest first.
fn seconds(runs: usize, mut run: impl FnMut()) -> Vec<f64> {
    let once = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    let mut seconds: Vec<f64> = (0..runs).map(once).collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

/// The median time of a single row, from cells to a number.
fn one(predictor: &Predictor) -> f64 {
    let rows = rows(64);
    let mut next = rows.chunks(1).cycle();
    let seconds = seconds(2_000, || {
        black_box(predictor.rows(next.next().unwrap_or_default()).expect("a prediction"));
    });
    seconds[seconds.len() / 2] * 1e6
}

/// A thousand rows, column by column.
fn batch(predictor: &Predictor) -> f64 {
    let numbers = |factor: usize| Cells::Numbers((0..ROWS).map(|row| (row * factor % 2_000) as f64 / 100.0).collect());
    let times = (0..ROWS).map(|row| (row * 7_919_003 % 2_000_000_000) as i64).collect();
    let batch = [Cells::Wholes(times), numbers(379), numbers(831)];
    seconds(60, || drop(black_box(predictor.batch(&batch).expect("predictions"))))[0] * 1e3
}

/// The matrix products of the dense layers alone; one-hot columns need none.
fn products() -> f64 {
    let layout = Layout { numbers: 5000, active: 0, columns: 0 };
    let shape = Shape::new(layout, Inputs::Direct, vec![100], Loss::Squared).expect("a shape");
    let network = Network::new(shape, 1);
    let numbers = (0..ROWS * 5000).map(|index| (index % 997) as f32 / 997.0 + 0.001).collect();
    let rows = Encoded::from_parts(layout, numbers, Vec::new(), vec![0.0; ROWS]).expect("rows that fit");
    seconds(60, || drop(black_box(network.predict(&rows))))[0] * 1e3
}

fn print(name: &str, ours: f64, peer: f64, unit: &str) {
    println!(
        r#"{{"name": "{name}", "ours": {ours:?}, "peer": {peer:?}, "ratio": {:?}, "unit": "{unit}"}}"#,
        peer / ours
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| *wanted == name);
    let predictor = Predictor::new(&graph()).expect("a graph that runs");
    if wanted("predict_one_us") {
        print("predict_one_us", one(&predictor), MOST_MICROSECONDS, "us");
    }
    if wanted("predict_batch") {
        print("predict_batch", batch(&predictor), products(), "ms");
    }
}
