//! Remaining and spent budget of a filter, for display.
//!
//! A filter only admits or refuses. How often it would still admit a cost, and which ε a state corresponds to, is
//! informative: no ledger may use either, and an odometer that is read between outputs does not bound the loss of a
//! stopping rule that depends on it.

use sage_kernel::accountant::{AccountantError, Certified, conversion};
use sage_kernel::{Amounts, Ceiling, DeclaredQuery, Epsilon, Filter, Rule};

use super::number::{not_negative, probability, raise};

/// How many more times the filter admits the amounts after what has been spent.
pub fn fits(filter: &Filter, spent: &[u128], cost: &Amounts) -> u64 {
    // Admission is monotone: a cost that is admitted `count` times is also admitted fewer times.
    let admitted = |count: u64| {
        let before = u128::from(count - 1);
        // Far above every cap, and low enough that the filter's additions do not overflow.
        let most = u128::MAX >> 1;
        let after = |(spent, cost): (&u128, &u64)| spent.saturating_add(u128::from(*cost) * before).min(most);
        let spent: Vec<u128> = spent.iter().zip(cost.units()).map(after).collect();
        filter.admits(&spent, cost)
    };
    if spent.len() != filter.caps().len() || cost.units().len() != spent.len() || !admitted(1) {
        return 0;
    }
    let (mut inside, mut outside) = (1, u64::MAX);
    if admitted(outside) {
        return outside;
    }
    while outside - inside > 1 {
        let middle = inside + (outside - inside) / 2;
        if admitted(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    inside
}

/// What has been spent, as the smallest ε at δ_g for which the filter's rule would have admitted it; for a
/// fixed list to one part in 4096 of ε_g, rounded up.
pub fn odometer(filter: &Filter, spent: &[u128]) -> Epsilon {
    let ceiling = filter.ceiling();
    let units = match filter.rule() {
        Rule::Basic => spent[0],
        Rule::Strong if spent[0] == 0 => 0,
        Rule::Strong => {
            let half = (ceiling.delta.units() / 2) as f64 / 1e18;
            let loss = epsilon_from_zcdp(spent[0] as f64 / 1e12, half).unwrap_or(f64::INFINITY);
            (loss * 1e12 * (1.0 + 1e-12)).ceil() as u128
        }
        // The cap of an order is ε_g less a constant of the order.
        Rule::Renyi => {
            let total = u128::from(ceiling.epsilon.units());
            let needed = |(spent, cap): (&u128, &u64)| spent + (total - u128::from(*cap));
            spent.iter().zip(filter.caps()).skip(1).map(needed).min().unwrap_or(u128::MAX)
        }
        Rule::Fixed => u128::from(fixed(filter, spent).units()),
    };
    u64::try_from(units).ok().and_then(Epsilon::from_units).unwrap_or(Epsilon::LIMIT)
}

/// The smallest ceiling under which the used part of the declarations could have been declared.
fn fixed(filter: &Filter, spent: &[u128]) -> Epsilon {
    let times = |count: &u128| u32::try_from(*count).unwrap_or(u32::MAX);
    let used = filter.declared().iter().zip(spent).filter(|(_, count)| **count > 0);
    let used: Vec<DeclaredQuery> =
        used.map(|(one, count)| DeclaredQuery { times: times(count), ..one.clone() }).collect();
    let ceiling = filter.ceiling();
    let part = |share: u64| {
        let units = u128::from(ceiling.epsilon.units()) * u128::from(share) / 4096;
        Epsilon::from_units(units as u64).unwrap_or(Epsilon::LIMIT)
    };
    let holds = |share: u64| Filter::fixed(Ceiling { epsilon: part(share), ..ceiling }, used.clone()).is_ok();
    let (mut outside, mut inside) = (0, 4096);
    while !used.is_empty() && inside - outside > 1 {
        let middle = (inside + outside) / 2;
        if holds(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    if used.is_empty() { Epsilon::ZERO } else { part(inside) }
}

/// The epsilon of a `rho`-zCDP mechanism at `delta`.
///
/// # Guarantee
/// The mechanism is `(epsilon, delta)`-DP; the best real order is found to
/// within the search's resolution, and every order is valid.
pub fn epsilon_from_zcdp(rho: f64, delta: f64) -> Certified<f64> {
    not_negative(rho, "rho")?;
    probability(delta, "delta")?;
    let at = |log_excess: f64| {
        let alpha = 1.0 + libm::exp(log_excess);
        conversion(alpha, delta).map_or(f64::INFINITY, |added| raise(rho * alpha, 8.0 * f64::EPSILON) + added)
    };
    // Ternary search over `ln(alpha - 1)`: the function is unimodal.
    let (mut low, mut high) = (-20.0, 60.0);
    for _ in 0..120 {
        let third = (high - low) / 3.0;
        if at(low + third) <= at(high - third) {
            high -= third;
        } else {
            low += third;
        }
    }
    let best = at(0.5 * (low + high));
    if best == f64::INFINITY { Err(AccountantError::Unbounded) } else { Ok(best.max(0.0) * (1.0 + 2.0 * f64::EPSILON)) }
}
