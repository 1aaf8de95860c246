//! What one attempt is charged, and with which noise it is run.
//!
//! An attempt has one cost in units of the ledger. Its stages get their shares of it: on the train lane features,
//! training and the certificate that rejects, on the test lane the test. Each stage gets the least noise that its
//! share pays for.

use sage_kernel::{Cost, Delta, Epsilon, Filter, Mechanism, Rate, TableNoise};
use sage_learn::statistics::Quantiles;

use super::price::Prices;
use super::refusal::PlanRefusal;
use super::training::TrainingBudget;
use super::{Recipe, terms::Terms};
use crate::allocate::Resources;
use crate::pipeline::{Statistic, Train};

/// The noise of training, and what else it needs to know beforehand.
#[derive(Clone, Debug, PartialEq)]
pub enum Trained {
    /// Of a learner: the mechanisms that it is charged.
    Model(Vec<Mechanism>),
    /// Of a statistic's tables, each with this noise.
    Tables(TableNoise),
    /// None: nothing is trained.
    Nothing,
    /// None of ours: a program adds its own within this ε and δ, and its author vouches for it.
    Declared(Epsilon, Delta),
}

/// The noise of each stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Noises {
    /// Of each group mean that is a feature.
    pub features: Option<TableNoise>,
    /// Of training.
    pub train: Trained,
    /// Of the certificate that no model of the kind can do it.
    pub reject: Option<Epsilon>,
    /// Of the test.
    pub validate: Option<TableNoise>,
}

/// What one attempt is charged.
#[derive(Clone, Debug, PartialEq)]
pub struct Bill {
    /// On the train lane and on the test lane.
    pub costs: [Option<Cost>; 2],
    /// What that comes to on each block.
    pub resources: Resources,
    /// The noise that it pays for.
    pub noises: Noises,
}

/// What is known before an attempt is charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'filter> {
    /// The filter of the context that pays.
    pub(crate) filter: &'filter Filter,
    /// The terms of the pipeline.
    pub(crate) terms: Terms,
    /// What the attempt costs each block.
    pub(crate) cost: u64,
    /// A released or declared number of the window's rows on the train lane.
    pub(crate) rows: Option<f64>,
}

impl Bill {
    /// The bill of an attempt.
    ///
    /// # Errors
    /// When a share is too small for any noise, or the filter has no price for a stage.
    pub(crate) fn new(recipe: &Recipe, known: Known<'_>) -> Result<Self, PlanRefusal> {
        let prices = Prices { filter: known.filter, delta: known.terms.delta() };
        let shares = recipe.pipeline().budget.shares;
        let part = |share: Rate| {
            let part = u128::from(known.cost) * u128::from(share.units()) / u128::from(Rate::LIMIT.units());
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        let mut train = Vec::new();
        let mut features = None;
        let joins = recipe
            .inputs()
            .map_or(0, |inputs| inputs.encoding().joins().filter(|(.., join)| join.table.is_empty()).count());
        if let Ok(joins @ 1..) = u32::try_from(joins) {
            let noise = some(prices.table(part(shares.features), joins)?, "features")?;
            train.extend(std::iter::repeat_n(mechanism(noise)?, joins as usize));
            features = Some(noise);
        }
        let (trained, parts) = trained(recipe, &prices, part(shares.train), known)?;
        train.extend(parts);
        let mut reject = None;
        if recipe.pipeline().validate.as_ref().is_some_and(|validate| validate.reject) {
            let epsilon = some(prices.laplace(part(shares.reject))?, "reject")?;
            train.push(Mechanism::Laplace { epsilon, count: 1 });
            reject = Some(epsilon);
        }
        let mut validate = None;
        let mut test = None;
        match &recipe.pipeline().train {
            // What counts rows counts those of both lanes.
            Train::Statistic(statistic) if of_both_lanes(statistic) => test = Some(prices.cost(train.clone())?),
            Train::Statistic(_) => {}
            _ => {
                let noise = some(prices.table(part(shares.validate), 1)?, "validate")?;
                test = Some(prices.cost(vec![mechanism(noise)?])?);
                validate = Some(noise);
            }
        }
        let train = if train.is_empty() { None } else { Some(prices.cost(train)?) };
        let costs = [train, test];
        let resources = prices.resources(costs.each_ref().map(Option::as_ref))?;
        Ok(Self { costs, resources, noises: Noises { features, train: trained, reject, validate } })
    }
}

/// Whether a statistic is about all rows, and not about a random part of them that says as much.
pub(crate) const fn of_both_lanes(statistic: &Statistic) -> bool {
    matches!(statistic, Statistic::Count | Statistic::Sum { .. } | Statistic::Histogram { .. })
}

pub(super) fn some<T>(noise: Option<T>, stage: &str) -> Result<T, PlanRefusal> {
    let why = "its share of an attempt is too small for any noise; raise epsilon0 or its share in [budget] split";
    noise.ok_or_else(|| PlanRefusal::part(stage, why))
}

fn mechanism(noise: TableNoise) -> Result<Mechanism, PlanRefusal> {
    noise.mechanism().map_err(|error| PlanRefusal::part("budget", error.to_string()))
}

fn trained(
    recipe: &Recipe, prices: &Prices<'_>, most: u64, known: Known<'_>,
) -> Result<(Trained, Vec<Mechanism>), PlanRefusal> {
    let inputs = || recipe.inputs().ok_or_else(|| PlanRefusal::part("features", "a model needs features"));
    match &recipe.pipeline().train {
        Train::Model(learner) => {
            let budget = TrainingBudget { prices: *prices, most, rows: known.rows };
            let parts = learner.mechanisms(inputs()?, &budget)?;
            if !parts.iter().all(Mechanism::is_enforceable) {
                let why = format!("the learner `{}` asks for a mechanism that the kernel does not run", learner.kind());
                return Err(PlanRefusal::part("train", why));
            }
            Ok((Trained::Model(parts.clone()), parts))
        }
        Train::Statistic(statistic) => {
            let tables = tables(statistic)?;
            let noise = some(prices.table(most, tables)?, "train")?;
            Ok((Trained::Tables(noise), vec![mechanism(noise)?; tables as usize]))
        }
        Train::Released { .. } => Ok((Trained::Nothing, Vec::new())),
        Train::Command { .. } => {
            let delta = known.terms.delta();
            let epsilon = some(prices.black_box(most, delta)?, "train")?;
            Ok((Trained::Declared(epsilon, delta), vec![Mechanism::BlackBox { epsilon, delta }]))
        }
    }
}

/// How many tables a statistic releases.
fn tables(statistic: &Statistic) -> Result<u32, PlanRefusal> {
    let tables = match statistic {
        Statistic::Variance { .. } => 2,
        Statistic::Quantile { .. } => {
            let any = TableNoise::Laplace(Epsilon::from_units(1).unwrap_or(Epsilon::ZERO));
            quantiles(statistic, any)?.mechanisms().len()
        }
        _ => 1,
    };
    Ok(u32::try_from(tables).unwrap_or(u32::MAX))
}

/// The plan of a quantile over its grid.
pub(crate) fn quantiles(statistic: &Statistic, noise: TableNoise) -> Result<Quantiles, PlanRefusal> {
    let Statistic::Quantile { bounds, grid, .. } = statistic else {
        return Err(PlanRefusal::part("statistic", "a quantile"));
    };
    let width = bounds.high() - bounds.low();
    let edges = (0..*grid).map(|place| bounds.low() + width * f64::from(place) / f64::from(grid - 1)).collect();
    Quantiles::new(edges, noise).map_err(|error| PlanRefusal::part("grid", error.to_string()))
}
