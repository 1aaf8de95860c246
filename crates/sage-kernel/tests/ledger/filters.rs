//! What each filter admits, to the unit; and what it must not admit.

use sage_kernel::accountant::{ORDERS, conversion, epsilon_from_curve, sampled_gaussian_curve};
use sage_kernel::{
    Amounts, Blocks, Ceiling, Component, Cost, DeclaredQuery, Delta, Epsilon, Filter, FixedError, Lane, Mechanism,
    PriceError, Rate, Rule, Sigma,
};

fn ceiling(epsilon: &str, delta: &str) -> Ceiling {
    Ceiling { epsilon: Epsilon::ceiling(epsilon).expect("ε"), delta: Delta::ceiling(delta).expect("δ") }
}

fn epsilon(text: &str) -> Epsilon {
    Epsilon::cost(text).expect("ε")
}

fn delta(text: &str) -> Delta {
    Delta::cost(text).expect("δ")
}

fn cost(part: Mechanism) -> Cost {
    Cost::at_delta(vec![part], delta("1e-9")).expect("a cost")
}

fn anywhere() -> Blocks {
    Blocks::range(0, 0).expect("a block")
}

/// How often the filter admits the amounts after what has been spent: tried, at ever closer counts.
fn most(filter: &Filter, spent: &[u128], requested: &Amounts) -> u64 {
    let admitted = |count: u64| {
        let before = |(spent, requested): (&u128, &u64)| spent + u128::from(*requested) * u128::from(count);
        filter.admits(&spent.iter().zip(requested.units()).map(before).collect::<Vec<_>>(), requested)
    };
    let (mut low, mut high) = (0, 1 << 40);
    while low < high {
        let middle = (low + high) / 2;
        if admitted(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

fn fits(rule: Rule, ceiling: Ceiling, cost: &Cost) -> u64 {
    let filter = Filter::new(rule, ceiling).expect("a filter");
    let requested = filter.price(cost, Lane::Train, &anywhere()).expect("a price");
    let mut spent = vec![0u128; filter.caps().len()];
    let most = most(&filter, &spent, &requested);
    // Found by halving; here each is tried, where that takes no time.
    if most <= 2000 {
        for _ in 0..most {
            assert!(filter.admits(&spent, &requested), "{rule}: fewer than {most} fit");
            spent.iter_mut().zip(requested.units()).for_each(|(spent, &units)| *spent += u128::from(units));
        }
        assert!(!filter.admits(&spent, &requested), "{rule}: more than {most} fit");
    }
    most
}

fn black_box() -> Cost {
    cost(Mechanism::BlackBox { epsilon: epsilon("0.1"), delta: delta("1e-9") })
}

fn laplace(loss: &str) -> Cost {
    cost(Mechanism::Laplace { epsilon: epsilon(loss), count: 1 })
}

fn gaussian() -> Cost {
    cost(Mechanism::Gaussian { sigma: Sigma::cost("50").expect("σ"), coordinates: 1, count: 1 })
}

fn training(sigma: &str) -> Cost {
    cost(Mechanism::SampledGaussian {
        rate: Rate::cost("0.01").expect("q"),
        sigma: Sigma::cost(sigma).expect("σ"),
        coordinates: 1,
        steps: 1000,
    })
}

/// Training as a black box at 1e-9 by the Rényi route, as the (ε, δ) rows of the table have it.
fn training_as_black_box(sigma: f64) -> Cost {
    let mut curve = sampled_gaussian_curve(&ORDERS, 0.01, sigma).expect("a curve");
    curve.iter_mut().for_each(|value| *value *= 1000.0);
    let loss = epsilon_from_curve(&ORDERS, &curve, 1e-9).expect("an ε");
    cost(Mechanism::BlackBox { epsilon: epsilon(&format!("{loss:.12}")), delta: delta("1e-9") })
}

#[test]
fn the_table_of_what_fits_holds_to_the_unit() {
    let small = ceiling("1", "1e-6");
    let large = ceiling("10", "1e-7");
    let rows: [(Rule, [u64; 6], [u64; 6]); 2] = [
        (Rule::Basic, [10, 10, 100, 9, 0, 2], [100, 100, 1000, 99, 2, 21]),
        (Rule::Renyi, [10, 10, 438, 108, 0, 6], [50, 258, 24661, 6143, 13, 380]),
    ];
    for (rule, under_small, under_large) in rows {
        let queries = [
            black_box(),
            laplace("0.1"),
            laplace("0.01"),
            gaussian(),
            if rule == Rule::Renyi { training("1") } else { training_as_black_box(1.0) },
            if rule == Rule::Renyi { training("4") } else { training_as_black_box(4.0) },
        ];
        assert_eq!(queries.each_ref().map(|query| fits(rule, small, query)), under_small, "{rule} (1, 1e-6)");
        assert_eq!(queries.each_ref().map(|query| fits(rule, large, query)), under_large, "{rule} (10, 1e-7)");
    }
    let strong = [black_box(), laplace("0.1"), laplace("0.01"), gaussian()];
    assert_eq!(strong.each_ref().map(|query| fits(Rule::Strong, small, query)), [4, 4, 458, 114]);
    assert_eq!(strong.each_ref().map(|query| fits(Rule::Strong, large, query)), [50, 261, 26133, 6533]);
    // With any ε-private mechanism in place of Laplace noise, a little less.
    let pure = |loss: &str| cost(Mechanism::Pure { epsilon: epsilon(loss) });
    assert_eq!(fits(Rule::Renyi, small, &pure("0.01")), 437);
    assert_eq!(fits(Rule::Renyi, large, &pure("0.1")), 250);
    assert_eq!(fits(Rule::Renyi, large, &pure("0.01")), 24580);
}

/// By its loss distribution, training is never dearer than by the Rényi route.
#[test]
fn pairs_are_stated_by_the_tightest_accountant() {
    for (sigma, text) in [(1.0, "1"), (4.0, "4")] {
        for ceiling in [ceiling("1", "1e-6"), ceiling("10", "1e-7")] {
            let tight = fits(Rule::Basic, ceiling, &training(text));
            assert!(tight >= fits(Rule::Basic, ceiling, &training_as_black_box(sigma)), "{text}");
        }
    }
    assert!(fits(Rule::Basic, ceiling("10", "1e-7"), &training("4")) > 21);
}

#[test]
fn caps_are_those_of_the_theory_rounded_down() {
    let expected_small = [
        (16.0, 0.09729467190262309),
        (20.0, 0.3359055571954419),
        (24.0, 0.5197878279520038),
        (28.0, 0.5454085786142507),
        (64.0, 0.7634475299896613),
        (1024.0, 0.9834067623835804),
    ];
    let expected_large =
        [(3.0, 1.1628554755631964), (4.0, 4.91498352213234), (5.0, 5.902831936123209), (1024.0, 9.974380313802355)];
    let check = |ceiling: Ceiling, first: f64, count: usize, expected: &[(f64, f64)]| {
        let filter = Filter::new(Rule::Renyi, ceiling).expect("a filter");
        let orders: Vec<(f64, u64)> = filter
            .components()
            .iter()
            .zip(filter.caps())
            .filter_map(|(component, &cap)| match component {
                Component::Order(index) => Some((ORDERS[*index as usize], cap)),
                _ => None,
            })
            .collect();
        assert_eq!((orders[0].0, orders.len()), (first, count), "orders with a cap of zero are dropped");
        for &(order, cap) in expected {
            let units = orders.iter().find(|(kept, _)| *kept == order).expect("a kept order").1;
            let exact = cap * 1e12;
            assert!((units as f64) < exact && units as f64 > exact - 2e3, "order {order}: {units} {exact}");
        }
    };
    check(ceiling("1", "1e-6"), 16.0, 16, &expected_small);
    check(ceiling("10", "1e-7"), 3.0, 26, &expected_large);
}

/// Weakening a cost in any component never turns a yes into a no, and a full lane admits nothing.
#[test]
fn admission_is_monotone() {
    for rule in Rule::ADAPTIVE {
        let filter = Filter::new(rule, ceiling("1", "1e-6")).expect("a filter");
        let costs: Vec<Cost> = ["0.4", "0.2", "0.1", "0.05"].iter().map(|loss| laplace(loss)).collect();
        for spent_times in 0..12u128 {
            let unit = filter.price(&costs[3], Lane::Train, &anywhere()).expect("a price");
            let spent: Vec<u128> = unit.units().iter().map(|&units| u128::from(units) * spent_times).collect();
            let admitted: Vec<bool> = costs
                .iter()
                .map(|cost| filter.admits(&spent, &filter.price(cost, Lane::Train, &anywhere()).expect("a price")))
                .collect();
            assert!(admitted.windows(2).all(|pair| !pair[0] || pair[1]), "{rule}: {admitted:?}");
        }
        let full: Vec<u128> = filter.caps().iter().map(|&cap| u128::from(cap)).collect();
        let least = cost(Mechanism::BlackBox { epsilon: epsilon("1e-12"), delta: delta("1e-18") });
        let requested = filter.price(&least, Lane::Train, &anywhere()).expect("a price");
        assert!(!filter.admits(&full, &requested), "{rule} admits on a full lane");
        assert!(!filter.admits(&[], &requested), "{rule} admits on the wrong shape");
    }
}

#[test]
fn twenty_twentieths_fit_and_no_more() {
    for rule in [Rule::Basic, Rule::Renyi] {
        assert_eq!(fits(rule, ceiling("1", "0"), &laplace("0.05")), 20, "{rule}");
    }
    assert_eq!(fits(Rule::Basic, ceiling("1", "1e-6"), &laplace("0.05")), 20);
    assert_eq!(fits(Rule::Basic, ceiling("1", "1e-6"), &laplace("0.000000000001")), 1_000_000_000_000);
}

#[test]
fn prices_that_do_not_exist_are_refused() {
    let curved = Cost::new(gaussian().parts().to_vec()).expect("a cost without a δ");
    let basic = Filter::new(Rule::Basic, ceiling("1", "1e-6")).expect("a filter");
    assert_eq!(basic.price(&curved, Lane::Train, &anywhere()), Err(PriceError::NeedsDelta));
    for rule in [Rule::Strong, Rule::Renyi] {
        let filter = Filter::new(rule, ceiling("1", "1e-6")).expect("a filter");
        assert!(filter.price(&curved, Lane::Train, &anywhere()).is_ok(), "{rule}");
    }
    assert!(Filter::new(Rule::Fixed, ceiling("1", "1e-6")).is_none());
    assert!(Filter::new(Rule::Basic, ceiling("0", "1e-6")).is_none());
    for reason in [PriceError::NeedsDelta, PriceError::NotDeclared] {
        assert!(reason.to_string().len() > 20);
    }
}

/// With no δ to convert with, curves are worth nothing and only order ∞ is left.
#[test]
fn without_delta_only_pure_losses_fit() {
    for rule in [Rule::Strong, Rule::Renyi] {
        assert_eq!(fits(rule, ceiling("1", "0"), &gaussian()), 0, "{rule}");
    }
    assert_eq!(fits(Rule::Renyi, ceiling("1", "0"), &laplace("0.25")), 4);
}

fn declared(first: u32, last: u32, lane: Lane, cost: Cost, times: u32) -> DeclaredQuery {
    DeclaredQuery { blocks: Blocks::range(first, last).expect("blocks"), lane, cost, times }
}

/// Declared in advance, a hundred small queries fit where basic composition takes ten.
#[test]
fn fixed_streams_compose_what_they_declare_and_nothing_else() {
    let small = ceiling("1", "1e-6");
    let pure = |loss: &str| Cost::pure(epsilon(loss)).expect("a cost");
    assert!(Filter::fixed(small, vec![declared(0, 9, Lane::Train, pure("0.1"), 10)]).is_ok());
    let above = Filter::fixed(small, vec![declared(0, 9, Lane::Train, pure("0.1"), 11)]);
    assert_eq!(above, Err(FixedError::AboveCeiling(Lane::Train)));
    // Optimal composition: 400 queries of 0.01 where the sum allows 100.
    assert!(Filter::fixed(small, vec![declared(0, 9, Lane::Train, pure("0.01"), 400)]).is_ok());
    // Blocks that do not meet, and lanes, do not add up.
    let apart = vec![
        declared(0, 4, Lane::Train, pure("0.9"), 1),
        declared(5, 9, Lane::Train, pure("0.9"), 1),
        declared(0, 9, Lane::Test, pure("1"), 1),
    ];
    let filter = Filter::fixed(small, apart.clone()).expect("a filter");
    let mut meeting = apart;
    meeting.push(declared(4, 5, Lane::Train, pure("0.2"), 1));
    assert_eq!(Filter::fixed(small, meeting), Err(FixedError::AboveCeiling(Lane::Train)));
    let blocks = Blocks::range(0, 4).expect("blocks");
    assert!(filter.price(&pure("0.9"), Lane::Train, &blocks).is_ok());
    for (cost, lane, blocks) in [
        (pure("0.8"), Lane::Train, blocks.clone()),
        (pure("0.9"), Lane::Test, blocks),
        (pure("0.9"), Lane::Train, Blocks::range(0, 3).expect("blocks")),
    ] {
        assert_eq!(filter.price(&cost, lane, &blocks), Err(PriceError::NotDeclared));
    }
    let curve = cost(Mechanism::Zcdp { rho: epsilon("0.01") });
    assert_eq!(Filter::fixed(small, vec![declared(0, 1, Lane::Train, curve, 1)]), Err(FixedError::NotComposable));
    assert_eq!(Filter::fixed(small, vec![]), Err(FixedError::Empty));
    assert_eq!(Filter::fixed(small, vec![declared(0, 1, Lane::Train, pure("0.1"), 0)]), Err(FixedError::Empty));
    assert_eq!(
        Filter::fixed(ceiling("0", "0"), vec![declared(0, 1, Lane::Train, pure("0.1"), 1)]),
        Err(FixedError::Empty)
    );
    let used = filter.price(&pure("0.9"), Lane::Train, &Blocks::range(0, 4).expect("blocks")).expect("a price");
    let mut spent = vec![0u128; filter.caps().len()];
    assert!(filter.admits(&spent, &used));
    spent.iter_mut().zip(used.units()).for_each(|(spent, &units)| *spent += u128::from(units));
    assert!(!filter.admits(&spent, &used), "a declaration is used as often as declared");
}

/// The adaptive analyst of `proofs/renyi.md`: a Gaussian, then the order that its outcome makes worst.
///
/// Returns the probability mass by which (ε, 0) is broken, over δ_g.
fn attack(loss_ceiling: f64, delta_ceiling: f64, rho: f64, caps: &[(f64, f64)]) -> f64 {
    let spread = (2.0 * rho).sqrt();
    let (steps, reach) = (1200, 9.0);
    let width = 2.0 * reach * spread / f64::from(steps);
    let mut total = 0.0;
    for step in 0..=steps {
        let loss = rho - reach * spread + f64::from(step) * width;
        let density =
            (-(loss - rho) * (loss - rho) / (4.0 * rho)).exp() / (spread * (2.0 * std::f64::consts::PI).sqrt());
        let gain = caps.iter().map(|&(order, cap)| second_step(loss_ceiling - loss, order, cap - rho * order));
        total += width * density * gain.fold((1.0 - (loss_ceiling - loss).exp()).max(0.0), f64::max);
    }
    total / delta_ceiling
}

/// The most a two-point mechanism within `slack` at the order can break (`missing`, 0).
fn second_step(missing: f64, order: f64, slack: f64) -> f64 {
    if slack <= 0.0 {
        return 0.0;
    }
    let mut best = 0.0f64;
    for shift in [0.6, 0.8, 1.0, 1.25, 1.6] {
        let loss = missing + shift * (order / (order - 1.0)).ln();
        let divergence = |chance: f64| {
            let other = chance * (-loss).exp();
            let high = chance * ((order - 1.0) * loss).exp();
            let low = order * (-chance).ln_1p() + (1.0 - order) * (-other).ln_1p();
            (high + low.exp()).ln() / (order - 1.0)
        };
        let (mut low, mut high) = (0.0, 1.0 - 1e-12);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if divergence(middle) <= slack { low = middle } else { high = middle }
        }
        best = best.max(low * (1.0 - (missing - loss).exp()));
    }
    best
}

#[test]
fn the_attack_breaks_the_unweighted_rule_and_not_ours() {
    for (bound, rhos, broken) in [
        (("1", "1e-6"), [9.734813289474552e-05, 0.0036234137575179596], 2.0),
        (("10", "1e-7"), [0.0032790123228196764, 0.3714098733002543], 2.4),
    ] {
        let ceiling = ceiling(bound.0, bound.1);
        let (loss, chance) = (ceiling.epsilon.units() as f64 / 1e12, ceiling.delta.units() as f64 / 1e18);
        let unweighted: Vec<(f64, f64)> =
            ORDERS.iter().map(|&order| (order, loss - conversion(order, chance).expect("a conversion"))).collect();
        let attained = attack(loss, chance, rhos[0], &unweighted);
        assert!(attained > broken, "the attack has lost its power: {attained}");
        let filter = Filter::new(Rule::Renyi, ceiling).expect("a filter");
        let weighted: Vec<(f64, f64)> = filter
            .components()
            .iter()
            .zip(filter.caps())
            .filter_map(|(component, &cap)| match component {
                Component::Order(index) => Some((ORDERS[*index as usize], cap as f64 / 1e12)),
                _ => None,
            })
            .collect();
        for rho in rhos {
            let attained = attack(loss, chance, rho, &weighted);
            assert!(attained < 0.53, "{rho}: {attained}");
        }
    }
}
