//! Makes an expression total: whatever a row holds, evaluating it gives a value or null, never an error.
//!
//! An error that depends on a row tells something about the row, and so would a message that quotes it.
//! So what the planner made is rewritten:
//!
//! - arithmetic, and functions of real numbers, work on 64-bit floating-point numbers; `7 / 2` is 3.5,
//!   `1 / 0` is infinite, and nothing overflows;
//! - a cast that fails gives null, also where the planner put it in;
//! - the root of a negative number and `0` to a negative power are null, and so is a time
//!   outside the years 1700 to 2199 (columns are treated so before an expression sees them, in `evaluate`);
//! - `coalesce` becomes the CASE it stands for, since the planner's own form cannot be evaluated.
//!
//! The types are looked at on the way, and what has no such form is refused.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{BinaryExpr, Case, ScalarFunction};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, ExprSchemable, TryCast, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::scalar::ScalarValue;

use super::allow::{REAL, arithmetic};
use super::refusal::QueryRefusal;

/// The days, counted from 1970, of the years 1700 to 2199. Each unit of time can hold them, rounding included.
pub(super) const DAYS: std::ops::Range<i64> = -98_615..84_006;

const NUMBERS_ONLY: &str = "it computes with numbers alone; for times write extract(epoch from ...), which is in \
                            seconds, and for text CAST(... AS DOUBLE)";
const TYPES: &str = "there are truth values, numbers, text, dates and timestamps in UTC";
const TIME_FROM: &str = "a time is cast from text or from a time";
const TEXT_FROM_TIME: &str = "a time has no cast to text; write extract(year from ...) and the like";
const CONSTANT: &str = "the constant cannot be read as that type";

/// Rewrites an expression that `allow` has passed. The planner's own complaints come back as they are.
pub(super) fn make(place: &str, expression: Expr, schema: &DFSchema) -> Result<Expr, QueryRefusal> {
    let expression = rewrite(place, expression, |part| before_coercion(place, part, schema))?;
    let simplifier = ExprSimplifier::new(SimplifyContext::default());
    let coerced = simplifier.coerce(expression, schema).map_err(|error| unreadable(place, &error))?;
    rewrite(place, coerced, |part| after_coercion(place, part, schema))
}

/// The same cast to this type, null where a value cannot be cast.
pub(super) fn cast_to(expression: Expr, to: DataType) -> Expr {
    Expr::TryCast(TryCast::new(Box::new(expression), to))
}

/// Rewrites every part, the innermost first.
fn rewrite(
    place: &str, expression: Expr, mut rule: impl FnMut(Expr) -> Result<Expr, QueryRefusal>,
) -> Result<Expr, QueryRefusal> {
    let mut refusal = None;
    let rewritten = expression.transform_up(|part| match rule(part) {
        Ok(part) => Ok(Transformed::yes(part)),
        Err(why) => {
            refusal = Some(why);
            Err(DataFusionError::Plan(String::new()))
        }
    });
    match (rewritten, refusal) {
        (_, Some(refusal)) => Err(refusal),
        (Ok(rewritten), None) => Ok(rewritten.data),
        (Err(error), None) => Err(unreadable(place, &error)),
    }
}

fn unreadable(place: &str, error: &DataFusionError) -> QueryRefusal {
    QueryRefusal::unreadable(place, error.strip_backtrace())
}

fn before_coercion(place: &str, part: Expr, schema: &DFSchema) -> Result<Expr, QueryRefusal> {
    let shown = part.human_display().to_string();
    let real = |operand: Expr| {
        let found = operand.get_type(schema).map_err(|error| unreadable(place, &error))?;
        match found {
            DataType::Float64 => Ok(operand),
            _ if found.is_numeric() || found.is_null() => Ok(cast_to(operand, DataType::Float64)),
            _ => Err(QueryRefusal::part(place, &shown, NUMBERS_ONLY)),
        }
    };
    Ok(match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if arithmetic(op) => {
            Expr::BinaryExpr(BinaryExpr::new(Box::new(real(*left)?), op, Box::new(real(*right)?)))
        }
        Expr::Negative(inner) => Expr::Negative(Box::new(real(*inner)?)),
        Expr::ScalarFunction(ScalarFunction { func, args }) => match func.name() {
            "coalesce" => first_that_is_not_null(args),
            name if REAL.contains(&name) => {
                let args = args.into_iter().map(real).collect::<Result<Vec<Expr>, _>>()?;
                Expr::ScalarFunction(ScalarFunction { func, args })
            }
            "round" | "trunc" => {
                let mut args = args;
                let number = real(args.remove(0))?;
                args.insert(0, number);
                Expr::ScalarFunction(ScalarFunction { func, args })
            }
            "sqrt" => {
                let roots = args.into_iter().map(real);
                let positive = |number: Expr| unless(number.clone().lt(lit(0.0)), ScalarValue::Float64(None), number);
                let args = roots.map(|number| number.map(positive)).collect::<Result<Vec<Expr>, _>>()?;
                Expr::ScalarFunction(ScalarFunction { func, args })
            }
            "power" => {
                let mut args = args.into_iter().map(real).collect::<Result<Vec<Expr>, _>>()?;
                if let [base, exponent] = args.as_mut_slice() {
                    // Comparisons tell -0 from 0; what is added to 0 has no sign then.
                    let zero = (base.clone() + lit(0.0)).eq(lit(0.0));
                    let fails = zero.and(exponent.clone().lt(lit(0.0)));
                    *base = unless(fails, ScalarValue::Float64(None), base.clone());
                }
                Expr::ScalarFunction(ScalarFunction { func, args })
            }
            _ => Expr::ScalarFunction(ScalarFunction { func, args }),
        },
        other => other,
    })
}

