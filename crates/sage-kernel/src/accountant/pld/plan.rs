//! Chooses step, window and tilt for one composition.
//!
//! Everything here is a heuristic based on a coarse sketch of each loss. A poor choice
//! gives a loose bound but never an invalid one: the convolution charges whatever the
//! window or the tilt excludes. No number computed here may enter a bound.

use libm::{exp, exp2, expm1, log, log1p, sqrt};

use sage_numerics::TiltedWindow;

use super::super::parameter::{AccountantError, Certified};
use super::Part;

/// One lattice for both directions, and a window for each.
pub(super) struct Plan {
    pub(super) step: f64,
    /// The epsilon that the plan is made for.
    pub(super) epsilon: f64,
    /// Transform length, a power of two.
    pub(super) length: usize,
    /// Mass that may be cut from each tail of one use of a mechanism.
    pub(super) tail: f64,
    pub(super) remove: TiltedWindow,
    pub(super) add: TiltedWindow,
}

/// The share of delta for the cut tails.
const TAIL_SHARE: f64 = 3e-5;
/// Log of the share of delta for each end of the window.
const LOG_WINDOW_SHARE: f64 = -10.0;
/// Log of how much larger than delta, or than the minimum, the tilted distribution
/// may be beyond epsilon: while epsilon is a guess, and once it is known.
const LOG_ROUNDING: (f64, f64) = (2.5, 0.3);
/// The target error of epsilon: absolute, and relative for a small epsilon of one mechanism,
/// which calibration requests repeatedly.
const AIM: (f64, f64) = (4e-6, 2e-4);
/// An epsilon below this fraction of the first guess is computed again: wrapped mass below the guess may distort it.
pub(super) const GUESS: f64 = 0.6;
/// The largest log moment of a tilt. Composition refuses a tilt whose exponents are larger.
const LARGEST_MOMENT: f64 = 1400.0;
/// The most points of all transforms of one direction together.
const MOST_POINTS: usize = 1 << 25;

/// A loss distribution as weighted points.
fn sketch(part: Part, tail: f64) -> Vec<(f64, f64)> {
    let mut nodes = match part {
        Part::Laplace { epsilon, .. } => vec![(1.0, epsilon), (exp(-epsilon), -epsilon)],
        Part::Normal(normal) => {
            let (low, high) = normal.range(tail);
            let node = |index: u32| {
                let z = low + (high - low) * f64::from(index) / 128.0;
                let loss = normal.loss(z);
                (exp(loss - 0.5 * (z / normal.sigma) * (z / normal.sigma)), loss)
            };
            (0..=128).map(node).collect()
        }
    };
    let total: f64 = nodes.iter().map(|node| node.0).sum();
    nodes.iter_mut().for_each(|node| node.0 /= total);
    nodes
}

/// A rough plan for one direction: its window, the top of the window, its epsilon and
/// how fast the log of delta falls there, unless those are known. `moment` is the log moment at a tilt.
fn outline(
    log_delta: f64, spread: f64, known: Option<(f64, f64)>, moment: impl Fn(f64) -> f64,
) -> Certified<(TiltedWindow, f64, (f64, f64))> {
    let rungs = |sign: f64| (-42..=66).map(move |sixth| sign * exp2(f64::from(sixth) / 6.0) / spread);
    // If few outcomes carry the loss, its spread does not determine the relevant tilts.
    let plain = (-8..=12).map(|half| exp2(f64::from(half) / 2.0));
    let tilts = rungs(-1.0).chain([0.0]).chain(plain).chain(rungs(1.0)).map(|tilt| (tilt, moment(tilt)));
    let mut ladder: Vec<(f64, f64)> = tilts.filter(|rung| rung.1.abs() < LARGEST_MOMENT).collect();
    ladder.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The smallest Chernoff bound on the loss that is exceeded with this probability.
    let smallest = |log_chance: f64, credit: f64| {
        let bound = |rung: &(f64, f64)| (rung.1 - log_chance - credit * log1p(rung.0)) / rung.0;
        let bounds = ladder.iter().filter(|rung| rung.0 > 0.0).map(|rung| (bound(rung), rung.0));
        bounds.min_by(|a, b| a.0.total_cmp(&b.0)).ok_or(AccountantError::Unbounded)
    };
    let (epsilon, steepness) = known.map_or_else(|| smallest(log_delta, 1.0), Ok)?;
    let (highest, tilt_above) = smallest(log_delta + LOG_WINDOW_SHARE, 0.0)?;
    let epsilon = epsilon.max(0.0);
    // Tilted mass outside the window is wrapped into it and must be negligible
    // there. Of the tilts that keep rounding errors small, the one with the
    // narrowest window is chosen.
    let size_at = |rung: &(f64, f64)| rung.1 - rung.0 * epsilon - log_delta;
    // The top of the window comes from a steeper tilt, which the steepest one has not.
    let candidates = &ladder[..ladder.len().saturating_sub(1)];
    let least = candidates.iter().map(size_at).fold(f64::INFINITY, f64::min).max(0.0);
    let allowed = if known.is_some() { LOG_ROUNDING.1 } else { LOG_ROUNDING.0 };
    let mut best = None;
    let mut narrowest = f64::INFINITY;
    for (index, &(tilt, own)) in candidates.iter().enumerate() {
        let size = size_at(&(tilt, own));
        if tilt < 0.0 || size > allowed + least {
            continue;
        }
        let edge = |&(other, moment): &(f64, f64)| (moment - own + size - LOG_WINDOW_SHARE) / (other - tilt);
        let low = ladder[..index].iter().map(edge).fold(f64::NEG_INFINITY, f64::max).min(0.0);
        let top = ladder[index + 1..].iter().map(edge).fold(f64::INFINITY, f64::min);
        // Mass from above is wrapped to the bottom and is harmless below epsilon. If the guess is too large, the
        // resulting epsilon comes from wrapped mass.
        let harmless = if known.is_some() { 0.0 } else { GUESS * epsilon };
        let top = (top - harmless + low).max(highest);
        if top - low < narrowest {
            narrowest = top - low;
            best = Some((TiltedWindow { tilt, tilt_above, low }, top, (epsilon, steepness)));
        }
    }
    best.ok_or(AccountantError::Unbounded)
}

