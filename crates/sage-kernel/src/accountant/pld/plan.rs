//! Step, window and tilt for one composition.
//!
//! Everything here is a guess from a coarse sketch of each loss. A poor guess
//! gives a loose bound and nothing worse: `compose` charges whatever the
//! window or the tilt leaves out. No number computed here may enter a bound.

use libm::{exp, expm1, log, log1p, sqrt};

use super::super::parameter::{AccountantError, Certified};
use super::Loss;
use super::discretise::Normal;

/// What is asked of the composition.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    /// The epsilon at this delta.
    Delta(f64),
    /// The delta at this epsilon, thought to be no smaller than the second.
    Epsilon(f64, f64),
}

/// Where one direction is looked at.
#[derive(Clone, Copy)]
pub(super) struct Side {
    /// The exponential tilt of the lattice law.
    pub(super) tilt: f64,
    /// The tilt whose Chernoff bound closes the window above.
    pub(super) tilt_above: f64,
    /// The tilt below which the window is closed for the lower bound.
    pub(super) tilt_below: f64,
    /// The lowest loss of the window.
    pub(super) low: f64,
}

/// One lattice for both directions, and a side for each.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) step: f64,
    width: f64,
    uses: f64,
    /// Transform length, a power of two.
    pub(super) length: usize,
    /// Mass that may be cut from each end of one use of a mechanism.
    pub(super) tail: f64,
    pub(super) remove: Side,
    pub(super) add: Side,
}

/// The widest loss of one mechanism put on a lattice.
const WIDEST_LOSS: f64 = 500.0;
/// Part of delta the cut tails may take, for few and for many uses; a tail is
/// cheap to keep only while the lattice is coarse.
const TAIL_SHARES: (f64, f64) = (3e-5, 3e-4);
/// Accuracy aimed at: relative, and absolute.
const RELATIVE_AIM: f64 = 5e-5;
const ABSOLUTE_AIM: f64 = 6e-6;

/// A loss as weighted points.
struct Sketch {
    count: f64,
    nodes: Vec<(f64, f64)>,
}

fn sketch(loss: Loss, count: u64, tail: f64) -> Certified<Sketch> {
    let mut nodes = match loss {
        Loss::Gaussian { mu } => normal_nodes(Normal { q: 1.0, sigma: 1.0 / mu }, tail)?,
        Loss::SampledGaussian { q, sigma } => normal_nodes(Normal { q, sigma }, tail)?,
        Loss::BlackBox { epsilon, .. } => vec![(1.0, epsilon), (exp(-epsilon), -epsilon)],
        Loss::Laplace { epsilon } | Loss::DiscreteLaplace { epsilon, .. } => {
            let mut nodes = vec![(0.5, epsilon), (0.5 * exp(-epsilon), -epsilon)];
            for index in 0..16 {
                let loss = epsilon * ((f64::from(index) + 0.5) / 8.0 - 1.0);
                nodes.push((0.25 * exp(0.5 * (loss - epsilon)) * epsilon / 8.0, loss));
            }
            nodes
        }
    };
    if nodes.iter().any(|(_, loss)| loss.is_nan() || loss.abs() > WIDEST_LOSS) {
        return Err(AccountantError::Unbounded);
    }
    let total: f64 = nodes.iter().map(|node| node.0).sum();
    nodes.iter_mut().for_each(|node| node.0 /= total);
    Ok(Sketch { count: count as f64, nodes })
}

fn normal_nodes(normal: Normal, tail: f64) -> Certified<Vec<(f64, f64)>> {
    const NODES: u32 = 128;
    let range = normal.range(tail)?;
    let step = (range.high - range.low) / f64::from(NODES);
    let node = |index: u32| {
        let z = range.low + step * f64::from(index);
        let loss = normal.loss(z);
        let deviations = z / normal.sigma;
        (exp(loss - 0.5 * deviations * deviations), loss)
    };
    Ok((0..=NODES).map(node).collect())
}

