//! Tests whether the area under the ROC curve is above its target. Proof: `proofs/validate.md`.
//!
//! The kernel counts the rows of each class by bins of the model's score: one release, in which a row counts once. A
//! pair of rows whose scores are in one bin counts against the model.

use std::num::NonZeroU32;

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Mechanism, Pair, Rows, Session, SessionError, TableNoise};

use super::decide::{Tail, accepts, interval};
use super::help::{found, remedy, short};
use super::margin::{Margin, Noise};
use super::risk::Risk;
use super::target::AucTarget;
use super::verdict::{Decision, Uncertainty, Verdict};
use crate::estimate::Estimate;

/// A test of the area under the ROC curve on the test lane: accept or retry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AucCheck {
    /// The area to exceed.
    pub target: AucTarget,
    /// The number of bins of scores, for each of the two classes.
    pub bins: NonZeroU32,
    /// The noise, and with it the cost.
    pub noise: TableNoise,
    /// The probability of accepting a model that misses the target.
    pub risk: Risk,
}

/// How far noise may have shifted sums of neighbouring bins, and the probability left for the rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BinMargin {
    /// The bound on the noise of every sum of the first bins, and of the last ones, of a class.
    pub reach: f64,
    /// The probability of an unlucky sample.
    pub chance: f64,
}

/// The numbers of rows of the two classes by bins of the score, lowest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreCounts<'a> {
    /// Rows of the class.
    pub positives: &'a [f64],
    /// The other rows.
    pub negatives: &'a [f64],
}

impl BinMargin {
    /// For one side: a quarter of the noise's part for each of the four sequences of sums, the rows' part for one side.
    pub fn one_sided(noise: Noise, bins: NonZeroU32, risk: Risk) -> Self {
        Self { reach: noise.reach_of_sums(bins, risk.noise() / 4.0), chance: risk.rows() }
    }

    /// For both sides: half of the risk for each.
    fn two_sided(noise: Noise, bins: NonZeroU32, risk: Risk) -> Self {
        Self::one_sided(noise, bins, risk.split(NonZeroU32::MIN.saturating_add(1)))
    }
}

impl ScoreCounts<'_> {
    /// The area that the counts show, where a pair in one bin counts half.
    fn area(&self) -> Option<f64> {
        let rows = [self.positives, self.negatives].map(|counts| counts.iter().sum::<f64>());
        if !rows.iter().all(|rows| rows.is_finite() && *rows > 0.0) {
            return None;
        }
        let mut above = rows[0];
        let mut pairs = 0.0;
        for (positives, negatives) in self.positives.iter().zip(self.negatives) {
            above -= positives;
            pairs += negatives * (above + 0.5 * positives);
        }
        Some((pairs / rows[0] / rows[1]).clamp(0.0, 1.0))
    }

    /// The pairs of rows in units of independent pairs: `above` is an upper limit of those in which the positive row is
    /// not in a higher bin, and the sum is a lower limit of the rows of the smaller class.
    ///
    /// `None` if the noise may hide a class, or a number is not finite.
    pub fn worst_pairs(&self, reach: f64) -> Option<Pair> {
        let bins = self.positives.len();
        let [all_positives, all_negatives] = [self.positives, self.negatives].map(|counts| counts.iter().sum::<f64>());
        let sizes = self.positives.iter().chain(self.negatives).map(|count| count.abs()).sum::<f64>();
        let reach = reach + 4.0 * bins as f64 * f64::EPSILON * sizes;
        let rows = all_positives.min(all_negatives) - reach;
        if !(rows > 0.0 && rows.is_finite() && bins == self.negatives.len()) {
            return None;
        }
        // The largest share of positives up to each bin, and the smallest share of negatives.
        let (mut positives, mut negatives) = (0.0, 0.0);
        let mut most = Vec::with_capacity(bins);
        let mut least = Vec::with_capacity(bins);
        for (positive, negative) in self.positives.iter().zip(self.negatives).take(bins - 1) {
            positives += positive;
            negatives += negative;
            let up_to = |low: f64, high: f64| if low + high > 0.0 { low / (low + high) } else { f64::NAN };
            let share = up_to((positives + reach).max(0.0), (all_positives - positives - reach).max(0.0));
            most.push(if share.is_nan() { 1.0 } else { share });
            let share = up_to((negatives - reach).max(0.0), (all_negatives - negatives + reach).max(0.0));
            least.push(if share.is_nan() { 0.0 } else { share });
        }
        // Shares up to a bin rise with the bin, so a limit for one bin is one for all on its other side.
        let mut limit = 1.0_f64;
        most.iter_mut().rev().for_each(|share| {
            limit = limit.min(*share);
            *share = limit;
        });
        most.push(1.0);
        let (mut limit, mut good) = (0.0_f64, 0.0);
        for (bin, share) in least.into_iter().enumerate() {
            limit = limit.max(share);
            good += limit * (most[bin + 1] - most[bin]);
        }
        let good = good.clamp(0.0, 1.0);
        Some(Pair { above: rows * (1.0 - good), below: rows * good })
    }

    /// Whether the area under the ROC curve is above the target.
    ///
    /// Wrong, where the area is at the target or below it, with at most four times the probability of the margin's reach
    /// plus the margin's probability.
    pub fn accepts(&self, target: f64, margin: BinMargin) -> bool {
        let rows = Margin::new(0.0, margin.chance);
        let pairs = self.worst_pairs(margin.reach).zip(rows.ok());
        pairs.is_some_and(|(pairs, rows)| accepts(pairs, 1.0 - target, rows, Tail::KullbackLeibler))
    }

    /// A lower limit of the area.
    fn lower_limit(&self, margin: BinMargin) -> f64 {
        let rows = Margin::new(0.0, margin.chance);
        let pairs = self.worst_pairs(margin.reach).zip(rows.ok());
        pairs.map_or(0.0, |(pairs, rows)| 1.0 - interval(pairs, rows).1)
    }

    fn estimate(&self, margin: BinMargin) -> Estimate {
        // If the classes are exchanged, the area is the rest.
        let exchanged = ScoreCounts { positives: self.negatives, negatives: self.positives };
        let (low, high) = (self.lower_limit(margin), 1.0 - exchanged.lower_limit(margin));
        let value = self.area().map(|area| area.clamp(low, high));
        Estimate { value, low, high }
    }
}

