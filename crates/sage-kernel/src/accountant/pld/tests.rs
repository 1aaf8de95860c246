//! Compares the FFT convolution with direct sums and with closed forms.

#![allow(clippy::unwrap_used, reason = "a test that cannot get its number has failed")]

use super::discretise::{Lattice, Normal, discretise};
use super::{Composition, Loss, Part};
use libm::exp;
use sage_numerics::{Convolution, FftPlanner, LatticeChoice, TiltedWindow};

/// The distribution of the sum by direct convolution, one use at a time.
fn direct(parts: &[(Lattice, u64)]) -> (i64, Vec<f64>) {
    let (mut first, mut distribution) = (0, vec![1.0]);
    for (lattice, count) in parts {
        for _ in 0..*count {
            let mut next = vec![0.0; distribution.len() + lattice.masses.len() - 1];
            for (i, &a) in distribution.iter().enumerate() {
                for (j, &b) in lattice.masses.iter().enumerate() {
                    next[i + j] += a * b;
                }
            }
            distribution = next;
            first += lattice.first;
        }
    }
    (first, distribution)
}

/// Every stored mass plus its error is at least the direct sum.
#[test]
fn direct_convolution_agrees() {
    let items = Composition::new(&[
        (Loss::SampledGaussian { q: 0.3, sigma: 2.0 }, 3),
        (Loss::DiscreteLaplace { epsilon: 0.2, units: 1 << 20 }, 2),
        (Loss::BlackBox { epsilon: 0.1, delta: 1e-9 }, 1),
    ])
    .unwrap()
    .items;
    for delta in [1e-2, 1e-9] {
        let plan = LatticeChoice::new(&items, Part::sketch, 1.0, delta, Some((1.0, 1e-4))).unwrap();
        let mut parts: Vec<(Lattice, u64)> =
            items.iter().map(|&(part, count)| (discretise(part, plan.step, plan.tail).unwrap(), count)).collect();
        for window in [&plan.remove, &plan.add] {
            let composed = Convolution::new(&parts, plan.length, window, &mut FftPlanner::new()).unwrap();
            let (first, distribution) = direct(&parts);
            let (mut outside, mut checked) = (0.0, 0);
            for (position, &mass) in distribution.iter().enumerate() {
                let index = first + position as i64;
                let exact = mass * exp(window.tilt * index as f64 * plan.step - composed.log_scale);
                match composed.tilted.get((index - composed.first) as usize) {
                    Some(&stored) if index >= composed.first => {
                        let covered = stored + composed.error >= exact * (1.0 - 1e-11);
                        assert!(covered, "{index}: {stored} {exact}");
                        checked += 1;
                    }
                    _ => outside += exact,
                }
            }
            let total: f64 = composed.tilted.iter().sum();
            assert!(checked > 100 && total <= 1.0 + 1e-9, "{checked} {total}");
            assert!(outside < 0.1, "{outside}");
            parts.iter_mut().for_each(|part| part.0 = part.0.reversed());
        }
    }
}

/// Reversing twice is the identity, and a reversed pair keeps Q's mass of one.
#[test]
fn reversed_lattices_keep_both_masses() {
    for loss in [
        Loss::SampledGaussian { q: 0.01, sigma: 0.7 },
        Loss::Gaussian { mu: 0.4 },
        Loss::DiscreteLaplace { epsilon: 0.8, units: 5 },
        Loss::DiscreteLaplace { epsilon: 0.8, units: 1 << 40 },
        Loss::BlackBox { epsilon: 0.3, delta: 1e-6 },
    ] {
        for step in [1e-2, 1e-4] {
            let lattice = discretise(Part::new(loss).unwrap(), step, 1e-14).unwrap();
            let back = lattice.reversed();
            for pair in [&lattice, &back] {
                let total: f64 = pair.masses.iter().sum::<f64>() + pair.infinity;
                let raised = 4.0 * pair.slack + 1e-13;
                assert!(total >= 1.0 - 1e-13 && total <= 1.0 + raised, "{loss:?} {step}: {total}");
            }
            assert_eq!(back.reversed().first, lattice.first);
        }
    }
}

/// One sampled step also has a closed-form delta in the add direction, which the
/// remove direction hides in the public result.
#[test]
fn one_added_record_is_exact() {
    let (q, sigma) = (0.2, 0.8);
    let items = Composition::new(&[(Loss::SampledGaussian { q, sigma }, 1)]).unwrap().items;
    for epsilon in [0.02, 0.05, 0.15, 0.2] {
        // Losses above epsilon are the outcomes below the crossing point.
        let crossing = 0.5 + sigma * sigma * libm::log((exp(-epsilon) - 1.0 + q) / q);
        let below = |x: f64| 0.5 * libm::erfc(-x / sigma / libm::sqrt(2.0));
        let exact = below(crossing) * (1.0 - exp(epsilon) * (1.0 - q)) - exp(epsilon) * q * below(crossing - 1.0);
        let plan = LatticeChoice::new(&items, Part::sketch, 1.0, exact, None).unwrap();
        let lattice = discretise(items[0].0, plan.step, plan.tail).unwrap().reversed();
        let composed = Convolution::new(&[(lattice, 1)], plan.length, &plan.add, &mut FftPlanner::new()).unwrap();
        let (found, _) = composed.epsilon(exact).unwrap();
        assert!(found >= epsilon && found <= epsilon + 5e-4, "{epsilon}: {found}");
    }
}

