//! Parses private SQL: one SELECT of aggregates over the rows of one stream, or a refusal that names the part.
//!
//! Only listed constructs are accepted. Every other construct is refused, so that one that was not considered cannot
//! leak.

use sage_sql::{Aggregation, Expr, Refusal, Select, SelectItem, parse_select};

use super::refusal::PrivateQueryRefusal;
use super::span::literal_number;

/// An aggregate of the SELECT list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AggregateExpression {
    /// Of all rows, or of the rows in which this is not null.
    Count(Option<Expr>),
    Sum(Expr),
    Mean(Expr),
    Variance(Expr),
    Deviation(Expr),
    Quantile(Expr, f64),
}

/// A column of the result.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// The index of a group key.
    Key(usize),
    Value(Box<AggregateExpression>),
}

/// A SELECT whose form was checked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ParsedQuery {
    pub(super) filter: Option<Expr>,
    /// The keys with their names.
    pub(super) keys: Vec<(String, Expr)>,
    /// The columns of the result with their names.
    pub(super) items: Vec<(String, Item)>,
}

/// The maximum number of aggregates. They share one cost, so that more of them would be too noisy.
const MAX_AGGREGATES: usize = 32;

type Checked<T> = Result<T, PrivateQueryRefusal>;

fn refuse<T>(part: impl std::fmt::Display, why: impl Into<String>) -> Checked<T> {
    Err(PrivateQueryRefusal::new(part, why))
}

/// Parses a query on this stream.
pub(super) fn read(sql: &str, stream: &str) -> Checked<ParsedQuery> {
    let select = parse_select(sql).map_err(|refusal| match refusal {
        Refusal::Unreadable { reason } => {
            PrivateQueryRefusal::new("the query", format!("it is not valid SQL: {reason}"))
        }
        Refusal::Part { part, why } => PrivateQueryRefusal::new(part, why),
        Refusal::Subquery { part } => {
            PrivateQueryRefusal::new(part, "subqueries are not allowed; run each query separately")
        }
        other => PrivateQueryRefusal::new("the query", other.to_string()),
    })?;
    check_stream(select.from.as_deref(), stream)?;
    parse_items(&select)
}

/// Checks the FROM clause, which is optional because the stream is given beside the query.
fn check_stream(from: Option<&str>, stream: &str) -> Checked<()> {
    match from {
        Some(named) if named != stream && named.to_lowercase() != stream => {
            refuse(named, format!("this query is on stream {stream}; write FROM {stream}, or leave FROM out"))
        }
        _ => Ok(()),
    }
}

fn parse_items(select: &Select) -> Checked<ParsedQuery> {
    let listed = select.items.iter().map(name_item).collect::<Checked<Vec<(String, Expr)>>>()?;
    let keys = group_keys(&select.keys, &listed)?;
    let mut items = Vec::new();
    for (name, expression) in listed {
        let index = keys.iter().position(|(known, key)| *key == expression || *known == name && is_name(&expression));
        let item = match index {
            Some(index) => Item::Key(index),
            None => Item::Value(Box::new(parse_aggregate(&expression)?)),
        };
        items.push((name, item));
    }
    let values = items.iter().filter(|(_, item)| matches!(item, Item::Value(_))).count();
    match values {
        0 => refuse("SELECT", "nothing is aggregated; use count(*), sum, avg, variance, stddev, median or quantile"),
        1..=MAX_AGGREGATES => Ok(ParsedQuery { filter: select.condition.clone(), keys, items }),
        _ => refuse(
            "SELECT",
            format!("a query has at most {MAX_AGGREGATES} aggregates, which share its cost; use fewer"),
        ),
    }
}

const fn is_name(expression: &Expr) -> bool {
    matches!(expression, Expr::Column(_))
}

fn name_item(item: &SelectItem) -> Checked<(String, Expr)> {
    match item {
        SelectItem::Expression(expression, None) => Ok((expression.to_string().to_lowercase(), expression.clone())),
        SelectItem::Expression(expression, Some(alias)) => Ok((alias.name.clone(), expression.clone())),
        SelectItem::Star => {
            refuse("*", "rows cannot be returned; use count(*), sum, avg, variance, stddev, median or quantile")
        }
    }
}

