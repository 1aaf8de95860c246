//! Validators: tests on noisy sums of whether a model meets its target.
//!
//! A test reads rows it was not trained on through the kernel, gets a few noisy sums and says *accept*,
//! *reject* or *retry*. A wrong accept, or a wrong reject, happens with at most the probability that was given
//! to the test, noise included, for every number of rows and every distribution of them: `proofs/validate.md`.
//!
//! - [`Risk`], [`Confidence`], [`Risks`]: how often a test may be wrong, over attempts and metrics;
//! - [`LossCheck`], [`AccuracyCheck`], [`SumCheck`], [`ComparisonCheck`]: on the test lane, accept or retry;
//! - [`LeastLossCheck`], [`BestAnswersCheck`]: on the train lane, whether any model of a class could meet the target;
//! - [`decide`]: the decisions alone, from numbers that were released before.
//!
//! All decisions are functions of released numbers, so they cost nothing and may be shown. Nothing here may
//! hold a row or an exact count, and NaN or a value out of range ends in *retry*.

mod accuracy;
mod best_answers;
mod beta;
mod check;
mod comparison;
pub mod decide;
mod help;
mod least_loss;
mod loss;
mod margin;
mod risk;
mod sum;
mod target;
mod verdict;

pub use crate::estimate::Estimate;
pub use accuracy::AccuracyCheck;
pub use best_answers::BestAnswersCheck;
pub use beta::{clopper_pearson, incomplete_beta};
pub use check::costs;
pub use comparison::ComparisonCheck;
pub use least_loss::LeastLossCheck;
pub use loss::{Bound, LossCheck};
pub use margin::{Margin, Noise};
pub use risk::{Confidence, Rejection, Risk, Risks};
pub use sum::SumCheck;
pub use target::{AccuracyTarget, ComparisonTarget, LossTarget, OutOfRange, PrecisionTarget};
pub use verdict::{Decision, Verdict};