impl AucCheck {
    /// The lane and the mechanism to charge.
    ///
    /// # Errors
    /// When the noise has no price.
    pub fn cost(&self) -> Result<(Lane, Mechanism), SessionError> {
        Ok((Lane::Test, self.noise.mechanism()?))
    }

    /// Runs the test on the test lane; `scored` returns whether a row is of the class, and the position of its score
    /// from 0 to 1. A row for which it returns `None` is not counted. A position that is NaN is the worst for its class.
    ///
    /// # Errors
    /// When the charge does not cover it or there is no randomness.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, scored: impl Fn(R::Row<'_>) -> Option<(bool, f64)>,
    ) -> Result<Verdict, SessionError> {
        let bins = self.bins.get();
        let key = |row: R::Row<'_>| {
            let (positive, position) = scored(row)?;
            let worst = if positive { 0.0 } else { 1.0 };
            let position = if position.is_nan() { worst } else { position.clamp(0.0, 1.0) };
            let bin = ((position * f64::from(bins)) as u32).min(bins - 1);
            Some(bin + if positive { bins } else { 0 })
        };
        let counts = session.histogram(Lane::Test, bins.saturating_mul(2), self.noise, key)?;
        let (negatives, positives) = counts.split_at(bins as usize);
        Ok(self.judge(ScoreCounts { positives, negatives }))
    }

    pub(super) fn judge(&self, counts: ScoreCounts<'_>) -> Verdict {
        let noise = self.noise.into();
        let margin = BinMargin::two_sided(noise, self.bins, self.risk);
        let estimate = counts.estimate(margin);
        let uncertainty = estimate.value.map(|value| {
            let without_noise = counts.lower_limit(BinMargin { reach: 0.0, ..margin });
            let sampling = (value - without_noise).clamp(0.0, value - estimate.low);
            Uncertainty { sampling, noise: value - estimate.low - sampling, missed_by: self.target.area() - value }
        });
        let confidence = 1.0 - self.risk.chance();
        let found = found("the area under the ROC curve", estimate, confidence);
        let target = short(self.target.area());
        let accepted = counts.accepts(self.target.area(), BinMargin::one_sided(noise, self.bins, self.risk));
        let (decision, explanation) = if accepted {
            let chance = short(self.risk.chance());
            (Decision::Accept, format!("{found}; it is above the target {target} but for a chance of {chance}."))
        } else {
            let remedy = remedy(uncertainty);
            (Decision::Retry, format!("{found}; that does not show it to be above the target {target}: {remedy}."))
        };
        Verdict { uncertainty, ..Verdict::new(decision, vec![estimate], confidence, explanation) }
    }
}

#[cfg(test)]
mod tests {
    use sage_kernel::Epsilon;

    use super::*;

    const EXACT: BinMargin = BinMargin { reach: 0.0, chance: 0.025 };

    fn counts<'a>(positives: &'a [f64], negatives: &'a [f64]) -> ScoreCounts<'a> {
        ScoreCounts { positives, negatives }
    }

    fn share(pair: Pair) -> f64 {
        pair.above / (pair.above + pair.below)
    }

