//! How often a validator may be wrong, and how that is spent over attempts and metrics.
//!
//! A pipeline that is tried again tests again, so the chances of all its attempts must add up to what was
//! promised. A risk is made once, before any row is read, and only ever gets smaller.

use std::num::NonZeroU32;

use super::target::OutOfRange;

/// The probability with which one test may be wrong.
///
/// # Guarantee
/// Strictly between zero and one.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Risk(f64);

/// Below this no data would ever be enough, and logarithms would run out of numbers.
const LEAST: f64 = 1e-200;

impl Risk {
    /// This probability.
    ///
    /// # Errors
    /// Unless it is from 1e-200 to below one.
    pub fn new(chance: f64) -> Result<Self, OutOfRange> {
        let fine = (LEAST..1.0).contains(&chance);
        fine.then_some(Self(chance)).ok_or(OutOfRange("a risk is at least 1e-200 and below one"))
    }

    /// The probability.
    pub const fn chance(self) -> f64 {
        self.0
    }

    /// What attempt number i may spend: 1 / (i (i + 1)) of it. Over all attempts that adds up to all of it.
    pub fn at_attempt(self, attempt: NonZeroU32) -> Self {
        let attempt = f64::from(attempt.get());
        Self(self.0 / (attempt * (attempt + 1.0)))
    }

    /// An equal share for each of several tests of which one wrong answer is too many.
    pub fn split(self, tests: NonZeroU32) -> Self {
        Self(self.0 / f64::from(tests.get()))
    }
}

/// How sure the verdicts of a pipeline shall be.
///
/// # Guarantee
/// Strictly between zero and one, and a [`Risk`] is left.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Confidence(f64);

/// Whether a pipeline can be rejected, and by how many metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Nothing rejects: the whole risk goes to accepting.
    Never,
    /// Each of this many metrics may reject, and one is enough.
    ByAny(NonZeroU32),
}

/// The risks of one pipeline or one of its attempts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Risks {
    /// Of accepting a model that misses its target. Where several metrics must all pass, each may have it
    /// whole: the model is accepted wrongly only if a metric it misses passes.
    pub accept: Risk,
    /// Of rejecting a class that holds a model which meets its target, for each metric that may reject.
    pub reject: Option<Risk>,
}

impl Confidence {
    /// This much.
    ///
    /// # Errors
    /// Unless it is strictly between zero and one.
    pub fn new(confidence: f64) -> Result<Self, OutOfRange> {
        let fine = confidence > 0.0 && confidence < 1.0;
        fine.then_some(Self(confidence)).ok_or(OutOfRange("a confidence is strictly between zero and one"))
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// The risks that make up what is not confidence: one half for each side, or all of it for accepting if
    /// nothing can reject. Both errors can be possible at once, so neither side may have the other's half.
    pub fn risks(self, rejection: Rejection) -> Risks {
        let all = 1.0 - self.0;
        match rejection {
            Rejection::Never => Risks { accept: Risk(all), reject: None },
            Rejection::ByAny(metrics) => {
                let half = Risk(0.5 * all);
                Risks { accept: half, reject: Some(half.split(metrics)) }
            }
        }
    }
}

impl Risks {
    /// What attempt number i may spend of both.
    pub fn at_attempt(self, attempt: NonZeroU32) -> Self {
        let reject = self.reject.map(|risk| risk.at_attempt(attempt));
        Self { accept: self.accept.at_attempt(attempt), reject }
    }
}
