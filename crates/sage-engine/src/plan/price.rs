//! From units of the ledger to noise: the filter itself is asked what each amount of noise costs.
//!
//! What is planned is therefore what will be charged, under every rule. Searches are over the kernel's integers and
//! come out the same on every machine where the kernel's prices do.

use sage_kernel::{Blocks, Cost, Delta, Epsilon, Filter, Lane, Mechanism, Rule, Sigma, TableNoise};
use sage_learn::plan::gaussian_sigma;

use super::refusal::PlanRefusal;
use super::search::{edge, least};
use super::terms::DELTA_SHARE;
use crate::allocate::Resources;

/// The prices of one filter.
#[derive(Clone, Copy)]
pub(super) struct Prices<'filter> {
    pub(super) filter: &'filter Filter,
    /// The δ at which mechanisms are stated that need one.
    pub(super) delta: Delta,
}

/// One private release on each lane, as large as a cost allows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OneRelease {
    /// What each lane is charged.
    pub(crate) cost: Cost,
    /// What that comes to.
    pub(crate) resources: Resources,
    /// Its noise, in sensitivities: the scale of Laplace noise, the standard deviation of Gaussian.
    pub(crate) noise: f64,
}

/// The release with the least noise that loses at most so much on each lane; nothing if the filter has no price.
pub(crate) fn one_release(filter: &Filter, most: u64) -> Option<OneRelease> {
    let delta = Delta::from_units(filter.ceiling().delta.units() / DELTA_SHARE)?;
    let prices = Prices { filter, delta };
    let table = prices.table(most, 1).ok()??;
    let noise = match table {
        TableNoise::Laplace(epsilon) => 1e12 / epsilon.units() as f64,
        TableNoise::Gaussian(sigma) => sigma.units() as f64 / 1e9,
    };
    let cost = prices.cost(vec![table.mechanism().ok()?]).ok()?;
    let resources = prices.resources([Some(&cost), Some(&cost)]).ok()?;
    Some(OneRelease { cost, resources, noise })
}

/// From a thousandth of the sensitivity to a million times.
const SIGMAS: (u64, u64) = (1_000_000, 1_000_000_000_000_000);
/// From 10^-9 to a hundred.
const EPSILONS: (u64, u64) = (1_000, 100_000_000_000_000);

impl Prices<'_> {
    /// The cost of mechanisms on a lane, stated at the δ where one of them needs it.
    pub(super) fn cost(&self, parts: Vec<Mechanism>) -> Result<Cost, PlanRefusal> {
        let pure = parts.iter().all(|part| {
            matches!(part, Mechanism::Pure { .. } | Mechanism::Laplace { .. } | Mechanism::BlackBox { .. })
        });
        let stated = self.filter.rule() != Rule::Renyi && !pure;
        let cost = if stated { Cost::at_delta(parts, self.delta) } else { Cost::new(parts) };
        cost.map_err(|error| PlanRefusal::part("budget", error.to_string()))
    }

    /// What costs of both lanes come to.
    pub(super) fn resources(&self, costs: [Option<&Cost>; 2]) -> Result<Resources, PlanRefusal> {
        let Ok(anywhere) = Blocks::range(0, 0) else { return Ok(Resources::ZERO) };
        let mut amounts = [None, None];
        for ((amounts, cost), lane) in amounts.iter_mut().zip(costs).zip(Lane::BOTH) {
            let priced = cost.map(|cost| self.filter.price(cost, lane, &anywhere));
            *amounts = priced.transpose().map_err(PlanRefusal::Unpriced)?;
        }
        let found = Resources::of_cost(self.filter, amounts.each_ref().map(Option::as_ref));
        found.ok_or_else(|| PlanRefusal::part("budget", "a fixed stream charges only what was declared"))
    }

    /// What mechanisms lose on the train lane; the test lane's prices are the same.
    fn loss(&self, parts: Vec<Mechanism>) -> Result<u64, PlanRefusal> {
        let cost = self.cost(parts)?;
        Ok(self.resources([Some(&cost), None])?.loss(Lane::Train))
    }

    /// What one release that by itself is (ε, δ)-differentially private loses.
    pub(super) fn units(&self, epsilon: Epsilon) -> Result<u64, PlanRefusal> {
        if self.filter.rule() == Rule::Basic {
            return Ok(epsilon.units());
        }
        let alone = (epsilon.units() as f64 / 1e12, self.delta.units() as f64 / 1e18);
        let sigma = gaussian_sigma(alone.0, alone.1).ok().and_then(|sigma| Sigma::from_units((sigma * 1e9) as u64));
        self.loss(vec![match sigma {
            Some(sigma) => Mechanism::Gaussian { sigma, coordinates: 1, count: 1 },
            None => Mechanism::Laplace { epsilon, count: 1 },
        }])
    }

    /// The least noise with which mechanisms lose at most so much.
    pub(super) fn least_sigma(
        &self, most: u64, parts: impl Fn(Sigma) -> Vec<Mechanism>,
    ) -> Result<Option<Sigma>, PlanRefusal> {
        let loss = |units: u64| match Sigma::from_units(units) {
            Some(sigma) => self.loss(parts(sigma)),
            None => Ok(u64::MAX),
        };
        Ok(least(SIGMAS, most, loss)?.and_then(Sigma::from_units))
    }

    /// The least noise with which so many tables lose at most so much together.
    pub(super) fn table(&self, most: u64, tables: u32) -> Result<Option<TableNoise>, PlanRefusal> {
        if self.filter.rule() == Rule::Basic {
            let each = Epsilon::from_units(most / u64::from(tables.max(1)));
            return Ok(each.filter(|epsilon| *epsilon > Epsilon::ZERO).map(TableNoise::Laplace));
        }
        let parts = |sigma: Sigma| {
            let one = TableNoise::Gaussian(sigma).mechanism();
            one.map(|one| vec![one; tables as usize]).unwrap_or_default()
        };
        Ok(self.least_sigma(most, parts)?.map(TableNoise::Gaussian))
    }

    /// The largest ε of one Laplace release that loses at most so much.
    pub(super) fn laplace(&self, most: u64) -> Result<Option<Epsilon>, PlanRefusal> {
        self.largest(most, |epsilon| Mechanism::Laplace { epsilon, count: 1 })
    }

    /// The largest ε of something that is (ε, δ)-differentially private and loses at most so much.
    pub(super) fn black_box(&self, most: u64, delta: Delta) -> Result<Option<Epsilon>, PlanRefusal> {
        self.largest(most, |epsilon| Mechanism::BlackBox { epsilon, delta })
    }

    fn largest(&self, most: u64, part: impl Fn(Epsilon) -> Mechanism) -> Result<Option<Epsilon>, PlanRefusal> {
        let fits = |units: u64| match Epsilon::from_units(units) {
            Some(epsilon) => Ok(self.loss(vec![part(epsilon)])? <= most),
            None => Ok(false),
        };
        Ok(edge(EPSILONS.0, EPSILONS.1, fits)?.and_then(Epsilon::from_units))
    }
}

/// The least noise that is paid for, where all that is greater is.
pub(super) fn least_sigma_of_table(paid: impl Fn(Sigma) -> bool) -> Option<Sigma> {
    let fits = |units: u64| Ok::<bool, std::convert::Infallible>(Sigma::from_units(units).is_some_and(&paid));
    edge(SIGMAS.1, SIGMAS.0, fits).ok().flatten().and_then(Sigma::from_units)
}
