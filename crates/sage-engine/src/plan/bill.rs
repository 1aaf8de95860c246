//! What one attempt is charged, and with which noise it is run.
//!
//! An attempt has one cost in units of the ledger. Its stages get their shares of it: on the train lane features,
//! training and the certificate that rejects, on the test lane the test. Each stage gets the least noise that its
//! share pays for.

use sage_kernel::{Cost, Delta, Epsilon, Filter, Mechanism, Rate, Sigma, Step, TableNoise};
use sage_learn::linear::{AdaSsp, Ridge};
use sage_learn::network::{self, Loss, Shape, Work};
use sage_learn::statistics::Quantiles;

use super::inputs::Inputs;
use super::price::Prices;
use super::refusal::PlanRefusal;
use super::{Recipe, terms::Terms};
use crate::allocate::Resources;
use crate::pipeline::{Descent, RidgeTerm, Statistic, Train};

/// The noise of training, and what else it needs to know beforehand.
#[derive(Clone, Debug, PartialEq)]
pub enum Trained {
    /// Of noisy moments.
    Moments(Sigma),
    /// Of steps.
    Steps(Box<network::Plan>),
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

fn some<T>(noise: Option<T>, stage: &str) -> Result<T, PlanRefusal> {
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
        Train::Ridge(term) => {
            let inputs = inputs()?;
            let parts = |sigma| linear(inputs, sigma, *term).map_or_else(|_| Vec::new(), |plan| plan.mechanisms());
            let sigma = some(prices.least_sigma(most, parts)?, "train")?;
            Ok((Trained::Moments(sigma), parts(sigma)))
        }
        Train::Logistic(descent) => steps(inputs()?, &[], descent, prices, most, known),
        Train::Network { layers, descent } => steps(inputs()?, layers, descent, prices, most, known),
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

/// The learner of a linear model with this noise.
pub(crate) fn linear(inputs: &Inputs, sigma: Sigma, term: RidgeTerm) -> Result<AdaSsp, PlanRefusal> {
    let ridge = match term {
        RidgeTerm::Adaptive => Ridge::Adaptive,
        RidgeTerm::Fixed => Ridge::Fixed,
    };
    AdaSsp::new(inputs.encoding().layout(), (0.0, 1.0), sigma, ridge)
        .map_err(|error| PlanRefusal::part("train", error.to_string()))
}

/// What a network looks like.
pub(crate) fn shape(inputs: &Inputs, layers: &[u32]) -> Result<Shape, PlanRefusal> {
    let loss = if inputs.label().is_some() { Loss::Squared } else { Loss::Logistic };
    Shape::new(inputs.encoding().layout(), network::Inputs::Direct, layers.to_vec(), loss)
        .map_err(|error| PlanRefusal::part("train", error.to_string()))
}

fn steps(
    inputs: &Inputs, layers: &[u32], descent: &Descent, prices: &Prices<'_>, most: u64, known: Known<'_>,
) -> Result<(Trained, Vec<Mechanism>), PlanRefusal> {
    let missing = "how many rows a block has, about, is needed to train by steps: say `rows` in [train], or have the \
                   stream counted by a census";
    let rows = known.rows.filter(|rows| *rows >= 1.0).ok_or_else(|| PlanRefusal::part("train", missing))?;
    let shape = shape(inputs, layers)?;
    let work = Work::epochs(rows, f64::from(descent.batch), descent.epochs, descent.clip);
    let rate = ((work.batch / work.rows).min(1.0) * Rate::LIMIT.units() as f64).round() as u64;
    let rate = Rate::from_units(rate).filter(|rate| *rate > Rate::ZERO);
    let rate = rate.ok_or_else(|| PlanRefusal::part("batch", "a larger share of the rows"))?;
    let plan = |sigma| {
        let step = Step { rate, sigma, clip: work.clip };
        let plan = network::Plan::with_noise(&shape, step, work.steps, work.batch);
        plan.map(|plan| plan.stated_at(known.terms.delta()))
    };
    let parts = |sigma| plan(sigma).map_or_else(|_| Vec::new(), |plan| vec![plan.mechanism()]);
    let sigma = some(prices.least_sigma(most, parts)?, "train")?;
    let plan = plan(sigma).map_err(|error| PlanRefusal::part("train", error.to_string()))?;
    let mechanism = plan.mechanism();
    Ok((Trained::Steps(Box::new(plan)), vec![mechanism]))
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
