//! Epsilons put back into exact expressions for delta: never above the target.

use sage_kernel::accountant::{Composition, Loss};

fn epsilon(declared: &[(Loss, u64)], delta: f64) -> Option<f64> {
    Composition::new(declared).unwrap().epsilon(delta).ok()
}

fn within(found: f64, target: f64, what: &str) {
    assert!(found <= target * (1.0 + 1e-8), "{what}: delta is {found}, not {target}");
}

fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

/// Delta of one sampled Gaussian step at any real epsilon, a record removed.
pub fn removed(q: f64, sigma: f64, epsilon: f64) -> f64 {
    let gain = epsilon.exp_m1();
    if gain <= -q {
        return -gain;
    }
    let crossing = 0.5 + sigma * sigma * (gain / q).ln_1p();
    q * tail((crossing - 1.0) / sigma) - (gain + q) * tail(crossing / sigma)
}

/// The same, a record added.
pub fn added(q: f64, sigma: f64, epsilon: f64) -> f64 {
    let gain = (-epsilon).exp_m1();
    if gain <= -q {
        return 0.0;
    }
    let crossing = 0.5 + sigma * sigma * (gain / q).ln_1p();
    let (other, own) = (tail(-crossing / sigma), tail((1.0 - crossing) / sigma));
    epsilon.exp() * ((gain + q) * other - q * own)
}

const RATES: [f64; 7] = [1e-5, 1e-3, 0.03, 0.3, 0.9, 0.999, 1.0 - 1e-9];
const SIGMAS: [f64; 6] = [0.3, 0.5, 0.8, 1.3, 3.0, 10.0];

#[test]
fn one_sampled_step() {
    for q in RATES {
        for sigma in SIGMAS {
            for delta in [1e-3, 1e-5, 1e-8, 1e-12] {
                let found = epsilon(&[(Loss::SampledGaussian { q, sigma }, 1)], delta).unwrap();
                let exact = removed(q, sigma, found).max(added(q, sigma, found));
                within(exact, delta, &format!("q {q} sigma {sigma}"));
            }
        }
    }
}

/// The second step in closed form, the first summed over its outcomes.
#[test]
fn two_sampled_steps() {
    for (one, two) in [((0.3, 0.8), (0.3, 0.8)), ((0.01, 0.6), (0.5, 2.0)), ((0.9, 1.0), (0.02, 0.7))] {
        for delta in [1e-2, 1e-5, 1e-7] {
            let declared = [one, two].map(|(q, sigma)| (Loss::SampledGaussian { q, sigma }, 1));
            let found = epsilon(&declared, delta).unwrap();
            let ((q, sigma), (rate, noise)) = (one, two);
            let (mut remove, mut add) = (0.0, 0.0);
            let width = (1.0 + 18.0 * sigma) / 20_000.0;
            for index in 0..=20_000 {
                let z = -9.0 * sigma + width * f64::from(index);
                let density = width / sigma * (-0.5 * (z / sigma).powi(2)).exp() / std::f64::consts::TAU.sqrt();
                let loss = (q * ((z - 0.5) / sigma / sigma).exp_m1()).ln_1p();
                remove += density * loss.exp() * removed(rate, noise, found - loss);
                add += density * added(rate, noise, found + loss);
            }
            within(remove.max(add), delta, &format!("{one:?} {two:?}"));
        }
    }
}

/// Delta of randomised response, used `count` times.
fn responses(own: f64, count: u32, epsilon: f64) -> f64 {
    let uses = f64::from(count);
    let term = |against: u32| {
        let against = f64::from(against);
        let (loss, ways) = ((uses - 2.0 * against) * own, libm::lgamma(uses + 1.0) - libm::lgamma(against + 1.0));
        let log_mass = ways - libm::lgamma(uses - against + 1.0) - against * own - uses * (-own).exp().ln_1p();
        if loss > epsilon { log_mass.exp() * -(epsilon - loss).exp_m1() } else { 0.0 }
    };
    (0..=count).map(term).sum()
}

#[test]
fn randomised_responses() {
    for own in [1e-3, 0.03, 0.5, 3.0, 30.0] {
        for count in [1, 2, 7, 50, 400] {
            for target in [0.1, 1e-3, 1e-6, 1e-12] {
                let declared = [(Loss::BlackBox { epsilon: own, delta: 0.0 }, u64::from(count))];
                let Some(found) = epsilon(&declared, target) else { continue };
                within(responses(own, count, found), target, &format!("{own} {count}"));
            }
        }
    }
}

/// Losses whose exponentials are no floats: once read as an epsilon of 709.78.
#[test]
fn losses_beyond_the_largest_exponential() {
    for (own, count) in [(3.0, 250), (0.5, 6000), (3.0, 300), (1.0, 2000)] {
        let found = epsilon(&[(Loss::BlackBox { epsilon: own, delta: 0.0 }, u64::from(count))], 1e-6).unwrap();
        within(responses(own, count, found), 1e-6, &format!("{own} {count}"));
        assert!(responses(own, count, found * 0.995) > 1e-6, "{own} {count}: {found} is loose");
    }
}
