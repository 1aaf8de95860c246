//! Tests whether the mean loss is below its target.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Mechanism, Pair, Rounding, Rows, Session, SessionError, TableNoise, Triple};

use super::decide::{Tail, accepts, accepts_by_variance, interval, mean};
use super::help::{found, remedy, short};
use super::margin::Margin;
use super::risk::Risk;
use super::target::LossTarget;
use super::verdict::{Decision, Verdict};
use crate::estimate::Estimate;

/// The bound behind a loss test, as pipelines name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// From two noisy sums, by a tail bound.
    OfPair(Tail),
    /// From three noisy sums, one of them of squares: [`accepts_by_variance`].
    EmpiricalBernstein,
}

impl Default for Bound {
    fn default() -> Self {
        Self::OfPair(Tail::KullbackLeibler)
    }
}

impl Bound {
    /// The bounds with their names.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("kl", Self::OfPair(Tail::KullbackLeibler)),
        ("bernstein", Self::OfPair(Tail::Bernstein)),
        ("empirical-bernstein", Self::EmpiricalBernstein),
        ("hoeffding", Self::OfPair(Tail::Hoeffding)),
    ];

    /// The bound of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, bound)| bound)
    }
}

/// A test of the mean loss on the test lane: accept or retry.
///
/// The guarantee is about losses clipped to the target's bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossCheck {
    /// The mean loss to stay below.
    pub target: LossTarget,
    /// The concentration bound.
    pub bound: Bound,
    /// The noise, and with it the cost.
    pub noise: TableNoise,
    /// The probability of accepting a model that misses the target.
    pub risk: Risk,
}

impl LossCheck {
    /// The lane and the mechanism to charge.
    ///
    /// # Errors
    /// When the noise has no price.
    pub fn cost(&self) -> Result<(Lane, Mechanism), SessionError> {
        Ok((Lane::Test, self.noise.mechanism()?))
    }

    /// Runs the test on the test lane. Rows for which `loss` returns `None`, such as rows without a label, are left out
    /// of the sum and of the count. A loss that is NaN counts as the bound.
    ///
    /// # Errors
    /// When the charge does not cover it or there is no randomness.
    pub fn run<R: Rows, N: NoiseSource, L: Into<Option<f64>>>(
        &self, session: &mut Session<R, N>, loss: impl Fn(R::Row<'_>) -> L,
    ) -> Result<Verdict, SessionError> {
        let (range, rounding) = (self.target.range, Rounding::Up);
        let value = |row: R::Row<'_>| loss(row).into().map(|loss| (0, loss));
        match self.bound {
            Bound::OfPair(tail) => {
                let sums = session.pairs(Lane::Test, 1, range, rounding, self.noise, value)?;
                Ok(self.judge_pair(tail, sums[0]))
            }
            Bound::EmpiricalBernstein => {
                let sums = session.triples(Lane::Test, 1, range, rounding, self.noise, value)?;
                Ok(self.judge_triple(sums[0]))
            }
        }
    }

    pub(super) fn judge_pair(&self, tail: Tail, sums: Pair) -> Verdict {
        let noise = self.noise.into();
        let margin = Margin::one_sided(noise, self.risk);
        let (low, high) = interval(sums, Margin::two_sided(noise, self.risk));
        let decide = |rows: f64, budget: f64| {
            let sums = Pair { above: sums.above * rows, below: sums.below * rows };
            accepts(sums, self.target.share(), margin.with_budget(budget), tail)
        };
        self.verdict(Estimate { value: mean(sums), low, high }, decide)
    }

    pub(super) fn judge_triple(&self, sums: Triple) -> Verdict {
        let noise = self.noise.into();
        let margin = Margin::of_triple(noise, self.risk);
        let pair = Pair { above: sums.squares + sums.rest, below: sums.below };
        let (low, high) = interval(pair, Margin::of_triple_two_sided(noise, self.risk));
        let decide = |rows: f64, budget: f64| {
            let scaled = Triple { squares: sums.squares * rows, rest: sums.rest * rows, below: sums.below * rows };
            accepts_by_variance(scaled, self.target.share(), margin.with_budget(budget))
        };
        self.verdict(Estimate { value: mean(pair), low, high }, decide)
    }

    fn verdict(&self, share: Estimate, accepts: impl Fn(f64, f64) -> bool) -> Verdict {
        let bound = self.target.bound;
        let estimate = Estimate {
            value: share.value.map(|value| value * bound),
            low: share.low * bound,
            high: share.high * bound,
        };
        let confidence = 1.0 - self.risk.chance();
        let what = format!("the mean loss, cut at {},", short(bound));
        let found = found(&what, estimate, confidence);
        let target = short(self.target.target);
        let (decision, explanation) = if accepts(1.0, 1.0) {
            let chance = short(self.risk.chance());
            (Decision::Accept, format!("{found}; it is below the target {target} but for a chance of {chance}."))
        } else {
            let remedy = remedy(estimate, accepts);
            (Decision::Retry, format!("{found}; that does not show it to be below the target {target}: {remedy}."))
        };
        Verdict { decision, estimates: vec![estimate], confidence, explanation }
    }
}
