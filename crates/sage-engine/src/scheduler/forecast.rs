//! The forecast of a run: how likely its next attempt is to be accepted, from the reports that were released so far.
//!
//! Its inputs are the reports of this run and of earlier runs of the same pipeline, the released or declared number of
//! rows, and the noise that a cost buys, which is known exactly. So a forecast depends on rows only through released
//! values, and costs nothing.

use std::num::NonZeroU32;

use sage_kernel::{Contribution, Filter, Pair, Rate};
use sage_learn::forecast::{
    MeanForecast, ReleasedTest, RowsPerBlock, Setting, TestForecast, TestSetting, half_width_of_sum,
};
use sage_learn::statistics::spread;
use sage_learn::validate::decide::Tail;
use sage_learn::validate::{Margin, Noise};

use crate::adapt::{Forecast, LIKELY, RowsPrices, Strategy};
use crate::api::policy::{found, paying};
use crate::api::{Engine, EngineError};
use crate::catalog::{AttemptEnd, AttemptRecord, Catalog, Run, Stream};
use crate::pipeline::{Goal, Pipeline, Statistic, TestBound, Train, Validate};
use crate::plan::{Recipe, Terms, tested_noise};
use crate::run::{Report, accept_risk, groups_of_unit};
use crate::scheduler::available::rows_of;

/// The forecast of the next attempt of a run.
pub(crate) struct RunForecast {
    noise: NoiseScale,
    /// The bound, in rows, within which the noise of each sum stays at the reference cost, with the probability that the
    /// next attempt allows for it.
    reach: f64,
    /// The part of the next attempt's risk that is for the noise.
    noise_risk: f64,
    /// The part of the run's risk that is for the rows.
    rows_risk: f64,
    kind: Kind,
}

/// What is compared with the target.
enum Kind {
    /// A mean on the test lane.
    Test(TestForecast),
    /// Means of values by group, each with this divisor of the risk.
    Means(MeanForecast, f64),
    /// Counts or sums, whose half-width follows from the noise: its multiple of the reach, the target, and the divisor
    /// of the risk.
    Sums { multiple: f64, target: f64, parts: f64 },
}

impl Kind {
    /// The share of the noise's risk that is allowed for each sum.
    fn noise_share(&self) -> f64 {
        match self {
            Self::Test(_) => 0.5,
            Self::Means(_, parts) => 1.0 / (4.0 * parts),
            Self::Sums { parts, .. } => 2.0 / parts,
        }
    }
}

/// The noise of each sum as a function of the cost: known exactly at one cost, and scaled.
#[derive(Clone, Copy)]
struct NoiseScale {
    reference: Noise,
    cost: f64,
}

impl NoiseScale {
    fn new(recipe: &Recipe, filter: &Filter, terms: &Terms) -> Option<Self> {
        // A cost in the middle of the range, where the grid of the kernel's units is fine.
        let cost = terms.first_cost.saturating_mul(16).min(terms.most_cost);
        let reference = tested_noise(recipe, filter, terms.delta(), cost)?;
        Some(Self { reference: Noise::from(reference), cost: cost as f64 })
    }

    /// The ratio of the noise at a cost to the noise at the reference.
    fn ratio(&self, cost: u64) -> f64 {
        let ratio = self.cost / cost.max(1) as f64;
        match self.reference {
            Noise::Laplace { .. } => ratio,
            Noise::Gaussian { .. } => ratio.sqrt(),
        }
    }

    /// The standard deviation, in rows.
    fn deviation(&self, cost: u64) -> f64 {
        self.ratio(cost)
            * match self.reference {
                Noise::Laplace { scale, .. } => std::f64::consts::SQRT_2 * scale,
                Noise::Gaussian { deviation } => deviation,
            }
    }
}

/// What a forecast is made for: a run, or a pipeline that is not submitted yet.
pub(crate) struct ForecastInputs<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) recipe: &'a Recipe,
    pub(crate) filter: &'a Filter,
    pub(crate) terms: &'a Terms,
    /// The divisor of the next attempt's risk, of the part for the noise.
    pub(crate) divisor: u64,
}

impl RunForecast {
    /// A forecast from all attempts of this pipeline that the catalog has; `None` if nothing is known about its target
    /// or its rows yet.
    pub(crate) fn new(inputs: &ForecastInputs<'_>) -> Option<Self> {
        let ForecastInputs { catalog, recipe, filter, terms, divisor } = *inputs;
        let pipeline = recipe.pipeline();
        let validate = pipeline.validate.as_ref()?;
        let noise = NoiseScale::new(recipe, filter, terms)?;
        let risk = accept_risk(pipeline)?;
        let (noise_risk, rows_risk) = (risk.noise() / divisor as f64, risk.rows());
        let known = catalog.stream(&pipeline.stream)?;
        let released = released_sums(catalog, pipeline, terms);
        let kind = match &pipeline.train {
            Train::Statistic(statistic) => {
                of_statistic((statistic, recipe.contribution()), validate, &released, &noise)?
            }
            _ => {
                let first = Setting { rows: 1.0, noise: noise.deviation(terms.first_cost) };
                let declared = || declared_test_rows(pipeline, known);
                Kind::Test(of_test(validate, &released, &noise, first, declared)?)
            }
        };
        let reach = noise.reference.reach(noise_risk * kind.noise_share());
        Some(Self { noise, reach, noise_risk, rows_risk, kind })
    }

