//! The probability with which a validator may be wrong, and its split over attempts and metrics.
//!
//! Every retry of a pipeline tests again, so the error probabilities of all attempts must sum to the promised one. A
//! risk is created once, before any row is read, and is only ever split.

use std::num::{NonZeroU32, NonZeroU64};

use super::target::OutOfRange;

/// The probability with which one test may be wrong, in two parts: that noise goes beyond its reach, and that the rows
/// are an unlucky sample.
///
/// The noise of each test is fresh, the rows of several tests may be the same. So the parts are divided over attempts by
/// different arguments, and there is no other way to a part than to halve a whole risk and to divide it.
///
/// # Guarantee
/// Both parts are above zero, and their sum is below one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Risk {
    noise: f64,
    rows: f64,
}

/// The divisors of the two parts of a risk for one of several attempts. The inverses of each must sum to at most one over
/// all attempts that could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RiskDivisors {
    /// Of the part for the noise, which may be chosen from all that was released before.
    pub noise: NonZeroU64,
    /// Of the part for the rows, which is fixed before any of them is tested or chosen from verdicts only.
    pub rows: NonZeroU64,
}

/// The smallest risk: below it no amount of data would be enough, and logarithms would underflow.
const LEAST: f64 = 1e-200;

impl Risk {
    /// This probability.
    ///
    /// # Errors
    /// Unless it is from 1e-200 to below one.
    pub fn new(chance: f64) -> Result<Self, OutOfRange> {
        let fine = (LEAST..1.0).contains(&chance);
        fine.then_some(Self::halves(chance)).ok_or(OutOfRange("a risk is at least 1e-200 and below one"))
    }

    const fn halves(chance: f64) -> Self {
        Self { noise: 0.5 * chance, rows: 0.5 * chance }
    }

    /// The probability.
    pub const fn chance(self) -> f64 {
        self.noise + self.rows
    }

    /// The part for the noise of all numbers of the test.
    pub const fn noise(self) -> f64 {
        self.noise
    }

    /// The part for the rows.
    pub const fn rows(self) -> f64 {
        self.rows
    }

    /// The largest probability whose halves are within both parts.
    pub const fn of_equal_parts(self) -> f64 {
        2.0 * self.noise.min(self.rows)
    }

    /// The probability for a test in which the rows are not a sample: its share is that of the noise.
    pub const fn of_noise_alone(self) -> f64 {
        2.0 * self.noise
    }

    /// The shares of an attempt with these divisors.
    pub fn divided(self, divisors: RiskDivisors) -> Self {
        Self { noise: self.noise / divisors.noise.get() as f64, rows: self.rows / divisors.rows.get() as f64 }
    }

    /// The share of attempt number i, if attempts are chosen by verdicts only: 1 / (i (i + 1)). The shares of all attempts sum to the whole risk.
    pub fn at_attempt(self, attempt: NonZeroU32) -> Self {
        let attempt = f64::from(attempt.get());
        self.over(attempt * (attempt + 1.0))
    }

    /// An equal share for each of several tests, by the union bound.
    pub fn split(self, tests: NonZeroU32) -> Self {
        self.over(f64::from(tests.get()))
    }

    fn over(self, parts: f64) -> Self {
        Self { noise: self.noise / parts, rows: self.rows / parts }
    }
}

/// The confidence of a pipeline's verdicts.
///
/// # Guarantee
/// Strictly between zero and one, so that a [`Risk`] remains.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Confidence(f64);

/// Whether a pipeline can be rejected, and by how many metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// No test can reject: the whole risk goes to accepting.
    Never,
    /// Each of this many metrics may reject, and one rejection is enough.
    ByAny(NonZeroU32),
}

/// The risks of one pipeline or one of its attempts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Risks {
    /// The risk of accepting a model that misses its target. If several metrics must all pass, each may use the
    /// whole risk: a wrong accept requires that a metric passes whose target the model misses.
    pub accept: Risk,
    /// The risk of rejecting a class that contains a model that meets its target, for each metric that may reject.
    pub reject: Option<Risk>,
}

impl Confidence {
    /// This confidence.
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

    /// The complement of the confidence as risks: one half for each side, or all of it for accepting if nothing can
    /// reject. Both errors can be possible at once, so neither side may use the other's half.
    pub fn risks(self, rejection: Rejection) -> Risks {
        let all = 1.0 - self.0;
        match rejection {
            Rejection::Never => Risks { accept: Risk::halves(all), reject: None },
            Rejection::ByAny(metrics) => {
                let half = Risk::halves(0.5 * all);
                Risks { accept: half, reject: Some(half.split(metrics)) }
            }
        }
    }
}

impl Risks {
    /// The shares of attempt number i of both risks.
    pub fn at_attempt(self, attempt: NonZeroU32) -> Self {
        let reject = self.reject.map(|risk| risk.at_attempt(attempt));
        Self { accept: self.accept.at_attempt(attempt), reject }
    }
}
