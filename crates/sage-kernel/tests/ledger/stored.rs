//! Filters stored in a log: a filter is decoded only if the theorem of its rule holds for its caps. Each condition is
//! derived here a second time, and fields are forged alone and in pairs.

use proptest::prelude::*;
use sage_kernel::accountant::ORDERS;
use sage_kernel::{
    Amounts, Blocks, Ceiling, Cost, DeclaredQuery, Delta, Epsilon, Event, Filter, FixedError, Gate, Lane, Mechanism,
    MemoryLog, Policy, Record, Rule,
};

const UNITS: f64 = 1e12;

fn ceiling(epsilon: &str, delta: &str) -> Ceiling {
    Ceiling { epsilon: Epsilon::ceiling(epsilon).expect("ε"), delta: Delta::ceiling(delta).expect("δ") }
}

fn number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// What a component is written as: `docs/reference/log-format.md`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Epsilon,
    Delta,
    Rho,
    Order(u64),
    Infinite,
}

/// The numbers of a stored filter that declares nothing.
#[derive(Clone, Debug)]
struct Stored {
    rule: u8,
    epsilon: u64,
    delta: u64,
    caps: Vec<(Part, u64)>,
}

impl Stored {
    fn of(filter: &Filter) -> Self {
        let part = |component: &sage_kernel::Component| match *component {
            sage_kernel::Component::Epsilon => Part::Epsilon,
            sage_kernel::Component::Delta => Part::Delta,
            sage_kernel::Component::Rho => Part::Rho,
            sage_kernel::Component::Order(index) => Part::Order(u64::from(index)),
            sage_kernel::Component::Infinite => Part::Infinite,
            sage_kernel::Component::Declaration(_) => panic!("nothing is declared"),
        };
        Self {
            rule: filter.rule() as u8,
            epsilon: filter.ceiling().epsilon.units(),
            delta: filter.ceiling().delta.units(),
            caps: filter.components().iter().map(part).zip(filter.caps().iter().copied()).collect(),
        }
    }

    /// The event that creates a stream with this filter.
    fn bytes(&self) -> Vec<u8> {
        let mut out = vec![1, 1, b's', 1, 1, b'c', self.rule];
        number(&mut out, self.epsilon);
        number(&mut out, self.delta);
        number(&mut out, self.caps.len() as u64);
        for &(part, cap) in &self.caps {
            match part {
                Part::Epsilon => out.push(0),
                Part::Delta => out.push(1),
                Part::Rho => out.push(2),
                Part::Order(index) => {
                    out.push(3);
                    number(&mut out, index);
                }
                Part::Infinite => out.push(4),
            }
            number(&mut out, cap);
        }
        // Nothing declared, no joint ceiling, enforced access alone.
        out.extend([0, 0, 0]);
        out
    }

    fn read(&self) -> Option<Filter> {
        match Event::from_bytes(&self.bytes()) {
            Ok(Event::StreamCreated { policy, .. }) => Some(policy.contexts()[0].filter.clone()),
            Ok(other) => panic!("another event: {other:?}"),
            Err(_) => None,
        }
    }

    fn caps_of(&self, wanted: Part) -> u64 {
        self.caps.iter().find(|(part, _)| *part == wanted).map_or(0, |(_, cap)| *cap)
    }
}

/// The δ that caps of the Rényi rule leave unpaid, over the half that is there for it: at most one if the theorem
/// holds. Written as in `proofs/renyi.md`, with powers where the kernel has logarithms.
fn renyi_share(stored: &Stored) -> f64 {
    let half = (stored.delta / 2) as f64 / 1e18;
    let share = |order: f64, cap: u64| {
        let below = (stored.epsilon - cap) as f64 / UNITS;
        (1.0 - 1.0 / order).powf(order - 1.0) / order * (-(order - 1.0) * below).exp()
    };
    let each = stored.caps.iter().map(|&(part, cap)| match part {
        Part::Order(index) if cap > 0 && cap <= stored.epsilon => share(ORDERS[index as usize], cap),
        Part::Order(_) if cap > 0 => f64::INFINITY,
        _ => 0.0,
    });
    let total: f64 = each.sum();
    if total == 0.0 { 0.0 } else { total / half }
}

