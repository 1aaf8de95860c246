//! Files with forbidden content. Each is refused quickly and with its reason, and none is executed.

use std::time::Instant;

use prost::Message as _;
use sage_model::bundle::import_onnx;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::pb::{AttributeProto, FunctionProto, GraphProto, NodeProto, SparseTensorProto, StringStringEntryProto};

use super::made::{
    self, DOUBLE, FLOAT, Made, TEXT, WHOLE, axes, columns, everything, file, float, list, spread, whole,
};
use crate::draw::Draw;

fn plain() -> Made {
    file().column("x").column("z").wholes("one", &[1], &[1]).floats("half", &[1], &[0.5])
}

fn changed(mut made: Made, change: impl FnOnce(&mut GraphProto)) -> Made {
    change(made.graph());
    made
}

fn refused(name: &str, made: &Made, reason: &str) {
    let began = Instant::now();
    let refusal = import_onnx(&made.bytes(), &columns()).map(|_| ()).expect_err(name).to_string();
    assert!(refusal.starts_with("`model.onnx`"), "{name}: {refusal}");
    assert!(refusal.contains(reason), "{name}: {refusal}");
    assert!(began.elapsed().as_secs() < 60, "{name} takes {:?}", began.elapsed());
}

#[test]
fn references_outside_the_file_are_refused() {
    let outside = changed(plain().floats("w", &[1], &[1.0]).node("Mul", &["x", "w"], "out", vec![]), |graph| {
        let data = graph.initializer.last_mut().unwrap();
        data.raw_data.clear();
        data.data_location = Some(DataLocation::External as i32);
        data.external_data =
            vec![StringStringEntryProto { key: "location".to_owned(), value: "../../secret".to_owned() }];
    });
    refused("external data", &outside, "another file");
    let custom = plain().node_of("com.evil", "Run", &["x"], "out", vec![]);
    refused("custom domain", &custom, "node 1: its operator is of a domain of its own");
    refused("custom operator", &plain().node("Shell", &["x"], "out", vec![]), "its operator is not supported");
    let mut function = plain().node("Relu", &["x"], "out", vec![]);
    function.0.functions.push(FunctionProto { name: Some("Relu".to_owned()), ..FunctionProto::default() });
    refused("function", &function, "functions of its own");
    let sparse = changed(plain().node("Relu", &["x"], "out", vec![]), |graph| {
        graph.sparse_initializer.push(SparseTensorProto::default());
    });
    refused("sparse", &sparse, "sparse");
}

#[test]
fn loops_branches_and_random_operators_are_refused() {
    let body = AttributeProto { name: "body".to_owned(), g: Some(GraphProto::default()), ..AttributeProto::default() };
    for operator in ["Loop", "If", "Scan"] {
        let made = plain().node(operator, &["x"], "out", vec![body.clone()]);
        refused(operator, &made, "Loop, If and Scan");
        let bare = plain().node(operator, &["x"], "out", vec![]);
        refused(operator, &bare, &format!("node 1 ({operator}): it has a graph within it"));
    }
    refused("random", &plain().node("RandomNormalLike", &["x"], "out", vec![]), "draws at random");
    refused("dropout", &plain().node("Dropout", &["x"], "out", vec![]), "for training");
}

