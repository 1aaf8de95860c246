//! All randomness of Sage: its sources, and the distributions drawn from them.
//!
//! There are two sources, which cannot be confused: [`SecureNoise`], keyed by the operating system, and
//! `SeededNoise`, compiled only for tests and experiments. Every draw takes a [`NoiseSource`],
//! a sealed trait that only those two implement.
//!
//! * [`DiscreteLaplace`] and [`DiscreteGaussian`] are exact: no decision uses a float.
//! * [`RoundedGaussian`] is the fast noise of vector releases. Its distance from the ideal distribution is less
//!   than 2^-100 per draw, and [`RoundedGaussian::DEVIATION_PER_DRAW`] is charged for it.
//! * [`poisson_mask`] samples rows for a step of DP-SGD.
//!
//! The arguments are in `proofs/randomness.md`, `proofs/discrete_laplace.md`,
//! `proofs/discrete_gaussian.md`, `proofs/rounded_gaussian.md` and `proofs/poisson.md`.
//!
//! This module must never use a floating-point number in a draw, fall back to a weaker source,
//! return a draw after its source failed, or read a row. The running time of samplers varies: an observer who can
//! time a single draw learns something about its magnitude (`proofs/randomness.md`, section 5).

use crate::message::display;

mod exact;
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

/// The reason why no noise was drawn. After any of these errors nothing may be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoiseError {
    /// The operating system returned no randomness, now or earlier in the lifetime of this source.
    EntropyUnavailable,
    /// A parameter is zero, or outside the range its constructor documents.
    ParameterOutOfRange,
}

display!(error NoiseError {
    Self::EntropyUnavailable => "the operating system returned no randomness",
    Self::ParameterOutOfRange => "a noise parameter is outside its documented range",
});
