//! The file `MLmodel`, by which MLflow loads a bundle: the onnx flavor, and the python_function flavor over it.

use super::graph::Graph;
use super::onnx;
use crate::formula::proto::DataType;
use crate::formula::{Column, Missing};

/// The Python packages needed to load a bundle.
pub(super) const REQUIREMENTS: &str = "mlflow-skinny\nnumpy\nonnx\nonnxruntime\npandas\n";

/// The content of the file. It contains no time and no random name, so the same graph has the same file.
pub(super) fn write(graph: &Graph) -> String {
    let inputs: Vec<serde_json::Value> = graph.outline().schema.columns().iter().map(input).collect();
    let outputs = graph.outline().outputs();
    let output = serde_json::json!([{
        "name": onnx::OUTPUT,
        "tensor-spec": {"dtype": "float32", "shape": [-1, outputs]},
        "type": "tensor",
    }]);
    format!(
        "flavors:
  onnx:
    code: null
    data: model.onnx
    providers:
    - CPUExecutionProvider
  python_function:
    data: model.onnx
    loader_module: mlflow.onnx
signature:
  inputs: {}
  outputs: {}
  params: null
",
        quoted(&serde_json::Value::from(inputs).to_string()),
        quoted(&output.to_string()),
    )
}

fn input(column: &Column) -> serde_json::Value {
    let kind = match onnx::input_type(column) {
        DataType::String => "string",
        DataType::Bool => "boolean",
        DataType::Int64 => "long",
        _ => "double",
    };
    // MLflow fills a missing optional column with nulls, which for numbers is NaN. It has no null for texts that a
    // graph accepts.
    let required = column.missing == Missing::Never || kind == "string";
    serde_json::json!({"name": column.name, "required": required, "type": kind})
}

/// A YAML text in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
