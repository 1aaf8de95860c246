//! Charges for computations outside Sage.
//!
//! A user who computes on a stream's rows with other tools, and states what that loses, enters the cost here by the
//! attested access mode, if the stream's policy has it. The ledger decides it like every charge. It is durable before
//! the response is sent and is never given back: no row is handed out, so nothing can show that it was not used.

use sage_engine::stream::Role;
use sage_engine::{AccessMode, ChargeRequest as EngineRequest, Cost, Delta, EngineError, Epsilon, Mechanism};

use crate::call::{Call, Reply};
use crate::problem::Problem;
use crate::views::requests::{ChargeRequest, StatedCost};
use crate::views::service::ChargeResult;

/// The longest key and purpose.
const LONGEST: usize = 200;
/// The most blocks of one charge.
const MOST_BLOCKS: usize = 10_000;

pub(crate) fn charge(call: &Call<'_>) -> Result<Reply, Problem> {
    let stream = call.part("stream");
    call.require_role(Role::MlEngineer, stream)?;
    let request: ChargeRequest = call.request(
        "{\"key\": \"...\", \"blocks\": [keys], \"purpose\": \"...\", \"train\": {\"epsilon\": \"0.1\", \"delta\": \"1e-9\"}}",
    )?;
    for (name, text) in [("key", &request.key), ("purpose", &request.purpose)] {
        if text.trim().is_empty() || text.len() > LONGEST {
            return Err(Problem::unfit(format!("\"{name}\" is a text of 1 to {LONGEST} bytes")));
        }
    }
    if request.blocks.is_empty() || request.blocks.len() > MOST_BLOCKS {
        return Err(Problem::unfit(format!("\"blocks\" is a list of 1 to {MOST_BLOCKS} keys, which are texts")));
    }
    let costs = [cost(request.train.as_ref(), "train")?, cost(request.test.as_ref(), "test")?];
    if costs.iter().all(Option::is_none) {
        return Err(Problem::unfit(
            "\"train\" or \"test\" is needed, with the cost: {\"epsilon\": \"0.1\", \"delta\": \"1e-9\"}",
        ));
    }
    let ChargeRequest { key, blocks, purpose, context, .. } = request;
    let access = AccessMode::Attested { author: call.who()?.name().to_owned(), reason: purpose.clone() };
    let key = format!("{} {key}", call.who()?.name());
    let request = EngineRequest { key, stream: stream.to_owned(), context, blocks, costs, access, purpose };
    let granted = call.engine().charge(call.who()?, request)?;
    Ok(Reply::created(&ChargeResult { charge: granted.id().0 }))
}

/// The cost on a lane.
fn cost(given: Option<&StatedCost>, lane: &str) -> Result<Option<Cost>, Problem> {
    let Some(given) = given else { return Ok(None) };
    let wrong = |why: &str| Problem::unfit(format!("\"{lane}\": {why}"));
    let epsilon = Epsilon::cost(given.epsilon.as_str()).map_err(|error| wrong(&error.to_string()))?;
    let mechanism = match &given.delta {
        None => Mechanism::Pure { epsilon },
        Some(delta) => {
            let delta = Delta::cost(delta).map_err(|error| wrong(&error.to_string()))?;
            Mechanism::BlackBox { epsilon, delta }
        }
    };
    Ok(Some(Cost::new(vec![mechanism]).map_err(EngineError::Cost)?))
}
