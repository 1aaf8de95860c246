//! Prices and refusals of filters, against a second derivation.

use sage_kernel::{
    AccessMode, AccessModes, Blocks, ChargeOutcome, Component, Cost, Curve, DeclaredQuery, Delta, Epsilon, Event,
    Filter, FixedError, Gate, Lane, Mechanism, MemoryLog, ORDER_COUNT, Policy, Refusal, Request, Rule, Shortfall,
    Sigma,
};

use super::{charge, filter, granted, pure, request};

fn gaussian(sigma: &str, coordinates: u32, count: u32) -> Cost {
    let sigma = Sigma::cost(sigma).expect("σ");
    Cost::new(vec![Mechanism::Gaussian { sigma, coordinates, count }]).expect("a cost")
}

fn open(filter: Filter) -> Gate<MemoryLog> {
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let stream = gate.create_stream(0, "rides", Policy::single(filter, AccessModes::AttestedToo)).expect("a stream");
    gate.add_blocks(0, stream, vec!["a".to_owned()]).expect("blocks");
    gate
}

fn refused(gate: &mut Gate<MemoryLog>, key: &str, cost: Cost) -> Shortfall {
    let access = AccessMode::Attested { author: "the officer".to_owned(), reason: "a test".to_owned() };
    match charge(gate, Request { access, ..request(key, (0, 0), cost) }) {
        ChargeOutcome::Refused(Refusal::Ceiling(shortfall)) => *shortfall,
        other => panic!("{other:?}"),
    }
}

/// Of alternatives, a refusal names the one that is missed by the smallest factor, and never one without a bound.
#[test]
fn a_refusal_names_the_number_that_is_missed_by_least() {
    let renyi = filter(Rule::Renyi, "1", "1e-6");
    for before in [None, Some("0.2")] {
        let mut gate = open(renyi.clone());
        let mut spent = vec![0.0; renyi.caps().len()];
        if let Some(loss) = before {
            let price = renyi.price(&pure(loss), Lane::Train, &Blocks::range(0, 0).expect("a block")).expect("a price");
            spent = price.units().iter().map(|&units| units as f64).collect();
            let _grant = granted(&mut gate, request("before", (0, 0), pure(loss)));
        }
        for sigma in ["0.5", "1", "2"] {
            let cost = gaussian(sigma, 1, 1);
            let price = renyi.price(&cost, Lane::Train, &Blocks::range(0, 0).expect("a block")).expect("a price");
            let factor = |index: usize| (spent[index] + price.units()[index] as f64) / renyi.caps()[index] as f64;
            let bounded = (1..renyi.caps().len()).filter(|&index| price.units()[index] != u64::MAX);
            let least = bounded.min_by(|&one, &other| factor(one).total_cmp(&factor(other))).expect("an order");
            assert!(factor(least) > 1.0, "σ = {sigma} is refused");
            let shortfall = refused(&mut gate, sigma, cost);
            assert_eq!(shortfall.component, renyi.components()[least], "σ = {sigma} after {before:?}");
            assert_eq!(shortfall.requested, u128::from(price.units()[least]));
        }
    }
}

/// A required number that is passed is named first; one that is met exactly is not passed.
#[test]
fn a_refusal_names_a_required_number_first() {
    let renyi = filter(Rule::Renyi, "1", "1e-6");
    // Half of δ is for the curves, the other half can be spent.
    let half = 500_000_000_000;
    let without_bound = |delta: u64| {
        let delta = Delta::from_units(delta).expect("δ");
        let curve = Curve { orders: [None; ORDER_COUNT], infinite: None, delta };
        Cost::new(vec![Mechanism::Curve(Box::new(curve))]).expect("a cost")
    };
    assert_eq!(refused(&mut open(renyi.clone()), "a", without_bound(half + 1)).component, Component::Delta);
    assert_eq!(refused(&mut open(renyi), "b", without_bound(half)).component, Component::Infinite);
}

#[test]
fn components_have_the_places_of_their_units() {
    for (component, places) in [
        (Component::Epsilon, 12),
        (Component::Rho, 12),
        (Component::Order(3), 12),
        (Component::Infinite, 12),
        (Component::Delta, 18),
        (Component::Declaration(2), 0),
    ] {
        assert_eq!(component.places(), places, "{component}");
    }
}

