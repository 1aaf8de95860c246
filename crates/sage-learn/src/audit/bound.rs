//! From an attacker's scores to a lower bound of the privacy loss. Proof: `proofs/audit.md`.
//!
//! A game is played many times in two worlds that differ in one row, and after each play an attacker assigns a score
//! to the released numbers. A privacy claim limits how well any score can distinguish the worlds. Events are chosen
//! on one half of the plays and evaluated on the other, so overfitting the choice is harmless; the caller sets the
//! probability with which the bound may be wrong.

use libm::{exp, log};
use sage_kernel::accountant::{Composition, gaussian_epsilon};

use super::binomial::{lower, quantile, upper, wilson_interval};

/// A privacy claim about two worlds that differ in one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// They are as hard to distinguish as N(0, 1) and N(μ, 1); stated at δ.
    Gaussian {
        /// The largest μ under the claim.
        mu: f64,
        /// The δ at which ε is reported.
        delta: f64,
    },
    /// They are (ε, δ)-indistinguishable for every pair of the list. The first pair is the reported one.
    Stated(Vec<(f64, f64)>),
}

/// Values of δ at which a claim is tested besides its own. An event that is too frequent to refute a statement with a
/// small δ may refute one with a large δ; the counts are the same, so the extra tests are free.
const LARGER_DELTAS: [f64; 9] = [1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7];

impl Claim {
    /// The claim of the accountant about composed steps: the pair itself, then others with a larger δ.
    pub fn composed(epsilon: f64, delta: f64, composition: &Composition) -> Self {
        let further = LARGER_DELTAS.into_iter().filter(|&larger| larger > delta);
        let further = further.filter_map(|larger| Some((composition.epsilon(larger).ok()?, larger)));
        Self::Stated(std::iter::once((epsilon, delta)).chain(further).collect())
    }
}

/// The result of testing a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// A lower bound of ε at the claim's δ; it is wrong with at most the given probability.
    pub epsilon_lower: f64,
    /// Whether the claim is refuted; a claim that holds is refuted with at most the given probability.
    pub refuted: bool,
}

/// Scores of the plays in both worlds.
#[derive(Clone, Copy)]
struct Scores<'scores> {
    without: &'scores [f64],
    with: &'scores [f64],
}

/// Confidence bounds on an event's probability: an upper bound in the world where it is rare, a lower bound in the
/// other.
#[derive(Clone, Copy)]
struct Rates {
    rare: f64,
    common: f64,
}

/// Which side of a threshold is the event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Scores above it, common with the row.
    Above,
    /// Scores at most it, common without the row.
    AtMost,
}

/// Tests a claim by scores that tend to be larger if the row was present.
///
/// # Guarantee
/// If the plays are independent and the claim holds, `refuted` is true with at most the probability
/// `chance`; and whatever the mechanism of the claim's kind, `epsilon_lower` is above its ε with at most that
/// probability: `proofs/audit.md`.
pub fn judge(claim: &Claim, without: &[f64], with: &[f64], chance: f64) -> Finding {
    let plays = without.len().min(with.len());
    let all = Scores { without: &without[..plays], with: &with[..plays] };
    let half = plays / 2;
    let choosing = Scores { without: &all.without[..half], with: &all.with[..half] };
    let judging = Scores { without: &all.without[half..], with: &all.with[half..] };
    if half == 0 {
        return Finding { epsilon_lower: 0.0, refuted: false };
    }
    match claim {
        Claim::Gaussian { mu, delta } => {
            // Comparing pairs detects a shift best and gets most of the probability; a threshold detects a heavy tail.
            let threshold_chance = chance / 20.0;
            let threshold = choose(choosing, Side::Above, threshold_chance, separation);
            let by_threshold = separation(judging.judged(Side::Above, threshold, threshold_chance));
            let least = by_pairs(all, chance - 2.0 * threshold_chance).max(by_threshold);
            Finding { epsilon_lower: gaussian_loss(least, *delta), refuted: least > *mu }
        }
        Claim::Stated(pairs) => stated(pairs, choosing, judging, chance),
    }
}

