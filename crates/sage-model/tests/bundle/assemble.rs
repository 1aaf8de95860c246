//! Training and serving agree: an encoding with every kind of field, and every kind of model.

use sage_kernel::Rows;
use sage_learn::encode::{
    Categories, Encoding, Field, FieldKind, Join, Key, KeyKind, Label, LabelKind, Mean, Scale, Source, Span, Stated,
};
use sage_learn::linear::LinearModel;
use sage_learn::network::{Inputs, Loss, Network, Shape};
use sage_model::bundle::{Bundle, Feature, Model, Predictor, fields};
use sage_model::formula::{Arithmetic, Cell, Column, Domain, Formula, Missing, Part};

use super::draw::Draw;
use super::exported::{self, try_out};
use super::files::card;

/// The columns of the stream, without the label.
fn columns() -> Vec<Column> {
    let column = |name: &str, domain| Column { name: name.to_owned(), domain, missing: Missing::Possible };
    vec![
        Column { missing: Missing::Never, ..column("at", Domain::Time { first: 0, last: 2_000_000_000 }) },
        column("miles", Domain::Number { low: 0.0, high: 100.0 }),
        column("zone", Domain::Whole { low: 0, high: 265 }),
        column("kind", Domain::Text { categories: vec!["cab".to_owned(), "bus".to_owned()] }),
        column("idle", Domain::Truth),
    ]
}

/// The sources of the encoding: the hour, then the stream's columns unchanged.
fn sources() -> Vec<Feature> {
    let column = |name: &str| Formula::Column(name.to_owned());
    let hour = Formula::Part(Part::Hour, Box::new(column("at")));
    let feature = |name: &str, formula| Feature { name: name.to_owned(), formula };
    let named = ["miles", "zone", "kind"].map(|name| feature(name, column(name)));
    let mut sources = vec![feature("hour", hour)];
    sources.extend(named);
    sources.push(feature("nobody needs this", column("idle")));
    sources
}

/// The column of the label, which every row has.
const LABEL: u32 = 9;

/// A row as an encoding sees it: the values of the sources.
struct Seen(Vec<Cell>);

impl Source for Seen {
    fn number(&self, column: u32) -> Option<f64> {
        if column == LABEL {
            return Some(0.0);
        }
        match self.0.get(column as usize)? {
            Cell::Number(number) => Some(*number),
            Cell::Whole(whole) => Some(*whole as f64),
            _ => None,
        }
    }

    fn integer(&self, column: u32) -> Option<i64> {
        self.number(column).filter(|number| number.floor() == *number).map(|number| number as i64)
    }

    fn text(&self, column: u32) -> Option<&str> {
        if let Cell::Text(text) = self.0.get(column as usize)? { Some(text) } else { None }
    }
}

fn encoding() -> Encoding {
    let key = |column, kind| Key { column, kind };
    let texts = || KeyKind::OneOf(Categories::Texts(vec!["cab".to_owned(), "bus".to_owned()]));
    let hours = || KeyKind::OneOf(Categories::Integers((0..24).collect()));
    let zones = || KeyKind::OneOf(Categories::Integers(vec![4, 12, 13, 200]));
    let miles = || KeyKind::Bucket(vec![0.5, 2.0, 7.25]);
    let scale = |low, high, span, missing| Scale { low, high, span, missing: Some(missing) };
    let join = |key: Key, mean, scale| FieldKind::Join(Join { key, mean, scale, table: Vec::new() });
    let kinds = vec![
        FieldKind::Number { column: 1, scale: scale(0.0, 30.0, Span::Signed, 0.25) },
        FieldKind::Category(key(0, hours())),
        join(key(0, hours()), Mean::Label, scale(-2.0, 3.0, Span::Signed, 0.0)),
        FieldKind::Number { column: 2, scale: scale(10.0, 200.0, Span::Unit, 1.0) },
        FieldKind::Category(key(3, texts())),
        FieldKind::Category(key(2, zones())),
        join(key(3, texts()), Mean::Label, scale(-2.0, 3.0, Span::Unit, 0.0)),
        FieldKind::Category(key(1, miles())),
        FieldKind::Category(key(2, KeyKind::HashInteger(9))),
        join(key(1, miles()), Mean::Label, scale(-2.0, 3.0, Span::Signed, 0.0)),
        FieldKind::Cross(key(3, texts()), key(1, miles())),
        join(key(2, zones()), Mean::Label, scale(-2.0, 3.0, Span::Unit, 0.0)),
    ];
    let fields = kinds.into_iter().enumerate().map(|(index, kind)| Field { name: format!("field {index}"), kind });
    let label = Label { column: LABEL, kind: LabelKind::Number { low: -2.0, high: 3.0 } };
    let encoding = Encoding::new(Stated { fields: fields.collect(), label }).unwrap();
    let mut draw = Draw(5);
    let joins: Vec<(String, usize)> =
        encoding.joins().map(|(name, _, join)| (name.to_owned(), join.key.categories() as usize)).collect();
    joins.into_iter().fold(encoding, |encoding, (name, groups)| {
        let means: Vec<f64> = (0..groups).map(|_| even(&mut draw, -2.0, 3.0)).collect();
        encoding.with_table(&name, &means).unwrap()
    })
}