/// The least ε that ρ converts to at half of δ_g, over orders searched for by thirds.
fn strong_epsilon(stored: &Stored) -> f64 {
    let rho = stored.caps_of(Part::Rho) as f64 / UNITS;
    if rho == 0.0 {
        return 0.0;
    }
    let half = (stored.delta / 2) as f64 / 1e18;
    let at = |log: f64| {
        let order = 1.0 + log.exp();
        rho * order + (-1.0 / order).ln_1p() - (half.ln() + order.ln()) / (order - 1.0)
    };
    let (mut low, mut high) = (-18.0, 50.0);
    for _ in 0..200 {
        let third = (high - low) / 3.0;
        if at(low + third) <= at(high - third) {
            high -= third;
        } else {
            low += third;
        }
    }
    at(0.5 * (low + high))
}

/// Whether the theorem of the rule holds; None where the second derivation is too close to tell.
fn holds(stored: &Stored) -> Option<bool> {
    let spendable = stored.delta - stored.delta / 2;
    let clear = |value: f64, limit: f64, slack: f64| {
        if value <= limit - slack {
            Some(true)
        } else if value > limit + slack {
            Some(false)
        } else {
            None
        }
    };
    match stored.rule {
        0 => Some(stored.caps_of(Part::Epsilon) <= stored.epsilon && stored.caps_of(Part::Delta) <= stored.delta),
        1 => {
            let epsilon = stored.epsilon as f64 / UNITS;
            let fits = clear(strong_epsilon(stored), epsilon, 1e-11 * epsilon + 1e-12)?;
            Some(fits && stored.caps_of(Part::Delta) <= spendable)
        }
        _ => {
            let infinite = stored.caps_of(Part::Infinite) <= stored.epsilon;
            let fits = clear(renyi_share(stored), 1.0, 1e-9)?;
            Some(fits && infinite && stored.caps_of(Part::Delta) <= spendable)
        }
    }
}

fn check(stored: &Stored) -> Result<(), TestCaseError> {
    if let Some(expected) = holds(stored) {
        prop_assert_eq!(stored.read().is_some(), expected, "{:?}", stored);
    }
    Ok(())
}

prop_compose! {
    fn ceilings()(epsilon in prop_oneof![1u64..=10, 1_000_000..=1_000_000_000_000u64, 1u64..=30_000_000_000_000],
                  delta in prop_oneof![Just(0u64), 1u64..=3, 1_000u64..=1_000_000_000_000, 1u64..=500_000_000_000_000_000])
                  -> Ceiling {
        Ceiling { epsilon: Epsilon::from_units(epsilon).expect("ε"), delta: Delta::from_units(delta).expect("δ") }
    }
}

/// How one field of a stored filter is changed.
#[derive(Clone, Copy, Debug)]
enum Change {
    Cap(usize, u64),
    Raise(usize, u64),
    Lower(usize, u64),
    Epsilon(u64),
    Delta(u64),
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0usize..40, 0u64..=40_000_000_000_000).prop_map(|(at, cap)| Change::Cap(at, cap)),
        (0usize..40, prop_oneof![1u64..10, 100_000_000u64..2_000_000_000_000])
            .prop_map(|(at, by)| Change::Raise(at, by)),
        (0usize..40, 1u64..2_000_000_000_000).prop_map(|(at, by)| Change::Lower(at, by)),
        (1u64..=30_000_000_000_000).prop_map(Change::Epsilon),
        (0u64..=999_999_999_999_999_999).prop_map(Change::Delta),
    ]
}