    /// The least number of blocks on which an attempt of this cost is likely to be accepted; `None` if no number up to
    /// `most` is.
    pub(crate) fn likely_window(&self, cost: u64, most: u32) -> Option<u32> {
        // A first attempt, on blocks that were not tested before.
        let rows_divisor = RowsPrices::FRESH.divisor(most, FIRST_DIVISOR);
        let likely = |window: u32| self.chance(cost, window, rows_divisor) >= LIKELY;
        let (mut below, mut within) = (0, 1);
        while !likely(within) {
            below = within;
            within = within.checked_mul(2).filter(|window| *window <= most)?;
        }
        while within - below > 1 {
            let middle = below + (within - below) / 2;
            if likely(middle) { within = middle } else { below = middle }
        }
        Some(within)
    }

    /// The bound within which the noise of each sum stays at a cost.
    fn reach_at(&self, cost: u64) -> f64 {
        self.noise.ratio(cost) * self.reach
    }

    /// The least half-width that this cost allows, and its target, if the noise alone decides.
    pub(crate) fn least_half_width(&self, cost: u64) -> Option<(f64, f64)> {
        match self.kind {
            Kind::Sums { multiple, target, .. } => Some(((1.0 - ROUNDING) * multiple * self.reach_at(cost), target)),
            Kind::Test(_) | Kind::Means(..) => None,
        }
    }

    fn test_setting(&self, cost: u64, window: u32, rows_divisor: f64) -> Option<TestSetting> {
        let margin = Margin::new(self.reach_at(cost), self.rows_risk / rows_divisor).ok()?;
        Some(TestSetting { blocks: f64::from(window), noise: self.noise.deviation(cost), margin })
    }
}

/// The divisor of a first attempt that is likely to be accepted.
pub(crate) const FIRST_DIVISOR: u64 = 2;
/// The relative error of scaled noise: the kernel rounds it to a grid.
const ROUNDING: f64 = 0.02;
/// Below this a chance counts as certainty of failure.
const IMPOSSIBLE: f64 = 1e-5;

impl Forecast for RunForecast {
    fn chance(&self, cost: u64, window: u32, rows_divisor: f64) -> f64 {
        match &self.kind {
            Kind::Test(test) => {
                self.test_setting(cost, window, rows_divisor).map_or(0.0, |setting| test.chance(setting))
            }
            Kind::Means(means, parts) => {
                let risk = 2.0 * self.noise_risk.min(self.rows_risk / rows_divisor);
                means.chance(f64::from(window), self.reach_at(cost), risk / parts)
            }
            Kind::Sums { multiple, target, .. } => {
                let half_width = multiple * self.reach_at(cost);
                f64::from(u8::from(half_width * (1.0 + ROUNDING) <= *target))
            }
        }
    }

    fn is_too_small(&self, cost: u64, window: u32, rows_divisor: f64) -> bool {
        match &self.kind {
            Kind::Test(test) => {
                self.test_setting(cost, window, rows_divisor).is_some_and(|setting| test.is_too_small(setting))
            }
            Kind::Means(..) | Kind::Sums { .. } => self.chance(cost, window, rows_divisor) < IMPOSSIBLE,
        }
    }

    fn rows_help(&self) -> bool {
        !matches!(self.kind, Kind::Sums { .. })
    }

    fn is_hopeless(&self) -> bool {
        matches!(&self.kind, Kind::Test(test) if test.is_hopeless())
    }
}

impl Engine {
    /// The forecast of a run, if it searches by forecasts and something is known.
    pub(crate) fn forecast(
        &self, catalog: &Catalog, number: u64, run: &Run,
    ) -> Result<Option<RunForecast>, EngineError> {
        if run.state.plan().strategy() != Strategy::Informed {
            return Ok(None);
        }
        let filter = self.with(|gate, catalog| {
            let (id, _) = found(gate, catalog, &run.pipeline.stream)?;
            Ok(paying(gate, id, &run.pipeline)?.1.clone())
        })?;
        let Some(recipe) = self.recipe(catalog, number, run) else { return Ok(None) };
        let divisor = run.state.next_risk_divisor();
        let inputs = ForecastInputs { catalog, recipe: &recipe, filter: &filter, terms: &run.terms, divisor };
        Ok(RunForecast::new(&inputs))
    }
}