#[test]
fn operators_that_mix_rows_are_refused() {
    let base = || plain().input("at", DOUBLE, &[None]).floats("two", &[2, 1], &[1.0, 2.0]).wholes("zero", &[1], &[0]);
    let mixing = [
        ("mean of all", base().node("ReduceMean", &["x"], "out", vec![]), "sums over all rows"),
        (
            "mean over rows",
            base().node("ReduceMean", &["x"], "out", vec![axes(&[0])]),
            "(ReduceMean): it goes along the rows",
        ),
        ("sum over rows", base().node("ReduceSum", &["x", "zero"], "out", vec![]), "along the rows"),
        ("sum of both", base().node("ReduceMean", &["x"], "out", vec![axes(&[0, 1])]), "sums over all rows"),
        ("softmax over rows", base().node("Softmax", &["x"], "out", vec![whole("axis", 0)]), "along the rows"),
        ("softmax of a list", base().node("Softmax", &["at"], "out", vec![]), "along the rows"),
        ("concat of rows", base().node("Concat", &["x", "z"], "out", vec![whole("axis", 0)]), "along the rows"),
        ("concat of lists", base().node("Concat", &["at", "at"], "out", vec![whole("axis", -1)]), "along the rows"),
        ("a list beside a matrix", base().node("Add", &["x", "at"], "out", vec![]), "different numbers of dimensions"),
        ("a matrix of constants", base().node("Add", &["x", "two"], "out", vec![]), "differ from row to row"),
        (
            "a list with constants",
            base().floats("l", &[2], &[1.0, 2.0]).node("Add", &["at", "l"], "out", vec![]),
            "differ from row to row",
        ),
        ("rows times rows", base().node("MatMul", &["x", "z"], "out", vec![]), "must be a constant"),
        ("constants times rows", base().node("MatMul", &["two", "x"], "out", vec![]), "from constants alone"),
        ("rows turned", base().node("Transpose", &["x"], "out", vec![]), "along the rows"),
        ("gemm turned", base().node("Gemm", &["x", "two"], "out", vec![whole("transA", 1)]), "transposes the rows"),
        ("rows picked", base().node("Gather", &["x", "zero"], "out", vec![]), "along the rows"),
        (
            "reshape",
            base().node("Concat", &["x", "z"], "both", vec![whole("axis", 1)]).wholes("s", &[2], &[-1, 1]).node(
                "Reshape",
                &["both", "s"],
                "out",
                vec![],
            ),
            "from one row to another",
        ),
        ("squeeze of anything", base().node("Squeeze", &["x"], "out", vec![]), "axes = [1]"),
        ("flatten all", base().node("Flatten", &["x"], "out", vec![whole("axis", 0)]), "along the rows"),
        (
            "normalized by the batch",
            base().floats("n", &[1], &[1.0]).node(
                "BatchNormalization",
                &["x", "n", "n", "n", "n"],
                "out",
                vec![whole("training_mode", 1)],
            ),
            "inference",
        ),
        ("cumulated", base().node("CumSum", &["x", "zero"], "out", vec![]), "from one row to another"),
        ("counted", base().node("Shape", &["x"], "out", vec![]), "number of rows"),
    ];
    for (name, made, reason) in &mixing {
        refused(name, made, reason);
    }
}

#[test]
fn wrong_inputs_and_outputs_are_refused() {
    let relu = |made: Made, of: &str| made.node("Relu", &[of], "out", vec![]);
    let cases = [
        ("no column", relu(file().column("salary"), "salary"), "no column of the stream"),
        ("no input", file().floats("k", &[1], &[1.0]).node("Identity", &["k"], "out", vec![]), "no inputs"),
        ("a text as a float", relu(file().column("color"), "color"), "of type string"),
        ("a number as a text", relu(file().input("x", TEXT, &[None]), "x"), "a type that its column cannot have"),
        ("a number as a whole", relu(file().input("x", WHOLE, &[None]), "x"), "a type that its column cannot have"),
        ("null as a whole", relu(file().input("gap", WHOLE, &[None]), "gap"), "a type that its column cannot have"),
        ("whole arithmetic", relu(file().input("count", WHOLE, &[None]), "count"), "cast them to float"),
        ("text arithmetic", relu(file().input("color", TEXT, &[None]), "color"), "OneHotEncoder"),
        ("one row only", relu(file().input("x", FLOAT, &[Some(1), Some(1)]), "x"), "free first dimension"),
        ("no shape", relu(file().input("x", FLOAT, &[]), "x"), "free first dimension"),
        ("twice", relu(file().column("x").column("x"), "x"), "the same column"),
        (
            "a column twice",
            relu(file().input("X", FLOAT, &[None, None]).property("columns", "x,x"), "X"),
            "same column",
        ),
        (
            "another width",
            relu(file().input("X", FLOAT, &[None, Some(3)]).property("columns", "x,z"), "X"),
            "another width",
        ),
        ("no output", changed(relu(plain(), "x"), |graph| graph.output.clear()), "several outputs, or none"),
        (
            "two outputs",
            changed(relu(plain(), "x"), |graph| {
                let out = graph.output[0].clone();
                graph.output.push(out);
            }),
            "several outputs",
        ),
        ("constant output", plain().node("Identity", &["half"], "out", vec![]), "follows from a row"),
        (
            "wide output",
            plain().node("Concat", &["x", "z"], "out", vec![whole("axis", 1)]),
            "several numbers for each row",
        ),
        ("lost output", plain().node("Relu", &["x"], "elsewhere", vec![]), "no node computes"),
    ];
    for (name, made, reason) in &cases {
        refused(name, made, reason);
    }
    let mut old = relu(plain(), "x");
    old.0.opset_import[0].version = 7;
    refused("old operators", &old, "13 to 28");
}

