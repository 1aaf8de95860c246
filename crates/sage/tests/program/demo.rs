//! The demonstration: the same every time, quick, and it says that the ceiling held.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{number, sage, stdout};

#[test]
fn the_story_is_the_same_every_time_and_says_that_the_ceiling_held() {
    let started = Instant::now();
    let text = stdout(&sage(["demo"]));
    assert!(started.elapsed() < Duration::from_secs(2), "took {:?}", started.elapsed());
    assert_eq!(text, stdout(&sage(["demo"])));
    for part in
        ["The ceiling held: ", " of 1, delta 1e-6.", "×", "A refusal in full.", "verified", "was granted"]
    {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "colour without a terminal");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn the_numbers_of_the_story_agree_with_each_other() {
    let output = sage(["demo", "--json"]);
    let story: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let (weeks, summary) = (story["weeks"].as_array().expect("weeks"), &story["summary"]);
    for field in ["admitted", "refused", "cancelled"] {
        let sum: u64 = weeks.iter().filter_map(|week| week[field].as_u64()).sum();
        assert_eq!(Some(sum), summary[field].as_u64(), "{field}");
        assert!(sum > 0, "{field}");
    }
    let last = weeks.last().expect("a last week");
    assert_eq!(last["retired"], summary["retired"]);
    assert_eq!(
        last["blocks"].as_array().map(Vec::len),
        summary["blocks"].as_u64().map(|count| count as usize)
    );
    assert!(number(summary, "loss") <= number(&summary["ceiling"], "epsilon"));
    assert!(number(summary, "loss") > 0.9, "a stream this busy comes near its ceiling");
    assert_eq!(summary["ceiling_held"], true);
    assert_eq!(summary["log"]["verified"], true);
    assert!(
        summary["refusal"]["reason"].as_str().is_some_and(|reason| reason.starts_with("not enough left"))
    );
    // A retired block stays retired, and what is spent stays spent.
    for (earlier, later) in weeks.iter().zip(weeks.iter().skip(1)) {
        let pairs = earlier["blocks"].as_array().into_iter().flatten();
        for (before, after) in pairs.zip(later["blocks"].as_array().into_iter().flatten()) {
            assert!(before["retired"] != true || after["retired"] == true);
            assert!(number(before, "spent_share") <= number(after, "spent_share"));
        }
    }
}

#[test]
fn a_reader_who_leaves_early_is_no_failure() {
    for arguments in [&["demo"][..], &["demo", "--json"], &["help"], &["help", "account"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sage"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        drop(child.stdout.take());
        let mut told = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut told).expect("text");
        let status = child.wait().expect("it ends");
        assert!(told.is_empty() && status.code() == Some(0), "{arguments:?}: {status:?} {told}");
    }
}
