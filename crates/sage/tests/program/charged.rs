//! Failures after a charge: the charge stands, the response says so, and nothing is repeated automatically.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::http::Serving;
use crate::server::token;
use crate::workdir::Workdir;

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.flat_map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] }).collect()
}

/// What the most spent block of the stream has lost.
fn spent(serving: &Serving, token: &str) -> String {
    serving.good("GET", "/v1/streams/taxi", token, "").to_string()
}

/// Regression: it was a 503 with `Retry-After`, and clients that followed it were charged three times.
#[test]
fn a_query_that_fails_after_its_charge_is_not_repeated() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let mia = token(&workdir, "mia");
    // The files of every block are missing, which is noticed only when they are read.
    for file in files(&workdir.path("sage-data/blocks/taxi")) {
        std::fs::write(file, "not what was written").expect("changed");
    }
    let serving = Serving::start(&workdir);
    let request = json!({"sql": "SELECT count(*)", "epsilon": "0.05", "last": 2}).to_string();
    let authorization = format!("Bearer {mia}");
    let headers = [("Authorization", authorization.as_str()), ("Idempotency-Key", "once")];
    let failed = serving.ask("POST", "/v1/streams/taxi/query", &headers, request.as_bytes());
    assert_eq!((failed.status, failed.header("retry-after")), (409, None), "{} {}", failed.head, failed.body);
    let problem = failed.json();
    assert_eq!(problem["type"], "urn:sage:charged-but-failed", "{problem}");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("the charge stands") && detail.contains("Do not repeat"), "{detail}");
    // Repeated with the same key, the response is the same and nothing more is charged.
    let once = spent(&serving, &mia);
    let again = serving.ask("POST", "/v1/streams/taxi/query", &headers, request.as_bytes());
    assert_eq!((again.status, again.json()["type"].clone()), (409, problem["type"].clone()), "{}", again.body);
    assert_eq!(again.header("retry-after"), None);
    assert_eq!(spent(&serving, &mia), once);
    assert_eq!(serving.get("/readyz", "").status, 200, "a block that cannot be read stops nothing else");
    let address = serving.address();
    let mut command = workdir.command(&["query", "taxi", "SELECT count(*)", "--epsilon", "0.05", "--last", "2"]);
    let output = command.args(["--server", &address]).env("SAGE_TOKEN", &mia).output().expect("it runs");
    assert_eq!(output.status.code(), Some(15), "{}", String::from_utf8_lossy(&output.stderr));
    drop(serving);
    workdir.fails("query taxi 'SELECT count(*)' --epsilon 0.05 --last 2 --as mia", 15, "the charge stands");
}

/// Regression: a block that was named twice was charged and then refused by the reader: charged without a result.
#[test]
fn a_block_that_is_named_twice_is_one_block() {
    let (workdir, _) = Workdir::with_rides("12_000");
    let mia = token(&workdir, "mia");
    let serving = Serving::start(&workdir);
    let blocks = serving.good("GET", "/v1/streams/taxi/blocks", &mia, "");
    let block = &blocks["blocks"][0]["block"];
    let request = |key: &str, blocks: serde_json::Value| {
        let body = json!({"sql": "SELECT count(*)", "epsilon": "0.05", "blocks": blocks}).to_string();
        let authorization = format!("Bearer {mia}");
        let headers = [("Authorization", authorization.as_str()), ("Idempotency-Key", key)];
        let reply = serving.ask("POST", "/v1/streams/taxi/query", &headers, body.as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    };
    let twice = request("one", json!([block, block, block]));
    let lost = |number: usize| {
        let blocks = serving.good("GET", "/v1/streams/taxi/blocks", &mia, "");
        blocks["blocks"][number]["train"]["epsilon_spent"].clone()
    };
    let paid = lost(0);
    // With the same key it is the same query, however often the block is named.
    assert_eq!(request("one", json!([block]))["charge"], twice["charge"]);
    assert_eq!(lost(0), paid);
    let other = &blocks["blocks"][1]["block"];
    request("two", json!([other]));
    assert_eq!(lost(1), paid, "a block that is named three times pays what one pays that is named once");
}
