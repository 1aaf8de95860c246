//! Failures in the training loop: the message has the cause and the next step, and the exit code the kind.

use std::process::Stdio;

use crate::server::SMALL;
use crate::workdir::Workdir;

#[test]
fn invalid_pipelines_are_refused_before_a_charge() {
    let (workdir, stored) = Workdir::with_rides("60_000");
    let example = "examples/duration.toml";
    workdir.variant(example, "stream.toml", &[("stream = \"taxi\"", "stream = \"tax\"")]);
    workdir.variant(example, "column.toml", &[("column = \"distance\"", "column = \"distence\"")]);
    workdir.variant(example, "key.toml", &[("filter = ", "fliter = ")]);
    workdir.variant(example, "sql.toml", &[("filter = \"distance > 0", "filter = \"distance > random()")]);
    workdir.variant(example, "greedy.toml", &[("[validate]", "[budget]\nepsilon0 = 5\n[validate]")]);
    for command in ["plan", "submit"] {
        for (file, code, said) in [
            ("stream.toml", 14, "there is no stream \"tax\"; create it"),
            ("stream.toml", 14, "did you mean taxi?"),
            ("column.toml", 1, "column.toml: the stream has no column `distence`; did you mean `distance`?"),
            ("key.toml", 1, "did you mean `filter`?"),
            ("sql.toml", 1, "sql.toml: filter"),
            ("greedy.toml", 12, "epsilon0 is more than a block of this stream has"),
            ("none.toml", 2, "none.toml"),
        ] {
            workdir.fails(&format!("{command} {file} --as mia"), code, said);
        }
        workdir.fails(&format!("{command} {example} --as dan"), 13, "\"dan\" is no ml-engineer of stream \"taxi\"");
        workdir.fails(&format!("{command} {example}"), 2, "name one with --as NAME");
    }
    assert_eq!(workdir.json("runs"), serde_json::json!([]));
    assert_eq!(workdir.json("budget taxi")["epsilon_lost"], "0");
    for (line, code, said) in [
        ("explain 9", 14, "there is no run 9; list them with: sage runs"),
        ("cancel 9 --as mia", 14, "there is no run 9"),
        ("runs --stream bus", 14, "there is no stream \"bus\""),
        ("budget bus", 14, "there is no stream \"bus\""),
        ("models show bus", 14, "there is no release \"bus\"; list them with: sage models list"),
        ("explain seven", 2, "invalid value"),
        ("models withdraw taxi-duration --as mia", 2, "--reason"),
    ] {
        workdir.fails(line, code, said);
    }
    assert!(!crate::shows(&workdir.said.borrow(), &stored.to_string()), "the output contains the number of rows");
}

/// A pipeline that needs more blocks than there are is accepted and waits; `--wait` returns exit code 12.
#[test]
fn a_run_without_blocks_to_pay_with_waits() {
    let (workdir, _) = Workdir::with_rides("60_000");
    workdir.variant("examples/duration.toml", "long.toml", &[("min = \"12h\"", "min = \"90d\"")]);
    assert!(workdir.good("plan long.toml --as mia").contains("not yet: it waits until 2160 blocks admit it"));
    let output = workdir.run("submit long.toml --wait --as mia");
    assert_eq!((output.out.as_str(), output.code), ("1\n", Some(12)), "{}", output.err);
    assert!(output.err.contains("waits: it needs 2160 blocks with epsilon "), "{}", output.err);
    let why = workdir.json("explain 1");
    assert_eq!((&why["status"], &why["over"]), (&"waiting".into(), &false.into()), "{why}");
    assert_eq!(why["waits_for"]["blocks"], 2160);
    assert!(workdir.good("explain 1").contains("It waits for 2160 blocks that each admit an attempt of epsilon"));
    assert!(workdir.good("work").contains("0 attempts performed; 1 run waits"));
    workdir.fails("cancel 1 --as dan", 13, "is no ml-engineer");
    assert!(workdir.good("cancel 1 --as mia").contains("what it was charged stays charged"));
    workdir.fails("cancel 1 --as mia", 1, "run 1 has ended");
    assert!(workdir.good("explain 1").contains("It was cancelled."));
}

#[test]
fn a_run_that_gives_up_has_hints() {
    let (workdir, _) = Workdir::with_rides("60_000");
    let changes = [
        ("target = 0.02", "target = 0.000001"),
        ("[validate]", "[adapt]\nstrategy = \"frugal\"\nattempts = 1\n[validate]"),
    ];
    workdir.variant("examples/duration.toml", "hopeless.toml", &changes);
    let output = workdir.run("submit hopeless.toml --wait --as mia");
    assert_eq!(output.code, Some(11), "{}", output.err);
    assert!(output.err.contains("run 1 ended without a verdict: out of attempts"), "{}", output.err);
    let why = workdir.good("explain 1");
    assert!(why.contains("retry") && why.contains("raise attempts in [adapt]"), "{why}");
    workdir.fails("models show taxi-duration", 14, "there is no release");
}

