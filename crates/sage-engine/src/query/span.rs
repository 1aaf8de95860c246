//! Between which numbers an expression lies, from the declared bounds of columns alone.
//!
//! A sum is private only if what one row can add is known before any row is seen. What is worked out here is clipped
//! to by the kernel, so a mistake would make an answer wrong, never less private.

use sage_sql::{BinaryOperator, Expr, Identifier, UnaryOperator};

use super::refusal::QuestionRefusal;
use crate::stream::{Kind, StreamFile};

/// The least and the greatest value; infinite where there is none.
pub(super) type Span = (f64, f64);

const EVERYTHING: Span = (f64::NEG_INFINITY, f64::INFINITY);
const TRUTH: Span = (0.0, 1.0);

/// The text of a literal.
pub(super) fn text_of(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Text(text) => Some(text),
        _ => None,
    }
}

/// The number of a literal.
pub(super) fn number_of(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::Number(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        Expr::Unary(UnaryOperator::Minus, of) => number_of(of).map(|number| -number),
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

/// The part of a time that is asked for.
pub(super) fn asked_part(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Call(name, arguments) if matches!(name.as_str(), "date_part" | "datepart") => {
            arguments.first().and_then(text_of)
        }
        _ => None,
    }
}

/// Whether the expression is true or false.
pub(super) fn is_truth(expression: &Expr, file: &StreamFile) -> bool {
    match expression {
        Expr::Column(name) => file.column(&name.name).is_some_and(|(_, column)| matches!(column.kind, Kind::Boolean)),
        Expr::Boolean(_)
        | Expr::Unary(UnaryOperator::Not, _)
        | Expr::All(_)
        | Expr::Any(_)
        | Expr::Is(..)
        | Expr::Between { .. }
        | Expr::InList { .. }
        | Expr::Like { .. } => true,
        Expr::Binary(operator, ..) => !matches!(
            operator,
            BinaryOperator::Add
                | BinaryOperator::Subtract
                | BinaryOperator::Multiply
                | BinaryOperator::Divide
                | BinaryOperator::Remainder
                | BinaryOperator::Concatenate
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
        Expr::Column(name) => column(name, file)?,
        Expr::Unary(UnaryOperator::Minus, inner) => {
            let (low, high) = of(inner)?;
            (-high, -low)
        }
        Expr::Unary(UnaryOperator::Plus, inner) => of(inner)?,
        Expr::Cast(inner, _) => cast(inner, file)?,
        Expr::Binary(operator, left, right) => combined(*operator, of(left)?, of(right)?),
        Expr::Case(case) => {
            let results = case.branches.iter().map(|(_, result)| result);
            hull(results.chain(case.otherwise.as_deref()), file)?
        }
        Expr::Call(name, arguments) => match asked_part(expression) {
            Some(part) => of_part(part),
            None => of_function(name, arguments, file)?,
        },
        _ => EVERYTHING,
    })
}

/// A cast can truncate a number; what a text or a time is cast to is not known from declared bounds.
fn cast(inner: &Expr, file: &StreamFile) -> Result<Span, QuestionRefusal> {
    match inner {
        Expr::Text(_) | Expr::Typed(..) => Ok(EVERYTHING),
        Expr::Column(name) => match file.column(&name.name).map(|(_, column)| &column.kind) {
            Some(Kind::Time { .. } | Kind::Category { .. } | Kind::Text { .. }) => Ok(EVERYTHING),
            _ => span(inner, file).map(truncated),
        },
        _ => span(inner, file).map(truncated),
    }
}

fn truncated((low, high): Span) -> Span {
    (low.min(low.trunc()), high.max(high.trunc()))
}

fn column(name: &Identifier, file: &StreamFile) -> Result<Span, QuestionRefusal> {
    let Some((_, column)) = file.column(&name.name) else {
        let names: Vec<&str> = file.columns.iter().map(|column| column.name.as_str()).collect();
        let meant = crate::suggest::nearest(&name.name, &names);
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

fn of_function(name: &str, arguments: &[Expr], file: &StreamFile) -> Result<Span, QuestionRefusal> {
    let spans = || arguments.iter().map(|part| span(part, file)).collect::<Result<Vec<Span>, _>>();
    let first = || arguments.first().map_or(Ok(EVERYTHING), |part| span(part, file));
    let folded = |choose: fn(f64, f64) -> f64| -> Result<Span, QuestionRefusal> {
        let both = spans()?.into_iter().reduce(|one, two| (choose(one.0, two.0), choose(one.1, two.1)));
        Ok(both.unwrap_or(EVERYTHING))
    };
    Ok(match name {
        "least" => folded(f64::min)?,
        "greatest" => folded(f64::max)?,
        "coalesce" => hull(arguments.iter(), file)?,
        "nullif" => first()?,
        "floor" => mapped(first()?, f64::floor),
        "ceil" | "ceiling" => mapped(first()?, f64::ceil),
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
    for part in parts.filter(|part| **part != Expr::Null) {
        let (low, high) = span(part, file)?;
        found = Some(found.map_or((low, high), |(least, most)| (least.min(low), most.max(high))));
    }
    Ok(found.unwrap_or(EVERYTHING))
}

/// What an operator makes of two spans. Arithmetic is that of real numbers.
fn combined(operator: BinaryOperator, one: Span, two: Span) -> Span {
    let corners = |with: fn(f64, f64) -> f64| {
        let all = [with(one.0, two.0), with(one.0, two.1), with(one.1, two.0), with(one.1, two.1)];
        match all.iter().any(|corner| corner.is_nan()) {
            true => EVERYTHING,
            false => (all.into_iter().fold(f64::INFINITY, f64::min), all.into_iter().fold(f64::NEG_INFINITY, f64::max)),
        }
    };
    match operator {
        BinaryOperator::Add => corners(|one, two| one + two),
        BinaryOperator::Subtract => corners(|one, two| one - two),
        BinaryOperator::Multiply => corners(|one, two| one * two),
        BinaryOperator::Divide if two.0 > 0.0 || two.1 < 0.0 => corners(|one, two| one / two),
        BinaryOperator::Remainder => {
            let most = two.0.abs().max(two.1.abs());
            (if one.0 >= 0.0 { 0.0 } else { -most }, if one.1 <= 0.0 { 0.0 } else { most })
        }
        _ => EVERYTHING,
    }
}
