//! Conversions, exact Gaussian privacy, quantiles, composition theorems and
//! calibration against reference numbers.

use sage_kernel::accountant::{
    AccountantError, ORDERS, calibrate_sampled_gaussian, conversion, discrete_gaussian_quantile,
    discrete_laplace_quantile, epsilon_from_curve, epsilon_from_zcdp, gaussian_delta, gaussian_epsilon,
    gaussian_mu, gaussian_sigma, laplace_quantile, log_normal_cdf, normal_quantile, optimal_delta,
    optimal_epsilon, pure_to_gdp, pure_to_zcdp, rho_for, rogers_epsilon, whitehouse_capacity,
    whitehouse_epsilon,
};

use super::vectors::{
    ADASSP, ADDITIONS, CEILINGS, CONVERSIONS, DISCRETE_LAPLACE_QUANTILES, GAUSSIAN_SIGMAS, GAUSSIANS,
    LAPLACE_QUANTILES, PURE_TO_GDP, PURE_TO_ZCDP, SGD_CALIBRATIONS, STRONG, ZCDP,
};
use super::{check_above, check_below};

#[test]
fn conversion_matches_reference() {
    for &(alpha, cost, delta, exact) in CONVERSIONS {
        let found = epsilon_from_curve(&[alpha], &[cost], delta).unwrap();
        check_above(found, exact, 1e-13, &format!("order {alpha}"));
    }
    for &(alpha, delta, exact) in ADDITIONS {
        let found = conversion(alpha, delta).unwrap();
        assert!((found - exact).abs() <= 1e-13 * (1.0 + exact.abs()), "{alpha} {delta}");
    }
}

#[test]
fn zcdp_matches_reference_and_inverts() {
    for &(rho, delta, exact) in ZCDP {
        let found = epsilon_from_zcdp(rho, delta).unwrap();
        check_above(found * (1.0 + 1e-12), exact, 1e-9, &format!("rho {rho} delta {delta}"));
        check_below(rho_for(found, delta).unwrap(), rho, 1e-9, "inverse");
    }
    for &(epsilon, delta, rho, mu) in CEILINGS {
        check_below(rho_for(epsilon, delta).unwrap(), rho * (1.0 + 1e-13), 1e-10, "rho ceiling");
        check_below(gaussian_mu(epsilon, delta).unwrap(), mu * (1.0 + 1e-12), 1e-10, "mu ceiling");
    }
}

#[test]
fn pure_conversions_match_reference() {
    for &(epsilon, mu) in PURE_TO_GDP {
        check_above(pure_to_gdp(epsilon).unwrap(), mu, 2e-9, "gdp");
    }
    for &(epsilon, rho) in PURE_TO_ZCDP {
        check_above(pure_to_zcdp(epsilon).unwrap(), rho, 1e-13, "zcdp");
    }
    check_above(pure_to_gdp(9.9e-7).unwrap(), pure_to_gdp(9.9e-7 + 2e-8).unwrap() / 1.03, 0.03, "join");
}

#[test]
fn gaussian_matches_reference() {
    for &(sigma, count, delta, exact) in GAUSSIANS {
        let mu = (count as f64).sqrt() / sigma;
        let found = gaussian_epsilon(mu, delta).unwrap();
        check_above(found * (1.0 + 1e-13), exact, 1e-9, &format!("sigma {sigma} count {count}"));
    }
    for &(epsilon, delta, exact) in GAUSSIAN_SIGMAS {
        let found = gaussian_sigma(epsilon, delta).unwrap();
        // The references are bisections to a dozen digits themselves.
        check_above(found, exact * (1.0 - 1e-12), 1e-10, &format!("epsilon {epsilon}"));
    }
    // A Gaussian calibrated to (1, 1e-6) loses more than 1 with chance 2e-5.
    let mu = gaussian_mu(1.0, 1e-6).unwrap();
    assert!(gaussian_delta(mu, 1.0).unwrap() <= 1e-6);
    assert!(gaussian_delta(mu * 1.000_001, 1.0).unwrap() > 1e-6);
}

#[test]
fn three_releases_of_adassp_are_calibrated_together() {
    for &(epsilon, delta, by_gdp, by_zcdp) in ADASSP {
        let gdp = 3.0_f64.sqrt() / gaussian_mu(epsilon, delta).unwrap();
        check_above(gdp, by_gdp * (1.0 - 1e-11), 1e-9, "gdp");
        let zcdp = (1.5 / rho_for(epsilon, delta).unwrap()).sqrt();
        check_above(zcdp, by_zcdp * (1.0 - 1e-11), 1e-9, "zcdp");
    }
}

