//! What the ledger books and reports, number by number.

use sage_kernel::{
    AccessModes, BlockId, Blocks, ChargeOutcome, Context, ContextId, Event, Gate, Lane, Mechanism, MemoryLog, Policy,
    Refusal, Request, Rule, Sigma, StreamId,
};

use super::{charge, filter, granted, pure, request};

fn contexts(joint: bool) -> Gate<MemoryLog> {
    let context = |name: &str| Context { name: name.to_owned(), filter: filter(Rule::Basic, "1", "1e-6") };
    let joint = joint.then(|| filter(Rule::Basic, "1.5", "1e-6"));
    let policy = Policy::with_contexts(vec![context("one"), context("two")], joint, AccessModes::EnforcedOnly);
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let stream = gate.create_stream(0, "rides", policy.expect("a policy")).expect("a stream");
    gate.add_blocks(0, stream, vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]).expect("blocks");
    gate
}

/// A charge in one context is booked there and in the joint book, on its own blocks and lane, and nowhere else.
#[test]
fn each_book_has_the_charges_of_its_contexts() {
    let mut gate = contexts(true);
    let in_context =
        |key, context, blocks| Request { context: ContextId(context), ..request(key, blocks, pure("0.25")) };
    let _one = granted(&mut gate, in_context("a", 0, (0, 1)));
    let _two = granted(&mut gate, in_context("b", 1, (1, 1)));
    let quarter = 250_000_000_000u128;
    let stream = gate.ledger().stream(StreamId(0)).expect("the stream");
    assert_eq!(stream.name(), "rides");
    for (block, own, other) in [(0, 1, 0), (1, 1, 1), (2, 0, 0)] {
        let spent = |context| stream.spent(ContextId(context), BlockId(block), Lane::Train).expect("a cell");
        assert_eq!((spent(0), spent(1)), (&[own * quarter, 0][..], &[other * quarter, 0][..]), "block {block}");
        let jointly = stream.spent_jointly(BlockId(block), Lane::Train).expect("a joint cell");
        assert_eq!(jointly, [(own + other) * quarter, 0], "block {block}");
        assert_eq!(stream.spent_jointly(BlockId(block), Lane::Test).expect("a joint cell"), [0, 0]);
    }
    assert_eq!(stream.spent(ContextId(2), BlockId(0), Lane::Train), None, "the joint book is no context");
    assert_eq!(stream.spent(ContextId(0), BlockId(3), Lane::Train), None);
    let apart = contexts(false);
    let apart = apart.ledger().stream(StreamId(0)).expect("the stream");
    assert_eq!(apart.spent_jointly(BlockId(0), Lane::Train), None);
    // The first context that does not exist is refused.
    match charge(&mut gate, in_context("c", 2, (0, 0))) {
        ChargeOutcome::Refused(Refusal::UnknownContext) => {}
        other => panic!("{other:?}"),
    }
}

/// A filter with more than two numbers: what is priced is booked, number by number, and given back.
#[test]
fn all_numbers_of_a_charge_are_booked() {
    let renyi = filter(Rule::Renyi, "8", "1e-6");
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let stream =
        gate.create_stream(0, "rides", Policy::single(renyi.clone(), AccessModes::EnforcedOnly)).expect("a stream");
    gate.add_blocks(0, stream, vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]).expect("blocks");
    let part = Mechanism::Gaussian { sigma: Sigma::cost("20").expect("σ"), coordinates: 1 << 20, count: 3 };
    let cost = sage_kernel::Cost::new(vec![part]).expect("a cost");
    let wanted = Blocks::range(1, 2).expect("blocks");
    let price = renyi.price(&cost, Lane::Train, &wanted).expect("a price");
    let price: Vec<u128> = price.units().iter().map(|&units| u128::from(units)).collect();
    assert!(price.len() > 2 && price.iter().all(|&units| units > 0));
    let grant = granted(&mut gate, request("a", (1, 2), cost));
    let spent = |gate: &Gate<MemoryLog>, block, lane| {
        let stream = gate.ledger().stream(StreamId(0)).expect("the stream");
        stream.spent(ContextId(0), BlockId(block), lane).expect("a cell").to_vec()
    };
    let nothing = vec![0; price.len()];
    assert_eq!([0, 1, 2].map(|block| spent(&gate, block, Lane::Train)), [nothing.clone(), price.clone(), price]);
    assert_eq!(spent(&gate, 1, Lane::Test), nothing);
    gate.cancel(2, grant).expect("it has not started");
    for block in [0, 1, 2] {
        assert_eq!(spent(&gate, block, Lane::Train), nothing, "block {block}");
    }
}

#[test]
fn exactly_the_retired_blocks_are_retired() {
    let mut gate = contexts(false);
    let retired = |gate: &Gate<MemoryLog>| {
        let stream = gate.ledger().stream(StreamId(0)).expect("the stream");
        [0, 1, 2].map(|block| stream.is_retired(BlockId(block)))
    };
    assert_eq!(retired(&gate), [false; 3]);
    gate.retire(1, StreamId(0), Blocks::range(1, 1).expect("a block")).expect("healthy");
    assert_eq!(retired(&gate), [false, true, false]);
}

/// Two ledgers are equal only with the same streams, grants and waiting charges.
#[test]
fn ledgers_differ_in_what_was_charged() {
    let (one, mut other) = (contexts(true), contexts(true));
    assert!(one.ledger() == other.ledger());
    let grant = granted(&mut other, request("a", (0, 0), pure("0.5")));
    assert!(one.ledger() != other.ledger());
    let charged = other.ledger().clone();
    other.cancel(1, grant).expect("it has not started");
    assert!(charged != *other.ledger() && one.ledger() != other.ledger());
}

/// Events follow each other: a number that a grant has is not given again.
#[test]
fn an_event_has_a_number_after_the_last_grant() {
    let mut gate = contexts(false);
    let last = granted(&mut gate, request("a", (0, 0), pure("0.5"))).id().0;
    let note = || Event::Note { kind: "test".to_owned(), body: Vec::new() };
    for (number, allowed) in [(last - 1, false), (last, false), (last + 1, true)] {
        let mut ledger = gate.ledger().clone();
        assert_eq!(ledger.apply(number, note()).is_ok(), allowed, "{number}");
    }
}

/// A log in which a key is charged twice is not replayed, although the second charge would fit.
#[test]
fn a_key_is_charged_once() {
    let mut gate = contexts(false);
    let last = granted(&mut gate, request("a", (0, 0), pure("0.1"))).id().0;
    let charged = |gate: &Gate<MemoryLog>| {
        let record = gate.log().records.last().expect("a record");
        Event::from_bytes(&record.body).expect("an event")
    };
    let event = charged(&gate);
    assert!(gate.ledger().clone().apply(last + 1, event).is_err(), "the same key");
    let before = gate.ledger().clone();
    let _grant = granted(&mut gate, request("b", (0, 0), pure("0.1")));
    assert!(before.clone().apply(last + 1, charged(&gate)).is_ok(), "another key");
}
