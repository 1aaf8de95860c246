//! Between which numbers an expression lies, from the declared bounds of columns alone.
//!
//! A sum is private only if what one row can add is known before any row is seen. What is worked out here is clipped
//! to by the kernel, so a mistake would make an answer wrong, never less private.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    UnaryOperator, Value,
};

use super::refusal::QuestionRefusal;
use crate::stream::{Kind, StreamFile};

/// The least and the greatest value; infinite where there is none.
pub(super) type Span = (f64, f64);

const EVERYTHING: Span = (f64::NEG_INFINITY, f64::INFINITY);
const TRUTH: Span = (0.0, 1.0);

/// The column's name as SQL means it: folded to lower case unless it is quoted.
pub(super) fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// The name of a function and its plain arguments; nothing where an argument is no expression.
pub(super) fn called(function: &Function) -> Option<(String, Vec<&Expr>)> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expression)) => Some(expression),
        _ => None,
    };
    let arguments = list.args.iter().map(plain).collect::<Option<Vec<&Expr>>>()?;
    Some((function.name.to_string().to_lowercase(), arguments))
}

/// The text that is written out, if the expression is one.
pub(super) fn text_of(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        Expr::Nested(inner) => text_of(inner),
        _ => None,
    }
}

/// The number that is written out, if the expression is one.
pub(super) fn number_of(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.to_string().parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        },
        Expr::Nested(inner) => number_of(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number_of(expr).map(|number| -number),
        _ => None,
    }
}

/// The values that a part of a time can have; nothing for parts without an end.
pub(super) fn part_of_time(part: &str) -> Option<(i64, i64)> {
    Some(match part.to_lowercase().as_str() {
        "hour" => (0, 23),
        "minute" | "second" => (0, 59),
        "dow" => (0, 6),
        "isodow" => (1, 7),
        "day" => (1, 31),
        "doy" => (1, 366),
        "week" => (1, 53),
        "month" => (1, 12),
        "quarter" => (1, 4),
        _ => return None,
    })
}

/// The part of a time that is asked for, in either of its two spellings.
pub(super) fn asked_part(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Extract { field, .. } => Some(field_name(field)),
        Expr::Function(function) => match called(function) {
            Some((name, arguments)) if matches!(name.as_str(), "date_part" | "datepart") => {
                arguments.first().and_then(|part| text_of(part)).map(str::to_owned)
            }
            _ => None,
        },
        _ => None,
    }
}

fn field_name(field: &DateTimeField) -> String {
    field.to_string().to_lowercase()
}

/// Whether the expression is true or false.
pub(super) fn is_truth(expression: &Expr, file: &StreamFile) -> bool {
    match expression {
        Expr::Nested(inner) => is_truth(inner, file),
        Expr::Identifier(name) => {
            file.column(&folded(name)).is_some_and(|(_, column)| matches!(column.kind, Kind::Boolean))
        }
        Expr::UnaryOp { op: UnaryOperator::Not, .. }
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::Between { .. }
        | Expr::InList { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. } => true,
        Expr::BinaryOp { op, .. } => matches!(
            op,
            BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
                | BinaryOperator::And
                | BinaryOperator::Or
        ),
        _ => false,
    }
}

/// Between which numbers the expression lies.
///
/// # Errors
/// When a column does not exist or is no number.
pub(super) fn span(expression: &Expr, file: &StreamFile) -> Result<Span, QuestionRefusal> {
    if let Some(number) = number_of(expression) {
        return Ok((number, number));
    }
    if is_truth(expression, file) {
        return Ok(TRUTH);
    }
    let of = |part: &Expr| span(part, file);
    Ok(match expression {
        Expr::Nested(inner) => of(inner)?,
        Expr::Identifier(name) => column(name, file)?,
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let (low, high) = of(expr)?;
            (-high, -low)
        }
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => of(expr)?,
        Expr::BinaryOp { left, op, right } => combined(op, of(left)?, of(right)?),
        Expr::Floor { expr, .. } => mapped(of(expr)?, f64::floor),
        Expr::Ceil { expr, .. } => mapped(of(expr)?, f64::ceil),
        Expr::Cast { expr, .. } => of(expr)?,
        Expr::Case { conditions, else_result, .. } => {
            let results = conditions.iter().map(|CaseWhen { result, .. }| result);
            hull(results.chain(else_result.as_deref()), file)?
        }
        Expr::Extract { .. } => asked_part(expression).map_or(EVERYTHING, |part| of_part(&part)),
        Expr::Function(function) => of_function(function, expression, file)?,
        _ => EVERYTHING,
    })
}

