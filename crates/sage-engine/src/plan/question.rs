//! The cost of a query, and the noise of its tables.
//!
//! The tables of a query share its cost evenly, and a table that needs several of the kernel's divides its part among
//! them. Tables over all rows are charged to both lanes, the others to the train lane only.

use sage_kernel::{Cost, Delta, Epsilon, Filter, Rule, TableNoise};

use super::price::Prices;
use super::refusal::PlanRefusal;
use super::terms::DELTA_SHARE;

/// The charge of a query and the noise that it pays for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueryPrice {
    /// The charges on the train lane and on the test lane.
    pub(crate) costs: [Option<Cost>; 2],
    /// The noise of each table.
    pub(crate) noises: Vec<TableNoise>,
    /// The δ at which the query alone is private with its ε; zero if the filter adds up ε only.
    pub(crate) delta: Delta,
}

impl QueryPrice {
    /// Prices a query that alone loses this ε. `parts` has, for each table, the number of the kernel's tables it needs
    /// and whether it covers all rows.
    ///
    /// # Errors
    /// When the ε is too small for any noise, or the stream's filter has no price for it.
    pub(crate) fn new(filter: &Filter, epsilon: Epsilon, parts: &[(u32, bool)]) -> Result<Self, PlanRefusal> {
        let delta = Delta::from_units(filter.ceiling().delta.units() / DELTA_SHARE).unwrap_or(Delta::ZERO);
        let prices = Prices { filter, delta };
        let each = prices.loss_units(epsilon)? / parts.len().max(1) as u64;
        let (mut train, mut test) = (Vec::new(), Vec::new());
        let mut noises = Vec::with_capacity(parts.len());
        for &(tables, whole) in parts {
            let why = "epsilon is too small for any noise; raise it, or select fewer aggregates";
            let noise = prices.table_noise(each, tables)?.ok_or_else(|| PlanRefusal::part("budget", why))?;
            let one = noise.mechanism().map_err(|error| PlanRefusal::part("budget", error.to_string()))?;
            train.extend(std::iter::repeat_n(one.clone(), tables as usize));
            if whole {
                test.extend(std::iter::repeat_n(one, tables as usize));
            }
            noises.push(noise);
        }
        let cost = |parts: Vec<_>| if parts.is_empty() { Ok(None) } else { prices.cost(parts).map(Some) };
        let costs = [cost(train)?, cost(test)?];
        // Fails for a fixed stream, which has no price for undeclared mechanisms.
        prices.resources(costs.each_ref().map(Option::as_ref))?;
        let delta = if filter.rule() == Rule::Basic { Delta::ZERO } else { delta };
        Ok(Self { costs, noises, delta })
    }
}