fn changed(mut stored: Stored, change: Change) -> Stored {
    let count = stored.caps.len();
    match change {
        Change::Cap(at, cap) => stored.caps[at % count].1 = cap,
        Change::Raise(at, by) => stored.caps[at % count].1 = stored.caps[at % count].1.saturating_add(by),
        Change::Lower(at, by) => stored.caps[at % count].1 = stored.caps[at % count].1.saturating_sub(by),
        Change::Epsilon(units) => stored.epsilon = units,
        Change::Delta(units) => stored.delta = units,
    }
    stored
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// What the kernel makes it reads again, also after any chain of changes of ε_g.
    #[test]
    fn honest_filters_are_read(from in ceilings(), chain in prop::collection::vec(1u64..30_000_000_000_000, 0..4)) {
        for rule in Rule::ADAPTIVE {
            let Some(mut filter) = Filter::new(rule, from) else { continue };
            prop_assert_eq!(Stored::of(&filter).read(), Some(filter.clone()));
            for &units in &chain {
                let to = Ceiling { epsilon: Epsilon::from_units(units).expect("ε"), ..from };
                filter = filter.with_ceiling(to).expect("the rule can be moved");
                prop_assert_eq!(Stored::of(&filter).read(), Some(filter.clone()));
            }
        }
    }

    /// Two forged fields: read if and only if the theorem holds for what they make.
    #[test]
    fn forged_pairs_are_read_only_where_the_theorem_holds(
        from in ceilings(), rule in 0usize..3, first in changes(), second in changes(),
    ) {
        let Some(filter) = Filter::new(Rule::ADAPTIVE[rule], from) else { return Ok(()) };
        let honest = Stored::of(&filter);
        let one = changed(honest, first);
        check(&one)?;
        check(&changed(one, second))?;
    }

    /// Rényi filters with any weights, made from the theorem: read as long as the shares fit into δ_r.
    #[test]
    fn other_weights_are_as_good(
        from in ceilings(), weights in prop::collection::vec((0u64..32, 1u32..1000), 1..6), scale in 0.1f64..3.0,
    ) {
        let half = (from.delta.units() / 2) as f64 / 1e18;
        let epsilon = from.epsilon.units() as f64 / UNITS;
        let total: f64 = weights.iter().map(|(_, weight)| f64::from(*weight)).sum();
        let mut caps: Vec<(Part, u64)> = weights.iter().map(|&(index, weight)| {
            let (order, share) = (ORDERS[index as usize], f64::from(weight) / total * scale * half);
            let below = ((1.0 - 1.0 / order).powf(order - 1.0) / order / share).ln() / (order - 1.0);
            let cap = ((epsilon - below).clamp(0.0, epsilon) * UNITS) as u64;
            (Part::Order(index), cap.min(from.epsilon.units()))
        }).collect();
        caps.sort_by_key(|(part, _)| if let Part::Order(index) = *part { index } else { 0 });
        let ordered = caps.windows(2).all(|pair| pair[0].0 != pair[1].0);
        let spendable = from.delta.units() - from.delta.units() / 2;
        caps.insert(0, (Part::Delta, spendable));
        caps.push((Part::Infinite, from.epsilon.units()));
        let stored = Stored { rule: 2, epsilon: from.epsilon.units(), delta: from.delta.units(), caps };
        if ordered {
            check(&stored)?;
        } else {
            prop_assert!(stored.read().is_none(), "an order twice: {:?}", stored);
        }
    }
}

