//! tract gives what the plain forward pass gives.

use sage_learn::bundle::Predictor;
use sage_learn::formula::Cell;

use crate::draw::{self, Draw};
use crate::reference;

/// How far a graph's answers may be from the plain ones, of values around one.
const TOLERANCE: f32 = 1e-5;

#[test]
fn random_graphs_agree_with_the_plain_forward_pass() {
    for seed in 0..60 {
        let graph = draw::graph(seed);
        let predictor = Predictor::new(&graph).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let draw = &mut Draw(seed ^ 0xA11C_E5ED);
        let rows: Vec<Vec<Cell>> = (0..64).map(|_| draw::row(draw, &graph.outline().schema)).collect();
        let found = predictor.rows(&rows).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for (row, found) in rows.iter().zip(found.chunks(predictor.outputs())) {
            let plain = reference::predict(&graph, row);
            for (found, plain) in found.iter().zip(plain) {
                let close = (found - plain).abs() <= TOLERANCE * plain.abs().max(1.0);
                assert!(close, "seed {seed}: {found} instead of {plain} for {row:?}\n{:#?}", graph.outline().features);
            }
        }
    }
}
