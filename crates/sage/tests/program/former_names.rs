//! Directories with the words of earlier releases (`doors`, `declared`, `tick`, `door`, `place`, `asked`) stay usable.
//!
//! The directory below `golden/` was written by the last release that used them: a stream whose policy two officers
//! changed, a released model, a query and a proposal that waits for the second officer.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::http::Serving;
use crate::keeping::{audited, copy};
use crate::server::token;
use crate::workdir::{Workdir, project};

fn golden() -> PathBuf {
    project().join("crates/sage/tests/golden/directory-format-1-former-names")
}

/// The only release of a directory.
fn release(directory: &Path) -> PathBuf {
    let folders = directory.join("releases").read_dir().expect("releases");
    let mut folders = folders.map(|entry| entry.expect("an entry").path());
    folders.find(|path| path.join("receipt.json").exists()).expect("a release")
}

fn with_former_names() -> Workdir {
    let workdir = Workdir::new();
    copy(&golden(), &workdir.path("sage-data"));
    workdir
}

/// Without the former words the other tests would show nothing.
#[test]
fn the_golden_directory_has_the_former_names() {
    let text = |path: PathBuf| String::from_utf8_lossy(&std::fs::read(path).expect("a file")).into_owned();
    let log = text(golden().join("log.db"));
    for part in ["doors = [\\\"enforced\\\", \\\"declared\\\"]", "tick = \\\"5m\\\"", "\"asked\":{"] {
        assert!(log.contains(part), "{part} is not in the log");
    }
    assert!(text(release(&golden()).join("receipt.json")).contains("\"door\": \"enforced\""));
    assert!(text(release(&golden()).join("README.md")).contains("| door | enforced |"));
    assert!(text(release(&golden()).join("graph.json")).contains("\"place\": {"));
}

#[test]
fn a_directory_with_former_names_can_be_used() {
    let workdir = with_former_names();
    assert_eq!(workdir.json("audit verify")["sound"], true);
    assert!(workdir.good("doctor").contains("nothing is wrong"));
    // The recorded parameters of the query are compared with those of the request.
    let query = "query trips 'SELECT count(*)' --all --key first --as mia";
    assert_eq!(workdir.json(&format!("{query} --epsilon 1"))["answered_before"], true);
    workdir.fails(&format!("{query} --epsilon 2"), 2, "was used for another query");
    // The graph of the released model.
    std::fs::write(workdir.path("rows.csv"), "x,kind\n0.25,bus\n0.75,tram\n").expect("a file");
    assert_eq!(workdir.good("predict line rows.csv").lines().count(), 2);
    // The proposal is approved by the digest of the former text, and recorded with the present words.
    let proposal = workdir.json("stream show trips")["policy_proposal"].clone();
    let digest = proposal["digest"].as_str().expect("a digest");
    assert!(workdir.good(&format!("stream approve trips --digest {digest} --as bob")).contains("in force"));
    let text = std::fs::read(workdir.path("sage-data/log.db")).expect("a log");
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("access_modes = [\\\"enforced\\\", \\\"attested\\\"]"));
    assert!(text.contains("disclosure_interval = \\\"5m\\\""));
    // What was recorded is read and verified again.
    assert_eq!(workdir.json("audit verify")["sound"], true);
    let (agreed, said) = audited(&workdir.path("sage-data"));
    assert!(agreed, "{said}");
}

/// The present and the former words describe the same stream.
#[test]
fn a_stream_file_with_either_names_changes_nothing() {
    let workdir = with_former_names();
    workdir.good("audit export bundle");
    let present = std::fs::read_to_string(workdir.path("bundle/streams/trips.toml")).expect("a stream file");
    let renamed = [
        ("access_modes = [\"enforced\", \"attested\"]", "doors = [\"enforced\", \"declared\"]"),
        ("disclosure_interval = \"5m\"", "tick = \"5m\""),
    ];
    let former = renamed.iter().fold(present.clone(), |text, (now, then)| {
        assert!(text.contains(now), "{now} is not in\n{text}");
        text.replace(now, then)
    });
    for text in [&present, &former] {
        std::fs::write(workdir.path("trips.toml"), text).expect("a file");
        // A file that is in force withdraws the waiting proposal; after that nothing changes.
        workdir.good("stream change trips.toml --as ada");
        assert_eq!(workdir.good("stream change trips.toml --as ada"), "nothing changes\n");
    }
}

#[test]
fn a_receipt_with_the_former_name_is_shown_to_clients() {
    let workdir = with_former_names();
    let mia = token(&workdir, "mia");
    let serving = Serving::start(&workdir);
    let path = "/api/2.0/mlflow/model-versions/get?name=line&version=1";
    let tags = serving.good("GET", path, &mia, "")["model_version"]["tags"].clone();
    let expected = json!({"key": "sage.access_mode", "value": "enforced"});
    assert!(tags.as_array().expect("tags").contains(&expected), "{tags}");
    let page = serving.get("/releases/line/1", &mia);
    assert!(page.status == 200 && page.body.contains("Access mode"), "{}: {}", page.status, page.body);
}