/// The pairs that were believed before: a ρ without bound, caps at ε_g for every order, all of δ_g spendable beside
/// curves that need half of it.
#[test]
fn forgeries_that_were_believed_are_refused() {
    let small = ceiling("1", "1e-6");
    let strong = Stored::of(&Filter::new(Rule::Strong, small).expect("a filter"));
    let renyi = Stored::of(&Filter::new(Rule::Renyi, small).expect("a filter"));
    let mut forged = vec![changed(strong.clone(), Change::Cap(0, u64::MAX))];
    // Above ρ_g by more than the cap gives up.
    forged.push(changed(strong.clone(), Change::Raise(0, 1_100)));
    forged.push(changed(strong.clone(), Change::Cap(1, small.delta.units())));
    forged.push(changed(strong.clone(), Change::Raise(1, 1)));
    let last = renyi.caps.len() - 1;
    for at in 1..last {
        forged.push(changed(renyi.clone(), Change::Cap(at, renyi.epsilon)));
    }
    forged.push(changed(renyi.clone(), Change::Cap(0, small.delta.units())));
    forged.push(changed(renyi.clone(), Change::Raise(0, 1)));
    forged.push(changed(renyi.clone(), Change::Raise(last, 1)));
    let mut all = renyi.clone();
    all.caps[1..last].iter_mut().for_each(|(_, cap)| *cap = renyi.epsilon);
    forged.push(all);
    // Orders out of order, an order twice.
    let mut swapped = renyi.clone();
    swapped.caps.swap(1, 2);
    forged.push(swapped);
    let mut twice = renyi.clone();
    twice.caps.insert(1, renyi.caps[1]);
    forged.push(twice);
    for stored in &forged {
        assert!(stored.read().is_none(), "{stored:?}");
        // A log that begins like this is not opened.
        let mut log = MemoryLog::default();
        let mut record = Record::after(sage_kernel::Head::EMPTY, 0, &honest_event());
        record.body = stored.bytes();
        log.records.push(rehashed(record));
        assert!(Gate::open(log).is_err(), "{stored:?}");
    }
    for stored in [&strong, &renyi] {
        assert!(stored.read().is_some(), "{stored:?}");
    }
    // A smaller ceiling makes honest caps too large; a larger one leaves them valid.
    assert!(changed(strong.clone(), Change::Epsilon(999_000_000_000)).read().is_none());
    assert!(changed(strong, Change::Epsilon(1_100_000_000_000)).read().is_some());
    assert!(changed(renyi.clone(), Change::Epsilon(999_000_000_000)).read().is_none());
    assert!(changed(renyi, Change::Epsilon(1_100_000_000_000)).read().is_some());
}

fn honest_event() -> Event {
    let filter = Filter::new(Rule::Basic, ceiling("1", "1e-6")).expect("a filter");
    Event::StreamCreated { name: "s".into(), policy: Policy::single(filter, sage_kernel::AccessModes::EnforcedOnly) }
}

/// A record whose hash fits its body again: `docs/reference/log-format.md`.
fn rehashed(mut record: Record) -> Record {
    use sha2::{Digest, Sha256};
    let mut hasher = Sha256::new_with_prefix(b"sagelog1");
    hasher.update(record.number.to_le_bytes());
    hasher.update(record.time.to_le_bytes());
    hasher.update(record.previous);
    hasher.update(&record.body);
    record.hash = hasher.finalize().into();
    record
}

fn declared(blocks: &[(u32, u32)], epsilon: &str, times: u32) -> DeclaredQuery {
    DeclaredQuery {
        blocks: Blocks::from_ranges(blocks.iter().copied()).expect("blocks"),
        lane: Lane::Train,
        cost: Cost::pure(Epsilon::cost(epsilon).expect("ε")).expect("a cost"),
        times,
    }
}

/// The number of a fixed filter's uses stands in two fields, so that a forger changes both; the list is composed again
/// and found to be above the ceiling.
#[test]
fn a_forged_list_is_composed_again() {
    let filter = Filter::fixed(ceiling("1", "0"), vec![declared(&[(0, 0)], "0.1", 10)]).expect("within the ceiling");
    let policy = Policy::single(filter, sage_kernel::AccessModes::EnforcedOnly);
    let bytes = Event::StreamCreated { name: "s".into(), policy }.to_bytes();
    assert!(Event::from_bytes(&bytes).is_ok());
    let indices: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == 10).collect();
    let mut read = Vec::new();
    for times in 1..=127u8 {
        // Every pair of bytes that could be the two fields.
        for &one in &indices {
            for &other in &indices {
                let mut forged = bytes.clone();
                (forged[one], forged[other]) = (times, times);
                let Ok(Event::StreamCreated { policy, .. }) = Event::from_bytes(&forged) else { continue };
                let filter = &policy.contexts()[0].filter;
                assert_eq!(filter.caps(), [u64::from(filter.declared()[0].times)]);
                assert!(filter.caps()[0] <= 10, "{times} uses of 0.1 under a ceiling of 1");
                read.push(filter.caps()[0]);
            }
        }
    }
    assert!((1..=10).all(|times| read.contains(&times)), "fewer uses are read: {read:?}");
}

