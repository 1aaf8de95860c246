//! `cargo xtask soak`: runs the tests of kernel, learners, row expressions, storage, engine and server at full size.
//!
//! The tests are the same as in `check`. Tests that can run longer read `SAGE_SOAK`: if it is unset they use
//! their CI size, and with `SAGE_SOAK=1` the size that the documentation states. Property tests draw new cases
//! in each soak; the seed is printed, and `SAGE_SEED` repeats it.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::workspace::{self, Failure};

/// The crates with tests that can run longer, and their cargo options.
const CRATES: [&[&str]; 8] = [
    &["-p", "sage-kernel", "--features", "seeded"],
    &["-p", "sage-learn"],
    &["-p", "sage-model"],
    &["-p", "sage-sql"],
    &["-p", "sage-store"],
    &["-p", "sage-engine"],
    &["-p", "sage-server"],
    &["-p", "sage"],
];

/// Runs all tests, or those whose name contains `test`.
pub(crate) fn run(test: Option<&str>) -> Result<(), Failure> {
    let mut found = false;
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()).to_string();
    let seed = std::env::var("SAGE_SEED").unwrap_or_else(|_| fresh());
    println!("soak: property tests with SAGE_SEED={seed}");
    for options in CRATES {
        if exists(options, test)? {
            found = true;
            let mut command = cargo_test(options);
            workspace::run(command.args(test).env("SAGE_SOAK", "1").env("PROPTEST_RNG_SEED", &seed))?;
        }
    }
    // A filter that matches no test must not pass silently.
    found.then_some(()).ok_or_else(|| format!("soak: no test matches `{}`", test.unwrap_or_default()))
}

fn exists(options: &[&str], test: Option<&str>) -> Result<bool, Failure> {
    let Some(test) = test else { return Ok(true) };
    let listing = workspace::output(cargo_test(options).args([test, "--list"]))?;
    Ok(listing.lines().any(|line| line.ends_with(": test")))
}

fn cargo_test(options: &[&str]) -> Command {
    workspace::cargo(&[&["test", "--release"], options, &["--"]].concat())
}
