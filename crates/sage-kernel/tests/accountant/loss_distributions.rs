//! The privacy-loss-distribution accountant against exact values, against
//! other accountants, and against itself.

use sage_kernel::accountant::{Composition, Loss, gaussian_epsilon};

use super::check_above;
use super::vectors::{GAUSSIANS, LAPLACES, SAMPLED};

fn compose(items: &[(Loss, u64)]) -> Composition {
    Composition::new(items).unwrap()
}

fn sampled(q: f64, sigma: f64, steps: u64) -> Composition {
    compose(&[(Loss::SampledGaussian { q, sigma }, steps)])
}

#[test]
fn sampled_gaussians_lie_within_the_references() {
    for setting in SAMPLED {
        let what = format!("q {} sigma {} steps {}", setting.q, setting.sigma, setting.steps);
        let found = sampled(setting.q, setting.sigma, setting.steps).epsilon(setting.delta).unwrap();
        assert!(found <= setting.pessimistic + 1e-3, "{what}: {found} > {}", setting.pessimistic);
        assert!(found >= setting.optimistic, "{what}: {found} < {}", setting.optimistic);
        assert!(found <= setting.renyi_epsilon, "{what}: {found}");
    }
}

/// Gaussians together, also when a lattice is forced on them by an item that
/// costs nearly nothing.
#[test]
fn gaussians_match_the_exact_epsilon() {
    for &(sigma, count, delta, exact) in GAUSSIANS {
        let gaussians = (Loss::Gaussian { mu: 1.0 / sigma }, count);
        let what = format!("sigma {sigma} count {count}");
        check_above(compose(&[gaussians]).epsilon(delta).unwrap(), exact, 1e-9, &what);
        let nearly_free = (Loss::BlackBox { epsilon: 1e-9, delta: 0.0 }, 1);
        let on_lattice = compose(&[gaussians, nearly_free]);
        check_above(on_lattice.epsilon(delta).unwrap(), exact, 2e-4, &what);
    }
}

#[test]
fn laplaces_match_reference() {
    for &(epsilon, count, delta, estimate) in LAPLACES {
        let found = compose(&[(Loss::DiscreteLaplace { epsilon, units: 1 << 20 }, count)]).epsilon(delta).unwrap();
        let what = format!("epsilon {epsilon} count {count}");
        assert!(found <= estimate * (1.0 + 1e-4), "{what}: {found} > {estimate}");
        assert!(found >= estimate * (1.0 - 1e-4), "{what}: {found} < {estimate}");
    }
}

/// A very large number of units is a continuous distribution: finer units change nothing.
#[test]
fn units_hardly_matter_where_there_are_many() {
    for (epsilon, count) in [(0.01, 100), (0.05, 400), (0.1, 10), (0.3, 7), (1.0, 1)] {
        let at = |units: u64| compose(&[(Loss::DiscreteLaplace { epsilon, units }, count)]).epsilon(1e-6).unwrap();
        let known = at(1 << 20);
        for units in [1 << 30, 1 << 40, 1 << 53, 1 << 60, u64::MAX] {
            assert!((at(units) / known - 1.0).abs() < 1e-6, "{epsilon} {count} {units}: {} {known}", at(units));
        }
    }
}

/// Sampling at a rate of nearly one is a Gaussian; this goes through the
/// sampled lattice in both directions.
#[test]
fn certain_sampling_is_the_gaussian() {
    for (sigma, steps, delta) in [(2.0, 1, 1e-6), (20.0, 100, 1e-9), (5.0, 3, 1e-15)] {
        let mu = (steps as f64).sqrt() / sigma;
        let exact = gaussian_epsilon(mu, delta).unwrap();
        let found = sampled(1.0 - 1e-12, sigma, steps).epsilon(delta).unwrap();
        check_above(found, exact * (1.0 - 1e-8), 2e-4, &format!("sigma {sigma}"));
    }
}

/// One sampled step has a delta in closed form as a record is removed.
#[test]
fn one_sampled_step_is_exact() {
    let (q, sigma, epsilon) = (0.2, 0.8, 0.5_f64);
    // Remove: losses above epsilon are the outcomes above the crossing point.
    let crossing = 0.5 + sigma * sigma * ((epsilon.exp() - 1.0 + q) / q).ln();
    let tail = |x: f64| 0.5 * libm::erfc(x / sigma / 2.0_f64.sqrt());
    let remove = (1.0 - q) * tail(crossing) + q * tail(crossing - 1.0) - epsilon.exp() * tail(crossing);
    let back = sampled(q, sigma, 1).epsilon(remove).unwrap();
    check_above(back, epsilon, 1e-4, "epsilon");
}

