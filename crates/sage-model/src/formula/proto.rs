//! The protobuf messages of the ONNX format that are written, with only the fields that are set.
//!
//! Field numbers are those of the public `onnx.proto3`. Fields are declared in the order of their numbers, which is the
//! order of the bytes. Imported files are parsed by `bundle::import`, which refuses unknown fields.

use prost::Message;

/// `TensorProto.DataType`: the types of elements that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum DataType {
    Float = 1,
    Int64 = 7,
    String = 8,
    Bool = 9,
    Double = 11,
}

/// `AttributeProto.AttributeType`: the types of attributes that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum AttributeType {
    Int = 2,
    String = 3,
    Ints = 7,
    Strings = 8,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelProto {
    #[prost(int64, tag = "1")]
    pub(crate) ir_version: i64,
    #[prost(string, tag = "2")]
    pub(crate) producer_name: String,
    #[prost(string, tag = "3")]
    pub(crate) producer_version: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSetIdProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OperatorSetIdProto {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(int64, tag = "2")]
    pub(crate) version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) output: Vec<ValueInfoProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attribute: Vec<AttributeProto>,
    #[prost(string, tag = "7")]
    pub(crate) domain: String,
}

/// An attribute of a node: its type determines which of the other fields is set.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttributeProto {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int64, tag = "3")]
    pub(crate) i: i64,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) s: Vec<u8>,
    #[prost(int64, repeated, tag = "8")]
    pub(crate) ints: Vec<i64>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub(crate) strings: Vec<Vec<u8>>,
    /// A number of [`AttributeType`].
    #[prost(int32, tag = "20")]
    pub(crate) r#type: i32,
}

/// A constant array; its elements are little-endian bytes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) dims: Vec<i64>,
    /// A number of [`DataType`].
    #[prost(int32, tag = "2")]
    pub(crate) data_type: i32,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    #[prost(bytes = "vec", tag = "9")]
    pub(crate) raw_data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfoProto {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) r#type: Option<TypeProto>,
}

/// The type of an input or output; of its alternatives only the tensor is written.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub(crate) tensor_type: Option<TensorTypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorTypeProto {
    /// A number of [`DataType`].
    #[prost(int32, tag = "1")]
    pub(crate) elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<TensorShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub(crate) dim: Vec<DimensionProto>,
}

/// A length: a number, or a name for a length that is not fixed. One of the two is set.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DimensionProto {
    #[prost(int64, optional, tag = "1")]
    pub(crate) dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) dim_param: Option<String>,
}

#[cfg(test)]
mod tests {
    use tract_onnx::pb;
    use tract_onnx::pb::attribute_proto::AttributeType as TheirAttributeType;
    use tract_onnx::pb::tensor_proto::DataType as TheirDataType;
    use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
    use tract_onnx::pb::type_proto;

    use super::*;

    fn text(text: &str) -> String {
        text.to_owned()
    }

