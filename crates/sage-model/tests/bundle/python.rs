//! onnxruntime agrees with the reference forward pass, and the formats are read by their own libraries.
//!
//! These tests need a Python interpreter with these packages, given by `SAGE_PYTHON`; `cargo xtask check --all` sets it.

use std::process::Command;

use sage_model::bundle::{Bundle, Graph};
use sage_model::formula::{Cell, Domain, Missing};

use crate::draw::{self, Draw};
use crate::{files, formulas, import, reference};

#[test]
fn onnxruntime_agrees_with_the_reference() {
    let Some(python) = std::env::var_os("SAGE_PYTHON") else {
        println!("skipped: SAGE_PYTHON is not set to an interpreter with onnxruntime");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..40 {
        write(&folder.path().join(format!("seed {seed}")), draw::graph(seed), seed);
    }
    write(&folder.path().join("lone"), formulas::single_column(), 7);
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bundle/compare.py");
    let status = Command::new(python).arg(program).arg(folder.path()).status().unwrap();
    assert!(status.success());
}

fn write(folder: &std::path::Path, graph: Graph, seed: u64) {
    let bundle = Bundle::write(graph, &files::card(), b"{}").unwrap();
    for (name, bytes) in bundle.files() {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let graph = bundle.graph();
    let draw = &mut Draw(seed ^ 0xB0B5_EED5);
    let rows: Vec<Vec<Cell>> = (0..64).map(|_| draw::row(draw, &graph.outline().schema)).collect();
    let expected: Vec<Vec<f32>> = rows.iter().map(|row| reference::predict(graph, row)).collect();
    let mut columns = serde_json::Map::new();
    for (index, column) in graph.outline().schema.columns().iter().enumerate() {
        let values: Vec<serde_json::Value> = rows.iter().map(|row| shown(&row[index], column.missing)).collect();
        let kind = match (&column.domain, column.missing) {
            (Domain::Text { .. }, _) => "object",
            (Domain::Truth, Missing::Never) => "bool",
            (Domain::Whole { .. } | Domain::Hashed | Domain::Time { .. }, Missing::Never) => "int64",
            _ => "float64",
        };
        columns.insert(column.name.clone(), serde_json::json!({"kind": kind, "values": values}));
    }
    let tables = &graph.outline().schema.tables();
    let case = serde_json::json!({"columns": columns, "expected": expected, "tables": tables});
    std::fs::write(folder.join("case.json"), serde_json::to_vec(&case).unwrap()).unwrap();
}

/// A cell as JSON; numbers are text, since JSON has no infinities.
fn shown(cell: &Cell, missing: Missing) -> serde_json::Value {
    match cell {
        Cell::Null => "nan".into(),
        Cell::Number(number) => format!("{number}").into(),
        Cell::Whole(whole) => format!("{whole}").into(),
        Cell::Truth(truth) if missing == Missing::Never => (*truth).into(),
        Cell::Truth(truth) => (if *truth { "1" } else { "0" }).into(),
        Cell::Text(text) => serde_json::json!({ "text": text }),
    }
}

/// An imported file and the bundle written from it give the same predictions in onnxruntime.
#[test]
fn onnxruntime_agrees_with_the_imported_file() {
    let Some(python) = std::env::var_os("SAGE_PYTHON") else {
        println!("skipped: SAGE_PYTHON is not set to an interpreter with onnxruntime");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let original = import::made::everything().bytes();
    let graph = sage_model::bundle::import_onnx(&original, &import::made::columns()).unwrap();
    let rows = sage_model::bundle::synthetic_rows(&graph.outline().schema, 200);
    let expected = sage_model::bundle::Predictor::new(&graph).unwrap().rows(&rows).unwrap();
    let mut columns = serde_json::Map::new();
    for (index, column) in graph.outline().schema.columns().iter().enumerate() {
        let value = |row: &Vec<Cell>| match &row[index] {
            Cell::Number(number) => serde_json::json!(number),
            Cell::Whole(whole) => serde_json::json!(whole),
            Cell::Text(text) => serde_json::json!(text),
            _ => serde_json::Value::Null,
        };
        columns.insert(column.name.clone(), rows.iter().map(value).collect());
    }
    let case = serde_json::json!({"columns": columns, "expected": expected});
    std::fs::write(folder.path().join("case.json"), serde_json::to_vec(&case).unwrap()).unwrap();
    std::fs::write(folder.path().join("original.onnx"), original).unwrap();
    let bundle = Bundle::write(graph, &files::card(), b"{}").unwrap();
    let (_, bytes) = bundle.files().find(|(name, _)| *name == "model.onnx").unwrap();
    std::fs::write(folder.path().join("model.onnx"), bytes).unwrap();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bundle/import.py");
    assert!(Command::new(python).arg(program).arg(folder.path()).status().unwrap().success());
}
