//! Decisions, quantiles and limits against reference numbers; invalid parameters.

use std::num::{NonZeroU32, NonZeroU64};

use sage_kernel::{Epsilon, Pair, SCALE, Sigma, TableNoise};
use sage_learn::plan::{discrete_laplace_quantile, laplace_quantile};
use sage_learn::validate::decide::{
    Tail, accepts, accepts_accuracy, evidence, interval, mean, rejects, rejects_accuracy,
};
use sage_learn::validate::{
    AccuracyTarget, Bound, ComparisonTarget, Confidence, LossTarget, Margin, Noise, PrecisionTarget, Rejection, Risk,
    RiskDivisors, clopper_pearson, incomplete_beta,
};

use super::check_close;
use super::vectors::{
    ACCURACY_ACCEPT, ACCURACY_REJECT, BETA, CLOPPER_PEARSON, DISCRETE_LAPLACE_QUANTILES, LAPLACE_QUANTILES,
    LOSS_ACCEPT, LOSS_REJECT, SUMS,
};

#[test]
fn quantiles_match_reference() {
    for &(epsilon, beta, exact) in LAPLACE_QUANTILES {
        check_close(laplace_quantile(epsilon, beta).unwrap(), exact, 1e-14, &format!("{epsilon} {beta}"));
    }
    for &(epsilon, beta, exact, beyond, before) in DISCRETE_LAPLACE_QUANTILES {
        assert_eq!(discrete_laplace_quantile(1.0 / epsilon, beta).unwrap(), exact, "{epsilon} {beta}");
        let noise = Noise::Laplace { scale: 1.0 / epsilon, steps: 1 };
        assert_eq!(noise.reach(beta), exact as f64);
        // The quantile lies between the two tails, and the quantile of each tail is its own bound.
        assert!(beyond <= beta && (before > beta || exact == 0));
        assert_eq!(noise.reach(beyond * (1.0 + 1e-9)), exact as f64);
    }
}

/// On the kernel's grid of 2^20 steps per row, the quantile equals the continuous one up to a step or two.
#[test]
fn the_grid_reaches_as_far_as_continuous_noise() {
    for &(epsilon, beta, exact) in LAPLACE_QUANTILES {
        let table = TableNoise::Laplace(Epsilon::cost(&epsilon.to_string()).unwrap());
        let found = Noise::from(table).reach(beta);
        assert!((found - exact).abs() <= 2.0 / SCALE as f64 + 1e-9 * exact, "{epsilon} {beta}: {found}, not {exact}");
    }
    // The normal distribution's 0.9875 quantile.
    let table = TableNoise::Gaussian(Sigma::cost("10").unwrap());
    check_close(Noise::from(table).reach(0.0125), 22.414_027_276, 1e-6, "Gaussian");
    // Noise too wide for any bound has an infinite reach.
    let wide = TableNoise::Laplace(Epsilon::from_units(1).unwrap());
    assert_eq!(Noise::from(wide).reach(0.1), f64::INFINITY);
}

#[test]
fn loss_decisions_match_reference() {
    for (table, accepting) in [(LOSS_ACCEPT, true), (LOSS_REJECT, false)] {
        for case in table {
            let what = format!("{} {} {}", case.above, case.below, case.target);
            let reach = laplace_quantile(case.epsilon, case.risk / 4.0).unwrap();
            check_close(reach, case.reach, 1e-14, &what);
            check_close(-(case.risk / 2.0).ln(), case.threshold, 1e-14, &what);
            let margin = Margin::new(reach, case.risk / 2.0).unwrap();
            let sums = Pair { above: case.above, below: case.below };
            let (found, moved) = if accepting {
                (
                    accepts(sums, case.target, margin, Tail::KullbackLeibler),
                    ((case.above + reach).max(0.0), case.below - reach),
                )
            } else {
                (
                    rejects(sums, case.target, 0.0, margin, Tail::KullbackLeibler),
                    (case.above - reach, (case.below + reach).max(0.0)),
                )
            };
            assert_eq!(found, case.decides, "{what}");
            if case.evidence.is_nan() {
                assert!(moved.0.min(moved.1) <= 0.0, "{what}");
            } else {
                check_close(evidence(moved.0, moved.1, case.target), case.evidence, 1e-11, &what);
            }
        }
    }
}

#[test]
fn accuracy_decisions_match_reference() {
    for (table, accepting) in [(ACCURACY_ACCEPT, true), (ACCURACY_REJECT, false)] {
        for case in table {
            let what = format!("{} {} {}", case.right, case.wrong, case.target);
            let noise = Noise::Laplace { scale: 1.0 / case.epsilon, steps: 1 };
            let margin = Margin::one_sided(noise, Risk::new(case.risk).unwrap());
            assert_eq!(margin, Margin::new(case.reach, case.risk / 2.0).unwrap(), "{what}");
            let (right, wrong) = case.moved;
            let (found, tail) = if accepting {
                (
                    accepts_accuracy(case.right, case.wrong, case.target, margin),
                    incomplete_beta(case.target, right, wrong + 1.0),
                )
            } else {
                (
                    rejects_accuracy(case.right, case.wrong, case.target, margin),
                    incomplete_beta(1.0 - case.target, wrong, right + 1.0),
                )
            };
            assert_eq!(found, case.decides, "{what}");
            check_close(tail.unwrap_or(1.0), case.tail, 1e-10, &what);
            if !case.limit.is_nan() {
                let (limit, _) = clopper_pearson(right, right + wrong, case.risk / 2.0);
                check_close(limit, case.limit, 1e-10, &what);
            }
        }
    }
}

