//! Tests whether the mean loss is below its target.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Mechanism, Pair, Rounding, Rows, Session, SessionError, TableNoise, Triple};

use super::decide::{Tail, accepts, accepts_by_variance, interval, mean};
use super::help::{found, remedy, short};
use super::margin::Margin;
use super::risk::Risk;
use super::target::LossTarget;
use super::verdict::{Decision, Uncertainty, Verdict};
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
        let accepted = accepts(sums, self.target.share(), Margin::one_sided(noise, self.risk), tail);
        self.verdict(accepted, sums, Margin::two_sided(noise, self.risk))
    }

    pub(super) fn judge_triple(&self, sums: Triple) -> Verdict {
        let noise = self.noise.into();
        let accepted = accepts_by_variance(sums, self.target.share(), Margin::of_triple(noise, self.risk));
        let pair = Pair { above: sums.squares + sums.rest, below: sums.below };
        self.verdict(accepted, pair, Margin::of_triple_two_sided(noise, self.risk))
    }

    fn verdict(&self, accepted: bool, sums: Pair, margin: Margin) -> Verdict {
        let (bound, target) = (self.target.bound, self.target.target);
        let (low, high) = interval(sums, margin);
        let estimate = Estimate { value: mean(sums).map(|mean| mean * bound), low: low * bound, high: high * bound };
        let uncertainty = estimate.value.map(|value| {
            let (_, without_noise) = interval(sums, margin.without_noise());
            let sampling = (without_noise * bound - value).clamp(0.0, estimate.high - value);
            Uncertainty { sampling, noise: estimate.high - value - sampling, missed_by: value - target }
        });
        let confidence = 1.0 - self.risk.chance();
        let what = format!("the mean loss, cut at {},", short(bound));
        let found = found(&what, estimate, confidence);
        let target = short(target);
        let (decision, explanation) = if accepted {
            let chance = short(self.risk.chance());
            (Decision::Accept, format!("{found}; it is below the target {target} but for a chance of {chance}."))
        } else {
            let remedy = remedy(uncertainty);
            (Decision::Retry, format!("{found}; that does not show it to be below the target {target}: {remedy}."))
        };
        Verdict { sums: vec![sums], uncertainty, ..Verdict::new(decision, vec![estimate], confidence, explanation) }
    }
}
