//! Attempts to spend less than is used: extreme numbers, forged logs, rows used twice.

use sage_kernel::noise::SecureNoise;
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Curve, DeclaredQuery, Delta, Epsilon,
    Event, Filter, Gate, GateError, Lane, Mechanism, MemoryLog, MomentBounds, ORDER_COUNT, Permit, Policy, Rate,
    Request, RequestKey, Rows, Rule, Session, SessionError, Sigma, StreamId,
};

fn ceiling(epsilon: &str, delta: &str) -> Ceiling {
    Ceiling { epsilon: Epsilon::ceiling(epsilon).expect("ε"), delta: Delta::ceiling(delta).expect("δ") }
}

fn epsilon(text: &str) -> Epsilon {
    Epsilon::cost(text).expect("ε")
}

fn sigma(text: &str) -> Sigma {
    Sigma::cost(text).expect("σ")
}

fn blocks() -> Blocks {
    Blocks::range(0, 0).expect("a block")
}

/// Whether an empty lane under the ceiling takes the mechanism.
fn admitted(rule: Rule, ceiling: Ceiling, part: &Mechanism, delta: &str) -> bool {
    let cost = Cost::at_delta(vec![part.clone()], Delta::cost(delta).expect("δ")).expect("a cost");
    let filter = Filter::new(rule, ceiling).expect("a filter");
    let Ok(requested) = filter.price(&cost, Lane::Train, &blocks()) else { return false };
    assert!(requested.units().iter().any(|&units| units > 0), "{rule}: {part:?} costs nothing");
    let spent = vec![0; filter.caps().len()];
    filter.admits(&spent, &requested)
}

fn curve(bound: Option<&str>, infinite: Option<&str>) -> Mechanism {
    let (bound, infinite) = (bound.map(epsilon), infinite.map(epsilon));
    Mechanism::Curve(Box::new(Curve { orders: [bound; ORDER_COUNT], infinite, delta: Delta::ZERO }))
}

fn gaussian(noise: &str, coordinates: u32, count: u32) -> Mechanism {
    Mechanism::Gaussian { sigma: sigma(noise), coordinates, count }
}

fn sampled(rate: &str, noise: &str, coordinates: u32, steps: u32) -> Mechanism {
    Mechanism::SampledGaussian { rate: Rate::cost(rate).expect("q"), sigma: sigma(noise), coordinates, steps }
}

/// Mechanisms that lose far more than any usual ceiling, at the ends of every parameter's range.
#[test]
fn nothing_extreme_is_cheap() {
    let most = u32::MAX;
    for part in [
        Mechanism::Pure { epsilon: Epsilon::LIMIT },
        Mechanism::Laplace { epsilon: Epsilon::LIMIT, count: most },
        Mechanism::Laplace { epsilon: epsilon("0.1"), count: most },
        gaussian("1e-9", 1, 1),
        gaussian("1e-9", most, most),
        gaussian("100", 1, most),
        sampled("1e-12", "1e-9", 1, most),
        sampled("1", "1e-9", most, most),
        sampled("0.5", "1", 1, most),
        Mechanism::Zcdp { rho: Epsilon::LIMIT },
        Mechanism::BlackBox { epsilon: Epsilon::LIMIT, delta: Delta::LIMIT },
        curve(None, None),
        curve(Some("1000000"), None),
    ] {
        for rule in Rule::ADAPTIVE {
            for (loss, chance) in [("1", "1e-6"), ("10", "1e-3"), ("0.000000000001", "1e-18")] {
                assert!(!admitted(rule, ceiling(loss, chance), &part, "1e-9"), "{rule} ({loss}, {chance}): {part:?}");
            }
        }
    }
}

/// The smallest of everything still costs something, and no rule takes it without end.
#[test]
fn nothing_is_free() {
    for part in [
        Mechanism::Pure { epsilon: epsilon("1e-12") },
        Mechanism::Laplace { epsilon: epsilon("1e-12"), count: 1 },
        gaussian("1000000000", 1, 1),
        sampled("1e-12", "1000000000", 1, 1),
        Mechanism::Zcdp { rho: epsilon("1e-12") },
        curve(Some("1e-12"), Some("1e-12")),
    ] {
        for rule in Rule::ADAPTIVE {
            let _ = admitted(rule, ceiling("1", "1e-6"), &part, "1e-9");
        }
    }
    for (bound, infinite) in [(Some("0"), Some("0")), (None, Some("0")), (Some("0"), None)] {
        assert!(Cost::new(vec![curve(bound, infinite)]).is_err(), "a curve of zero costs nothing");
    }
}

/// What has no finite loss is above every ceiling, the largest that exists included.
#[test]
fn the_largest_ceiling_does_not_admit_what_has_no_bound() {
    for part in [curve(None, None), gaussian("1e-9", 1, 1), sampled("1", "1e-9", 1, 1)] {
        for rule in Rule::ADAPTIVE {
            assert!(!admitted(rule, ceiling("1000000", "0.1"), &part, "1e-9"), "{rule}: {part:?}");
        }
    }
    // The request's δ is used up by the deviation of the noise: nothing is left to state an ε at.
    assert!(!admitted(Rule::Basic, ceiling("1000000", "0.1"), &gaussian("1", 1, 1), "1e-18"));
}

