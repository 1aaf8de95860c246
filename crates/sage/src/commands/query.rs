//! `sage query`: private SQL over the rows of a stream.

use clap::Args;
use sage_server::diagnostics::note;
use sage_server::format::{blocks, parameter, quoted, rounded_up};
use sage_server::tokens;
use sage_server::views::queries::{PlannedColumn, QueryCell, QueryCharge, QueryPlan, QueryResponse, QueryResult};
use sage_server::views::requests::QueryRequest;
use serde_json::Value;

use crate::client::{self, KeyedQuery, Target};
use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::operator::ThreadArgs;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage query taxi 'SELECT count(*), avg(distance) GROUP BY payment' --epsilon 0.05 --last 24 --as mia
  sage query taxi 'SELECT count(*) WHERE airport' --error 200 --since 2026-11-01 --as mia
  sage query taxi 'SELECT median(price)' --epsilon 0.1 --all --plan --as mia

Every number comes with its half-width; all of them hold together with a confidence of 95 %. The cost is charged to
every block of the query before a row is read, and is shared by the aggregates. With --error it is the least cost that
reaches this half-width. --plan prints the cost and charges nothing. A repeated query with the same --key is charged
once and returns the recorded result. A query that cannot be private is refused with an alternative;
docs/reference/private-sql.md describes the language.";

#[derive(Args, Debug)]
pub(crate) struct QueryArgs {
    /// The stream
    stream: String,

    /// A SELECT of count, sum, avg, variance, stddev, median or quantile, with WHERE and GROUP BY
    sql: String,

    /// The epsilon of this query by itself
    #[arg(long, value_name = "EPSILON", allow_hyphen_values = true, conflicts_with = "error")]
    epsilon: Option<String>,

    /// Spend the least epsilon that gives every number this half-width
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    error: Option<String>,

    #[command(flatten)]
    which: WhichArgs,

    /// The context of the stream's policy that pays [default: the one you are a member of]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Your own name for this query: repeated with the same name, it is neither charged nor computed again
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,

    /// Print what it would cost; charge nothing and read nothing
    #[arg(long)]
    plan: bool,

    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The blocks that a query reads.
#[derive(Args, Debug)]
struct WhichArgs {
    /// The number of most recently sealed blocks
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

impl QueryArgs {
    /// The body of the request.
    pub(crate) fn request(&self) -> Result<QueryRequest, Failure> {
        let error = self.error.as_ref().map(|text| {
            let wrong = || Failure::usage(format!("--error must be a number, got {}", quoted(text)), "--error 100");
            text.trim().parse::<f64>().map_err(|_| wrong())
        });
        Ok(QueryRequest {
            sql: self.sql.clone(),
            epsilon: self.epsilon.clone().map(Value::String),
            error: error.transpose()?,
            last: self.which.last,
            blocks: self.which.keys.clone(),
            since: self.which.since.clone(),
            until: self.which.until.clone(),
            all: self.which.all,
            context: self.context.clone(),
            plan: self.plan,
        })
    }
}

pub(crate) fn run(args: &QueryArgs, target: Option<&Target>) -> Result<(), Failure> {
    args.threads.apply();
    let query = args.request()?;
    query.spend()?;
    query.which()?;
    let key = args.key.clone().map_or_else(fresh_key, Ok)?;
    let client = client::open(target, &args.directory, Some(&args.user))?;
    let response = client.query(&KeyedQuery { stream: args.stream.clone(), key, query });
    client.close()?;
    let response = response?;
    if let QueryResponse::Result(result) = &response {
        match result.answered_before {
            false => note(&format!("charged to each block: {}", counted(&result.cost))),
            true => note("this is the recorded result of an earlier query with this key; nothing was charged now"),
        }
    }
    match &response {
        response if args.json => print_json(response),
        QueryResponse::Plan(plan) => print(&plan_text(plan)),
        QueryResponse::Result(result) => print(&table(result)),
    }
}

/// A random key.
pub(crate) fn fresh_key() -> Result<String, Failure> {
    tokens::random::<16>().map_err(|error| {
        Failure::no_answer(format!("the system provides no randomness: {error}"), "name the query with --key TEXT")
    })
}

/// What the ledger counts and what was requested, which differ where a filter counts at its own delta.
fn counted(cost: &QueryCharge) -> String {
    let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
    let at = |delta: &str| match number(delta) {
        0.0 => String::new(),
        delta => format!(" at delta {}", parameter(delta)),
    };
    let (Some(lanes), Some(delta)) = (&cost.epsilon, &cost.delta) else { return "nothing".to_owned() };
    let loss = |text: &str| rounded_up(number(text));
    let counts = format!(
        "epsilon {} to train, {} to test{}, as the ledger counts",
        loss(&lanes.train),
        loss(&lanes.test),
        at(delta)
    );
    match &cost.requested {
        Some(requested) => {
            format!("{counts}; requested: epsilon {}{}", loss(&requested.epsilon), at(&requested.delta))
        }
        None => counts,
    }
}

fn plan_text(plan: &QueryPlan) -> String {
    let count = u32::try_from(plan.blocks).unwrap_or(u32::MAX);
    let (first, last) = (plan.first_block.as_ref(), plan.last_block.as_ref());
    let which = first.zip(last).map_or_else(String::new, |(first, last)| format!(", {first} to {last}"));
    let mut text = format!(
        "nothing is charged by looking\n  reads     {}{which}\n  each      {}\n  hides     {} more or less\n  \
         groups    {}\n",
        blocks(count),
        counted(&plan.cost),
        plan.unit,
        plan.groups
    );
    for PlannedColumn { column, half_width } in &plan.columns {
        text += &match half_width {
            Some(half) => format!("  exact     {column} to within {}\n", shown(*half)),
            None => format!("  exact     {column}: how exact depends on the rows\n"),
        };
    }
    let left = plan.questions_left;
    let more = if left == 1 { "1 more such question fits" } else { "more such questions fit" };
    let number = if left == 1 { String::new() } else { format!("{left} ") };
    text + &format!("  left      {number}{more} on these blocks\n")
}

/// A number with six significant digits.
fn shown(number: f64) -> String {
    if number == 0.0 || (1e-4..1e9).contains(&number.abs()) {
        let places = (5 - number.abs().max(1e-4).log10().floor() as i32).clamp(0, 9) as usize;
        let text = format!("{number:.places$}");
        return if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    }
    format!("{number:.5e}")
}

/// The result with aligned columns, each number with its half-width.
fn table(result: &QueryResult) -> String {
    let mut rows = vec![result.keys.iter().chain(&result.columns).cloned().collect::<Vec<String>>()];
    let cell = |cell: Option<QueryCell>| match cell.map(|cell| (cell.value, cell.half_width)) {
        None | Some((None, _)) => "too few rows show".to_owned(),
        Some((Some(value), Some(half))) => format!("{} +- {}", shown(value), shown(half)),
        Some((Some(value), None)) => format!("{} +- ?", shown(value)),
    };
    rows.extend(result.lines.iter().map(|line| {
        let keys = result.keys.iter().map(|name| line.keys.get(name).cloned().unwrap_or_default());
        let cells = result.columns.iter().enumerate().map(|(index, name)| cell(line.cell(index, name)));
        keys.chain(cells).collect()
    }));
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
