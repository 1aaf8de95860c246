//! The validators: reference numbers, error rates, invariances, and sessions from charge to verdict.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that cannot get its number has failed; tables are shared by plain pub"
)]

mod chance;
mod decisions;
mod invariants;
mod planted;
mod ranking;
mod session;
mod simulate;
mod units;
mod vectors;

/// `found` is `exact` to within `slack`, relatively.
fn check_close(found: f64, exact: f64, slack: f64, what: &str) {
    assert!((found - exact).abs() <= slack * exact.abs(), "{what}: {found}, not {exact}");
}