fn column(name: &Ident, file: &StreamFile) -> Result<Span, QuestionRefusal> {
    let folded = folded(name);
    let Some((_, column)) = file.column(&folded) else {
        let names: Vec<&str> = file.columns.iter().map(|column| column.name.as_str()).collect();
        let meant = crate::suggest::nearest(&folded, &names);
        let meant =
            meant.map_or_else(|| format!("it has {}", names.join(", ")), |meant| format!("did you mean {meant}?"));
        return Err(QuestionRefusal::new(name, format!("the stream has no such column; {meant}")));
    };
    match &column.kind {
        Kind::Number { min, max, .. } => Ok((*min, *max)),
        Kind::Integer { min, max, .. } => Ok((*min as f64, *max as f64)),
        Kind::Boolean => Ok(TRUTH),
        Kind::Time { .. } => {
            Err(QuestionRefusal::new(name, "a time is no number; take a part of it, as in extract(hour from ...)"))
        }
        Kind::Category { .. } | Kind::Text { .. } => {
            Err(QuestionRefusal::new(name, "text is no number; count its values with GROUP BY or WHERE"))
        }
    }
}

fn of_part(part: &str) -> Span {
    part_of_time(part).map_or(EVERYTHING, |(low, high)| (low as f64, high as f64))
}

fn of_function(function: &Function, expression: &Expr, file: &StreamFile) -> Result<Span, QuestionRefusal> {
    if let Some(part) = asked_part(expression) {
        return Ok(of_part(&part));
    }
    let Some((name, arguments)) = called(function) else { return Ok(EVERYTHING) };
    let spans = || arguments.iter().map(|part| span(part, file)).collect::<Result<Vec<Span>, _>>();
    let first = || arguments.first().map_or(Ok(EVERYTHING), |part| span(part, file));
    let folded = |choose: fn(f64, f64) -> f64| -> Result<Span, QuestionRefusal> {
        let both = spans()?.into_iter().reduce(|one, two| (choose(one.0, two.0), choose(one.1, two.1)));
        Ok(both.unwrap_or(EVERYTHING))
    };
    Ok(match name.as_str() {
        "least" => folded(f64::min)?,
        "greatest" => folded(f64::max)?,
        "coalesce" => hull(arguments.iter().copied(), file)?,
        "nullif" => first()?,
        "floor" => mapped(first()?, f64::floor),
        "ceil" => mapped(first()?, f64::ceil),
        // To some digits it moves a number by less than one.
        "round" | "trunc" if arguments.len() == 1 => mapped(first()?, f64::round),
        "round" | "trunc" => mapped(first()?, |end| end),
        "sqrt" => mapped(first()?, |end| end.max(0.0).sqrt()),
        "abs" => {
            let (low, high) = first()?;
            let least = if low <= 0.0 && high >= 0.0 { 0.0 } else { low.abs().min(high.abs()) };
            (least, low.abs().max(high.abs()))
        }
        _ => EVERYTHING,
    })
}

fn mapped((low, high): Span, rising: impl Fn(f64) -> f64) -> Span {
    (rising(low), rising(high))
}

fn hull<'part>(parts: impl Iterator<Item = &'part Expr>, file: &StreamFile) -> Result<Span, QuestionRefusal> {
    let mut found: Option<Span> = None;
    for part in parts.filter(|part| !is_null(part)) {
        let (low, high) = span(part, file)?;
        found = Some(found.map_or((low, high), |(least, most)| (least.min(low), most.max(high))));
    }
    Ok(found.unwrap_or(EVERYTHING))
}

fn is_null(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(value) if value.value == Value::Null)
}

/// What an operator makes of two spans. Arithmetic is that of real numbers.
fn combined(operator: &BinaryOperator, one: Span, two: Span) -> Span {
    let corners = |with: fn(f64, f64) -> f64| {
        let all = [with(one.0, two.0), with(one.0, two.1), with(one.1, two.0), with(one.1, two.1)];
        match all.iter().any(|corner| corner.is_nan()) {
            true => EVERYTHING,
            false => (all.into_iter().fold(f64::INFINITY, f64::min), all.into_iter().fold(f64::NEG_INFINITY, f64::max)),
        }
    };
    match operator {
        BinaryOperator::Plus => corners(|one, two| one + two),
        BinaryOperator::Minus => corners(|one, two| one - two),
        BinaryOperator::Multiply => corners(|one, two| one * two),
        BinaryOperator::Divide if two.0 > 0.0 || two.1 < 0.0 => corners(|one, two| one / two),
        BinaryOperator::Modulo => {
            let most = two.0.abs().max(two.1.abs());
            (if one.0 >= 0.0 { 0.0 } else { -most }, if one.1 <= 0.0 { 0.0 } else { most })
        }
        _ => EVERYTHING,
    }
}
