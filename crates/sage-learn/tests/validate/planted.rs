//! Validators with planted mistakes: the simulation that passes ours must detect each of them.

use sage_kernel::Pair;
use sage_learn::validate::decide::{Tail, accepts, evidence, rejects};
use sage_learn::validate::{Margin, Noise, Risk};

use super::chance::{Source, run_seed, runs, within};
use super::simulate::{EPSILONS, Point, RISKS, count, points};

/// The exact sums of one run, and two draws of noise with ε each.
struct Sums {
    rows: f64,
    loss: f64,
    noise: [f64; 2],
}

/// A decision about a mean at the target: the point, its risk and the sums.
type Decide = fn(Point, f64, &Sums) -> bool;

fn noise_of(point: Point) -> Noise {
    point.table_noise().into()
}

/// A mean from a noisy sum and a noisy count, each at half of ε, without a guard for a count below zero.
fn unguarded(point: Point, risk: f64, sums: &Sums) -> bool {
    listing(point, risk, sums, 1.0, f64::NEG_INFINITY)
}

/// The same with a guard, and with the range of the loss left out of one term, at a range of a hundred.
fn without_range(point: Point, risk: f64, sums: &Sums) -> bool {
    listing(point, risk, sums, 100.0, 0.0)
}

fn listing(point: Point, risk: f64, sums: &Sums, bound: f64, least_rows: f64) -> bool {
    let scale = 2.0 / (point.epsilon as f64 / 1e12);
    let reach = scale * (1.5 / risk).ln();
    let rows = sums.rows + 2.0 * sums.noise[1] - reach;
    let loss = (sums.loss + 2.0 * sums.noise[0] + reach) * bound / rows;
    let exponent = (3.0 / risk).ln();
    rows > least_rows
        && loss + (2.0 * bound * loss * exponent / rows).sqrt() + 4.0 * exponent / rows <= point.mean * bound
}

/// Our test with no allowance for noise.
fn without_noise(point: Point, risk: f64, sums: &Sums) -> bool {
    let pair = Pair { above: sums.loss + sums.noise[0], below: sums.rows - sums.loss + sums.noise[1] };
    accepts(pair, point.mean, Margin::new(0.0, risk / 2.0).unwrap(), Tail::KullbackLeibler)
}

/// Our test without its guard: negative sums change their sign.
fn without_guard(point: Point, risk: f64, sums: &Sums) -> bool {
    let reach = noise_of(point).reach(risk / 4.0);
    let a = (sums.loss + sums.noise[0] + reach).max(0.0);
    let c = (sums.rows - sums.loss + sums.noise[1] - reach).abs();
    a / (a + c) < point.mean && evidence(a, c, point.mean) >= -(risk / 2.0).ln()
}

/// Our test with the noise allowed for on the wrong side.
fn wrong_side(point: Point, risk: f64, sums: &Sums) -> bool {
    let pair = Pair { above: sums.loss + sums.noise[0], below: sums.rows - sums.loss + sums.noise[1] };
    let reach = noise_of(point).reach(risk / 4.0);
    let moved = Pair { above: pair.above - 2.0 * reach, below: pair.below + 2.0 * reach };
    accepts(moved, point.mean, Margin::one_sided(noise_of(point), Risk::new(risk).unwrap()), Tail::KullbackLeibler)
}

/// Rejecting with no allowance for noise.
fn rejecting_without_noise(point: Point, risk: f64, sums: &Sums) -> bool {
    let pair = Pair { above: sums.loss + sums.noise[0], below: sums.rows - sums.loss + sums.noise[1] };
    rejects(pair, point.mean, 0.0, Margin::new(0.0, risk / 2.0).unwrap(), Tail::KullbackLeibler)
}

/// Our own test, which must pass.
fn ours(point: Point, risk: f64, sums: &Sums) -> bool {
    let pair = Pair { above: sums.loss + sums.noise[0], below: sums.rows - sums.loss + sums.noise[1] };
    accepts(pair, point.mean, Margin::one_sided(noise_of(point), Risk::new(risk).unwrap()), Tail::KullbackLeibler)
}

/// The number of settings at which the error rate is not shown to be within the risk.
fn violations(seed: u64, decide: Decide) -> usize {
    let chosen = |point: &Point| [EPSILONS[2], EPSILONS[3], EPSILONS[6]].contains(&point.epsilon) && point.rows <= 1000;
    let mut found = 0;
    for point in points().filter(chosen) {
        let source = Source::laplace(point.epsilon);
        for risk in RISKS {
            let [count] = count(point, &source, point.seed(seed), |loss, noise| {
                [decide(point, risk, &Sums { rows: point.rows as f64, loss, noise: [noise[0], noise[1]] })]
            });
            found += usize::from(!within(count, runs(), risk));
        }
    }
    found
}

#[test]
fn mistakes_are_caught() {
    let seed = run_seed("planted");
    assert_eq!(violations(seed, ours), 0);
    let planted: [(&str, Decide); 6] = [
        ("no guard for the count", unguarded),
        ("a range left out", without_range),
        ("no allowance for noise", without_noise),
        ("no guard for the sum", without_guard),
        ("noise on the wrong side", wrong_side),
        ("rejecting with no allowance for noise", rejecting_without_noise),
    ];
    for (what, decide) in planted {
        let found = violations(seed, decide);
        println!("{what}: {found} settings");
        assert!(found > 0, "{what} was not detected");
    }
}
