//! From SQL to a question: one SELECT of aggregates over the rows of one stream, or a refusal that names the part.
//!
//! What is accepted is a list. Every other construct is refused, so that one which nobody has considered costs its
//! author a message and nobody their privacy.

use sage_sql::{Aggregation, Expr, Refusal, Select, SelectItem, parse_select};

use super::refusal::QuestionRefusal;
use super::span::number_of;

/// An aggregate as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Asked {
    /// Of all rows, or of those where this is not null.
    Count(Option<Expr>),
    Sum(Expr),
    Mean(Expr),
    Variance(Expr),
    Deviation(Expr),
    Quantile(Expr, f64),
}

/// A column of the answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// The place of a key among those that are grouped by.
    Key(usize),
    Value(Box<Asked>),
}

/// A SELECT as it is written, without what could be refused from its form alone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Written {
    pub(super) filter: Option<Expr>,
    /// The keys with their names.
    pub(super) keys: Vec<(String, Expr)>,
    /// The columns of the answer with their names.
    pub(super) items: Vec<(String, Item)>,
}

/// The most aggregates of a question: their cost is shared, so that more of them would say nothing.
const MOST: usize = 32;

type Refused<T> = Result<T, QuestionRefusal>;

fn refuse<T>(part: impl std::fmt::Display, why: impl Into<String>) -> Refused<T> {
    Err(QuestionRefusal::new(part, why))
}

/// Reads a question about this stream.
pub(super) fn read(sql: &str, stream: &str) -> Refused<Written> {
    let select = parse_select(sql).map_err(|refusal| match refusal {
        Refusal::Unreadable { reason } => QuestionRefusal::new("the question", format!("it is no SQL: {reason}")),
        Refusal::Part { part, why } => QuestionRefusal::new(part, why),
        Refusal::Subquery { part } => {
            QuestionRefusal::new(part, "subqueries are not allowed; ask each question by itself")
        }
        other => QuestionRefusal::new("the question", other.to_string()),
    })?;
    of_stream(select.from.as_deref(), stream)?;
    written(&select)
}

/// The stream is named beside the question, so FROM can be left out.
fn of_stream(from: Option<&str>, stream: &str) -> Refused<()> {
    match from {
        Some(named) if named != stream && named.to_lowercase() != stream => {
            refuse(named, format!("this is asked of stream {stream}; write FROM {stream}, or leave FROM out"))
        }
        _ => Ok(()),
    }
}

fn written(select: &Select) -> Refused<Written> {
    let listed = select.items.iter().map(item).collect::<Refused<Vec<(String, Expr)>>>()?;
    let keys = grouped(&select.keys, &listed)?;
    let mut items = Vec::new();
    for (name, expression) in listed {
        let place = keys.iter().position(|(known, key)| *key == expression || *known == name && is_name(&expression));
        let item = match place {
            Some(place) => Item::Key(place),
            None => Item::Value(Box::new(aggregate(&expression)?)),
        };
        items.push((name, item));
    }
    let values = items.iter().filter(|(_, item)| matches!(item, Item::Value(_))).count();
    match values {
        0 => {
            refuse("SELECT", "nothing is aggregated; ask for count(*), sum, avg, variance, stddev, median or quantile")
        }
        1..=MOST => Ok(Written { filter: select.condition.clone(), keys, items }),
        _ => refuse("SELECT", format!("more than {MOST} aggregates share one cost; ask for fewer")),
    }
}

const fn is_name(expression: &Expr) -> bool {
    matches!(expression, Expr::Column(_))
}

fn item(item: &SelectItem) -> Refused<(String, Expr)> {
    match item {
        SelectItem::Expression(expression, None) => Ok((expression.to_string().to_lowercase(), expression.clone())),
        SelectItem::Expression(expression, Some(alias)) => Ok((alias.name.clone(), expression.clone())),
        SelectItem::Star => {
            refuse("*", "rows do not leave; ask for count(*), sum, avg, variance, stddev, median or quantile")
        }
    }
}

