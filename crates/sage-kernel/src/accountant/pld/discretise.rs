//! The privacy loss of one mechanism on a lattice, dominating the exact one.
//!
//! A pair of distributions (P, Q) becomes atoms at losses `index * step`. Every part of
//! the outcome space whose loss lies between two adjacent lattice points
//! is split between them so that its mass under P and under Q are both preserved;
//! that pair dominates the exact one in both directions. No atom may be
//! below its exact value: each is raised by more than its error
//! (`proofs/pld.md`, sections 1 and 2).

use libm::{exp, expm1, floor, log, log1p, sqrt};

use sage_numerics::{LatticeDistribution, exponentials};

use super::super::gaussian::{LOG_SQRT_TWO_PI, normal_tail};
use super::super::parameter::{AccountantError, Certified};
use super::Part;

/// The largest loss of one mechanism on a lattice, and the most points.
const WIDEST_LOSS: f64 = 500.0;
const MOST_POINTS: f64 = 4e6;

/// Masses under P at the losses `(first + position) * step`, the mass of P on outcomes
/// that Q cannot produce, and the mass of Q on outcomes that P cannot produce.
pub(super) struct Lattice {
    pub(super) step: f64,
    pub(super) first: i64,
    pub(super) masses: Vec<f64>,
    pub(super) infinity: f64,
    minus_infinity: f64,
    /// The relative amount by which each half of a split is raised.
    pub(super) slack: f64,
    inverse_gap: f64,
}

impl LatticeDistribution for Lattice {
    fn step(&self) -> f64 {
        self.step
    }
    fn first(&self) -> i64 {
        self.first
    }
    fn masses(&self) -> &[f64] {
        &self.masses
    }
    fn infinity(&self) -> f64 {
        self.infinity
    }
}

impl Lattice {
    /// An empty lattice. `size` bounds the exponents from which losses are
    /// computed: their rounding error, some units in the last place of `size`,
    /// is relative to the step.
    pub(super) fn new(lowest: f64, highest: f64, step: f64, size: f64) -> Certified<Self> {
        let reach = highest.max(-lowest);
        if !(reach <= WIDEST_LOSS && reach / step <= MOST_POINTS && step.is_normal()) {
            return Err(AccountantError::Unbounded);
        }
        let first = floor(lowest / step) as i64 - 1;
        let last = floor(highest / step) as i64 + 2;
        let slack = 2e-10 + 1.5e-15 * (2.0 + size) / step;
        let (masses, inverse_gap) = (vec![0.0; (last - first + 1) as usize], -1.0 / expm1(-step));
        Ok(Self { step, first, masses, infinity: 0.0, minus_infinity: 0.0, slack, inverse_gap })
    }

    /// The reversed pair (Q, P).
    pub(super) fn reversed(&self) -> Self {
        let last = self.first + self.masses.len() as i64 - 1;
        let ratios = exponentials(last, -1, -self.step, 0.0);
        let masses = self.masses.iter().rev().zip(ratios);
        let masses = masses.map(|(&mass, ratio)| mass * ratio * (1.0 + 1e-12)).collect();
        Self { first: -last, masses, infinity: self.minus_infinity, minus_infinity: self.infinity, ..*self }
    }

    /// Splits outcomes with a loss within `[index, index + 1] * step`: `mass` is their mass
    /// under P, and `excess = mass - e^{index step} * (mass under Q)`.
    fn split(&mut self, index: i64, mass: f64, excess: f64) {
        let upper = (excess * self.inverse_gap).max(0.0).min(mass);
        let slack = self.slack * mass;
        self.add(index, mass - upper + slack);
        self.add(index + 1, upper + slack);
    }

    fn add(&mut self, index: i64, mass: f64) {
        self.masses[(index - self.first) as usize] += mass;
    }
}

/// Discretises a mechanism; `tail` is the mass that may be cut from each
/// end.
pub(super) fn discretise(part: Part, step: f64, tail: f64) -> Certified<Lattice> {
    match part {
        Part::Normal(normal) => sampled(normal, step, tail),
        Part::Laplace { epsilon, units, delta } => {
            let mut lattice = laplace(epsilon, units as f64, step)?;
            lattice.masses.iter_mut().for_each(|mass| *mass *= 1.0 - delta);
            (lattice.infinity, lattice.minus_infinity) = (delta, delta);
            Ok(lattice)
        }
    }
}

/// Discrete Laplace: losses `epsilon (1 - 2x/units)` for `x` in `0..=units`;
/// those between two lattice points are summed and split together.
fn laplace(epsilon: f64, units: f64, step: f64) -> Certified<Lattice> {
    let mut lattice = Lattice::new(-epsilon, epsilon, step, epsilon)?;
    let per_unit = epsilon / units;
    let one_plus = 2.0 + expm1(-per_unit);
    for (loss, mass) in [(epsilon, 1.0 / one_plus), (-epsilon, exp(-epsilon) / one_plus)] {
        let index = floor(loss / step) as i64;
        lattice.split(index, mass, mass * -expm1(index as f64 * step - loss));
    }
    let mut from = 1.0;
    while from < units {
        let index = floor((epsilon - 2.0 * from * per_unit) / step);
        let to = floor((epsilon - index * step) / (2.0 * per_unit)).clamp(from, units - 1.0);
        let together = -expm1(-(to - from + 1.0) * per_unit) / one_plus;
        let mass = exp(-from * per_unit) * together;
        let other = exp(index * step - epsilon + to * per_unit) * together;
        lattice.split(index as i64, mass, mass - other);
        // Beyond 2^53 a float cannot represent the next outcome; the mass of one outcome is then far below the slack.
        from = (to + 1.0).max(from * (1.0 + f64::EPSILON));
    }
    Ok(lattice)
}

