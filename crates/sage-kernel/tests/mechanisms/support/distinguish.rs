//! Distinguishing tests: is what two neighbouring data sets release further apart than claimed?
//!
//! Half of the samples choose the events, the other half judges them. For an event E with probability at
//! most `high` on one side, a claim says how probable E can be on the other; Clopper-Pearson bounds say
//! how probable it is at least. Events are thresholds on a projection, and bits of the released number.

/// What a mechanism claims about any event, as the greatest power of a test at a level.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claim {
    /// ε-differential privacy.
    Pure(f64),
    /// As hard to tell apart as N(0, 1) and N(μ, 1).
    Gaussian(f64),
    /// A row takes part with a chance, then as Gaussian. The first side is the one without the row.
    Sampled { rate: f64, mu: f64 },
}

/// Which side the event is likely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Likely {
    Without,
    With,
}

impl Claim {
    /// The same claim for noise that is so much wider.
    pub(crate) fn stricter(self, factor: f64) -> Self {
        match self {
            Self::Pure(epsilon) => Self::Pure(epsilon / factor),
            Self::Gaussian(mu) => Self::Gaussian(mu / factor),
            Self::Sampled { rate, mu } => Self::Sampled { rate, mu: mu / factor },
        }
    }

    /// The greatest probability on the likely side of an event with this probability on the other.
    pub(crate) fn power(self, level: f64, likely: Likely) -> f64 {
        match self {
            Self::Pure(epsilon) => (epsilon.exp() * level).min(1.0 - (-epsilon).exp() * (1.0 - level)),
            Self::Gaussian(mu) => normal(quantile(level) + mu),
            Self::Sampled { rate, mu } => match likely {
                Likely::With => (1.0 - rate) * level + rate * normal(quantile(level) + mu),
                Likely::Without => {
                    // The event is {x < c}; find the c that has the level under the mixture.
                    let mixture = |c: f64| (1.0 - rate) * normal(c) + rate * normal(c - mu);
                    normal(bisect(-40.0, 40.0 + mu, |c| mixture(c) >= level))
                }
            },
        }
    }
}

/// One release: a projection to threshold, and bits to look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) statistic: f64,
    pub(crate) bits: u32,
}

impl Sample {
    /// A projection, with the bits of one released number over its public unit.
    pub(crate) fn new(statistic: f64, released: f64, unit: f64) -> Self {
        let scaled = released / unit;
        let whole = scaled.round();
        let residue = whole as i128;
        let mut bits = u32::from(whole.is_finite() && (scaled - whole).abs() > 1e-6);
        let tests = [
            residue & 1 == 0,
            residue & 3 == 0,
            residue & 15 == 0,
            residue & 255 == 0,
            residue & 128 == 0,
            residue % 3 == 0,
            released.is_nan(),
            released == 0.0,
        ];
        for (index, &test) in tests.iter().enumerate() {
            bits |= u32::from(test) << (index + 1);
        }
        // Is it a multiple of 2^-j? Naive floats differ here from what they are added to.
        for (index, power) in [30, 40, 48, 50, 52, 53, 54, 56, 58].into_iter().enumerate() {
            let shifted = released * 2f64.powi(power);
            bits |= u32::from(shifted == shifted.floor()) << (index + 12);
        }
        Self { statistic, bits }
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Below(f64),
    Above(f64),
    Bit(u32),
    NotBit(u32),
}

impl Event {
    fn holds(self, sample: &Sample) -> bool {
        match self {
            Self::Below(limit) => sample.statistic <= limit,
            Self::Above(limit) => sample.statistic > limit,
            Self::Bit(bit) => sample.bits >> bit & 1 == 1,
            Self::NotBit(bit) => sample.bits >> bit & 1 == 0,
        }
    }

