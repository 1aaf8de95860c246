//! Validators: tests on noisy sums of whether a model meets its target.
//!
//! A test reads held-out rows through the kernel, gets a few noisy sums and decides *accept*, *reject* or *retry*. A
//! wrong accept, or a wrong reject, has at most the probability given to the test, noise included, for every number
//! and every distribution of rows: `proofs/validate.md`.
//!
//! - [`Risk`], [`Confidence`], [`Risks`]: how often a test may be wrong, over attempts and metrics;
//! - [`LossCheck`], [`AccuracyCheck`], [`AucCheck`], [`SumCheck`], [`ComparisonCheck`]: on the test lane, accept or retry;
//! - [`LeastLossCheck`], [`BestAnswersCheck`]: on the train lane, whether any model of a class could meet the target;
//! - [`LabelSums`]: what the best constant prediction reaches;
//! - [`decide`]: the decision functions on released numbers.
//!
//! All decisions are functions of released numbers, so they cost nothing and may be published. Nothing here may
//! store a row or an exact count. NaN or a value out of range results in *retry*.

mod accuracy;
mod best_answers;
mod beta;
mod check;
mod comparison;
mod constant;
pub mod decide;
mod help;
mod least_loss;
mod loss;
mod margin;
mod ranking;
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
pub use constant::{LabelLimits, LabelSums};
pub use least_loss::LeastLossCheck;
pub use loss::{Bound, LossCheck};
pub use margin::{Margin, Noise};
pub use ranking::{AucCheck, BinMargin, ScoreCounts};
pub use risk::{Confidence, Rejection, Risk, RiskDivisors, Risks};
pub use sum::SumCheck;
pub use target::{AccuracyTarget, AucTarget, ComparisonTarget, LossTarget, OutOfRange, PrecisionTarget};
pub use verdict::{Decision, Uncertainty, Verdict};