#[test]
fn tiny_deltas_survive_the_transform() {
    for delta in [1e-9, 1e-15, 1e-40, 1e-100] {
        let mu = 0.5;
        let exact = gaussian_epsilon(mu, delta).unwrap();
        let nearly_free = (Loss::BlackBox { epsilon: 1e-9, delta: 0.0 }, 1);
        let found = compose(&[(Loss::Gaussian { mu }, 1), nearly_free]).epsilon(delta).unwrap();
        check_above(found, exact, 2e-4, &format!("delta {delta}"));
    }
}

/// A thousand mechanisms of three kinds; a reference on a fine grid says 1.770541.
#[test]
fn many_different_mechanisms_are_accurate() {
    let mechanism = |index: u32| match index % 4 {
        0 | 1 => {
            Loss::SampledGaussian { q: 0.001 * f64::from(1 + index % 7), sigma: 1.0 + 0.01 * f64::from(index % 50) }
        }
        2 => Loss::Gaussian { mu: 1.0 / f64::from(40 + index % 20) },
        _ => Loss::DiscreteLaplace { epsilon: 1.0 / f64::from(60 + index % 30), units: 1 << 20 },
    };
    let mixture: Vec<(Loss, u64)> = (0..1000).map(|index| (mechanism(index), 1)).collect();
    let found = compose(&mixture).epsilon(1e-6).unwrap();
    assert!((1.770_535..=1.770_555).contains(&found), "{found}");
}

/// A mixture costs no less than its parts and no more than their sum.
#[test]
fn mixtures_lie_between_parts_and_sum() {
    let items = [
        (Loss::Gaussian { mu: 0.1 }, 3),
        (Loss::DiscreteLaplace { epsilon: 0.07, units: 1 << 20 }, 5),
        (Loss::DiscreteLaplace { epsilon: 0.05, units: 3 }, 4),
        (Loss::BlackBox { epsilon: 0.1, delta: 1e-9 }, 2),
        (Loss::SampledGaussian { q: 0.01, sigma: 1.0 }, 200),
    ];
    let delta = 1e-6;
    let above = compose(&items).epsilon(delta).unwrap();
    let mut sum = 0.0;
    for item in items {
        let alone = compose(&[item]).epsilon(delta / 5.0).unwrap();
        sum += alone;
        assert!(above >= compose(&[item]).epsilon(delta).unwrap() * (1.0 - 1e-3));
    }
    assert!(above <= sum, "{above} {sum}");
    let reordered: Vec<_> = items.into_iter().rev().collect();
    let again = compose(&reordered).epsilon(delta).unwrap();
    assert!((again / above - 1.0).abs() < 1e-9);
}

#[test]
fn epsilon_is_monotone() {
    let at = |q: f64, sigma: f64, steps: u64, delta: f64| sampled(q, sigma, steps).epsilon(delta).unwrap();
    let base = at(0.01, 1.0, 300, 1e-6);
    // The lattice is chosen anew each time: monotone up to its accuracy.
    assert!(at(0.011, 1.0, 300, 1e-6) > base && at(0.009, 1.0, 300, 1e-6) < base);
    assert!(at(0.01, 1.1, 300, 1e-6) < base && at(0.01, 0.9, 300, 1e-6) > base);
    assert!(at(0.01, 1.0, 400, 1e-6) > base && at(0.01, 1.0, 200, 1e-6) < base);
    assert!(at(0.01, 1.0, 300, 1e-7) > base && at(0.01, 1.0, 300, 1e-5) < base);
}

#[test]
fn pure_compositions_answer_at_delta_zero() {
    let pure = compose(&[(Loss::DiscreteLaplace { epsilon: 1.0, units: 9 }, 1)]);
    check_above(pure.epsilon(0.0).unwrap(), 1.0, 1e-14, "pure");
    assert!(sampled(0.1, 1.0, 1).epsilon(0.0).is_err());
    assert_eq!(compose(&[]).epsilon(1e-6).unwrap(), 0.0);
    assert_eq!(compose(&[(Loss::SampledGaussian { q: 0.0, sigma: 1.0 }, 9)]).epsilon(0.0).unwrap(), 0.0);
}
