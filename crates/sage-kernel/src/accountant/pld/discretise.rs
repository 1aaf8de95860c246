//! One mechanism's privacy loss on a lattice, dominating the true one.
//!
//! A pair of laws (P, Q) becomes atoms at losses `index * step`. Every piece of
//! the outcome space whose loss lies between two neighbouring lattice points
//! is split between them so that its mass under P and under Q are both kept;
//! that pair dominates the true one in both directions. No atom may come out
//! below its exact value: each is moved up by more than it can be wrong
//! (`proofs/pld.md`, sections 1 to 3).

use libm::{exp, expm1, floor, log, log1p};

use super::super::gaussian::{LOG_SQRT_TWO_PI, normal_quantile, normal_tail};
use super::super::parameter::Certified;
use super::Loss;

/// Masses under P at the losses `(first + position) * step`, with the mass of
/// P that Q cannot produce and the mass of Q that P cannot.
pub(super) struct Lattice {
    pub(super) first: i64,
    pub(super) masses: Vec<f64>,
    pub(super) infinity: f64,
    pub(super) minus_infinity: f64,
    /// How much rounding up added to the whole, relatively.
    pub(super) raised: f64,
}

impl Lattice {
    /// The same pair seen from the other side: (Q, P).
    pub(super) fn reversed(&self, step: f64) -> Self {
        let last = self.first + self.masses.len() as i64 - 1;
        let ratios = exponentials(last, -1, -step, 0.0);
        let masses = self.masses.iter().rev().zip(ratios);
        let masses = masses.map(|(&mass, ratio)| mass * ratio * (1.0 + 1e-12)).collect();
        Self {
            first: -last,
            masses,
            infinity: self.minus_infinity,
            minus_infinity: self.infinity,
            raised: self.raised,
        }
    }
}

/// `e^{offset + rate * index}` from index `first` in steps of `stride`, each
/// exact to 1e-13 times the size of its exponent: products, started afresh
/// every 32, or each time if they grow fast.
pub(super) fn exponentials(first: i64, stride: i64, rate: f64, offset: f64) -> impl Iterator<Item = f64> {
    let ratio = exp(rate * stride as f64);
    let period = if rate.abs() < 0.02 { 32 } else { 1 };
    let mut current = 0.0;
    (0_i64..).map(move |passed| {
        if passed % period == 0 {
            current = exp(offset + rate * (first + stride * passed) as f64);
        } else {
            current *= ratio;
        }
        current
    })
}

/// A lattice being filled, one piece of the outcome space at a time.
struct Builder {
    lattice: Lattice,
    step: f64,
    inverse_gap: f64,
    /// What each half of a split is moved up by, relative to the piece.
    slack: f64,
}

impl Builder {
    /// `size` bounds the exponents from which a piece's loss is computed: its
    /// error, some units in the last place of that, counts against the step.
    fn new(lowest: f64, highest: f64, step: f64, size: f64) -> Self {
        let first = floor(lowest / step) as i64 - 1;
        let last = floor(highest / step) as i64 + 2;
        let slack = 2e-10 + 1.5e-15 * (2.0 + size) / step;
        let lattice = Lattice {
            first,
            masses: vec![0.0; (last - first + 1) as usize],
            infinity: 0.0,
            minus_infinity: 0.0,
            raised: 2.0 * slack,
        };
        Self { lattice, step, inverse_gap: -1.0 / expm1(-step), slack }
    }

    /// Splits a piece of loss within `[index, index + 1] * step`: `mass` under
    /// P, of which `excess = mass - e^{index step} * (mass under Q)`.
    fn split(&mut self, index: i64, mass: f64, excess: f64) {
        let upper = (excess * self.inverse_gap).clamp(0.0, mass);
        let slack = self.slack * mass;
        let position = (index - self.lattice.first) as usize;
        self.lattice.masses[position] += mass - upper + slack;
        self.lattice.masses[position + 1] += upper + slack;
    }

    fn atom(&mut self, loss: f64, mass: f64) {
        let index = floor(loss / self.step) as i64;
        let above = loss - index as f64 * self.step;
        self.split(index, mass, mass * -expm1(-above));
    }

    /// Mass of P moved up to a lattice point without regard to Q.
    fn lift(&mut self, index: i64, mass: f64) {
        let position = (index - self.lattice.first) as usize;
        self.lattice.masses[position] += mass;
    }
}

/// The mechanism on the lattice; `tail` is the mass that may be cut from each
/// end.
pub(super) fn discretise(loss: Loss, step: f64, tail: f64) -> Certified<Lattice> {
    Ok(match loss {
        Loss::Gaussian { mu } => sampled(Normal { q: 1.0, sigma: 1.0 / mu }, step, tail)?,
        Loss::SampledGaussian { q, sigma } => sampled(Normal { q, sigma }, step, tail)?,
        Loss::Laplace { epsilon } => laplace(epsilon, step),
        Loss::DiscreteLaplace { epsilon, units } => discrete_laplace(epsilon, units, step),
        Loss::BlackBox { epsilon, delta } => black_box(epsilon, delta, step),
    })
}