#[test]
fn circles_and_names_given_twice_are_refused() {
    let circle = plain().node("Add", &["x", "b"], "a", vec![]).node("Relu", &["a"], "b", vec![]).node(
        "Identity",
        &["b"],
        "out",
        vec![],
    );
    refused("circle", &circle, "node 1 (Add): it reads a value that no node before it produces");
    let twice = plain().node("Relu", &["x"], "out", vec![]).node("Tanh", &["x"], "out", vec![]);
    refused("twice", &twice, "one name");
    let several =
        changed(plain().node("Relu", &["x"], "out", vec![]), |graph| graph.node[0].output.push("more".to_owned()));
    refused("several", &several, "several outputs");
}

#[test]
fn constants_that_are_not_finite_are_refused() {
    for (name, bad) in [("nan", f32::NAN), ("infinite", f32::INFINITY), ("negative infinite", f32::NEG_INFINITY)] {
        let weight = plain().floats("w", &[1, 1], &[bad]).node("MatMul", &["x", "w"], "out", vec![]);
        refused(name, &weight, "no finite number");
        let attribute = vec![list("coefficients", &[bad]), list("intercepts", &[0.0])];
        refused(name, &plain().node_of("ai.onnx.ml", "LinearRegressor", &["x"], "out", attribute), "finite");
        let factor = plain().floats("w", &[1, 1], &[1.0]).node("Gemm", &["x", "w"], "out", vec![float("alpha", bad)]);
        refused(name, &factor, "finite");
    }
}

#[test]
fn oversized_files_are_refused_before_allocation() {
    let claimed = |shape: &[i64]| plain().floats("w", shape, &[1.0]).node("MatMul", &["x", "w"], "out", vec![]);
    for shape in [&[1 << 40, 1 << 40][..], &[i64::MAX], &[-1], &[1 << 20, 1], &[2; 16], &[0]] {
        refused("shape", &claimed(shape), "claims a shape");
    }
    let node = NodeProto { op_type: "Relu".to_owned(), ..NodeProto::default() };
    let many = changed(plain(), |graph| graph.node = vec![node; 1_000_000]);
    refused("a million nodes", &many, "more than 4096 nodes");
    let long = (1..4_000).fold(plain().node("Relu", &["x"], "v0", vec![]), |made, number| {
        made.node("Relu", &[&format!("v{}", number - 1)], &format!("v{number}"), vec![])
    });
    assert!(
        import_onnx(&long.node("Relu", &["v3999"], "out", vec![]).bytes(), &columns()).is_ok(),
        "a long one is fine"
    );
    let wide = plain().floats("w", &[65_536], &spread(65_536, 1.0));
    let wide = (0..8).fold(wide, |made, number| made.node("Mul", &["x", "w"], &format!("v{number}"), vec![]));
    refused("wide", &wide.node("Relu", &["x"], "out", vec![]), "more than 65536, or more than 2^18");
    // One constant that thousands of nodes refer to would be copied for each.
    let shared = plain().floats("w", &[1, 60_000], &spread(60_000, 1.0));
    let shared = (0..4_000).fold(shared, |made, number| made.node("Transpose", &["w"], &format!("v{number}"), vec![]));
    refused("shared", &shared.node("Relu", &["x"], "out", vec![]), "more than 2^24");
    let large = vec![0x42; (64 << 20) + 1];
    assert!(import_onnx(&large, &columns()).unwrap_err().to_string().contains("64 MiB"));
}

#[test]
fn cut_and_flipped_files_are_accepted_or_refused_without_panics() {
    let good = everything().bytes();
    let seed = 23;
    let draw = &mut Draw(seed);
    for cut in (0..good.len()).step_by(7) {
        assert!(import_onnx(&good[..cut], &columns()).is_err(), "cut at {cut} of {}", good.len());
    }
    let mut accepted = 0;
    for round in 0..3_000 {
        let mut bytes = good.clone();
        for _ in 0..=draw.below(3) {
            let index = draw.below(bytes.len());
            bytes[index] = if round % 2 == 0 { bytes[index] ^ (1 << draw.below(8)) } else { draw.next() as u8 };
        }
        accepted += u32::from(import_onnx(&bytes, &columns()).is_ok());
    }
    assert!(accepted > 0, "some flips are of a weight's bits, seed {seed}");
    for bytes in [&b""[..], b"\x80\x04]q\x00.", b"PK\x03\x04", &[0xff; 100], b"{\"format\": 1}"] {
        assert!(import_onnx(bytes, &columns()).is_err());
    }
    // A refusal is shown to others than the program's author, who may have written data of a row into a name.
    let secret = made::file().column("x").node("salary_is_41250", &["x"], "out", vec![]);
    let secret = import_onnx(&Made(secret.0.clone()).0.encode_to_vec(), &columns()).unwrap_err().to_string();
    assert!(!secret.contains("41250"), "{secret}");
}
