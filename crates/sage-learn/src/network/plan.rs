//! The noise that the steps of a training need for a privacy target.

use sage_kernel::{Blocks, Ceiling, Cost, Delta, Filter, Lane, Mechanism, Rate, Rule, Sigma, Step};

use super::shape::Shape;

/// The public sizes of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// A public estimate of the number of rows, such as a released count. It decides the sampling rate.
    pub rows: f64,
    /// The expected number of rows of a step.
    pub batch: f64,
    /// The number of steps.
    pub steps: u32,
    /// The norm to which the gradient of one row is clipped.
    pub clip: f64,
}

impl Work {
    /// The steps of `epochs` passes over the rows.
    pub fn epochs(rows: f64, batch: f64, epochs: f64, clip: f64) -> Self {
        let steps = (epochs * rows / batch).round().clamp(1.0, f64::from(u32::MAX)) as u32;
        Self { rows, batch, steps, clip }
    }
}

/// Why a training could not be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// A size is missing, zero, negative or not finite; the text names it.
    Parameter(&'static str),
    /// The rule charges only declared queries, so there is nothing to plan.
    Rule,
    /// No noise of at most 10⁶ times the sensitivity brings the steps within the target.
    OutOfReach,
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Parameter(text) => text,
            Self::Rule => "a fixed stream charges only what was declared; there is nothing to plan",
            Self::OutOfReach => {
                "no amount of noise brings so many steps within this epsilon and delta; ask for fewer steps, a smaller \
                 batch, or a larger budget"
            }
        })
    }
}

impl std::error::Error for PlanError {}

/// Steps with enough noise for a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    step: Step,
    steps: u32,
    coordinates: u32,
    batch: f64,
    delta: Delta,
}

/// A δ of one in a million.
const MILLIONTH: Delta = Delta::from_units(1_000_000_000_000).expect("below one");
/// The most noise that is tried, over sensitivity.
const MOST: u64 = 1_000_000_000_000_000;
/// The search stops within one part in this many of the least noise.
const CLOSE: u64 = 100_000;

impl Plan {
    /// The least noise with which a filter of this rule admits the whole training into an empty budget of
    /// the target.
    ///
    /// The filter itself prices each candidate, so a plan is as tight as the stream's accounting, and what is planned is
    /// what will be charged.
    ///
    /// # Errors
    /// When a number is out of range or no noise is enough.
    pub fn new(shape: &Shape, work: Work, target: Ceiling, rule: Rule) -> Result<Self, PlanError> {
        let Work { rows, batch, steps, clip } = work;
        let above_zero = |value: f64| value > 0.0 && value.is_finite();
        if !above_zero(rows) || !above_zero(batch) {
            return Err(PlanError::Parameter("the number of rows and the batch are finite numbers above zero"));
        }
        if steps == 0 {
            return Err(PlanError::Parameter("a training has at least one step"));
        }
        if !(1e-30..=1e30).contains(&clip) {
            return Err(PlanError::Parameter("the clip of a step is from 1e-30 to 1e30"));
        }
        let units = ((batch / rows).min(1.0) * Rate::LIMIT.units() as f64).round() as u64;
        let rate = Rate::from_units(units).filter(|&rate| rate > Rate::ZERO);
        let rate = rate.ok_or(PlanError::Parameter("a batch is at least a millionth of a millionth of the rows"))?;
        let filter = Filter::new(rule, target).ok_or(PlanError::Rule)?;
        let delta = stated(rule, target.delta);
        let coordinates = shape.parameters();
        let fits = |units: u64| {
            let Some(sigma) = Sigma::from_units(units) else { return false };
            let plan = Self { step: Step { rate, sigma, clip }, steps, coordinates, batch, delta };
            admitted(&filter, &plan)
        };
        let units = least(fits).ok_or(PlanError::OutOfReach)?;
        let sigma = Sigma::from_units(units).ok_or(PlanError::OutOfReach)?;
        Ok(Self { step: Step { rate, sigma, clip }, steps, coordinates, batch, delta })
    }

    /// Steps with noise that was chosen elsewhere, and a public divisor.
    ///
    /// The δ at which they are stated is one in a million, unless [`Plan::stated_at`] sets another.
    ///
    /// # Errors
    /// When a number is out of range.
    pub fn with_noise(shape: &Shape, step: Step, steps: u32, expected: f64) -> Result<Self, PlanError> {
        if steps == 0 {
            return Err(PlanError::Parameter("a training has at least one step"));
        }
        if !(expected > 0.0 && expected.is_finite()) {
            return Err(PlanError::Parameter("the number of rows and the batch are finite numbers above zero"));
        }
        Ok(Self { step, steps, coordinates: shape.parameters(), batch: expected, delta: MILLIONTH })
    }

    /// The same steps, stated at another δ.
    #[must_use]
    pub fn stated_at(&self, delta: Delta) -> Self {
        Self { delta, ..self.clone() }
    }

    /// The δ at which an (ε, δ) filter states the steps.
    pub const fn delta(&self) -> Delta {
        self.delta
    }

    /// The first `steps` of its steps, for a run in parts.
    #[must_use]
    pub fn first(&self, steps: u32) -> Self {
        Self { steps: steps.min(self.steps), ..self.clone() }
    }

    /// What to charge.
    pub fn mechanism(&self) -> Mechanism {
        let Step { rate, sigma, .. } = self.step;
        Mechanism::SampledGaussian { rate, sigma, coordinates: self.coordinates, steps: self.steps }
    }

    /// What to charge, stated at [`Plan::delta`] where the filter counts (ε, δ).
    pub fn charge(&self) -> Option<Cost> {
        Cost::at_delta(vec![self.mechanism()], self.delta).ok()
    }

    /// Every step's parameters.
    pub const fn step(&self) -> Step {
        self.step
    }

    /// The number of steps.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// The expected number of rows of a step, if the estimate of rows is right: the public divisor.
    pub const fn expected(&self) -> f64 {
        self.batch
    }
}

/// The share of a budget's δ that the steps may use: the strong rule needs half of it for its composition theorem.
fn stated(rule: Rule, delta: Delta) -> Delta {
    let parts = if rule == Rule::Strong { 2 } else { 1 };
    Delta::from_units(delta.units() / parts).unwrap_or(Delta::ZERO)
}

fn admitted(filter: &Filter, plan: &Plan) -> bool {
    let (Some(cost), Ok(blocks)) = (plan.charge(), Blocks::range(0, 0)) else { return false };
    let spent = vec![0; filter.caps().len()];
    filter.price(&cost, Lane::Train, &blocks).is_ok_and(|amounts| filter.admits(&spent, &amounts))
}

/// Approximately the least number of units for which `fits` returns true, if `fits` is monotone.
fn least(fits: impl Fn(u64) -> bool) -> Option<u64> {
    let mut within = 1_000_000_000;
    let mut outside = 0;
    while !fits(within) {
        outside = within;
        within = within.checked_mul(2).filter(|&next| next <= MOST)?;
    }
    if outside == 0 {
        // Noise below a thousandth of the sensitivity gives no useful guarantee.
        outside = 1_000_000;
        if fits(outside) {
            return Some(outside);
        }
    }
    while within - outside > within / CLOSE {
        let middle = outside + (within - outside) / 2;
        if fits(middle) { within = middle } else { outside = middle }
    }
    Some(within)
}
