//! Random graphs and rows with edge cases, from a seed.

use sage_model::bundle::{
    Activation, CategoryIndex, Feature, Field, Graph, Layer, Link, Outline, Scaled, Shape, Weights,
};
use sage_model::formula::{
    Arithmetic, Case, Cell, Column, Comparison, Domain, Formula, Function, Keys, Lookup, Missing, Part, Schema, Table,
    TableColumn,
};

/// SplitMix64.
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const NUMBERS: [f64; 14] =
    [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, 7.0, 49.0, 1e-9, 1e6, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
const CATEGORIES: [&str; 4] = ["red", "green", "blue", "ünïcode 🦀"];

pub fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

pub fn schema() -> Schema {
    let column = |name: &str, domain: Domain, missing| Column { name: name.to_owned(), domain, missing };
    let number = Domain::Number { low: -10.0, high: 10.0 };
    let whole = Domain::Whole { low: -100, high: 100 };
    let time = Domain::Time { first: -9_000_000_000, last: 8_000_000_000 };
    let text = Domain::Text { categories: texts(&CATEGORIES) };
    let mut columns = Vec::new();
    for (suffix, missing) in [("", Missing::Never), ("?", Missing::Possible)] {
        columns.push(column(&format!("number{suffix}"), number.clone(), missing));
        columns.push(column(&format!("whole{suffix}"), whole.clone(), missing));
        columns.push(column(&format!("truth{suffix}"), Domain::Truth, missing));
        columns.push(column(&format!("time{suffix}"), time.clone(), missing));
        columns.push(column(&format!("text{suffix}"), text.clone(), missing));
    }
    let values = |count: u32| (0..count).map(|index| f64::from(index) * 0.3 - 1.0).collect();
    let by_hour = Table {
        name: "speed by hour".to_owned(),
        key: "hour".to_owned(),
        keys: Keys::From { first: -2, count: 24 },
        columns: vec![TableColumn { name: "mean".to_owned(), values: values(24) }],
    };
    let by_color = Table {
        name: "colors".to_owned(),
        key: "color".to_owned(),
        keys: Keys::Texts(texts(&CATEGORIES[1..])),
        columns: vec![TableColumn { name: "mean".to_owned(), values: values(3) }],
    };
    Schema::new(columns, vec![by_hour, by_color]).unwrap()
}

pub fn row(draw: &mut Draw, schema: &Schema) -> Vec<Cell> {
    let cell = |column: &Column| {
        if column.missing == Missing::Possible && draw.below(4) == 0 {
            return Cell::Null;
        }
        match &column.domain {
            Domain::Number { .. } if draw.below(2) == 0 => Cell::Number(draw.pick(&NUMBERS)),
            Domain::Number { .. } => Cell::Number(20.0 * draw.unit() - 10.0),
            Domain::Whole { .. } if draw.below(5) == 0 => Cell::Whole(draw.next() as i64 >> draw.below(40)),
            Domain::Whole { .. } => Cell::Whole(draw.below(60) as i64 - 20),
            Domain::Hashed => Cell::Whole((draw.next() >> 11) as i64),
            Domain::Truth => Cell::Truth(draw.below(2) == 0),
            Domain::Time { .. } if draw.below(8) == 0 => Cell::Whole(draw.next() as i64 >> draw.below(40)),
            Domain::Time { .. } => Cell::Whole((draw.next() % 17_000_000_000) as i64 - 9_000_000_000),
            Domain::Text { .. } if draw.below(4) == 0 => Cell::Text(draw.pick(&["violet", "", "Red"]).to_owned()),
            Domain::Text { .. } => Cell::Text(draw.pick(&CATEGORIES).to_owned()),
        }
    };
    schema.columns().iter().map(cell).collect()
}

fn suffix(draw: &mut Draw) -> &'static str {
    draw.pick(&["", "?"])
}

pub fn column(draw: &mut Draw, name: &str) -> Formula {
    Formula::Column(format!("{name}{}", suffix(draw)))
}

/// A formula whose last bits may differ between runtimes. It is outermost, and no category index depends on it: a
/// comparison exactly at such a value may differ too.
pub fn smooth(draw: &mut Draw, depth: usize) -> Formula {
    let inner = Box::new(number(draw, depth));
    let functions = [Function::Exp, Function::Ln, Function::Sin, Function::Cos, Function::Tan, Function::Tanh];
    match draw.below(7) {
        6 => Formula::Arithmetic(Arithmetic::Power, inner, Box::new(number(draw, depth))),
        which => Formula::Function(functions[which], inner),
    }
}

