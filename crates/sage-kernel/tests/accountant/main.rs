//! The accountant against reference numbers, and under hostile parameters.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that cannot get its number has failed; tables are shared by plain pub"
)]

mod accuracy;
mod curves;
mod exact;
mod hostile;
mod loss_distributions;
mod rounding;
mod statements;
mod vectors;

/// `found` is not below `exact` and above it by at most `slack`, relatively.
fn check_above(found: f64, exact: f64, slack: f64, what: &str) {
    let rounding = 4.0 * f64::EPSILON * exact.abs();
    assert!(found >= exact - rounding, "{what}: {found} is below {exact}");
    assert!(found <= exact + slack * exact.abs(), "{what}: {found} is far above {exact}");
}

/// `found` is not above `exact` and below it by at most `slack`, relatively.
fn check_below(found: f64, exact: f64, slack: f64, what: &str) {
    let rounding = 4.0 * f64::EPSILON * exact.abs();
    assert!(found <= exact + rounding, "{what}: {found} is above {exact}");
    assert!(found >= exact - slack * exact.abs(), "{what}: {found} is far below {exact}");
}
