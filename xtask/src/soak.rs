//! `cargo xtask soak`: the kernel's promises at full size.
//!
//! The tests are the same as in `check`. Those that can run longer read `SAGE_SOAK`: unset they take
//! their CI size, and with `SAGE_SOAK=1` the size the promise names.

use crate::workspace::{self, Failure};

pub(crate) fn run(test: Option<&str>) -> Result<(), Failure> {
    let mut cargo = workspace::cargo(&["test", "--release", "-p", "sage-kernel"]);
    cargo.args(["--features", "seeded"]).env("SAGE_SOAK", "1");
    if let Some(test) = test {
        cargo.args(["--", test]);
    }
    workspace::run(&mut cargo)
}