    fn count(self, samples: &[Sample]) -> usize {
        samples.iter().filter(|sample| self.holds(sample)).count()
    }
}

/// The chance of a false alarm of one test.
pub(crate) const ALPHA: f64 = 1e-6;

/// Judges a claim. Gives the worst margin: above zero the claim is refuted.
pub(crate) fn judge(claim: Claim, without: &[Sample], with: &[Sample]) -> f64 {
    let (choose_without, judge_without) = without.split_at(without.len() / 2);
    let (choose_with, judge_with) = with.split_at(with.len() / 2);
    let mut chosen = Vec::new();
    for likely in [Likely::Without, Likely::With] {
        let (rare, common) = match likely {
            Likely::Without => (choose_with, choose_without),
            Likely::With => (choose_without, choose_with),
        };
        chosen.extend(choose(claim, likely, rare, common).map(|event| (likely, event)));
    }
    let alpha = ALPHA / (2.0 * chosen.len() as f64);
    let margins = chosen.into_iter().map(|(likely, event)| {
        let (rare, common) = match likely {
            Likely::Without => (judge_with, judge_without),
            Likely::With => (judge_without, judge_with),
        };
        let high = upper(event.count(rare), rare.len(), alpha);
        let low = lower(event.count(common), common.len(), alpha);
        low - claim.power(high, likely)
    });
    margins.fold(f64::NEG_INFINITY, f64::max)
}

/// The most promising event of each kind.
fn choose(claim: Claim, likely: Likely, rare: &[Sample], common: &[Sample]) -> impl Iterator<Item = Event> {
    let score = |rare_count: usize, common_count: usize| {
        let high = (rare_count as f64 + 1.0) / (rare.len() as f64 + 2.0);
        let low = (common_count as f64 + 1.0) / (common.len() as f64 + 2.0);
        let deviation =
            (low * (1.0 - low) / common.len() as f64).sqrt() + (high * (1.0 - high) / rare.len() as f64).sqrt();
        (low - claim.power(high, likely)) / (deviation + 1e-4)
    };
    let sorted = |samples: &[Sample]| {
        let mut values: Vec<f64> = samples.iter().map(|sample| sample.statistic).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (rare_sorted, common_sorted) = (sorted(rare), sorted(common));
    let at_most = |sorted: &[f64], limit: f64| sorted.partition_point(|&value| value <= limit);
    let mut below = (f64::NEG_INFINITY, Event::Below(0.0));
    let mut above = (f64::NEG_INFINITY, Event::Above(0.0));
    for pool in [&rare_sorted, &common_sorted] {
        for step in 1..100 {
            let limit = pool[pool.len() * step / 100];
            let counts = (at_most(&rare_sorted, limit), at_most(&common_sorted, limit));
            let one = score(counts.0, counts.1);
            let other = score(rare.len() - counts.0, common.len() - counts.1);
            if one > below.0 {
                below = (one, Event::Below(limit));
            }
            if other > above.0 {
                above = (other, Event::Above(limit));
            }
        }
    }
    let mut bit = (f64::NEG_INFINITY, Event::Bit(0));
    for event in (0..21).flat_map(|index| [Event::Bit(index), Event::NotBit(index)]) {
        let value = score(event.count(rare), event.count(common));
        if value > bit.0 {
            bit = (value, event);
        }
    }
    [below.1, above.1, bit.1].into_iter()
}

/// Φ.
pub(crate) fn normal(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Φ⁻¹.
pub(crate) fn quantile(p: f64) -> f64 {
    bisect(-40.0, 40.0, |x| normal(x) >= p)
}

/// Where a condition that holds from some point on begins.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if holds(middle) { high = middle } else { low = middle }
    }
    0.5 * (low + high)
}

/// The Clopper-Pearson bound from above: the p at which so few successes have probability α.
pub(crate) fn upper(successes: usize, trials: usize, alpha: f64) -> f64 {
    if successes >= trials {
        return 1.0;
    }
    let (k, n) = (successes as f64, trials as f64);
    bisect(0.0, 1.0, |p| incomplete_beta(k + 1.0, n - k, p) >= 1.0 - alpha)
}

/// The same from below.
pub(crate) fn lower(successes: usize, trials: usize, alpha: f64) -> f64 {
    1.0 - upper(trials - successes, trials, alpha)
}

/// The regularised incomplete beta function, by its continued fraction.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let log_front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * (-x).ln_1p() - a.ln();
    let floor = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / floor(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..100_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / floor(1.0 + even * d);
        c = floor(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / floor(1.0 + odd * d);
        c = floor(1.0 + odd / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-14 {
            break;
        }
    }
    (log_front.exp() * fraction).min(1.0)
}
