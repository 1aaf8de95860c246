//! Every invalid command line has one message with the flag, the given value and what is allowed.

use crate::{sage, stderr, stdout, words};

/// One row: the flags, and the text on standard error.
const WRONG: &[(&str, &str)] = &[
    (
        "--sampled-gaussian q=0.01,sigma=-1,steps=1000",
        "error: --sampled-gaussian: sigma must be a number above 0, got \"-1\"\n  \
         help  --sampled-gaussian q=0.01,sigma=1,steps=1000\n",
    ),
    (
        "--sampled-gaussian q=0,sigma=1,steps=1",
        "--sampled-gaussian: q must be a number above 0 and at most 1, got \"0\"",
    ),
    ("--sampled-gaussian q=1.1,sigma=1,steps=1", "q must be a number above 0 and at most 1, got \"1.1\""),
    ("--sampled-gaussian q=0.1,sigma=1", "--sampled-gaussian: steps is missing"),
    ("--sampled-gaussian sigma=1,steps=2", "--sampled-gaussian: q is missing"),
    ("--sampled-gaussian q=0.1,sigma=1,step=2", "there is no field \"step\"; did you mean steps?"),
    ("--gaussian sigma=1,sgma=2", "--gaussian: there is no field \"sgma\"; did you mean sigma?"),
    ("--gaussian sigma=1,temperature=2", "there is no field \"temperature\"; its fields are sigma, count"),
    ("--gaussian sigma=1,sigma=2", "--gaussian: sigma is given twice"),
    ("--gaussian sigma=", "--gaussian: sigma must be a number above 0, got \"\""),
    ("--gaussian sigma=0", "--gaussian: sigma must be a number above 0, got \"0\""),
    ("--gaussian sigma=NaN", "--gaussian: sigma must be a number above 0, got \"NaN\""),
    ("--gaussian sigma=inf", "--gaussian: sigma must be a number above 0, got \"inf\""),
    ("--gaussian sigma=1e400", "sigma must be a number above 0 and at most 1e9, got \"1e400\""),
    ("--gaussian sigma=1e-400", "sigma must be a number above 0 and at least 1e-9, got \"1e-400\""),
    ("--gaussian sigma=1,", "--gaussian: \"\" is not a field; write name=value"),
    ("--gaussian 50", "--gaussian: \"50\" is not a field; write name=value"),
    ("--gaussian count=2", "--gaussian: sigma is missing"),
    ("--gaussian sigma=1,count=0", "count must be a whole number from 1 to 4294967295, got \"0\""),
    ("--gaussian sigma=1,count=1.5", "count must be a whole number from 1 to 4294967295, got \"1.5\""),
    ("--gaussian sigma=1,count=4294967296", "count must be a whole number from 1 to 4294967295"),
    ("--gaussian sigma=1,count=-1", "count must be a whole number from 1 to 4294967295, got \"-1\""),
    ("--gaussian sigma=1,count=?", "count must be a whole number from 1 to 4294967295, got \"?\""),
    ("--laplace scale=0.0000001", "--laplace: scale must be a number above 0 and at least 1e-6"),
    ("--laplace sigma=1", "--laplace: there is no field \"sigma\"; its fields are scale, count"),
    ("--pure epsilon=0", "--pure: epsilon must be a number above 0, got \"0\""),
    ("--pure epsilon=1e7", "--pure: epsilon must be a number above 0 and at most 1e6, got \"1e7\""),
    ("--pure epsilon=?", "--pure: epsilon must be a number above 0, got \"?\""),
    ("--black-box epsilon=0.1,delta=1", "--black-box: delta must be a number from 0 up to but below 1, got \"1\""),
    ("--black-box epsilon=0.1", "--black-box: delta is missing"),
    ("--black-box epsilon=-1,delta=0", "--black-box: epsilon must be a number of 0 or more, got \"-1\""),
    ("--black-box epsilon=0,delta=0", "--black-box: epsilon and delta cannot both be 0"),
    ("--zcdp rho=-0.1", "--zcdp: rho must be a number above 0, got \"-0.1\""),
    ("--gaussian sigma=?", "sigma=? asks for noise, and no target is given\n  help  add --target-epsilon 1"),
    ("--gaussian sigma=1 --target-epsilon 1", "--target-epsilon needs one mechanism with its noise left open"),
    ("--gaussian sigma=? --laplace scale=? --target-epsilon 1", "only one mechanism may be left open with ?"),
    ("--gaussian sigma=? --target-epsilon 0", "--target-epsilon must be a number above 0, got \"0\""),
    ("--gaussian sigma=? --target-epsilon=-1", "--target-epsilon must be a number above 0, got \"-1\""),
    ("--gaussian sigma=1 --policy 1", "--policy must be EPSILON,DELTA, got \"1\"\n  help  --policy 1,1e-6"),
    ("--gaussian sigma=1 --policy 0,1e-6", "--policy: epsilon must be a number above 0, got \"0\""),
    ("--gaussian sigma=1 --policy 1,1", "--policy: delta must be a number from 0 up to but below 1, got \"1\""),
    ("--gaussian sigma=1 --at-delta 1e-9", "--at-delta \"1e-9\" has a meaning only with --policy"),
    ("--gaussian sigma=1 --policy 1,1e-6 --at-delta 0", "--at-delta must be a number above 0 and below 1, got \"0\""),
    ("", "name at least one mechanism"),
    ("--gausian sigma=1", "a similar argument exists: '--gaussian'"),
];

