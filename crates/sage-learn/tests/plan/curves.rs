//! Costs of continuous noise against exact values.

use sage_kernel::accountant::{ORDERS, discrete_laplace, pure};
use sage_learn::plan::{laplace, sampled_gaussian, sampled_gaussian_continuous, sampled_gaussian_epsilon};

use super::check_above;
use super::shared::SAMPLED;
use super::vectors::{LAPLACE_COSTS, SAMPLED_COSTS};

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
