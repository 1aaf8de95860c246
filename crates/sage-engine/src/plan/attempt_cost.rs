//! The cost of one attempt, and the noise of each of its stages.
//!
//! An attempt has one cost in units of the ledger, which its stages share: features, training and the rejection
//! certificate on the train lane, validation on the test lane. Each stage gets the smallest noise that its share pays
//! for.

use sage_kernel::{Cost, Delta, Epsilon, Filter, Mechanism, Rate, TableNoise};
use sage_learn::statistics::Quantiles;

use super::price::Prices;
use super::refusal::PlanRefusal;
use super::training::TrainingBudget;
use super::{Recipe, terms::Terms};
use crate::allocate::Resources;
use crate::pipeline::{Statistic, Train, Validate};
use crate::run::releases_label_sums;

/// The noise of training, with everything else that is fixed before it starts.
#[derive(Clone, Debug, PartialEq)]
pub enum TrainingNoise {
    /// Of a learner: the mechanisms that it is charged.
    Model(Vec<Mechanism>),
    /// Of a statistic's tables, each with this noise.
    Tables(TableNoise),
    /// Nothing is trained.
    Nothing,
    /// A user's program adds its own noise within this ε and δ, attested by its author.
    Declared(Epsilon, Delta),
}

/// The noise of each stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageNoise {
    /// Of each group-mean feature.
    pub features: Option<TableNoise>,
    /// Of training.
    pub train: TrainingNoise,
    /// Of the certificate that no model of this class reaches the target.
    pub reject: Option<Epsilon>,
    /// Of the validation, for each of its metrics.
    pub validate: Option<TableNoise>,
    /// Of the label's mean on the train lane, from which the best constant prediction follows that a model must be
    /// better than.
    pub constant: Option<TableNoise>,
    /// Of the labels' sums on the test lane, from which follows what the best constant prediction reaches.
    pub labels: Option<TableNoise>,
}

/// The cost of one attempt, and the noise that it pays for.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptCost {
    /// The charges on the train lane and on the test lane.
    pub costs: [Option<Cost>; 2],
    /// The same in the units of the allocation, per block.
    pub resources: Resources,
    /// The noise of each stage.
    pub noises: StageNoise,
}

/// The inputs from which an attempt is priced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostInputs<'filter> {
    /// The filter of the paying context.
    pub(crate) filter: &'filter Filter,
    /// The terms of the pipeline.
    pub(crate) terms: Terms,
    /// The cost per block.
    pub(crate) cost: u64,
    /// The number of the window's rows on the train lane, released by a census or declared.
    pub(crate) rows: Option<f64>,
}

impl AttemptCost {
    /// Prices an attempt.
    ///
    /// # Errors
    /// When a share is too small for any noise, or the filter has no price for a stage.
    pub(crate) fn new(recipe: &Recipe, known: CostInputs<'_>) -> Result<Self, PlanRefusal> {
        let prices = Prices { filter: known.filter, delta: known.terms.delta() };
        let shares = recipe.pipeline().budget.shares;
        let part = |share: Rate| part_of(known.cost, share);
        let mut train = Vec::new();
        let mut features = None;
        let joins = recipe
            .inputs()
            .map_or(0, |inputs| inputs.encoding().joins().filter(|(.., join)| join.table.is_empty()).count());
        if let Ok(joins @ 1..) = u32::try_from(joins) {
            let noise = require_noise(prices.table_noise(part(shares.features), joins)?, "features")?;
            train.extend(std::iter::repeat_n(mechanism(noise)?, joins as usize));
            features = Some(noise);
        }
        let versus_constant = recipe.pipeline().compares_with_constant();
        let (train_part, constant_part) = without_label_part(part(shares.train), versus_constant);
        let (trained, parts) = training_noise(recipe, &prices, train_part, known)?;
        train.extend(parts);
        let mut reject = None;
        if recipe.pipeline().validate.as_ref().is_some_and(|validate| validate.reject) {
            let epsilon = require_noise(prices.laplace_epsilon(part(shares.reject))?, "reject")?;
            train.push(Mechanism::Laplace { epsilon, count: 1 });
            reject = Some(epsilon);
        }
        let mut constant = None;
        if versus_constant {
            let noise = require_noise(prices.table_noise(constant_part, 1)?, "train")?;
            train.push(mechanism(noise)?);
            constant = Some(noise);
        }
        let mut validate = None;
        let mut labels = None;
        let mut test = None;
        match &recipe.pipeline().train {
            // Counts and sums cover the rows of both lanes.
            Train::Statistic(statistic) if uses_both_lanes(statistic) => test = Some(prices.cost(train.clone())?),
            Train::Statistic(_) => {}
            _ => {
                let (test_part, labels_part) = test_parts(recipe, part(shares.validate));
                let tests = test_count(recipe);
                let noise = require_noise(prices.table_noise(test_part, tests)?, "validate")?;
                labels = prices.table_noise(labels_part, 1)?.filter(|_| labels_part > 0);
                let noises = std::iter::repeat_n(noise, tests as usize).chain(labels);
                test = Some(prices.cost(noises.map(mechanism).collect::<Result<_, _>>()?)?);
                validate = Some(noise);
            }
        }
        let train = if train.is_empty() { None } else { Some(prices.cost(train)?) };
        let costs = [train, test];
        let resources = prices.resources(costs.each_ref().map(Option::as_ref))?;
        Ok(Self {
            costs,
            resources,
            noises: StageNoise { features, train: trained, reject, validate, constant, labels },
        })
    }
}

