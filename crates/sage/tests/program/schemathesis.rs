//! Schemathesis: requests generated from the OpenAPI document, for every role. No request may cause a server error or a
//! response that violates the document. Without Schemathesis (`SAGE_CLIENTS_PYTHON`, set by `cargo xtask check --all`)
//! the test is skipped. `SAGE_SOAK` makes it long.

use std::process::Command;

use crate::http::Serving;
use crate::place::Place;
use crate::server::{busy_place, token};

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

/// The duration of a stream of events is fixed, so that it ends; everything else about it is generated.
const ENDING: &str = "[[operations]]\ninclude-path = \"/v1/events\"\nparameters = { seconds = 0 }\n";

/// Names that exist, so that generated requests get beyond a 404.
const NAMED: &str = "[parameters]\nstream = \"taxi\"\nrun = 1\nname = \"taxi-duration\"\nversion = \"1\"\n\n";

/// Runs Schemathesis with these settings. Returns whether every operation was tested and conforms to the document.
fn made_up(python: &std::ffi::OsStr, place: &Place, serving: &Serving, (name, token): (&str, &str), settings: &str) {
    std::fs::write(place.path("schemathesis.toml"), settings).expect("a file");
    let examples = if std::env::var_os("SAGE_SOAK").is_some() { "200" } else { "10" };
    let output = Command::new(python)
        .args(["-m", "schemathesis.cli", "run", &format!("{}/openapi.json", serving.address())])
        .args(["--header", &format!("Authorization: Bearer {token}"), "--checks", CHECKS, "--max-examples", examples])
        .args(["--phases", "examples,coverage,fuzzing", "--no-color", "--seed", "1"])
        .args(["--generation-database", "none", "--request-timeout", "60", "--suppress-health-check", "all"])
        .current_dir(place.path(""))
        .output()
        .expect("Python runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "as {name}:\n{said}");
    let number = |line: &str| line.trim().split(['/', ' ']).next().and_then(|text| text.parse::<usize>().ok());
    let after = |word: &str| said.lines().find_map(|line| number(line.trim().strip_prefix(word)?));
    let paths = serving.described()["paths"].as_object().expect("paths");
    // The document itself is excluded.
    let others = paths.iter().filter(|(path, _)| *path != "/openapi.json");
    let operations: usize = others.filter_map(|(_, verbs)| Some(verbs.as_object()?.len())).sum();
    let sent = (after("Selected:"), after("Tested:"));
    assert_eq!(sent, (Some(operations), Some(operations)), "as {name}, some were not sent:\n{said}");
    assert!(
        !said.contains("not possible") && !said.contains("Serialization"),
        "as {name}, some were not sent:\n{said}"
    );
}

#[test]
fn made_up_requests_of_every_role_are_answered_as_described() {
    let Some(python) = std::env::var_os("SAGE_CLIENTS_PYTHON") else {
        println!("SAGE_CLIENTS_PYTHON is not set, so requests made up by schemathesis are left out");
        return;
    };
    let (place, _, tokens) = busy_place();
    let mut holders: Vec<(&str, String)> = tokens.into_iter().collect();
    holders.push(("ops", place.good("token create --as ops --role admin").trim().to_owned()));
    holders.push(("nobody", "none".to_owned()));
    let other = token(&place, "zoe");
    holders.push(("zoe", other));
    let flags = ["serve", "--listen", "127.0.0.1:0", "--tick", "1", "--most-changes", "100000"];
    let serving = Serving::from(place.command(&flags));
    for (name, token) in &holders {
        made_up(&python, &place, &serving, (name, token), ENDING);
    }
    // Last, because it withdraws releases and retires blocks.
    for (name, token) in holders.iter().filter(|(name, _)| ["mia", "dan", "ada"].contains(name)).rev() {
        made_up(&python, &place, &serving, (name, token), &format!("{NAMED}{ENDING}"));
    }
    assert_eq!(serving.get("/readyz", "").status, 200);
}