/// The log moment of the composed sketch at `tilt`, infinite if it overflows.
fn log_moment(sketches: &[Sketch], tilt: f64) -> f64 {
    let one = |sketch: &Sketch| {
        let terms = sketch.nodes.iter().map(|&(weight, loss)| weight * expm1(tilt * loss));
        sketch.count * log1p(terms.sum::<f64>())
    };
    let total: f64 = sketches.iter().map(one).sum();
    if total.is_nan() { f64::INFINITY } else { total }
}

/// Mean and deviation of the composed sketch under `tilt`.
fn tilted_spread(sketches: &[Sketch], tilt: f64) -> (f64, f64) {
    let (mut mean, mut variance) = (0.0, 0.0);
    for sketch in sketches {
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for &(weight, loss) in &sketch.nodes {
            let tilted = weight * exp(tilt * loss);
            sum += tilted;
            first += tilted * loss;
            second += tilted * loss * loss;
        }
        let centre = first / sum;
        mean += sketch.count * centre;
        variance += sketch.count * (second / sum - centre * centre).max(0.0);
    }
    (mean, sqrt(variance))
}

/// A side before the step is known.
struct Outline {
    /// How fast the log of delta falls with epsilon.
    steepness: f64,
    tilt: f64,
    tilt_above: f64,
    tilt_below: f64,
    low: f64,
    high: f64,
    epsilon: f64,
}

/// Looks at one direction; `turn` maps a tilt of that direction to the tilt of
/// the sketch, which is drawn from the remove direction.
fn outline(sketches: &[Sketch], goal: Goal, turn: impl Fn(f64) -> f64, sign: f64) -> Certified<Outline> {
    let (_, spread) = tilted_spread(sketches, turn(0.0));
    if spread.is_nan() || spread <= 0.0 {
        return Err(AccountantError::Unbounded);
    }
    let ladder: Vec<(f64, f64)> = (-14..=22)
        .map(|half| exp(f64::from(half) * 0.5 * std::f64::consts::LN_2) / spread)
        .map(|tilt| (tilt, log_moment(sketches, turn(tilt))))
        .filter(|rung| rung.1.is_finite())
        .collect();
    let score = |&(tilt, moment): &(f64, f64)| match goal {
        Goal::Delta(delta) => (moment - log(delta) - log(1.0 + tilt)) / tilt,
        Goal::Epsilon(epsilon, _) => moment - tilt * epsilon,
    };
    let best = ladder.iter().min_by(|a, b| score(a).total_cmp(&score(b)));
    let &(tilt, moment) = best.ok_or(AccountantError::Unbounded)?;
    let (epsilon, log_delta) = match goal {
        Goal::Delta(delta) => (score(&(tilt, moment)).max(0.0), log(delta)),
        Goal::Epsilon(epsilon, delta) => (epsilon, log(delta)),
    };
    // A gentler tilt than the best spreads the law less; rounding errors are
    // small enough to give up e^4 for it.
    let enough =
        |rung: &&(f64, f64)| rung.1 - rung.0 * epsilon <= log_delta.max(moment - tilt * epsilon) + 4.0;
    let &(gentle, gentle_moment) = ladder.iter().find(enough).unwrap_or(&(tilt, moment));
    let (mean, deviation) = tilted_spread(sketches, turn(gentle));
    // Above the window the untilted mass must vanish beside delta; below it
    // the tilted mass must, which is wrapped to the top.
    let certified = |rung: &&(f64, f64)| (rung.1 - log_delta + 11.5) / rung.0;
    let above = ladder.iter().min_by(|a, b| certified(a).total_cmp(&certified(b)));
    let above = above.ok_or(AccountantError::Unbounded)?;
    let vanishing = log_delta - 9.0 - (gentle_moment - gentle * epsilon);
    let (low, tilt_below) = ladder
        .iter()
        .step_by(2)
        .map(|&(back, _)| {
            let moment = log_moment(sketches, turn(gentle - back));
            ((gentle_moment - moment + vanishing) / back, gentle - back)
        })
        .fold((f64::NEG_INFINITY, 0.0), |best, next| if next.0 > best.0 { next } else { best });
    Ok(Outline {
        steepness: tilt,
        tilt: gentle,
        tilt_above: above.0,
        tilt_below,
        low: low.min(0.0),
        high: certified(&above).max(sign * mean + 4.5 * deviation),
        epsilon,
    })
}