/// Declarations meet wherever any of their ranges do, not only where the first ones begin.
#[test]
fn declarations_meet_in_every_range() {
    let full = ceiling("1", "0");
    let above = Err(FixedError::AboveCeiling(Lane::Train));
    for (one, other, meets) in [
        (&[(0, 0)][..], &[(1, 1)][..], false),
        (&[(0, 0), (10, 12)], &[(11, 11)], true),
        (&[(0, 0), (10, 12)], &[(3, 4), (12, 20)], true),
        (&[(0, 0), (10, 12)], &[(3, 4), (13, 20)], false),
        (&[(0, 0), (5, 6), (10, 12)], &[(1, 1), (7, 7), (9, 10)], true),
        (&[(0, 100)], &[(100, 100)], true),
        (&[(0, 100)], &[(101, 101)], false),
    ] {
        for pair in [[one, other], [other, one]] {
            let list = pair.map(|blocks| declared(blocks, "0.6", 1)).to_vec();
            let made = Filter::fixed(full, list);
            assert_eq!(made.is_err(), meets, "{one:?} {other:?}");
            assert!(!meets || made.map(|_| ()) == above, "{one:?} {other:?}");
        }
    }
    // The same, against every block on its own.
    let sets = [&[(0, 1)][..], &[(1, 1), (3, 3)], &[(0, 0), (2, 3)], &[(2, 2)], &[(0, 3)]];
    for mask in 1u32..32 {
        let list: Vec<DeclaredQuery> = (0..5)
            .filter(|at| mask >> at & 1 == 1)
            .map(|at| declared(sets[at], ["0.3", "0.31", "0.32", "0.33", "0.34"][at], 1))
            .collect();
        let units = |at: usize| [30u32, 31, 32, 33, 34][at];
        let most = (0..4u32)
            .map(|block| {
                let here = (0..5).filter(|&at| mask >> at & 1 == 1);
                let here = here.filter(|&at| sets[at].iter().any(|&(first, last)| (first..=last).contains(&block)));
                here.map(units).sum::<u32>()
            })
            .max()
            .expect("four blocks");
        assert_eq!(Filter::fixed(full, list).is_ok(), most <= 100, "{mask:b}: {most}");
    }
}

fn price(rule: Rule, ceiling: Ceiling, parts: Vec<Mechanism>, delta: &str) -> Amounts {
    let cost = Cost::at_delta(parts, Delta::cost(delta).expect("δ")).expect("a cost");
    let filter = Filter::new(rule, ceiling).expect("a filter");
    filter.price(&cost, Lane::Train, &Blocks::range(0, 0).expect("a block")).expect("a price")
}

/// A black box that fails with a probability and is otherwise perfect costs its δ and nothing else. It was refused
/// under `strong`, and priced without bound at every order under `renyi`.
#[test]
fn a_black_box_without_epsilon_costs_its_delta() {
    let delta = Delta::cost("1e-8").expect("δ");
    let perfect = Mechanism::BlackBox { epsilon: Epsilon::ZERO, delta };
    let full = ceiling("1", "1e-6");
    for (rule, times) in [(Rule::Basic, 100), (Rule::Strong, 50), (Rule::Renyi, 50)] {
        let filter = Filter::new(rule, full).expect("a filter");
        let requested = price(rule, full, vec![perfect.clone()], "0");
        for (component, &units) in filter.components().iter().zip(requested.units()) {
            let expected = if *component == sage_kernel::Component::Delta { delta.units() } else { 0 };
            assert_eq!(units, expected, "{rule}: {component}");
        }
        let mut spent = vec![0u128; filter.caps().len()];
        let mut fits = 0;
        while filter.admits(&spent, &requested) {
            spent.iter_mut().zip(requested.units()).for_each(|(spent, &units)| *spent += u128::from(units));
            fits += 1;
        }
        assert_eq!(fits, times, "{rule}");
        // Beside something that has an ε it adds its δ alone.
        let pure = Mechanism::Pure { epsilon: Epsilon::cost("0.1").expect("ε") };
        let (one, both) =
            (price(rule, full, vec![pure.clone()], "0"), price(rule, full, vec![pure, perfect.clone()], "0"));
        let differ = one.units().iter().zip(both.units()).filter(|(one, both)| one != both).count();
        assert_eq!(differ, 1, "{rule}");
    }
    let one = |times| DeclaredQuery {
        blocks: Blocks::range(0, 0).expect("a block"),
        lane: Lane::Train,
        cost: Cost::new(vec![perfect.clone()]).expect("a cost"),
        times,
    };
    assert!(Filter::fixed(full, vec![one(100)]).is_ok());
    assert!(Filter::fixed(full, vec![one(101)]).is_err());
    // With queries that only optimal composition admits, what it fails with is taken out of δ_g first.
    let many =
        |times| DeclaredQuery {
            cost: Cost::pure(Epsilon::cost("0.01").expect("ε")).expect("a cost"), times, ..one(1)
        };
    assert!(Filter::fixed(full, vec![many(300)]).is_ok());
    assert!(Filter::fixed(full, vec![many(300), one(50)]).is_ok());
    assert!(Filter::fixed(full, vec![many(300), one(101)]).is_err());
}