/// Whatever the plan, the result is a bound: random plans, most of them absurd, compared with the
/// exact epsilon of Gaussians, alone and with a black box that only adds loss. A Chernoff tilt under which all
/// mass underflowed once left no charge for the mass above the window.
#[test]
fn no_plan_makes_an_answer_too_small() {
    use super::super::gaussian_epsilon;
    use super::discretise::Normal;
    let mut state = 20_261_116_u64;
    println!("seed {state}");
    let mut unit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let (mut answered, mut close) = (0, 0);
    for round in 0..3_000 {
        let sigma = exp(3.0 * unit() - 0.5);
        let count = 1 + (unit() * 40.0) as u64;
        let delta = exp(-2.0 - 24.0 * unit());
        let exact = gaussian_epsilon((count as f64).sqrt() / sigma, delta).unwrap() * (1.0 - 1e-9);
        let step = exp(-7.0 * unit() - 0.5);
        let hostile = [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 1e-300];
        let mut guess = |scale: f64| match (unit() * 40.0) as usize {
            odd if odd < hostile.len() => hostile[odd],
            _ => scale * (unit() - 0.3),
        };
        let window = TiltedWindow { tilt: guess(30.0), tilt_above: guess(40.0), low: guess(-30.0) };
        let length = if round % 16 == 0 { 1 + (unit() * 3000.0) as usize } else { 1 << (2 + round % 12) };
        let tail = delta * exp(-12.0 * unit());
        let Ok(lattice) = discretise(Part::Normal(Normal { q: 1.0, sigma }), step, tail) else { continue };
        let mut parts = vec![(lattice, count)];
        if round % 3 == 0 {
            let flat = Part::Laplace { epsilon: 0.1, units: 1, delta: 0.0 };
            parts.push((discretise(flat, step, tail).unwrap(), 1));
        }
        let Some(composed) = Convolution::new(&parts, length, &window, &mut FftPlanner::new()) else { continue };
        let Some((found, _)) = composed.epsilon(delta) else { continue };
        answered += 1;
        close += u32::from(found < 2.0 * exact);
        assert!(found >= exact, "round {round}: {found} {exact}, sigma {sigma}, count {count}, delta {delta}");
    }
    assert!(answered > 150 && close > 25, "{answered} outcomes, {close} of them close");
}

/// A lattice is refused where its losses are too large, its points too many or its step too small, in either direction.
#[test]
fn lattices_have_limits() {
    let made = |lowest: f64, highest: f64, step: f64| Lattice::new(lowest, highest, step, 1.0).is_ok();
    assert!(made(-1.0, 1.0, 0.01) && made(-500.0, 1.0, 0.1) && made(-1.0, 500.0, 0.1));
    assert!(!made(-500.1, 1.0, 0.1) && !made(-1.0, 500.1, 0.1), "losses above 500");
    assert!(!made(-1.0, 1.0, 2e-7) && !made(-1.0, 0.1, 2e-7), "more than 4e6 points");
    assert!(!made(0.0, 0.0, f64::MIN_POSITIVE / 2.0) && !made(-1.0, 1.0, f64::NAN), "a step that is no normal number");
}

/// Every outcome of discrete Laplace noise counts once: the masses add up to one, up to the slack of the splits.
#[test]
fn laplace_masses_add_up_to_one() {
    for (epsilon, units) in [(0.3, 1), (0.3, 2), (1.0, 3), (2.0, 7), (0.5, 1 << 20)] {
        // A step of 2.5 has the last outcome and the one before it between the same two points.
        for step in [0.01, 0.037, 0.25, 2.5] {
            let lattice = discretise(Part::Laplace { epsilon, units, delta: 0.0 }, step, 1e-12).unwrap();
            let total: f64 = lattice.masses.iter().sum();
            assert!((1.0..1.0 + 1e-6).contains(&total), "{epsilon} {units} {step}: {total}");
        }
    }
}

