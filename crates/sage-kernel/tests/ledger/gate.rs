//! The gate and its log: the bytes written, the effects of a broken store, and the use of grants.

use std::cell::RefCell;
use std::rc::Rc;

use sage_kernel::{
    AccessMode, AccessModes, BlockId, Blocks, Ceiling, ChargeOutcome, Context, ContextId, Cost, Curve, DeclaredQuery,
    Delta, Epsilon, Event, Fault, FaultyLog, Filter, Gate, GateError, Grant, GrantState, Head, Lane, Log, LogError,
    Mechanism, ORDER_COUNT, Policy, PriceError, Rate, Record, Refusal, Request, RequestKey, Rule, Sigma, StreamId,
};

fn epsilon(text: &str) -> Epsilon {
    Epsilon::cost(text).expect("ε")
}

fn filter(rule: Rule, loss: &str, chance: &str) -> Filter {
    let ceiling = Ceiling { epsilon: Epsilon::ceiling(loss).expect("ε"), delta: Delta::ceiling(chance).expect("δ") };
    Filter::new(rule, ceiling).expect("a filter")
}

fn policy(rule: Rule, access_modes: AccessModes) -> Policy {
    Policy::single(filter(rule, "1", "1e-6"), access_modes)
}

fn request(key: &str, blocks: (u32, u32), loss: &str) -> Request {
    Request {
        key: RequestKey::from_text(key),
        stream: StreamId(0),
        context: ContextId(0),
        blocks: Blocks::range(blocks.0, blocks.1).expect("blocks"),
        costs: [Some(Cost::pure(epsilon(loss)).expect("a cost")), None],
        access: AccessMode::Enforced,
        purpose: "a test".to_owned(),
    }
}

fn days(count: u32) -> Vec<String> {
    (0..count).map(|day| format!("2026-11-{:02}", day + 1)).collect()
}

fn open(blocks: u32) -> Gate<FaultyLog> {
    let mut gate = Gate::open(FaultyLog::default()).expect("an empty log");
    let stream = gate.create_stream(0, "rides", policy(Rule::Basic, AccessModes::EnforcedOnly)).expect("a stream");
    gate.add_blocks(0, stream, days(blocks)).expect("blocks");
    gate
}

fn charge(gate: &mut Gate<impl Log>, request: Request) -> ChargeOutcome {
    gate.charge(7, vec![request]).expect("a healthy log").pop().expect("one outcome")
}

