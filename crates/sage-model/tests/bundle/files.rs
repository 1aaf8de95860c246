//! The content of a bundle, its reproducibility, and reading it back.

use sage_model::bundle::{Activation, Bundle, Card, CardAccess, Graph, Link, Predictor, TrialRefusal, Validation};

use crate::draw::{self, Draw};
use crate::exported::try_out;

pub fn card() -> Card {
    Card {
        name: "taxi | duration".to_owned(),
        intended_use: "Expected duration of a ride.\nNot for prices.".to_owned(),
        stream: "rides".to_owned(),
        blocks: vec!["2026-01-01 to 2026-01-31".to_owned()],
        epsilon: "0.5".to_owned(),
        delta: "0.000001".to_owned(),
        unit: "record".to_owned(),
        filter: "renyi".to_owned(),
        access: CardAccess::Enforced,
        validation: Some(Validation {
            validator: "mean squared error".to_owned(),
            target: "at most 0.01".to_owned(),
            confidence: "0.95".to_owned(),
            estimate: None,
            best_constant: None,
        }),
        attempts: 3,
    }
}

pub fn bundle(seed: u64) -> Bundle {
    Bundle::write(draw::graph(seed), &card(), b"{\"event\": 7}").unwrap()
}

pub fn files(bundle: &Bundle) -> Vec<(String, Vec<u8>)> {
    bundle.files().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect()
}

#[test]
fn a_bundle_is_the_same_every_time_and_is_read_back() {
    for seed in 0..10 {
        let (first, second) = (bundle(seed), bundle(seed));
        assert_eq!(files(&first), files(&second), "seed {seed}");
        assert_eq!(first.digest(), second.digest(), "seed {seed}");
        let read = Bundle::read_vouched(files(&first), &first.digest()).unwrap();
        assert_eq!(read, first, "seed {seed}");
        assert_ne!(first.digest(), bundle(seed + 100).digest(), "seed {seed}");
        let schema = &first.graph().outline().schema;
        let rows: Vec<_> = (0..4).map(|row| draw::row(&mut Draw(row), schema)).collect();
        let predict = |bundle: &Bundle| Predictor::new(bundle.graph()).unwrap().rows(&rows).unwrap();
        assert_eq!(predict(&read), predict(&first), "seed {seed}");
    }
}

#[test]
fn it_has_these_files_and_no_others() {
    let names: Vec<String> = files(&bundle(1)).into_iter().map(|(name, _)| name).collect();
    let expected = [
        "MLmodel",
        "README.md",
        "features/colors.parquet",
        "features/speed_by_hour.parquet",
        "graph.json",
        "model.onnx",
        "receipt.json",
        "requirements.txt",
        "weights.safetensors",
    ];
    assert_eq!(names, expected);
}

/// Releases are kept forever, and reading one compares it with the bytes that are written today. A change of these bytes
/// needs a new format number, and the old writer must stay.
#[test]
fn the_bytes_of_a_format_never_change() {
    let bundle = bundle(1);
    let hashes = ["model.onnx", "weights.safetensors", "MLmodel"].map(|expected| {
        let (_, bytes) = bundle.files().find(|(name, _)| *name == expected).unwrap();
        blake3::hash(bytes).to_hex().to_string()
    });
    assert_eq!(hashes, OF_SEED_1);
}

const OF_SEED_1: [&str; 3] = [
    "945c79be9ae73353ed80118aa633635834797e1e4c798bd4c1ec74c77eff67aa",
    "fe804884d906a929a1a8af72a8c4e6f346dc550d82d71c8e97bcac3d51a0992c",
    "98fb9e7a348c9bb1afd05633a6d32f855d0ca1daf31b9c46c21df53f0e4c395c",
];

#[test]
fn a_graph_is_tried_before_it_is_released() {
    for seed in 0..10 {
        assert!(try_out(&draw::graph(seed)).is_ok(), "seed {seed}");
    }
    let good = draw::graph(1);
    let mut weights = good.weights().clone();
    for layer in &mut weights.layers {
        layer.weights.fill(f32::MAX);
        layer.bias.fill(f32::MAX);
    }
    let mut outline = good.outline().clone();
    outline.link = Link::Identity;
    outline.layers.iter_mut().for_each(|shape| shape.activation = Activation::Identity);
    let huge = Graph::new(outline, weights).unwrap();
    assert_eq!(try_out(&huge).err(), Some(TrialRefusal::NotFinite));
}

#[test]
fn the_card_contains_its_facts_and_escapes_them() {
    let bundle = bundle(1);
    let page = bundle.files().find(|(name, _)| *name == "README.md").unwrap().1;
    let page = std::str::from_utf8(page).unwrap();
    for text in [
        "stream: \"rides\"",
        "blocks: [\"2026-01-01 to 2026-01-31\"]",
        "epsilon: \"0.5\"",
        "delta: \"0.000001\"",
        "privacy_unit: \"record\"",
        "filter: \"renyi\"",
        "access_mode: \"enforced\"",
        "validator: \"mean squared error\"",
        "target: \"at most 0.01\"",
        "confidence: \"0.95\"",
        "attempts: 3",
        "private_features: [\"speed by hour\",\"colors\"]",
        "# taxi \\| duration",
        "Expected duration of a ride. Not for prices.",
        "| number | number | -10 to 10 | never |",
        "`features/speed_by_hour.parquet`",
    ] {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
    assert_eq!(page.matches("---\n").count(), 2, "{page}");
}