fn black_box(epsilon: f64, delta: f64, step: f64) -> Lattice {
    let mut builder = Builder::new(-epsilon, epsilon, step, epsilon);
    let yes = 1.0 / (1.0 + exp(-epsilon));
    builder.atom(epsilon, (1.0 - delta) * yes);
    builder.atom(-epsilon, (1.0 - delta) * yes * exp(-epsilon));
    builder.lattice.infinity = delta;
    builder.lattice.minus_infinity = delta;
    builder.lattice
}

/// Continuous Laplace: atoms at both ends and density `e^{(l - eps)/2}/4`.
fn laplace(epsilon: f64, step: f64) -> Lattice {
    let mut builder = Builder::new(-epsilon, epsilon, step, epsilon);
    builder.atom(epsilon, 0.5);
    builder.atom(-epsilon, 0.5 * exp(-epsilon));
    let last = floor(epsilon / step) as i64;
    for index in floor(-epsilon / step) as i64..=last {
        let base = index as f64 * step;
        let low = base.max(-epsilon);
        let half = 0.5 * (((index + 1) as f64 * step).min(epsilon) - low);
        if half > 0.0 {
            let mass = 0.5 * exp(0.5 * (low - epsilon)) * expm1(half);
            let other = 0.5 * exp(base - 0.5 * (epsilon + low)) * -expm1(-half);
            builder.split(index, mass, mass - other);
        }
    }
    builder.lattice
}

/// Discrete Laplace: losses `epsilon (1 - 2x/units)` for `x` in `0..=units`.
fn discrete_laplace(epsilon: f64, units: u64, step: f64) -> Lattice {
    let mut builder = Builder::new(-epsilon, epsilon, step, epsilon);
    let per_unit = epsilon / units as f64;
    let one_plus = 2.0 + expm1(-per_unit);
    builder.atom(epsilon, 1.0 / one_plus);
    builder.atom(-epsilon, exp(-epsilon) / one_plus);
    let last = units as f64 - 1.0;
    if 2.0 * per_unit >= step {
        for x in 1..units {
            let x = x as f64;
            let mass = exp(-x * per_unit) * -expm1(-per_unit) / one_plus;
            builder.atom(epsilon - 2.0 * x * per_unit, mass);
        }
        return builder.lattice;
    }
    // Many outcomes fall between two lattice points: sum them as one piece.
    let mut from = 1.0;
    while from <= last {
        let index = floor((epsilon - 2.0 * from * per_unit) / step) as i64;
        let to = floor((epsilon - index as f64 * step) / (2.0 * per_unit)).clamp(from, last);
        let together = -expm1(-(to - from + 1.0) * per_unit) / one_plus;
        let mass = exp(-from * per_unit) * together;
        let other = exp(index as f64 * step - epsilon + to * per_unit) * together;
        builder.split(index, mass, mass - other);
        from = to + 1.0;
    }
    builder.lattice
}

/// Q = N(0, sigma^2) against P = (1-q) Q + q N(1, sigma^2).
#[derive(Clone, Copy)]
pub(super) struct Normal {
    pub(super) q: f64,
    pub(super) sigma: f64,
}

/// Outcomes outside of which at most `tail` of either law lies.
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) above: f64,
    pub(super) below: f64,
}

impl Normal {
    fn exponent(self, z: f64) -> f64 {
        0.5 * ((2.0 * z - 1.0) / self.sigma) / self.sigma
    }

    /// The privacy loss at outcome `z`.
    pub(super) fn loss(self, z: f64) -> f64 {
        let exponent = self.exponent(z);
        if exponent > 30.0 {
            exponent + log(self.q + (1.0 - self.q) * exp(-exponent))
        } else if self.q == 1.0 {
            exponent
        } else {
            log1p(self.q * expm1(exponent))
        }
    }

    /// The outcome at which the loss is `loss`; minus infinity below all.
    fn outcome(self, loss: f64, expm1_loss: f64) -> f64 {
        let scaled = if self.q == 1.0 {
            loss
        } else if loss > 30.0 {
            loss - log(self.q) + log1p(-(1.0 - self.q) * exp(-loss))
        } else {
            let argument = expm1_loss / self.q;
            if argument <= -1.0 {
                return f64::NEG_INFINITY;
            }
            log1p(argument)
        };
        0.5 + self.sigma * self.sigma * scaled
    }

