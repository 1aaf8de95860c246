//! From rows to a served model: ingested, charged, encoded, joined with a private table, trained, validated on the test
//! lane, written as a bundle and served from it.

use sage_engine::generate::{self, TAXI, Taxi};
use sage_engine::ingest::Source;
use sage_engine::read::{Expression, Query, formula};
use sage_engine::stream::{StreamFile, parse_time};
use sage_engine::{AccessMode, ChargeRequest, Cost, Engine, Lane, Sigma, TableNoise};
use sage_learn::encode::{
    Categories, Encoding, Field, FieldKind, Join, Key, KeyKind, Label, LabelKind, Mean, Scale, Span, Stated,
};
use sage_learn::linear::{AdaSsp, LinearModel, Ridge, sigma_for};
use sage_learn::statistics::fit_join;
use sage_learn::validate::{Bound, Confidence, Decision, LossCheck, LossTarget, Rejection};
use sage_model::bundle::{Bundle, Card, CardAccess, Feature, Model, Predictor, Validation, fields, try_out};
use sage_model::formula::{Cell, Column, Domain, Missing};

use crate::world::{World, epsilon, principal};

const FILTER: &str = "distance > 0 AND duration BETWEEN 60 AND 9000";
const COLUMNS: [(&str, &str); 5] = [
    ("hour", "extract(hour from pickup)"),
    ("day", "extract(dow from pickup)"),
    ("distance", "distance"),
    ("payment", "payment"),
    ("duration", "duration / 9000"),
];
const LABEL: u32 = 4;

fn expressions() -> Vec<Expression> {
    COLUMNS.map(|(name, sql)| Expression { name: name.to_owned(), sql: sql.to_owned() }).to_vec()
}

/// Hours and days one-hot, distances in buckets, the payment, and the usual duration at that hour.
fn encoding() -> Encoding {
    let integers = |count: i64| KeyKind::OneOf(Categories::Integers((0..count).collect()));
    let texts = ["card", "cash", "free", "dispute"].map(str::to_owned).to_vec();
    let key = |column, kind| Key { column, kind };
    let edges = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0].to_vec();
    let scale = Scale { low: 0.0, high: 1.0, span: Span::Unit, missing: Some(0.0) };
    let kinds = [
        ("hour", FieldKind::Category(key(0, integers(24)))),
        ("day", FieldKind::Category(key(1, integers(7)))),
        ("far", FieldKind::Category(key(2, KeyKind::Bucket(edges)))),
        ("paid", FieldKind::Category(key(3, KeyKind::OneOf(Categories::Texts(texts))))),
        ("miles", FieldKind::Number { column: 2, scale: Scale { high: 30.0, ..scale } }),
        ("usual", FieldKind::Join(Join { key: key(0, integers(24)), mean: Mean::Label, scale, table: Vec::new() })),
    ];
    let fields = kinds.map(|(name, kind)| Field { name: name.to_owned(), kind }).to_vec();
    let label = Label { column: LABEL, kind: LabelKind::Number { low: 0.0, high: 1.0 } };
    Encoding::new(Stated { fields, label }).expect("an encoding")
}

fn columns() -> Vec<Column> {
    let column = |name: &str, domain, missing| Column { name: name.to_owned(), domain, missing };
    let categories = ["card", "cash", "free", "dispute"].map(str::to_owned).to_vec();
    vec![
        column("pickup", Domain::Time { first: 1_700_000_000, last: 1_800_000_000 }, Missing::Never),
        column("distance", Domain::Number { low: 0.0, high: 100.0 }, Missing::Never),
        column("payment", Domain::Text { categories }, Missing::Possible),
    ]
}

/// An engine with a month of synthetic rides, all sealed, and the keys of their blocks.
fn with_rides(world: &World, rides: u64) -> (Engine, Vec<String>) {
    let folder = world.beside("rides");
    let taxi = Taxi::new(rides, "2026-01-01".parse().expect("a day"), 3).expect("rides");
    generate::write(&taxi, &folder, None).expect("written");
    let engine = world.open();
    let loose = TAXI.replace("epsilon = \"1.0\"", "epsilon = \"10\"").replace("{ time = \"1h\" }", "{ time = \"1d\" }");
    engine.create_stream(&principal("ada"), &loose).expect("a stream");
    engine.ingest(&principal("dan"), "taxi", "all", Source::path(&folder)).expect("a batch");
    let blocks = engine.over_before("taxi", parse_time("2027-01-01").expect("a time")).expect("a stream");
    engine.seal(&principal("dan"), "taxi", &blocks).expect("sealed");
    (engine, blocks)
}

fn card() -> Card {
    Card {
        name: "duration of a ride".to_owned(),
        intended_use: "a test".to_owned(),
        stream: "taxi".to_owned(),
        blocks: vec!["day=2026-01-01".to_owned()],
        epsilon: "2".to_owned(),
        delta: "1e-6".to_owned(),
        unit: "event".to_owned(),
        filter: "renyi".to_owned(),
        access: CardAccess::Enforced,
        validation: Some(Validation {
            validator: "mse".to_owned(),
            target: "0.01".to_owned(),
            confidence: "0.95".to_owned(),
            estimate: None,
            best_constant: None,
        }),
        attempts: 1,
    }
}

