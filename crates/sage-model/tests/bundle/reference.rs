//! The reference forward pass: formulas row by row, categories by linear search, layers by plain loops.

use sage_learn::encode::hash;
use sage_model::bundle::{Activation, CategoryIndex, Field, Graph, Link, Outline, Scaled};
use sage_model::formula::Cell;

/// The prediction for one row.
pub fn predict(graph: &Graph, row: &[Cell]) -> Vec<f32> {
    let mut current = inputs(graph, row);
    for (shape, layer) in graph.outline().layers.iter().zip(&graph.weights().layers) {
        let width = current.len();
        let sums = (0..shape.outputs as usize).map(|output| {
            let weights = &layer.weights[output * width..][..width];
            let products = weights.iter().zip(&current).map(|(weight, input)| f64::from(*weight) * f64::from(*input));
            (products.sum::<f64>() + f64::from(layer.bias[output])) as f32
        });
        current = sums.map(|sum| activate(shape.activation, sum)).collect();
    }
    match graph.outline().link {
        Link::Identity => current,
        Link::Clipped { low, high } => current.into_iter().map(|value| value.clamp(low, high)).collect(),
        Link::Sigmoid => current.into_iter().map(sigmoid).collect(),
        Link::Softmax => {
            let greatest = current.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let powers: Vec<f32> = current.iter().map(|output| (output - greatest).exp()).collect();
            let sum: f32 = powers.iter().sum();
            powers.into_iter().map(|power| power / sum).collect()
        }
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

fn activate(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => sigmoid(x),
    }
}

fn inputs(graph: &Graph, row: &[Cell]) -> Vec<f32> {
    let outline = graph.outline();
    let (mut numbers, mut rows, mut one_hot) = (Vec::new(), Vec::new(), Vec::new());
    let mut embeddings = graph.weights().embeddings.iter();
    for field in &outline.fields {
        match field {
            Field::Number(scaled) => numbers.push(number(outline, scaled, row)),
            Field::Plain(_) => unreachable!("layers take scaled numbers"),
            Field::Embedded { category: of, width } => {
                let start = category(outline, of, row) as usize * *width as usize;
                rows.extend_from_slice(&embeddings.next().unwrap()[start..][..*width as usize]);
            }
            Field::OneHot(of) => {
                let start = one_hot.len();
                one_hot.resize(start + of.categories() as usize, 0.0);
                one_hot[start + category(outline, of, row) as usize] = 1.0;
            }
        }
    }
    [numbers, rows, one_hot].concat()
}

fn feature(outline: &Outline, name: &str, row: &[Cell]) -> Cell {
    let feature = outline.features.iter().find(|feature| feature.name == name).unwrap();
    feature.formula.evaluate(&outline.schema, row)
}

fn as_number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Number(x) if !x.is_nan() => Some(*x),
        Cell::Truth(truth) => Some(f64::from(u8::from(*truth))),
        _ => None,
    }
}

fn number(outline: &Outline, scaled: &Scaled, row: &[Cell]) -> f32 {
    let found = as_number(&feature(outline, &scaled.feature, row));
    let scale = |x: f64| (x.clamp(scaled.low, scaled.high) - scaled.shift) * scaled.factor;
    found.map_or(scaled.missing.unwrap_or(f64::NAN), scale) as f32
}

fn category(outline: &Outline, of: &CategoryIndex, row: &[Cell]) -> u64 {
    match of {
        CategoryIndex::Category { feature: name, categories, otherwise } => {
            let found = match feature(outline, name, row) {
                Cell::Text(text) => categories.iter().position(|category| *category == text),
                _ => None,
            };
            found.map_or(u64::from(*otherwise), |index| index as u64)
        }
        CategoryIndex::Index { feature: name, first, count, otherwise } => {
            let found = as_number(&feature(outline, name, row))
                .and_then(|x| (0..*count).find(|index| x == (*first + i64::from(*index)) as f64));
            u64::from(found.unwrap_or(*otherwise))
        }
        CategoryIndex::Bucket { feature: name, edges, otherwise } => {
            let found = as_number(&feature(outline, name, row));
            found.map_or(u64::from(*otherwise), |x| edges.iter().filter(|edge| x >= **edge).count() as u64)
        }
        CategoryIndex::Hash { feature: name, seed, count, otherwise } => {
            let found = as_number(&feature(outline, name, row)).and_then(|x| hash(x, *seed, *count));
            u64::from(found.unwrap_or(*otherwise))
        }
        CategoryIndex::Cross(parts) => {
            parts.iter().fold(0, |joined, part| joined * part.categories() + category(outline, part, row))
        }
        CategoryIndex::Folded { of, seed, count } => {
            u64::from(hash(category(outline, of, row) as f64, *seed, *count).unwrap())
        }
    }
}