#[test]
fn normal_law_is_accurate_into_the_tail() {
    // High-precision values of ln Phi.
    for (x, exact) in [
        (0.0, -std::f64::consts::LN_2),
        (-1.0, -1.841_021_645_009_263_5),
        (-10.0, -53.231_285_150_512_47),
        (-24.9, -314.140_412_761_613_2),
        (-40.0, -804.608_442_013_753_8),
    ] {
        assert!((log_normal_cdf(x) / exact - 1.0).abs() < 1e-14, "{x}: {}", log_normal_cdf(x));
    }
    // The two formulas meet.
    let jump = log_normal_cdf(-25.0 + 1e-9) - log_normal_cdf(-25.0 - 1e-9);
    assert!((jump - 2e-9 * 25.04).abs() < 1e-10, "{jump}");
    for p in [1e-300, 1e-20, 1e-6, 0.0125, 0.3, 0.5, 0.7, 0.9875] {
        let x = normal_quantile(p).unwrap();
        assert!((log_normal_cdf(x) - p.ln()).abs() <= 1e-12 * (1.0 + p.ln().abs()), "{p}");
    }
    assert!((normal_quantile(0.975).unwrap() - 1.959_963_984_540_054).abs() < 1e-12);
}

#[test]
fn noise_quantiles_match_reference() {
    for &(epsilon, beta, exact) in LAPLACE_QUANTILES {
        check_above(laplace_quantile(epsilon, beta).unwrap(), exact, 1e-14, "laplace");
    }
    for &(epsilon, beta, exact) in DISCRETE_LAPLACE_QUANTILES {
        assert_eq!(discrete_laplace_quantile(1.0 / epsilon, beta).unwrap(), exact);
    }
    // Large scales: the tail beyond t is within beta, beyond t - 2 it is not.
    let scale = f64::from(1 << 20) / 0.3;
    let t = discrete_laplace_quantile(scale, 1e-3).unwrap() as f64;
    let tail = |t: f64| (-(t + 1.0) / scale).exp() / (1.0 + (-1.0 / scale).exp());
    assert!(tail(t) <= 1e-3 && tail(t - 2.0) > 1e-3);
    assert_eq!(discrete_gaussian_quantile(10.0, 0.0125).unwrap(), 23);
    assert_eq!(discrete_gaussian_quantile(10.0, 0.7).unwrap(), 0);
}

#[test]
fn filters_match_reference() {
    for &(ceiling, delta, count, epsilon, rogers, whitehouse, zcdp) in STRONG {
        let spent = vec![epsilon; count as usize];
        check_above(rogers_epsilon(&spent, ceiling, delta).unwrap(), rogers, 1e-11, "rogers");
        let squares: f64 = spent.iter().map(|e| e * e).sum();
        let found = whitehouse_epsilon(squares, 0.5 * delta).unwrap();
        check_above(found * (1.0 + 1e-14), whitehouse, 1e-12, "whitehouse");
        let rho = count as f64 * pure_to_zcdp(epsilon).unwrap();
        check_above(epsilon_from_zcdp(rho, 0.5 * delta).unwrap(), zcdp * (1.0 - 1e-11), 1e-9, "zcdp");
    }
    for (epsilon, delta, fits) in [(1.0, 5e-7, 333), (10.0, 5e-8, 23_233)] {
        let capacity = whitehouse_capacity(epsilon, delta).unwrap();
        assert!(whitehouse_epsilon(capacity, delta).unwrap() <= epsilon);
        assert_eq!((capacity / 1e-4).floor() as u64, fits);
    }
}

#[test]
fn optimal_composition_is_exact() {
    // One use is itself.
    check_above(optimal_delta(1.0, 1e-6, 1, 1.0).unwrap(), 1e-6, 2e-9, "one at its epsilon");
    assert!(optimal_epsilon(1.0, 0.0, 1, 1e-9).unwrap() <= 1.0);
    // Two of epsilon 1 at target 0: total variation of two responses.
    let yes = 1.0_f64.exp() / (1.0 + 1.0_f64.exp());
    let exact = yes * yes - (1.0 - yes) * (1.0 - yes);
    check_above(optimal_delta(1.0, 0.0, 2, 0.0).unwrap(), exact, 1e-8, "two");
    // 302 queries of 0.1 fit in (10, 1e-7), the 303rd does not.
    assert!(optimal_epsilon(0.1, 0.0, 302, 1e-7).unwrap() <= 10.0);
    assert!(optimal_epsilon(0.1, 0.0, 303, 1e-7).unwrap() > 10.0);
}

#[test]
fn renyi_calibration_matches_reference_from_above() {
    let integers: Vec<f64> = ORDERS.into_iter().filter(|order| order.fract() == 0.0).collect();
    for &(epsilon, delta, q, steps, exact) in SGD_CALIBRATIONS {
        let found = calibrate_sampled_gaussian(epsilon, delta, q, steps, &integers).unwrap();
        check_above(found, exact * (1.0 - 1e-6), 3e-6, &format!("epsilon {epsilon}"));
        let unreachable = calibrate_sampled_gaussian(1e-9, delta, q, steps, &integers);
        assert_eq!(unreachable, Err(AccountantError::Unbounded));
    }
}
