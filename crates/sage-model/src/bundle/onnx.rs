//! Writes a graph as an ONNX model: features in double precision, the model in single precision.
//!
//! Inputs are the columns, one value for each row. A column that can be null, unless it is text, is of type double with
//! NaN for null; otherwise whole numbers and times are of type int64, truth values bool. MLflow passes a table with a
//! single column as a matrix with one column, so a single input has that shape. Categories are
//! never one-hot encoded: the first layer's weights for them are rows of a table, from which one is gathered.

use prost::Message as _;

use super::fields::Fields;
use super::graph::{Activation, Field, Graph, Link};
use super::steps;
use crate::formula::proto::{
    DataType, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, ValueInfoProto,
};
use crate::formula::{CATEGORIES, Column, Domain, Lowering, Missing, Nodes, Tensor, whole_attribute};

/// The name of the output of a model that predicts numbers.
pub(super) const OUTPUT: &str = "prediction";
/// The names of the outputs of a model that predicts classes, as scikit-learn's converters name them.
pub(super) const LABEL: &str = "label";
pub(super) const PROBABILITIES: &str = "probabilities";
/// The name of the dimension of rows.
const ROWS: &str = "rows";

/// Versions of the format and the operator sets that all recent runtimes support.
const FORMAT: i64 = 8;
const OPERATORS: i64 = 17;
const CATEGORY_OPERATORS: i64 = 3;

/// The type of a column as an input.
pub(super) fn input_type(column: &Column) -> DataType {
    match (&column.domain, column.missing) {
        (Domain::Text { .. }, _) => DataType::String,
        (Domain::Truth, Missing::Never) => DataType::Bool,
        (Domain::Whole { .. } | Domain::Hashed | Domain::Time { .. }, Missing::Never) => DataType::Int64,
        _ => DataType::Double,
    }
}

/// The bytes of the model.
pub(super) fn write(graph: &Graph) -> Vec<u8> {
    model(graph).encode_to_vec()
}

/// The model.
fn model(graph: &Graph) -> ModelProto {
    let stepped = !graph.outline().steps.is_empty();
    let mut fields = begin(graph);
    let last = if stepped { steps::write(graph, &mut fields) } else { layers(graph, &mut fields) };
    let left_out = fields.left_out;
    let mut nodes = fields.lowering.nodes;
    let linked = link(graph.outline().link, &mut nodes, &last);
    let last = match &left_out {
        Some(left_out) => masked(&mut nodes, left_out, &linked),
        None => linked.clone(),
    };
    let outputs = i64::from(graph.outline().outputs());
    let classes = &graph.outline().classes;
    if classes.is_empty() {
        let (mut node, initializer) = nodes.into_parts();
        rename(&mut node, &last, OUTPUT);
        return assemble(graph, node, initializer, vec![value(OUTPUT, DataType::Float, Some(outputs))]);
    }
    let label = label(&mut nodes, &linked, left_out.as_ref(), classes);
    let (mut node, initializer) = nodes.into_parts();
    rename(&mut node, &label, LABEL);
    rename(&mut node, &last, PROBABILITIES);
    let probabilities = value(PROBABILITIES, DataType::Float, Some(outputs));
    assemble(graph, node, initializer, vec![value(LABEL, DataType::String, None), probabilities])
}

/// Gives a value its name as an output of the graph.
fn rename(nodes: &mut [NodeProto], from: &Tensor, to: &str) {
    for node in nodes {
        node.output.iter_mut().chain(&mut node.input).filter(|name| *name == from).for_each(|name| to.clone_into(name));
    }
}

/// The name of the likeliest class of each row; the empty text for a row that is left out.
fn label(nodes: &mut Nodes, probabilities: &Tensor, left_out: Option<&Tensor>, classes: &[String]) -> Tensor {
    let attributes = vec![whole_attribute("axis", 1), whole_attribute("keepdims", 0)];
    let mut class = nodes.node_with("ArgMax", &[probabilities], attributes);
    if let Some(left_out) = left_out {
        let none = nodes.wholes(&[-1]);
        class = nodes.node("Where", &[left_out, &none, &class]);
    }
    nodes.text_at(&class, classes)
}

/// An empty model with these columns as inputs.
fn begin(graph: &Graph) -> Fields<'_> {
    let columns = graph.outline().schema.columns();
    let mut nodes = Nodes::default();
    let mut inputs: Vec<Tensor> = columns.iter().map(|column| column.name.clone()).collect();
    if columns.len() == 1 {
        let axis = nodes.wholes(&[1]);
        inputs = inputs.iter().map(|input| nodes.node("Squeeze", &[input, &axis])).collect();
    }
    Fields::new(graph.outline(), Lowering::new(&graph.outline().schema, nodes, inputs))
}

fn assemble(
    graph: &Graph, node: Vec<NodeProto>, initializer: Vec<TensorProto>, output: Vec<ValueInfoProto>,
) -> ModelProto {
    let columns = graph.outline().schema.columns();
    let width = (columns.len() == 1).then_some(1);
    let shape = |column: &Column| value(&column.name, input_type(column), width);
    let operators = |domain: &str, version| OperatorSetIdProto { domain: domain.to_owned(), version };
    ModelProto {
        ir_version: FORMAT,
        opset_import: vec![operators("", OPERATORS), operators(CATEGORIES, CATEGORY_OPERATORS)],
        producer_name: "sage".to_owned(),
        producer_version: super::FORMAT.to_string(),
        graph: Some(GraphProto {
            name: "sage".to_owned(),
            input: columns.iter().map(shape).collect(),
            output,
            node,
            initializer,
        }),
    }
}

