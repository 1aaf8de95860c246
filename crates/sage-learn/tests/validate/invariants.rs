//! Invariants of decisions: monotone, independent of units, and no decision on invalid numbers.

use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};
use sage_kernel::{Pair, Triple};
use sage_learn::validate::decide::{
    Tail, accepts, accepts_accuracy, accepts_by_variance, interval, rejects, rejects_accuracy,
};
use sage_learn::validate::{LossTarget, Margin};

const TAILS: [Tail; 3] = [Tail::KullbackLeibler, Tail::Bernstein, Tail::Hoeffding];

fn margin(reach: f64, chance: f64) -> Margin {
    Margin::new(reach, chance).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    /// A larger upper sum never turns a retry into an accept, a larger lower sum never an accept into a retry; rejecting
    /// is the mirror image.
    #[test]
    fn decisions_are_monotone(
        above in -50.0..400.0f64, below in -50.0..400.0f64, more in 0.0..100.0f64, target in 0.001..0.999f64,
        reach in 0.0..40.0f64, chance in 1e-6..0.5f64,
    ) {
        let margin = margin(reach, chance);
        let (here, up, down) = (
            Pair { above, below },
            Pair { above: above + more, below },
            Pair { above, below: below + more },
        );
        for tail in TAILS {
            let accept = |sums| accepts(sums, target, margin, tail);
            prop_assert!(accept(here) || !accept(up));
            prop_assert!(accept(down) || !accept(here));
            let reject = |sums| rejects(sums, target, 0.01, margin, tail);
            prop_assert!(reject(up) || !reject(here));
            prop_assert!(reject(here) || !reject(down));
        }
        let accept = |sums: Pair| accepts_accuracy(sums.above, sums.below, target, margin);
        prop_assert!(accept(up) || !accept(here));
        prop_assert!(accept(here) || !accept(down));
        let reject = |sums: Pair| rejects_accuracy(sums.above, sums.below, target, margin);
        prop_assert!(reject(here) || !reject(up));
        prop_assert!(reject(down) || !reject(here));
        // The Chernoff bound is the strongest, and one cannot accept and reject at once.
        if TAILS[1..].iter().any(|&tail| accepts(here, target, margin, tail)) {
            prop_assert!(accepts(here, target, margin, Tail::KullbackLeibler));
        }
        if TAILS[1..].iter().any(|&tail| rejects(here, target, 0.0, margin, tail)) {
            prop_assert!(rejects(here, target, 0.0, margin, Tail::KullbackLeibler));
        }
        prop_assert!(!(accepts(here, target, margin, TAILS[0]) && rejects(here, target, 0.0, margin, TAILS[0])));
    }

    /// More noise, or less risk, never turns a retry into a decision.
    #[test]
    fn margins_are_monotone(
        above in -50.0..400.0f64, below in -50.0..400.0f64, target in 0.001..0.999f64,
        reach in 0.0..40.0f64, chance in 1e-6..0.5f64, factor in 1.0..5.0f64,
    ) {
        let sums = Pair { above, below };
        let (wide, narrow) = (margin(reach * factor, chance / factor), margin(reach, chance));
        for tail in TAILS {
            prop_assert!(accepts(sums, target, narrow, tail) || !accepts(sums, target, wide, tail));
            prop_assert!(rejects(sums, target, 0.0, narrow, tail) || !rejects(sums, target, 0.0, wide, tail));
        }
        let (outer, inner) = (interval(sums, wide), interval(sums, narrow));
        prop_assert!(outer.0 <= inner.0 && inner.1 <= outer.1);
        prop_assert!(0.0 <= outer.0 && outer.0 <= outer.1 && outer.1 <= 1.0, "{outer:?}");
    }

    /// A loss in other units, with bound and target in the same units, gives the same share and the same decision.
    #[test]
    fn units_do_not_matter(
        above in 0.0..300.0f64, below in 0.0..300.0f64, target in 0.01..0.99f64, units in 1e-6..1e6f64,
    ) {
        let share = LossTarget::new(target, 1.0).unwrap().share();
        let other = LossTarget::new(target * units, units).unwrap().share();
        prop_assert!((share - other).abs() <= f64::EPSILON * share);
        let exact = LossTarget::new(target * 1024.0, 1024.0).unwrap().share();
        let (sums, margin) = (Pair { above, below }, margin(3.0, 0.025));
        prop_assert_eq!(exact, share);
        for tail in TAILS {
            prop_assert_eq!(accepts(sums, share, margin, tail), accepts(sums, exact, margin, tail));
        }
    }
}

/// Every input gives a result, and NaN never accepts or rejects.
#[test]
fn hostile_numbers_decide_nothing() {
    let numbers = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        -1e300,
        -1e9,
        -0.0,
        0.0,
        5e-324,
        1.0,
        1e9,
        1e300,
    ];
    let targets = [f64::NAN, f64::INFINITY, -1.0, 0.0, 5e-324, 1e-300, 0.5, 1.0 - f64::EPSILON, 1.0, 2.0];
    let margins = [margin(0.0, 0.5), margin(3.0, 1e-9), margin(1e300, 0.1), margin(f64::INFINITY, 0.1)];
    for (above, below) in numbers.iter().flat_map(|&above| numbers.map(|below| (above, below))) {
        let sums = Pair { above, below };
        let finite = above.is_finite() && below.is_finite();
        for (target, margin) in targets.iter().flat_map(|&target| margins.map(|margin| (target, margin))) {
            let mut decided = vec![accepts_accuracy(above, below, target, margin)];
            decided.push(rejects_accuracy(above, below, target, margin));
            decided.extend(TAILS.map(|tail| accepts(sums, target, margin, tail)));
            decided.extend(TAILS.map(|tail| rejects(sums, target, 0.0, margin, tail)));
            decided.push(accepts_by_variance(Triple { squares: above, rest: 0.0, below }, target, margin));
            if !(finite && target > 0.0 && target < 1.0) || margin == margins[3] {
                assert!(!decided.contains(&true), "{sums:?} {target} {margin:?}: {decided:?}");
            }
            // Nothing below: no accept. Nothing above: no reject.
            assert!(below > 0.0 || !accepts(sums, target, margin, Tail::KullbackLeibler));
            assert!(above > 0.0 || !rejects(sums, target, 0.0, margin, Tail::KullbackLeibler));
        }
        for gap in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(!rejects(sums, 0.5, gap, margins[0], Tail::KullbackLeibler));
        }
        for margin in margins {
            let (low, high) = interval(sums, margin);
            assert!((0.0..=1.0).contains(&low) && (0.0..=1.0).contains(&high), "{sums:?}");
        }
    }
}
