//! A question is asked: held against its stream, priced, charged, read, released, and written down.
//!
//! The order is that of attempts. Everything that can be refused is refused before the charge; the charge is durable
//! before a row is read; the answer is released under the digest of the note that holds it, and the note follows. What
//! an answer costs follows from public things alone.

use sage_kernel::{
    BlockId, Delta, Door, Epsilon, Filter, Finished, Gate, GrantId, GrantState, Lane, Refusal, RequestKey,
};
use sage_learn::count::{Node, Tree, laplace_sum_quantile};
use sage_learn::plan::fits;
use sage_learn::statistics::StatisticError;

use super::grant::context;
use super::policy::{account, found, paid_by};
use super::{Ask, Engine, EngineError, Granted, Principal, Store, census, note, submit};
use crate::catalog::{Note, Stage, Stream};
use crate::plan::{PlanRefusal, QueryPrice, plan_on_thread};
use crate::query::{BlockSelection, CONFIDENCE, PrivateQuery, QueryParameters, QueryResult, ResultWidth, Spend};
use crate::quiet;
use crate::read::ReadError;

/// A question in the user's words.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryAsk {
    /// The asker's own name for this question: the same name with the same question is charged and answered once.
    pub key: String,
    /// The stream.
    pub stream: String,
    /// On whose account; nothing for the one that the asker is a member of.
    pub context: Option<String>,
    /// The question.
    pub sql: String,
    /// What may be spent.
    pub spend: Spend,
    /// Of which blocks.
    pub which: BlockSelection,
}

/// What a question by itself costs each of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryCost {
    /// What was asked for: with this ε the question is private at the δ beside it. Nothing where it was an error.
    pub asked: Option<(Epsilon, Delta)>,
    /// The ε that the ledger counts for it on the train lane and on the test lane.
    pub counted: [Epsilon; 2],
    /// The δ at which the ledger counts: that of the context's ceiling, or zero where the filter adds up ε alone.
    pub delta: Delta,
}

/// What a question would cost. Looking costs nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryPlan {
    /// The blocks that would be read.
    pub blocks: Vec<String>,
    /// What it costs.
    pub cost: QueryCost,
    /// One more or less of this is hidden, and this is what is counted.
    pub unit: &'static str,
    /// The names of the numbers with their half-widths, where those follow from public things.
    pub columns: Vec<(String, Option<f64>)>,
    /// How many groups the answer will have.
    pub groups: u32,
    /// How many more such questions every one of the blocks admits.
    pub left: u64,
}

/// What a question was answered, and what that cost.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryAnswer {
    /// The answer.
    pub answer: QueryResult,
    /// The number of its charge in the log.
    pub charge: u64,
    /// What was charged now; nothing where it was answered before.
    pub cost: Option<QueryCost>,
}

/// A question with everything that follows from public things.
struct Planned {
    asked: QueryParameters,
    question: PrivateQuery,
    blocks: Vec<String>,
    filter: Filter,
    priced: QueryPrice,
    cost: QueryCost,
    rows: Option<u64>,
    unit: &'static str,
}

impl Engine {
    /// What a question would cost and how wide its answer would be. It costs nothing.
    ///
    /// # Errors
    /// As [`Engine::query`], but for what happens after the charge.
    pub fn plan_query(&self, by: &Principal, asked: &QueryAsk) -> Result<QueryPlan, EngineError> {
        let asked = &self.on_account(by, asked)?;
        let planned = self.planned(asked)?;
        let Planned { question, blocks, filter, priced, cost, rows, unit, .. } = &planned;
        let widths = question.widths(&priced.noises, *rows).map_err(unplanned)?;
        let known = |width: ResultWidth| match width {
            ResultWidth::Known(half) => Some(half),
            ResultWidth::DependsOnRows | ResultWidth::DependsOnValues => None,
        };
        let columns = question.names().map(str::to_owned).zip(widths.into_iter().map(known));
        Ok(QueryPlan {
            cost: *cost,
            unit,
            columns: columns.collect(),
            groups: question.groups(),
            left: self.left_for_question(asked, blocks, filter, priced)?,
            blocks: blocks.clone(),
        })
    }

