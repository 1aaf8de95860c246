//! Charges for what is computed elsewhere.
//!
//! Somebody who works on a stream's rows with means of their own, and vouches for what that loses, enters it here
//! through the declared door, if the stream's policy has one. It is decided by the ledger like every charge, is durable
//! before it is answered, and stays for ever: no row is handed out, so nothing ever shows that it was not used.

use sage_engine::stream::Role;
use sage_engine::{ChargeRequest, Cost, Delta, Door, EngineError, Epsilon, Mechanism};
use serde_json::{Value, json};

use super::call::{Answer, Call};
use super::problem::Problem;

/// The longest key and purpose.
const LONGEST: usize = 200;
/// The most blocks of one charge.
const MOST_BLOCKS: usize = 10_000;

pub(super) fn charge(call: &Call<'_>) -> Result<Answer, Problem> {
    let stream = call.part("stream");
    call.must_be(Role::MlEngineer, stream)?;
    let asked = call.object()?;
    let text = |name: &str| {
        let found = asked[name].as_str().filter(|text| !text.trim().is_empty() && text.len() <= LONGEST);
        found.ok_or_else(|| Problem::unfit(format!("\"{name}\" is a text of 1 to {LONGEST} bytes")))
    };
    let (key, purpose) = (text("key")?, text("purpose")?);
    let named = asked["blocks"].as_array().filter(|list| !list.is_empty() && list.len() <= MOST_BLOCKS);
    let keys = named.and_then(|list| list.iter().map(|key| key.as_str().map(str::to_owned)).collect());
    let blocks: Vec<String> = keys
        .ok_or_else(|| Problem::unfit(format!("\"blocks\" is a list of 1 to {MOST_BLOCKS} keys, which are texts")))?;
    let costs = [cost(&asked, "train")?, cost(&asked, "test")?];
    if costs.iter().all(Option::is_none) {
        return Err(Problem::unfit(
            "\"train\" or \"test\" says what is lost: {\"epsilon\": \"0.1\", \"delta\": \"1e-9\"}",
        ));
    }
    let door = AccessMode::Attested { author: call.who()?.name().to_owned(), reason: purpose.to_owned() };
    let context = asked["context"].as_str().map(str::to_owned);
    let (key, purpose) = (format!("{} {key}", call.who()?.name()), purpose.to_owned());
    let ask = ChargeRequest { key, stream: stream.to_owned(), context, blocks, costs, door, purpose };
    let granted = call.engine().charge(call.who()?, ask)?;
    Ok(Answer::created(&json!({"charge": granted.id().0})))
}

/// What is lost on a lane, as decimal texts.
fn cost(asked: &Value, lane: &str) -> Result<Option<Cost>, Problem> {
    let given = &asked[lane];
    if given.is_null() {
        return Ok(None);
    }
    let wrong = |why: &str| Problem::unfit(format!("\"{lane}\": {why}"));
    let number = |name: &str| given[name].as_str();
    let epsilon = number("epsilon").ok_or_else(|| wrong("\"epsilon\" is a decimal number in quotes"))?;
    let epsilon = Epsilon::cost(epsilon).map_err(|error| wrong(&error.to_string()))?;
    let mechanism = match number("delta") {
        None => Mechanism::Pure { epsilon },
        Some(delta) => {
            let delta = Delta::cost(delta).map_err(|error| wrong(&error.to_string()))?;
            Mechanism::BlackBox { epsilon, delta }
        }
    };
    Ok(Some(Cost::new(vec![mechanism]).map_err(EngineError::Cost)?))
}
