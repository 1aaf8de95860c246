//! Private models, each charged to a new stream whose ceiling is the stated ε and δ.

use sage_kernel::noise::{NoiseSource, SecureNoise};
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, Lane,
    MemoryLog, Policy, Request, RequestKey, Rule, Session, Sigma,
};
use sage_learn::encode::{Encoded, Layout};
use sage_learn::linear::{AdaSsp, LinearModel, Ridge, sigma_for};
use sage_learn::network::{Network, Plan, Training, Work, train};

const DELTA: &str = "1e-6";

pub(crate) fn ceiling(epsilon: &str) -> Ceiling {
    Ceiling { epsilon: Epsilon::ceiling(epsilon).expect("a ceiling"), delta: Delta::ceiling(DELTA).expect("a ceiling") }
}

/// A session on rows of the train lane, if a stream with this ceiling and the default rule admits the cost.
fn opened(cost: Cost, epsilon: &str, rows: Encoded) -> Session<Encoded> {
    opened_with(cost, epsilon, rows, SecureNoise::new().expect("randomness"))
}

/// The same with this noise.
pub(crate) fn opened_with<N: NoiseSource>(cost: Cost, epsilon: &str, rows: Encoded, noise: N) -> Session<Encoded, N> {
    let filter = Filter::new(Rule::Renyi, ceiling(epsilon)).expect("a filter");
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let stream = gate.create_stream(0, "rows", Policy::single(filter, AccessModes::EnforcedOnly)).expect("a stream");
    gate.add_blocks(0, stream, vec!["0".to_owned()]).expect("a block");
    let request = Request {
        key: RequestKey::from_text("one"),
        stream,
        context: ContextId(0),
        blocks: Blocks::range(0, 0).expect("a block"),
        costs: [Some(cost), None],
        access: AccessMode::Enforced,
        purpose: "quality".to_owned(),
    };
    let outcome = gate.charge(0, vec![request]).expect("the log takes it").remove(0);
    let ChargeOutcome::Granted(grant) = outcome else { panic!("not granted: {outcome:?}") };
    let permit = gate.start(0, grant).expect("starts");
    permit.open(noise, |_| Ok::<_, ()>([vec![rows], Vec::new()])).expect("opens")
}

/// The plan with the least noise that the filter admits, to half a per cent. The filter's price is slightly above the
/// exact cost, so the search starts at the exact noise.
pub(crate) fn linear_plan(layout: Layout, epsilon: &str, ridge: Ridge) -> AdaSsp {
    let filter = Filter::new(Rule::Renyi, ceiling(epsilon)).expect("a filter");
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let exact = sigma_for(number(epsilon), number(DELTA), ridge.releases()).expect("a multiplier").units();
    let block = Blocks::range(0, 0).expect("a block");
    let plans = (200..).map(|share| {
        let sigma = Sigma::from_units(exact / 200 * share).expect("a multiplier");
        AdaSsp::new(layout, (0.0, 1.0), sigma, ridge).expect("a plan")
    });
    let admitted = |plan: &AdaSsp| {
        let cost = Cost::new(plan.mechanisms()).expect("a cost");
        let amounts = filter.price(&cost, Lane::Train, &block).expect("a price");
        filter.admits(&vec![0; filter.caps().len()], &amounts)
    };
    plans.into_iter().find(admitted).expect("some noise is enough")
}

/// A linear model from noisy moments.
pub(crate) fn linear(plan: &AdaSsp, epsilon: &str, rows: Encoded) -> LinearModel {
    let cost = Cost::new(plan.mechanisms()).expect("a cost");
    plan.train(&mut opened(cost, epsilon, rows), Lane::Train).expect("a model")
}

/// A network trained by noisy steps from this one.
pub(crate) fn network(start: Network, work: Work, training: &Training, epsilon: &str, rows: Encoded) -> Network {
    let plan = Plan::new(start.shape(), work, ceiling(epsilon), Rule::Renyi).expect("a plan");
    let mut session = opened(plan.charge().expect("a cost"), epsilon, rows);
    train(&mut session, Lane::Train, &plan, training, start).expect("trains")
}

/// The same network, changed to predict `output` for every row before training.
///
/// The units of the last hidden layer become pairs with equal inputs and opposite output weights, which cancel. So the
/// output weights can be scaled up: with small ones the earlier layers would hardly learn.
pub(crate) fn beginning_at(network: Network, scale: f32, output: f32) -> Network {
    let mut parameters = network.parameters().to_vec();
    let (last, before) = parameters.split_last_mut().expect("a layer");
    let (bias, weights) = last.split_last_mut().expect("a bias");
    *bias = output;
    if let Some(hidden) = before.last_mut() {
        let half = weights.len() / 2;
        for units in hidden.chunks_exact_mut(weights.len()) {
            units.copy_within(..half, half);
        }
        weights.iter_mut().for_each(|weight| *weight *= scale);
        weights.copy_within(..half, half);
        weights[half..].iter_mut().for_each(|weight| *weight = -*weight);
    }
    Network::from_parameters(network.shape().clone(), parameters).expect("the same shape")
}
