//! `sage query`: private SQL over the rows of a stream.

use clap::Args;
use sage_engine::query::{Cell, QueryResult};
use sage_engine::{
    Delta, Engine, EngineError, Epsilon, Principal, QueryCost, QueryPlan, QueryRequest, QueryResult, Spend, Which,
    stream,
};
use serde_json::{Value, json};

use crate::failure::{Failure, quoted};
use crate::fields::LOSS_CEILING;
use crate::output::{blocks, loss, parameter, print, print_json, tell};
use crate::place::{PlaceArgs, WhoArgs};
use crate::suggest::hinted;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage query taxi 'SELECT count(*), avg(distance) GROUP BY payment' --epsilon 0.05 --last 24 --as mia
  sage query taxi 'SELECT count(*) WHERE airport' --error 200 --since 2026-11-01 --as mia
  sage query taxi 'SELECT median(price)' --epsilon 0.1 --all --plan --as mia

Every number comes with its half-width: all of them hold together with a confidence of 95 %. The cost is charged to every
block that is read before a row is, and shared by the aggregates. With --error it is the least that makes every number so
exact. --plan says what it would cost and charges nothing. The same --key has its effect once: asked again, the recorded
answer is given. What cannot be made private is refused with what to ask instead; docs/reference/private-sql.md has the whole list.";

#[derive(Args, Debug)]
pub(crate) struct QueryArgs {
    /// The stream
    stream: String,

    /// A SELECT of count, sum, avg, variance, stddev, median or quantile, with WHERE and GROUP BY
    sql: String,

    /// With which epsilon the question by itself is private
    #[arg(long, value_name = "EPSILON", allow_hyphen_values = true, conflicts_with = "error")]
    epsilon: Option<String>,

    /// Spend as little as makes every number known to within this half-width
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    error: Option<String>,

    #[command(flatten)]
    which: WhichArgs,

    /// The context of the stream's policy that pays [default: the one you are a member of]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Your own name for this question: asked again under it, the same question is neither charged nor computed again
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,

    /// Say what it would cost; charge nothing and read nothing
    #[arg(long)]
    plan: bool,

    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Which blocks are read.
#[derive(Args, Debug)]
struct WhichArgs {
    /// So many of the blocks that were sealed last
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["keys", "since", "until", "all"])]
    last: Option<u32>,

    /// A block's key; repeats
    #[arg(long = "block", value_name = "KEY", conflicts_with_all = ["since", "until", "all"])]
    keys: Vec<String>,

    /// The blocks that begin at this time (UTC) or later: 2026-11-01, 2026-11-01T08
    #[arg(long, value_name = "TIME", conflicts_with = "all")]
    since: Option<String>,

    /// The blocks that end at this time (UTC) or before
    #[arg(long, value_name = "TIME", conflicts_with = "all")]
    until: Option<String>,

    /// All sealed blocks
    #[arg(long)]
    all: bool,
}

impl WhichArgs {
    fn read(&self) -> Result<BlockSelection, Failure> {
        which(&Chosen {
            last: self.last,
            keys: &self.keys,
            since: self.since.as_deref(),
            until: self.until.as_deref(),
            all: self.all,
        })
        .map_err(|message| Failure::usage(message, "add --last 24, --since 2026-11-01, --block KEY or --all"))
    }
}

/// Which blocks are chosen, as flags and bodies of requests say it.
pub(crate) struct Chosen<'text> {
    pub(crate) last: Option<u32>,
    pub(crate) keys: &'text [String],
    pub(crate) since: Option<&'text str>,
    pub(crate) until: Option<&'text str>,
    pub(crate) all: bool,
}

/// The blocks that are chosen, in one way.
pub(crate) fn which(chosen: &Chosen<'_>) -> Result<BlockSelection, String> {
    let time = |text: Option<&str>, end: i64| match text {
        None => Ok(end),
        Some(text) => stream::parse_time(text)
            .ok_or_else(|| format!("{} is no time; write it like 2026-11-01 (UTC)", quoted(text))),
    };
    let ways = usize::from(chosen.last.is_some())
        + usize::from(!chosen.keys.is_empty())
        + usize::from(chosen.since.or(chosen.until).is_some())
        + usize::from(chosen.all);
    match ways {
        0 => Err("it is not said which blocks are read, and every one of them pays".to_owned()),
        1 => Ok(match (chosen.last, chosen.keys) {
            (Some(0), _) => return Err("the last 0 blocks have no rows".to_owned()),
            (Some(last), _) => BlockSelection::Last(last),
            (None, []) if chosen.all => BlockSelection::All,
            (None, []) => BlockSelection::Between(time(chosen.since, i64::MIN)?, time(chosen.until, i64::MAX)?),
            (None, keys) => BlockSelection::Named(keys.to_vec()),
        }),
        _ => Err("blocks are chosen in two ways at once".to_owned()),
    }
}

