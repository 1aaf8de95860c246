//! Forecasts: how likely the next attempt is to be accepted, from what earlier attempts released.
//!
//! Everything here is post-processing of released numbers and public parameters, so it costs no budget. A forecast
//! decides what is tried next and never what is accepted: a wrong one wastes budget, within the bound of the search that
//! uses it.
//!
//! - [`LearningCurve`]: how a mean loss falls with rows and noise, fitted to released estimates with their uncertainty;
//! - [`TestForecast`]: the chance that a test of a mean accepts;
//! - [`MeanForecast`], [`half_width_of_sum`]: the chance that a released mean or count is as precise as its target.

mod curve;
mod precision;
mod test;

pub use curve::{LearningCurve, Observation, Setting};
pub use precision::{MeanForecast, half_width_of_sum};
pub use test::{ReleasedTest, RowsPerBlock, TestForecast, TestSetting};

/// The standard normal distribution function.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}
