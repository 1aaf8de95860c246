//! What an expression may consist of: a list of what is allowed, so that whatever a new version of the
//! planner brings is refused until someone has looked at it.
//!
//! Everything on the list is a function of one row that always gives the same. Whether it could fail for
//! some row is the business of `total`, which makes safe what is not.

use std::ops::Range;

use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, Operator, Volatility};
use datafusion::scalar::ScalarValue;

use super::refusal::QueryRefusal;

/// How many nodes an expression may have once it is made total, counted with what is doubled then.
const HEAVIEST: u64 = 2_000;

/// Functions of real numbers: their arguments are made real numbers, on which they cannot fail.
pub(super) const REAL: &[&str] = &[
    "abs", "acos", "asin", "atan", "atan2", "cbrt", "ceil", "cos", "cosh", "degrees", "exp", "floor", "isnan", "ln",
    "log10", "log2", "radians", "signum", "sin", "sinh", "tan", "tanh",
];

/// Functions of text whose arguments may be anything.
const TEXT: &[&str] = &[
    "ascii",
    "btrim",
    "character_length",
    "concat",
    "contains",
    "ends_with",
    "lower",
    "ltrim",
    "octet_length",
    "rtrim",
    "starts_with",
    "strpos",
    "upper",
];

/// Functions that choose one of their arguments, and those that `total` takes care of by name.
const CHOICE: &[&str] = &["coalesce", "greatest", "least", "nullif", "power", "sqrt"];

/// Functions some of whose arguments must be written out, because with others a row could make them fail.
const WRITTEN_OUT: &[(&str, Range<usize>, &str)] = &[
    ("date_part", 0..1, "the part of the time must be written out, as in 'hour'"),
    ("date_trunc", 0..1, "the unit must be written out, as in 'day'"),
    ("left", 1..2, "the length must be a whole number from 0, written out"),
    ("right", 1..2, "the length must be a whole number from 0, written out"),
    ("round", 1..2, "the number of digits must be a whole number from 0, written out"),
    ("substr", 1..3, "start and length must be whole numbers from 0, written out"),
    ("trunc", 1..2, "the number of digits must be a whole number from 0, written out"),
];

/// Functions that look at an argument before they use it, once they are made total.
const GUARDED: &[&str] = &["coalesce", "date_trunc", "power", "sqrt"];

const NOT_A_ROW: &str = "only functions of a single row are; aggregates are what the session's mechanisms compute";
const KIND: &str = "allowed are columns, constants, arithmetic, comparisons, AND, OR, NOT, CASE, BETWEEN, IN lists, \
                    LIKE, IS NULL, CAST and functions of one row";
const FUNCTION: &str = "allowed are abs, ceil, floor, round, trunc, sqrt, cbrt, exp, ln, log2, log10, power, signum, \
                        isnan, sin, cos, tan and their kin, date_part, extract, date_trunc, coalesce, nullif, \
                        greatest, least, lower, upper, trim, length, substr, left, right, strpos, contains, \
                        starts_with, ends_with, ascii and concat";
const OPERATOR: &str = "allowed are + - * / % = <> < <= > >= AND OR || and IS DISTINCT FROM";
const PATTERN: &str = "the pattern of LIKE must be written out, without ESCAPE";
const NESTED: &str = "a query in a query reads other rows; only the row itself may be looked at";

/// Refuses an expression unless every part of it is on the list.
pub(super) fn check(place: &str, expression: &Expr) -> Result<(), QueryRefusal> {
    weigh(place, expression).map(drop)
}

/// The weight of an expression all of whose parts are allowed.
fn weigh(place: &str, expression: &Expr) -> Result<u64, QueryRefusal> {
    let weight = weigh_kind(place, expression)?;
    // Refused on the way up, so that no sum of weights grows large.
    if weight > HEAVIEST { Err(QueryRefusal::TooLarge { expression: place.to_owned() }) } else { Ok(weight) }
}