/// A formula whose value is a number, the same to the last bit everywhere.
pub fn number(draw: &mut Draw, depth: usize) -> Formula {
    let boxed = |draw: &mut Draw| Box::new(number(draw, depth - 1));
    if depth == 0 {
        return match draw.below(6) {
            0 => Formula::Number(draw.pick(&[0.0, 1.0, -2.0, 0.5, 49.0, 1e300, -1e-300])),
            1 => Formula::Null,
            2 | 3 => column(draw, "number"),
            _ => column(draw, "whole"),
        };
    }
    match draw.below(8) {
        0 | 1 => {
            let function = draw.pick(&[
                Function::Negate,
                Function::Abs,
                Function::Ceil,
                Function::Floor,
                Function::Round,
                Function::Truncate,
                Function::Sign,
                Function::Sqrt,
            ]);
            Formula::Function(function, boxed(draw))
        }
        2 | 3 => {
            let operation = draw.pick(&[
                Arithmetic::Add,
                Arithmetic::Subtract,
                Arithmetic::Multiply,
                Arithmetic::Divide,
                Arithmetic::Remainder,
            ]);
            Formula::Arithmetic(operation, boxed(draw), boxed(draw))
        }
        4 => Formula::Coalesce(vec![number(draw, depth - 1), number(draw, depth - 1), number(draw, depth - 1)]),
        5 => Formula::Case(Case {
            branches: vec![
                (truth(draw, depth - 1), number(draw, depth - 1)),
                (truth(draw, depth - 1), number(draw, depth - 1)),
            ],
            otherwise: (draw.below(2) == 0).then(|| boxed(draw)),
        }),
        6 => match draw.below(3) {
            0 => Formula::AsNumber(Box::new(truth(draw, depth - 1))),
            1 => Formula::Lookup(Lookup {
                table: "colors".to_owned(),
                column: "mean".to_owned(),
                key: Box::new(column(draw, "text")),
            }),
            _ => Formula::Lookup(Lookup {
                table: "speed by hour".to_owned(),
                column: "mean".to_owned(),
                key: boxed(draw),
            }),
        },
        _ => part(draw),
    }
}

fn part(draw: &mut Draw) -> Formula {
    let part = draw.pick(&[
        Part::Epoch,
        Part::Year,
        Part::Quarter,
        Part::Month,
        Part::Day,
        Part::DayOfWeek,
        Part::Hour,
        Part::Minute,
        Part::Second,
    ]);
    Formula::Part(part, Box::new(column(draw, "time")))
}

/// A formula whose value is a truth value.
pub fn truth(draw: &mut Draw, depth: usize) -> Formula {
    let boxed = |draw: &mut Draw| Box::new(truth(draw, depth - 1));
    if depth == 0 {
        return match draw.below(5) {
            0 => Formula::Truth(draw.below(2) == 0),
            1 => Formula::Among(Box::new(column(draw, "text")), texts(&["blue", "violet", "", "blue"])),
            2 => Formula::IsNull(Box::new(column(draw, "text"))),
            _ => column(draw, "truth"),
        };
    }
    match draw.below(8) {
        0..=2 => {
            let comparison = draw.pick(&[
                Comparison::Equal,
                Comparison::Different,
                Comparison::Less,
                Comparison::AtMost,
                Comparison::Greater,
                Comparison::AtLeast,
            ]);
            Formula::Compare(comparison, Box::new(number(draw, depth - 1)), Box::new(number(draw, depth - 1)))
        }
        3 => Formula::Both(boxed(draw), boxed(draw)),
        4 => Formula::Either(boxed(draw), boxed(draw)),
        5 => Formula::Not(boxed(draw)),
        6 => Formula::IsNull(Box::new(number(draw, depth - 1))),
        _ => Formula::Case(Case {
            branches: vec![(truth(draw, depth - 1), truth(draw, depth - 1))],
            otherwise: (draw.below(2) == 0).then(|| boxed(draw)),
        }),
    }
}

pub fn scaled(feature: &str) -> Field {
    let feature = feature.to_owned();
    Field::Number(Scaled { feature, low: -50.0, high: 2_500.0, shift: 3.0, factor: 0.01, missing: Some(0.25) })
}

