//! Private SQL queries: checked against the stream, priced, charged, read, released and recorded.
//!
//! The order is that of attempts. Everything that can be refused is refused before the charge; the charge is durable
//! before a row is read; the result is released under the digest of the note that contains it, and then the note is
//! written. The cost of a query depends on public facts only.

use sage_kernel::{
    AccessMode, BlockId, Delta, Epsilon, Filter, FinishedSession, Gate, GrantId, GrantState, Lane, Refusal, RequestKey,
};
use sage_learn::count::{Node, Tree, laplace_sum_quantile};
use sage_learn::plan::fits;
use sage_learn::statistics::StatisticError;

use crate::api::policy::{account, found, paying_context};
use crate::api::{Engine, EngineError, Principal, Store, census, note, submit};
use crate::catalog::{Note, Stage, Stream};
use crate::plan::{PlanRefusal, QueryPrice, plan_on_thread};
use crate::query::{BlockSelection, CONFIDENCE, PrivateQuery, QueryParameters, ResultTable, ResultWidth, Spend};
use crate::quiet;
use crate::read::ReadError;
use crate::worker::grant::context;
use crate::worker::{ChargeRequest, Granted};

/// A request for a private query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryRequest {
    /// The caller's key: repeating the same query under the same key is charged and computed once.
    pub key: String,
    /// The stream.
    pub stream: String,
    /// The context that pays; `None` for the one that the caller is a member of.
    pub context: Option<String>,
    /// The SQL text.
    pub sql: String,
    /// The budget, or the required accuracy.
    pub spend: Spend,
    /// The blocks to read.
    pub which: BlockSelection,
}

/// The cost of a query on each of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryCost {
    /// The requested ε, at which the query is private with the δ below; `None` if an error was requested instead.
    pub requested: Option<(Epsilon, Delta)>,
    /// The ε that the ledger counts on the train lane and on the test lane.
    pub counted: [Epsilon; 2],
    /// The δ at which the ledger counts: that of the context's ceiling, or zero if the filter adds up ε alone.
    pub delta: Delta,
}

/// The plan of a query. Planning costs nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryPlan {
    /// The blocks that would be read.
    pub blocks: Vec<String>,
    /// The cost.
    pub cost: QueryCost,
    /// The privacy unit.
    pub unit: &'static str,
    /// The names of the result columns with their half-widths, where those follow from public facts.
    pub columns: Vec<(String, Option<f64>)>,
    /// The number of groups in the result.
    pub groups: u32,
    /// How many more such queries all of the blocks admit.
    pub left: u64,
}

/// The result of a query, and its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryResult {
    /// The result.
    pub answer: ResultTable,
    /// The number of its charge in the log.
    pub charge: u64,
    /// The cost of this request; `None` if the result was computed before.
    pub cost: Option<QueryCost>,
}

/// A query with everything that follows from public facts.
struct Planned {
    parameters: QueryParameters,
    query: PrivateQuery,
    blocks: Vec<String>,
    filter: Filter,
    priced: QueryPrice,
    cost: QueryCost,
    rows: Option<u64>,
    unit: &'static str,
}

impl Engine {
    /// The cost of a query and the half-widths of its result. Planning costs nothing.
    ///
    /// # Errors
    /// As [`Engine::query`], except for errors after the charge.
    pub fn plan_query(&self, by: &Principal, request: &QueryRequest) -> Result<QueryPlan, EngineError> {
        let request = &self.on_account(by, request)?;
        let planned = self.planned(request)?;
        let Planned { query, blocks, filter, priced, cost, rows, unit, .. } = &planned;
        let widths = query.widths(&priced.noises, *rows).map_err(unplanned)?;
        let known = |width: ResultWidth| match width {
            ResultWidth::Known(half) => Some(half),
            ResultWidth::DependsOnRows | ResultWidth::DependsOnValues => None,
        };
        let columns = query.names().map(str::to_owned).zip(widths.into_iter().map(known));
        Ok(QueryPlan {
            cost: *cost,
            unit,
            columns: columns.collect(),
            groups: query.groups(),
            left: self.left_for_query(request, blocks, filter, priced)?,
            blocks: blocks.clone(),
        })
    }

