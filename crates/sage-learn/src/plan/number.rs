//! Checks and searches shared by the planning formulas.

use libm::{exp, log1p};
use sage_kernel::accountant::{AccountantError, Certified};

/// `ln sqrt(2 pi)`.
pub(super) const LOG_SQRT_TWO_PI: f64 = 0.918_938_533_204_672_8;

fn check(holds: bool, name: &'static str) -> Certified<()> {
    if holds { Ok(()) } else { Err(AccountantError::Parameter(name)) }
}

/// Finite and above zero.
pub(super) fn positive(value: f64, name: &'static str) -> Certified<()> {
    check(value.is_finite() && value > 0.0, name)
}

/// Finite and not below zero.
pub(super) fn not_negative(value: f64, name: &'static str) -> Certified<()> {
    check(value.is_finite() && value >= 0.0, name)
}

/// Strictly between zero and one.
pub(super) fn probability(value: f64, name: &'static str) -> Certified<()> {
    check(value > 0.0 && value < 1.0, name)
}

/// Moves a cost up by a relative `slack` and at least one smallest normal; a NaN becomes infinity.
pub(super) fn raise(cost: f64, slack: f64) -> f64 {
    if cost.is_nan() {
        return f64::INFINITY;
    }
    cost.max(0.0) * (1.0 + slack) + f64::MIN_POSITIVE
}

/// `ln(1 + x)` given `ln x`.
pub(super) fn log_one_plus_exp(log_value: f64) -> f64 {
    if log_value < 0.0 { log1p(exp(log_value)) } else { log_value + log1p(exp(-log_value)) }
}