/// Q = N(0, sigma^2) against P = (1-q) Q + q N(1, sigma^2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Normal {
    pub(super) q: f64,
    pub(super) sigma: f64,
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

    /// The outcome with this loss; minus infinity if the loss is below all others.
    fn outcome(self, loss: f64, expm1_loss: f64) -> f64 {
        let scaled = if self.q == 1.0 {
            loss
        } else if loss > 30.0 {
            loss - log(self.q) + log1p(-(1.0 - self.q) * exp(-loss))
        } else if expm1_loss <= -self.q {
            return f64::NEG_INFINITY;
        } else {
            log1p(expm1_loss / self.q)
        };
        0.5 + self.sigma * self.sigma * scaled
    }

    /// Outcomes outside of which at most about `tail` of either distribution lies.
    pub(super) fn range(self, tail: f64) -> (f64, f64) {
        let deviations = |mass: f64| self.sigma * sqrt(-2.0 * log(mass.clamp(1e-300, 1.0)));
        let spread = deviations(tail);
        (-spread, spread.max(1.0 + deviations(tail / self.q)))
    }
}

fn sampled(normal: Normal, step: f64, tail: f64) -> Certified<Lattice> {
    let (bottom, top) = normal.range(tail);
    // Where Q's density is not a normal float, P's density, a multiple of it, is inaccurate: refused as too wide.
    let representable = if top < 37.5 * normal.sigma { top } else { f64::INFINITY };
    let (lowest, highest) = (normal.loss(bottom), normal.loss(representable));
    // The exponent counts as far as the sampled component contributes to the ratio.
    let weight = 1.0 - (1.0 - normal.q) * exp(-highest);
    let size = highest.max(-lowest) + normal.exponent(top).abs() * weight;
    let mut lattice = Lattice::new(lowest, highest, step, size)?;
    let (first, last) = (floor(lowest / step) as i64, floor(highest / step) as i64);
    let mut low = bottom;
    let mut base = expm1(first as f64 * step);
    for index in first..=last {
        let point = (index + 1) as f64 * step;
        let next_base = expm1(point);
        let high = if index == last { top } else { normal.outcome(point, next_base).min(top) };
        if high > low {
            let (mass, excess) = integrate(normal, low, high, base);
            lattice.split(index, mass, excess);
            low = high;
        }
        base = next_base;
    }
    // Outcomes below: P's mass is moved up, and Q's counts as impossible under P.
    // Above: P's mass counts as impossible under Q, and is also kept at the top, where
    // it covers Q's mass.
    let tail = |z: f64| normal_tail(z / normal.sigma) * (1.0 + 1e-9) + f64::MIN_POSITIVE;
    let (below, above) = (tail(-bottom), (1.0 - normal.q) * tail(top) + normal.q * tail(top - 1.0));
    lattice.add(first + 1, below);
    lattice.add(last, above);
    (lattice.minus_infinity, lattice.infinity) = (below, above);
    Ok(lattice)
}

/// The three-node Gauss-Legendre rule on [-1, 1].
const NODES: [(f64, f64); 3] =
    [(-0.774_596_669_241_483_4, 5.0 / 9.0), (0.0, 8.0 / 9.0), (0.774_596_669_241_483_4, 5.0 / 9.0)];
/// The width of a panel on which the rule has a relative error below 2e-10,
/// in deviations over one plus the distance to the farther centre.
const PANEL: f64 = 0.05;

/// The mass of P between two outcomes, and its excess over `1 + base` times
/// the mass of Q.
fn integrate(normal: Normal, low: f64, high: f64, base: f64) -> (f64, f64) {
    let farthest = (1.0 - low).abs().max(high.abs()).max(low.abs()) / normal.sigma;
    let panels = ((high - low) / normal.sigma * (1.0 + farthest) / PANEL).ceil();
    let half = 0.5 * (high - low) / normal.sigma / panels;
    let (mut mass, mut excess) = (0.0, 0.0);
    for panel in 0..panels as u32 {
        // Both exponentials vary little across a panel: one evaluation at its
        // middle and a short series suffice.
        let deviations = low / normal.sigma + half * (2.0 * f64::from(panel) + 1.0);
        let density = half * exp(-0.5 * deviations * deviations - LOG_SQRT_TWO_PI);
        let ratio = normal.q * exp(normal.exponent(deviations * normal.sigma));
        for (node, weight) in NODES {
            let moved = half * node;
            let here = density * weight * short_exp(-moved * (deviations + 0.5 * moved));
            let gained = ratio * short_exp(moved / normal.sigma) - normal.q;
            mass += here * (1.0 + gained);
            excess += here * (gained - base);
        }
    }
    (mass, excess)
}

/// `e^x` for `|x| < 0.05`, to rounding: the first omitted term is below 1e-15.
fn short_exp(x: f64) -> f64 {
    let tail = 1.0 + x / 5.0 * (1.0 + x / 6.0 * (1.0 + x / 7.0));
    1.0 + x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * tail)))
}
