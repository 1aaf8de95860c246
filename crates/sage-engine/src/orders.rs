//! The Rényi method of the account: the best order for a whole list, over dense and real orders.
//!
//! Every order gives a valid bound, so the search affects only its tightness. It must never be used by a filter, whose
//! orders and weights are fixed before the first charge.

use sage_kernel::accountant::{Certified, conversion, gaussian, pure, sampled_gaussian_curve};
use sage_kernel::{Delta, Epsilon};
use sage_learn::plan::{DENSE_ORDERS, laplace, sampled_gaussian_continuous};

use crate::account::{AccountError, Release, delta_left, epsilon_value, rate_value, sigma_value};

/// The maximum number of training runs for the search over real orders, which needs quadrature.
const REAL_ORDER_RUNS: usize = 32;
/// How often the search around the best order halves its step.
const HALVINGS: usize = 8;

/// The ε at δ by Rényi orders: the sum of all curves at the best order.
///
/// # Errors
/// When no δ remains after the black-box mechanisms, or no order has a finite cost.
pub fn epsilon_by_orders(releases: &[Release], delta: Delta) -> Result<f64, AccountError> {
    let left = delta_left(releases, delta)?;
    let mut best = pure_epsilon(releases);
    if left > 0.0 {
        let runs = releases.iter().filter(|release| matches!(release, Release::SampledGaussian { .. }));
        let few = runs.count() <= REAL_ORDER_RUNS;
        let orders: Vec<f64> = order_grid().into_iter().filter(|order| few || order.fract() == 0.0).collect();
        let costs = sum_curves(releases, &orders)?;
        let mut best_index = 0;
        let mut best_on_grid = f64::INFINITY;
        for (index, (&order, &cost)) in orders.iter().zip(&costs).enumerate() {
            let epsilon = cost + conversion(order, left)?;
            if epsilon < best_on_grid {
                (best_on_grid, best_index) = (epsilon, index);
            }
        }
        if few {
            best_on_grid = refine_order(releases, &orders, (best_index, best_on_grid), left)?;
        }
        best = best.min(best_on_grid.max(0.0) * (1.0 + 1e-12));
    }
    match (best.is_finite(), left > 0.0) {
        (true, _) => Ok(best),
        (false, true) => Err(AccountError::Unbounded),
        (false, false) => Err(AccountError::DeltaUsedUp),
    }
}

/// All dense orders, tenths below two, and a sparse tail for lists with a very small loss.
fn order_grid() -> Vec<f64> {
    let low = (1..10).map(|tenths| 1.0 + f64::from(tenths) / 10.0);
    let high = (2..44).map(|index| 2048.0 * 1.5_f64.powi(index).floor());
    low.chain(DENSE_ORDERS).chain(high).collect()
}

/// Order ∞: the sum of the pure losses, if every release has one.
fn pure_epsilon(releases: &[Release]) -> f64 {
    let units = releases.iter().map(|release| release.pure_units());
    units.sum::<Option<u128>>().map_or(f64::INFINITY, |units| units as f64 / 1e12)
}

/// The Rényi cost of the list at each order.
fn sum_curves(releases: &[Release], orders: &[f64]) -> Result<Vec<f64>, AccountError> {
    let mut total = vec![0.0; orders.len()];
    for release in releases {
        let (curve, count) = match *release {
            Release::SampledGaussian { rate, sigma, steps } => {
                (sampled(orders, rate_value(rate), sigma_value(sigma))?, steps)
            }
            Release::Gaussian { sigma, count } => {
                (curve_at(orders, |order| gaussian(order, sigma_value(sigma)))?, count)
            }
            Release::Laplace { scale, count } => {
                let epsilon = crate::account::laplace_epsilon(scale).ok_or(AccountError::Unbounded)?;
                (curve_at(orders, |order| laplace(order, epsilon_value(epsilon)))?, count)
            }
            Release::Pure { epsilon, count } | Release::BlackBox { epsilon, count, .. } => {
                if epsilon == Epsilon::ZERO {
                    continue;
                }
                (curve_at(orders, |order| pure(order, epsilon_value(epsilon)))?, count)
            }
            Release::Zcdp { rho, count } => {
                (curve_at(orders, |order| Ok(order * epsilon_value(rho) * (1.0 + 1e-12)))?, count)
            }
        };
        for (total, cost) in total.iter_mut().zip(curve) {
            *total += cost * f64::from(count);
        }
    }
    Ok(total)
}

fn curve_at(orders: &[f64], cost: impl Fn(f64) -> Certified<f64>) -> Result<Vec<f64>, AccountError> {
    Ok(orders.iter().map(|&order| cost(order)).collect::<Certified<Vec<f64>>>()?)
}

/// The cost of one step: integer orders by the exact sum, the others by quadrature for continuous noise.
fn sampled(orders: &[f64], q: f64, sigma: f64) -> Result<Vec<f64>, AccountError> {
    let mut costs = sampled_gaussian_curve(orders, q, sigma)?;
    for (cost, &order) in costs.iter_mut().zip(orders) {
        if order.fract() != 0.0 {
            *cost = sampled_gaussian_continuous(order, q, sigma)?;
        }
    }
    Ok(costs)
}

/// The best ε at real orders around the best order of the grid.
fn refine_order(
    releases: &[Release], orders: &[f64], (index, known): (usize, f64), delta: f64,
) -> Result<f64, AccountError> {
    let above = orders.get(index + 1).map_or(orders[index], |next| next - orders[index]);
    let mut centre = orders[index];
    let mut step = 0.5 * above;
    let mut best = known;
    for _ in 0..HALVINGS {
        let around = centre;
        for order in [around - step, around + step].into_iter().filter(|&order| order > 1.001) {
            let epsilon = sum_curves(releases, &[order])?[0] + conversion(order, delta)?;
            if epsilon < best {
                (best, centre) = (epsilon, order);
            }
        }
        step *= 0.5;
    }
    Ok(best)
}