/// What is grouped by: expressions, or names or numbers of columns of the answer.
fn grouped(expressions: &[Expr], listed: &[(String, Expr)]) -> Refused<Vec<(String, Expr)>> {
    let mut keys: Vec<(String, Expr)> = Vec::new();
    for expression in expressions {
        let at = number_of(expression).map(|place| place as usize);
        let of_name = |name: &str| match expression {
            Expr::Column(own) => own.name == name,
            _ => false,
        };
        let found = match at {
            Some(place) => match place.checked_sub(1).and_then(|place| listed.get(place)) {
                Some(found) => Some(found.clone()),
                None => return refuse(expression, "there is no such column in SELECT"),
            },
            None => listed.iter().find(|(name, own)| own == expression || of_name(name)).cloned(),
        };
        keys.push(found.unwrap_or_else(|| (expression.to_string().to_lowercase(), expression.clone())));
    }
    Ok(keys)
}

fn aggregate(expression: &Expr) -> Refused<Asked> {
    match expression {
        Expr::Call(name, arguments) => of_function(expression, name, arguments),
        Expr::Aggregate(aggregation) => of_aggregation(expression, aggregation),
        Expr::Column(name) => {
            refuse(name, "a column's values do not leave; aggregate it, or GROUP BY it if its values are declared")
        }
        Expr::Binary(..) | Expr::Unary(..) | Expr::Cast(..) => {
            refuse(expression, "ask for each aggregate by itself, and compute with the answers afterwards")
        }
        other => refuse(other, "a column of the answer is a key that is grouped by, or an aggregate"),
    }
}

const KNOWN: &str = "private aggregates are count, sum, avg, variance, stddev, median and quantile(x, share)";

/// A function in a form that only aggregates and windows have.
fn of_aggregation(expression: &Expr, aggregation: &Aggregation) -> Refused<Asked> {
    if aggregation.windowed {
        return refuse(expression, "a window looks at several rows; group by a public key instead");
    }
    if let Some(filter) = &aggregation.filter {
        return refuse(format!("FILTER (WHERE {filter})"), "put the condition into WHERE, or count a CASE");
    }
    if aggregation.distinct {
        return refuse(
            expression,
            "one row can change how many values there are by one only if nobody shares them; count \
                                 those of a public list with GROUP BY",
        );
    }
    match (aggregation.name.as_str(), aggregation.star, &aggregation.within_group, aggregation.arguments.as_slice()) {
        ("count", true, None, _) => Ok(Asked::Count(None)),
        ("percentile_cont" | "approx_percentile_cont" | "quantile_cont", false, Some(order), [share, ..]) => {
            Ok(Asked::Quantile(order.clone(), share_of(share)?))
        }
        _ => refuse(expression, KNOWN),
    }
}

fn of_function(expression: &Expr, name: &str, arguments: &[Expr]) -> Refused<Asked> {
    let of = |argument: &Expr| argument.clone();
    Ok(match (name, arguments) {
        ("count", [one]) if number_of(one).is_some() => Asked::Count(None),
        ("count", [one]) => Asked::Count(Some(of(one))),
        ("sum", [one]) => Asked::Sum(of(one)),
        ("avg" | "mean", [one]) => Asked::Mean(of(one)),
        ("var" | "variance" | "var_samp" | "var_pop", [one]) => Asked::Variance(of(one)),
        ("stddev" | "stddev_samp" | "stddev_pop" | "std", [one]) => Asked::Deviation(of(one)),
        ("median" | "approx_median", [one]) => Asked::Quantile(of(one), 0.5),
        ("quantile" | "quantile_cont" | "approx_percentile_cont" | "percentile_cont", [one, share]) => {
            Asked::Quantile(of(one), share_of(share)?)
        }
        ("min" | "max", [_]) => {
            return refuse(expression, "one row decides it; ask for quantile(x, 0.01) or quantile(x, 0.99)");
        }
        _ => return refuse(expression, KNOWN),
    })
}

fn share_of(expression: &Expr) -> Refused<f64> {
    match number_of(expression) {
        Some(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => refuse(expression, "the share of a quantile is a number between 0 and 1, such as 0.9"),
    }
}
