//! What a question is charged, and with which noise its tables are computed.
//!
//! The cost of a question is shared evenly among its tables; a table that takes several of the kernel's shares its part
//! among them. Those about all rows are charged to both lanes, the others to the train lane alone.

use sage_kernel::{Cost, Delta, Epsilon, Filter, Rule, TableNoise};

use super::price::Prices;
use super::refusal::PlanRefusal;
use super::terms::DELTA_SHARE;

/// A priced question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Priced {
    /// What is charged on the train lane and on the test lane.
    pub(crate) costs: [Option<Cost>; 2],
    /// The noise of each table.
    pub(crate) noises: Vec<TableNoise>,
    /// The δ at which the question by itself is private with its ε; zero where the filter adds up ε alone.
    pub(crate) delta: Delta,
}

impl Priced {
    /// A question that by itself loses this ε, of tables that each take so many of the kernel's, and are about all
    /// rows or not.
    ///
    /// # Errors
    /// When the ε is too small for any noise, or the stream's filter has no price for it.
    pub(crate) fn new(filter: &Filter, epsilon: Epsilon, parts: &[(u32, bool)]) -> Result<Self, PlanRefusal> {
        let delta = Delta::from_units(filter.ceiling().delta.units() / DELTA_SHARE).unwrap_or(Delta::ZERO);
        let prices = Prices { filter, delta };
        let each = prices.units(epsilon)? / parts.len().max(1) as u64;
        let (mut train, mut test) = (Vec::new(), Vec::new());
        let mut noises = Vec::with_capacity(parts.len());
        for &(tables, whole) in parts {
            let why = "epsilon is too small for any noise; raise it, or ask for fewer aggregates";
            let noise = prices.table(each, tables)?.ok_or_else(|| PlanRefusal::part("budget", why))?;
            let one = noise.mechanism().map_err(|error| PlanRefusal::part("budget", error.to_string()))?;
            train.extend(std::iter::repeat_n(one.clone(), tables as usize));
            if whole {
                test.extend(std::iter::repeat_n(one, tables as usize));
            }
            noises.push(noise);
        }
        let cost = |parts: Vec<_>| if parts.is_empty() { Ok(None) } else { prices.cost(parts).map(Some) };
        let costs = [cost(train)?, cost(test)?];
        // A fixed stream has no price for what was not declared.
        prices.resources(costs.each_ref().map(Option::as_ref))?;
        let delta = if filter.rule() == Rule::Basic { Delta::ZERO } else { delta };
        Ok(Self { costs, noises, delta })
    }
}