/// Rounded Gaussian noise is 2^-100 per draw away from the ideal one. That costs δ of the distance times 1 + e^L, with L
/// the larger of 16 and the loss at 12 deviations, which is μ (12 + μ / 2).
#[test]
fn the_distance_from_ideal_noise_is_charged_at_the_largest_loss() {
    for (sigma, mu) in [("0.5", 2.0f64), ("0.8", 1.25), ("4", 0.25)] {
        let loss = f64::max(16.0, mu * (12.0 + mu / 2.0));
        let draws = 2e6 * 1e6;
        let expected = draws * 2f64.powi(-100) * (1.0 + loss.exp()) * 1e18;
        let renyi = filter(Rule::Renyi, "1", "1e-6");
        let blocks = Blocks::range(0, 0).expect("a block");
        let price = renyi.price(&gaussian(sigma, 2_000_000, 1_000_000), Lane::Train, &blocks).expect("a price");
        let charged = price.units()[0] as f64;
        assert!(charged >= expected && charged <= expected * (1.0 + 1e-9) + 1.0, "σ = {sigma}: {charged} {expected}");
    }
}

#[test]
fn no_filter_has_an_epsilon_of_zero() {
    let renyi = filter(Rule::Renyi, "1", "1e-6");
    let zero = sage_kernel::Ceiling { epsilon: Epsilon::ZERO, ..renyi.ceiling() };
    assert_eq!(renyi.with_ceiling(zero), None);
    let least = sage_kernel::Ceiling { epsilon: Epsilon::from_units(1).expect("ε"), ..renyi.ceiling() };
    assert!(renyi.with_ceiling(least).is_some());
    // Stored as one unit of ε and no δ; then with the one changed to a zero, in the ceiling and in its cap.
    let smallest = sage_kernel::Ceiling { epsilon: Epsilon::from_units(1).expect("ε"), delta: Delta::ZERO };
    let filter = Filter::new(Rule::Basic, smallest).expect("a filter");
    let event =
        Event::StreamCreated { name: "s".to_owned(), policy: Policy::single(filter, AccessModes::EnforcedOnly) };
    let bytes = event.to_bytes();
    assert_eq!(Event::from_bytes(&bytes), Ok(event));
    let stored = [0, 1, 0, 2, 0, 1, 1, 0];
    let at = bytes.windows(8).position(|window| window == stored).expect("rule, ceiling and caps");
    let mut forged = bytes;
    forged[at..at + 8].copy_from_slice(&[0, 0, 0, 2, 0, 0, 1, 0]);
    assert!(Event::from_bytes(&forged).is_err());
}

fn declared(block: u32, lane: Lane, epsilon: &str) -> DeclaredQuery {
    DeclaredQuery { blocks: Blocks::range(block, block).expect("a block"), lane, cost: pure(epsilon), times: 1 }
}

/// A declared query uses up its own declaration and no other.
#[test]
fn a_declared_query_costs_one_of_its_own() {
    let ceiling = filter(Rule::Basic, "1", "1e-6").ceiling();
    let list = vec![declared(0, Lane::Train, "0.25"), declared(0, Lane::Train, "0.5"), declared(0, Lane::Test, "0.25")];
    let fixed = Filter::fixed(ceiling, list).expect("within the ceiling");
    let price = |lane, epsilon: &str| {
        let price = fixed.price(&pure(epsilon), lane, &Blocks::range(0, 0).expect("a block"));
        price.map(|price| price.units().to_vec()).ok()
    };
    assert_eq!(price(Lane::Train, "0.25"), Some(vec![1, 0, 0]));
    assert_eq!(price(Lane::Train, "0.5"), Some(vec![0, 1, 0]));
    assert_eq!(price(Lane::Test, "0.25"), Some(vec![0, 0, 1]));
    assert_eq!(price(Lane::Test, "0.5"), None);
}

#[test]
fn at_most_4096_queries_are_declared() {
    let ceiling = filter(Rule::Basic, "1", "1e-6").ceiling();
    let fixed = |count: u32| Filter::fixed(ceiling, (0..count).map(|block| declared(block, Lane::Test, "1")).collect());
    assert_eq!(fixed(4096).map(|filter| filter.caps().len()), Ok(4096));
    assert_eq!(fixed(4097), Err(FixedError::TooMany));
}

/// The largest number stands for a loss without a bound; the one before it is a number.
#[test]
fn a_loss_without_bound_is_named() {
    let mut gate = open(filter(Rule::Basic, "1", "1e-6"));
    let shortfall = refused(&mut gate, "a", pure("2"));
    assert_eq!(shortfall.decimal(u128::from(u64::MAX)), "without bound");
    assert_eq!(shortfall.decimal(u128::from(u64::MAX) - 1), "18446744.073709551614");
}
