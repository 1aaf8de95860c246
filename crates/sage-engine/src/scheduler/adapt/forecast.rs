//! What a pipeline knows about its next attempt before it is charged.

/// A forecast from released values and public parameters.
///
/// It guides the search of [`Strategy::Informed`](super::Strategy::Informed) and never decides what is accepted.
pub trait Forecast {
    /// The probability that an attempt with this cost on each of this many blocks is accepted, if this divisor of the
    /// rows' risk is left to it.
    fn chance(&self, cost: u64, window: u32, rows_divisor: f64) -> f64;

    /// Whether such an attempt is excluded: its test has too few rows for its noise, or what was released leaves it
    /// hardly a chance. The bound of the search holds if this is right.
    fn is_too_small(&self, _cost: u64, _window: u32, _rows_divisor: f64) -> bool {
        false
    }

    /// Whether no attempt, however large, is likely to be accepted.
    fn is_hopeless(&self) -> bool {
        false
    }

    /// Whether more rows at the same cost make an attempt more likely to be accepted.
    fn rows_help(&self) -> bool {
        true
    }
}
