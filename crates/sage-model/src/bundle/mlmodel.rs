//! The file `MLmodel`, by which MLflow loads a bundle: the onnx flavor, and the python_function flavor over it, except for
//! models that predict classes.

use serde::Serialize;

use super::graph::Graph;
use super::onnx;
use crate::formula::proto::DataType;
use crate::formula::{Column, Missing};

/// The Python packages needed to load a bundle.
pub(super) const REQUIREMENTS: &str = "mlflow-skinny\nnumpy\nonnx\nonnxruntime\npandas\n";

/// The content of the file. It contains no time and no random name, so the same graph has the same file.
pub(super) fn write(graph: &Graph) -> String {
    let inputs: Vec<InputSpec<'_>> = graph.outline().schema.columns().iter().map(InputSpec::new).collect();
    let tensor = |name, dtype, width: Option<u32>| {
        let shape = std::iter::once(-1).chain(width.map(i64::from)).collect();
        OutputSpec { name, tensor_spec: TensorSpec { dtype, shape }, kind: "tensor" }
    };
    let numbers = |name| tensor(name, "float32", Some(graph.outline().outputs()));
    let classes = !graph.outline().classes.is_empty();
    let outputs = match classes {
        true => vec![tensor(onnx::LABEL, "str", None), numbers(onnx::PROBABILITIES)],
        false => vec![numbers(onnx::OUTPUT)],
    };
    // MLflow's loader for tables flattens every output into a column, which labels beside probabilities do not fit.
    let function =
        if classes { "" } else { "  python_function:\n    data: model.onnx\n    loader_module: mlflow.onnx\n" };
    format!(
        "flavors:
  onnx:
    code: null
    data: model.onnx
    providers:
    - CPUExecutionProvider
{function}signature:
  inputs: {}
  outputs: {}
  params: null
",
        quoted(&json(&inputs)),
        quoted(&json(&outputs)),
    )
}

/// A column of MLflow's signature. The keys are in alphabetical order.
#[derive(Serialize)]
struct InputSpec<'graph> {
    name: &'graph str,
    required: bool,
    #[serde(rename = "type")]
    kind: &'static str,
}

/// A tensor of MLflow's signature.
#[derive(Serialize)]
struct OutputSpec {
    name: &'static str,
    #[serde(rename = "tensor-spec")]
    tensor_spec: TensorSpec,
    #[serde(rename = "type")]
    kind: &'static str,
}

/// The element type and the shape of a tensor; -1 stands for any number of rows.
#[derive(Serialize)]
struct TensorSpec {
    dtype: &'static str,
    shape: Vec<i64>,
}

impl<'graph> InputSpec<'graph> {
    fn new(column: &'graph Column) -> Self {
        let kind = match onnx::input_type(column) {
            DataType::String => "string",
            DataType::Bool => "boolean",
            DataType::Int64 => "long",
            _ => "double",
        };
        // MLflow fills a missing optional column with nulls, which for numbers is NaN. It has no null for texts that a
        // graph accepts.
        let required = column.missing == Missing::Never || kind == "string";
        Self { name: &column.name, required, kind }
    }
}

fn json(value: &impl Serialize) -> String {
    // Texts, numbers and lists of them always convert.
    serde_json::to_string(value).unwrap_or_default()
}

/// A YAML text in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
