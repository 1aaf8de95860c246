//! The exported file of a graph, run by tract from the columns to the prediction.
//!
//! tract's rewriting of expressions is disabled: it replaces a division by a multiplication with the reciprocal, and
//! 49 · (1/49) is less than 1, which changes the result of a floor.

use sage_model::bundle::{self, Bundle, Graph, Predictor, TrialRefusal, synthetic_rows};
use sage_model::formula::{Cell, Column, Domain, Missing};
use tract_onnx::prelude::{
    Framework as _, InferenceModelExt as _, IntoRunnable as _, IntoTValue as _, Tensor, TractResult, tensor1,
};
use tract_onnx::tract_core::optim::Optimizer;

use crate::files::card;

/// The predictions of the exported file for rows that fit the graph's columns, one row's after the other. The labels of a
/// graph with classes are checked against its probabilities.
pub fn predict(graph: &Graph, rows: &[Vec<Cell>]) -> TractResult<Vec<f32>> {
    let bundle = Bundle::write(graph.clone(), &card(), b"{}").unwrap();
    let (_, bytes) = bundle.files().find(|(name, _)| *name == "model.onnx").unwrap();
    let mut model = tract_onnx::onnx().model_for_read(&mut &*bytes)?.into_typed()?;
    let mut optimizer = Optimizer::codegen();
    optimizer.passes.retain(|pass| format!("{pass:?}") != "declutter");
    optimizer.optimize(&mut model)?;
    let columns = graph.outline().schema.columns();
    let mut inputs = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let cells: Vec<&Cell> = rows.iter().map(|row| &row[index]).collect();
        let input = input(column, &cells);
        inputs.push(if columns.len() == 1 { input.into_shape(&[rows.len(), 1])? } else { input });
    }
    let inputs = inputs.into_iter().map(|input| input.into_tvalue()).collect();
    let found = model.into_runnable()?.run(inputs)?;
    let numbers = found[found.len() - 1].try_as_plain_ram()?.as_slice::<f32>()?.to_vec();
    let classes = &graph.outline().classes;
    assert_eq!(found.len(), if classes.is_empty() { 1 } else { 2 }, "outputs");
    if !classes.is_empty() {
        let labels = found[0].try_as_plain_ram()?.as_slice::<String>()?;
        assert_eq!(labels.len(), rows.len());
        for (label, outputs) in labels.iter().zip(numbers.chunks(classes.len())) {
            let likeliest = bundle::likeliest(outputs).map_or("", |class| &classes[class]);
            assert_eq!(label, likeliest, "{outputs:?}");
        }
    }
    Ok(numbers)
}

/// [`bundle::try_out`], and the exported file on the same kind of rows.
pub fn try_out(graph: &Graph) -> Result<Predictor, TrialRefusal> {
    let predictor = bundle::try_out(graph)?;
    let rows = synthetic_rows(&graph.outline().schema, 256);
    let (served, exported) = (predictor.rows(&rows).unwrap(), predict(graph, &rows).unwrap());
    assert_eq!(served.len(), exported.len());
    for (index, (one, other)) in served.iter().zip(&exported).enumerate() {
        let close = (one - other).abs() <= 1e-5 * one.abs().max(1.0) || one.is_nan() && other.is_nan();
        assert!(close, "number {index}: the predictor returns {one}, the exported file {other}");
    }
    Ok(predictor)
}

/// A column as an input of the exported file.
fn input(column: &Column, cells: &[&Cell]) -> Tensor {
    match (&column.domain, column.missing) {
        (Domain::Text { .. }, _) => {
            let text = |cell: &&Cell| match cell {
                Cell::Text(text) => text.clone(),
                _ => String::new(),
            };
            tensor1(&cells.iter().map(text).collect::<Vec<String>>())
        }
        (Domain::Truth, Missing::Never) => {
            tensor1(&cells.iter().map(|cell| **cell == Cell::Truth(true)).collect::<Vec<bool>>())
        }
        (Domain::Whole { .. } | Domain::Hashed | Domain::Time { .. }, Missing::Never) => {
            let whole = |cell: &&Cell| match cell {
                Cell::Whole(whole) => *whole,
                other => panic!("{other:?} in a column of whole numbers"),
            };
            tensor1(&cells.iter().map(whole).collect::<Vec<i64>>())
        }
        _ => {
            let number = |cell: &&Cell| match cell {
                Cell::Number(number) => *number,
                Cell::Whole(whole) => *whole as f64,
                Cell::Truth(truth) => f64::from(u8::from(*truth)),
                _ => f64::NAN,
            };
            tensor1(&cells.iter().map(number).collect::<Vec<f64>>())
        }
    }
}