    /// Runs a query, once for each key of each principal.
    ///
    /// # Errors
    /// When the query cannot be answered privately, the ledger refuses, or the principal is not an ML engineer of the
    /// stream or may not spend in the context. After an error that follows the charge, the charge stands.
    pub fn query(&self, by: &Principal, request: &QueryRequest) -> Result<QueryResult, EngineError> {
        let request = &self.on_account(by, request)?;
        // Checked first, since blocks of an earlier query may have been deleted since.
        if let Some(before) = self.recorded_result(by, request)? {
            return Ok(before);
        }
        let planned = self.planned(request)?;
        let granted = self.charge(
            by,
            ChargeRequest {
                key: format!("query of {}: {}", by.name(), request.key),
                stream: request.stream.clone(),
                context: request.context.clone(),
                blocks: planned.blocks.clone(),
                costs: planned.priced.costs.clone(),
                access: AccessMode::Enforced,
                purpose: format!("query by {}", by.name()),
            },
        );
        let granted = granted.map_err(|error| match error {
            // The key belongs to a query on another stream, or to one that failed before it had a result.
            EngineError::Refused(Refusal::KeyReused(_)) => EngineError::OtherQuestion(request.key.clone()),
            // The query was charged before and failed, or its result was lost: rows are not read a second time.
            EngineError::Served(state) => self.charged_before(by, request, state),
            other => other,
        })?;
        let charge = granted.id();
        let computed = quiet::run_on_reader(|| self.computed(&planned, granted));
        // A panic message may contain a value of a row, and whether a panic occurred depends on rows.
        let computed = computed.unwrap_or(Err(EngineError::Read(ReadError::Failed)));
        self.wait_for_disclosure(&request.stream);
        let result = computed.and_then(|computed| self.released(by, request, &planned, charge, computed));
        let result = result.inspect_err(|_| {
            // The charge stands. The log records, if it can, that nothing will be released under it.
            drop(self.burn(charge));
        });
        let result =
            result.map_err(|cause| EngineError::ChargedButFailed { charge: charge.0, cause: Box::new(cause) })?;
        Ok(QueryResult { answer: result, charge: charge.0, cost: Some(planned.cost) })
    }

    /// The error of a query whose charge is already in the log.
    fn charged_before(&self, by: &Principal, request: &QueryRequest, state: GrantState) -> EngineError {
        let key = RequestKey::from_text(&format!("asked: query of {}: {}", by.name(), request.key));
        let charge = self.with(|gate, _| Ok(gate.ledger().grant_for(key).map_or(0, |grant| grant.0)));
        let cause = Box::new(EngineError::Served(state));
        charge.map_or_else(|error| error, |charge| EngineError::ChargedButFailed { charge, cause })
    }

