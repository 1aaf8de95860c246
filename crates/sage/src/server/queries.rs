//! Questions in private SQL over the wire.

use sage_engine::stream::Role;
use sage_engine::{Principal, QueryRequest};
use serde::Deserialize;
use serde_json::Value;

use super::call::{Answer, Call};
use super::problem::Problem;
use crate::query::{self, Chosen};

/// A question as it is sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    sql: String,
    /// Text or a number.
    #[serde(default)]
    epsilon: Option<Value>,
    #[serde(default)]
    error: Option<f64>,
    #[serde(default)]
    last: Option<u32>,
    #[serde(default)]
    blocks: Vec<String>,
    #[serde(default)]
    since: Option<String>,
    #[serde(default)]
    until: Option<String>,
    #[serde(default)]
    all: bool,
    #[serde(default)]
    context: Option<String>,
    /// Only what it would cost.
    #[serde(default)]
    plan: bool,
}

/// The longest key.
const LONGEST: usize = 200;

/// Answers a question, once for each Idempotency-Key, or says what it would cost.
pub(super) fn ask(call: &Call<'_>) -> Result<Answer, Problem> {
    let stream = call.part("stream");
    call.must_be(Role::MlEngineer, stream)?;
    let sent: Sent = serde_json::from_value(call.object()?).map_err(|error| {
        Problem::unfit(format!(
            "{error}; a question has sql, epsilon or error, and last, blocks, since and until, or all"
        ))
    })?;
    let who: &Principal = call.who()?;
    let key = match call.header("idempotency-key") {
        Some(key) if key.is_empty() || key.len() > LONGEST => {
            return Err(Problem::wrong(format!("Idempotency-Key has from 1 to {LONGEST} signs")));
        }
        Some(key) => key.to_owned(),
        None => query::fresh_key()?,
    };
    let epsilon = match &sent.epsilon {
        None => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(_) => return Err(Problem::unfit("\"epsilon\" is a number, best as text: \"0.05\"")),
    };
    let chosen = Chosen {
        last: sent.last,
        keys: &sent.blocks,
        since: sent.since.as_deref(),
        until: sent.until.as_deref(),
        all: sent.all,
    };
    let ask = QueryRequest {
        key,
        stream: stream.to_owned(),
        context: sent.context,
        sql: sent.sql,
        spend: query::spend(epsilon.as_deref(), sent.error)?,
        which: query::which(&chosen)
            .map_err(|message| Problem::unfit(format!("{message}; choose by last, blocks, since and until, or all")))?,
    };
    if sent.plan {
        return Ok(Answer::json(&query::plan_object(&call.engine().plan_query(who, &ask)?)));
    }
    Ok(Answer::json(&query::object(&call.engine().query(who, &ask)?)))
}
