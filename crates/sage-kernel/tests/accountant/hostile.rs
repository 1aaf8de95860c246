//! No parameter, however absurd, gets a NaN, a panic or a free ride.

use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use sage_kernel::accountant::{
    Certified, Composition, Loss, conversion, discrete_laplace, epsilon_from_curve, gaussian, gaussian_delta,
    gaussian_epsilon, pure, pure_to_zcdp, rho_for, sampled_gaussian_curve,
};

const SIZES: [f64; 14] = [5e-324, 1e-300, 1e-30, 1e-12, 1e-6, 1e-3, 0.3, 1.0, 3.0, 50.0, 1e4, 1e12, 1e300, f64::MAX];
const BAD: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e-300];
const DELTAS: [f64; 7] = [1e-300, 1e-30, 1e-15, 1e-6, 0.1, 0.5, 0.999];

#[test]
fn bad_parameters_are_refused_everywhere() {
    for bad in BAD {
        assert!(pure(bad, 1.0).is_err() && pure(2.0, bad).is_err());
        assert!(discrete_laplace(bad, 1.0, 1).is_err() && discrete_laplace(2.0, bad, 1).is_err());
        assert!(gaussian(bad, 1.0).is_err() && gaussian(2.0, bad).is_err());
        assert!(sampled(bad, 0.1, 1.0).is_err());
        assert!(sampled(2.0, bad, 1.0).is_err() && sampled(2.0, 0.1, bad).is_err());
        assert!(conversion(bad, 0.1).is_err() && conversion(2.0, bad).is_err());
        assert!(epsilon_from_curve(&[2.0], &[bad], 1e-6).is_err());
        assert!(rho_for(bad, 1e-6).is_err() && rho_for(1.0, bad).is_err());
        assert!(gaussian_delta(bad, 1.0).is_err() && gaussian_delta(1.0, bad).is_err());
        assert!(gaussian_epsilon(bad, 1e-6).is_err() && gaussian_epsilon(1.0, bad).is_err());
        assert!(pure_to_zcdp(bad).is_err());
        for loss in [
            Loss::Gaussian { mu: bad },
            Loss::DiscreteLaplace { epsilon: bad, units: 1 },
            Loss::BlackBox { epsilon: bad, delta: 0.0 },
            Loss::BlackBox { epsilon: 1.0, delta: bad },
            Loss::SampledGaussian { q: bad, sigma: 1.0 },
            Loss::SampledGaussian { q: 0.1, sigma: bad },
        ] {
            assert!(Composition::new(&[(loss, 1)]).is_err(), "{loss:?}");
        }
        let fine = Composition::new(&[(Loss::DiscreteLaplace { epsilon: 1.0, units: 9 }, 2)]).unwrap();
        assert!(fine.epsilon(bad).is_err());
    }
    assert!(discrete_laplace(2.0, 1.0, 0).is_err());
    assert!(Composition::new(&[(Loss::DiscreteLaplace { epsilon: 1.0, units: 0 }, 1)]).is_err());
    assert!(Composition::new(&[(Loss::DiscreteLaplace { epsilon: 1.0, units: 9 }, u64::MAX)]).is_err());
    assert!(conversion(1.0, 0.1).is_err() && conversion(2.0, 1.0).is_err() && conversion(2.0, 0.0).is_err());
    assert!(epsilon_from_curve(&[2.0], &[f64::INFINITY], 0.1).is_err());
    assert!(epsilon_from_curve(&[2.0, 3.0], &[1.0], 0.1).is_err());
}

fn sampled(alpha: f64, q: f64, sigma: f64) -> Certified<f64> {
    sampled_gaussian_curve(&[alpha], q, sigma).map(|curve| curve[0])
}

fn positive(cost: f64, what: &str) {
    assert!(cost > 0.0, "{what}: {cost}");
}

#[test]
fn extreme_costs_stay_positive_and_ordered() {
    for alpha in [1.0 + 1e-12, 1.000_1, 1.25, 2.0, 2.5, 63.5, 1024.0, 5000.5, 1e300] {
        for size in SIZES {
            let what = format!("order {alpha} size {size}");
            let all = pure(alpha, size).unwrap();
            positive(all, &what);
            assert!(all <= size * (1.0 + 1e-7) + 1e-300, "{what}: pure above epsilon");
            for units in [1, 1 << 40, u64::MAX] {
                let discrete = discrete_laplace(alpha, size, units).unwrap();
                positive(discrete, &what);
                assert!(discrete <= all, "{what}");
            }
            positive(gaussian(alpha, size).unwrap(), &what);
            for q in [5e-324, 1e-300, 1e-9, 0.5, 1.0 - f64::EPSILON, 1.0] {
                let what = format!("{what} q {q}");
                let charged = sampled(alpha, q, size).unwrap();
                positive(charged, &what);
                assert!(charged <= gaussian(alpha, size).unwrap() * (1.0 + 1e-9), "{what}");
            }
            assert_eq!(sampled(alpha, 0.0, size).unwrap(), 0.0);
        }
    }
}