/// Tests both directions, in each one event for the reported bound and one against the whole list: four events with
/// two confidence bounds each.
fn stated(pairs: &[(f64, f64)], choosing: Scores<'_>, judging: Scores<'_>, chance: f64) -> Finding {
    let (Some(&(epsilon, delta)), chance) = (pairs.first(), chance / 8.0) else {
        return Finding { epsilon_lower: 0.0, refuted: false };
    };
    let quoted = |rates: Rates| log((rates.common - delta).max(0.0) / rates.rare);
    let excess = |rates: Rates| {
        let beyond = |&(epsilon, delta): &(f64, f64)| rates.common - delta - exp(epsilon) * rates.rare;
        pairs.iter().map(beyond).fold(f64::NEG_INFINITY, f64::max)
    };
    let mut finding = Finding { epsilon_lower: 0.0, refuted: false };
    for side in [Side::Above, Side::AtMost] {
        let threshold = choose(choosing, side, chance, quoted);
        finding.epsilon_lower = finding.epsilon_lower.max(quoted(judging.judged(side, threshold, chance)));
        let threshold = choose(choosing, side, chance, excess);
        finding.refuted |= excess(judging.judged(side, threshold, chance)) > 0.0;
    }
    finding.refuted |= finding.epsilon_lower > epsilon;
    finding
}

/// The μ of two normal distributions with these rates.
fn separation(rates: Rates) -> f64 {
    let found = quantile(rates.common) - quantile(rates.rare);
    if found.is_nan() { 0.0 } else { found }
}

/// A lower bound of μ, from guessing in each pair of plays that the one with the higher score had the row.
fn by_pairs(scores: Scores<'_>, chance: f64) -> f64 {
    let right = scores.without.iter().zip(scores.with).filter(|(without, with)| with > without).count();
    std::f64::consts::SQRT_2 * quantile(lower(right, scores.with.len(), chance))
}

/// ε at δ of a Gaussian mechanism with this μ, rounded down.
fn gaussian_loss(mu: f64, delta: f64) -> f64 {
    if mu > 0.0 { gaussian_epsilon(mu, delta).map_or(0.0, |found| found * (1.0 - 1e-6)) } else { 0.0 }
}

impl Scores<'_> {
    fn judged(self, side: Side, threshold: f64, chance: f64) -> Rates {
        let above = |scores: &[f64]| scores.iter().filter(|&&score| score > threshold).count();
        let plays = self.with.len();
        let (without, with) = (above(self.without), above(self.with));
        let (rare, common) = match side {
            Side::Above => (without, with),
            Side::AtMost => (plays - with, plays - without),
        };
        Rates { rare: upper(rare, plays, chance), common: lower(common, plays, chance) }
    }
}

