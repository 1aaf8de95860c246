//! Synthetic ONNX files, written with the types of tract, which share no code with the importer.

use prost::Message as _;
use sage_model::formula::{Column, Domain, Missing};
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_onnx::pb::type_proto::{self, Value};
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto,
};

pub const FLOAT: i32 = 1;
pub const WHOLE: i32 = 7;
pub const TEXT: i32 = 8;
pub const DOUBLE: i32 = 11;

/// The columns of a stream.
pub fn columns() -> Vec<Column> {
    let column = |name: &str, domain, missing| Column { name: name.to_owned(), domain, missing };
    let colors = ["red", "green", "blue"].map(str::to_owned).to_vec();
    vec![
        column("x", Domain::Number { low: -2.0, high: 3.0 }, Missing::Never),
        column("z", Domain::Number { low: 0.0, high: 10.0 }, Missing::Never),
        column("gap", Domain::Number { low: 0.0, high: 1.0 }, Missing::Possible),
        column("count", Domain::Whole { low: 0, high: 9 }, Missing::Never),
        column("at", Domain::Time { first: 0, last: 1_000_000 }, Missing::Never),
        column("color", Domain::Text { categories: colors }, Missing::Never),
    ]
}

/// A file under construction.
#[derive(Clone)]
pub struct Made(pub ModelProto);

/// A file with no node yet, whose output is `out`.
pub fn file() -> Made {
    let output = vec![declared("out", FLOAT, &[None])];
    let graph = GraphProto { name: "own".to_owned(), output, ..GraphProto::default() };
    Made(ModelProto {
        ir_version: 8,
        opset_import: vec![
            OperatorSetIdProto { domain: String::new(), version: 17 },
            OperatorSetIdProto { domain: "ai.onnx.ml".to_owned(), version: 3 },
        ],
        graph: Some(graph),
        ..ModelProto::default()
    })
}

impl Made {
    pub fn graph(&mut self) -> &mut GraphProto {
        self.0.graph.as_mut().unwrap()
    }

    pub fn input(mut self, name: &str, element: i32, shape: &[Option<i64>]) -> Self {
        self.graph().input.push(declared(name, element, shape));
        self
    }

    /// A column of floats, `[rows, 1]`.
    pub fn column(self, name: &str) -> Self {
        self.input(name, FLOAT, &[None, Some(1)])
    }

    pub fn floats(mut self, name: &str, shape: &[i64], floats: &[f32]) -> Self {
        let raw_data = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
        self.graph().initializer.push(TensorProto {
            name: name.to_owned(),
            dims: shape.to_vec(),
            data_type: FLOAT,
            raw_data,
            ..TensorProto::default()
        });
        self
    }

    pub fn wholes(mut self, name: &str, shape: &[i64], wholes: &[i64]) -> Self {
        self.graph().initializer.push(TensorProto {
            name: name.to_owned(),
            dims: shape.to_vec(),
            data_type: WHOLE,
            int64_data: wholes.to_vec(),
            ..TensorProto::default()
        });
        self
    }

    pub fn node(self, operator: &str, inputs: &[&str], output: &str, attributes: Vec<AttributeProto>) -> Self {
        self.node_of("", operator, inputs, output, attributes)
    }

    pub fn node_of(
        mut self, domain: &str, operator: &str, inputs: &[&str], output: &str, attribute: Vec<AttributeProto>,
    ) -> Self {
        self.graph().node.push(NodeProto {
            input: inputs.iter().map(|input| (*input).to_owned()).collect(),
            output: vec![output.to_owned()],
            op_type: operator.to_owned(),
            domain: domain.to_owned(),
            attribute,
            ..NodeProto::default()
        });
        self
    }

    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.0.metadata_props.push(StringStringEntryProto { key: key.to_owned(), value: value.to_owned() });
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.encode_to_vec()
    }
}

pub fn whole(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.to_owned(), r#type: AttributeType::Int as i32, i, ..AttributeProto::default() }
}

pub fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { name: name.to_owned(), r#type: AttributeType::Float as i32, f, ..AttributeProto::default() }
}

pub fn list(name: &str, floats: &[f32]) -> AttributeProto {
    let floats = floats.to_vec();
    AttributeProto { name: name.to_owned(), r#type: AttributeType::Floats as i32, floats, ..AttributeProto::default() }
}

pub fn texts(name: &str, texts: &[&str]) -> AttributeProto {
    let strings = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Strings as i32,
        strings,
        ..AttributeProto::default()
    }
}

pub fn declared(name: &str, element: i32, shape: &[Option<i64>]) -> ValueInfoProto {
    let dimension = |length: &Option<i64>| Dimension {
        value: Some(match length {
            Some(length) => dimension::Value::DimValue(*length),
            None => dimension::Value::DimParam("N".to_owned()),
        }),
        ..Dimension::default()
    };
    let shape = TensorShapeProto { dim: shape.iter().map(dimension).collect() };
    let tensor = type_proto::Tensor { elem_type: element, shape: Some(shape) };
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto { value: Some(Value::TensorType(tensor)), ..TypeProto::default() }),
        ..ValueInfoProto::default()
    }
}

