//! Programs that the types must reject, each next to a variant that must compile.
//!
//! After a change of the compiler, `TRYBUILD=overwrite` rewrites the expected messages; read the diff.

use std::path::PathBuf;

/// A program that compiles, and the programs that differ from it only by what is forbidden.
const PROGRAMS: [(&str, &[&str]); 7] = [
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
fn forbidden_programs_do_not_compile() {
    let cases = trybuild::TestCases::new();
    let path = |name: &str| PathBuf::from(format!("tests/compile_fail/{name}.rs"));
    for (passes, fails) in PROGRAMS {
        cases.pass(path(passes));
        fails.iter().for_each(|name| cases.compile_fail(path(name)));
    }
    // Seeded noise exists only with the feature; `permit_pass` is the variant that compiles.
    if cfg!(not(feature = "seeded")) {
        cases.compile_fail(path("seeded_named"));
    }
}
