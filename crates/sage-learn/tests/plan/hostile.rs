//! No parameter causes a NaN or a panic.

use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use sage_kernel::accountant::gaussian_delta;
use sage_learn::plan::{
    calibrate_sampled_gaussian, discrete_gaussian_quantile, discrete_laplace_quantile, gaussian_mu, gaussian_sigma,
    laplace, laplace_quantile, normal_quantile, optimal_delta, pure_to_gdp, rogers_epsilon, sampled_gaussian,
    sampled_gaussian_continuous, sampled_gaussian_epsilon, whitehouse_capacity, whitehouse_epsilon,
};

const SIZES: [f64; 14] = [5e-324, 1e-300, 1e-30, 1e-12, 1e-6, 1e-3, 0.3, 1.0, 3.0, 50.0, 1e4, 1e12, 1e300, f64::MAX];
const BAD: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e-300];
const DELTAS: [f64; 7] = [1e-300, 1e-30, 1e-15, 1e-6, 0.1, 0.5, 0.999];

#[test]
fn bad_parameters_are_refused_everywhere() {
    for bad in BAD {
        assert!(laplace(bad, 1.0).is_err() && laplace(2.0, bad).is_err());
        assert!(sampled_gaussian(bad, 0.1, 1.0).is_err() && sampled_gaussian_continuous(2.5, bad, 1.0).is_err());
        assert!(sampled_gaussian_epsilon(bad, 1.0, 1, 1e-6).is_err());
        assert!(gaussian_mu(bad, 1e-6).is_err() && gaussian_sigma(1.0, bad).is_err());
        assert!(pure_to_gdp(bad).is_err() && normal_quantile(bad).is_err());
        assert!(rogers_epsilon(&[bad], 1.0, 1e-6).is_err() && rogers_epsilon(&[0.1], bad, 1e-6).is_err());
        assert!(whitehouse_epsilon(bad, 1e-6).is_err() && whitehouse_capacity(bad, 1e-6).is_err());
        assert!(optimal_delta(bad, 0.0, 1, 1.0).is_err() && optimal_delta(1.0, bad, 1, 1.0).is_err());
        assert!(laplace_quantile(bad, 0.1).is_err() && discrete_laplace_quantile(1.0, bad).is_err());
        assert!(discrete_gaussian_quantile(bad, 0.1).is_err());
        assert!(calibrate_sampled_gaussian(bad, 1e-6, 0.1, 1, &[2.0]).is_err());
    }
}

#[test]
fn extreme_statements_are_numbers() {
    for size in SIZES {
        for delta in DELTAS {
            let what = format!("size {size} delta {delta}");
            for result in [
                gaussian_mu(size, delta),
                gaussian_sigma(size, delta),
                whitehouse_epsilon(size, delta),
                whitehouse_capacity(size, delta),
                sampled_gaussian_epsilon(0.01, size, 10, delta),
                optimal_delta(size, 0.0, 3, 1.0),
                laplace_quantile(size, delta),
            ]
            .into_iter()
            .flatten()
            {
                assert!(result >= 0.0, "{what}: {result}");
            }
            if let (Ok(mu), true) = (gaussian_mu(size, delta), size < 1e100) {
                assert!(gaussian_delta(mu, size).unwrap() <= delta, "{what}");
            }
            let _ = (discrete_laplace_quantile(size, delta), discrete_gaussian_quantile(size, delta));
        }
        let _ = (pure_to_gdp(size), rogers_epsilon(&[size; 3], 1.0, 1e-6));
        for alpha in [1.0 + 1e-12, 1.25, 2.0, 63.5, 1024.0, 1e300] {
            assert!(laplace(alpha, size).unwrap() > 0.0, "order {alpha} size {size}");
            for q in [1e-300, 1e-9, 0.5, 1.0] {
                assert!(sampled_gaussian_continuous(alpha, q, size).unwrap() > 0.0, "order {alpha} size {size} q {q}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bit_pattern_yields_a_nan(a in any::<f64>(), b in any::<f64>(), c in any::<f64>()) {
        for result in [
            laplace(a, b), sampled_gaussian(a, b, c), gaussian_mu(a, b), pure_to_gdp(a), normal_quantile(a),
            whitehouse_epsilon(a, b), whitehouse_capacity(a, b), rogers_epsilon(&[a], b, c),
            optimal_delta(a, 0.0, 5, b), laplace_quantile(a, b),
        ].into_iter().flatten() {
            prop_assert!(!result.is_nan());
        }
    }
}
