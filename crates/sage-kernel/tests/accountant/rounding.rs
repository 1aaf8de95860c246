//! Which way the accountant rounds: every number it gives is compared with the same formula in numbers of 250 bits, and
//! is never on the spender's side of it, by not even one unit in the last place.

use dashu::float::FBig;
use dashu::float::round::mode::HalfEven;
use sage_kernel::accountant::{
    ORDERS, conversion, discrete_laplace, epsilon_from_curve, gaussian, gaussian_delta, gaussian_epsilon, pure,
    pure_to_zcdp, rho_for, sampled_gaussian_curve,
};

type Real = FBig<HalfEven, 2>;

fn real(value: f64) -> Real {
    Real::try_from(value).expect("finite").with_precision(250).value()
}

/// Parameters that fill floats to the last bit: random mantissas, spread over many exponents.
struct Spread(u64);

impl Spread {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    /// Between the two, evenly by logarithm.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        let share = (self.word() >> 11) as f64 / (1u64 << 53) as f64;
        low * (high / low).powf(share)
    }
}

/// At least the exact value, and above it by at most this share of `size`.
fn check_above(found: f64, exact: &Real, slack: f64, size: f64, what: &str) {
    let found = real(found);
    assert!(found >= *exact, "{what}: {found} is below {exact}");
    let most = exact + real(slack * size + 1e-300);
    assert!(found <= most, "{what}: {found} is far above {exact}");
}

const CASES: usize = 300;

#[test]
fn conversions_are_rounded_up() {
    let mut spread = Spread(1);
    for _ in 0..CASES {
        let order = 1.0 + spread.between(0.01, 2000.0);
        let delta = spread.between(1e-30, 0.9);
        let (a, d) = (real(order), real(delta));
        let one = real(1.0);
        let exact = (&one - &one / &a).ln() - (d.ln() + a.ln()) / (&a - &one);
        let size = 1.0 + (delta.ln().abs() + order.ln()) / (order - 1.0) + (1.0 - 1.0 / order).ln().abs();
        check_above(conversion(order, delta).expect("in range"), &exact, 1e-14, size, &format!("{order} {delta}"));
    }
}

/// ρ_g is rounded down: at the order that suits it best it converts to no more than ε.
#[test]
fn the_largest_rho_converts_to_epsilon() {
    let mut spread = Spread(2);
    for _ in 0..100 {
        let (epsilon, delta) = (spread.between(1e-3, 50.0), spread.between(1e-20, 0.4));
        let rho = rho_for(epsilon, delta).expect("in range");
        let at = |log: f64| {
            let order = 1.0 + log.exp();
            rho * order + (-1.0 / order).ln_1p() - (delta.ln() + order.ln()) / (order - 1.0)
        };
        let (mut low, mut high) = (-18.0, 40.0);
        for _ in 0..300 {
            let third = (high - low) / 3.0;
            if at(low + third) <= at(high - third) {
                high -= third;
            } else {
                low += third;
            }
        }
        let order = 1.0 + (0.5f64 * (low + high)).exp();
        let (a, d, one) = (real(order), real(delta), real(1.0));
        let exact = real(rho) * &a + (&one - &one / &a).ln() - (d.ln() + a.ln()) / (&a - &one);
        assert!(exact <= real(epsilon), "{epsilon} {delta}: {rho} converts to {exact}");
        assert!(exact >= real(epsilon * (1.0 - 1e-9)) - real(1e-12), "{epsilon} {delta}: {rho} gives away too much");
    }
}

