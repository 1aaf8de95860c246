//! `cargo xtask soak`: the promises of kernel, validators and engine at full size.
//!
//! The tests are the same as in `check`. Those that can run longer read `SAGE_SOAK`: unset they take
//! their CI size, and with `SAGE_SOAK=1` the size the promise names.

use std::process::Command;

use crate::workspace::{self, Failure};

/// The crates with promises that can be tried for longer, and how they are built for that.
const CRATES: [&[&str]; 3] =
    [&["-p", "sage-kernel", "--features", "seeded"], &["-p", "sage-learn"], &["-p", "sage-engine"]];

/// Runs all tests, or those whose name contains `test`.
pub(crate) fn run(test: Option<&str>) -> Result<(), Failure> {
    let mut found = false;
    for options in CRATES {
        if exists(options, test)? {
            found = true;
            workspace::run(cargo_test(options).args(test).env("SAGE_SOAK", "1"))?;
        }
    }
    // A name that selects nothing would soak nothing and be green.
    found.then_some(()).ok_or_else(|| format!("soak: no test is named `{}`", test.unwrap_or_default()))
}

fn exists(options: &[&str], test: Option<&str>) -> Result<bool, Failure> {
    let Some(test) = test else { return Ok(true) };
    let listing = workspace::output(cargo_test(options).args([test, "--list"]))?;
    Ok(listing.lines().any(|line| line.ends_with(": test")))
}

fn cargo_test(options: &[&str]) -> Command {
    workspace::cargo(&[&["test", "--release"], options, &["--"]].concat())
}