/// The value, or this null where the condition holds.
fn unless(fails: Expr, null: ScalarValue, value: Expr) -> Expr {
    Expr::Case(Case::new(None, vec![(Box::new(fails), Box::new(lit(null)))], Some(Box::new(value))))
}

fn first_that_is_not_null(mut arguments: Vec<Expr>) -> Expr {
    let last = arguments.pop().unwrap_or_else(|| lit(ScalarValue::Null));
    if arguments.is_empty() {
        return last;
    }
    let cases = arguments.into_iter().map(|value| (Box::new(value.clone().is_not_null()), Box::new(value)));
    Expr::Case(Case::new(None, cases.collect(), Some(Box::new(last))))
}

fn after_coercion(place: &str, part: Expr, schema: &DFSchema) -> Result<Expr, QueryRefusal> {
    let (inner, to) = match part {
        Expr::Cast(cast) => (*cast.expr, cast.field.data_type().clone()),
        Expr::TryCast(cast) => (*cast.expr, cast.field.data_type().clone()),
        other => {
            let found = other.get_type(schema).map_err(|error| unreadable(place, &error))?;
            return match known_type(&found) {
                true => Ok(other),
                false => Err(QueryRefusal::part(place, other.human_display(), TYPES)),
            };
        }
    };
    let from = inner.get_type(schema).map_err(|error| unreadable(place, &error))?;
    let refused = |why| Err(QueryRefusal::part(place, format!("CAST({} AS {to})", inner.human_display()), why));
    if !known_type(&to) && !to.is_decimal() {
        return refused(TYPES);
    }
    if is_time(&to) && !is_time(&from) && !is_text(&from) && !from.is_null() {
        return refused(TIME_FROM);
    }
    if is_text(&to) && is_time(&from) {
        return refused(TEXT_FROM_TIME);
    }
    if let Expr::Literal(value, _) = &inner {
        return match value.cast_to(&to) {
            Ok(cast) if value.is_null() || !cast.is_null() => Ok(Expr::Literal(cast, None)),
            _ => refused(CONSTANT),
        };
    }
    let cast = cast_to(inner, to.clone());
    Ok(if is_text(&from) && is_time(&to) { within_years(cast, &to) } else { cast })
}

/// The time, or null if it is too far away to be computed with.
fn within_years(time: Expr, of: &DataType) -> Expr {
    let limit = |days: i64| {
        let day = i32::try_from(days).unwrap_or_default();
        ScalarValue::Date32(Some(day)).cast_to(of).unwrap_or(ScalarValue::Null)
    };
    let outside = time.clone().lt(lit(limit(DAYS.start))).or(time.clone().gt_eq(lit(limit(DAYS.end))));
    unless(outside, ScalarValue::try_from(of).unwrap_or(ScalarValue::Null), time)
}

/// The types that a column, a constant or an intermediate result may have.
pub(super) fn known_type(found: &DataType) -> bool {
    let universal = |zone: &str| matches!(zone, "UTC" | "+00:00" | "Z");
    match found {
        DataType::Timestamp(_, zone) => zone.as_deref().is_none_or(universal),
        DataType::Null | DataType::Boolean | DataType::Date32 => true,
        DataType::Float16 => false,
        other => other.is_integer() || other.is_floating() || is_text(other),
    }
}

pub(super) fn is_text(found: &DataType) -> bool {
    matches!(found, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_time(found: &DataType) -> bool {
    found.is_temporal()
}

/// How many of the unit a day has.
pub(super) const fn in_a_day(unit: TimeUnit) -> i64 {
    86_400
        * match unit {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        }
}