/// A fixed filter is read back only with the caps of its declarations, and with some declaration.
#[test]
fn forged_fixed_caps_are_not_read() {
    let cost = Cost::pure(epsilon("0.1")).expect("a cost");
    let declared = DeclaredQuery { blocks: blocks(), lane: Lane::Train, cost, times: 3 };
    let filter = Filter::fixed(ceiling("1", "1e-6"), vec![declared]).expect("within the ceiling");
    let policy = Policy::single(filter, AccessModes::EnforcedOnly);
    let bytes = Event::StreamCreated { name: "s".into(), policy }.to_bytes();
    let mut read = 0;
    for index in 0..bytes.len() {
        for value in 0..=255 {
            let mut forged = bytes.clone();
            forged[index] = value;
            let Ok(Event::StreamCreated { policy, .. }) = Event::from_bytes(&forged) else { continue };
            let filter = &policy.contexts()[0].filter;
            let times: Vec<u64> = filter.declared().iter().map(|one| u64::from(one.times)).collect();
            assert_eq!(filter.caps(), times, "byte {index} as {value}");
            read += 1;
        }
    }
    assert!(read > 256);
}

/// Uses beyond counting are refused, not added until they overflow.
#[test]
fn uncountable_declarations_are_refused() {
    let cost = Cost::new(vec![Mechanism::Laplace { epsilon: epsilon("1e-12"), count: u32::MAX }]).expect("a cost");
    let one = |last: u32| DeclaredQuery {
        blocks: Blocks::range(0, last).expect("blocks"),
        lane: Lane::Train,
        cost: cost.clone(),
        times: u32::MAX,
    };
    assert!(Filter::fixed(ceiling("1000000", "0.1"), vec![one(0), one(1)]).is_err());
}

struct Days(Vec<f64>);

impl Rows for Days {
    type Row<'rows> = f64;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn row(&self, index: usize) -> f64 {
        self.0[index]
    }
}

fn gate(access_modes: AccessModes) -> Gate<MemoryLog> {
    let filter = Filter::new(Rule::Renyi, ceiling("1", "1e-6")).expect("a filter");
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let stream = gate.create_stream(0, "rides", Policy::single(filter, access_modes)).expect("a stream");
    gate.add_blocks(0, stream, vec!["day 0".into()]).expect("blocks");
    gate
}

fn request(key: &str, access: AccessMode) -> Request {
    let cost = Cost::new(vec![gaussian("50", 10, 1)]).expect("a cost");
    Request {
        key: RequestKey::from_text(key),
        stream: StreamId(0),
        context: ContextId(0),
        blocks: blocks(),
        costs: [Some(cost), None],
        access,
        purpose: "a test".into(),
    }
}

fn grant(gate: &mut Gate<MemoryLog>, access: AccessMode) -> sage_kernel::Grant {
    match gate.charge(0, vec![request("a", access)]).expect("healthy").pop() {
        Some(ChargeOutcome::Granted(grant)) => grant,
        other => panic!("{other:?}"),
    }
}

fn session(permit: Permit) -> Session<Days> {
    let read = |_: &Permit| Ok::<_, ()>([vec![Days(vec![0.5; 100])], Vec::new()]);
    permit.open(SecureNoise::new().expect("randomness"), read).unwrap_or_else(|_| panic!("a session"))
}

/// Adding a key again would give its units a second budget.
#[test]
fn a_key_names_one_block() {
    let mut gate = gate(AccessModes::EnforcedOnly);
    for keys in [&["day 0"][..], &["day 1", "day 0"], &["day 1", "day 1"]] {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        assert_eq!(gate.add_blocks(1, StreamId(0), keys), Err(GateError::NotAllowed));
    }
    gate.add_blocks(1, StreamId(0), vec!["day 1".into()]).expect("a new key");
}

/// A block is retired so that nobody reads it again: not those either who were charged before.
#[test]
fn a_waiting_grant_does_not_read_retired_blocks() {
    let mut gate = gate(AccessModes::EnforcedOnly);
    let held = grant(&mut gate, AccessMode::Enforced);
    gate.retire(1, StreamId(0), blocks()).expect("a block");
    assert!(matches!(gate.start(2, held), Err(GateError::NotAllowed)));
}

/// Rows charged once are used once: by the kernel's mechanisms or by declared code, never by both.
#[test]
fn declared_rows_have_not_been_spent_before() {
    let mut gate = gate(AccessModes::AttestedToo);
    let access = AccessMode::Attested { author: "someone".into(), reason: "a test".into() };
    let held = grant(&mut gate, access);
    let permit = gate.start(1, held).expect("started");
    let mut session = session(permit);
    let released = session.vector_sum(Lane::Train, 1, 1.0, sigma("50"), |row, out| out[0] = row);
    assert!(released.is_err() || session.into_attested().is_err());
}

/// Moments are free because they stay with their session; its grant's number is no proof of that,
/// since another log has the same numbers.
#[test]
fn moments_of_another_log_are_refused() {
    let bounds = MomentBounds { width: 1, feature_norm: 1.0, label_size: 1.0 };
    let mut sessions = [(); 2].map(|()| {
        let mut gate = gate(AccessModes::EnforcedOnly);
        let held = grant(&mut gate, AccessMode::Enforced);
        session(gate.start(1, held).expect("started"))
    });
    let value = |row: f64, out: &mut [f64]| {
        out[0] = row;
        row
    };
    let moments = sessions[0].moments(Lane::Train, bounds, value).expect("moments");
    assert_eq!(sessions[1].noisy_cross(&moments, sigma("50")), Err(SessionError::NotCovered));
    assert!(sessions[0].noisy_cross(&moments, sigma("50")).is_ok());
}