    fn value(name: &str, dim_value: i64, dim_param: &str) -> ValueInfoProto {
        let dimensions = vec![
            DimensionProto { dim_value: None, dim_param: Some(text(dim_param)) },
            DimensionProto { dim_value: Some(dim_value), dim_param: None },
        ];
        let shape = Some(TensorShapeProto { dim: dimensions });
        let tensor_type = Some(TensorTypeProto { elem_type: DataType::String as i32, shape });
        ValueInfoProto { name: text(name), r#type: Some(TypeProto { tensor_type }) }
    }

    /// A message with a different value in every field that exists here.
    fn ours() -> ModelProto {
        let attribute = AttributeProto {
            name: text("attribute"),
            i: -3,
            s: b"s".to_vec(),
            ints: vec![1, -1, 300],
            strings: vec![b"a".to_vec(), Vec::new(), vec![0xFF]],
            r#type: AttributeType::Strings as i32,
        };
        let node = NodeProto {
            input: vec![text("in 1"), text("in 2")],
            output: vec![text("out 1")],
            name: text("node"),
            op_type: text("operator"),
            attribute: vec![attribute],
            domain: text("domain of the node"),
        };
        let tensor = TensorProto {
            dims: vec![2, 3],
            data_type: DataType::Double as i32,
            name: text("tensor"),
            raw_data: vec![1, 2, 3],
        };
        let graph = GraphProto {
            node: vec![node],
            name: text("graph"),
            initializer: vec![tensor],
            input: vec![value("input", 0, "rows")],
            output: vec![value("output", 7, "lines")],
        };
        let operators = OperatorSetIdProto { domain: text("domain"), version: 17 };
        ModelProto {
            ir_version: 8,
            producer_name: text("producer"),
            producer_version: text("version"),
            graph: Some(graph),
            opset_import: vec![operators],
        }
    }

    fn their_value(name: &str, dim_value: i64, dim_param: &str) -> pb::ValueInfoProto {
        let dimension = |value| Dimension { value: Some(value), ..Dimension::default() };
        let dimensions = vec![
            dimension(dimension::Value::DimParam(text(dim_param))),
            dimension(dimension::Value::DimValue(dim_value)),
        ];
        let shape = Some(pb::TensorShapeProto { dim: dimensions });
        let tensor = type_proto::Tensor { elem_type: TheirDataType::String as i32, shape };
        let of = pb::TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..pb::TypeProto::default() };
        pb::ValueInfoProto { name: text(name), r#type: Some(of), ..pb::ValueInfoProto::default() }
    }

    /// The same message by tract's types, field by field under the names of the format.
    fn theirs() -> pb::ModelProto {
        let attribute = pb::AttributeProto {
            name: text("attribute"),
            i: -3,
            s: b"s".to_vec(),
            ints: vec![1, -1, 300],
            strings: vec![b"a".to_vec(), Vec::new(), vec![0xFF]],
            r#type: TheirAttributeType::Strings as i32,
            ..pb::AttributeProto::default()
        };
        let node = pb::NodeProto {
            input: vec![text("in 1"), text("in 2")],
            output: vec![text("out 1")],
            name: text("node"),
            op_type: text("operator"),
            attribute: vec![attribute],
            domain: text("domain of the node"),
            ..pb::NodeProto::default()
        };
        let tensor = pb::TensorProto {
            dims: vec![2, 3],
            data_type: TheirDataType::Double as i32,
            name: text("tensor"),
            raw_data: vec![1, 2, 3],
            ..pb::TensorProto::default()
        };
        let graph = pb::GraphProto {
            node: vec![node],
            name: text("graph"),
            initializer: vec![tensor],
            input: vec![their_value("input", 0, "rows")],
            output: vec![their_value("output", 7, "lines")],
            ..pb::GraphProto::default()
        };
        pb::ModelProto {
            ir_version: 8,
            producer_name: text("producer"),
            producer_version: text("version"),
            graph: Some(graph),
            opset_import: vec![pb::OperatorSetIdProto { domain: text("domain"), version: 17 }],
            ..pb::ModelProto::default()
        }
    }

    #[test]
    fn messages_are_those_of_an_independent_implementation() {
        let (ours, theirs) = (ours(), theirs());
        assert_eq!(ours.encode_to_vec(), theirs.encode_to_vec());
        assert_eq!(pb::ModelProto::decode(&ours.encode_to_vec()[..]), Ok(theirs.clone()));
        assert_eq!(ModelProto::decode(&theirs.encode_to_vec()[..]), Ok(ours));
    }

    #[test]
    fn numbers_of_types_are_those_of_an_independent_implementation() {
        let elements = [
            (DataType::Float as i32, TheirDataType::Float),
            (DataType::Int64 as i32, TheirDataType::Int64),
            (DataType::String as i32, TheirDataType::String),
            (DataType::Bool as i32, TheirDataType::Bool),
            (DataType::Double as i32, TheirDataType::Double),
        ];
        elements.iter().for_each(|(ours, theirs)| assert_eq!(*ours, *theirs as i32));
        let attributes = [
            (AttributeType::Int as i32, TheirAttributeType::Int),
            (AttributeType::String as i32, TheirAttributeType::String),
            (AttributeType::Ints as i32, TheirAttributeType::Ints),
            (AttributeType::Strings as i32, TheirAttributeType::Strings),
        ];
        attributes.iter().for_each(|(ours, theirs)| assert_eq!(*ours, *theirs as i32));
    }
}
