//! Tests whether a released statistic is precise enough.
//!
//! The test uses only the released sums and has no extra cost. It never rejects: enough rows reach any precision.

use std::num::NonZeroU32;

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Mechanism, Pair, Range, Rounding, Rows, SCALE, Session, SessionError, TableNoise};

use super::decide::{interval, mean};
use super::help::{lever, percent, remedy, short};
use super::margin::Margin;
use super::risk::Risk;
use super::target::{OutOfRange, PrecisionTarget};
use super::verdict::{Decision, Uncertainty, Verdict};
use crate::encode::present;
use crate::estimate::Estimate;

/// A test of the precision of the means of a bounded value by group: accept or retry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumCheck {
    low: f64,
    width: f64,
    range: Range,
    groups: NonZeroU32,
    target: PrecisionTarget,
    noise: TableNoise,
    risk: Risk,
}

impl SumCheck {
    /// Means of values clipped to the range from `low` to `high`, one for each group, each to be within the
    /// target of the true mean; the risk is that of any group being further off.
    ///
    /// # Errors
    /// When the bounds are not finite and in order.
    pub fn new(
        (low, high): (f64, f64), groups: NonZeroU32, target: PrecisionTarget, noise: TableNoise, risk: Risk,
    ) -> Result<Self, OutOfRange> {
        let range = Range::new(low, high).ok_or(OutOfRange("a range has finite ends, the lower one first"))?;
        Ok(Self { low, width: high - low, range, groups, target, noise, risk })
    }

    /// The lane and the mechanism to charge; the statistic is about the rows of this lane.
    ///
    /// # Errors
    /// When the noise has no price.
    pub fn cost(&self, lane: Lane) -> Result<(Lane, Mechanism), SessionError> {
        Ok((lane, self.noise.mechanism()?))
    }

    /// Releases the sums of all groups and judges them. A row has one group at most; a value that is not finite is
    /// missing, and its row is in neither the sum nor the count.
    ///
    /// # Errors
    /// When the charge does not cover it, there are too many groups or there is no randomness.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, lane: Lane, value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<(Vec<Pair>, Verdict), SessionError> {
        let value = |row: R::Row<'_>| value(row).and_then(|(group, value)| Some((group, present(value)?)));
        let sums = session.pairs(lane, self.groups.get(), self.range, Rounding::Nearest, self.noise, value)?;
        let verdict = self.judge(&sums);
        Ok((sums, verdict))
    }

    /// Judges sums that were released with this check's noise. Retries unless there is a pair for each group.
    pub fn judge(&self, sums: &[Pair]) -> Verdict {
        let margin = Margin::two_sided(self.noise.into(), self.risk.split(self.groups));
        let estimates: Vec<Estimate> = sums.iter().map(|&sums| self.estimate(sums, margin)).collect();
        let complete = sums.len() == self.groups.get() as usize;
        let precise = |estimate: &Estimate| estimate.half_width() <= self.target.distance();
        let judged = sums.iter().zip(&estimates).filter(|_| complete);
        let worst = judged.max_by(|left, right| left.1.half_width().total_cmp(&right.1.half_width()));
        let target = short(self.target.distance());
        let confidence = 1.0 - self.risk.chance();
        let mut uncertainty = None;
        let (decision, explanation) = match worst {
            Some((_, estimate)) if precise(estimate) => {
                let half = short(estimate.half_width());
                let sure = percent(confidence);
                (
                    Decision::Accept,
                    format!(
                        "every mean is within {half} of the true one with confidence {sure}; the target is {target}."
                    ),
                )
            }
            Some((_, Estimate { value: None, .. })) => {
                let remedy = remedy(None);
                (Decision::Retry, format!("one mean could not be estimated; the target is {target}: {remedy}."))
            }
            Some((&worst, estimate)) => {
                let half = estimate.half_width();
                let sampling = self.estimate(worst, margin.without_noise()).half_width().min(half);
                let parts = Uncertainty { sampling, noise: half - sampling, missed_by: half - self.target.distance() };
                let shown = [half, parts.sampling, parts.noise].map(short);
                let lever = lever(parts);
                uncertainty = Some(parts);
                let [half, sampling, noise] = shown;
                (
                    Decision::Retry,
                    format!(
                        "one mean is only known to within {half}, {sampling} of it from sampling and {noise} from noise; \
                         the target is {target}: {lever}."
                    ),
                )
            }
            None => (Decision::Retry, "these are not the sums of all groups.".to_owned()),
        };
        Verdict { uncertainty, ..Verdict::new(decision, estimates, confidence, explanation) }
    }

    fn estimate(&self, sums: Pair, margin: Margin) -> Estimate {
        let (low, high) = interval(sums, margin);
        // Values were rounded to the nearest of 2^20 steps.
        let step = 0.5 / SCALE as f64;
        let denormalise = |share: f64| self.low + self.width * share;
        Estimate {
            value: mean(sums).map(denormalise),
            low: denormalise((low - step).max(0.0)),
            high: denormalise((high + step).min(1.0)),
        }
    }
}