/// What may be spent, as flags and bodies of requests say it.
pub(crate) fn spend(epsilon: Option<&str>, error: Option<f64>) -> Result<Spend, Failure> {
    match (epsilon, error) {
        (Some(text), None) => Ok(Spend::Epsilon(LOSS_CEILING.read_flag("--epsilon", "0.05", text)?)),
        (None, Some(error)) if error.is_finite() && error > 0.0 => Ok(Spend::Error(error)),
        (None, Some(_)) => Err(Failure::usage("--error must be a number above 0", "--error 100")),
        _ => Err(Failure::usage(
            "it is not said what the question may cost",
            "add --epsilon 0.05, or --error 100 for the least that makes every number so exact",
        )),
    }
}

pub(crate) fn run(asked: &QueryArgs) -> Result<(), Failure> {
    let error = asked.error.as_ref().map(|text| {
        let wrong = || Failure::usage(format!("--error must be a number, got {}", quoted(text)), "--error 100");
        text.trim().parse::<f64>().map_err(|_| wrong())
    });
    let ask = QueryRequest {
        key: asked.key.clone().map_or_else(fresh_key, Ok)?,
        stream: asked.stream.clone(),
        context: asked.context.clone(),
        sql: asked.sql.clone(),
        spend: spend(asked.epsilon.as_deref(), error.transpose()?)?,
        which: asked.which.read()?,
    };
    let who = asked.who.principal()?;
    let engine = asked.place.open()?;
    let outcome =
        if asked.plan { plan(&engine, &who, &ask, asked.json) } else { answer(&engine, &who, &ask, asked.json) };
    engine.close()?;
    outcome
}

/// A name that nobody has used.
pub(crate) fn fresh_key() -> Result<String, Failure> {
    crate::server::tokens::random::<16>().map_err(|error| {
        Failure::no_answer(format!("the system gives no randomness: {error}"), "name the question with --key TEXT")
    })
}

fn failed(engine: &Engine, error: EngineError) -> Failure {
    let help = matches!(error, EngineError::Question(_));
    match hinted(engine, error) {
        Failure::Engine { message, code } if help => Failure::Engine {
            message: format!("{message}\n  help  docs/reference/private-sql.md says what can be asked"),
            code,
        },
        other => other,
    }
}

fn plan(engine: &Engine, who: &Principal, ask: &QueryRequest, json: bool) -> Result<(), Failure> {
    let plan = engine.plan_query(who, ask).map_err(|error| failed(engine, error))?;
    if json { print_json(&plan_object(&plan)) } else { print(&plan_text(&plan)) }
}

fn answer(engine: &Engine, who: &Principal, ask: &QueryRequest, json: bool) -> Result<(), Failure> {
    let answered = engine.query(who, ask).map_err(|error| failed(engine, error))?;
    match &answered.cost {
        Some(cost) => tell(&format!("charged to each block: {}", counted(cost))),
        None => tell("answered before under this key; nothing was charged now"),
    }
    if json { print_json(&object(&answered)) } else { print(&table(&answered.answer)) }
}

/// What the ledger counts and what was asked for, which differ where a filter counts at its own delta.
fn counted(cost: &QueryCost) -> String {
    let QueryCost { asked, counted: [train, test], delta } = *cost;
    let at = |delta: Delta| match delta.units() {
        0 => String::new(),
        units => format!(" at delta {}", parameter(units as f64 / 1e18)),
    };
    let counts = format!("epsilon {} to train, {} to test{}, as the ledger counts", loss(train), loss(test), at(delta));
    match asked {
        Some((epsilon, delta)) => format!("{counts}; asked for was epsilon {}{}", loss(epsilon), at(delta)),
        None => counts,
    }
}

/// What a question costs, for its object: what the ledger counts and at which delta, and what was asked for.
fn cost_fields(cost: Option<&QueryCost>, object: &mut Value) {
    let asked =
        |(epsilon, delta): (Epsilon, Delta)| json!({"epsilon": epsilon.to_string(), "delta": delta.to_string()});
    let lanes = |[train, test]: [Epsilon; 2]| json!({"train": train.to_string(), "test": test.to_string()});
    object["epsilon"] = cost.map_or(Value::Null, |cost| lanes(cost.counted));
    object["delta"] = cost.map_or(Value::Null, |cost| json!(cost.delta.to_string()));
    object["asked"] = cost.and_then(|cost| cost.asked).map_or(Value::Null, asked);
}