/// A file with every supported operator.
pub fn everything() -> Made {
    second_half(first_half())
}

fn first_half() -> Made {
    file()
        .column("x")
        .input("z", DOUBLE, &[None])
        .column("gap")
        .input("count", WHOLE, &[None, Some(1)])
        .input("color", TEXT, &[None, Some(1)])
        .wholes("one", &[1], &[1])
        .wholes("three", &[2], &[-1, 3])
        .wholes("both", &[2], &[1, -1])
        .floats("half", &[1], &[0.5])
        .floats("w", &[7, 4], &spread(28, 0.3))
        .floats("b", &[4], &[0.1, -0.2, 0.3, 0.0])
        .floats("v", &[2, 4], &spread(8, 0.5))
        .floats("c", &[1, 2], &[0.25, -0.5])
        .floats("n", &[2], &[1.5, 0.5])
        .floats("low", &[], &[-3.0])
        .floats("high", &[], &[3.0])
        .floats("u", &[2], &[0.7, -0.4])
        .node("Unsqueeze", &["z", "one"], "z2", vec![])
        .node("Cast", &["z2"], "z3", vec![whole("to", 1)])
        .node("IsNaN", &["gap"], "hole", vec![])
        .node("Where", &["hole", "half", "gap"], "full", vec![])
        .node("Cast", &["count"], "counted", vec![whole("to", 1)])
        .node_of(
            "ai.onnx.ml",
            "OneHotEncoder",
            &["color"],
            "hot",
            vec![texts("cats_strings", &["red", "green", "pink"])],
        )
        .node("Reshape", &["hot", "three"], "hot2", vec![])
        .node("Concat", &["x", "z3", "full", "counted", "hot2"], "all", vec![whole("axis", 1)])
        .node_of(
            "ai.onnx.ml",
            "Scaler",
            &["all"],
            "scaled",
            vec![
                list("offset", &[0.5, 5.0, 0.0, 4.0, 0.0, 0.0, 0.0]),
                list("scale", &[0.4, 0.2, 1.0, 0.1, 1.0, 1.0, 1.0]),
            ],
        )
        .node("MatMul", &["scaled", "w"], "m", vec![])
        .node("Add", &["b", "m"], "a", vec![])
        .node("Relu", &["a"], "r", vec![])
        .node("Gemm", &["r", "v", "c"], "g", vec![whole("transB", 1), float("alpha", 0.5), float("beta", 2.0)])
        .node("BatchNormalization", &["g", "n", "u", "n", "n"], "bn", vec![])
        .node("LeakyRelu", &["bn"], "leak", vec![float("alpha", 0.1)])
        .node("Tanh", &["leak"], "t", vec![])
        .node("Softmax", &["t"], "s", vec![])
}

fn second_half(made: Made) -> Made {
    made.node("Gather", &["s", "both"], "p", vec![whole("axis", 1)])
        .node("Sub", &["p", "half"], "d", vec![])
        .node("Abs", &["d"], "abs", vec![])
        .node("Sqrt", &["abs"], "root", vec![])
        .node("Exp", &["root"], "e", vec![])
        .node("Log", &["e"], "l", vec![])
        .node("Neg", &["l"], "neg", vec![])
        .node("Erf", &["neg"], "erf", vec![])
        .node("Sigmoid", &["erf"], "sig", vec![])
        .node("Reciprocal", &["sig"], "rec", vec![])
        .node("Max", &["rec", "half", "sig"], "max", vec![])
        .node("Min", &["max", "n"], "min", vec![])
        .node("Mul", &["min", "x"], "mul", vec![])
        .node("Div", &["mul", "n"], "div", vec![])
        .node("Clip", &["div", "low", "high"], "clip", vec![])
        .node("ReduceMean", &["clip"], "mean", vec![axes(&[1])])
        .node("ReduceSum", &["clip", "one"], "sum", vec![])
        .node("Concat", &["mean", "sum"], "two", vec![whole("axis", -1)])
        .node("Identity", &["two"], "same", vec![])
        .node("Flatten", &["same"], "flat", vec![])
        .node("MatMul", &["flat", "u"], "dot", vec![])
        .node("Unsqueeze", &["dot", "one"], "dots", vec![])
        .node_of(
            "ai.onnx.ml",
            "LinearRegressor",
            &["dots"],
            "line",
            vec![list("coefficients", &[2.0]), list("intercepts", &[0.5])],
        )
        .node("Squeeze", &["line", "one"], "out", vec![])
}

pub fn axes(axes: &[i64]) -> AttributeProto {
    let ints = axes.to_vec();
    AttributeProto { name: "axes".to_owned(), r#type: AttributeType::Ints as i32, ints, ..AttributeProto::default() }
}

/// `count` numbers around zero, always the same.
pub fn spread(count: usize, size: f32) -> Vec<f32> {
    (0..count).map(|index| ((index * 37 % 19) as f32 / 9.0 - 1.0) * size).collect()
}