#[test]
fn pure_losses_are_rounded_up() {
    let mut spread = Spread(3);
    for _ in 0..CASES {
        let epsilon = spread.between(1e-9, 30.0);
        let (e, one) = (real(epsilon), real(1.0));
        // ε tanh(ε/2) = ε (e^ε − 1)/(e^ε + 1).
        let grown = e.exp();
        let exact = &e * (&grown - &one) / (&grown + &one);
        check_above(pure_to_zcdp(epsilon).expect("in range"), &exact, 1e-13, epsilon * epsilon, &format!("{epsilon}"));
        // Randomised response: p = e^ε / (1 + e^ε).
        let order = ORDERS[(spread.word() % 32) as usize];
        let a = real(order);
        let (p, q) = (&grown / (&one + &grown), &one / (&one + &grown));
        let moment = (p.ln() * &a + q.ln() * (&one - &a)).exp() + (q.ln() * &a + p.ln() * (&one - &a)).exp();
        let exact = moment.ln() / (&a - &one);
        let ceiling = epsilon.min(0.5 * order * epsilon * epsilon);
        let found = pure(order, epsilon).expect("in range");
        assert!(real(found) >= exact, "order {order}, ε {epsilon}: {found} below {exact}");
        assert!(found <= ceiling * (1.0 + 1e-7), "order {order}, ε {epsilon}: {found} above {ceiling}");
    }
}

/// Discrete Laplace noise of scale units/ε: the moment summed over every outcome.
#[test]
fn laplace_losses_are_rounded_up() {
    let mut spread = Spread(4);
    for _ in 0..60 {
        let (epsilon, units) = (spread.between(2e-3, 8.0), 1 + spread.word() % 6);
        let order = ORDERS[(spread.word() % 24) as usize];
        let (a, one) = (real(order), real(1.0));
        let step = real(epsilon) / real(units as f64);
        let ratio = (-step.clone()).exp();
        // P(x) = (1 − r)/(1 + r) r^|x|; below 0 and above `units` both tails are geometric.
        let mass = (&one - &ratio) / (&one + &ratio);
        let tail = &one / (&one - &ratio);
        let below = (real(epsilon) * (&a - &one)).exp() * &ratio * &tail;
        let above = (-(real(epsilon) * &a)).exp() * &ratio * &tail;
        let mut moment = below + above;
        for x in 0..=units {
            // P(x)^α Q(x)^{1−α} with P centred on 0 and Q on `units`.
            let exponent = &step * (real((units - x) as f64) * (&a - &one) - real(x as f64) * &a);
            moment += exponent.exp();
        }
        let exact = (moment * mass).ln() / (&a - &one);
        let found = discrete_laplace(order, epsilon, units).expect("in range");
        check_above(found, &exact, 1e-7, epsilon, &format!("order {order}, ε {epsilon}, {units} units"));
    }
}

#[test]
fn gaussian_losses_are_rounded_up() {
    let mut spread = Spread(5);
    for _ in 0..CASES {
        let (order, sigma) = (1.0 + spread.between(0.01, 2000.0), spread.between(1e-3, 1e9));
        let exact = real(order) / (real(2.0) * real(sigma) * real(sigma));
        let found = gaussian(order, sigma).expect("in range");
        check_above(found, &exact, 1e-14, found, &format!("{order} {sigma}"));
    }
}

/// The moments of the sampled Gaussian at whole orders, term by term.
#[test]
fn sampled_losses_are_rounded_up() {
    let mut spread = Spread(6);
    for _ in 0..60 {
        let (q, sigma) = (spread.between(1e-6, 0.9), spread.between(0.4, 60.0));
        let orders = [2u64, 3, 4, 7, 16, 40].map(|order| order as f64);
        let curve = sampled_gaussian_curve(&orders, q, sigma).expect("in range");
        for (&order, &found) in orders.iter().zip(&curve) {
            let (one, rate) = (real(1.0), real(q));
            let odds = &rate / (&one - &rate);
            let mut term = ((&one - &rate).ln() * real(order)).exp();
            let mut moment = real(0.0);
            for k in 0..=order as u64 {
                let k = k as f64;
                let grown = (real(k * (k - 1.0)) / (real(2.0) * real(sigma) * real(sigma))).exp();
                moment += &term * grown;
                term = term * &odds * real(order - k) / real(k + 1.0);
            }
            let exact = moment.ln() / real(order - 1.0);
            let unsampled = 0.5 * order / (sigma * sigma);
            check_above(found, &exact, 1e-7, unsampled.min(found), &format!("order {order}, q {q}, σ {sigma}"));
        }
        // Between whole orders the chord of the log moments lies above.
        let between = sampled_gaussian_curve(&[2.0, 2.5, 3.0], q, sigma).expect("in range");
        let chord = 0.5 * (between[0] + 2.0 * between[2]) / 1.5;
        assert!(between[1] >= chord * (1.0 - 1e-12) || between[1] >= 0.5 * 2.5 / (sigma * sigma), "{q} {sigma}");
    }
}

