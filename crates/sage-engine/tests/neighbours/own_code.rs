//! Own code: what Sage itself shows of a program that reads rows.
//!
//! What the program does with its rows is attested by its author. Here it ignores them, so that everything observable
//! comes from Sage.

use crate::pair::{POINTS, neighbours};
use crate::pipelines::compare;
use crate::rows;

/// Leaves the model y = x, whatever the rows.
const PROGRAM: &str = r#"
import json, os, struct
outline = {
    "schema": {"columns": [{"name": "x", "domain": {"number": {"low": 0.0, "high": 1.0}}, "missing": "never"}], "tables": []},
    "features": [{"name": "x", "formula": {"column": "x"}}],
    "fields": [{"number": {"feature": "x", "low": 0.0, "high": 1.0, "shift": 0.0, "factor": 1.0, "missing": 0.0}}],
    "layers": [{"outputs": 1, "activation": "identity"}],
    "link": "identity",
}
output = os.environ["SAGE_OUTPUT"]
json.dump({"format": 1, "outline": outline}, open(output + "/graph.json", "w"))
header = json.dumps({"layer.0.bias": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                     "layer.0.weight": {"dtype": "F32", "shape": [1, 1], "data_offsets": [4, 8]}}).encode()
header += b" " * (-len(header) % 8)
weights = struct.pack("<Q", len(header)) + header + struct.pack("<ff", 0.0, 1.0)
open(output + "/weights.safetensors", "wb").write(weights)
"#;

/// A program that fails after it was given its rows.
const FAILING: &str = "raise SystemExit(3)";

/// Pipelines with both ways to hand over rows, and one whose program fails.
pub(crate) fn pipelines() -> Vec<String> {
    let pipeline = |name: &str, script: &str, rows: &str| {
        format!(
            "[pipeline]\nname = \"{name}\"\nstream = \"people\"\nlabel = \"y\"\n[train]\n\
             command = [\"python3\", \"{script}\"]\ntime_limit = \"1m\"\nrows = \"{rows}\"\n[validate]\n\
             metric = \"mse\"\ntarget = 0.5\nbound = 1.0\n[budget]\nepsilon0 = \"2\"\nepsilon_max = \"2\"\n\
             [adapt]\nstrategy = \"frugal\"\nattempts = 1\n"
        )
    };
    vec![
        pipeline("files", "train.py", "parquet"),
        pipeline("flight", "train.py", "flight"),
        pipeline("failing", "fail.py", "parquet"),
    ]
}

pub(crate) fn own_code_on_neighbours_looks_alike() {
    let bob = "2026-11-01T12:00:00Z,1,0\n";
    let sides = neighbours(POINTS, "at,x,y\n", &rows::of_points(2_000), bob);
    let code = sides[0].folder.path().join("code");
    std::fs::create_dir(&code).expect("a folder");
    for (name, program) in [("train.py", PROGRAM), ("fail.py", FAILING)] {
        std::fs::write(code.join(name), program).expect("a program");
    }
    for (index, text) in pipelines().into_iter().enumerate() {
        let status = compare(&sides, &text, Some(code.as_path()), 1 + 10 * index as u64);
        let expected = if text.contains("fail.py") { "out" } else { "accepted" };
        assert_eq!(status, Ok(expected.to_owned()), "{text}");
    }
}