fn weigh_kind(place: &str, expression: &Expr) -> Result<u64, QueryRefusal> {
    let refused = |why| Err(QueryRefusal::part(place, expression.human_display(), why));
    let all = |parts: &[&Expr]| {
        let weights = parts.iter().map(|part| weigh(place, part));
        weights.sum::<Result<u64, QueryRefusal>>().map(|weight| weight + 1)
    };
    match expression {
        Expr::Column(_) | Expr::Literal(..) => Ok(1),
        Expr::Alias(alias) => all(&[&alias.expr]),
        Expr::Not(inner)
        | Expr::Negative(inner)
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotUnknown(inner) => all(&[inner]),
        Expr::Cast(cast) => all(&[&cast.expr]),
        Expr::TryCast(cast) => all(&[&cast.expr]),
        Expr::BinaryExpr(binary) if allowed_operator(binary.op) => all(&[&binary.left, &binary.right]),
        Expr::BinaryExpr(_) => refused(OPERATOR),
        Expr::Like(like) if matches!(*like.pattern, Expr::Literal(..)) && like.escape_char.is_none() => {
            all(&[&like.expr])
        }
        Expr::Like(_) => refused(PATTERN),
        // What lies between is evaluated against both ends.
        Expr::Between(between) => all(&[&between.expr, &between.expr, &between.low, &between.high]),
        Expr::InList(list) => {
            let mut parts: Vec<&Expr> = list.list.iter().collect();
            parts.push(&list.expr);
            all(&parts)
        }
        Expr::Case(case) => {
            let mut parts: Vec<&Expr> = case.expr.iter().chain(&case.else_expr).map(AsRef::as_ref).collect();
            parts.extend(case.when_then_expr.iter().flat_map(|(when, then)| [when.as_ref(), then.as_ref()]));
            all(&parts)
        }
        Expr::ScalarFunction(function) => weigh_function(place, expression, function),
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => refused(NOT_A_ROW),
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => refused(NESTED),
        _ => refused(KIND),
    }
}

fn weigh_function(place: &str, expression: &Expr, function: &ScalarFunction) -> Result<u64, QueryRefusal> {
    let name = function.name();
    let written_out = WRITTEN_OUT.iter().find(|(known, ..)| *known == name);
    let known = [REAL, TEXT, CHOICE].iter().any(|list| list.contains(&name)) || written_out.is_some();
    // The lists hold immutable functions only. Should one ever change its nature it is refused.
    if !known || function.func.signature().volatility != Volatility::Immutable {
        return Err(QueryRefusal::part(place, format!("{name}()"), FUNCTION));
    }
    if let Some((_, places, what)) = written_out {
        let mut constants = function.args.iter().enumerate().filter(|(argument, _)| places.contains(argument));
        if !constants.all(|(_, argument)| is_small_constant(argument)) {
            return Err(QueryRefusal::part(place, expression.human_display(), what));
        }
    }
    let weights = function.args.iter().map(|argument| weigh(place, argument));
    let weight = weights.sum::<Result<u64, QueryRefusal>>()?;
    Ok(1 + if GUARDED.contains(&name) { 3 * weight } else { weight })
}

/// A text, or a whole number that is neither negative nor large.
fn is_small_constant(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => (0..=1_000_000).contains(number),
        Expr::Literal(ScalarValue::Utf8(Some(_)) | ScalarValue::Utf8View(Some(_)), _) => true,
        _ => false,
    }
}

const fn allowed_operator(operator: Operator) -> bool {
    arithmetic(operator)
        || matches!(
            operator,
            Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::And
                | Operator::Or
                | Operator::IsDistinctFrom
                | Operator::IsNotDistinctFrom
                | Operator::StringConcat
        )
}

/// Whether the operator computes with numbers.
pub(super) const fn arithmetic(operator: Operator) -> bool {
    matches!(operator, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo)
}
