//! The predictor and the exported file in tract agree with the reference forward pass.

use sage_model::bundle::{Activation, Field, Graph, Layer, Link, Predictor, Shape, Weights};
use sage_model::formula::Cell;

use crate::draw::{self, Draw};
use crate::{exported, reference};

/// The largest relative difference from the reference.
const TOLERANCE: f32 = 1e-5;

#[test]
fn random_graphs_agree_with_the_plain_forward_pass() {
    for seed in 0..60 {
        let graph = draw::graph(seed);
        let predictor = Predictor::new(&graph).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let draw = &mut Draw(seed ^ 0xA11C_E5ED);
        let rows: Vec<Vec<Cell>> = (0..64).map(|_| draw::row(draw, &graph.outline().schema)).collect();
        let served = predictor.rows(&rows).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let exported = exported::predict(&graph, &rows).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for found in [&served, &exported] {
            for (row, found) in rows.iter().zip(found.chunks(predictor.outputs())) {
                let plain = reference::predict(&graph, row);
                for (found, plain) in found.iter().zip(plain) {
                    let close = (found - plain).abs() <= TOLERANCE * plain.abs().max(1.0);
                    assert!(
                        close,
                        "seed {seed}: {found} instead of {plain} for {row:?}: {}",
                        differing_fields(&graph, row)
                    );
                }
            }
        }
        let alone = rows.iter().flat_map(|row| predictor.rows(std::slice::from_ref(row)).unwrap());
        assert!(alone.eq(served.iter().copied()), "seed {seed}: a single row has another prediction");
    }
}

/// Rows that a graph does not accept have no prediction and do not change those of other rows by a single bit, wherever
/// and however many they are.
#[test]
fn a_refused_row_changes_no_other() {
    for seed in 0..12 {
        let graph = draw::graph(seed);
        let predictor = Predictor::new(&graph).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let draw = &mut Draw(seed ^ 0x0DD_BA11);
        let schema = &graph.outline().schema;
        let rows: Vec<Vec<Cell>> = (0..40).map(|_| draw::row(draw, schema)).collect();
        let all = predictor.rows(&rows).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let expected: Vec<u32> = all.iter().map(|number| number.to_bits()).collect();
        let found = |rows: &[Vec<Cell>]| predictor.each(rows).iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        assert_eq!(found(&rows), expected, "seed {seed}");
        assert_eq!(found(&[]), Vec::<u32>::new());
        let nulls = vec![Cell::Null; schema.columns().len()];
        for positions in [vec![0], vec![40], vec![7, 8, 31], (0..40).collect()] {
            let (mut with, mut kept) = (rows.clone(), expected.clone());
            for &position in positions.iter().rev() {
                with.insert(position, nulls.clone());
                let outputs = predictor.outputs();
                kept.splice(position * outputs..position * outputs, vec![f32::NAN.to_bits(); outputs]);
            }
            assert!(predictor.rows(&with).is_err(), "seed {seed}: a null was accepted in a column without nulls");
            assert_eq!(found(&with), kept, "seed {seed}: {positions:?}");
        }
    }
}

/// The fields that differ when each is the only field of a model.
fn differing_fields(graph: &Graph, row: &[Cell]) -> String {
    let mut found = String::new();
    for field in &graph.outline().fields {
        let mut outline = graph.outline().clone();
        let one_hot = match field {
            Field::Embedded { category, .. } => Field::OneHot(category.clone()),
            other => other.clone(),
        };
        outline.fields = vec![one_hot];
        outline.layers = vec![Shape { outputs: 1, activation: Activation::Identity }];
        outline.link = Link::Identity;
        let weights = (1_u16..).map(f32::from).take(outline.inputs().iter().sum::<u64>() as usize).collect();
        let weights =
            Weights { embeddings: Vec::new(), layers: vec![Layer { weights, bias: vec![0.0] }], arrays: Vec::new() };
        let alone = Graph::new(outline, weights).unwrap();
        let (plain, ran) = (reference::predict(&alone, row), Predictor::new(&alone).unwrap().rows(&[row.to_vec()]));
        if ran != Ok(plain.clone()) {
            found.push_str(&format!("\n{field:?} is {ran:?} instead of {plain:?}"));
        }
    }
    let features = graph.outline().features.iter();
    features.for_each(|feature| found.push_str(&format!("\n{}: {}", feature.name, feature.formula)));
    found
}