/// The noise of what is compared with the target, for an attempt of this cost: of the validation, or of a statistic's
/// tables. `None` if the cost is too small for any noise.
pub(crate) fn tested_noise(recipe: &Recipe, filter: &Filter, delta: Delta, cost: u64) -> Option<TableNoise> {
    let prices = Prices { filter, delta };
    let shares = recipe.pipeline().budget.shares;
    match &recipe.pipeline().train {
        Train::Statistic(statistic) => prices.table_noise(part_of(cost, shares.train), table_count(statistic).ok()?),
        _ => prices.table_noise(test_parts(recipe, part_of(cost, shares.validate)).0, test_count(recipe)),
    }
    .ok()?
}

/// A stage that also releases sums of labels gives them one in this many parts of its cost.
const LABEL_PARTS: u64 = 16;

/// The cost of a stage, divided between the stage and the sums of labels.
const fn without_label_part(cost: u64, releases_labels: bool) -> (u64, u64) {
    let labels = if releases_labels { cost / LABEL_PARTS } else { 0 };
    (cost - labels, labels)
}

/// The number of tests on the test lane. Each is one release, and they share the cost equally.
pub(super) fn test_count(recipe: &Recipe) -> u32 {
    recipe.pipeline().validate.as_ref().map_or(1, Validate::count)
}

/// The cost of the test lane, divided between the test and the sums of labels.
fn test_parts(recipe: &Recipe, cost: u64) -> (u64, u64) {
    let pipeline = recipe.pipeline();
    without_label_part(cost, releases_label_sums(&pipeline.train, pipeline.validate.as_ref()))
}

/// A share of a cost, rounded down.
fn part_of(cost: u64, share: Rate) -> u64 {
    let part = u128::from(cost) * u128::from(share.units()) / u128::from(Rate::LIMIT.units());
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Whether a statistic is computed over both lanes. Means and quantiles need only the train lane, a random sample.
pub(crate) const fn uses_both_lanes(statistic: &Statistic) -> bool {
    matches!(statistic, Statistic::Count | Statistic::Sum { .. } | Statistic::Histogram { .. })
}

pub(super) fn require_noise<T>(noise: Option<T>, stage: &str) -> Result<T, PlanRefusal> {
    let why =
        "its share of the attempt's budget is too small for any noise; raise epsilon0 or its share in [budget] split";
    noise.ok_or_else(|| PlanRefusal::part(stage, why))
}

fn mechanism(noise: TableNoise) -> Result<Mechanism, PlanRefusal> {
    noise.mechanism().map_err(|error| PlanRefusal::part("budget", error.to_string()))
}

fn training_noise(
    recipe: &Recipe, prices: &Prices<'_>, most: u64, known: CostInputs<'_>,
) -> Result<(TrainingNoise, Vec<Mechanism>), PlanRefusal> {
    let inputs = || recipe.inputs().ok_or_else(|| PlanRefusal::part("features", "a model needs features"));
    match &recipe.pipeline().train {
        Train::Model(learner) => {
            let budget = TrainingBudget { prices: *prices, most, rows: known.rows };
            let parts = learner.mechanisms(inputs()?, &budget)?;
            if !parts.iter().all(Mechanism::is_enforceable) {
                let why = format!("the learner `{}` requests a mechanism that the kernel does not run", learner.kind());
                return Err(PlanRefusal::part("train", why));
            }
            Ok((TrainingNoise::Model(parts.clone()), parts))
        }
        Train::Statistic(statistic) => {
            let tables = table_count(statistic)?;
            let noise = require_noise(prices.table_noise(most, tables)?, "train")?;
            Ok((TrainingNoise::Tables(noise), vec![mechanism(noise)?; tables as usize]))
        }
        Train::Released { .. } => Ok((TrainingNoise::Nothing, Vec::new())),
        Train::Command { .. } => {
            let delta = known.terms.delta();
            let epsilon = require_noise(prices.black_box_epsilon(most, delta)?, "train")?;
            Ok((TrainingNoise::Declared(epsilon, delta), vec![Mechanism::BlackBox { epsilon, delta }]))
        }
    }
}

/// The number of noisy tables that a statistic needs.
fn table_count(statistic: &Statistic) -> Result<u32, PlanRefusal> {
    let tables = match statistic {
        Statistic::Variance { .. } => 2,
        Statistic::Quantile { .. } => {
            let any = TableNoise::Laplace(Epsilon::from_units(1).unwrap_or(Epsilon::ZERO));
            quantile_plan(statistic, any)?.mechanisms().len()
        }
        _ => 1,
    };
    Ok(u32::try_from(tables).unwrap_or(u32::MAX))
}

/// The plan of a quantile statistic over its grid.
pub(crate) fn quantile_plan(statistic: &Statistic, noise: TableNoise) -> Result<Quantiles, PlanRefusal> {
    let Statistic::Quantile { bounds, grid, .. } = statistic else {
        return Err(PlanRefusal::part("statistic", "a quantile"));
    };
    let width = bounds.high() - bounds.low();
    let edges = (0..*grid).map(|step| bounds.low() + width * f64::from(step) / f64::from(grid - 1)).collect();
    Quantiles::new(edges, noise).map_err(|error| PlanRefusal::part("grid", error.to_string()))
}