fn granted(gate: &mut Gate<impl Log>, request: Request) -> Grant {
    match charge(gate, request) {
        ChargeOutcome::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

/// One row: blocks, loss, and what the ledger says, in order, on three blocks with ε_g = 1.
#[test]
fn charges_are_all_or_nothing() {
    let mut gate = open(3);
    for (index, (blocks, loss, expected)) in [
        ((0, 1), "0.6", "granted"),
        ((1, 2), "0.5", "not enough left on block 1 (\"2026-11-02\"), train lane, context \"default\", rule basic: epsilon requested 0.5, spent 0, reserved 0.6, left 0.4"),
        ((2, 2), "1", "granted"),
        ((0, 0), "0.4", "granted"),
        ((0, 0), "0.000000000001", "not enough left on block 0"),
        ((1, 3), "0.1", "the stream has no block 3"),
        ((7, 9), "0.1", "the stream has no block 7"),
        ((1, 1), "1.000000000001", "requested 1.000000000001"),
    ]
    .into_iter()
    .enumerate()
    {
        let said = match charge(&mut gate, request(&index.to_string(), blocks, loss)) {
            ChargeOutcome::Granted(_) => "granted".to_owned(),
            ChargeOutcome::Refused(refusal) => refusal.to_string(),
            other => format!("{other:?}"),
        };
        assert!(said.contains(expected), "{blocks:?} {loss}: {said}");
    }
    let stream = gate.ledger().stream(StreamId(0)).expect("the stream");
    let spent = |block| stream.spent(ContextId(0), BlockId(block), Lane::Train).expect("a cell")[0];
    assert_eq!([spent(0), spent(1), spent(2)], [1_000_000_000_000, 600_000_000_000, 1_000_000_000_000]);
}

#[test]
fn every_refusal_has_its_reason_in_a_fixed_order() {
    let mut gate = open(2);
    let first = request("first", (0, 0), "0.1");
    let _grant = granted(&mut gate, first.clone());
    gate.retire(1, StreamId(0), Blocks::range(1, 1).expect("a block")).expect("healthy");
    let declared = AccessMode::Attested { author: "someone".into(), reason: "argued elsewhere".into() };
    let black_box = Cost::new(vec![Mechanism::BlackBox { epsilon: epsilon("0.1"), delta: Delta::ZERO }]);
    let gaussian =
        Cost::new(vec![Mechanism::Gaussian { sigma: Sigma::cost("9").expect("σ"), coordinates: 1, count: 1 }]);
    let cases: Vec<(Request, &str)> = vec![
        (Request { purpose: "another".into(), ..first.clone() }, "another request"),
        (Request { stream: StreamId(9), ..request("a", (0, 9), "9") }, "no such stream"),
        (Request { context: ContextId(9), ..request("b", (0, 9), "9") }, "no such context"),
        (Request { costs: [None, None], ..request("c", (0, 9), "9") }, "no cost"),
        (Request { access: declared, ..request("d", (0, 9), "9") }, "only enforced mechanisms"),
        (Request { costs: [None, black_box.ok()], ..request("e", (0, 9), "9") }, "test lane's cost contains"),
        (request("f", (0, 2), "9"), "no block 2"),
        (request("g", (0, 1), "9"), "block 1 is retired"),
        (Request { costs: [gaussian.ok(), None], ..request("h", (0, 0), "9") }, "has no price"),
        (request("i", (0, 0), "9"), "not enough left"),
    ];
    let length = gate.head().length;
    for (request, expected) in cases {
        match charge(&mut gate, request) {
            ChargeOutcome::Refused(refusal) => {
                assert!(refusal.to_string().contains(expected), "{refusal} / {expected}")
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
    assert_eq!(gate.head().length, length, "a refusal writes nothing");
    assert!(matches!(charge(&mut gate, first), ChargeOutcome::Repeated(_, GrantState::Charged, Some(_))));
    let unpriced = Refusal::Unpriced(Lane::Test, PriceError::NeedsDelta);
    assert!(unpriced.to_string().contains("test lane"));
}

#[test]
fn a_grant_starts_once_and_ends_once() {
    let mut gate = open(1);
    let grant = granted(&mut gate, request("a", (0, 0), "0.5"));
    let id = grant.id();
    let ChargeOutcome::Repeated(_, GrantState::Charged, Some(again)) = charge(&mut gate, request("a", (0, 0), "0.5"))
    else {
        panic!("the same request has the same outcome");
    };
    let permit = gate.start(1, grant).expect("a first start");
    assert!(permit.covers(StreamId(0), BlockId(0), Lane::Train));
    assert!(!permit.covers(StreamId(0), BlockId(0), Lane::Test), "a lane that was not charged");
    assert!(!permit.covers(StreamId(0), BlockId(1), Lane::Train));
    assert!(!permit.covers(StreamId(1), BlockId(0), Lane::Train));
    assert_eq!((permit.grant(), permit.stream(), permit.blocks().to_string().as_str()), (id, StreamId(0), "0"));
    assert!(gate.cancel(2, again).is_err(), "no refund once a byte could have been read");
    assert_eq!(gate.ledger().running().collect::<Vec<_>>(), [id]);
    gate.burn(3, id).expect("a running grant");
    assert_eq!(gate.burn(3, id), Err(GateError::NotAllowed));
    assert_eq!(gate.ledger().grant_state(id), Some(GrantState::Burnt));
    // Burnt is spent: only a half is left.
    assert!(matches!(charge(&mut gate, request("b", (0, 0), "0.6")), ChargeOutcome::Refused(_)));
    let other = granted(&mut gate, request("c", (0, 0), "0.5"));
    gate.cancel(4, other).expect("not started");
    let _third = granted(&mut gate, request("d", (0, 0), "0.5"));
    assert!(matches!(
        charge(&mut gate, request("c", (0, 0), "0.5")),
        ChargeOutcome::Repeated(_, GrantState::Cancelled, None)
    ));
}

/// A store that gives another record than it was given, for one number.
struct Lying(FaultyLog, Option<(u64, Vec<Record>)>);

impl Log for Lying {
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError> {
        match &self.1 {
            Some((number, returned)) if (*number, 1) == (from, limit) => Ok(returned.clone()),
            _ => self.0.read(from, limit),
        }
    }

    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError> {
        self.0.append(expected, records)
    }
}

/// What a grant was charged for is kept while it waits; later it is looked up in the log. A store that lies
/// there changes a word of the answer and nothing else.
#[test]
fn a_known_key_hands_out_nothing_whatever_the_store_says() {
    let (requested, other) = (request("a", (0, 0), "0.5"), request("b", (0, 0), "0.1"));
    let changed = Request { purpose: "another".into(), ..requested.clone() };
    let records = |gate: Gate<FaultyLog>| gate.into_log().records().to_vec();
    for end in ["started", "cancelled", "burnt"] {
        let mut gate = open(1);
        let grant = granted(&mut gate, requested.clone());
        let id = grant.id();
        let _other = granted(&mut gate, other.clone());
        match end {
            "cancelled" => gate.cancel(1, grant).expect("not started"),
            _ => drop(gate.start(1, grant).expect("not started")),
        }
        if end == "burnt" {
            gate.burn(2, id).expect("a running grant");
        }
        let state = gate.ledger().grant_state(id).expect("a grant");
        assert_eq!(charge(&mut gate, requested.clone()), ChargeOutcome::Repeated(id, state, None), "{end}");
        assert_eq!(charge(&mut gate, changed.clone()), ChargeOutcome::Refused(Refusal::KeyReused(id)), "{end}");
        let held = records(gate);
        let forged = |request: &Request| {
            let Ok(Event::Charged(mut charge)) = Event::from_bytes(&held[id.0 as usize].body) else {
                panic!("a charge")
            };
            charge.request = request.clone();
            vec![Record::after(Head::EMPTY, 0, &Event::Charged(charge))]
        };
        let mut malformed = forged(&requested);
        malformed[0].body.clear();
        for returned in [forged(&requested), forged(&changed), vec![], malformed, vec![held[0].clone()], held.clone()] {
            let mut gate = Gate::open(Lying(FaultyLog::with_records(held.clone()), None)).expect("a sound log");
            let (before, head) = (gate.ledger().clone(), gate.head());
            let mut log = gate.into_log();
            log.1 = Some((id.0, returned));
            gate = Gate::open(log).expect("it lies to one question alone");
            for wanted in [&requested, &changed] {
                let outcome = charge(&mut gate, wanted.clone());
                let harmless =
                    [ChargeOutcome::Repeated(id, state, None), ChargeOutcome::Refused(Refusal::KeyReused(id))];
                assert!(harmless.contains(&outcome), "{end}: {outcome:?}");
            }
            assert_eq!((gate.ledger(), gate.head()), (&before, head), "{end}: nothing is written or spent");
        }
    }
}

/// A store that others write to as well.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<FaultyLog>>);

impl Log for Shared {
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError> {
        self.0.borrow().read(from, limit)
    }

    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError> {
        self.0.borrow_mut().append(expected, records)
    }
}

/// Three writers on one log, none of which has seen what the others did: never more than fits.
#[test]
fn writers_that_lose_the_race_decide_again() {
    let log = Shared::default();
    let mut gates: Vec<Gate<Shared>> = (0..3).map(|_| Gate::open(log.clone()).expect("a log")).collect();
    let stream = gates[0].create_stream(0, "rides", policy(Rule::Basic, AccessModes::EnforcedOnly)).expect("a stream");
    gates[1].add_blocks(0, stream, days(2)).expect("the stream is seen after the lost race");
    assert!(
        gates[2].create_stream(0, "rides", policy(Rule::Basic, AccessModes::EnforcedOnly)).is_err(),
        "the name is taken"
    );
    let mut taken = 0;
    for round in 0..40 {
        let gate = &mut gates[round % 3];
        let wanted = vec![
            request(&format!("{round} a"), (0, 1), "0.05"),
            request(&format!("{round} a"), (0, 1), "0.05"),
            request(&format!("{round} b"), (5, 5), "0.05"),
        ];
        let outcomes = gate.charge(1, wanted).expect("healthy");
        assert_eq!(outcomes.len(), 3);
        assert_eq!(
            matches!(outcomes[0], ChargeOutcome::Granted(_)),
            matches!(outcomes[1], ChargeOutcome::Repeated(..))
        );
        assert!(matches!(outcomes[2], ChargeOutcome::Refused(_)));
        taken += usize::from(matches!(outcomes[0], ChargeOutcome::Granted(_)));
    }
    assert_eq!(taken, 20, "twenty twentieths, by either writer");
    let mut late = Gate::open(log).expect("a log");
    gates[1].refresh().expect("healthy");
    assert_eq!(late.ledger(), gates[1].ledger());
    // A grant of one writer can be started by one of them, once.
    let id = late.ledger().waiting().next().expect("a waiting grant");
    let key = late.ledger().charge(id).expect("a charge").request.clone();
    let grants: Vec<Grant> = gates
        .iter_mut()
        .chain([&mut late])
        .map(|gate| match charge(gate, key.clone()) {
            ChargeOutcome::Repeated(_, GrantState::Charged, Some(grant)) => grant,
            other => panic!("{other:?}"),
        })
        .collect();
    let started = gates.iter_mut().chain([&mut late]).zip(grants).filter_map(|(gate, grant)| gate.start(1, grant).ok());
    assert_eq!(started.count(), 1);
}

/// Every append of a small workload fails in every way; whatever was handed out is in the log.
#[test]
fn a_fault_at_any_write_loses_nothing_that_was_handed_out() {
    let script = |gate: &mut Gate<FaultyLog>, handed: &mut Vec<u64>| -> Result<(), GateError> {
        if gate.ledger().stream_named("rides").is_none() {
            gate.create_stream(0, "rides", policy(Rule::Renyi, AccessModes::EnforcedOnly))?;
        }
        if gate.ledger().stream(StreamId(0)).is_some_and(|stream| stream.block_keys().is_empty()) {
            gate.add_blocks(0, StreamId(0), days(5))?;
        }
        for turn in 0..8u32 {
            let wanted = request(&format!("turn {turn}"), (turn % 3, turn % 3 + 2), "0.2");
            match gate.charge(1, vec![wanted])?.pop() {
                Some(ChargeOutcome::Granted(grant) | ChargeOutcome::Repeated(_, _, Some(grant))) => {
                    handed.push(grant.id().0);
                    if turn % 2 == 0 {
                        let permit = gate.start(2, grant)?;
                        gate.burn(3, permit.grant())?;
                    } else if turn % 3 == 0 {
                        gate.cancel(2, grant)?;
                    }
                }
                Some(ChargeOutcome::Repeated(..) | ChargeOutcome::Refused(_)) => {}
                None => panic!("one request, one outcome"),
            }
        }
        gate.retire(4, StreamId(0), Blocks::range(0, 0).expect("a block"))?;
        gate.note(5, "done", vec![1, 2, 3])
    };
    let mut whole = Gate::open(FaultyLog::default()).expect("an empty log");
    script(&mut whole, &mut Vec::new()).expect("no fault");
    let appends = whole.log().records().len() as u64;
    let mut closed = 0;
    for fault in [Fault::Refuse, Fault::LoseBefore, Fault::LoseAfter, Fault::Misreport] {
        for at in 0..appends {
            let mut log = FaultyLog::default();
            log.fail_at(at, fault);
            let mut gate = Gate::open(log).expect("an empty log");
            let mut handed = Vec::new();
            assert!(matches!(script(&mut gate, &mut handed), Err(GateError::Log(_))), "{fault:?} at {at}");
            assert_eq!(gate.note(9, "after", vec![]), Err(GateError::Closed), "fail-stop");
            closed += 1;
            // The process dies; another one opens what is there and does the same again.
            let records = gate.into_log().records().to_vec();
            let mut again = Gate::open(FaultyLog::with_records(records)).expect("a sound log");
            for id in &handed {
                assert!(
                    again.ledger().grant_state(sage_kernel::GrantId(*id)).is_some(),
                    "{fault:?} at {at}: lost {id}"
                );
            }
            let running: Vec<_> = again.ledger().running().collect();
            running.into_iter().for_each(|grant| again.burn(8, grant).expect("a running grant"));
            script(&mut again, &mut Vec::new()).expect("no second fault");
            let totals = |gate: &Gate<FaultyLog>| {
                let stream = gate.ledger().stream(StreamId(0)).expect("the stream");
                (0..5)
                    .map(|block| stream.spent(ContextId(0), BlockId(block), Lane::Train).map(<[u128]>::to_vec))
                    .collect::<Vec<_>>()
            };
            assert_eq!(totals(&again), totals(&whole), "{fault:?} at {at}: the same requests, the same budget");
        }
    }
    assert_eq!(closed, 4 * appends);
}

/// One event of every kind, with every kind of mechanism, filter and access mode.
fn every_event() -> Vec<Event> {
    let pure = Cost::pure(epsilon("0.1")).expect("a cost");
    let curve = Curve {
        orders: std::array::from_fn(|index| (index % 3 != 0).then(|| Epsilon::from_units(index as u64).expect("ε"))),
        infinite: None,
        delta: Delta::cost("1e-9").expect("δ"),
    };
    assert_eq!(curve.orders.len(), ORDER_COUNT);
    let all = Cost::at_delta(
        vec![
            Mechanism::Pure { epsilon: epsilon("0.1") },
            Mechanism::Laplace { epsilon: epsilon("0.01"), count: 3 },
            Mechanism::Gaussian { sigma: Sigma::cost("50").expect("σ"), coordinates: 61, count: 2 },
            Mechanism::SampledGaussian {
                rate: Rate::cost("0.01").expect("q"),
                sigma: Sigma::cost("1.5").expect("σ"),
                coordinates: 806_701,
                steps: 15_000,
            },
            Mechanism::Zcdp { rho: epsilon("0.02") },
            Mechanism::Curve(Box::new(curve)),
            Mechanism::BlackBox { epsilon: Epsilon::ZERO, delta: Delta::cost("1e-7").expect("δ") },
        ],
        Delta::cost("1e-9").expect("δ"),
    )
    .expect("a cost");
    let small = Ceiling { epsilon: epsilon("1"), delta: Delta::cost("1e-6").expect("δ") };
    let declared = Blocks::range(0, 4).expect("blocks");
    let declared = DeclaredQuery { blocks: declared, lane: Lane::Test, cost: pure.clone(), times: 3 };
    let fixed = Filter::fixed(small, vec![declared]).expect("a filter");
    let contexts: Vec<Context> = Rule::ADAPTIVE
        .iter()
        .map(|&rule| Context { name: rule.to_string(), filter: Filter::new(rule, small).expect("a filter") })
        .chain([Context { name: "fixed".into(), filter: fixed }])
        .collect();
    let policy = Policy::with_contexts(contexts, Some(filter(Rule::Basic, "2", "2e-6")), AccessModes::AttestedToo);
    let blocks = Blocks::from_ranges([(0, 3), (9, 9), (300, 40_000)]).expect("blocks");
    let requested = Request {
        key: RequestKey::from_text("golden"),
        stream: StreamId(0),
        context: ContextId(2),
        blocks: blocks.clone(),
        costs: [Some(all), Some(pure)],
        access: AccessMode::Attested { author: "an author".into(), reason: "a reason".into() },
        purpose: "every kind of mechanism".into(),
    };
    let amounts = [vec![amounts("0.1"), amounts("1000000")], vec![amounts("1e-12")]];
    vec![
        Event::StreamCreated { name: "rides".into(), policy: policy.expect("a policy") },
        Event::BlocksAdded { stream: StreamId(0), keys: days(3) },
        Event::Charged(Box::new(sage_kernel::Charge { request: requested, amounts })),
        Event::Started { grant: sage_kernel::GrantId(2) },
        Event::Cancelled { grant: sage_kernel::GrantId(300) },
        Event::Released { grant: sage_kernel::GrantId(u64::MAX), digest: [7; 32] },
        Event::Burnt { grant: sage_kernel::GrantId(0) },
        Event::Retired { stream: StreamId(3), blocks },
        Event::Note { kind: "submitted".into(), body: vec![0, 1, 255] },
        Event::PolicyChanged {
            stream: StreamId(1),
            policy: Policy::single(filter(Rule::Strong, "2", "1e-6"), AccessModes::EnforcedOnly),
            approvals: vec!["an officer".into(), "another".into()],
        },
        Event::Snapshot { digest: [9; 32] },
    ]
}

/// Amounts are made by pricing alone; the basic rule prices a pure loss as it stands.
fn amounts(loss: &str) -> sage_kernel::Amounts {
    let cost = Cost::pure(epsilon(loss)).expect("a cost");
    let blocks = Blocks::range(0, 0).expect("a block");
    filter(Rule::Basic, "1", "0").price(&cost, Lane::Train, &blocks).expect("a price")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of format 1, kept for ever. `SAGE_GOLDEN=write` renews the file; read the difference.
#[test]
fn bytes_are_those_of_the_golden_file() {
    let mut head = Head::EMPTY;
    let mut text = String::new();
    for (index, event) in every_event().iter().enumerate() {
        let record = Record::after(head, 1_700_000_000_000 + index as u64, event);
        head = record.head();
        text.push_str(&format!("{} {} {}\n", record.time, hex(&record.body), hex(&head.hash)));
        assert_eq!(Event::from_bytes(&record.body).as_ref(), Ok(event));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/format-1.txt");
    if std::env::var_os("SAGE_GOLDEN").is_some() {
        std::fs::write(path, &text).expect("a file to write");
    }
    assert_eq!(std::fs::read_to_string(path).expect("the golden file"), text);
}

/// No byte string is read as an event unless it is exactly what that event is written as.
#[test]
fn only_canonical_bytes_are_read() {
    for event in every_event() {
        let bytes = event.to_bytes();
        for cut in 0..bytes.len() {
            assert!(Event::from_bytes(&bytes[..cut]).is_err(), "a prefix is no event");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Event::from_bytes(&longer).is_err());
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[index] ^= 1 << bit;
                if let Ok(other) = Event::from_bytes(&flipped) {
                    assert_eq!(other.to_bytes(), flipped, "one event, one encoding");
                    assert_ne!(other, event);
                }
            }
        }
    }
}

/// Flip any bit, drop, swap or repeat any record: found before the state is used.
#[test]
fn any_change_of_the_log_is_found() {
    let mut gate = open(4);
    for turn in 0..12u32 {
        let grant = granted(&mut gate, request(&turn.to_string(), (turn % 4, turn % 4), "0.1"));
        match turn % 3 {
            0 => drop(gate.start(1, grant)),
            1 => gate.cancel(1, grant).expect("not started"),
            _ => {}
        }
    }
    let head = gate.head();
    let records = gate.into_log().records().to_vec();
    let sound =
        |records: Vec<Record>| Gate::open(FaultyLog::with_records(records)).is_ok_and(|gate| gate.head() == head);
    assert!(sound(records.clone()));
    for index in 0..records.len() {
        for byte in 0..records[index].body.len() {
            for bit in 0..8 {
                let mut changed = records.clone();
                changed[index].body[byte] ^= 1 << bit;
                assert!(!sound(changed), "record {index}, byte {byte}");
            }
        }
        for field in 0..4 {
            let mut changed = records.clone();
            match field {
                0 => changed[index].time ^= 1,
                1 => changed[index].number ^= 1,
                2 => changed[index].hash[31] ^= 128,
                _ => changed[index].previous[9] ^= 4,
            }
            assert!(!sound(changed), "record {index}, field {field}");
        }
        let mut dropped = records.clone();
        dropped.remove(index);
        assert!(!sound(dropped));
        let mut repeated = records.clone();
        repeated.insert(index, records[index].clone());
        assert!(!sound(repeated));
        let mut swapped = records.clone();
        swapped.swap(index, (index + 1) % records.len());
        assert!(!sound(swapped));
        // A cut tail is a sound, older log: only a head that was kept elsewhere shows it.
        let cut = Gate::open(FaultyLog::with_records(records[..index].to_vec())).expect("a sound prefix");
        assert_ne!(cut.head(), head);
    }
}

/// A chain that is sound but was not written by the rules opens nothing.
#[test]
fn a_log_that_breaks_the_rules_is_refused() {
    let over = |mut requested: Request, loss: &str| {
        requested.costs = [Some(Cost::pure(epsilon(loss)).expect("a cost")), None];
        let filter = filter(Rule::Basic, "1", "1e-6");
        let cost = requested.costs[0].clone().expect("a cost");
        let amounts = filter.price(&cost, Lane::Train, &requested.blocks).expect("a price");
        Event::Charged(Box::new(sage_kernel::Charge { request: requested, amounts: [vec![amounts], vec![]] }))
    };
    let unpaid = |requested: Request| {
        Event::Charged(Box::new(sage_kernel::Charge { request: requested, amounts: [vec![], vec![]] }))
    };
    let forged: Vec<Event> = vec![
        over(request("x", (0, 0), "1"), "1.1"),
        over(request("x", (0, 7), "1"), "0.1"),
        unpaid(request("x", (0, 0), "0.1")),
        Event::Started { grant: sage_kernel::GrantId(0) },
        Event::Cancelled { grant: sage_kernel::GrantId(99) },
        Event::Released { grant: sage_kernel::GrantId(2), digest: [0; 32] },
        Event::Burnt { grant: sage_kernel::GrantId(2) },
        Event::StreamCreated { name: "rides".into(), policy: policy(Rule::Basic, AccessModes::EnforcedOnly) },
        Event::BlocksAdded { stream: StreamId(8), keys: days(1) },
        Event::Retired { stream: StreamId(0), blocks: Blocks::range(0, 2).expect("blocks") },
    ];
    for event in forged {
        let mut gate = open(2);
        let _grant = granted(&mut gate, request("a", (0, 1), "0.1"));
        let head = gate.head();
        let mut records = gate.into_log().records().to_vec();
        records.push(Record::after(head, 9, &event));
        let error = Gate::open(FaultyLog::with_records(records)).err();
        assert!(matches!(error, Some(GateError::Ledger(_))), "{event:?}: {error:?}");
        assert!(error.is_some_and(|error| error.to_string().contains("event 3")));
    }
}

/// Which policies may follow which, and how many people it takes.
#[test]
fn policies_change_within_their_rules() {
    let one = |filter: Filter, access_modes| Policy::single(filter, access_modes);
    let (closed, open) = (AccessModes::EnforcedOnly, AccessModes::AttestedToo);
    let under = |rule, loss: &str, chance: &str| {
        let ceiling = Ceiling { epsilon: epsilon(loss), delta: Delta::ceiling(chance).expect("δ") };
        filter(rule, "1", "1e-6").with_ceiling(ceiling)
    };
    let named = |name: &str| Context { name: name.into(), filter: filter(Rule::Basic, "1", "1e-6") };
    let many = |names: &[&str], joint: Option<Filter>| {
        Policy::with_contexts(names.iter().map(|name| named(name)).collect(), joint, closed).expect("a policy")
    };
    let basic = || one(filter(Rule::Basic, "1", "1e-6"), closed);
    let joint = || Some(filter(Rule::Basic, "2", "2e-6"));
    let mut cases = vec![
        ("the same", basic(), basic(), Some(1)),
        ("more ε", basic(), one(filter(Rule::Basic, "1.1", "1e-6"), closed), Some(2)),
        ("more δ, less ε", basic(), one(filter(Rule::Basic, "0.1", "2e-6"), closed), Some(2)),
        ("less", basic(), one(filter(Rule::Basic, "0.9", "1e-7"), closed), Some(1)),
        ("attested mode admitted", basic(), one(filter(Rule::Basic, "0.9", "1e-7"), open), Some(2)),
        ("attested mode withdrawn", one(filter(Rule::Basic, "1", "1e-6"), open), basic(), Some(1)),
        ("another rule", basic(), one(filter(Rule::Strong, "1", "1e-6"), closed), None),
        ("above what deviations were priced at", basic(), one(filter(Rule::Basic, "17", "1e-6"), closed), None),
        ("a name", many(&["a", "b"], None), many(&["a", "c"], None), None),
        ("an order", many(&["a", "b"], None), many(&["b", "a"], None), None),
        ("a context more", many(&["a"], None), many(&["a", "b"], None), None),
        ("a joint ceiling", many(&["a"], None), many(&["a"], joint()), None),
        ("no joint ceiling", many(&["a"], joint()), many(&["a"], None), None),
        ("less jointly", many(&["a"], joint()), many(&["a"], under(Rule::Basic, "0.5", "1e-6")), Some(1)),
        // Caps made for another ε_g have other weights: only those that moved along may follow.
        ("weights", one(filter(Rule::Renyi, "1", "1e-6"), closed), one(filter(Rule::Renyi, "2", "1e-6"), closed), None),
    ];
    for (loss, needed) in [("0.5", 1), ("0.01", 1), ("2", 2), ("16", 2)] {
        for rule in Rule::ADAPTIVE {
            let after = one(under(rule, loss, "1e-6").expect("a filter"), closed);
            cases.push(("moved along", one(filter(rule, "1", "1e-6"), closed), after, Some(needed)));
        }
    }
    assert_eq!(under(Rule::Renyi, "1", "2e-6"), None, "weights belong to one δ");
    assert_eq!(under(Rule::Basic, "0", "1e-6"), None);
    for (what, before, after, needed) in cases {
        assert_eq!(before.approvals_to_become(&after), needed, "{what}");
        let mut gate = Gate::open(FaultyLog::default()).expect("an empty log");
        let stream = gate.create_stream(0, "rides", before.clone()).expect("a stream");
        for (approvals, count) in [(vec![], 0), (vec!["a"], 1), (vec!["a", "a"], 1), (vec!["a", "b"], 2)] {
            let approvals: Vec<String> = approvals.into_iter().map(str::to_owned).collect();
            let allowed = needed.is_some_and(|needed| count >= needed);
            let done = gate.change_policy(1, stream, after.clone(), approvals.clone());
            assert_eq!(done, if allowed { Ok(()) } else { Err(GateError::NotAllowed) }, "{what}, {count}");
            // The same written into a log by hand: replay refuses it too.
            let mut log = Gate::open(FaultyLog::default()).expect("an empty log");
            log.create_stream(0, "rides", before.clone()).expect("a stream");
            let head = log.head();
            let mut records = log.into_log().records().to_vec();
            records.push(Record::after(head, 1, &Event::PolicyChanged { stream, policy: after.clone(), approvals }));
            assert_eq!(Gate::open(FaultyLog::with_records(records)).is_ok(), allowed, "{what}, {count}, replayed");
            if allowed {
                break;
            }
        }
    }
    assert!(open_stream_of_none().is_err());
}

fn open_stream_of_none() -> Result<(), GateError> {
    let mut gate = open(1);
    gate.change_policy(1, StreamId(7), policy(Rule::Basic, AccessModes::EnforcedOnly), vec!["a".into(), "b".into()])
}

/// The orders of a moved filter are those of the first one with ε_g moved; one that came down to nothing
/// does not come back with a larger ε_g.
#[test]
fn a_moved_renyi_filter_promises_no_more() {
    let first = filter(Rule::Renyi, "1", "1e-6");
    let at = |loss: &str| Ceiling { epsilon: epsilon(loss), ..first.ceiling() };
    assert_eq!(first.with_ceiling(first.ceiling()).as_ref(), Some(&first));
    let low = first.with_ceiling(at("0.3")).expect("a filter");
    let back = low.with_ceiling(first.ceiling()).expect("a filter");
    assert!(low.caps()[1..].contains(&0), "some order has no slack at 0.3");
    for (index, (&cap, &own)) in back.caps().iter().zip(first.caps()).enumerate() {
        assert_eq!(cap, if low.caps()[index] == 0 { 0 } else { own }, "{index}");
    }
    // Where the weights happen to agree, moving gives what a new filter would have.
    let near = filter(Rule::Renyi, "1.000001", "1e-6");
    let moved = first.with_ceiling(near.ceiling()).expect("a filter");
    assert_eq!(near.components(), moved.components());
    for (&moved, &new) in moved.caps().iter().zip(near.caps()) {
        assert!(moved.abs_diff(new) <= 1, "{moved} {new}");
    }
}

/// What was spent stays spent, what waits keeps its charge, and a withdrawn access mode stops it.
#[test]
fn a_change_of_policy_forgets_nothing() {
    let two = || vec!["an officer".to_owned(), "another".to_owned()];
    let mut gate = Gate::open(FaultyLog::default()).expect("an empty log");
    let stream = gate.create_stream(0, "rides", policy(Rule::Basic, AccessModes::AttestedToo)).expect("a stream");
    gate.add_blocks(0, stream, days(2)).expect("blocks");
    let declared = AccessMode::Attested { author: "someone".into(), reason: "argued elsewhere".into() };
    let waiting = granted(&mut gate, request("waits", (0, 0), "0.6"));
    let vouched = granted(&mut gate, Request { access: declared, ..request("vouched", (0, 0), "0.3") });
    gate.retire(1, stream, Blocks::range(1, 1).expect("a block")).expect("a block");
    let tight = Policy::single(filter(Rule::Basic, "0.5", "1e-6"), AccessModes::EnforcedOnly);
    gate.change_policy(2, stream, tight, vec!["an officer".into()]).expect("tighter");
    for (key, loss) in [("b", "0.1"), ("c", "0.000000000001")] {
        match charge(&mut gate, request(key, (0, 0), loss)) {
            ChargeOutcome::Refused(refusal) => {
                assert!(refusal.to_string().contains("reserved 0.9, left 0"), "{refusal}")
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(gate.start(3, vouched), Err(GateError::NotAllowed)), "the access mode was withdrawn");
    let ChargeOutcome::Repeated(_, _, Some(vouched)) = charge(
        &mut gate,
        Request {
            access: AccessMode::Attested { author: "someone".into(), reason: "argued elsewhere".into() },
            ..request("vouched", (0, 0), "0.3")
        },
    ) else {
        panic!("it still waits")
    };
    gate.cancel(3, vouched).expect("it can be taken back");
    drop(gate.start(3, waiting).expect("its charge was counted all along"));
    let loose = Policy::single(filter(Rule::Basic, "2", "1e-6"), AccessModes::EnforcedOnly);
    assert!(gate.change_policy(4, stream, loose.clone(), vec!["an officer".into(); 2]).is_err());
    gate.change_policy(4, stream, loose, two()).expect("two people");
    let _rest = granted(&mut gate, request("d", (0, 0), "1.4"));
    assert!(matches!(charge(&mut gate, request("e", (0, 0), "0.1")), ChargeOutcome::Refused(_)));
    let retired = charge(&mut gate, request("f", (1, 1), "0.1"));
    assert_eq!(retired, ChargeOutcome::Refused(Refusal::RetiredBlock(BlockId(1))), "retired is retired");
    let again = Gate::open(FaultyLog::with_records(gate.log().records().to_vec())).expect("a sound log");
    assert_eq!(again.ledger(), gate.ledger());
}

/// A log with every state a grant can have, two streams, retired blocks, and a snapshot of it.
fn with_snapshot() -> (Vec<Record>, Vec<u8>) {
    let mut gate = open(3);
    let joint = Policy::with_contexts(
        vec![Context { name: "one".into(), filter: filter(Rule::Renyi, "1", "1e-6") }],
        Some(filter(Rule::Strong, "2", "1e-6")),
        AccessModes::EnforcedOnly,
    );
    let other = gate.create_stream(1, "other", joint.expect("a policy")).expect("a stream");
    gate.add_blocks(1, other, days(2)).expect("blocks");
    for turn in 0..5 {
        let stream = StreamId(turn % 2);
        let requested = Request { stream, ..request(&format!("turn {turn}"), (0, turn % 2), "0.01") };
        let grant = granted(&mut gate, requested);
        let id = grant.id();
        match turn {
            0 => drop(gate.start(2, grant).expect("a start")),
            1 => gate.cancel(2, grant).expect("not started"),
            2 => {
                let permit = gate.start(2, grant).expect("a start");
                let read = |_: &sage_kernel::Permit| Ok::<_, ()>([Vec::<NoRows>::new(), Vec::new()]);
                let noise = sage_kernel::noise::SeededNoise::new(1);
                let finished = permit.open(noise, read).map(sage_kernel::Session::finish);
                gate.release(3, finished.expect("no rows to fail on"), [5; 32]).expect("running");
            }
            3 => {
                drop(gate.start(2, grant).expect("a start"));
                gate.burn(3, id).expect("running");
            }
            _ => {}
        }
    }
    gate.retire(4, StreamId(0), Blocks::range(2, 2).expect("a block")).expect("a block");
    let snapshot = gate.snapshot(5).expect("a healthy log");
    let _later = granted(&mut gate, request("later", (0, 1), "0.02"));
    (gate.into_log().records().to_vec(), snapshot)
}

struct NoRows;

impl sage_kernel::Rows for NoRows {
    type Row<'rows> = ();

    fn count(&self) -> usize {
        0
    }

    fn row(&self, _: usize) {}
}

#[test]
fn a_snapshot_opens_the_state_of_the_whole_log() {
    let (records, snapshot) = with_snapshot();
    let whole = Gate::open(FaultyLog::with_records(records.clone())).expect("a sound log");
    let short = Gate::open_from(FaultyLog::with_records(records.clone()), &snapshot).expect("vouched for");
    assert_eq!((short.ledger(), short.head()), (whole.ledger(), whole.head()));
    let refused = |records: Vec<Record>, bytes: &[u8]| {
        matches!(Gate::open_from(FaultyLog::with_records(records), bytes), Err(GateError::Snapshot))
    };
    for index in 0..snapshot.len() {
        assert!(refused(records.clone(), &snapshot[..index]), "cut at {index}");
        for bit in 0..8 {
            let mut flipped = snapshot.clone();
            flipped[index] ^= 1 << bit;
            assert!(refused(records.clone(), &flipped), "byte {index}");
        }
    }
    let mut longer = snapshot.clone();
    longer.push(0);
    assert!(refused(records.clone(), &longer));
    // A log that has lost the vouching record, never had it, or says the same in a note.
    let at = records.len() - 2;
    assert!(refused(records[..at].to_vec(), &snapshot));
    assert!(refused(Vec::new(), &snapshot));
    let Ok(Event::Snapshot { digest }) = Event::from_bytes(&records[at].body) else { panic!("the vouching record") };
    let mut noted = Gate::open(FaultyLog::with_records(records[..at].to_vec())).expect("a sound log");
    noted.note(5, "snapshot", digest.to_vec()).expect("healthy");
    assert!(refused(noted.into_log().records().to_vec(), &snapshot));
    // What follows is verified as ever.
    let mut edited = records.clone();
    edited[at + 1].body[40] ^= 1;
    let error = Gate::open_from(FaultyLog::with_records(edited), &snapshot).err();
    assert!(matches!(error, Some(GateError::Chain(_))), "{error:?}");
    assert!(GateError::Snapshot.to_string().contains("first record"));
}

/// Snapshots forged together with the record that commits to them: whatever they contain, they
/// are refused, or give a state that can be used without a panic.
#[test]
fn a_forged_snapshot_does_no_more_than_a_forged_log() {
    let (records, snapshot) = with_snapshot();
    let before = records.len() - 2;
    let head = records[before - 1].head();
    let mut opened = 0;
    for index in 0..snapshot.len() {
        for value in [0, 1, 2, 3, 4, 0x7f, 0x80, 0xff, snapshot[index] ^ 1, snapshot[index].wrapping_add(1)] {
            let mut forged = snapshot.clone();
            forged[index] = value;
            let digest =
                sha2::Digest::finalize(sha2::Digest::chain_update(<sha2::Sha256 as sha2::Digest>::new(), &forged));
            let mut log = records[..before].to_vec();
            log.push(Record::after(head, 5, &Event::Snapshot { digest: digest.into() }));
            let Ok(mut gate) = Gate::open_from(FaultyLog::with_records(log), &forged) else { continue };
            opened += 1;
            let waiting: Vec<_> = gate.ledger().waiting().collect();
            for id in waiting {
                let requested = gate.ledger().charge(id).expect("it waits").request.clone();
                if let ChargeOutcome::Repeated(_, _, Some(grant)) = charge(&mut gate, requested.clone()) {
                    let _either = gate.cancel(6, grant);
                }
                let _any = charge(&mut gate, Request { key: RequestKey::from_text("new"), ..requested });
            }
            let _any = charge(&mut gate, request("large", (0, 1), "0.99"));
            let again = gate.snapshot(7).expect("healthy");
            assert!(Gate::open_from(gate.into_log(), &again).is_ok(), "byte {index} as {value}");
        }
    }
    assert!(opened > 1000, "{opened}");
}

/// Snapshots with bytes changed, cut out, repeated and moved at random, each with a record that vouches for it. What
/// opens holds filters whose theorems hold, and admits nothing that would take a lane of a block beyond its caps.
#[test]
fn random_snapshots_admit_nothing_beyond_their_caps() {
    let seed = 0x5a6e_0002u64;
    println!("snapshots: seed {seed}");
    let mut state = seed;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let (records, snapshot) = with_snapshot();
    let before = records.len() - 2;
    let head = records[before - 1].head();
    let rounds = if std::env::var("SAGE_SOAK").is_ok_and(|text| text == "1") { 400_000 } else { 8_000 };
    let mut opened = 0;
    for round in 0..rounds {
        let mut forged = snapshot.clone();
        for _ in 0..1 + below(3) {
            let (at, length) = (below(forged.len()), 1 + below(4));
            let end = (at + length).min(forged.len());
            match below(5) {
                0 => forged[at] = below(256) as u8,
                1 => forged[at] = forged[at].wrapping_add(1),
                2 => drop(forged.drain(at..end)),
                3 => {
                    let again = forged[at..end].to_vec();
                    let to = below(forged.len());
                    forged.splice(to..to, again);
                }
                _ => forged[at] ^= 1 << below(8),
            }
        }
        let digest = <sha2::Sha256 as sha2::Digest>::digest(&forged);
        let mut log = records[..before].to_vec();
        log.push(Record::after(head, 5, &Event::Snapshot { digest: digest.into() }));
        let Ok(mut gate) = Gate::open_from(FaultyLog::with_records(log), &forged) else { continue };
        opened += 1;
        for stream in 0..2 {
            let Some(policy) = gate.ledger().stream(StreamId(stream)).map(|stream| stream.policy().clone()) else {
                continue;
            };
            let event = Event::StreamCreated { name: "s".into(), policy: policy.clone() };
            assert_eq!(Event::from_bytes(&event.to_bytes()), Ok(event), "round {round}");
            let requested = Request { stream: StreamId(stream), ..request("fuzz", (0, 1), "0.3") };
            if !matches!(charge(&mut gate, requested), ChargeOutcome::Granted(_)) {
                continue;
            }
            let found = gate.ledger().stream(StreamId(stream)).expect("it was there");
            let own = &policy.contexts()[0].filter;
            for block in [0, 1].map(sage_kernel::BlockId) {
                let spent = found.spent(ContextId(0), block, Lane::Train).expect("a block");
                let within = |at: usize| spent[at] <= u128::from(own.caps()[at]);
                let fits = match own.rule() {
                    Rule::Renyi => within(0) && (1..spent.len()).any(within),
                    _ => (0..spent.len()).all(within),
                };
                assert!(fits, "round {round}, seed {seed}: {spent:?} of {:?}", own.caps());
            }
        }
    }
    assert!(opened > rounds / 20, "{opened} of {rounds}");
}

#[test]
fn contexts_have_their_own_ceilings_and_a_joint_one() {
    let team = |name: &str| Context { name: name.into(), filter: filter(Rule::Basic, "1", "1e-6") };
    let policy = Policy::with_contexts(
        vec![team("maps"), team("ads")],
        Some(filter(Rule::Basic, "1.5", "1e-6")),
        AccessModes::EnforcedOnly,
    )
    .expect("a policy");
    assert!(Policy::with_contexts(vec![], None, AccessModes::EnforcedOnly).is_err());
    let mut gate = Gate::open(FaultyLog::default()).expect("an empty log");
    let stream = gate.create_stream(0, "rides", policy).expect("a stream");
    gate.add_blocks(0, stream, days(1)).expect("blocks");
    let ask =
        |key: &str, context: u32, loss: &str| Request { context: ContextId(context), ..request(key, (0, 0), loss) };
    let _maps = granted(&mut gate, ask("a", 0, "0.9"));
    let _ads = granted(&mut gate, ask("b", 1, "0.6"));
    for (requested, whose) in [(ask("c", 0, "0.2"), "context \"maps\""), (ask("d", 1, "0.3"), "all contexts together")]
    {
        match charge(&mut gate, requested) {
            ChargeOutcome::Refused(refusal) => assert!(refusal.to_string().contains(whose), "{refusal}"),
            other => panic!("{other:?}"),
        }
    }
}