/// P(Z > x) to 250 bits, by the series of the error function.
fn normal_tail(x: &Real) -> Real {
    let half = real(0.5);
    let square = x * x;
    let (mut term, mut sum) = (x.clone(), x.clone());
    for k in 1..2_000u32 {
        term = term * &square / real(f64::from(2 * k + 1));
        sum += &term;
        if term < real(1e-90) && term > real(-1e-90) {
            break;
        }
    }
    // φ(x) (x + x³/3 + x⁵/15 + …) is P(0 < Z < x); φ needs 2π, which 16 · 2^250 terms of no series here give: Machin's.
    let tau = real(8.0) * (real(4.0) * arctan(5.0) - arctan(239.0));
    half - sum * (-(square * real(0.5))).exp() / (tau.ln() * real(0.5)).exp()
}

/// arctan(1/n).
fn arctan(n: f64) -> Real {
    let square = real(n * n);
    let (mut power, mut sum) = (real(1.0) / real(n), real(0.0));
    for k in 0..120u32 {
        let term = &power / real(f64::from(2 * k + 1));
        sum = if k % 2 == 0 { sum + term } else { sum - term };
        power /= &square;
    }
    sum
}

/// δ of the Gaussian mechanism, and the ε it is for, against the exact expression.
#[test]
fn gaussian_deltas_are_rounded_up() {
    let quarter = normal_tail(&real(1.0));
    assert!(
        quarter > real(0.158_655_253_931_457_05) - real(1e-17)
            && quarter < real(0.158_655_253_931_457_05) + real(1e-17)
    );
    let mut spread = Spread(7);
    let exact = |mu: f64, epsilon: f64| {
        let (m, e) = (real(mu), real(epsilon));
        let (half, ratio) = (&m * real(0.5), &e / &m);
        normal_tail(&(&ratio - &half)) - e.exp() * normal_tail(&(&ratio + &half))
    };
    for _ in 0..120 {
        let (mu, epsilon) = (spread.between(0.02, 3.0), spread.between(1e-3, 4.0));
        // Beyond nine deviations the series above loses its digits.
        if epsilon / mu + 0.5 * mu > 9.0 {
            continue;
        }
        let (found, exact_delta) = (gaussian_delta(mu, epsilon).expect("in range"), exact(mu, epsilon));
        assert!(real(found) >= exact_delta, "{mu} {epsilon}: {found} below {exact_delta}");
        assert!(real(found) <= &exact_delta * real(1.0 + 1e-8) + real(1e-16), "{mu} {epsilon}: {found} {exact_delta}");
        if found > 1e-17 && found < 0.5 {
            let at = gaussian_epsilon(mu, found).expect("in range");
            assert!(exact(mu, at) <= real(found), "{mu}: ε {at} does not reach δ {found}");
        }
    }
}

/// The best order of a curve: its ε is at least that order's own, exactly computed, and no other order's is smaller.
#[test]
fn curves_convert_to_an_epsilon_that_holds() {
    let mut spread = Spread(8);
    for _ in 0..100 {
        let (sigma, delta) = (spread.between(0.5, 50.0), spread.between(1e-15, 0.1));
        let costs: Vec<f64> = ORDERS.iter().map(|&order| gaussian(order, sigma).expect("in range")).collect();
        let found = epsilon_from_curve(&ORDERS, &costs, delta).expect("finite");
        let least = ORDERS.iter().zip(&costs).map(|(&order, &cost)| {
            let (a, d, one) = (real(order), real(delta), real(1.0));
            real(cost) + (&one - &one / &a).ln() - (d.ln() + a.ln()) / (&a - &one)
        });
        let least = least.reduce(|one, other| if one < other { one } else { other }).expect("orders");
        assert!(real(found) >= least, "{sigma} {delta}: {found} below {least}");
        assert!(
            real(found) <= &least * real(1.0 + 1e-12) + real(1e-12) || found == 0.0,
            "{sigma} {delta}: {found} {least}"
        );
    }
}
