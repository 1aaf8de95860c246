//! Exact Gaussian privacy, quantiles, composition theorems and calibration against reference numbers.

use sage_kernel::accountant::{
    AccountantError, Certified, Composition, Loss, ORDERS, gaussian_delta, log_normal_cdf, pure_to_zcdp, rho_for,
};
use sage_kernel::{Ceiling, Delta, Epsilon};
use sage_learn::plan::{
    Comparison, Statement, calibrate_sampled_gaussian, calibrate_sigma, discrete_gaussian_quantile,
    discrete_laplace_quantile, epsilon_from_zcdp, gaussian_mu, gaussian_sigma, laplace_quantile, normal_quantile,
    optimal_delta, optimal_epsilon, pure_to_gdp, rogers_epsilon, whitehouse_capacity, whitehouse_epsilon,
};

use super::shared::CEILINGS;
use super::vectors::{
    ADASSP, DISCRETE_LAPLACE_QUANTILES, GAUSSIAN_SIGMAS, LAPLACE_QUANTILES, PURE_TO_GDP, SGD_CALIBRATIONS, STRONG,
};
use super::{check_above, check_below};

#[test]
fn pure_to_gdp_matches_reference() {
    for &(epsilon, mu) in PURE_TO_GDP {
        check_above(pure_to_gdp(epsilon).unwrap(), mu, 2e-9, "gdp");
    }
    check_above(pure_to_gdp(9.9e-7).unwrap(), pure_to_gdp(9.9e-7 + 2e-8).unwrap() / 1.03, 0.03, "join");
}

#[test]
fn gaussian_matches_reference() {
    for &(epsilon, delta, _, mu) in CEILINGS {
        check_below(gaussian_mu(epsilon, delta).unwrap(), mu * (1.0 + 1e-12), 1e-10, "mu ceiling");
    }
    for &(epsilon, delta, exact) in GAUSSIAN_SIGMAS {
        let found = gaussian_sigma(epsilon, delta).unwrap();
        // The references are themselves bisections to a dozen digits.
        check_above(found, exact * (1.0 - 1e-12), 1e-10, &format!("epsilon {epsilon}"));
    }
    // The privacy loss of a Gaussian calibrated to (1, 1e-6) exceeds 1 with probability 2e-5.
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
fn normal_quantiles_invert_the_cdf() {
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

/// The composition of black boxes has an exact optimum by another formula.
#[test]
fn black_boxes_match_the_optimum() {
    for (epsilon, delta, count) in
        [(0.1, 1e-9, 10), (0.1, 0.0, 302), (0.01, 1e-12, 1000), (1.0, 1e-10, 3), (0.05, 1e-9, 400)]
    {
        for target in [1e-4, 1e-6] {
            let exact = optimal_epsilon(epsilon, delta, count, target).unwrap();
            let composition = Composition::new(&[(Loss::BlackBox { epsilon, delta }, u64::from(count))]).unwrap();
            let above = composition.epsilon(target).unwrap();
            check_above(above, exact * (1.0 - 1e-8), 3e-4, &format!("{epsilon} {delta} {count}"));
        }
    }
}

#[test]
fn calibration_returns_a_sigma_within_the_target() {
    let q = 1024.0 / 5e6;
    let steps =
        |sigma: f64| -> Certified<Composition> { Composition::new(&[(Loss::SampledGaussian { q, sigma }, 15_000)]) };
    let sigma = calibrate_sigma(1.0, 1e-6, steps).unwrap();
    assert!(steps(sigma).unwrap().finely().epsilon(1e-6).unwrap() <= 1.0);
    // Lattices of 1e-5 and of 3e-6 agree on 0.613113; the reference accountant gives 0.61312037.
    assert!((0.613_113..0.613_120_3).contains(&sigma), "{sigma}");
    let gaussian = |sigma: f64| Composition::new(&[(Loss::Gaussian { mu: 1.0 / sigma }, 1)]);
    let sigma = calibrate_sigma(1.0, 1e-6, gaussian).unwrap();
    check_above(sigma, 4.224_678_889_326_8, 1.1e-6, "analytic");
}

/// The counts of queries that fit under both theorems, from published tables.
#[test]
fn comparisons_match_the_tables() {
    let laplace = |tenths_of_percent: u64| (1_000_000_000 * tenths_of_percent, 0);
    // Gaussian noise of 50 sensitivities, exactly, at 1e-9.
    let gaussian = sage_kernel::accountant::gaussian_epsilon(1.0 / 50.0, 1e-9).unwrap();
    let gaussian = ((gaussian * 1e12).ceil() as u64, 1_000_000_000);
    let (small, large) = ((1_000_000_000_000, 1_000_000_000_000), (10_000_000_000_000, 100_000_000_000));
    for ((epsilon, delta), ceiling, whitehouse, rogers) in [
        ((100_000_000_000, 1_000_000_000), small, 3, 1),
        ((100_000_000_000, 1_000_000_000), large, 50, 50),
        (laplace(100), small, 3, 1),
        (laplace(100), large, 232, 115),
        (laplace(10), small, 333, 147),
        (laplace(10), large, 23_233, 11_568),
        (gaussian, small, 3, 1),
        (gaussian, large, 50, 50),
    ] {
        let epsilon = Epsilon::from_units(epsilon).unwrap();
        let delta = Delta::from_units(delta).unwrap();
        let ceiling =
            Ceiling { epsilon: Epsilon::from_units(ceiling.0).unwrap(), delta: Delta::from_units(ceiling.1).unwrap() };
        let found = Comparison::of(&[Statement { epsilon, delta, count: 1 }], ceiling);
        assert_eq!(found, Comparison { whitehouse, rogers }, "{epsilon} {delta:?}");
        let half = Statement { epsilon, delta, count: 2 };
        assert_eq!(Comparison::of(&[half], ceiling).whitehouse, whitehouse / 2);
    }
}