/// The most promising threshold among the 200-quantiles of both samples.
fn choose(scores: Scores<'_>, side: Side, chance: f64, worth: impl Fn(Rates) -> f64) -> f64 {
    let sorted = |scores: &[f64]| {
        let mut sorted = scores.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let (without, with) = (sorted(scores.without), sorted(scores.with));
    let plays = with.len();
    let above = |sorted: &[f64], limit: f64| plays - sorted.partition_point(|&score| score <= limit);
    let deviations = -quantile(chance);
    let mut best = (f64::NEG_INFINITY, 0.0);
    for pool in [&without, &with] {
        for part in 0..=200 {
            let limit = pool[(plays - 1) * part / 200];
            let (without, with) = (above(&without, limit), above(&with, limit));
            let (rare, common) = match side {
                Side::Above => (without, with),
                Side::AtMost => (plays - with, plays - without),
            };
            let rates = Rates {
                rare: wilson_interval(rare, plays, deviations).1,
                common: wilson_interval(common, plays, deviations).0,
            };
            let found = worth(rates);
            if found > best.0 {
                best = (found, limit);
            }
        }
    }
    best.1
}

/// The log-likelihood ratio of a step's number with and without the row, where the row is sampled with probability
/// `rate`, shifts the number by one, and the noise has standard deviation `sigma`.
pub fn log_likelihood(number: f64, rate: f64, sigma: f64) -> f64 {
    let moved = (number - 0.5) / (sigma * sigma);
    if rate >= 1.0 { moved } else { libm::log1p(rate * libm::expm1(moved.min(700.0))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evenly spaced quantiles of N(0, 1) and N(μ, 1) as scores.
    fn plays(count: usize, mu: f64) -> (Vec<f64>, Vec<f64>) {
        // A stride coprime to the count shuffles the order, so that both halves are representative.
        let shuffled = |index: usize| (index * 7919 % count) as f64 + 0.5;
        let shuffled_again = |index: usize| (index * 7907 % count) as f64 + 0.5;
        let without = (0..count).map(|index| quantile(shuffled(index) / count as f64)).collect();
        let with = (0..count).map(|index| mu + quantile(shuffled_again(index) / count as f64)).collect();
        (without, with)
    }

    #[test]
    fn the_right_scale_is_accepted_and_a_smaller_one_refuted() {
        let (without, with) = plays(10_000, 1.0);
        let delta = 1e-6;
        let exact = gaussian_epsilon(1.0, delta).unwrap();
        let found = judge(&Claim::Gaussian { mu: 1.0, delta }, &without, &with, 1e-6);
        assert!(!found.refuted && found.epsilon_lower > 0.8 * exact && found.epsilon_lower < exact, "{found:?}");
        assert!(judge(&Claim::Gaussian { mu: 0.8, delta }, &without, &with, 1e-6).refuted);
    }

    #[test]
    fn statements_with_a_large_delta_are_refuted_too() {
        let (without, with) = plays(10_000, 1.0);
        let pairs = |mu: f64| {
            let composition = Composition::new(&[(sage_kernel::accountant::Loss::Gaussian { mu }, 1)]).unwrap();
            Claim::composed(composition.epsilon(1e-6).unwrap(), 1e-6, &composition)
        };
        assert!(!judge(&pairs(1.0), &without, &with, 1e-6).refuted);
        let found = judge(&pairs(0.7), &without, &with, 1e-6);
        assert!(found.refuted, "{found:?}");
        assert!(
            !judge(&Claim::Stated(vec![(gaussian_epsilon(0.7, 1e-6).unwrap(), 1e-6)]), &without, &with, 1e-6).refuted
        );
    }

    #[test]
    fn few_or_equal_scores_show_nothing() {
        let claim = Claim::Gaussian { mu: 0.1, delta: 1e-6 };
        for count in [0, 1, 2, 1000] {
            let scores = vec![0.0; count];
            let found = judge(&claim, &scores, &scores, 1e-6);
            assert!(!found.refuted && found.epsilon_lower == 0.0, "{count}: {found:?}");
            assert!(!judge(&Claim::Stated(vec![(0.1, 1e-6)]), &scores, &scores, 1e-6).refuted);
        }
    }

    /// Under a tight claim, false alarms are at most as frequent as requested.
    #[test]
    fn alarms_are_as_rare_as_promised() {
        let mut word = 0x5a6e_0001u64;
        let mut uniform = move || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((word >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let claim = Claim::Gaussian { mu: 1.0, delta: 1e-6 };
        let (rounds, chance) = (400, 0.1);
        let alarms = (0..rounds).filter(|_| {
            let without: Vec<f64> = (0..400).map(|_| quantile(uniform())).collect();
            let with: Vec<f64> = (0..400).map(|_| 1.0 + quantile(uniform())).collect();
            judge(&claim, &without, &with, chance).refuted
        });
        let alarms = alarms.count();
        assert!(lower(alarms, rounds, 1e-6) <= chance, "{alarms} of {rounds}");
    }

    #[test]
    fn likelihood_ratios_match_the_densities() {
        let density = |x: f64, mean: f64| exp(-(x - mean) * (x - mean) / (2.0 * 4.0));
        for number in [-3.0, 0.0, 0.4, 7.0] {
            let exact = log(0.75 * density(number, 0.0) + 0.25 * density(number, 1.0)) - log(density(number, 0.0));
            assert!((log_likelihood(number, 0.25, 2.0) - exact).abs() < 1e-12);
            assert!((log_likelihood(number, 1.0, 2.0) - (number - 0.5) / 4.0).abs() < 1e-12);
        }
    }
}
