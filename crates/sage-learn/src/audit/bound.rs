//! From an attacker's scores to a lower bound of the loss. Proof: `proofs/audit.md`.
//!
//! A game was played many times in two worlds that differ in one row, and after each play an attacker gave a
//! score to what it saw. A claim of privacy limits how well any score can distinguish the worlds. Events are
//! chosen on one half of the plays and evaluated on the other, so that the choice may overfit; the caller gives
//! the probability with which the bound may be wrong.

use libm::{exp, log};
use sage_kernel::accountant::{Composition, gaussian_epsilon};

use super::binomial::{lower, quantile, roughly, upper};

/// What is claimed about two worlds that differ in one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// They are as hard to distinguish as N(0, 1) and N(μ, 1); stated at δ.
    Gaussian {
        /// The most μ may be.
        mu: f64,
        /// Where ε is stated.
        delta: f64,
    },
    /// They are (ε, δ)-indistinguishable for every pair of the list. The first is the one that is quoted.
    Stated(Vec<(f64, f64)>),
}

/// Where the accountant is asked besides the δ of a claim. An event too frequent to refute a statement with
/// a small δ may well refute one with a large δ; the counts are the same, so asking costs nothing.
const FURTHER: [f64; 9] = [1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7];

impl Claim {
    /// What the accountant says about steps that are composed: the pair itself, then others with a larger δ.
    pub fn composed(epsilon: f64, delta: f64, composition: &Composition) -> Self {
        let further = FURTHER.into_iter().filter(|&larger| larger > delta);
        let further = further.filter_map(|larger| Some((composition.epsilon(larger).ok()?, larger)));
        Self::Stated(std::iter::once((epsilon, delta)).chain(further).collect())
    }
}

/// What the scores show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// The loss at the claim's δ is at least this, but for the probability that was given.
    pub epsilon_lower: f64,
    /// The claim cannot hold, but for the probability that was given.
    pub refuted: bool,
}

/// Plays in both worlds.
#[derive(Clone, Copy)]
struct Scores<'scores> {
    without: &'scores [f64],
    with: &'scores [f64],
}

/// How often an event happens: at most, where it should be rare; at least, where it should be common.
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

/// Judges a claim by scores that are larger, by and large, where the row was there.
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
            // Pairs show most of a shift and get most of the probability; a threshold shows what hides in a tail.
            let little = chance / 20.0;
            let threshold = choose(choosing, Side::Above, little, separation);
            let by_threshold = separation(judging.judged(Side::Above, threshold, little));
            let least = by_pairs(all, chance - 2.0 * little).max(by_threshold);
            Finding { epsilon_lower: gaussian_loss(least, *delta), refuted: least > *mu }
        }
        Claim::Stated(pairs) => stated(pairs, choosing, judging, chance),
    }
}

/// Two directions, and in each one event for the number that is quoted and one against the whole list: four
/// events with two bounds each.
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

/// The least μ, from guessing which of two plays had the row: the one with the higher score.
fn by_pairs(scores: Scores<'_>, chance: f64) -> f64 {
    let right = scores.without.iter().zip(scores.with).filter(|(without, with)| with > without).count();
    std::f64::consts::SQRT_2 * quantile(lower(right, scores.with.len(), chance))
}

/// ε at δ of a Gaussian mechanism with at least this μ, not rounded up.
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

/// The threshold that promises most, among those that part the scores into hundredths or single out an end.
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
            let rates =
                Rates { rare: roughly(rare, plays, deviations).1, common: roughly(common, plays, deviations).0 };
            let found = worth(rates);
            if found > best.0 {
                best = (found, limit);
            }
        }
    }
    best.1
}

/// The logarithm of how much likelier a step's number is with the row than without, where the row takes part
/// with a probability, moves the number by one and the noise has this deviation.
pub fn log_likelihood(number: f64, rate: f64, sigma: f64) -> f64 {
    let moved = (number - 0.5) / (sigma * sigma);
    if rate >= 1.0 { moved } else { libm::log1p(rate * libm::expm1(moved.min(700.0))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evenly spread plays of two normal distributions at this distance.
    fn plays(count: usize, mu: f64) -> (Vec<f64>, Vec<f64>) {
        // A step that is prime to the count mixes the order, so that both halves see everything.
        let place = |index: usize| (index * 7919 % count) as f64 + 0.5;
        let other = |index: usize| (index * 7907 % count) as f64 + 0.5;
        let without = (0..count).map(|index| quantile(place(index) / count as f64)).collect();
        let with = (0..count).map(|index| mu + quantile(other(index) / count as f64)).collect();
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

    /// Under a claim that holds with nothing to spare, false alarms are as rare as was asked for.
    #[test]
    fn alarms_are_as_rare_as_promised() {
        let mut word = 0x5a6e_0001u64;
        let mut even = move || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((word >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let claim = Claim::Gaussian { mu: 1.0, delta: 1e-6 };
        let (rounds, chance) = (400, 0.1);
        let alarms = (0..rounds).filter(|_| {
            let without: Vec<f64> = (0..400).map(|_| quantile(even())).collect();
            let with: Vec<f64> = (0..400).map(|_| 1.0 + quantile(even())).collect();
            judge(&claim, &without, &with, chance).refuted
        });
        let alarms = alarms.count();
        assert!(lower(alarms, rounds, 1e-6) <= chance, "{alarms} of {rounds}");
    }

    #[test]
    fn likelihoods_are_those_of_the_laws() {
        let density = |x: f64, mean: f64| exp(-(x - mean) * (x - mean) / (2.0 * 4.0));
        for number in [-3.0, 0.0, 0.4, 7.0] {
            let exact = log(0.75 * density(number, 0.0) + 0.25 * density(number, 1.0)) - log(density(number, 0.0));
            assert!((log_likelihood(number, 0.25, 2.0) - exact).abs() < 1e-12);
            assert!((log_likelihood(number, 1.0, 2.0) - (number - 0.5) / 4.0).abs() < 1e-12);
        }
    }
}
