//! Cost curves against exact values.

use sage_kernel::accountant::{ORDERS, discrete_laplace, gaussian, pure, sampled_gaussian_curve};

use super::vectors::{PURE_COSTS, SAMPLED};
use super::{check_above, check_below};

fn sampled_gaussian(alpha: f64, q: f64, sigma: f64) -> f64 {
    sampled_gaussian_curve(&[alpha], q, sigma).unwrap()[0]
}

#[test]
fn pure_matches_reference() {
    for &(alpha, exact) in PURE_COSTS {
        check_above(pure(alpha, 0.1).unwrap(), exact, 2e-8, &format!("order {alpha}"));
    }
}

/// The closed form against the plain sum over outcomes.
#[test]
fn discrete_laplace_matches_direct_sum() {
    for (epsilon, units) in [(0.5_f64, 1_u64), (1.0, 3), (2.0, 7), (0.1, 2)] {
        let base = (-epsilon / units as f64).exp();
        for alpha in [1.5, 2.0, 8.0, 24.0] {
            let mut moment = 0.0;
            for x in -3000_i64..=3000 {
                let p = base.powi(x.unsigned_abs() as i32);
                let q = base.powi((x - units as i64).unsigned_abs() as i32);
                if p > 0.0 && q > 0.0 {
                    moment += (alpha * p.ln() - (alpha - 1.0) * q.ln()).exp();
                }
            }
            let exact = (moment * (1.0 - base) / (1.0 + base)).ln() / (alpha - 1.0);
            let found = discrete_laplace(alpha, epsilon, units).unwrap();
            check_above(found, exact * (1.0 - 1e-12), 1e-9, &format!("{epsilon} {units} {alpha}"));
        }
    }
}

#[test]
fn gaussian_and_zcdp_are_linear() {
    check_above(gaussian(8.0, 2.0).unwrap(), 1.0, 1e-14, "gaussian");
}

#[test]
fn sampled_gaussian_is_monotone() {
    for alpha in ORDERS {
        let mut last = 0.0;
        for q in [0.0, 1e-9, 1e-5, 1e-3, 0.03, 0.3, 0.9, 1.0] {
            let cost = sampled_gaussian(alpha, q, 1.1);
            assert!(cost >= last * (1.0 - 1e-9), "q {q} order {alpha}");
            last = cost;
        }
        let mut last = f64::INFINITY;
        for sigma in [0.05, 0.3, 0.7, 1.0, 3.0, 50.0, 1e4] {
            let cost = sampled_gaussian(alpha, 0.02, sigma);
            assert!(cost <= last * (1.0 + 1e-9), "sigma {sigma} order {alpha}");
            last = cost;
        }
    }
}

/// Whole orders are exact; the others are interpolated and never below.
#[test]
fn sampled_gaussian_matches_every_setting() {
    for setting in SAMPLED {
        for &(alpha, exact) in setting.curve {
            let what = format!("q {} sigma {} order {alpha}", setting.q, setting.sigma);
            let slack = if alpha.fract() == 0.0 { 3e-9 } else { f64::INFINITY };
            let found = sampled_gaussian(alpha, setting.q, setting.sigma);
            check_above(found, exact * (1.0 - 1e-10), slack, &what);
        }
    }
}

/// A batch is exactly its single values.
#[test]
fn sampled_gaussian_curve_agrees_with_single_orders() {
    let curve = sampled_gaussian_curve(&ORDERS, 0.01, 1.3).unwrap();
    for (&alpha, &cost) in ORDERS.iter().zip(&curve) {
        check_below(sampled_gaussian(alpha, 0.01, 1.3), cost, 1e-9, "single");
    }
}

/// The exact discrete curve falls as units grow, and is never above the bound
/// for all pure mechanisms.
#[test]
fn discrete_laplace_falls_with_units() {
    for epsilon in [0.002, 0.1, 1.0, 5.0, 40.0] {
        for alpha in ORDERS {
            let mut last = pure(alpha, epsilon).unwrap();
            for power in [0, 1, 4, 10, 20, 30, 40] {
                let found = discrete_laplace(alpha, epsilon, 1 << power).unwrap();
                assert!(found <= last * (1.0 + 1e-9), "epsilon {epsilon} order {alpha} units 2^{power}");
                last = found;
            }
        }
    }
}

/// A row moves two numbers of a table, each with noise of its own: together they tell no more than one number that is
/// moved by as much as both. At every level of the likelihood ratio, exactly, and at every order.
#[test]
fn numbers_moved_together_lose_no_more_than_one() {
    for (epsilon, units) in [(0.1_f64, 8_i64), (1.0, 12), (3.0, 20), (9.0, 9)] {
        let base = (-epsilon / units as f64).exp();
        // The chance of every loss, in units, of one number that is moved so far.
        let losses = |moved: i64| {
            let reach = (40.0 * units as f64 / epsilon) as i64;
            let mut chances = std::collections::BTreeMap::new();
            for x in -reach..=reach + moved {
                let chance = (1.0 - base) / (1.0 + base) * base.powi(x.unsigned_abs() as i32);
                *chances.entry((x - moved).abs() - x.abs()).or_insert(0.0) += chance;
            }
            chances
        };
        let one = losses(units);
        let own = |loss: i64| loss as f64 * epsilon / units as f64;
        let delta = |chances: &std::collections::BTreeMap<i64, f64>, level: f64| -> f64 {
            chances.iter().map(|(&loss, chance)| chance * (1.0 - (level - own(loss)).exp()).max(0.0)).sum()
        };
        for moved in 0..=units / 2 {
            let mut both = std::collections::BTreeMap::new();
            for (first, chance) in losses(moved) {
                for (second, other) in losses(units - moved) {
                    *both.entry(first + second).or_insert(0.0) += chance * other;
                }
            }
            for step in -50..=50 {
                let level = epsilon * f64::from(step) / 50.0;
                let (found, most) = (delta(&both, level), delta(&one, level));
                assert!(found <= most * (1.0 + 1e-9) + 1e-12, "{epsilon} {units} {moved} {level}: {found} {most}");
            }
            for alpha in [1.25, 2.0, 8.0, 64.0] {
                let moment: f64 = both.iter().map(|(&loss, chance)| chance * ((alpha - 1.0) * own(loss)).exp()).sum();
                let most = discrete_laplace(alpha, epsilon, units as u64).unwrap();
                assert!(moment.ln() / (alpha - 1.0) <= most + 1e-9, "{epsilon} {units} {moved} order {alpha}");
            }
        }
    }
}