/// The group keys: expressions, or names or numbers of columns of the result.
fn group_keys(expressions: &[Expr], listed: &[(String, Expr)]) -> Checked<Vec<(String, Expr)>> {
    let mut keys: Vec<(String, Expr)> = Vec::new();
    for expression in expressions {
        let at = literal_number(expression).map(|index| index as usize);
        let of_name = |name: &str| match expression {
            Expr::Column(own) => own.name == name,
            _ => false,
        };
        let found = match at {
            Some(index) => match index.checked_sub(1).and_then(|index| listed.get(index)) {
                Some(found) => Some(found.clone()),
                None => return refuse(expression, "the SELECT list has no such column"),
            },
            None => listed.iter().find(|(name, own)| own == expression || of_name(name)).cloned(),
        };
        keys.push(found.unwrap_or_else(|| (expression.to_string().to_lowercase(), expression.clone())));
    }
    Ok(keys)
}

fn parse_aggregate(expression: &Expr) -> Checked<AggregateExpression> {
    match expression {
        Expr::Call(name, arguments) => parse_function(expression, name, arguments),
        Expr::Aggregate(aggregation) => parse_aggregation(expression, aggregation),
        Expr::Column(name) => refuse(
            name,
            "the values of a column cannot be returned; aggregate it, or GROUP BY it if its values are declared",
        ),
        Expr::Binary(..) | Expr::Unary(..) | Expr::Cast(..) => {
            refuse(expression, "select each aggregate separately, and compute with the results afterwards")
        }
        other => refuse(other, "a column of the result must be a group key or an aggregate"),
    }
}

const KNOWN: &str = "private aggregates are count, sum, avg, variance, stddev, median and quantile(x, share)";

/// Parses a call in a form that only aggregates and windows have.
fn parse_aggregation(expression: &Expr, aggregation: &Aggregation) -> Checked<AggregateExpression> {
    if aggregation.windowed {
        return refuse(expression, "a window function reads several rows; group by a public key instead");
    }
    if let Some(filter) = &aggregation.filter {
        return refuse(format!("FILTER (WHERE {filter})"), "move the condition to WHERE, or count a CASE");
    }
    if aggregation.distinct {
        return refuse(expression, "distinct values are private; count the values of a public list with GROUP BY");
    }
    match (aggregation.name.as_str(), aggregation.star, &aggregation.within_group, aggregation.arguments.as_slice()) {
        ("count", true, None, _) => Ok(AggregateExpression::Count(None)),
        ("percentile_cont" | "approx_percentile_cont" | "quantile_cont", false, Some(order), [share, ..]) => {
            Ok(AggregateExpression::Quantile(order.clone(), quantile_level(share)?))
        }
        _ => refuse(expression, KNOWN),
    }
}

fn parse_function(expression: &Expr, name: &str, arguments: &[Expr]) -> Checked<AggregateExpression> {
    let of = |argument: &Expr| argument.clone();
    Ok(match (name, arguments) {
        ("count", [one]) if literal_number(one).is_some() => AggregateExpression::Count(None),
        ("count", [one]) => AggregateExpression::Count(Some(of(one))),
        ("sum", [one]) => AggregateExpression::Sum(of(one)),
        ("avg" | "mean", [one]) => AggregateExpression::Mean(of(one)),
        ("var" | "variance" | "var_samp" | "var_pop", [one]) => AggregateExpression::Variance(of(one)),
        ("stddev" | "stddev_samp" | "stddev_pop" | "std", [one]) => AggregateExpression::Deviation(of(one)),
        ("median" | "approx_median", [one]) => AggregateExpression::Quantile(of(one), 0.5),
        ("quantile" | "quantile_cont" | "approx_percentile_cont" | "percentile_cont", [one, share]) => {
            AggregateExpression::Quantile(of(one), quantile_level(share)?)
        }
        ("min" | "max", [_]) => {
            return refuse(expression, "one row can determine it; use quantile(x, 0.01) or quantile(x, 0.99)");
        }
        _ => return refuse(expression, KNOWN),
    })
}

fn quantile_level(expression: &Expr) -> Checked<f64> {
    match literal_number(expression) {
        Some(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => refuse(expression, "the level of a quantile is a number between 0 and 1, such as 0.9"),
    }
}