    /// The recorded result under this key, if there is one.
    fn recorded_result(&self, by: &Principal, request: &QueryRequest) -> Result<Option<QueryResult>, EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &request.stream)?;
            let Some(before) = known.answered.get(&(by.name().to_owned(), request.key.clone())) else {
                return Ok(None);
            };
            let (_, own) = account(gate, id, &request.stream, request.context.as_deref())?;
            let now = QueryParameters::new(&own.name, request.spend, &request.which);
            // Notes of older releases contain only the SQL text to compare.
            if before.sql != request.sql || before.parameters.as_ref().is_some_and(|then| *then != now) {
                return Err(EngineError::OtherQuestion(request.key.clone()));
            }
            Ok(Some(QueryResult { answer: before.answer.clone(), charge: before.charge, cost: None }))
        })
    }

    /// Computes the result without releasing it.
    fn computed(&self, planned: &Planned, granted: Granted) -> Result<(ResultTable, FinishedSession), EngineError> {
        let mut session = self.open_session(granted, planned.query.query())?;
        let result = planned.query.run(&mut session, &planned.priced.noises);
        let result = result.map_err(|error| EngineError::Unanswered(error.to_string()))?;
        Ok((result, session.finish()))
    }

    /// Releases a result and records it.
    fn released(
        &self, by: &Principal, request: &QueryRequest, planned: &Planned, charge: GrantId,
        computed: (ResultTable, FinishedSession),
    ) -> Result<ResultTable, EngineError> {
        let (result, finished) = computed;
        let charge = charge.0;
        let recorded = Note::QueryAnswered {
            stream: request.stream.clone(),
            key: request.key.clone(),
            sql: request.sql.clone(),
            by: by.name().to_owned(),
            charge,
            answer: result.clone(),
            parameters: Some(planned.parameters.clone()),
        };
        self.release(finished, *blake3::hash(&recorded.to_bytes()).as_bytes())?;
        self.with(|gate, catalog| Ok(note(gate, catalog, &recorded)?))?;
        Ok(result)
    }

    /// The request with the name of the context that pays for it.
    fn on_account(&self, by: &Principal, request: &QueryRequest) -> Result<QueryRequest, EngineError> {
        self.with(|gate, catalog| {
            let (_, known) = found(gate, catalog, &request.stream)?;
            let context = paying_context(known, by, request.context.as_deref())?;
            // A block that is named twice counts once.
            let which = match &request.which {
                BlockSelection::Named(keys) => BlockSelection::Named(crate::api::blocks::folded(keys)),
                other => other.clone(),
            };
            Ok(QueryRequest { context, which, ..request.clone() })
        })
    }

    /// Plans a query from public facts.
    fn planned(&self, request: &QueryRequest) -> Result<Planned, EngineError> {
        let (known, own, blocks) = self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &request.stream)?;
            let (_, own) = account(gate, id, &request.stream, request.context.as_deref())?;
            Ok((known.clone(), own.clone(), chosen(gate, request, known)?))
        })?;
        let filter = own.filter;
        let (sql, file) = (request.sql.clone(), known.file.clone());
        let query = plan_on_thread(move || PrivateQuery::new(&sql, &file)).map_err(EngineError::Plan)??;
        if blocks.is_empty() {
            let why = "no sealed block is chosen; see them with: sage blocks STREAM";
            return Err(EngineError::Plan(PlanRefusal::part("blocks", why)));
        }
        let rows = counted(&known, &blocks);
        let priced = match request.spend {
            Spend::Epsilon(epsilon) => QueryPrice::new(&filter, epsilon, &query.parts()).map_err(EngineError::Plan)?,
            Spend::Error(error) => cheapest(&filter, &query, error, rows)?,
        };
        let cost = QueryCost {
            requested: match request.spend {
                Spend::Epsilon(epsilon) => Some((epsilon, priced.delta)),
                Spend::Error(_) => None,
            },
            counted: submit::lane_losses(&filter, &priced.costs),
            delta: if priced.delta == Delta::ZERO { Delta::ZERO } else { filter.ceiling().delta },
        };
        let unit = known.file.unit_text();
        let parameters = QueryParameters::new(&own.name, request.spend, &request.which);
        Ok(Planned { parameters, query, blocks, filter, priced, cost, rows, unit })
    }

    /// How many more such queries all of the blocks admit.
    fn left_for_query(
        &self, request: &QueryRequest, blocks: &[String], filter: &Filter, priced: &QueryPrice,
    ) -> Result<u64, EngineError> {
        self.with(|gate, catalog| {
            let (id, _) = found(gate, catalog, &request.stream)?;
            let Some(ledgered) = gate.ledger().stream(id) else { return Ok(0) };
            let context_id = context(ledgered.policy(), request.context.as_deref())?;
            let amounts = submit::priced(filter, &priced.costs);
            let left = |block: BlockId| {
                let lanes = Lane::BOTH.into_iter().zip(&amounts).filter_map(|(lane, amounts)| {
                    let spent = ledgered.spent(context_id, block, lane).unwrap_or_default();
                    amounts.as_ref().map(|amounts| fits(filter, spent, amounts))
                });
                if ledgered.is_retired(block) { 0 } else { lanes.min().unwrap_or(0) }
            };
            let numbers = crate::api::blocks::numbers(gate, id, blocks)?;
            Ok(numbers.into_iter().map(left).min().unwrap_or(0))
        })
    }
}

