//! From SQL to a question: one SELECT of aggregates over the rows of one stream, or a refusal that names the part.
//!
//! What is let through is a list. Whatever else the parser knows is refused, so that a construct nobody has thought
//! about costs its author a message and nobody their privacy.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Query, Select,
    SelectFlavor, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, visit_expressions,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::refusal::QuestionRefusal;
use super::span::{called, folded, number_of};

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

/// The longest question.
const LONGEST: usize = 20_000;
/// How deep a question may be nested.
const DEEPEST: usize = 40;
/// The most aggregates of a question: their cost is shared, so that more of them would say nothing.
const MOST: usize = 32;

type Refused<T> = Result<T, QuestionRefusal>;

fn refuse<T>(part: impl std::fmt::Display, why: impl Into<String>) -> Refused<T> {
    Err(QuestionRefusal::new(part, why))
}

/// Reads a question about this stream.
pub(super) fn read(sql: &str, stream: &str) -> Refused<Written> {
    if sql.len() > LONGEST {
        return refuse("the question", format!("it has more than {LONGEST} characters; ask for less at a time"));
    }
    let dialect = GenericDialect {};
    let parsed = Parser::new(&dialect).with_recursion_limit(DEEPEST).try_with_sql(sql);
    let statements = parsed.and_then(|mut parser| parser.parse_statements());
    let mut statements = match statements {
        Ok(statements) => statements.into_iter(),
        Err(error) => return refuse("the question", format!("it is no SQL: {error}")),
    };
    match (statements.next(), statements.next()) {
        (Some(Statement::Query(query)), None) => select(&query, stream),
        (None, _) => refuse("the question", "it is empty; ask like SELECT count(*)"),
        (_, Some(_)) => refuse(";", "one question at a time"),
        (Some(other), _) => {
            let word = other.to_string();
            let word = word.split_whitespace().next().unwrap_or_default().to_owned();
            refuse(word, "rows are only asked about; ask like SELECT count(*)")
        }
    }
}

/// The parts of a query around its SELECT, all of which are refused.
fn around(query: &Query) -> Refused<&Select> {
    const ORDER: &str = "an order or a choice of lines by values is not private before they are; groups come in the order \
                         of their keys, so sort and cut the answer afterwards";
    if let Some(with) = &query.with {
        return refuse(with, "subqueries are not allowed; put the condition into WHERE");
    }
    if let Some(order) = &query.order_by {
        return refuse(order, ORDER);
    }
    if let Some(limit) = &query.limit_clause {
        return refuse(limit.to_string().trim(), ORDER);
    }
    if let Some(fetch) = &query.fetch {
        return refuse(fetch, ORDER);
    }
    let more = query.for_clause.is_some() || query.settings.is_some() || query.format_clause.is_some();
    if more || !query.locks.is_empty() || !query.pipe_operators.is_empty() {
        return refuse(query, "only SELECT ... WHERE ... GROUP BY ... is answered");
    }
    match &*query.body {
        SetExpr::Select(select) => Ok(select),
        SetExpr::SetOperation { op, .. } => refuse(op, "ask each question by itself"),
        other => refuse(other, "only SELECT ... WHERE ... GROUP BY ... is answered"),
    }
}

/// The parts of a SELECT that are refused wherever they stand.
fn within(select: &Select) -> Refused<()> {
    const FORM: &str = "only SELECT ... WHERE ... GROUP BY ... is answered";
    if let Some(distinct) = &select.distinct {
        return refuse(distinct, "which values there are is private; count those of a public list with GROUP BY");
    }
    if let Some(having) = &select.having {
        return refuse(
            format!("HAVING {having}"),
            "choosing groups by their values is not private; choose among the lines of the answer afterwards",
        );
    }
    if !select.named_window.is_empty() || select.qualify.is_some() {
        return refuse("WINDOW", "a window looks at several rows; group by a public key instead");
    }
    if let Some(top) = &select.top {
        return refuse(top, "a choice of lines by values is not private; cut the answer afterwards");
    }
    let strange = select.exclude.is_some()
        || select.into.is_some()
        || select.prewhere.is_some()
        || select.value_table_mode.is_some()
        || select.select_modifiers.is_some()
        || !select.lateral_views.is_empty()
        || !select.connect_by.is_empty()
        || !select.cluster_by.is_empty()
        || !select.distribute_by.is_empty()
        || !select.sort_by.is_empty()
        || select.flavor != SelectFlavor::Standard;
    if strange { refuse(select, FORM) } else { Ok(()) }
}

fn of_stream(from: &[TableWithJoins], stream: &str) -> Refused<()> {
    let [table] = from else {
        return match from.first() {
            // The stream is named beside the question.
            None => Ok(()),
            Some(_) => {
                refuse("FROM", format!("rows of several tables cannot be joined; ask about FROM {stream} alone"))
            }
        };
    };
    if let Some(join) = table.joins.first() {
        let why = "a join makes what one row can change unknown; bring the columns together before rows are ingested";
        return refuse(join.to_string().trim(), why);
    }
    match &table.relation {
        TableFactor::Table { name, alias: None, args: None, sample: None, version: None, .. } => {
            let named = name.to_string().trim_matches('"').to_owned();
            match named == stream || named.to_lowercase() == stream {
                true => Ok(()),
                false => {
                    refuse(name, format!("this is asked of stream {stream}; write FROM {stream}, or leave FROM out"))
                }
            }
        }
        TableFactor::Derived { .. } => {
            refuse(&table.relation, "subqueries are not allowed; put the condition into WHERE")
        }
        other => refuse(other, format!("write FROM {stream}, or leave FROM out")),
    }
}