/// The step for which discretisation moves epsilon by the target error. Splitting adds about
/// `step^2 / 6` of variance per use, which moves epsilon by half the steepness times that.
pub(super) fn step_for(items: &[(Part, u64)], aim: f64, (epsilon, steepness): (f64, f64)) -> f64 {
    let uses: f64 = items.iter().map(|item| item.1 as f64).sum();
    sqrt(12.0 * aim * (AIM.0 + AIM.1 * epsilon / (1.0 + epsilon) / items.len() as f64) / (steepness * uses))
}

impl Plan {
    /// `found` is an epsilon with its steepness, if one is known.
    pub(super) fn new(items: &[(Part, u64)], aim: f64, delta: f64, found: Option<(f64, f64)>) -> Certified<Self> {
        let uses: f64 = items.iter().map(|item| item.1 as f64).sum();
        let tail = TAIL_SHARE * delta / uses;
        let sketches: Vec<_> = items.iter().map(|&(part, count)| (sketch(part, tail), count as f64)).collect();
        let moment = |tilt: f64| -> f64 {
            let one = |nodes: &[(f64, f64)]| log1p(nodes.iter().map(|node| node.0 * expm1(tilt * node.1)).sum::<f64>());
            sketches.iter().map(|(nodes, count)| count * one(nodes)).sum()
        };
        // The root mean square of the loss, under P and under Q.
        let spread = |lean: f64| -> f64 {
            let one = |node: &(f64, f64)| node.0 * exp(lean * node.1) * node.1 * node.1;
            sqrt(sketches.iter().map(|(nodes, count)| count * nodes.iter().map(one).sum::<f64>()).sum())
        };
        let (remove, top, removed) = outline(log(delta), spread(0.0), found, moment)?;
        let (add, other_top, added) = outline(log(delta), spread(-1.0), found, |tilt| moment(-1.0 - tilt))?;
        let width = (top - remove.low).max(other_top - add.low);
        let outlined = if added.0 > removed.0 { added } else { removed };
        let wanted = step_for(items, aim, outlined);
        let longest = (MOST_POINTS / items.len().max(1)).clamp(1 << 12, 1 << 18);
        let points = (width / wanted / std::f64::consts::SQRT_2).clamp(1024.0, longest as f64);
        let length = 1 << (points as usize).next_power_of_two().min(longest).ilog2();
        // Splitting moves each use by less than one step in either direction.
        let moved = uses.min(4.5 * sqrt(uses)).min(length as f64 / 8.0);
        let step = width / (length as f64 - 2.0 * moved);
        // The most frequent pure epsilon is placed on a lattice point, where its atoms need no split.
        let pure = items.iter().filter(|(part, _)| matches!(part, Part::Laplace { .. }));
        let step = match pure.max_by_key(|item| item.1) {
            Some((Part::Laplace { epsilon, .. }, _)) if *epsilon > step => epsilon / (epsilon / step).floor(),
            _ => step,
        };
        if !(step.is_normal() && width.is_finite()) {
            return Err(AccountantError::Unbounded);
        }
        // Masses are at least one step apart, so a steeper tilt gains nothing.
        let steepest = (2.0 - log(delta)) / step;
        let fitted = |window: TiltedWindow| TiltedWindow {
            tilt: window.tilt.min(steepest),
            tilt_above: window.tilt_above.min(steepest),
            low: window.low - moved * step,
        };
        Ok(Self { step, epsilon: outlined.0, length, tail, remove: fitted(remove), add: fitted(add) })
    }
}
