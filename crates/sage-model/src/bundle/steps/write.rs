//! Writes steps as ONNX nodes. Every value is a matrix with one line per row.

use super::{Map, Operand, Rule, Step};
use crate::bundle::fields::Fields;
use crate::bundle::graph::{Field, Graph};
use crate::formula::proto::DataType;
use crate::formula::{Nodes, Tensor, whole_attribute};

/// Writes the nodes; returns the name of the last value.
pub(in crate::bundle) fn write(graph: &Graph, fields: &mut Fields<'_>) -> Tensor {
    let outline = graph.outline();
    let mut values: Vec<Tensor> = outline.fields.iter().map(|field| column(fields, field)).collect();
    let mut writer = StepWriter {
        nodes: std::mem::take(&mut fields.lowering.nodes),
        axis: Tensor::new(),
        arrays: graph.weights().arrays.iter().map(Vec::as_slice).enumerate().collect::<Vec<_>>().into_iter(),
    };
    writer.axis = writer.nodes.wholes(&[1]);
    for step in &outline.steps {
        let value = writer.step(step, &values);
        values.push(value);
    }
    fields.lowering.nodes = writer.nodes;
    values.pop().unwrap_or_default()
}

/// A field as a matrix.
fn column(fields: &mut Fields<'_>, field: &Field) -> Tensor {
    let axis = fields.lowering.nodes.wholes(&[1]);
    match field {
        Field::Number(_) | Field::Plain(_) => {
            let number = fields.number_field(field);
            fields.lowering.nodes.node("Unsqueeze", &[&number, &axis])
        }
        Field::OneHot(category) | Field::Embedded { category, .. } => {
            let found = fields.category(category);
            let nodes = &mut fields.lowering.nodes;
            let found = nodes.node("Unsqueeze", &[&found, &axis]);
            let indices: Vec<f64> = (0..category.categories()).map(|index| index as f64).collect();
            let indices = nodes.numbers(&indices);
            let one_hot = nodes.node("Equal", &[&found, &indices]);
            nodes.cast(&one_hot, DataType::Float)
        }
    }
}

struct StepWriter<'graph> {
    nodes: Nodes,
    axis: Tensor,
    arrays: std::vec::IntoIter<(usize, &'graph [f32])>,
}

impl StepWriter<'_> {
    /// The next array, in this shape.
    fn array(&mut self, rows: Option<usize>) -> Tensor {
        let (number, array) = self.arrays.next().unwrap_or((0, &[]));
        let name = format!("array/{number}");
        match rows {
            None => self.nodes.floats(&name, &[array.len()], array.iter().copied()),
            Some(outputs) => {
                // Products are input-major, the weights output-major.
                let inputs = array.len() / outputs;
                let of = move |input: usize| (0..outputs).map(move |output| array[output * inputs + input]);
                self.nodes.floats(&name, &[inputs, outputs], (0..inputs).flat_map(of))
            }
        }
    }

    fn step(&mut self, step: &Step, values: &[Tensor]) -> Tensor {
        let of = |value: &u32| &values[*value as usize];
        match step {
            Step::Join(parts) => {
                let parts: Vec<&Tensor> = parts.iter().map(of).collect();
                self.nodes.node_with("Concat", &parts, vec![whole_attribute("axis", 1)])
            }
            Step::Pick { of: value, columns } => {
                let indices: Vec<i64> = columns.iter().map(|index| i64::from(*index)).collect();
                let indices = self.nodes.wholes(&indices);
                self.nodes.node_with("Gather", &[of(value), &indices], vec![whole_attribute("axis", 1)])
            }
            Step::Product { of: value, outputs } => {
                let weights = self.array(Some(*outputs as usize));
                self.nodes.node("MatMul", &[of(value), &weights])
            }
            Step::Pair { rule, left, right } => {
                let mut side = |operand: &Operand| match operand {
                    Operand::Value(value) => of(value).clone(),
                    Operand::Array(_) => self.array(None),
                };
                let (left, right) = (side(left), side(right));
                self.nodes.node(rule_name(*rule), &[&left, &right])
            }
            Step::Map { function, of: value } => self.nodes.node(map_name(*function), &[of(value)]),
            Step::Clip { of: value, low, high } => {
                // Constants are shared by their bits, so several ranges may have the same end.
                let end = |nodes: &mut Nodes, end: f32| {
                    let double = nodes.number(f64::from(end));
                    nodes.cast(&double, DataType::Float)
                };
                let (low, high) = (end(&mut self.nodes, *low), end(&mut self.nodes, *high));
                self.nodes.node("Clip", &[of(value), &low, &high])
            }
            Step::Softmax(value) => self.nodes.node_with("Softmax", &[of(value)], vec![whole_attribute("axis", 1)]),
            Step::Sum(value) => {
                let axis = self.axis.clone();
                self.nodes.node_with("ReduceSum", &[of(value), &axis], vec![whole_attribute("keepdims", 1)])
            }
            Step::Fill(value) => {
                let instead = self.array(None);
                let missing = self.nodes.node("IsNaN", &[of(value)]);
                self.nodes.node("Where", &[&missing, &instead, of(value)])
            }
        }
    }
}

const fn rule_name(rule: Rule) -> &'static str {
    match rule {
        Rule::Add => "Add",
        Rule::Subtract => "Sub",
        Rule::Multiply => "Mul",
        Rule::Divide => "Div",
        Rule::Least => "Min",
        Rule::Greatest => "Max",
    }
}

const fn map_name(function: Map) -> &'static str {
    match function {
        Map::Relu => "Relu",
        Map::Sigmoid => "Sigmoid",
        Map::Tanh => "Tanh",
        Map::Exp => "Exp",
        Map::Ln => "Log",
        Map::Sqrt => "Sqrt",
        Map::Abs => "Abs",
        Map::Negative => "Neg",
        Map::Erf => "Erf",
    }
}
