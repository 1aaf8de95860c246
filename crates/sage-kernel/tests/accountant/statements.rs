//! Conversions and exact Gaussian privacy against reference numbers.

use sage_kernel::accountant::{
    conversion, epsilon_from_curve, gaussian_delta, gaussian_epsilon, log_normal_cdf, pure_to_zcdp, rho_for,
};

use super::vectors::{ADDITIONS, CEILINGS, CONVERSIONS, GAUSSIANS, PURE_TO_ZCDP, ZCDP};
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
fn zcdp_matches_reference() {
    for &(rho, delta, exact) in ZCDP {
        check_below(rho_for(exact * (1.0 - 1e-12), delta).unwrap(), rho, 1e-9, &format!("rho {rho} delta {delta}"));
    }
    for &(epsilon, delta, rho, mu) in CEILINGS {
        check_below(rho_for(epsilon, delta).unwrap(), rho * (1.0 + 1e-13), 1e-10, "rho ceiling");
        check_above(gaussian_epsilon(mu, delta).unwrap(), epsilon * (1.0 - 1e-9), 2e-9, "mu ceiling");
    }
}

#[test]
fn pure_conversion_matches_reference() {
    for &(epsilon, rho) in PURE_TO_ZCDP {
        check_above(pure_to_zcdp(epsilon).unwrap(), rho, 1e-13, "zcdp");
    }
}

#[test]
fn gaussian_matches_reference() {
    for &(sigma, count, delta, exact) in GAUSSIANS {
        let mu = (count as f64).sqrt() / sigma;
        let found = gaussian_epsilon(mu, delta).unwrap();
        check_above(found * (1.0 + 1e-13), exact, 1e-9, &format!("sigma {sigma} count {count}"));
        check_below(gaussian_delta(mu, found).unwrap(), delta, 1e-6, "inverse");
    }
}

#[test]
fn normal_distribution_is_accurate_into_the_tail() {
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
}