fn category(draw: &mut Draw, features: &[Feature], depth: usize) -> CategoryIndex {
    let name = |draw: &mut Draw| features[draw.below(features.len() - 8)].name.clone();
    match draw.below(if depth == 0 { 4 } else { 6 }) {
        0 => {
            let feature = draw.pick(&["text", "text?"]).to_owned();
            CategoryIndex::Category { feature, categories: texts(&CATEGORIES), otherwise: draw.below(5) as u32 }
        }
        1 => CategoryIndex::Index { feature: name(draw), first: -3, count: 10, otherwise: draw.below(11) as u32 },
        2 => CategoryIndex::Bucket {
            feature: name(draw),
            edges: vec![-1.0, 0.0, 0.5, 7.0],
            otherwise: draw.below(6) as u32,
        },
        3 => {
            CategoryIndex::Hash { feature: name(draw), seed: draw.next(), count: 13, otherwise: draw.below(14) as u32 }
        }
        4 => CategoryIndex::Cross(vec![category(draw, features, depth - 1), category(draw, features, depth - 1)]),
        _ => CategoryIndex::Folded { of: Box::new(category(draw, features, depth - 1)), seed: draw.next(), count: 7 },
    }
}

/// A graph over all columns with random formulas, fields and layers.
pub fn graph(seed: u64) -> Graph {
    let draw = &mut Draw(seed);
    let schema = schema();
    let mut features = Vec::new();
    for index in 0..6 {
        let depth = 1 + draw.below(4);
        let formula = if draw.below(3) == 0 { truth(draw, depth) } else { number(draw, depth) };
        features.push(Feature { name: format!("feature {index}"), formula });
        features.push(Feature { name: format!("smooth {index}"), formula: smooth(draw, depth - 1) });
    }
    // Every column is used by something.
    for column in schema.columns() {
        let formula = Formula::Column(column.name.clone());
        let formula =
            if column.name.starts_with("time") { Formula::Part(Part::Hour, Box::new(formula)) } else { formula };
        features.push(Feature { name: column.name.clone(), formula });
    }
    // The features that no categorical field uses come last.
    features.sort_by_key(|feature| feature.name.starts_with("text") || feature.name.starts_with("smooth"));
    let mut fields = Vec::new();
    for index in 0..6 {
        fields.push(scaled(&format!("feature {index}")));
        fields.push(scaled(&format!("smooth {index}")));
    }
    for _ in 0..1 + draw.below(4) {
        let category = category(draw, &features, 2);
        fields.push(if draw.below(3) == 0 { Field::Embedded { category, width: 3 } } else { Field::OneHot(category) });
    }
    let mut layers = Vec::new();
    for _ in 0..draw.below(3) {
        let activation = draw.pick(&[Activation::Relu, Activation::Tanh, Activation::Sigmoid]);
        layers.push(Shape { outputs: 1 + draw.below(9) as u32, activation });
    }
    let link = draw.pick(&[Link::Identity, Link::Clipped { low: -0.5, high: 0.25 }, Link::Sigmoid, Link::Softmax]);
    let outputs = if link == Link::Softmax { 3 } else { 1 };
    let named = link == Link::Softmax && layers.len() != 1;
    let classes = if named { ["card", "cash", "it's free"].map(str::to_owned).to_vec() } else { Vec::new() };
    layers.push(Shape { outputs, activation: Activation::Identity });
    let outline = Outline { schema, features, fields, layers, link, classes, steps: Vec::new() };
    let weights = weights(draw, &outline);
    Graph::new(outline, weights).unwrap()
}

pub fn weights(draw: &mut Draw, outline: &Outline) -> Weights {
    let mut random = |count: u64| -> Vec<f32> { (0..count).map(|_| (2.0 * draw.unit() - 1.0) as f32).collect() };
    let embeddings = outline.fields.iter().filter_map(|field| match field {
        Field::Embedded { category, width } => Some(category.categories() * u64::from(*width)),
        _ => None,
    });
    let embeddings = embeddings.map(&mut random).collect();
    let mut inputs: u64 = outline.inputs().iter().sum();
    let mut layers = Vec::new();
    for shape in &outline.layers {
        let outputs = u64::from(shape.outputs);
        layers.push(Layer { weights: random(outputs * inputs), bias: random(outputs) });
        inputs = outputs;
    }
    Weights { embeddings, layers, arrays: Vec::new() }
}