fn value(name: &str, data_type: DataType, width: Option<i64>) -> ValueInfoProto {
    let rows = DimensionProto { dim_value: None, dim_param: Some(ROWS.to_owned()) };
    let width = width.map(|width| DimensionProto { dim_value: Some(width), dim_param: None });
    let shape = TensorShapeProto { dim: std::iter::once(rows).chain(width).collect() };
    let tensor_type = Some(TensorTypeProto { elem_type: data_type as i32, shape: Some(shape) });
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type }) }
}

/// The inputs of the first layer: a matrix, or `None` if there are only categories; and for each categorical field an
/// index of each row into the first layer's table.
fn inputs(graph: &Graph, fields: &mut Fields<'_>) -> (Option<Tensor>, Vec<Tensor>) {
    let (mut numbers, mut embedded, mut indices) = (Vec::new(), Vec::new(), Vec::new());
    let axis = fields.lowering.nodes.wholes(&[1]);
    let mut before = 0_u64;
    for field in &graph.outline().fields {
        match field {
            Field::Number(_) | Field::Plain(_) => {
                let number = fields.number_field(field);
                numbers.push(fields.lowering.nodes.node("Unsqueeze", &[&number, &axis]));
            }
            Field::Embedded { category, width } => {
                let rows = &graph.weights().embeddings[embedded.len()];
                let name = format!("embedding/{}", embedded.len());
                let shape = [rows.len() / *width as usize, *width as usize];
                let index = fields.category(category);
                let nodes = &mut fields.lowering.nodes;
                let index = nodes.cast(&index, DataType::Int64);
                let rows = nodes.floats(&name, &shape, rows.iter().copied());
                embedded.push(nodes.node("Gather", &[&rows, &index]));
            }
            Field::OneHot(category) => {
                let index = fields.category(category);
                let offset = fields.lowering.nodes.number(before as f64);
                let nodes = &mut fields.lowering.nodes;
                let index = nodes.node("Add", &[&index, &offset]);
                indices.push(nodes.cast(&index, DataType::Int64));
                before += category.categories();
            }
        }
    }
    numbers.extend(embedded);
    let columns: Vec<&Tensor> = numbers.iter().collect();
    let axis = vec![whole_attribute("axis", 1)];
    let matrix = match columns.as_slice() {
        [] => None,
        [one] => Some((*one).clone()),
        several => Some(fields.lowering.nodes.node_with("Concat", several, axis)),
    };
    (matrix, indices)
}

fn layers(graph: &Graph, fields: &mut Fields<'_>) -> Tensor {
    let (matrix, indices) = inputs(graph, fields);
    let nodes = &mut fields.lowering.nodes;
    let mut current = matrix;
    let outline = graph.outline();
    let columns = outline.inputs()[2] as usize;
    for (number, (shape, layer)) in outline.layers.iter().zip(&graph.weights().layers).enumerate() {
        let outputs = shape.outputs as usize;
        let width = layer.weights.len() / outputs;
        let dense = if number == 0 { width - columns } else { width };
        // Products and tables are input-major, the weights output-major.
        let input_major = |from: usize, to: usize| {
            (from..to).flat_map(move |input| (0..outputs).map(move |output| layer.weights[output * width + input]))
        };
        let mut sum = current.map(|current| {
            let weights = nodes.floats(&format!("layer/{number}/weights"), &[dense, outputs], input_major(0, dense));
            nodes.node("MatMul", &[&current, &weights])
        });
        if number == 0 && !indices.is_empty() {
            let rows = nodes.floats("layer/0/places", &[columns, outputs], input_major(dense, width));
            for index in &indices {
                let row = nodes.node("Gather", &[&rows, index]);
                sum = Some(sum.map_or(row.clone(), |sum| nodes.node("Add", &[&sum, &row])));
            }
        }
        let bias = nodes.floats(&format!("layer/{number}/bias"), &[outputs], layer.bias.iter().copied());
        // Every checked graph has a field, so there is a sum.
        let sum = sum.map_or(bias.clone(), |sum| nodes.node("Add", &[&sum, &bias]));
        current = Some(activate(shape.activation, nodes, sum));
    }
    current.unwrap_or_default()
}

/// Sets the predictions of rows that are left out to NaN. How NaN inputs propagate depends on the runtime.
fn masked(nodes: &mut Nodes, left_out: &Tensor, last: &Tensor) -> Tensor {
    let axis = nodes.wholes(&[1]);
    let left_out = nodes.node("Unsqueeze", &[left_out, &axis]);
    let nan = nodes.floats("left_out/prediction", &[], std::iter::once(f32::NAN));
    nodes.node("Where", &[&left_out, &nan, last])
}

fn activate(activation: Activation, nodes: &mut Nodes, sum: Tensor) -> Tensor {
    match activation {
        Activation::Identity => sum,
        Activation::Relu => nodes.node("Relu", &[&sum]),
        Activation::Tanh => nodes.node("Tanh", &[&sum]),
        Activation::Sigmoid => nodes.node("Sigmoid", &[&sum]),
    }
}

/// Applies the link. It always adds a node, so that its output can be renamed to the graph's output.
fn link(link: Link, nodes: &mut Nodes, last: &Tensor) -> Tensor {
    match link {
        Link::Identity => nodes.node("Identity", &[last]),
        Link::Clipped { low, high } => {
            let [low, high] = [("link/low", low), ("link/high", high)]
                .map(|(name, end)| nodes.floats(name, &[], std::iter::once(end)));
            nodes.node("Clip", &[last, &low, &high])
        }
        Link::Sigmoid => nodes.node("Sigmoid", &[last]),
        Link::Softmax => nodes.node_with("Softmax", &[last], vec![whole_attribute("axis", 1)]),
    }
}