/// The plan as an object.
pub(crate) fn plan_object(plan: &QueryPlan) -> Value {
    let column = |(name, half): &(String, Option<f64>)| json!({"column": name, "half_width": half});
    let mut object = json!({
        "blocks": plan.blocks.len(),
        "first_block": plan.blocks.first(),
        "last_block": plan.blocks.last(),
        "unit": plan.unit,
        "groups": plan.groups,
        "columns": plan.columns.iter().map(column).collect::<Vec<_>>(),
        "questions_left": plan.left,
    });
    cost_fields(Some(&plan.cost), &mut object);
    object
}

fn plan_text(plan: &QueryPlan) -> String {
    let count = u32::try_from(plan.blocks.len()).unwrap_or(u32::MAX);
    let (first, last) = (plan.blocks.first(), plan.blocks.last());
    let which = first.zip(last).map_or_else(String::new, |(first, last)| format!(", {first} to {last}"));
    let mut text = format!(
        "nothing is charged by looking\n  reads     {}{which}\n  each      {}\n  hides     {} more or less\n  \
         groups    {}\n",
        blocks(count),
        counted(&plan.cost),
        plan.unit,
        plan.groups
    );
    for (name, half) in &plan.columns {
        text += &match half {
            Some(half) => format!("  exact     {name} to within {}\n", shown(*half)),
            None => format!("  exact     {name}: how exact depends on the rows\n"),
        };
    }
    let more = if plan.left == 1 { "1 more such question fits" } else { "more such questions fit" };
    text + &format!(
        "  left      {}{more} on these blocks\n",
        if plan.left == 1 { String::new() } else { format!("{} ", plan.left) }
    )
}

/// The answer as an object.
pub(crate) fn object(answered: &QueryResult) -> Value {
    let Answer { keys, columns, confidence, lines } = &answered.answer;
    let cell =
        |cell: &Cell| json!({"value": cell.value, "half_width": cell.half_width(), "low": cell.low, "high": cell.high});
    let line = |line: &sage_engine::query::Line| {
        let keys: serde_json::Map<String, Value> =
            keys.iter().cloned().zip(line.keys.iter().map(|key| json!(key))).collect();
        let values: serde_json::Map<String, Value> = columns.iter().cloned().zip(line.cells.iter().map(cell)).collect();
        json!({"keys": keys, "values": values})
    };
    let mut object = json!({
        "charge": answered.charge,
        "answered_before": answered.cost.is_none(),
        "confidence": confidence,
        "keys": keys,
        "columns": columns,
        "lines": lines.iter().map(line).collect::<Vec<_>>(),
    });
    cost_fields(answered.cost.as_ref(), &mut object);
    object
}

/// A number for a person: six digits.
fn shown(number: f64) -> String {
    if number == 0.0 || (1e-4..1e9).contains(&number.abs()) {
        let places = (5 - number.abs().max(1e-4).log10().floor() as i32).clamp(0, 9) as usize;
        let text = format!("{number:.places$}");
        return if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    }
    format!("{number:.5e}")
}

/// The answer with columns under each other, each number with its half-width.
fn table(answer: &QueryResult) -> String {
    let mut rows = vec![answer.keys.iter().cloned().chain(answer.columns.iter().cloned()).collect::<Vec<String>>()];
    let cell = |cell: &Cell| match (cell.value, cell.half_width()) {
        (None, _) => "too few rows show".to_owned(),
        (Some(value), Some(half)) => format!("{} +- {}", shown(value), shown(half)),
        (Some(value), None) => format!("{} +- ?", shown(value)),
    };
    rows.extend(answer.lines.iter().map(|line| line.keys.iter().cloned().chain(line.cells.iter().map(cell)).collect()));
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max();
    let widths: Vec<usize> = (0..rows[0].len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).map(|(text, width)| format!("{text:width$}"));
        format!("{}\n", padded.collect::<Vec<String>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits_and_no_idle_zeros() {
        for (number, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (12.345_678, "12.3457"),
            (123_456.7, "123457"),
            (-0.25, "-0.25"),
            (1e12, "1.00000e12"),
        ] {
            assert_eq!(shown(number), text);
        }
    }
}
