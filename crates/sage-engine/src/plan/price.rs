//! Prices of noise: the stream's filter itself prices each amount of noise, in units of the ledger.
//!
//! The planned cost is therefore the charged cost, under every rule. Searches run over the kernel's integers and give
//! the same result on every machine on which the kernel's prices do.

use sage_kernel::{Blocks, Cost, Delta, Epsilon, Filter, Lane, Mechanism, Rule, Sigma, TableNoise};
use sage_learn::plan::gaussian_sigma;

use super::refusal::PlanRefusal;
use super::search::{find_edge, find_least};
use super::terms::DELTA_SHARE;
use crate::allocate::Resources;

/// The prices of mechanisms under one filter.
#[derive(Clone, Copy)]
pub(super) struct Prices<'filter> {
    pub(super) filter: &'filter Filter,
    /// The δ of mechanisms that need one.
    pub(super) delta: Delta,
}

/// One private release on each lane, with the smallest noise that a cost pays for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PricedRelease {
    /// The charge of each lane.
    pub(crate) cost: Cost,
    /// The same in the units of the allocation.
    pub(crate) resources: Resources,
    /// The noise in multiples of the sensitivity: the Laplace scale or the Gaussian standard deviation.
    pub(crate) noise: f64,
}

/// Prices the release with the smallest noise that loses at most `most` on each lane; `None` if the filter has no
/// price.
pub(crate) fn price_release(filter: &Filter, most: u64) -> Option<PricedRelease> {
    let delta = Delta::from_units(filter.ceiling().delta.units() / DELTA_SHARE)?;
    let prices = Prices { filter, delta };
    let table = prices.table_noise(most, 1).ok()??;
    let noise = match table {
        TableNoise::Laplace(epsilon) => 1e12 / epsilon.units() as f64,
        TableNoise::Gaussian(sigma) => sigma.units() as f64 / 1e9,
    };
    let cost = prices.cost(vec![table.mechanism().ok()?]).ok()?;
    let resources = prices.resources([Some(&cost), Some(&cost)]).ok()?;
    Some(PricedRelease { cost, resources, noise })
}

/// The search range of σ: from a thousandth of the sensitivity to a million times.
const SIGMAS: (u64, u64) = (1_000_000, 1_000_000_000_000_000);
/// The search range of ε: from 10^-9 to 100.
const EPSILONS: (u64, u64) = (1_000, 100_000_000_000_000);

impl Prices<'_> {
    /// The cost of mechanisms on a lane, at δ where one of them needs it.
    pub(super) fn cost(&self, parts: Vec<Mechanism>) -> Result<Cost, PlanRefusal> {
        let pure = parts.iter().all(|part| {
            matches!(part, Mechanism::Pure { .. } | Mechanism::Laplace { .. } | Mechanism::BlackBox { .. })
        });
        let stated = self.filter.rule() != Rule::Renyi && !pure;
        let cost = if stated { Cost::at_delta(parts, self.delta) } else { Cost::new(parts) };
        cost.map_err(|error| PlanRefusal::part("budget", error.to_string()))
    }

    /// The costs of both lanes in the units of the allocation.
    pub(super) fn resources(&self, costs: [Option<&Cost>; 2]) -> Result<Resources, PlanRefusal> {
        let Ok(anywhere) = Blocks::range(0, 0) else { return Ok(Resources::ZERO) };
        let mut amounts = [None, None];
        for ((amounts, cost), lane) in amounts.iter_mut().zip(costs).zip(Lane::BOTH) {
            let priced = cost.map(|cost| self.filter.price(cost, lane, &anywhere));
            *amounts = priced.transpose().map_err(PlanRefusal::Unpriced)?;
        }
        let found = Resources::of_cost(self.filter, amounts.each_ref().map(Option::as_ref));
        found.ok_or_else(|| PlanRefusal::part("budget", "a fixed stream charges only declared mechanisms"))
    }

    /// The loss of mechanisms on the train lane. The test lane has the same prices.
    fn loss(&self, parts: Vec<Mechanism>) -> Result<u64, PlanRefusal> {
        let cost = self.cost(parts)?;
        Ok(self.resources([Some(&cost), None])?.loss(Lane::Train))
    }

    /// The loss of one release that alone is (ε, δ)-differentially private.
    pub(super) fn loss_units(&self, epsilon: Epsilon) -> Result<u64, PlanRefusal> {
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

    /// The smallest noise with which mechanisms lose at most `most`.
    pub(super) fn least_sigma(
        &self, most: u64, parts: impl Fn(Sigma) -> Vec<Mechanism>,
    ) -> Result<Option<Sigma>, PlanRefusal> {
        let loss = |units: u64| match Sigma::from_units(units) {
            Some(sigma) => self.loss(parts(sigma)),
            None => Ok(u64::MAX),
        };
        Ok(find_least(SIGMAS, most, loss)?.and_then(Sigma::from_units))
    }

    /// The smallest noise with which `tables` tables together lose at most `most`.
    pub(super) fn table_noise(&self, most: u64, tables: u32) -> Result<Option<TableNoise>, PlanRefusal> {
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

    /// The largest ε of one Laplace release that loses at most `most`.
    pub(super) fn laplace_epsilon(&self, most: u64) -> Result<Option<Epsilon>, PlanRefusal> {
        self.largest_epsilon(most, |epsilon| Mechanism::Laplace { epsilon, count: 1 })
    }

    /// The largest ε of an (ε, δ)-differentially private mechanism that loses at most `most`.
    pub(super) fn black_box_epsilon(&self, most: u64, delta: Delta) -> Result<Option<Epsilon>, PlanRefusal> {
        self.largest_epsilon(most, |epsilon| Mechanism::BlackBox { epsilon, delta })
    }

    fn largest_epsilon(&self, most: u64, part: impl Fn(Epsilon) -> Mechanism) -> Result<Option<Epsilon>, PlanRefusal> {
        let fits = |units: u64| match Epsilon::from_units(units) {
            Some(epsilon) => Ok(self.loss(vec![part(epsilon)])? <= most),
            None => Ok(false),
        };
        Ok(find_edge(EPSILONS.0, EPSILONS.1, fits)?.and_then(Epsilon::from_units))
    }
}

/// The smallest σ for which `paid` is true, where it is true for every larger σ.
pub(super) fn least_sigma_of_table(paid: impl Fn(Sigma) -> bool) -> Option<Sigma> {
    let fits = |units: u64| Ok::<bool, std::convert::Infallible>(Sigma::from_units(units).is_some_and(&paid));
    find_edge(SIGMAS.1, SIGMAS.0, fits).ok().flatten().and_then(Sigma::from_units)
}
