//! Values on both sides of each limit, and terms of formulas that other tests leave open: found by mutation testing
//! (`docs/internals/mutants.md`).

mod accountant;
mod costs;
mod filters;
mod gate;
mod ledger;
mod moments;
mod noise;

use sage_kernel::{
    AccessMode, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, Grant, Log, Request,
    RequestKey, Rule, StreamId,
};

fn filter(rule: Rule, epsilon: &str, delta: &str) -> Filter {
    let ceiling =
        Ceiling { epsilon: Epsilon::ceiling(epsilon).expect("ε"), delta: Delta::ceiling(delta).expect("δ") };
    Filter::new(rule, ceiling).expect("a filter")
}

/// A request on the train lane of blocks of the first stream.
fn request(key: &str, (first, last): (u32, u32), cost: Cost) -> Request {
    Request {
        key: RequestKey::from_text(key),
        stream: StreamId(0),
        context: ContextId(0),
        blocks: Blocks::range(first, last).expect("blocks"),
        costs: [Some(cost), None],
        access: AccessMode::Enforced,
        purpose: "a test".to_owned(),
    }
}

fn pure(epsilon: &str) -> Cost {
    Cost::pure(Epsilon::cost(epsilon).expect("ε")).expect("a cost")
}

fn charge(gate: &mut Gate<impl Log>, request: Request) -> ChargeOutcome {
    gate.charge(1, vec![request]).expect("a healthy log").pop().expect("one answer")
}

fn granted(gate: &mut Gate<impl Log>, request: Request) -> Grant {
    match charge(gate, request) {
        ChargeOutcome::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}