#[test]
fn extreme_statements_are_numbers() {
    for size in SIZES {
        for delta in DELTAS {
            let what = format!("size {size} delta {delta}");
            let found = gaussian_delta(size, 1.0).unwrap();
            assert!((0.0..=1.0).contains(&found), "{what}");
            for outcome in [gaussian_epsilon(size, delta), rho_for(size, delta)].into_iter().flatten() {
                assert!(outcome >= 0.0, "{what}: {outcome}");
            }
        }
        assert!(pure_to_zcdp(size).unwrap() > 0.0);
    }
}

/// The answer of the lattice accountant is a number at least as large as what
/// it claims to bound, or an error; never NaN, never below zero.
fn check_composition(items: &[(Loss, u64)], delta: f64) {
    let composition = Composition::new(items).unwrap();
    let start = std::time::Instant::now();
    if let Ok(found) = composition.epsilon(delta) {
        assert!(found >= 0.0 && found.is_finite(), "{items:?} {delta}: {found}");
    }
    assert!(start.elapsed().as_secs() < 60, "{items:?} {delta}");
}

#[test]
fn extreme_compositions_answer_or_refuse() {
    for size in [1e-300, 1e-12, 1e-9, 1e-3, 0.04, 1.0, 40.0, 1e4, 1e6, 1e9, 1e100] {
        for delta in [1e-300, 1e-30, 1e-6, 0.999] {
            for units in [1, 1 << 20, u64::MAX] {
                check_composition(&[(Loss::DiscreteLaplace { epsilon: size, units }, 1 << 40)], delta);
            }
            check_composition(&[(Loss::BlackBox { epsilon: size, delta: 1e-12 }, 1 << 40)], delta);
            for q in [1e-300, 1e-12, 1e-4, 0.5] {
                check_composition(&[(Loss::SampledGaussian { q, sigma: size }, 1 << 40)], delta);
            }
            check_composition(&[(Loss::DiscreteLaplace { epsilon: size, units: 5 }, 3)], delta);
            check_composition(&[(Loss::BlackBox { epsilon: size, delta: 1e-9 }, 3)], delta);
            for q in [1e-300, 1e-6, 0.5, 1.0 - 1e-16] {
                check_composition(&[(Loss::SampledGaussian { q, sigma: size }, 1)], delta);
            }
            let mixed =
                [(Loss::Gaussian { mu: size }, 2), (Loss::DiscreteLaplace { epsilon: 0.1, units: 1 << 20 }, 1 << 30)];
            check_composition(&mixed, delta);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bit_pattern_yields_a_nan(a in any::<f64>(), b in any::<f64>(), c in any::<f64>()) {
        for outcome in [
            pure(a, b), discrete_laplace(a, b, 7), gaussian(a, b),
            sampled(a, b, c), conversion(a, b), rho_for(a, b),
            gaussian_delta(a, b), gaussian_epsilon(a, b),
            pure_to_zcdp(a),
        ].into_iter().flatten() {
            prop_assert!(!outcome.is_nan());
        }
    }

    #[test]
    fn random_compositions_are_ordered(
        q in 1e-6..0.5_f64, sigma in 0.4..20.0_f64, steps in 1..5000_u64,
        epsilon in 0.001..0.5_f64, uses in 0..50_u64, power in 2..20_i32,
    ) {
        check_order((q, sigma, steps), (epsilon, uses), power);
    }
}

/// Pure mechanisms raise an epsilon, and by no more than their own: within the accuracy of the accountant.
fn check_order((q, sigma, steps): (f64, f64, u64), (epsilon, uses): (f64, u64), power: i32) {
    let delta = 10.0_f64.powi(-power);
    let sampled = (Loss::SampledGaussian { q, sigma }, steps);
    let laplace = (Loss::DiscreteLaplace { epsilon, units: 1 << 20 }, uses);
    let [alone, together] = [&[sampled][..], &[sampled, laplace]]
        .map(|items| Composition::new(items).and_then(|composition| composition.epsilon(delta)).unwrap());
    let case = format!("q {q} sigma {sigma} steps {steps}, {uses} of {epsilon}, 1e-{power}: {alone} {together}");
    assert!(alone <= together * 1.001 + 1e-4, "{case}");
    assert!(together <= (alone + uses as f64 * epsilon) * 1.01 + 1e-3, "{case}");
}

/// Cases in which the plan once chose a tilt that composition refuses, or no tilt at all, so that Rényi accounting
/// answered instead: up to twelve times the epsilon.
#[test]
fn compositions_of_unlike_losses_are_planned() {
    check_order((1e-6, 5.093_319_826_012_918, 1), (0.001, 3), 11);
    check_order((1e-6, 0.4, 5), (0.014_752_710_014_169_364, 1), 15);
    check_order((0.432_812_904_861_773_04, 0.4, 2), (0.014_752_710_014_169_364, 15), 15);
    check_order((0.226_281_188_543_381, 0.417_900_377_291_3, 2614), (0.010_168_622_883_485_466, 1), 6);
    check_order((1e-6, 10.211_147_961_154_763, 2), (0.406_595_656_222_332_24, 1), 17);
}
