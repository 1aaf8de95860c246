//! Programs that write an ONNX file: a valid model is released as attested and predicts; an invalid or hostile file is
//! refused, and its author sees the reason.

use sage_engine::AttemptOutcome;
use sage_engine::adapt::Outcome;
use sage_engine::serve::Cell;

use super::{a_bad_program_is_contained_and_explained, attempt, attempt_with, reasons};

/// Writes protobuf by hand, so that it shares no code with the parser.
const WRITER: &str = r#"
import json, os, struct
output = os.environ["SAGE_OUTPUT"] + "/model.onnx"

def number(value):
    some = bytearray()
    while value > 127:
        some.append(value & 127 | 128)
        value >>= 7
    return bytes(some + bytes([value]))

def field(tag, body):
    if isinstance(body, int):
        return number(tag << 3) + number(body)
    body = body.encode() if isinstance(body, str) else body
    return number(tag << 3 | 2) + number(len(body)) + body

def constant(name, shape, floats):
    data = struct.pack("<%df" % len(floats), *floats)
    return b"".join(field(1, length) for length in shape) + field(2, 1) + field(8, name) + field(9, data)

def node(operator, inputs, result, attributes=(), domain=""):
    parts = [field(1, name) for name in inputs] + [field(2, result), field(4, operator), field(7, domain)]
    return b"".join(parts + [field(5, attribute) for attribute in attributes])

def whole(name, value):
    return field(1, name) + field(3, value) + field(20, 2)

def declared(name):
    shape = field(1, field(2, "rows")) + field(1, field(1, 1))
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))

def write(nodes, constants, column="x", more=b""):
    graph = b"".join(field(1, each) for each in nodes) + b"".join(field(5, each) for each in constants)
    graph += field(2, "own") + field(11, declared(column)) + field(12, declared("out"))
    open(output, "wb").write(field(1, 8) + field(7, graph) + field(8, field(2, 17)) + more)

weight, bias = constant("w", [1, 1], [1.0]), constant("b", [1], [0.0])
"#;

/// y = x by one product and one sum.
const RIGHT: &str = r#"write([node("MatMul", ["x", "w"], "m"), node("Add", ["m", "b"], "out")], [weight, bias])"#;

