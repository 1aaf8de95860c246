//! Accountants where other tests do not look: small losses, large losses, and the edges of parameters.

use sage_kernel::accountant::{self, Composition, Loss, ORDERS};

/// The probability that a standard normal variable is above x.
fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x / std::f64::consts::SQRT_2)
}

/// For a small ε the Rényi divergence of an ε-private mechanism is at most α ε² / 2, which is reached up to terms of
/// higher order: the bound is neither below nor noticeably above.
#[test]
fn a_small_pure_loss_costs_its_square() {
    for epsilon in [1e-9, 1e-6, 1e-4, 9.9e-4] {
        for &order in ORDERS.iter().filter(|&&order| order * epsilon < 1e-2) {
            let least = 0.5 * order * epsilon * epsilon;
            for cost in [accountant::pure(order, epsilon), accountant::discrete_laplace(order, epsilon, 1 << 20)] {
                let cost = cost.expect("in range");
                assert!(cost >= least && cost <= least * (1.0 + 1e-6) + 1e-300, "{order} {epsilon}: {cost} {least}");
            }
        }
    }
    // Never more than ε itself.
    let cost = accountant::pure(1024.0, 9e-4).expect("in range");
    assert!(cost <= 9e-4 * (1.0 + 1e-6), "{cost}");
}

/// The exact δ at ε of one step of the sampled Gaussian, both directions, from the normal distribution function: the
/// outcomes whose loss passes ε are those beyond one point.
fn exact_delta(q: f64, sigma: f64, epsilon: f64) -> f64 {
    let above = |z: f64| tail(z / sigma);
    let point = |loss: f64| 0.5 + sigma * sigma * (loss + (((1.0 - (1.0 - q) * (-loss).exp()) / q).ln()));
    let from = point(epsilon);
    let removed = (1.0 - q) * above(from) + q * above(from - 1.0) - epsilon.exp() * above(from);
    let added = if (1.0 - q) < (-epsilon).exp() {
        let to = point(-epsilon);
        above(-to) - epsilon.exp() * ((1.0 - q) * above(-to) + q * above(1.0 - to))
    } else {
        0.0
    };
    removed.max(added)
}

/// One use with little noise, so that ε is beyond 30: certified, and close to the exact value.
#[test]
fn large_losses_are_certified_and_accurate() {
    for (q, sigma, delta) in [(0.5, 0.15, 1e-6), (0.9, 0.15, 1e-8), (0.01, 0.13, 1e-9), (1.0, 0.15, 1e-6)] {
        let (mut low, mut high) = (0.0, 400.0);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if exact_delta(q, sigma, middle) > delta { low = middle } else { high = middle }
        }
        assert!(high > 31.0, "{high}");
        let composition = Composition::new(&[(Loss::SampledGaussian { q, sigma }, 1)]).expect("in range");
        let epsilon = composition.epsilon(delta).expect("bounded");
        assert!(epsilon >= high * (1.0 - 1e-9), "q = {q}: {epsilon} is below {high}");
        assert!(epsilon <= high * (1.0 + 1e-3), "q = {q}: {epsilon} is far above {high}");
    }
}

/// An ε of zero is in range where a δ is requested, one below it is not.
#[test]
fn zero_is_not_negative() {
    let at_zero = accountant::gaussian_delta(1.0, 0.0).expect("in range");
    // 2 Φ(1/2) − 1.
    assert!((at_zero - (1.0 - 2.0 * tail(0.5))).abs() < 1e-12, "{at_zero}");
    assert!(accountant::gaussian_delta(1.0, -f64::MIN_POSITIVE).is_err());
    assert!(accountant::rho_for(0.0, 1e-6).is_ok());
}

/// The chance that a black box fails is counted for each use: below their sum no ε holds, above it one does.
#[test]
fn failures_of_black_boxes_add_up() {
    let items = [(Loss::BlackBox { epsilon: 0.5, delta: 1e-3 }, 2), (Loss::Gaussian { mu: 0.5 }, 1)];
    let composition = || Composition::new(&items).expect("in range");
    assert!(composition().epsilon(1.9e-3).is_err());
    let epsilon = composition().epsilon(1e-2).expect("bounded");
    // At least the ε of the Gaussian alone at all of δ, at most that at the rest of δ and both black boxes.
    let least = accountant::gaussian_epsilon(0.5, 1e-2).expect("in range");
    let most = 1.0 + accountant::gaussian_epsilon(0.5, 1e-2 - 2e-3).expect("in range");
    assert!(epsilon > least && epsilon < most, "{least} {epsilon} {most}");
}

/// A curve of zeros is a curve; one with a negative or missing number is not.
#[test]
fn a_cost_of_zero_converts() {
    let convert = |cost: f64| accountant::epsilon_from_curve(&ORDERS, &[cost; ORDERS.len()], 1e-6);
    assert!(convert(0.0).is_ok_and(|epsilon| epsilon < 0.02));
    assert!(convert(-f64::MIN_POSITIVE).is_err() && convert(f64::NAN).is_err());
}

/// Between two whole orders the log moment is interpolated, which convexity makes an upper bound: (α − 1) times the cost
/// is the weighted mean of that at the neighbours.
#[test]
fn costs_between_whole_orders_are_interpolated() {
    let orders = [2.0, 2.25, 2.5, 3.0, 3.5, 4.0];
    let costs = accountant::sampled_gaussian_curve(&orders, 0.01, 1.0).expect("in range");
    let moment = |index: usize| (orders[index] - 1.0) * costs[index];
    for (index, below, above) in [(1, 0, 3), (2, 0, 3), (4, 3, 5)] {
        let fraction = orders[index] - orders[below];
        let expected = (1.0 - fraction) * moment(below) + fraction * moment(above);
        assert!((moment(index) / expected - 1.0).abs() < 1e-9, "order {}", orders[index]);
    }
}