/// The longest transform worth its time for this many different mechanisms.
fn longest(different: usize) -> f64 {
    match different {
        0..=4 => 262_144.0,
        5..=64 => 65_536.0,
        _ => 16_384.0,
    }
}

impl Plan {
    pub(super) fn new(items: &[(Loss, u64)], goal: Goal) -> Certified<Self> {
        let uses: f64 = items.iter().map(|item| item.1 as f64).sum();
        let (Goal::Delta(delta) | Goal::Epsilon(_, delta)) = goal;
        let share = if uses < 1000.0 { TAIL_SHARES.0 } else { TAIL_SHARES.1 };
        let tail = share * delta / uses;
        let mut sketches = Vec::with_capacity(items.len());
        for &(loss, count) in items {
            sketches.push(sketch(loss, count, tail)?);
        }
        let remove = outline(&sketches, goal, |tilt| tilt, 1.0)?;
        let add = outline(&sketches, goal, |tilt| -1.0 - tilt, -1.0)?;
        let width = (remove.high - remove.low).max(add.high - add.low);
        let largest = remove.epsilon.max(add.epsilon);
        // The direction that does not decide may be moved further.
        let wanted =
            |side: &Outline| step_for(aim(largest) + 0.2 * (largest - side.epsilon), side.steepness, uses);
        let wanted = wanted(&remove).min(wanted(&add));
        if !(wanted.is_normal() && width.is_finite()) {
            return Err(AccountantError::Unbounded);
        }
        let side = |outline: Outline| Side {
            tilt: outline.tilt,
            tilt_above: outline.tilt_above,
            tilt_below: outline.tilt_below,
            low: outline.low,
        };
        let plan = Self { step: wanted, length: 0, width, uses, tail, remove: side(remove), add: side(add) };
        plan.with_step(items, wanted).ok_or(AccountantError::Unbounded)
    }

    /// The same plan on a finer lattice, if what was found calls for one.
    pub(super) fn refined(&self, items: &[(Loss, u64)], epsilon: f64, steepness: f64) -> Option<Self> {
        let wanted = step_for(aim(epsilon), steepness, self.uses);
        let refined = self.with_step(items, wanted)?;
        (refined.step < 0.7 * self.step).then_some(refined)
    }

    fn with_step(&self, items: &[(Loss, u64)], wanted: f64) -> Option<Self> {
        let finest = self.width / longest(items.len());
        let step = align(items, wanted.min(self.width / 1024.0).max(finest));
        let length = length(self.width / step);
        step.is_normal().then_some(Self { step, length, ..*self })
    }
}

/// The error of epsilon aimed at.
fn aim(epsilon: f64) -> f64 {
    ABSOLUTE_AIM + RELATIVE_AIM * epsilon
}

/// Splitting adds about `step^2 / 6` of variance per use, which moves epsilon
/// by half the steepness times that.
fn step_for(aim: f64, steepness: f64, uses: f64) -> f64 {
    sqrt(12.0 * aim / (steepness * uses))
}

fn length(points: f64) -> usize {
    let at_most = points.clamp(256.0, 524_288.0) as usize;
    at_most.next_power_of_two()
}

/// Puts the most used pure mechanism's epsilon on the lattice, where its atoms
/// need no split.
fn align(items: &[(Loss, u64)], step: f64) -> f64 {
    let pure = items.iter().filter_map(|(loss, count)| Some((loss.pure_epsilon()?, *count)));
    match pure.max_by_key(|&(_, count)| count) {
        Some((epsilon, _)) if epsilon > step => epsilon / (epsilon / step).ceil(),
        _ => step,
    }
}
