//! A gate with one block and one granted request, for the programs beside this file.

use sage_kernel::noise::SecureNoise;
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, Grant,
    MemoryLog, Permit, Policy, Request, RequestKey, Rows, Rule, Session,
};

pub struct Numbers(pub Vec<f64>);

impl Rows for Numbers {
    type Row<'rows> = f64;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn row(&self, index: usize) -> f64 {
        self.0[index]
    }
}

pub fn granted() -> (Gate<MemoryLog>, Grant) {
    let mut gate = Gate::open(MemoryLog::default()).expect("opens");
    let ceiling =
        Ceiling { epsilon: Epsilon::ceiling("1").expect("a number"), delta: Delta::ceiling("1e-6").expect("a number") };
    let filter = Filter::new(Rule::Basic, ceiling).expect("a filter");
    let stream = gate.create_stream(0, "rows", Policy::single(filter, AccessModes::EnforcedOnly)).expect("new");
    gate.add_blocks(0, stream, vec!["today".to_owned()]).expect("added");
    let request = Request {
        key: RequestKey::from_text("one"),
        stream,
        context: ContextId(0),
        blocks: Blocks::range(0, 0).expect("a block"),
        costs: [Some(Cost::pure(Epsilon::cost("1").expect("a number")).expect("a cost")), None],
        access: AccessMode::Enforced,
        purpose: "compile-fail tests".to_owned(),
    };
    match gate.charge(0, vec![request]).expect("the log takes it").remove(0) {
        ChargeOutcome::Granted(grant) => (gate, grant),
        _ => unreachable!("it fits"),
    }
}

pub fn permit() -> Permit {
    let (mut gate, grant) = granted();
    gate.start(0, grant).expect("starts")
}

pub fn noise() -> SecureNoise {
    SecureNoise::new().expect("randomness")
}

pub fn session() -> Session<Numbers> {
    permit().open(noise(), |_| Ok::<_, ()>([vec![Numbers(vec![0.5, 1.0])], Vec::new()])).expect("opens")
}