#[test]
fn the_incomplete_beta_function_matches_reference() {
    for &(x, a, b, exact) in BETA {
        check_close(incomplete_beta(x, a, b).unwrap(), exact, 1e-10, &format!("I_{x}({a}, {b})"));
        let other = incomplete_beta(1.0 - x, b, a).unwrap();
        assert!((other - (1.0 - exact)).abs() <= 1e-10, "I_{}({b}, {a}): {other}", 1.0 - x);
    }
    for (x, a, b) in
        [(f64::NAN, 1.0, 1.0), (0.5, 0.0, 1.0), (0.5, 1.0, f64::INFINITY), (1.5, 1.0, 1.0), (0.5, -1.0, 1.0)]
    {
        assert_eq!(incomplete_beta(x, a, b), None);
    }
    // It decreases in a and increases in b for real numbers, which makes the correction for noise safe.
    let mut last = [1.0, 0.0];
    for step in 1..400 {
        let argument = 0.25 * f64::from(step);
        let next = [incomplete_beta(0.4, argument, 30.0).unwrap(), incomplete_beta(0.4, 30.0, argument).unwrap()];
        assert!(next[0] <= last[0] && next[1] >= last[1], "{argument}");
        last = next;
    }
}

#[test]
fn clopper_pearson_matches_reference() {
    for &(successes, trials, chance, low, high) in CLOPPER_PEARSON {
        let found = clopper_pearson(successes, trials, chance);
        check_close(found.0, low, 1e-10, "lower");
        check_close(found.1, high, 1e-10, "upper");
    }
}

#[test]
fn limits_of_means_match_reference() {
    for case in SUMS {
        let what = format!("{} {}", case.above, case.below);
        let reach = laplace_quantile(case.epsilon, case.risk / 8.0).unwrap();
        check_close(reach, case.reach, 1e-14, &what);
        let sums = Pair { above: case.above, below: case.below };
        let (low, high) = interval(sums, Margin::new(reach, case.risk / 4.0).unwrap());
        check_close(low, case.low, 1e-8, &what);
        check_close(high, case.high, 1e-8, &what);
        let mean = mean(sums).unwrap();
        check_close(mean, case.mean, 1e-15, &what);
        check_close((high - mean).max(mean - low), case.half_width, 1e-8, &what);
    }
}

#[test]
fn risks_add_up() {
    let number = |number| NonZeroU32::new(number).unwrap();
    let confidence = Confidence::new(0.95).unwrap();
    let alone = confidence.risks(Rejection::Never);
    assert_eq!((alone.accept.chance(), alone.reject), (1.0 - 0.95, None));
    let both = confidence.risks(Rejection::ByAny(number(4)));
    let reject = both.reject.unwrap();
    check_close(both.accept.chance() + 4.0 * reject.chance(), 1.0 - 0.95, 1e-14, "all");
    let spent: f64 = (1..100_000).map(|attempt| both.at_attempt(number(attempt)).accept.chance()).sum();
    assert!(spent <= both.accept.chance() && spent > 0.9999 * both.accept.chance());
    check_close(reject.at_attempt(number(3)).chance(), reject.chance() / 12.0, 1e-15, "third");
    assert!(both.at_attempt(number(u32::MAX)).accept.chance() > 0.0);
}

/// The noise and the rows have halves of a risk, which are divided on their own.
#[test]
fn the_parts_of_a_risk_are_divided_apart() {
    let whole = Risk::new(0.04).unwrap();
    assert_eq!((whole.noise(), whole.rows(), whole.chance()), (0.02, 0.02, 0.04));
    let divisors = RiskDivisors { noise: NonZeroU64::new(4).unwrap(), rows: NonZeroU64::new(1_000).unwrap() };
    let part = whole.divided(divisors);
    assert_eq!((part.noise(), part.rows()), (0.005, 0.000_02));
    check_close(part.of_equal_parts(), 0.000_04, 1e-15, "both parts are within");
    check_close(part.of_noise_alone(), 0.01, 1e-15, "no sample");
    let noise = Noise::Gaussian { deviation: 3.0 };
    let expected = Margin::new(noise.reach(0.0025), 0.000_02).unwrap();
    assert_eq!(Margin::one_sided(noise, part), expected, "half of the noise's part for each of two numbers");
}

#[test]
fn bounds_have_names() {
    for (name, bound) in Bound::NAMES {
        assert_eq!(Bound::named(name), Some(bound));
    }
    assert_eq!(Bound::named("kl"), Some(Bound::default()));
    assert_eq!(Bound::named("chernoff"), None);
}

#[test]
fn parameters_out_of_range_are_refused() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1.0, 1.5] {
        assert!(Risk::new(bad).is_err() && Confidence::new(bad).is_err() && AccuracyTarget::new(bad).is_err());
        assert!(LossTarget::new(bad, 1.0).is_err(), "{bad}");
        assert!(Margin::new(0.0, bad).is_err());
    }
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0] {
        assert!(LossTarget::new(0.5, bad).is_err() && PrecisionTarget::new(bad).is_err());
        assert!(ComparisonTarget::new(0.0, bad).is_err());
    }
    for bad in [f64::NAN, f64::INFINITY, -1e-9, 2.0, 3.0] {
        assert!(ComparisonTarget::new(bad, 2.0).is_err());
    }
    assert!(Margin::new(f64::NAN, 0.1).is_err() && Margin::new(-1.0, 0.1).is_err() && Risk::new(1e-201).is_err());
    // A tiny target over a huge bound is not above zero.
    assert!(LossTarget::new(5e-324, 1e300).is_err());
    let error = LossTarget::new(2.0, 1.0).unwrap_err();
    assert!(error.to_string().contains("below the largest loss"));
}