    #[test]
    fn pairs_in_one_bin_count_against_the_model() {
        let (positives, negatives) = ([10.0, 20.0, 70.0], [60.0, 30.0, 10.0]);
        // 60 · 90 + 30 · 70 of 100 · 100 pairs are in order, and 60 · 10 + 30 · 20 + 10 · 70 are in one bin.
        let found = counts(&positives, &negatives);
        let worst = found.worst_pairs(0.0).expect("rows");
        assert!((share(worst) - 0.25).abs() < 1e-9, "{worst:?}");
        assert!((worst.above + worst.below - 100.0).abs() < 1e-6);
        assert!((found.area().expect("rows") - 0.845).abs() < 1e-9);
        let one_bin = counts(&[50.0], &[50.0]);
        assert!((share(one_bin.worst_pairs(0.0).expect("rows")) - 1.0).abs() < 1e-9);
        assert_eq!(one_bin.area(), Some(0.5));
    }

    /// More noise never makes the model look better, and the bound holds for every shift of the sums within the reach.
    #[test]
    fn the_worst_case_covers_every_noise_within_the_reach() {
        let exact = ([100.0, 200.0, 400.0, 300.0], [500.0, 300.0, 150.0, 50.0]);
        let own = share(counts(&exact.0, &exact.1).worst_pairs(0.0).expect("rows"));
        let mut last = own;
        for reach in [1.0, 5.0, 20.0, 60.0] {
            let wider = share(counts(&exact.0, &exact.1).worst_pairs(reach).expect("rows"));
            assert!(wider >= last, "{reach}: {wider} {last}");
            last = wider;
            // Noise whose sums from either end stay within the reach.
            for bits in 0..256_u32 {
                let half = 0.5 * reach;
                let sign = |bit: u32| if bits >> bit & 1 == 1 { half } else { -half };
                let noisy = |counts: [f64; 4], first: u32| {
                    let [one, two] = [sign(first), sign(first + 1)];
                    [counts[0] + one, counts[1] - one, counts[2] + two, counts[3] - two]
                };
                let (positives, negatives) = (noisy(exact.0, 0), noisy(exact.1, 2));
                let found = counts(&positives, &negatives).worst_pairs(reach).expect("rows");
                assert!(share(found) >= own - 1e-9, "{reach} {bits}: {found:?}, not {own}");
                assert!(found.above + found.below <= 1000.0);
            }
        }
    }

    #[test]
    fn too_few_rows_decide_nothing() {
        for (positives, negatives) in [
            (vec![], vec![]),
            (vec![0.0, 0.0], vec![5.0, 5.0]),
            (vec![-3.0, 1.0], vec![5.0, 5.0]),
            (vec![f64::NAN, 1.0], vec![5.0, 5.0]),
            (vec![f64::INFINITY, 1.0], vec![5.0, 5.0]),
            (vec![1.0, 2.0, 3.0], vec![5.0, 5.0]),
        ] {
            let counts = counts(&positives, &negatives);
            assert_eq!(counts.worst_pairs(0.0), None, "{counts:?}");
            assert!(!counts.accepts(0.51, EXACT));
            assert_eq!(counts.lower_limit(EXACT), 0.0);
        }
    }

    #[test]
    fn verdicts_name_the_area_and_what_would_help() {
        let noise = TableNoise::Laplace(Epsilon::cost("1").expect("an epsilon"));
        let bins = NonZeroU32::new(4).expect("bins");
        let risk = Risk::new(0.05).expect("a risk");
        let check = |target| AucCheck { target: AucTarget::new(target).expect("a target"), bins, noise, risk };
        let (positives, negatives) = ([1e3, 2e3, 3e3, 4e3], [4e3, 3e3, 2e3, 1e3]);
        for (target, decision, words) in [
            (0.6, Decision::Accept, "it is above the target 0.6 but for a chance of 0.05"),
            (0.74, Decision::Retry, "the estimate meets it"),
            (0.9, Decision::Retry, "the estimate misses it"),
        ] {
            let verdict = check(target).judge(counts(&positives, &negatives));
            assert_eq!(verdict.decision, decision, "{verdict}");
            assert!(verdict.explanation.contains("the area under the ROC curve is estimated at 0.75"), "{verdict}");
            assert!(verdict.explanation.contains(words), "{verdict}");
            let estimate = verdict.estimates[0];
            assert!(estimate.low < 0.75 && estimate.high > 0.75, "{estimate:?}");
            let parts = verdict.uncertainty.expect("parts");
            assert!((parts.sampling + parts.noise - (0.75 - estimate.low)).abs() < 1e-9);
        }
        let verdict = check(0.6).judge(counts(&[-1.0; 4], &negatives));
        assert!(verdict.explanation.contains("could not be estimated"), "{verdict}");
    }
}
