//! `sage audit`: results as text and JSON, and error messages.

use crate::{number, sage, stderr, stdout, words};

#[test]
fn an_audit_of_a_correct_learner_finds_nothing() {
    for learner in ["network", "sampled", "linear"] {
        let line = format!("audit canary --learner {learner} --epsilon 2 --delta 1e-6 --runs 300");
        let output = sage(words(&line));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = stdout(&output);
        assert!(text.contains("300 runs") && text.contains("nothing contradicts it"), "{text}");
        let output = sage(words(&format!("{line} --json")));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        assert_eq!((&report["learner"], &report["violated"]), (&learner.into(), &false.into()), "{report}");
        assert_eq!((number(&report["claimed"], "epsilon"), number(&report, "runs")), (2.0, 300.0));
        assert!(number(&report, "epsilon_lower") >= 0.0 && number(&report, "confidence") == 0.99, "{report}");
    }
}

#[test]
fn one_run_counts_its_guesses() {
    let output = sage(words("audit one-run --epsilon 8 --delta 1e-6 --canaries 100 --json"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!((number(&report, "canaries"), number(&report, "guesses")), (100.0, 20.0));
    assert!(number(&report, "correct") <= 20.0 && number(&report, "epsilon_lower") <= 8.0, "{report}");
}

#[test]
fn invalid_audits_are_refused() {
    for (flags, message) in [
        ("--epsilon 0", "--epsilon must be a number above 0"),
        ("--epsilon 100", "the epsilon of an audit is from 0.01 to 50"),
        ("--epsilon 1 --runs 5", "an audit has from 100 to 10000000 runs"),
        ("--epsilon 1 --runs many", "--runs must be a whole number, got \"many\""),
        ("--epsilon 1 --runs -1", "--runs must be a whole number, got \"-1\""),
    ] {
        let output = sage(words(&format!("audit canary --learner linear --delta 1e-6 {flags}")));
        assert!(stderr(&output).contains(message), "{flags}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(2), "{flags}");
    }
}