/// Refuses questions within the question, wherever they stand.
fn alone(select: &Select) -> Refused<()> {
    let found = visit_expressions(select, |part| match part {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(part.to_string()),
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Break(part) => refuse(part, "subqueries are not allowed; ask each question by itself"),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn select(query: &Query, stream: &str) -> Refused<Written> {
    let select = around(query)?;
    within(select)?;
    of_stream(&select.from, stream)?;
    alone(select)?;
    let listed = select.projection.iter().map(item).collect::<Refused<Vec<(String, Expr)>>>()?;
    let keys = grouped(&select.group_by, &listed)?;
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
        0 => refuse(select, "nothing is aggregated; ask for count(*), sum, avg, variance, stddev, median or quantile"),
        1..=MOST => Ok(Written { filter: select.selection.clone(), keys, items }),
        _ => refuse("SELECT", format!("more than {MOST} aggregates share one cost; ask for fewer")),
    }
}

const fn is_name(expression: &Expr) -> bool {
    matches!(expression, Expr::Identifier(_))
}

fn item(item: &SelectItem) -> Refused<(String, Expr)> {
    match item {
        SelectItem::UnnamedExpr(expression) => Ok((expression.to_string().to_lowercase(), expression.clone())),
        SelectItem::ExprWithAlias { expr, alias } => Ok((folded(alias), expr.clone())),
        other => refuse(other, "rows do not leave; ask for count(*), sum, avg, variance, stddev, median or quantile"),
    }
}

/// What is grouped by: expressions, or names or places of columns of the answer.
fn grouped(by: &GroupByExpr, listed: &[(String, Expr)]) -> Refused<Vec<(String, Expr)>> {
    let expressions = match by {
        GroupByExpr::Expressions(expressions, modifiers) if modifiers.is_empty() => expressions,
        other => return refuse(other.to_string().trim(), "name the keys: GROUP BY key, key"),
    };
    let mut keys: Vec<(String, Expr)> = Vec::new();
    for expression in expressions {
        let at = number_of(expression).map(|place| place as usize);
        let of_name = |name: &str| match expression {
            Expr::Identifier(own) => folded(own) == name,
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
        Expr::Nested(inner) => aggregate(inner),
        Expr::Function(function) => of_function(function),
        Expr::Identifier(name) => {
            refuse(name, "a column's values do not leave; aggregate it, or GROUP BY it if its values are declared")
        }
        Expr::Subquery(_) => refuse(expression, "subqueries are not allowed; ask each question by itself"),
        Expr::BinaryOp { .. } | Expr::UnaryOp { .. } | Expr::Cast { .. } => {
            refuse(expression, "ask for each aggregate by itself, and compute with the answers afterwards")
        }
        other => refuse(other, "a column of the answer is a key that is grouped by, or an aggregate"),
    }
}

fn of_function(function: &Function) -> Refused<Asked> {
    const KNOWN: &str = "private aggregates are count, sum, avg, variance, stddev, median and quantile(x, share)";
    let name = function.name.to_string().to_lowercase();
    if function.over.is_some() {
        return refuse(function, "a window looks at several rows; group by a public key instead");
    }
    if let Some(filter) = &function.filter {
        return refuse(format!("FILTER (WHERE {filter})"), "put the condition into WHERE, or count a CASE");
    }
    let list = match &function.args {
        FunctionArguments::List(list) => list,
        _ => return refuse(function, KNOWN),
    };
    if matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct)) {
        return refuse(
            function,
            "one row can change how many values there are by one only if nobody shares them; count \
                                 those of a public list with GROUP BY",
        );
    }
    if !list.clauses.is_empty() || function.null_treatment.is_some() {
        return refuse(function, KNOWN);
    }
    if let ("count", [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]) = (name.as_str(), list.args.as_slice()) {
        return Ok(Asked::Count(None));
    }
    let Some((_, arguments)) = called(function) else { return refuse(function, KNOWN) };
    if let [order] = function.within_group.as_slice() {
        return match (name.as_str(), arguments.as_slice()) {
            ("percentile_cont" | "approx_percentile_cont" | "quantile_cont", [share, ..]) => {
                Ok(Asked::Quantile(order.expr.clone(), share_of(share)?))
            }
            _ => refuse(function, KNOWN),
        };
    }
    let of = |argument: &Expr| argument.clone();
    Ok(match (name.as_str(), arguments.as_slice()) {
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
            return refuse(function, "one row decides it; ask for quantile(x, 0.01) or quantile(x, 0.99)");
        }
        _ => return refuse(function, KNOWN),
    })
}

fn share_of(expression: &Expr) -> Refused<f64> {
    match number_of(expression) {
        Some(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => refuse(expression, "the share of a quantile is a number between 0 and 1, such as 0.9"),
    }
}
