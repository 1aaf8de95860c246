//! Range checks of the accountant's parameters, made once at each entry point.
//!
//! A NaN cost compares false with every capacity, and a negative epsilon is a
//! refund. Neither may pass: a parameter that is not provably in range is
//! refused by name.

use crate::message::display;

/// The reason why the accountant returned no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccountantError {
    /// The named parameter is not finite, or outside its range.
    Parameter(&'static str),
    /// No finite bound exists or can be certified for this request.
    Unbounded,
}

display!(error AccountantError {
    Self::Parameter(name) => format!("{name} is not finite or out of range"),
    Self::Unbounded => "no finite bound can be certified",
});

/// A certified number, or the reason why there is none.
pub type Certified<T> = Result<T, AccountantError>;

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

/// A sampling rate: zero and one are allowed.
pub(super) fn rate(value: f64, name: &'static str) -> Certified<()> {
    check((0.0..=1.0).contains(&value), name)
}

/// A Renyi order: finite and above one.
pub(super) fn order(value: f64) -> Certified<()> {
    check(value.is_finite() && value > 1.0, "order")
}

/// Raises a cost by a relative `slack` and at least the smallest normal number.
///
/// Infinity and NaN become infinity: a cost that cannot be computed cannot be
/// paid.
pub(super) fn raise(cost: f64, slack: f64) -> f64 {
    if cost.is_nan() {
        return f64::INFINITY;
    }
    cost.max(0.0) * (1.0 + slack) + f64::MIN_POSITIVE
}

/// The point of `[low, high]` where a unimodal function is smallest.
///
/// Only the tightness of a bound depends on it, never its validity: each caller
/// has a bound that is valid at every point.
pub(super) fn lowest_point(low: f64, high: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low, high);
    for _ in 0..120 {
        let third = (high - low) / 3.0;
        if function(low + third) <= function(high - third) {
            high -= third;
        } else {
            low += third;
        }
    }
    0.5 * (low + high)
}
