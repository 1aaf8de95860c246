//! Everything random in Sage: where the bits come from, and the laws drawn with them.
//!
//! Two sources exist and cannot be confused: [`SecureNoise`], keyed by the operating system, and
//! `SeededNoise`, compiled for tests and experiments alone. Every draw takes a [`NoiseSource`],
//! a sealed trait that only those two implement.
//!
//! * [`DiscreteLaplace`] and [`DiscreteGaussian`] are exact: no float takes part in a decision.
//! * [`RoundedGaussian`] is the fast noise of vector releases; it misses the ideal law by less
//!   than 2^-100 a draw, and [`RoundedGaussian::DEVIATION_PER_DRAW`] says so to the price.
//! * [`poisson_mask`] selects rows for a step of DP-SGD.
//!
//! The arguments are in `proofs/randomness.md`, `proofs/discrete_laplace.md`,
//! `proofs/discrete_gaussian.md`, `proofs/rounded_gaussian.md` and `proofs/poisson.md`.
//!
//! This module must never let a floating-point number into a draw, fall back on a weaker source,
//! return a draw after its source failed, or see a row. Samplers take variable time: whoever can
//! measure a single draw learns something of its size (`proofs/randomness.md`, section 5).

use crate::message::says;

mod exact;
mod fixed;
mod gaussian;
mod laplace;
mod poisson;
mod rounded;
mod rounded_table;
mod source;

#[cfg(any(test, feature = "seeded"))]
mod seeded;
#[cfg(test)]
mod tests;

pub use exact::uniform_below;
pub use gaussian::DiscreteGaussian;
pub use laplace::DiscreteLaplace;
pub use poisson::poisson_mask;
pub use rounded::RoundedGaussian;
#[cfg(any(test, feature = "seeded"))]
pub use seeded::SeededNoise;
pub use source::{NoiseSource, SecureNoise};

/// Why no noise was drawn. After any of these nothing may be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoiseError {
    /// The operating system gave no randomness, now or earlier in the life of this source.
    EntropyUnavailable,
    /// A parameter is zero, or outside the range its constructor documents.
    ParameterOutOfRange,
}

says!(error NoiseError {
    Self::EntropyUnavailable => "the operating system gave no randomness",
    Self::ParameterOutOfRange => "a noise parameter is outside its documented range",
});
