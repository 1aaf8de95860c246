//! Chooses the lattice (step, window and tilt) on which a composition of privacy losses is convolved.
//!
//! Everything here is a heuristic based on a coarse sketch of each loss. A poor choice gives a loose bound but never an
//! invalid one: the discretisation and the [`Convolution`](crate::Convolution) charge whatever the step, the window or
//! the tilt excludes, for every value of them. No number computed here may enter a bound.

use libm::{exp, exp2, expm1, log, log1p, sqrt};

use crate::TiltedWindow;

/// A coarse sketch of the loss of one mechanism.
pub struct LossSketch {
    /// Points of the distribution: a weight, in any unit, and a loss.
    pub points: Vec<(f64, f64)>,
    /// The largest loss of a mechanism that has one.
    pub pure: Option<f64>,
}

/// One lattice for both directions, and a window for each.
pub struct LatticeChoice {
    /// The step of the lattice.
    pub step: f64,
    /// The epsilon that the choice is made for.
    pub epsilon: f64,
    /// The length of the transform, a power of two.
    pub length: usize,
    /// The mass that may be cut from each tail of one use of a mechanism.
    pub tail: f64,
    /// The window for the loss of removing a unit.
    pub remove: TiltedWindow,
    /// The window for the loss of adding a unit.
    pub add: TiltedWindow,
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
pub const GUESS: f64 = 0.6;
/// The largest log moment of a tilt. Composition refuses a tilt whose exponents are larger.
const LARGEST_MOMENT: f64 = 1400.0;
/// The most points of all transforms of one direction together.
const MOST_POINTS: usize = 1 << 25;

/// The sketch with weights that add up to one.
fn normalised(mut sketch: LossSketch) -> LossSketch {
    let total: f64 = sketch.points.iter().map(|node| node.0).sum();
    sketch.points.iter_mut().for_each(|node| node.0 /= total);
    sketch
}

/// A rough plan for one direction: its window, the top of the window, its epsilon and
/// how fast the log of delta falls there, unless those are known. `moment` is the log moment at a tilt.
fn outline(
    log_delta: f64, spread: f64, known: Option<(f64, f64)>, moment: impl Fn(f64) -> f64,
) -> Option<(TiltedWindow, f64, (f64, f64))> {
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
        bounds.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (epsilon, steepness) = known.or_else(|| smallest(log_delta, 1.0))?;
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
    best
}

/// The step for which discretisation moves epsilon by the target error. Splitting adds about
/// `step^2 / 6` of variance per use, which moves epsilon by half the steepness times that.
pub fn step_for<Item>(items: &[(Item, u64)], aim: f64, (epsilon, steepness): (f64, f64)) -> f64 {
    let uses: f64 = items.iter().map(|item| item.1 as f64).sum();
    sqrt(12.0 * aim * (AIM.0 + AIM.1 * epsilon / (1.0 + epsilon) / items.len() as f64) / (steepness * uses))
}

impl LatticeChoice {
    /// Chooses a lattice for mechanisms with their numbers of uses; `None` if no lattice is suitable.
    ///
    /// `sketch` receives a mechanism and the mass that may be cut from each of its tails. `found` is an epsilon with its
    /// steepness, if one is known.
    pub fn new<Item: Copy>(
        items: &[(Item, u64)], sketch: impl Fn(Item, f64) -> LossSketch, aim: f64, delta: f64,
        found: Option<(f64, f64)>,
    ) -> Option<Self> {
        let uses: f64 = items.iter().map(|item| item.1 as f64).sum();
        let tail = TAIL_SHARE * delta / uses;
        let sketches: Vec<_> = items.iter().map(|&(item, count)| (normalised(sketch(item, tail)), count)).collect();
        let moment = |tilt: f64| -> f64 {
            let one = |nodes: &[(f64, f64)]| log1p(nodes.iter().map(|node| node.0 * expm1(tilt * node.1)).sum::<f64>());
            sketches.iter().map(|(sketch, count)| *count as f64 * one(&sketch.points)).sum()
        };
        // The root mean square of the loss, under P and under Q.
        let spread = |lean: f64| -> f64 {
            let one = |node: &(f64, f64)| node.0 * exp(lean * node.1) * node.1 * node.1;
            sqrt(
                sketches.iter().map(|(sketch, count)| *count as f64 * sketch.points.iter().map(one).sum::<f64>()).sum(),
            )
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
        let pure = sketches.iter().filter_map(|(sketch, count)| Some((sketch.pure?, *count)));
        let step = match pure.max_by_key(|item| item.1) {
            Some((epsilon, _)) if epsilon > step => epsilon / (epsilon / step).floor(),
            _ => step,
        };
        if !(step.is_normal() && width.is_finite()) {
            return None;
        }
        // Masses are at least one step apart, so a steeper tilt gains nothing.
        let steepest = (2.0 - log(delta)) / step;
        let fitted = |window: TiltedWindow| TiltedWindow {
            tilt: window.tilt.min(steepest),
            tilt_above: window.tilt_above.min(steepest),
            low: window.low - moved * step,
        };
        Some(Self { step, epsilon: outlined.0, length, tail, remove: fitted(remove), add: fitted(add) })
    }
}