/// Noise that is not ideal is paid for in a fixed list as well: 2^60 draws cost more δ than this ceiling has.
#[test]
fn a_fixed_list_pays_for_its_draws() {
    let one = |coordinates, times| {
        let sigma = sage_kernel::Sigma::cost("1000000").expect("σ");
        let cost = Cost::new(vec![Mechanism::Gaussian { sigma, coordinates, count: 1 }]).expect("a cost");
        DeclaredQuery { blocks: Blocks::range(0, 0).expect("a block"), lane: Lane::Train, cost, times }
    };
    let full = ceiling("1", "1e-6");
    assert!(Filter::fixed(full, vec![one(1, 1 << 20)]).is_ok());
    // 2^-40 · (1 + e^16) is 8·10^-6.
    assert!(Filter::fixed(full, vec![one(u32::MAX, 1 << 28)]).is_err());
    assert!(Filter::fixed(full, vec![one(1 << 31, 1 << 20)]).is_ok());
}

/// δ that curves set aside is taken from the request's δ in whole units. In floats 0.8 − (0.7 + 0.1) leaves 10⁻¹⁶, at
/// which two curves had a finite ε that nothing paid for.
#[test]
fn delta_is_set_aside_in_whole_units() {
    let curve = |delta: &str| {
        let some = Some(Epsilon::cost("0.001").expect("ε"));
        let delta = Delta::cost(delta).expect("δ");
        Mechanism::Curve(Box::new(sage_kernel::Curve {
            orders: [some; sage_kernel::ORDER_COUNT],
            infinite: None,
            delta,
        }))
    };
    let full = ceiling("1000000", "0.99");
    for (parts, delta, priced) in [
        (["0.7", "0.1"], "0.8", false),
        (["0.1", "0.2"], "0.3", false),
        (["0.7", "0.1"], "0.800000000000000001", true),
        (["0.7", "0.2"], "0.8", false),
        (["0.5", "0.25"], "0.75", false),
        (["0.1", "0.1"], "0.3", true),
    ] {
        let requested = price(Rule::Basic, full, parts.map(curve).to_vec(), delta);
        assert_eq!(requested.units()[0] < u64::MAX, priced, "{parts:?} of {delta}: {requested:?}");
        assert_eq!(requested.units()[1], Delta::cost(delta).expect("δ").units());
    }
}

fn amounts(filter: &Filter, part: Mechanism) -> Amounts {
    let cost = Cost::new(vec![part]).expect("a cost");
    filter.price(&cost, Lane::Train, &Blocks::range(0, 0).expect("a block")).expect("a price")
}