    /// Answers a question, once for each key of each principal.
    ///
    /// # Errors
    /// When the question cannot be answered privately, the ledger refuses, or the principal is no ML engineer of the
    /// stream or may not spend in the context. If it fails after the charge, the charge stands.
    pub fn query(&self, by: &Principal, asked: &QueryAsk) -> Result<QueryAnswer, EngineError> {
        let asked = &self.on_account(by, asked)?;
        // First of all: of the blocks that were read some may be gone by now.
        if let Some(before) = self.answered(by, asked)? {
            return Ok(before);
        }
        let planned = self.planned(asked)?;
        let granted = self.charge(
            by,
            Ask {
                key: format!("query of {}: {}", by.name(), asked.key),
                stream: asked.stream.clone(),
                context: asked.context.clone(),
                blocks: planned.blocks.clone(),
                costs: planned.priced.costs.clone(),
                door: Door::Enforced,
                purpose: format!("query by {}", by.name()),
            },
        );
        let granted = granted.map_err(|error| match error {
            // Of another stream, or one that broke off before it was answered.
            EngineError::Refused(Refusal::KeyReused(_)) => EngineError::OtherQuestion(asked.key.clone()),
            // Charged before, and it failed or its answer was lost: it is not read a second time.
            EngineError::Served(state) => self.charged_before(by, asked, state),
            other => other,
        })?;
        let charge = granted.id();
        let computed = quiet::alone(|| self.computed(&planned, granted));
        // What a panic says may hold a value of a row, and that there was one depends on rows.
        let computed = computed.unwrap_or(Err(EngineError::Read(ReadError::Failed)));
        self.hold(&asked.stream);
        let answer = computed.and_then(|computed| self.released(by, asked, &planned, charge, computed));
        let answer = answer.inspect_err(|_| {
            // The charge stands; that nothing will leave under it is worth a line in the log, if it takes one.
            drop(self.burn(charge));
        });
        let answer =
            answer.map_err(|cause| EngineError::ChargedButFailed { charge: charge.0, cause: Box::new(cause) })?;
        Ok(QueryAnswer { answer, charge: charge.0, cost: Some(planned.cost) })
    }

    /// Why a query is not answered whose charge is in the log already.
    fn charged_before(&self, by: &Principal, asked: &QueryAsk, state: GrantState) -> EngineError {
        let key = RequestKey::from_text(&format!("asked: query of {}: {}", by.name(), asked.key));
        let charge = self.with(|gate, _| Ok(gate.ledger().grant_for(key).map_or(0, |grant| grant.0)));
        let cause = Box::new(EngineError::Served(state));
        charge.map_or_else(|error| error, |charge| EngineError::ChargedButFailed { charge, cause })
    }

    /// The answer that was given under this key, if there is one.
    fn answered(&self, by: &Principal, asked: &QueryAsk) -> Result<Option<QueryAnswer>, EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &asked.stream)?;
            let Some(before) = known.answered.get(&(by.name().to_owned(), asked.key.clone())) else { return Ok(None) };
            let (_, own) = account(gate, id, &asked.stream, asked.context.as_deref())?;
            let now = QueryParameters::new(&own.name, asked.spend, &asked.which);
            // Of what an older program wrote down the words are all there is to compare.
            if before.sql != asked.sql || before.asked.as_ref().is_some_and(|then| *then != now) {
                return Err(EngineError::OtherQuestion(asked.key.clone()));
            }
            Ok(Some(QueryAnswer { answer: before.answer.clone(), charge: before.charge, cost: None }))
        })
    }

    /// The answer, computed and not yet released.
    fn computed(&self, planned: &Planned, granted: Granted) -> Result<(QueryResult, Finished), EngineError> {
        let mut session = self.open_session(granted, planned.question.query())?;
        let answer = planned.question.answer(&mut session, &planned.priced.noises);
        let answer = answer.map_err(|error| EngineError::Unanswered(error.to_string()))?;
        Ok((answer, session.finish()))
    }

    /// Releases an answer and writes it down.
    fn released(
        &self, by: &Principal, asked: &QueryAsk, planned: &Planned, charge: GrantId, computed: (QueryResult, Finished),
    ) -> Result<QueryResult, EngineError> {
        let (answer, finished) = computed;
        let charge = charge.0;
        let told = Note::QueryAnswered {
            stream: asked.stream.clone(),
            key: asked.key.clone(),
            sql: asked.sql.clone(),
            by: by.name().to_owned(),
            charge,
            answer: answer.clone(),
            asked: Some(planned.asked.clone()),
        };
        self.release(finished, *blake3::hash(&told.to_bytes()).as_bytes())?;
        self.with(|gate, catalog| Ok(note(gate, catalog, &told)?))?;
        Ok(answer)
    }

    /// The question with the context that pays for it.
    fn on_account(&self, by: &Principal, asked: &QueryAsk) -> Result<QueryAsk, EngineError> {
        self.with(|gate, catalog| {
            let (_, known) = found(gate, catalog, &asked.stream)?;
            let context = paid_by(known, by, asked.context.as_deref())?;
            // A block that is named twice is one block.
            let which = match &asked.which {
                BlockSelection::Named(keys) => BlockSelection::Named(super::blocks::folded(keys)),
                other => other.clone(),
            };
            Ok(QueryAsk { context, which, ..asked.clone() })
        })
    }

    /// Everything that follows from public things.
    fn planned(&self, asked: &QueryAsk) -> Result<Planned, EngineError> {
        let (known, own, blocks) = self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, &asked.stream)?;
            let (_, own) = account(gate, id, &asked.stream, asked.context.as_deref())?;
            Ok((known.clone(), own.clone(), chosen(gate, asked, known)?))
        })?;
        let filter = own.filter;
        let (sql, file) = (asked.sql.clone(), known.file.clone());
        let question = plan_on_thread(move || PrivateQuery::new(&sql, &file)).map_err(EngineError::Plan)??;
        if blocks.is_empty() {
            let why = "no sealed block is chosen; see them with: sage blocks STREAM";
            return Err(EngineError::Plan(PlanRefusal::part("blocks", why)));
        }
        let rows = counted(&known, &blocks);
        let priced = match asked.spend {
            Spend::Epsilon(epsilon) => {
                QueryPrice::new(&filter, epsilon, &question.parts()).map_err(EngineError::Plan)?
            }
            Spend::Error(error) => cheapest(&filter, &question, error, rows)?,
        };
        let cost = QueryCost {
            asked: match asked.spend {
                Spend::Epsilon(epsilon) => Some((epsilon, priced.delta)),
                Spend::Error(_) => None,
            },
            counted: submit::lane_losses(&filter, &priced.costs),
            delta: if priced.delta == Delta::ZERO { Delta::ZERO } else { filter.ceiling().delta },
        };
        let unit = known.file.unit_text();
        let asked = QueryParameters::new(&own.name, asked.spend, &asked.which);
        Ok(Planned { asked, question, blocks, filter, priced, cost, rows, unit })
    }

    /// How many more such questions every one of the blocks admits.
    fn left_for_question(
        &self, asked: &QueryAsk, blocks: &[String], filter: &Filter, priced: &QueryPrice,
    ) -> Result<u64, EngineError> {
        self.with(|gate, catalog| {
            let (id, _) = found(gate, catalog, &asked.stream)?;
            let Some(ledgered) = gate.ledger().stream(id) else { return Ok(0) };
            let place = context(ledgered.policy(), asked.context.as_deref())?;
            let amounts = submit::priced(filter, &priced.costs);
            let left = |block: BlockId| {
                let lanes = Lane::BOTH.into_iter().zip(&amounts).filter_map(|(lane, amounts)| {
                    let spent = ledgered.spent(place, block, lane).unwrap_or_default();
                    amounts.as_ref().map(|amounts| fits(filter, spent, amounts))
                });
                if ledgered.is_retired(block) { 0 } else { lanes.min().unwrap_or(0) }
            };
            let numbers = super::blocks::numbers(gate, id, blocks)?;
            Ok(numbers.into_iter().map(left).min().unwrap_or(0))
        })
    }
}