    pub(super) fn range(self, tail: f64) -> Certified<Range> {
        let tail = tail.clamp(1e-300, 0.25);
        let spread = -normal_quantile(0.5 * tail)? * self.sigma;
        let share = (0.5 * tail / self.q).min(0.5);
        let high = (1.0 - normal_quantile(share)? * self.sigma).max(spread);
        let low = -spread;
        let above =
            (1.0 - self.q) * normal_tail(high / self.sigma) + self.q * normal_tail((high - 1.0) / self.sigma);
        let raised = |mass: f64| mass * (1.0 + 1e-9) + f64::MIN_POSITIVE;
        Ok(Range { low, high, above: raised(above), below: raised(normal_tail(spread / self.sigma)) })
    }
}

/// Nodes and weights of Gauss-Legendre rules on [-1, 1].
const TWO: [(f64, f64); 2] = [(-0.577_350_269_189_625_7, 1.0), (0.577_350_269_189_625_7, 1.0)];
const FIVE: [(f64, f64); 5] = [
    (-0.906_179_845_938_664, 0.236_926_885_056_189_1),
    (-0.538_469_310_105_683_1, 0.478_628_670_499_366_5),
    (0.0, 0.568_888_888_888_888_9),
    (0.538_469_310_105_683_1, 0.478_628_670_499_366_5),
    (0.906_179_845_938_664, 0.236_926_885_056_189_1),
];

fn sampled(normal: Normal, step: f64, tail: f64) -> Certified<Lattice> {
    let range = normal.range(tail)?;
    let (lowest, highest) = (normal.loss(range.low), normal.loss(range.high));
    // The exponent matters as far as the sampled part weighs in the ratio.
    let weight = 1.0 - (1.0 - normal.q) * exp(-highest);
    let size = lowest.abs().max(highest.abs()) + normal.exponent(range.high).abs() * weight;
    let mut builder = Builder::new(lowest, highest, step, size);
    let (first, last) = (floor(lowest / step) as i64, floor(highest / step) as i64);
    let mut low = range.low;
    let mut base = expm1(first as f64 * step);
    for index in first..=last {
        let point = (index + 1) as f64 * step;
        let next_base = expm1(point);
        let high = if index == last { range.high } else { normal.outcome(point, next_base) };
        let high = high.min(range.high);
        if high > low {
            let (mass, excess) = integrate(normal, low, high, base);
            builder.split(index, mass, excess);
            low = high;
        }
        base = next_base;
    }
    // Outcomes below: P's mass is lifted, Q's counts as out of P's reach.
    // Above: P's mass is out of Q's reach, and also stays at the top, where it
    // stands for Q's.
    builder.lift(first + 1, range.below);
    builder.lattice.minus_infinity = range.below;
    builder.lift(last, range.above);
    builder.lattice.infinity = range.above;
    Ok(builder.lattice)
}

/// Widths up to which the two rules place a cell's mass with a relative error
/// below 2e-10, in deviations over one plus the distance to the farther centre.
const NARROW: f64 = 2e-3;
const PANEL: f64 = 0.2;

/// The mass of P between two outcomes, and its excess over `1 + base` times
/// that of Q.
fn integrate(normal: Normal, low: f64, high: f64, base: f64) -> (f64, f64) {
    let width = (high - low) / normal.sigma;
    let farthest = (1.0 - low).abs().max(high.abs()).max(low.abs()) / normal.sigma;
    let roughness = width * (1.0 + farthest);
    let scale = exp(-LOG_SQRT_TWO_PI);
    let (mut mass, mut excess) = (0.0, 0.0);
    let mut add = |density: f64, ratio_excess: f64| {
        mass += density * (1.0 + ratio_excess);
        excess += density * (ratio_excess - base);
    };
    if roughness <= NARROW {
        // Both exponentials move little across the cell: one evaluation at
        // its middle, and a short series.
        let (middle, half) = (0.5 * (low + high), 0.5 * width);
        let deviations = middle / normal.sigma;
        let density = half * scale * exp(-0.5 * deviations * deviations);
        let ratio = normal.q * exp(normal.exponent(middle));
        for (node, weight) in TWO {
            let moved = half * node;
            let here = density * weight * short_exp(-moved * (deviations + 0.5 * moved));
            add(here, ratio * short_exp(moved / normal.sigma) - normal.q);
        }
        return (mass, excess);
    }
    let panels = (roughness / PANEL).ceil().max(1.0);
    let half = 0.5 * (high - low) / panels;
    for panel in 0..panels as u32 {
        let middle = low + half * (2.0 * f64::from(panel) + 1.0);
        for (node, weight) in FIVE {
            let z = middle + half * node;
            let deviations = z / normal.sigma;
            let density = weight * scale * half / normal.sigma * exp(-0.5 * deviations * deviations);
            add(density, normal.q * expm1(normal.exponent(z)));
        }
    }
    (mass, excess)
}

/// `e^x` for `|x| < 0.01`, to rounding: the first term left out is below
/// 1e-20.
fn short_exp(x: f64) -> f64 {
    let tail = 1.0 + x / 5.0 * (1.0 + x / 6.0 * (1.0 + x / 7.0));
    1.0 + x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * tail)))
}