/// Every cap, every amount spent and every amount requested up to three units: admission is the comparison of sums, for
/// required numbers and for alternatives.
#[test]
fn admission_is_right_for_every_small_number() {
    let unit = |units| Epsilon::from_units(units).expect("ε");
    let chance = |units| Delta::from_units(units).expect("δ");
    let mut cases = 0;
    for (one, two) in (0..3).flat_map(|one| (0..3).map(move |two| (one, two))) {
        let caps = vec![(Part::Epsilon, one), (Part::Delta, two)];
        let filter = Stored { rule: 0, epsilon: 2, delta: 2, caps }.read().expect("within the ceiling");
        for (loss, mass) in (0..4).flat_map(|loss| (0..4).map(move |mass| (loss, mass))).skip(1) {
            let requested = amounts(&filter, Mechanism::BlackBox { epsilon: unit(loss), delta: chance(mass) });
            assert_eq!(requested.units(), [loss, mass]);
            for spent in (0..4u128).flat_map(|first| (0..4u128).map(move |second| [first, second])) {
                let fits =
                    spent[0] + u128::from(loss) <= u128::from(one) && spent[1] + u128::from(mass) <= u128::from(two);
                assert_eq!(filter.admits(&spent, &requested), fits, "{spent:?} {requested:?} of {one} {two}");
                cases += 1;
            }
        }
    }
    // δ is required; of the order 1024 and the order ∞ one is enough.
    let half = 1 << 58;
    for (own, infinite) in (0..4).flat_map(|own| (0..4).map(move |infinite| (own, infinite))) {
        let caps = vec![(Part::Delta, 2), (Part::Order(31), own), (Part::Infinite, infinite)];
        let filter = Stored { rule: 2, epsilon: 3, delta: 2 * half, caps }.read().expect("the theorem holds");
        for (loss, most, mass) in (0..4u64).flat_map(|loss| (0..4u64).map(move |most| (loss, most, 1 + loss % 2))) {
            let mut orders = [None; sage_kernel::ORDER_COUNT];
            orders[31] = (loss < 3).then(|| unit(loss));
            let infinite_bound = (most < 3).then(|| unit(most));
            let curve = sage_kernel::Curve { orders, infinite: infinite_bound, delta: chance(mass) };
            let requested = amounts(&filter, Mechanism::Curve(Box::new(curve)));
            for code in 0..64u128 {
                let spent = [code % 4, code / 4 % 4, code / 16];
                let within = |at: usize| spent[at] + u128::from(requested.units()[at]) <= u128::from(filter.caps()[at]);
                let fits = within(0) && (within(1) || within(2));
                assert_eq!(filter.admits(&spent, &requested), fits, "{spent:?} {requested:?} of {own} {infinite}");
                cases += 1;
            }
        }
    }
    assert!(cases > 15_000, "{cases}");
}

/// All sets of up to seven blocks: one form, one encoding, and the operations of sets.
#[test]
fn sets_of_blocks_are_sets() {
    let members = |mask: u32| (0..7u32).filter(move |block| mask >> block & 1 == 1);
    let set = |mask: u32| Blocks::from_ranges(members(mask).map(|block| (block, block))).expect("not empty");
    for one in 1..128u32 {
        let blocks = set(one);
        // From the other end, with every block twice, in pairs that overlap.
        let again =
            members(one).collect::<Vec<_>>().into_iter().rev().flat_map(|block| [(block, block), (block, block)]);
        assert_eq!(Blocks::from_ranges(again), Ok(blocks.clone()));
        let found: Vec<u32> = (0..9).filter(|&block| blocks.contains(sage_kernel::BlockId(block))).collect();
        assert!(found.into_iter().eq(members(one)));
        assert!(blocks.ranges().windows(2).all(|pair| pair[0].last().0 + 1 < pair[1].first().0));
        let event = Event::Retired { stream: sage_kernel::StreamId(0), blocks: blocks.clone() };
        assert_eq!(Event::from_bytes(&event.to_bytes()), Ok(event));
        for other in 1..128u32 {
            assert_eq!(blocks.union(&set(other)), set(one | other));
            let common = (one & other != 0).then(|| sage_kernel::BlockId((one & other).trailing_zeros()));
            assert_eq!(blocks.first_common(&set(other)), common, "{one:b} {other:b}");
        }
    }
}