/// Random labels that no model can predict, with so much budget that noise does not decide whether that shows: with a
/// ceiling of one, several runs in a hundred found no certain answer.
fn coins() -> String {
    let second = "\n[[columns]]\nname = \"y\"\ntype = \"number\"\nmin = 0.0\nmax = 1.0\n";
    let stream = SMALL.replace("\"small\"", "\"coins\"").replace("test_share = 0.1", "test_share = 0.2");
    stream.replace("epsilon = \"1.0\"", "epsilon = \"8.0\"") + second
}

/// A pipeline that tries to predict them.
const ORACLE: &str = r#"
[pipeline]
name = "oracle"
stream = "coins"
label = "y"
window = { min = 4 }
features = [{ column = "x", scale = [0, 1] }]
[train]
kind = "ridge"
[validate]
metric = "mse"
target = 0.01
bound = 1.0
reject = true
[budget]
epsilon0 = 4
split = { train = 0.3, reject = 0.7 }
"#;

#[test]
fn an_impossible_target_is_rejected() {
    let workdir = Workdir::new();
    let mut rows = "at,x,y\n".to_owned();
    for row in 0..40_000 {
        let x = f64::from(row * 7919 % 1000) / 1000.0;
        rows += &format!("2026-02-01T{:02}:00:00Z,{x},{}\n", row % 4, row / 4 % 2);
    }
    for (name, text) in [("coins.toml", coins().as_str()), ("oracle.toml", ORACLE), ("coins.csv", rows.as_str())] {
        std::fs::write(workdir.path(name), text).expect("a file");
    }
    workdir.good("stream create coins.toml --as ada");
    workdir.good("ingest coins coins.csv --as dan");
    workdir.good("blocks coins --do seal --before 2027-01-01 --as dan");
    workdir.fails("submit oracle.toml --wait --as mia", 10, "run 1 is rejected: no model of its kind");
    let why = workdir.good("explain 1");
    for said in [
        "reject: ",
        "against a target of mean squared error of at most 0.01",
        "choose other features",
        "moves by at most 16 as one input moves across its scale",
    ] {
        assert!(why.contains(said), "{said}: {why}");
    }
    workdir.fails("models show oracle", 14, "there is no release");
}

/// Regression: with a label that follows its input exactly, and an input that fills a twentieth of its scale, the run
/// was rejected, because the certificate was for a smaller class of lines than the trained one.
#[test]
fn a_steep_line_is_not_rejected() {
    let workdir = Workdir::new();
    let mut rows = "at,x,y\n".to_owned();
    for row in 0..40_000 {
        let y = f64::from(row * 7919 % 1000) / 999.0;
        rows += &format!("2026-02-01T{:02}:00:00Z,{},{y}\n", row % 4, 0.50 + 0.05 * y);
    }
    let steep = ORACLE
        .replace("target = 0.01", "target = 0.05")
        .replace("[budget]", "[adapt]\nstrategy = \"frugal\"\nattempts = 4\n[budget]");
    let steep = steep.replace("label = \"y\"", "label = { sql = \"2 * y - 1\", bounds = [-1, 1] }");
    for (name, text) in [("coins.toml", coins().as_str()), ("steep.toml", &steep), ("coins.csv", rows.as_str())] {
        std::fs::write(workdir.path(name), text).expect("a file");
    }
    workdir.good("stream create coins.toml --as ada");
    workdir.good("ingest coins coins.csv --as dan");
    workdir.good("blocks coins --do seal --before 2027-01-01 --as dan");
    let ended = workdir.run("submit steep.toml --wait --as mia");
    assert_ne!(ended.code, Some(10), "rejected: {}", ended.err);
    let why = workdir.good("explain 1");
    assert!(!why.contains("reject: "), "{why}");
}

/// `sage work --follow` releases the directory between rounds, and stops on a signal.
#[cfg(unix)]
#[test]
fn a_following_worker_stops_on_a_signal() {
    let (workdir, _) = Workdir::with_rides("150_000");
    let mut worker = workdir.command(&["work", "--follow", "--json"]);
    let worker = worker.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a worker");
    assert_eq!(workdir.good("submit examples/duration.toml --as mia"), "1\n");
    crate::wait_until("nobody works on it", || workdir.json("explain 1")["over"] == true);
    let signalled = std::process::Command::new("kill").args(["-INT", &worker.id().to_string()]).status().expect("kill");
    assert!(signalled.success());
    let ended = worker.wait_with_output().expect("an end");
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let tally: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert!(tally["attempts_performed"].as_u64() >= Some(1), "{tally}");
    assert_eq!(workdir.json("explain 1")["status"], "accepted");
}
