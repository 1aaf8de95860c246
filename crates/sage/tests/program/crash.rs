//! A run that crashes the process is not retried for ever: after three crashes in a row it ends with the reason.

use std::process::Command;

use serde_json::json;

use crate::http::Serving;
use crate::server::{pipeline, token};
use crate::workdir::Workdir;

/// A pipeline whose attempt takes long enough to be interrupted.
fn long(workdir: &Workdir) -> String {
    let network = "kind = \"mlp\"\nlayers = [64]\nbatch = 512\nepochs = 3000\nrows = 40000";
    let table = "  { group_mean = \"3600 * distance / duration\", by = \"extract(hour from pickup)\", name = \
                 \"usual_speed\", keys = 24, bounds = [0, 60] },\n";
    workdir.variant("examples/duration.toml", "long.toml", &[("kind = \"ridge\"", network), (table, "")]);
    std::fs::read_to_string(workdir.path("long.toml")).expect("a file").replace("\"taxi-duration\"", "\"long\"")
}

/// Ends the process like a stack overflow.
fn abort(mut serving: Serving) {
    let ended = Command::new("kill").args(["-ABRT", &serving.child.id().to_string()]).status();
    assert!(ended.is_ok_and(|status| status.success()));
    assert!(!serving.child.wait().expect("an end").success());
}

#[test]
fn a_run_whose_attempt_aborts_the_process_is_quarantined() {
    let (workdir, _) = Workdir::with_rides("150_000");
    let mia = token(&workdir, "mia");
    let mut serving = Serving::start(&workdir);
    serving.good("POST", "/v1/runs", &mia, &long(&workdir));
    for _ in 0..3 {
        serving.wait_for("/v1/runs/1", &mia, |run| run["status"] == "running");
        // The attempt is in progress once the file `working` records it.
        let working = workdir.path("sage-data/working");
        crate::wait_until("no attempt is in progress", || {
            std::fs::read_to_string(&working).is_ok_and(|text| text.contains("1 attempt"))
        });
        abort(serving);
        serving = Serving::start(&workdir);
    }
    let run = serving.wait_for("/v1/runs/1", &mia, |run| run["over"] == true);
    assert_eq!(run["status"], "crashed", "{run}");
    assert!(run["why"].as_str().is_some_and(|why| why.contains("crashed three times in a row")), "{run}");
    assert!(run["help"].as_str().is_some_and(|help| help.contains("sage plan")), "{run}");
    let lost = run["attempts"].as_array().expect("attempts").iter().filter(|one| one["verdict"] == "lost").count();
    assert_eq!(lost, 3, "{run}");
    // The server continues with other runs.
    serving.good("POST", "/v1/runs", &mia, &pipeline(&workdir));
    let other = serving.wait_for("/v1/runs/2", &mia, |run| run["over"] == true);
    assert_ne!(other["status"], "crashed", "{other}");
    drop(serving);
    workdir.good("doctor");
}

/// Regression: an expression that overflowed the stack during planning crashed the worker at every start, because
/// nothing was charged and so no attempt counted.
#[test]
fn a_run_that_aborts_the_process_while_it_is_planned_is_quarantined() {
    let (workdir, _) = Workdir::with_rides("60_000");
    workdir.variant("examples/duration.toml", "later.toml", &[("\"12h\"", "\"60d\"")]);
    workdir.good("submit later.toml --as mia");
    // The state after a process has aborted during planning for the third time.
    std::fs::write(workdir.path("sage-data/working"), "1 planning 2 0\n").expect("a file");
    let run = workdir.json("explain 1");
    assert_eq!((&run["status"], &run["attempts"]), (&json!("crashed"), &json!([])), "{run}");
    // One or two crashes do not end the run.
    workdir.good("submit later.toml --as mia");
    std::fs::write(workdir.path("sage-data/working"), "2 planning 1 0\n").expect("a file");
    workdir.good("work");
    assert_eq!(workdir.json("explain 2")["status"], "waiting");
    let left = std::fs::read_to_string(workdir.path("sage-data/working")).expect("a file");
    assert_eq!(left.trim(), "", "a run that was planned well has no crashes");
    workdir.good("doctor");
}