/// The keys of the requested blocks, in sealing order.
fn chosen(gate: &Gate<Store>, request: &QueryRequest, known: &Stream) -> Result<Vec<String>, EngineError> {
    let id = gate.ledger().stream_named(&request.stream);
    let id = id.ok_or_else(|| EngineError::NoStream(request.stream.clone()))?;
    if let BlockSelection::Named(keys) = &request.which {
        crate::api::blocks::numbers(gate, id, keys)?;
        return Ok(keys.clone());
    }
    let numbers = crate::api::blocks::numbers(gate, id, &known.sealed)?;
    let ledgered = gate.ledger().stream(id);
    let usable = known.sealed.iter().zip(numbers).filter(|(key, number)| {
        known.stage(key) == Stage::Sealed && ledgered.is_some_and(|stream| !stream.is_retired(*number))
    });
    let mut keys: Vec<String> = usable.map(|(key, _)| key.clone()).collect();
    match request.which {
        BlockSelection::Last(most) => {
            let spare = keys.len().saturating_sub(most as usize);
            keys.drain(..spare);
        }
        BlockSelection::Between(first, end) => keys.retain(|key| {
            let span = known.file.blocks.parse(key).and_then(|levels| levels.span);
            span.is_some_and(|span| span.start >= first && span.end <= end)
        }),
        BlockSelection::Named(_) | BlockSelection::All => {}
    }
    Ok(keys)
}

/// A lower bound on the units in the train lanes of these blocks, if a census has counted all of them.
fn counted(known: &Stream, blocks: &[String]) -> Option<u64> {
    let census = known.file.census.as_ref()?;
    let epsilon = census::share(census, Tree::for_steps(census.horizon)).units() as f64 / 1e12;
    let mut all = 0i64;
    for key in blocks {
        let step = known.sealed.iter().position(|sealed| sealed == key)?;
        let [train, _] = known.counted.get(&Node { level: 0, first: step as u64 })?;
        all = all.saturating_add(*train);
    }
    let terms = u32::try_from(blocks.len()).ok()?;
    let off = laplace_sum_quantile(terms, epsilon, 1.0 - CONFIDENCE)?;
    u64::try_from(all.saturating_sub(off.ceil().min(9e15) as i64)).ok()
}

/// The lowest price at which every number has at most the given error.
fn cheapest(filter: &Filter, query: &PrivateQuery, error: f64, rows: Option<u64>) -> Result<QueryPrice, EngineError> {
    let refused = |why: &str| EngineError::Plan(PlanRefusal::part("error", why));
    let price = |units: u64| {
        let epsilon = Epsilon::from_units(units).unwrap_or(Epsilon::LIMIT);
        QueryPrice::new(filter, epsilon, &query.parts())
    };
    let exact = |priced: &QueryPrice| {
        let mut exact = true;
        for width in query.widths(&priced.noises, rows).map_err(unplanned)? {
            match width {
                ResultWidth::Known(half) => exact &= half <= error,
                ResultWidth::DependsOnRows => {
                    return Err(refused(
                        "how well a mean is known depends on how many rows there are, and that is public only where a \
                         census has counted all of the blocks, no row can lack the value, and the query has neither \
                         WHERE nor GROUP BY; give an epsilon instead",
                    ));
                }
                ResultWidth::DependsOnValues => {
                    return Err(refused(
                        "how well a variance, deviation or quantile is known depends on the rows; give an epsilon instead",
                    ));
                }
            }
        }
        Ok(exact)
    };
    let (mut outside, mut inside) = (LEAST, filter.ceiling().epsilon.units());
    let best = price(inside).map_err(EngineError::Plan)?;
    if !exact(&best)? {
        let why = "even the whole budget of a block does not make every number so exact; allow a larger error, ask for \
                   fewer aggregates or groups, or for a larger mean over more rows";
        return Err(EngineError::Plan(PlanRefusal::part("budget", why)));
    }
    let mut found = best;
    while inside - outside > 1 + outside / 1000 {
        let middle = u64::try_from((u128::from(outside) * u128::from(inside)).isqrt()).unwrap_or(inside);
        let middle = middle.clamp(outside + 1, inside - 1);
        match price(middle) {
            Ok(priced) if exact(&priced)? => (inside, found) = (middle, priced),
            _ => outside = middle,
        }
    }
    Ok(found)
}

/// The smallest ε that is tried for an error: one millionth.
const LEAST: u64 = 1_000_000;

fn unplanned(error: StatisticError) -> EngineError {
    EngineError::Plan(PlanRefusal::part("budget", error.to_string()))
}
