//! Nodes and constants of an ONNX graph as it is being written.
//!
//! Common subexpressions are shared: a node with the same operator, inputs and attributes as an earlier one is
//! not added again. Names are numbered, so the same graph has the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use super::proto::{AttributeProto, AttributeType, DataType, NodeProto, TensorProto};

/// The domain of the operators for categories.
pub(crate) const CATEGORIES: &str = "ai.onnx.ml";

/// Nodes and constants.
#[derive(Default)]
pub(crate) struct Nodes {
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    known: BTreeMap<String, String>,
    scalars: BTreeSet<String>,
}

/// The name of a value in a graph.
pub(crate) type Tensor = String;

impl Nodes {
    /// The nodes and constants.
    pub(crate) fn into_parts(self) -> (Vec<NodeProto>, Vec<TensorProto>) {
        (self.nodes, self.constants)
    }

    /// A node without attributes.
    pub(crate) fn node(&mut self, operator: &str, inputs: &[&Tensor]) -> Tensor {
        self.node_with(operator, inputs, Vec::new())
    }

    /// A node.
    pub(crate) fn node_with(&mut self, operator: &str, inputs: &[&Tensor], attributes: Vec<AttributeProto>) -> Tensor {
        let key = format!("{operator}\n{inputs:?}\n{attributes:?}");
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let name = format!("sage/{}", self.known.len());
        let domain = if operator == "CategoryMapper" { CATEGORIES } else { "" };
        self.nodes.push(NodeProto {
            input: inputs.iter().map(|input| (*input).clone()).collect(),
            output: vec![name.clone()],
            name: name.clone(),
            op_type: operator.to_owned(),
            domain: domain.to_owned(),
            attribute: attributes,
        });
        // The output of Gather has the shape of the index.
        let shaping = if operator == "Gather" { &inputs[1..] } else { inputs };
        if shaping.iter().all(|input| self.scalars.contains(*input)) {
            self.scalars.insert(name.clone());
        }
        self.known.insert(key, name.clone());
        name
    }

    /// Whether a value is a scalar, the same for all rows.
    pub(crate) fn is_scalar(&self, tensor: &Tensor) -> bool {
        self.scalars.contains(tensor)
    }

    /// A constant number.
    pub(crate) fn number(&mut self, number: f64) -> Tensor {
        self.scalar(DataType::Double, &number.to_le_bytes())
    }

    /// A constant truth value.
    pub(crate) fn truth(&mut self, truth: bool) -> Tensor {
        self.scalar(DataType::Bool, &[u8::from(truth)])
    }

    fn scalar(&mut self, data_type: DataType, bytes: &[u8]) -> Tensor {
        let name = self.constant(data_type, &[], bytes.to_vec());
        self.scalars.insert(name.clone());
        name
    }

    /// A constant list of `f64`.
    pub(crate) fn numbers(&mut self, numbers: &[f64]) -> Tensor {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(DataType::Double, &[numbers.len()], bytes)
    }

    /// A constant list of whole numbers.
    pub(crate) fn wholes(&mut self, wholes: &[i64]) -> Tensor {
        let bytes = wholes.iter().flat_map(|whole| whole.to_le_bytes()).collect();
        self.constant(DataType::Int64, &[wholes.len()], bytes)
    }

    /// A constant array of `f32` with this name.
    pub(crate) fn floats(&mut self, name: &str, shape: &[usize], floats: impl Iterator<Item = f32>) -> Tensor {
        let bytes = floats.flat_map(f32::to_le_bytes).collect();
        self.constants.push(tensor(name, DataType::Float, shape, bytes));
        name.to_owned()
    }

    fn constant(&mut self, data_type: DataType, shape: &[usize], bytes: Vec<u8>) -> Tensor {
        let key = format!("{data_type:?} {shape:?} {bytes:?}");
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let name = format!("sage/{}", self.known.len());
        self.constants.push(tensor(&name, data_type, shape, bytes));
        self.known.insert(key, name.clone());
        name
    }

    /// Casts values to another type.
    pub(crate) fn cast(&mut self, tensor: &Tensor, to: DataType) -> Tensor {
        self.node_with("Cast", &[tensor], vec![whole_attribute("to", to as i64)])
    }

    /// For each text its index in the list, and −1 for others.
    pub(crate) fn text_index(&mut self, text: &Tensor, texts: &[String]) -> Tensor {
        let index = self.node_with("CategoryMapper", &[text], categories(texts, whole_attribute("default_int64", -1)));
        self.cast(&index, DataType::Double)
    }

    /// The text at each index in the list, and the empty text for other indices.
    pub(crate) fn text_at(&mut self, index: &Tensor, texts: &[String]) -> Tensor {
        let default = AttributeProto {
            name: "default_string".to_owned(),
            r#type: AttributeType::String as i32,
            ..AttributeProto::default()
        };
        self.node_with("CategoryMapper", &[index], categories(texts, default))
    }
}

/// The attributes of a mapping between texts and their indices.
fn categories(texts: &[String], default: AttributeProto) -> Vec<AttributeProto> {
    let indices = AttributeProto {
        name: "cats_int64s".to_owned(),
        r#type: AttributeType::Ints as i32,
        ints: (0_i64..).take(texts.len()).collect(),
        ..AttributeProto::default()
    };
    let strings = AttributeProto {
        name: "cats_strings".to_owned(),
        r#type: AttributeType::Strings as i32,
        strings: texts.iter().map(|text| text.clone().into_bytes()).collect(),
        ..AttributeProto::default()
    };
    vec![indices, strings, default]
}

/// An attribute that is a whole number.
pub(crate) fn whole_attribute(name: &str, whole: i64) -> AttributeProto {
    AttributeProto { name: name.to_owned(), r#type: AttributeType::Int as i32, i: whole, ..AttributeProto::default() }
}

fn tensor(name: &str, data_type: DataType, shape: &[usize], bytes: Vec<u8>) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        dims: shape.iter().map(|length| *length as i64).collect(),
        data_type: data_type as i32,
        raw_data: bytes,
    }
}
