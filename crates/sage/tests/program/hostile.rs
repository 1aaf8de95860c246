//! For any arguments the program prints a result or an error. It never panics and never hangs.

use crate::{sage, stderr};

/// Parts of hostile values.
const PIECES: &[&str] = &[
    "q",
    "sigma",
    "scale",
    "steps",
    "count",
    "epsilon",
    "delta",
    "rho",
    "=",
    "=",
    "=",
    ",",
    ",",
    "?",
    "-",
    "+",
    ".",
    "e",
    "E",
    "1",
    "0",
    "9",
    "0.5",
    "1e-9",
    "1e400",
    "-1e400",
    "1e-400",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "infinity",
    "18446744073709551616",
    "4294967295",
    "4294967296",
    "0x10",
    "1_000",
    " ",
    "\t",
    "\n",
    "\u{1b}[31m",
    "\u{202e}",
    "\u{0}x",
    "٣",
    "½",
    "é",
    "💥",
    "'",
    "\"",
    "\\",
    "%s",
    "--json",
    "--",
    "==",
    ",,",
    "1e",
    "e1",
    "1,1",
    "1e99999999999999999999",
    "0.0000000000000000000000000000000000000000000000000000000000000000000001",
];

const FLAGS: &[&str] = &[
    "--sampled-gaussian",
    "--gaussian",
    "--laplace",
    "--pure",
    "--black-box",
    "--zcdp",
    "--delta",
    "--target-epsilon",
    "--policy",
    "--at-delta",
];

/// A fixed pseudo-random sequence. The seed is the number of the case, so that a failure can be repeated.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

fn check(arguments: &[String], name: &str) {
    let output = sage(arguments);
    let message = stderr(&output);
    let code = output.status.code();
    assert!(matches!(code, Some(0..=2)), "{name}: {arguments:?} ended with {code:?}\n{message}");
    assert!(!message.contains("panicked"), "{name}: {arguments:?}\n{message}");
    assert_eq!(code == Some(0), message.is_empty(), "{name}: {arguments:?}\n{message}");
    assert!(!message.contains('\u{1b}'), "{name}: an escape reached the terminal");
}

#[test]
fn random_texts_never_make_it_panic() {
    for case in 0..400_u64 {
        let mut state = case;
        let mut arguments = vec!["account".to_owned()];
        for _ in 0..1 + next(&mut state) % 3 {
            let flag = FLAGS[next(&mut state) % FLAGS.len()];
            let length = next(&mut state) % 9;
            let value: String = (0..length).map(|_| PIECES[next(&mut state) % PIECES.len()]).collect();
            // An argument of a process cannot contain a zero byte.
            arguments.push(format!("{flag}={}", value.replace('\u{0}', "")));
        }
        if !arguments.iter().any(|argument| argument.starts_with("--delta")) {
            arguments.push("--delta=1e-6".to_owned());
        }
        check(&arguments, &format!("case {case}"));
    }
}

/// Every number at every edge of its range, alone and as the surroundings of an open one.
#[test]
fn the_edges_of_every_range_have_an_answer() {
    let sigmas = ["1e-9", "0.001", "1", "1e9"];
    let counts = ["1", "4294967295"];
    let mut mechanisms = Vec::new();
    for sigma in sigmas {
        for count in counts {
            mechanisms.push(format!("--gaussian=sigma={sigma},count={count}"));
            for q in ["1e-12", "0.3", "1"] {
                mechanisms.push(format!("--sampled-gaussian=q={q},sigma={sigma},steps={count}"));
            }
        }
    }
    for loss in ["1e-12", "1", "1e6"] {
        for count in counts {
            mechanisms.push(format!("--pure=epsilon={loss},count={count}"));
            mechanisms.push(format!("--zcdp=rho={loss},count={count}"));
            mechanisms.push(format!("--black-box=epsilon={loss},delta=0.999999999999999999,count={count}"));
            mechanisms.push(format!("--black-box=epsilon={loss},delta=1e-18,count={count}"));
            mechanisms.push(format!("--laplace=scale={loss},count={count}").replace("1e-12", "1e-6"));
        }
    }
    for mechanism in &mechanisms {
        for delta in ["1e-18", "0.999999999999999999"] {
            let delta = format!("--delta={delta}");
            check(&["account".to_owned(), mechanism.clone(), delta.clone(), "--json".to_owned()], "edge");
        }
    }
    for target in ["1e-12", "1e6"] {
        for open in ["--gaussian=sigma=?", "--sampled-gaussian=q=0.3,sigma=?,steps=9", "--laplace=scale=?"] {
            let rest = [format!("--target-epsilon={target}"), "--delta=1e-6".to_owned(), "--json".to_owned()];
            let arguments: Vec<String> = ["account".to_owned(), open.to_owned()].into_iter().chain(rest).collect();
            check(&arguments, "open edge");
        }
    }
}

#[test]
fn long_values_are_refused_briefly() {
    let long = "9".repeat(60_000);
    for value in [format!("sigma={long}"), long.clone(), format!("{long}=1"), format!("sigma=1,count={long}")] {
        let output = sage(["account".to_owned(), format!("--gaussian={value}"), "--delta=1e-6".to_owned()]);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stderr.len() < 400, "{}", stderr(&output));
    }
}

#[cfg(unix)]
#[test]
fn bytes_that_are_no_text_are_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let output = sage([OsStr::new("account"), OsStr::new("--gaussian"), OsStr::from_bytes(b"sigma=\xff\xfe")]);
    assert_eq!(output.status.code(), Some(2));
}