/// The keys of the blocks that are asked about, in the order in which they were sealed.
fn chosen(gate: &Gate<Store>, asked: &QueryAsk, known: &Stream) -> Result<Vec<String>, EngineError> {
    let id = gate.ledger().stream_named(&asked.stream);
    let id = id.ok_or_else(|| EngineError::NoStream(asked.stream.clone()))?;
    if let BlockSelection::Named(keys) = &asked.which {
        super::blocks::numbers(gate, id, keys)?;
        return Ok(keys.clone());
    }
    let numbers = super::blocks::numbers(gate, id, &known.sealed)?;
    let ledgered = gate.ledger().stream(id);
    let usable = known.sealed.iter().zip(numbers).filter(|(key, number)| {
        known.stage(key) == Stage::Sealed && ledgered.is_some_and(|stream| !stream.is_retired(*number))
    });
    let mut keys: Vec<String> = usable.map(|(key, _)| key.clone()).collect();
    match asked.which {
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

/// At least how many units the train lanes of these blocks have, if a census has counted every one of them.
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

/// The cheapest price at which every number is known to within the error.
fn cheapest(
    filter: &Filter, question: &PrivateQuery, error: f64, rows: Option<u64>,
) -> Result<QueryPrice, EngineError> {
    let refused = |why: &str| EngineError::Plan(PlanRefusal::part("error", why));
    let price = |units: u64| {
        let epsilon = Epsilon::from_units(units).unwrap_or(Epsilon::LIMIT);
        QueryPrice::new(filter, epsilon, &question.parts())
    };
    let exact = |priced: &QueryPrice| {
        let mut exact = true;
        for width in question.widths(&priced.noises, rows).map_err(unplanned)? {
            match width {
                ResultWidth::Known(half) => exact &= half <= error,
                ResultWidth::DependsOnRows => {
                    return Err(refused(
                        "how well a mean is known depends on how many rows there are, and that is public only where a \
                         census has counted all of the blocks, no row can lack the value, and the question has neither \
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

/// The least ε that is tried for an error: a millionth.
const LEAST: u64 = 1_000_000;

fn unplanned(error: StatisticError) -> EngineError {
    EngineError::Plan(PlanRefusal::part("budget", error.to_string()))
}