#[test]
fn every_wrong_flag_is_named_with_what_is_allowed() {
    for (flags, message) in WRONG {
        let output = sage(words(&format!("account {flags} --delta 1e-6")));
        let printed = stderr(&output);
        assert!(printed.contains(message), "{flags}: expected {message:?}, got\n{printed}");
        assert!(printed.starts_with("error: "), "{flags}: {printed}");
        assert_eq!(output.status.code(), Some(2), "{flags}");
        assert!(output.stdout.is_empty(), "{flags}: data on standard output");
    }
}

#[test]
fn delta_is_required_and_checked() {
    for (flags, message) in [
        ("", "--delta is missing: epsilon is stated at a delta"),
        ("--policy 1,0", "--delta is missing"),
        ("--delta 1", "--delta must be a number above 0 and below 1, got \"1\""),
        ("--delta 0", "--delta must be a number above 0 and below 1, got \"0\""),
        ("--delta -1e-6", "--delta must be a number above 0 and below 1, got \"-1e-6\""),
        ("--delta 1e-19", "--delta must be a number above 0 and below 1, at least 1e-18, got \"1e-19\""),
        ("--delta 0.99999999999999999999", "--delta must be a number above 0 and below 1"),
        ("--delta x", "--delta must be a number above 0 and below 1, got \"x\""),
    ] {
        let output = sage(words(&format!("account --gaussian sigma=1 {flags}")));
        assert!(stderr(&output).contains(message), "{flags}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(2), "{flags}");
    }
}

#[test]
fn a_question_without_an_answer_is_a_failure_and_not_a_usage_error() {
    for (flags, message) in [
        ("--gaussian sigma=? --pure epsilon=2 --target-epsilon 1 --delta 1e-6", "no sigma of at most 1e9 brings"),
        ("--pure epsilon=0.001,count=5000 --policy 1,1e-6", "a filter prices at most 4096 mechanisms"),
    ] {
        let output = sage(words(&format!("account {flags}")));
        assert!(stderr(&output).contains(message), "{flags}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(1), "{flags}");
    }
}

#[test]
fn too_many_mechanisms_are_refused_at_once() {
    let mut arguments = vec!["account".to_owned(), "--delta=1e-6".to_owned()];
    arguments.extend((1..=1025).map(|sigma| format!("--gaussian=sigma={sigma}")));
    let output = sage(&arguments);
    assert!(stderr(&output).contains("too many mechanisms: at most 1024 flags, got 1025"));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn help_has_the_exit_codes_and_guesses_topics() {
    let codes = stdout(&sage(["help", "exit-codes"]));
    for code in ["0", "1", "2", "10", "11", "12", "13", "14", "69", "130"] {
        assert!(codes.lines().any(|line| line.split_whitespace().next() == Some(code)), "{code}\n{codes}");
    }
    assert!(stdout(&sage(["help", "account"])).contains("epsilon_basic"));
    assert!(stdout(&sage(["help"])).contains("sage account --sampled-gaussian"));
    assert_eq!(stdout(&sage(["--version"])), format!("sage {}\n", env!("CARGO_PKG_VERSION")));
    let output = sage(["help", "exit"]);
    assert!(stderr(&output).contains("did you mean: sage help exit-codes"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(sage::<&str>([]).status.code(), Some(2));
    assert_eq!(sage(["accout"]).status.code(), Some(2));
}