fn squared(model: &LinearModel, row: &sage_learn::encode::Example<'_>) -> f64 {
    let miss = model.predict(row) - f64::from(row.label);
    miss * miss
}

#[test]
fn rides_become_a_served_model() {
    let world = World::new();
    let (engine, blocks) = with_rides(&world, 120_000);
    let file = StreamFile::parse(TAXI).expect("the stream's file");
    let sources: Vec<Feature> = expressions()[..LABEL as usize]
        .iter()
        .map(|expression| {
            let formula = formula(&file.row_schema(), expression).expect("a graph can hold it");
            Feature { name: expression.name.clone(), formula }
        })
        .collect();

    let encoding = encoding();
    let sigma: Sigma = sigma_for(2.0, 1e-6, 3).expect("a sigma");
    let learner = AdaSsp::new(encoding.layout(), (0.0, 1.0), sigma, Ridge::Adaptive).expect("a learner");
    let table = TableNoise::Laplace(epsilon("0.2"));
    let risks = Confidence::new(0.95).expect("a confidence").risks(Rejection::Never);
    let check = LossCheck {
        target: LossTarget::new(0.01, 1.0).expect("a target"),
        bound: Bound::named("kl").expect("a bound"),
        noise: TableNoise::Laplace(epsilon("1")),
        risk: risks.accept,
    };
    let mut train = learner.mechanisms();
    train.push(table.mechanism().expect("a price"));
    let (lane, judged) = check.cost().expect("a price");
    assert_eq!(lane, Lane::Test);
    let costs = [Some(Cost::new(train).expect("a cost")), Some(Cost::new(vec![judged]).expect("a cost"))];
    let request = ChargeRequest {
        key: "first".to_owned(),
        stream: "taxi".to_owned(),
        context: None,
        blocks,
        costs,
        access: AccessMode::Enforced,
        purpose: "durations".to_owned(),
    };
    let granted = engine.charge(&principal("mia"), request).expect("granted");
    let query = Query { filter: Some(FILTER.to_owned()), columns: expressions() };
    let mut session = engine.open_encoded(granted, &query, &encoding).expect("a session");
    let encoding = fit_join(&mut session, &encoding, "usual", table).expect("a table");
    let model = learner.train(&mut session, Lane::Train).expect("a model");
    let verdict = check.run(&mut session, |row| squared(&model, &row)).expect("a verdict");
    assert_eq!(verdict.decision, Decision::Accept, "{}", verdict.explanation);

    let graph = fields(&columns(), &sources, &encoding).expect("fields").with(Model::Linear(&model)).expect("a graph");
    try_out(&graph).expect("it predicts synthetic rows");
    let bundle = Bundle::write(graph, &card(), b"{}").expect("a bundle");
    let digest = *blake3::hash(bundle.digest().as_bytes()).as_bytes();
    engine.release(session.finish(), digest).expect("it may leave");
    let files = bundle.files().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect();
    let again = Bundle::read_vouched(files, &bundle.digest()).expect("read back");
    let predictor = Predictor::new(again.graph()).expect("a predictor");
    for (at, distance, payment) in [(1_767_300_000, 0.7, Some("card")), (1_767_350_123, 12.5, None)] {
        let paid = payment.map_or(Cell::Null, |payment: &str| Cell::Text(payment.to_owned()));
        let served = predictor.rows(&[vec![Cell::Whole(at), Cell::Number(distance), paid]]).expect("a prediction")[0];
        let seen = Seen { at, distance, payment };
        let encoded = encoding.encode(std::iter::once(&seen));
        let trained = model.predict(&sage_kernel::Rows::row(&encoded, 0)) as f32;
        assert!((served - trained).abs() <= 1e-5, "{served} {trained}");
    }
}

/// A row as the input of the encoding.
struct Seen {
    at: i64,
    distance: f64,
    payment: Option<&'static str>,
}

impl sage_learn::encode::Source for Seen {
    fn number(&self, column: u32) -> Option<f64> {
        let days = self.at.div_euclid(86_400);
        match column {
            0 => Some((self.at.rem_euclid(86_400) / 3_600) as f64),
            // The first of January 1970 was a Thursday.
            1 => Some((days + 4).rem_euclid(7) as f64),
            2 => Some(self.distance),
            // A row without a label is left out by the encoding; the prediction does not depend on it.
            LABEL => Some(0.0),
            _ => None,
        }
    }

    fn integer(&self, column: u32) -> Option<i64> {
        self.number(column).filter(|_| column < 2).map(|number| number as i64)
    }

    fn text(&self, column: u32) -> Option<&str> {
        self.payment.filter(|_| column == 3)
    }
}