/// Name, program, and a part of the reason that its author sees.
pub(super) const BAD: &[(&str, &str, &str)] = &[
    (
        "onnx_elsewhere",
        r#"write([node("Mul", ["x", "w"], "out")], [field(1, 1) + field(2, 1) + field(8, "w") + field(14, 1) + field(13, field(1, "location") + field(2, "/etc/passwd"))])"#,
        "another file",
    ),
    ("onnx_custom", r#"write([node("Run", ["x"], "out", domain="com.evil")], [])"#, "a domain of its own"),
    (
        "onnx_loop",
        r#"write([node("Loop", ["x"], "out", [field(1, "body") + field(6, b"")])], [])"#,
        "Loop, If and Scan",
    ),
    (
        "onnx_mixing",
        r#"write([node("ReduceMean", ["x"], "out", [field(1, "axes") + field(8, 0) + field(20, 7)])], [])"#,
        "node 1 (ReduceMean): it goes along the rows",
    ),
    (
        "onnx_huge",
        r#"write([node("MatMul", ["x", "w"], "out")], [constant("w", [1 << 40, 1 << 20], [1.0])])"#,
        "claims a shape",
    ),
    (
        "onnx_circle",
        r#"write([node("Add", ["x", "b"], "a"), node("Relu", ["a"], "b")], [])"#,
        "no node before it produces",
    ),
    ("onnx_columns", r#"write([node("Relu", ["salary"], "out")], [], "salary")"#, "no column of the stream"),
    (
        "onnx_nan",
        r#"write([node("MatMul", ["x", "w"], "out")], [constant("w", [1, 1], [float("nan")])])"#,
        "no finite number",
    ),
    ("onnx_infinite", r#"write([node("Log", ["x"], "out")], [])"#, "prediction for a synthetic row is not finite"),
    ("onnx_many", r#"write([node("Relu", ["x"], "out")] * 1000000, [])"#, "more than 4096 nodes"),
    ("onnx_function", r#"write([node("Relu", ["x"], "out")], [], more=field(25, b""))"#, "functions of its own"),
    (
        "onnx_cut",
        "write([node(\"MatMul\", [\"x\", \"w\"], \"out\")], [weight])\nwhole = open(output, 'rb').read()\nopen(output, 'wb').write(whole[:40])",
        "ends before it is complete",
    ),
    ("onnx_pickle", "import pickle\npickle.dump([1], open(output, 'wb'))", "cannot be taken"),
    ("onnx_link", "os.symlink('/etc/passwd', output)", "cannot be taken"),
    (
        "onnx_and_ours",
        "write([node(\"Relu\", [\"x\"], \"out\")], [])\nopen(os.environ['SAGE_OUTPUT'] + '/graph.json', 'w').write('{}')",
        "leave one of them",
    ),
];

pub(super) fn a_bad_file_is_contained_and_explained(program: &str, reason_part: &str) {
    a_bad_program_is_contained_and_explained(&format!("{WRITER}\n{program}\n"), reason_part);
}

pub(super) fn a_foreign_model_is_released_as_attested_and_predicts() {
    let (_folder, engine, run) = attempt(&format!("{WRITER}\n{RIGHT}\n"));
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{:?}", reasons(&run));
    let release = engine.release_named("own").expect("released");
    let files = engine.release_files(&release).expect("files");
    let file = |path: &str| files.iter().find(|(name, _)| name == path).map(|(_, bytes)| bytes.to_vec());
    let receipt = file("receipt.json").expect("a receipt");
    assert!(String::from_utf8_lossy(&receipt).contains("\"attested\""));
    let card = String::from_utf8(file("README.md").expect("a card")).expect("text");
    assert!(card.contains("access_mode: \"attested\""), "{card}");
    let description = String::from_utf8(file("graph.json").expect("a description")).expect("text");
    assert!(description.contains("\"steps\"") && description.contains("\"product\""), "{description}");
    let predictor = engine.predictor(&release).expect("a model");
    assert_eq!(predictor.rows(&[vec![Cell::Number(0.25)], vec![Cell::Number(0.5)]]).expect("predictions"), [0.25, 0.5]);
    // A worse model is tested like any other and not released.
    let worse = RIGHT.replace("[weight, bias]", "[weight, constant(\"b\", [1], [5.0])]");
    let (_folder, engine, run) = attempt(&format!("{WRITER}\n{worse}\n"));
    assert_ne!(run.outcome(), Some(Outcome::Accepted));
    assert!(engine.releases().is_empty());
    let tested = |outcome: &Option<AttemptOutcome>| !matches!(outcome, Some(AttemptOutcome::Lost(_)));
    assert!(run.attempts.iter().any(|attempt| tested(&attempt.outcome)), "{:?}", reasons(&run));
}

/// Runs the programs of `docs/reference/own-code.md` unchanged, with the interpreter that `SAGE_OWN_CODE_PYTHON` names. It
/// needs pyarrow and onnx; `cargo xtask check --all` provides one.
pub(super) fn the_documented_program_runs() {
    let Some(python) = std::env::var_os("SAGE_OWN_CODE_PYTHON") else {
        println!("left out: SAGE_OWN_CODE_PYTHON names no interpreter with pyarrow and onnx");
        return;
    };
    let python = std::path::PathBuf::from(python);
    let environment = python.parent().and_then(|programs| programs.parent()).expect("an environment");
    let page = include_str!("../../../../docs/reference/own-code.md");
    let pieces: Vec<&str> = page.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(pieces.len() >= 3 && pieces.concat().contains("do_get"), "the page has its programs");
    let (_folder, engine, run) = attempt_with(&pieces.concat(), &python, environment);
    let printed = engine.printed(&super::principal("mia"), run.number).expect("hers");
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{:?} {printed:?}", reasons(&run));
    let release = engine.release_named("own").expect("released");
    let predictor = engine.predictor(&release).expect("a model");
    let found = predictor.rows(&[vec![Cell::Number(0.5)]]).expect("a prediction");
    assert!((found[0] - 0.5).abs() < 0.05, "{found:?}");
}