fn row(draw: &mut Draw) -> Vec<Cell> {
    let null = |draw: &mut Draw, cell: Cell| if draw.below(7) == 0 { Cell::Null } else { cell };
    let miles = Cell::Number([0.0, 0.5, 1.9, 2.0, 7.25, 40.0, -3.0][draw.below(7)]);
    let zone = Cell::Whole([3, 4, 12, 13, 14, 200, 265, -8][draw.below(8)]);
    let kind = Cell::Text(["cab", "bus", "tram"][draw.below(3)].to_owned());
    let at = Cell::Whole(draw.below(2_000_000_000) as i64);
    vec![at, null(draw, miles), null(draw, zone), null(draw, kind), Cell::Truth(true)]
}

fn seen(row: &[Cell]) -> Seen {
    let Cell::Whole(at) = row[0] else { panic!("a time") };
    Seen(vec![Cell::Number((at.rem_euclid(86_400) / 3_600) as f64), row[1].clone(), row[2].clone(), row[3].clone()])
}

fn even(draw: &mut Draw, low: f64, high: f64) -> f64 {
    low + (high - low) * draw.unit()
}

fn drawn(shape: Shape, draw: &mut Draw) -> Network {
    let parameters = shape.layers().into_iter().map(|layer| layer.parameters() as usize);
    let parameters = parameters.map(|count| (0..count).map(|_| even(draw, -0.4, 0.4) as f32).collect()).collect();
    Network::from_parameters(shape, parameters).unwrap()
}

#[test]
fn a_graph_predicts_what_the_trainer_predicts() {
    let (encoding, mut draw) = (encoding(), Draw(11));
    let layout = encoding.layout();
    let rows: Vec<Vec<Cell>> = (0..300).map(|_| row(&mut draw)).collect();
    let encoded = encoding.encode(rows.iter().map(|row| seen(row)));
    let weights = (0..layout.inputs()).map(|_| even(&mut draw, -1.0, 1.0)).collect();
    let linear = LinearModel { weights, bias: 0.3, label: (-2.0, 3.0), ridge: 0.0 };
    let widths = encoding.stated().fields.iter().filter_map(|field| match &field.kind {
        FieldKind::Category(key) => Some(key.categories()),
        FieldKind::Cross(one, other) => Some(one.categories() * other.categories()),
        _ => None,
    });
    let embedded = Inputs::Embedded { fields: widths.collect(), width: 3 };
    let network =
        |inputs, hidden, loss, draw: &mut Draw| drawn(Shape::new(layout, inputs, hidden, loss).unwrap(), draw);
    let networks = [
        network(Inputs::Direct, vec![8, 5], Loss::Squared, &mut draw),
        network(Inputs::Direct, Vec::new(), Loss::Logistic, &mut draw),
        network(embedded, vec![6], Loss::Logistic, &mut draw),
    ];
    let models = networks.iter().map(Model::Network).chain([Model::Linear(&linear)]);
    for (index, model) in models.enumerate() {
        let graph = fields(&columns(), &sources(), &encoding).unwrap().with(model).unwrap();
        assert!(graph.outline().schema.columns().iter().all(|column| column.name != "idle"));
        let bundle = Bundle::write(graph, &card(), b"{}").unwrap();
        let graph = bundle.graph();
        let inputs: Vec<Vec<Cell>> = rows.iter().map(|row| row[..4].to_vec()).collect();
        let predictor = Predictor::new(graph).unwrap();
        let served = predictor.rows(&inputs).unwrap();
        // Single rows, a few and all together must agree to the last bit; these formulas are exact.
        let alone = inputs.iter().flat_map(|row| predictor.rows(std::slice::from_ref(row)).unwrap());
        assert!(alone.eq(served.iter().copied()), "model {index}: a single row has another prediction");
        let few = inputs.chunks(3).flat_map(|rows| predictor.rows(rows).unwrap());
        assert!(few.eq(served.iter().copied()), "model {index}: a few rows have other predictions");
        for (at, served) in served.iter().enumerate() {
            let trained = match model {
                Model::Network(network) => network.forward(&encoded.row(at)),
                Model::Linear(linear) => linear.predict(&encoded.row(at)) as f32,
            };
            assert!((served - trained).abs() <= 1e-5 * trained.abs().max(1.0), "model {index}: {served:?} {trained}");
        }
    }
}

