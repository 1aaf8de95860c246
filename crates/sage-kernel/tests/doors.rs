//! What types forbid: programs that must not compile, each beside a twin that must.
//!
//! After a change of the compiler, `TRYBUILD=overwrite` writes the expected messages anew; read them.

use std::path::PathBuf;

/// A program that passes, and those that differ from it by the forbidden thing.
const DOORS: [(&str, &[&str]); 7] = [
    (
        "session_pass",
        &["session_cloned", "session_printed", "session_iterated", "session_counted", "session_opened_up"],
    ),
    ("grant_pass", &["grant_twice", "grant_made"]),
    ("permit_pass", &["permit_cloned", "permit_twice", "session_without_permit"]),
    ("pairs_pass", &["pairs_pushing"]),
    ("vector_pass", &["vector_pushing"]),
    ("moments_pass", &["moments_cloned", "moments_printed", "moments_read"]),
    ("budget_pass", &["budget_from_float", "budget_made"]),
];

#[test]
fn doors() {
    let cases = trybuild::TestCases::new();
    let path = |name: &str| PathBuf::from(format!("tests/doors/{name}.rs"));
    for (passes, fails) in DOORS {
        cases.pass(path(passes));
        fails.iter().for_each(|name| cases.compile_fail(path(name)));
    }
    // Noise that can be repeated exists only where the feature is on; `permit_pass` is the twin.
    if cfg!(not(feature = "seeded")) {
        cases.compile_fail(path("seeded_named"));
    }
}
