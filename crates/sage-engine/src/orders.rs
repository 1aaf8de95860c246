//! The Rényi route of the account: the best order for a whole list, over dense and real orders.
//!
//! Every order gives a true bound, so the search only decides how tight the answer is. It must never serve
//! a filter: there, orders and weights are fixed before the first charge.

use sage_kernel::accountant::{Certified, conversion, gaussian, pure, sampled_gaussian_curve};
use sage_kernel::{Delta, Epsilon};
use sage_learn::plan::{DENSE_ORDERS, laplace, sampled_gaussian_continuous};

use crate::account::{NoNumber, Release, delta_left, epsilon_value, rate_value, sigma_value};

/// How many distinct training runs are still searched over real orders; each needs a quadrature.
const REAL_ORDER_RUNS: usize = 32;
/// How often the search around the best order halves its step.
const HALVINGS: usize = 8;

/// The ε at δ by Rényi orders: every release's curve is added up and the best order is taken.
///
/// # Errors
/// When the black boxes leave no δ, or no order has a finite cost.
pub fn epsilon_by_orders(releases: &[Release], delta: Delta) -> Result<f64, NoNumber> {
    let left = delta_left(releases, delta)?;
    let mut best = at_infinity(releases);
    if left > 0.0 {
        let runs = releases.iter().filter(|release| matches!(release, Release::SampledGaussian { .. }));
        let few = runs.count() <= REAL_ORDER_RUNS;
        let orders: Vec<f64> = grid().into_iter().filter(|order| few || order.fract() == 0.0).collect();
        let costs = added_up(releases, &orders)?;
        let mut best_place = 0;
        let mut best_here = f64::INFINITY;
        for (place, (&order, &cost)) in orders.iter().zip(&costs).enumerate() {
            let epsilon = cost + conversion(order, left)?;
            if epsilon < best_here {
                (best_here, best_place) = (epsilon, place);
            }
        }
        if few {
            best_here = beside(releases, &orders, (best_place, best_here), left)?;
        }
        best = best.min(best_here.max(0.0) * (1.0 + 1e-12));
    }
    match (best.is_finite(), left > 0.0) {
        (true, _) => Ok(best),
        (false, true) => Err(NoNumber::Unbounded),
        (false, false) => Err(NoNumber::DeltaUsedUp),
    }
}

/// Every dense order, tenths below two, and a sparse tail for lists that cost very little.
fn grid() -> Vec<f64> {
    let low = (1..10).map(|tenths| 1.0 + f64::from(tenths) / 10.0);
    let high = (2..44).map(|place| 2048.0 * 1.5_f64.powi(place).floor());
    low.chain(DENSE_ORDERS).chain(high).collect()
}

/// Order ∞: the sum of the losses, where every release has one.
fn at_infinity(releases: &[Release]) -> f64 {
    let units = releases.iter().map(|release| release.pure_units());
    units.sum::<Option<u128>>().map_or(f64::INFINITY, |units| units as f64 / 1e12)
}

/// The list's cost at each order.
fn added_up(releases: &[Release], orders: &[f64]) -> Result<Vec<f64>, NoNumber> {
    let mut total = vec![0.0; orders.len()];
    for release in releases {
        let (curve, count) = match *release {
            Release::SampledGaussian { rate, sigma, steps } => {
                (sampled(orders, rate_value(rate), sigma_value(sigma))?, steps)
            }
            Release::Gaussian { sigma, count } => (each(orders, |order| gaussian(order, sigma_value(sigma)))?, count),
            Release::Laplace { scale, count } => {
                let epsilon = crate::account::laplace_epsilon(scale).ok_or(NoNumber::Unbounded)?;
                (each(orders, |order| laplace(order, epsilon_value(epsilon)))?, count)
            }
            Release::Pure { epsilon, count } | Release::BlackBox { epsilon, count, .. } => {
                if epsilon == Epsilon::ZERO {
                    continue;
                }
                (each(orders, |order| pure(order, epsilon_value(epsilon)))?, count)
            }
            Release::Zcdp { rho, count } => {
                (each(orders, |order| Ok(order * epsilon_value(rho) * (1.0 + 1e-12)))?, count)
            }
        };
        for (total, cost) in total.iter_mut().zip(curve) {
            *total += cost * f64::from(count);
        }
    }
    Ok(total)
}

fn each(orders: &[f64], cost: impl Fn(f64) -> Certified<f64>) -> Result<Vec<f64>, NoNumber> {
    Ok(orders.iter().map(|&order| cost(order)).collect::<Certified<Vec<f64>>>()?)
}

/// One step's cost: whole orders by the exact sum, the others by quadrature for continuous noise.
fn sampled(orders: &[f64], q: f64, sigma: f64) -> Result<Vec<f64>, NoNumber> {
    let mut costs = sampled_gaussian_curve(orders, q, sigma)?;
    for (cost, &order) in costs.iter_mut().zip(orders) {
        if order.fract() != 0.0 {
            *cost = sampled_gaussian_continuous(order, q, sigma)?;
        }
    }
    Ok(costs)
}

/// The best ε at real orders around the best place of the grid, where it is known.
fn beside(releases: &[Release], orders: &[f64], (place, known): (usize, f64), delta: f64) -> Result<f64, NoNumber> {
    let above = orders.get(place + 1).map_or(orders[place], |next| next - orders[place]);
    let mut centre = orders[place];
    let mut step = 0.5 * above;
    let mut best = known;
    for _ in 0..HALVINGS {
        let around = centre;
        for order in [around - step, around + step].into_iter().filter(|&order| order > 1.001) {
            let epsilon = added_up(releases, &[order])?[0] + conversion(order, delta)?;
            if epsilon < best {
                (best, centre) = (epsilon, order);
            }
        }
        step *= 0.5;
    }
    Ok(best)
}
