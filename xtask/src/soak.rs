//! `cargo xtask soak`: the kernel's promises at full size.
//!
//! The tests are the same as in `check`. Those that can run longer read `SAGE_SOAK`: unset they take
//! their CI size, and with `SAGE_SOAK=1` the size the promise names.

use std::process::Command;

use crate::workspace::{self, Failure};

/// Runs all tests of the kernel, or those whose name contains `test`.
pub(crate) fn run(test: Option<&str>) -> Result<(), Failure> {
    if let Some(test) = test {
        exists(test)?;
    }
    workspace::run(cargo_test().args(test).env("SAGE_SOAK", "1"))
}

/// A name that selects nothing would soak nothing and be green.
fn exists(test: &str) -> Result<(), Failure> {
    let listing = workspace::output(cargo_test().args([test, "--list"]))?;
    let found = listing.lines().any(|line| line.ends_with(": test"));
    found.then_some(()).ok_or_else(|| format!("soak: no test of the kernel is named `{test}`"))
}

fn cargo_test() -> Command {
    let kernel = ["--release", "-p", "sage-kernel", "--features", "seeded", "--"];
    workspace::cargo(&[&["test"], &kernel[..]].concat())
}