/// The loss of a sampled Gaussian by its definition, where the exponential is moderate and where it is huge.
#[test]
fn losses_are_those_of_the_definition() {
    for (q, sigma) in [(0.01, 0.1), (0.3, 0.12), (1.0, 0.1), (0.2, 2.0)] {
        for z in [-3.0, -0.2, 0.4, 0.75, 0.9, 1.1, 3.0, 5.0] {
            let exponent = (2.0 * z - 1.0) / (2.0 * sigma * sigma);
            let exact = libm::log(1.0 - q + q * exp(exponent));
            let found = Normal { q, sigma }.loss(z);
            if exponent < 700.0 {
                assert!((found - exact).abs() <= 1e-12 * (1.0 + exact.abs()), "{q} {sigma} {z}: {found} {exact}");
            }
        }
    }
}

/// Units that would make the loss of one of them no normal number are not counted: randomised response dominates.
#[test]
fn too_many_units_become_one() {
    let part = |epsilon, units| Part::new(Loss::DiscreteLaplace { epsilon, units });
    assert_eq!(part(1e-300, 1 << 40), Ok(Part::Laplace { epsilon: 1e-300, units: 1, delta: 0.0 }));
    assert_eq!(part(1e-290, 1 << 40), Ok(Part::Laplace { epsilon: 1e-290, units: 1 << 40, delta: 0.0 }));
}

#[test]
fn what_is_never_used_costs_nothing() {
    for loss in [
        Loss::Gaussian { mu: 1.0 },
        Loss::SampledGaussian { q: 0.5, sigma: 1.0 },
        Loss::DiscreteLaplace { epsilon: 1.0, units: 3 },
        Loss::BlackBox { epsilon: 1.0, delta: 1e-3 },
    ] {
        assert_eq!(Composition::new(&[(loss, 0)]).unwrap().epsilon(0.0), Ok(0.0), "{loss:?}");
    }
    let nobody = Composition::new(&[(Loss::SampledGaussian { q: 0.0, sigma: 1.0 }, 7)]).unwrap();
    assert_eq!(nobody.epsilon(0.0), Ok(0.0));
}

#[test]
fn gaussians_are_merged_exactly() {
    let epsilon = |declared: &[(Loss, u64)]| Composition::new(declared).unwrap().epsilon(1e-6).unwrap();
    let one = Loss::Gaussian { mu: 0.1 };
    let (merged, apart) = (epsilon(&[(one, 4)]), epsilon(&[(one, 1), (one, 2), (one, 1)]));
    assert!((merged - apart).abs() < 1e-12 * merged, "{merged} {apart}");
    let double = epsilon(&[(Loss::Gaussian { mu: 0.2 }, 1)]);
    assert!((merged - double).abs() < 1e-9 * merged, "{merged} {double}");
}

#[test]
fn uses_have_a_limit() {
    let made = |uses| Composition::new(&[(Loss::DiscreteLaplace { epsilon: 1e-9, units: 1 }, uses)]).is_ok();
    assert!(made(1 << 40) && !made((1 << 40) + 1));
}

/// A delta that black boxes may use up leaves no epsilon, by any way of composition.
#[test]
fn black_boxes_use_up_their_delta() {
    let twice = Composition::new(&[(Loss::BlackBox { epsilon: 0.1, delta: 1e-6 }, 2)]).unwrap();
    assert!((1.99e-6..2.01e-6).contains(&twice.certain_delta()), "{}", twice.certain_delta());
    assert!(twice.epsilon(1.9e-6).is_err());
    assert!(twice.epsilon(2.1e-6).is_ok_and(|epsilon| epsilon <= 0.2 + 1e-9));
    assert_eq!(twice.basic_epsilon(1.9e-6), f64::INFINITY);
}

/// Two published values, of which one is an upper bound and the other below every valid one.
#[test]
fn orders_give_a_training_run_its_known_epsilon() {
    let training = Composition::new(&[(Loss::SampledGaussian { q: 0.01, sigma: 1.0 }, 1000)]).unwrap();
    let found = training.renyi_epsilon(1e-5).unwrap();
    assert!((2.0..2.107_755).contains(&found), "{found}");
}

/// The result covers both directions: a window for adding a unit that wraps half of the mass to its top makes it larger,
/// however small the loss of adding is, and however much of the delta black boxes take.
#[test]
fn adding_a_unit_is_composed_too() {
    let steps = (Loss::SampledGaussian { q: 0.3, sigma: 2.0 }, 20);
    let single = (Loss::SampledGaussian { q: 0.01, sigma: 1.0 }, 1);
    let black = (Loss::BlackBox { epsilon: 0.01, delta: 1e-9 }, 1);
    for declared in [&[steps][..], &[single, black]] {
        let composition = Composition::new(declared).unwrap();
        let mut plan = LatticeChoice::new(&composition.items, Part::sketch, 1.0, 1e-5, None).unwrap();
        let (right, _) = composition.on_lattice(&plan, 1e-5).unwrap();
        (plan.add.tilt, plan.add.low) = (0.0, 0.0);
        let (poor, _) = composition.on_lattice(&plan, 1e-5).unwrap();
        assert!(poor > 1.01 * right, "{declared:?}: {poor} {right}");
    }
}