/// Released sums with the cost and the number of blocks of their attempt.
struct ReleasedSums<'run> {
    cost: u64,
    blocks: f64,
    sums: &'run [[f64; 2]],
}

/// The released sums of all attempts of a pipeline, oldest first.
fn released_sums<'a>(catalog: &'a Catalog, pipeline: &Pipeline, terms: &Terms) -> Vec<ReleasedSums<'a>> {
    let own = catalog.history().runs().filter(|(_, run)| run.pipeline == *pipeline && run.terms == *terms);
    let released = |one: &'a AttemptRecord| match &one.end {
        Some(AttemptEnd::Judged(Report { sums, .. })) if !sums.is_empty() => {
            Some(ReleasedSums { cost: one.attempt.cost, blocks: f64::from(one.attempt.window), sums })
        }
        _ => None,
    };
    own.flat_map(|(_, run)| &run.attempts).filter_map(released).collect()
}

/// The target as a mean share of the test's range, and the bound behind the test; `None` for several metrics.
fn share_target(validate: &Validate) -> Option<(f64, Tail)> {
    if !validate.also.is_empty() {
        return None;
    }
    let tail = match validate.test {
        TestBound::Bernstein => Tail::Bernstein,
        TestBound::Hoeffding => Tail::Hoeffding,
        TestBound::KullbackLeibler | TestBound::EmpiricalBernstein => Tail::KullbackLeibler,
    };
    Some((validate.metric.test().target_share(&validate.goal)?, tail))
}

fn of_test(
    validate: &Validate, released: &[ReleasedSums<'_>], noise: &NoiseScale, first: Setting,
    declared: impl FnOnce() -> Option<RowsPerBlock>,
) -> Option<TestForecast> {
    let test = |one: &ReleasedSums<'_>| {
        let [above, below] = *one.sums.first()?;
        Some(ReleasedTest { blocks: one.blocks, noise: noise.deviation(one.cost), sums: Pair { above, below } })
    };
    let tests: Vec<ReleasedTest> = released.iter().filter_map(test).collect();
    TestForecast::new(share_target(validate)?, first, &tests, declared)
}

/// The test rows of a block according to the census or the pipeline file.
fn declared_test_rows(pipeline: &Pipeline, known: &Stream) -> Option<RowsPerBlock> {
    /// How far a declared number may be off.
    const ROUGH: f64 = 0.1;
    let share = known.file.test_share.units() as f64 / Rate::LIMIT.units() as f64;
    let mean = rows_of(pipeline, known, &[])? * share / (1.0 - share);
    Some(RowsPerBlock { mean, deviation: ROUGH * mean })
}

fn of_statistic(
    (statistic, contribution): (&Statistic, Contribution), validate: &Validate, released: &[ReleasedSums<'_>],
    noise: &NoiseScale,
) -> Option<Kind> {
    let Goal::Target(target) = validate.goal else { return None };
    let sums = |multiple: f64, parts: f64| Kind::Sums { multiple: multiple * spread(contribution), target, parts };
    let (bounds, keys, spread) = match statistic {
        Statistic::Count => return Some(sums(half_width_of_sum(1.0, (0.0, 1.0)), 4.0)),
        Statistic::Sum { bounds, .. } => {
            return Some(sums(half_width_of_sum(1.0, (bounds.low(), bounds.high())), 8.0));
        }
        // The half-width of a share depends on the number of rows.
        Statistic::Histogram { relative: true, .. } => return None,
        Statistic::Histogram { keys, .. } => {
            return Some(sums(half_width_of_sum(1.0, (0.0, 1.0)), 4.0 * f64::from(keys.count())));
        }
        Statistic::Mean { bounds, .. } => (bounds, NonZeroU32::MIN.get(), 1.0),
        Statistic::GroupMean { bounds, keys, .. } => (bounds, keys.count(), spread(groups_of_unit(contribution, keys))),
        Statistic::Variance { .. } | Statistic::Quantile { .. } => return None,
    };
    // The attempt with the most precise sums per block.
    let precision = |one: &&ReleasedSums<'_>| noise.deviation(one.cost) / one.blocks;
    let best = released.iter().min_by(|one, two| precision(one).total_cmp(&precision(two)))?;
    let pair = |[above, below]: &[f64; 2]| Pair { above: above / best.blocks, below: below / best.blocks };
    let means = MeanForecast {
        groups: best.sums.iter().map(pair).collect(),
        deviation: precision(&best) * spread,
        width: bounds.high() - bounds.low(),
        target,
    };
    Some(Kind::Means(means, f64::from(keys)))
}
