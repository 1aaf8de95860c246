//! Private SQL.

use sage_engine::stream::Role;
use sage_engine::{Principal, QueryRequest as EngineRequest};

use crate::call::{Call, Reply};
use crate::problem::Problem;
use crate::tokens;
use crate::views::queries::{QueryPlan, QueryResponse, QueryResult};
use crate::views::requests::QueryRequest;

/// The longest key.
const LONGEST: usize = 200;

/// Runs a query, once for each Idempotency-Key, or returns what it would cost.
pub(crate) fn query(call: &Call<'_>) -> Result<Reply, Problem> {
    let stream = call.part("stream");
    call.require_role(Role::MlEngineer, stream)?;
    let sent: QueryRequest = serde_json::from_value(call.object()?).map_err(|error| {
        Problem::unfit(format!("{error}; a query has sql, epsilon or error, and last, blocks, since and until, or all"))
    })?;
    let who: &Principal = call.who()?;
    let key = match call.header("idempotency-key") {
        Some(key) if key.is_empty() || key.len() > LONGEST => {
            return Err(Problem::wrong(format!("Idempotency-Key has from 1 to {LONGEST} bytes")));
        }
        Some(key) => key.to_owned(),
        None => tokens::random::<16>()
            .map_err(|error| Problem::busy(format!("no key could be generated: {error}; send an Idempotency-Key")))?,
    };
    if sent.epsilon.as_ref().is_some_and(|epsilon| !(epsilon.is_string() || epsilon.is_number() || epsilon.is_null())) {
        return Err(Problem::unfit("\"epsilon\" is a number, best as text: \"0.05\""));
    }
    let spend = sent.spend().map_err(|error| Problem::unfit(error.to_string()))?;
    let which = sent
        .which()
        .map_err(|error| Problem::unfit(format!("{error}; choose by last, blocks, since and until, or all")))?;
    let request = EngineRequest { key, stream: stream.to_owned(), context: sent.context, sql: sent.sql, spend, which };
    Ok(Reply::json(&match sent.plan {
        true => QueryResponse::Plan(QueryPlan::from(&call.engine().plan_query(who, &request)?)),
        false => QueryResponse::Result(QueryResult::from(&call.engine().query(who, &request)?)),
    }))
}