#[test]
fn unsupported_encodings_are_refused_before_training() {
    let label = Label { column: LABEL, kind: LabelKind::Truth };
    let refused = |kind: FieldKind| {
        let fields_ = vec![Field { name: "odd".to_owned(), kind }];
        let encoding = Encoding::new(Stated { fields: fields_, label }).unwrap();
        fields(&columns(), &sources(), &encoding).err().map(|refusal| refusal.to_string()).unwrap_or_default()
    };
    assert!(refused(FieldKind::Category(Key { column: 3, kind: KeyKind::HashText(8) })).contains("odd"));
    let odd = Categories::Integers((0..500).map(|number| number * 2).collect());
    assert!(refused(FieldKind::Category(Key { column: 2, kind: KeyKind::OneOf(odd) })).contains("hash them"));
    let scale = Scale { low: 0.0, high: 1.0, span: Span::Unit, missing: Some(0.0) };
    let key = Key { column: 3, kind: KeyKind::OneOf(Categories::Texts(vec!["cab".to_owned()])) };
    let join = Join { key, mean: Mean::Label, scale, table: Vec::new() };
    assert!(refused(FieldKind::Join(join)).contains("fitted"));
    assert!(refused(FieldKind::Number { column: 7, scale }).contains("no formula"));
}

/// Regression test: a row with a missing number got the prediction of the lower bound. The rules for missing numbers are
/// the same in training, in serving and in the exported graph, for nulls, NaN and infinities.
#[test]
fn missing_numbers_follow_their_rules_in_training_serving_and_onnx() {
    let divided = Formula::Arithmetic(
        Arithmetic::Divide,
        Box::new(Formula::Column("miles".to_owned())),
        Box::new(Formula::Column("zone".to_owned())),
    );
    let sources = [Feature { name: "per zone".to_owned(), formula: divided }];
    let scale = |missing| Scale { low: -2.0, high: 8.0, span: Span::Unit, missing };
    let number = |missing| FieldKind::Number { column: 0, scale: scale(missing) };
    let bucket = FieldKind::Category(Key { column: 0, kind: KeyKind::Bucket(vec![0.0, 3.0]) });
    for (kinds, left_out) in [
        (vec![number(None), bucket.clone()], true),
        (vec![number(Some(0.75)), bucket.clone()], false),
        (vec![number(Some(0.0)), FieldKind::Missing { column: 0 }, bucket], false),
    ] {
        let named = kinds.into_iter().zip(["a", "b", "c"]).map(|(kind, name)| Field { name: name.to_owned(), kind });
        let label = Label { column: LABEL, kind: LabelKind::Number { low: 0.0, high: 1.0 } };
        let encoding = Encoding::new(Stated { fields: named.collect(), label }).unwrap();
        let mut draw = Draw(23);
        let shape = Shape::new(encoding.layout(), Inputs::Direct, vec![5], Loss::Squared).unwrap();
        let network = drawn(shape, &mut draw);
        let graph = fields(&columns(), &sources, &encoding).unwrap().with(Model::Network(&network)).unwrap();
        assert_eq!(graph.outline().leaves_rows_out(), left_out);
        assert!(try_out(&graph).is_ok(), "synthetic rows with nulls are predicted or left out alike");
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let miles =
            odd.map(Cell::Number).into_iter().chain([0.0, 4.0, -7.0, 1e308].map(Cell::Number)).chain([Cell::Null]);
        let zones = || [0, 1, -3].map(Cell::Whole).into_iter().chain([Cell::Null]);
        let rows: Vec<Vec<Cell>> = miles.flat_map(|miles| zones().map(move |zone| vec![miles.clone(), zone])).collect();
        let value = |row: &[Cell]| match (&row[0], &row[1]) {
            (Cell::Number(miles), Cell::Whole(zone)) => *miles / *zone as f64,
            _ => f64::NAN,
        };
        let predictor = Predictor::new(&graph).unwrap();
        let together = predictor.rows(&rows).unwrap();
        let exported = exported::predict(&graph, &rows).unwrap();
        let (mut missing, mut present) = (0, 0);
        for (index, row) in rows.iter().enumerate() {
            let batch = encoding.encode(std::iter::once(Seen(vec![Cell::Number(value(row))])));
            let trained = (batch.count() == 1).then(|| network.forward(&batch.row(0)));
            assert_eq!(trained.is_none(), left_out && !value(row).is_finite(), "{row:?}");
            assert_eq!(predictor.leaves_out(row), trained.is_none(), "{row:?}");
            let alone = predictor.rows(std::slice::from_ref(row)).unwrap()[0];
            for served in [together[index], alone, exported[index]] {
                match trained {
                    Some(trained) => assert!((served - trained).abs() <= 1e-5, "{row:?}: {served} {trained}"),
                    None => assert!(served.is_nan(), "{row:?}: {served}"),
                }
            }
            *(if value(row).is_finite() { &mut present } else { &mut missing }) += 1;
        }
        assert!(missing > 10 && present > 5, "{missing} {present}");
    }
}
