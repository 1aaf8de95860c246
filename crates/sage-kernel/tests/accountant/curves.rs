//! Cost curves against exact values.

use sage_kernel::accountant::{
    DENSE_ORDERS, ORDERS, discrete_laplace, gaussian, laplace, pure, sampled_gaussian,
    sampled_gaussian_continuous, sampled_gaussian_curve, sampled_gaussian_epsilon, zcdp,
};

use super::vectors::{LAPLACE_COSTS, PURE_COSTS, SAMPLED, SAMPLED_COSTS};
use super::{check_above, check_below};

#[test]
fn pure_matches_reference() {
    for &(alpha, exact) in PURE_COSTS {
        check_above(pure(alpha, 0.1).unwrap(), exact, 2e-8, &format!("order {alpha}"));
    }
}

#[test]
fn laplace_matches_reference() {
    for &(epsilon, alpha, exact) in LAPLACE_COSTS {
        let what = format!("epsilon {epsilon} order {alpha}");
        check_above(laplace(alpha, epsilon).unwrap(), exact * (1.0 - 1e-14), 1e-9, &what);
    }
}

/// The exact discrete curve falls to the continuous one as units grow, and is
/// never above the bound for all pure mechanisms.
#[test]
fn discrete_laplace_lies_between_laplace_and_pure() {
    for epsilon in [0.002, 0.1, 1.0, 5.0, 40.0] {
        for alpha in ORDERS {
            let continuous = laplace(alpha, epsilon).unwrap();
            let mut last = pure(alpha, epsilon).unwrap();
            for power in [0, 1, 4, 10, 20, 30, 40] {
                let found = discrete_laplace(alpha, epsilon, 1 << power).unwrap();
                let what = format!("epsilon {epsilon} order {alpha} units 2^{power}");
                assert!(found <= last * (1.0 + 1e-9), "{what}: not falling");
                check_above(found * (1.0 + 4e-10), continuous, f64::INFINITY, &what);
                last = found;
            }
            check_above(last * (1.0 + 4e-10), continuous, 1e-8, "in the limit");
        }
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
    check_above(zcdp(8.0, 0.125).unwrap(), 1.0, 1e-14, "zcdp");
}

#[test]
fn sampled_gaussian_matches_reference() {
    for &(q, sigma, alpha, exact) in SAMPLED_COSTS {
        let what = format!("q {q} sigma {sigma} order {alpha}");
        let charged = sampled_gaussian(alpha, q, sigma).unwrap();
        let continuous = sampled_gaussian_continuous(alpha, q, sigma).unwrap();
        check_above(continuous, exact * (1.0 - 1e-11), 3e-9, &what);
        assert!(charged >= continuous, "{what}: interpolation below quadrature");
        if alpha.fract() == 0.0 {
            check_above(charged, exact * (1.0 - 1e-11), 1e-9, &what);
        }
    }
}

#[test]
fn sampled_gaussian_matches_every_setting() {
    for setting in SAMPLED {
        for &(alpha, exact) in setting.curve {
            let what = format!("q {} sigma {} order {alpha}", setting.q, setting.sigma);
            let found = sampled_gaussian_continuous(alpha, setting.q, setting.sigma).unwrap();
            check_above(found, exact * (1.0 - 1e-10), 3e-9, &what);
            assert!(sampled_gaussian(alpha, setting.q, setting.sigma).unwrap() >= found, "{what}");
        }
    }
}

#[test]
fn renyi_epsilon_is_within_one_percent_of_the_best_reference() {
    for setting in SAMPLED {
        let found = sampled_gaussian_epsilon(setting.q, setting.sigma, setting.steps, setting.delta).unwrap();
        let what = format!("q {} sigma {}", setting.q, setting.sigma);
        assert!(found <= 1.01 * setting.renyi_epsilon, "{what}: {found}");
        assert!(found >= setting.optimistic, "{what}: {found}");
    }
}

/// A batch is exactly its single values.
#[test]
fn sampled_gaussian_curve_agrees_with_single_orders() {
    let curve = sampled_gaussian_curve(&DENSE_ORDERS, 0.01, 1.3).unwrap();
    for (&alpha, &cost) in DENSE_ORDERS.iter().zip(&curve) {
        let single = sampled_gaussian(alpha, 0.01, 1.3).unwrap();
        check_below(single, cost, 1e-9, "single");
    }
}

#[test]
fn sampled_gaussian_is_monotone() {
    for alpha in ORDERS {
        let mut last = 0.0;
        for q in [0.0, 1e-9, 1e-5, 1e-3, 0.03, 0.3, 0.9, 1.0] {
            let cost = sampled_gaussian(alpha, q, 1.1).unwrap();
            assert!(cost >= last * (1.0 - 1e-9), "q {q} order {alpha}");
            last = cost;
        }
        let mut last = f64::INFINITY;
        for sigma in [0.05, 0.3, 0.7, 1.0, 3.0, 50.0, 1e4] {
            let cost = sampled_gaussian(alpha, 0.02, sigma).unwrap();
            assert!(cost <= last * (1.0 + 1e-9), "sigma {sigma} order {alpha}");
            last = cost;
        }
    }
}
