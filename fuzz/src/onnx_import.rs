//! ONNX files of unknown origin: translated or refused, and what is translated predicts synthetic rows or is refused.

use sage_model::bundle::{import_onnx, try_out};
use sage_model::formula::{Column, Domain, Missing};

/// Translates a file and tries the result.
pub fn run(bytes: &[u8]) {
    match import_onnx(bytes, &columns()) {
        Ok(graph) => drop(try_out(&graph)),
        Err(refusal) => drop(refusal.to_string()),
    }
}

/// The columns of a model, one of each kind.
pub(crate) fn columns() -> [Column; 4] {
    let column = |name: &str, domain, missing| Column { name: name.to_owned(), domain, missing };
    [
        column("distance", Domain::Number { low: 0.0, high: 100.0 }, Missing::Never),
        column("passengers", Domain::Whole { low: 0, high: 8 }, Missing::Possible),
        column("tipped", Domain::Truth, Missing::Never),
        column("pickup", Domain::Time { first: 0, last: 2_000_000_000 }, Missing::Never),
    ]
}

/// A linear model, distance × weight + bias, as MatMul and Add.
pub fn seeds() -> Vec<Vec<u8>> {
    let node = |operator: &str, inputs: [&str; 2], output: &str| {
        let [first, second] = inputs.map(|input| text(1, input));
        [first, second, text(2, output), text(4, operator)].concat()
    };
    let graph = [
        bytes(1, &node("MatMul", ["distance", "weight"], "product")),
        bytes(1, &node("Add", ["product", "bias"], "prediction")),
        text(2, "linear"),
        bytes(5, &constant("weight", &[1, 1], 0.5)),
        bytes(5, &constant("bias", &[1], 1.0)),
        bytes(11, &declared("distance")),
        bytes(12, &declared("prediction")),
    ];
    let operator_set = [text(1, ""), number(2, 17)].concat();
    vec![[number(1, 8), bytes(7, &graph.concat()), bytes(8, &operator_set)].concat()]
}

/// A constant of 32-bit floats.
fn constant(name: &str, shape: &[u64], value: f32) -> Vec<u8> {
    let shape = shape.iter().flat_map(|size| number(1, *size));
    shape.chain(number(2, 1)).chain(text(8, name)).chain(bytes(9, &value.to_le_bytes())).collect()
}

/// An input or output: a table of one column of 32-bit floats with any number of rows.
fn declared(name: &str) -> Vec<u8> {
    let shape = [bytes(1, &text(2, "rows")), bytes(1, &number(1, 1))].concat();
    let tensor = [number(1, 1), bytes(2, &shape)].concat();
    [text(1, name), bytes(2, &bytes(1, &tensor))].concat()
}

fn text(field: u64, value: &str) -> Vec<u8> {
    bytes(field, value.as_bytes())
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}
