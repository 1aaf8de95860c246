//! The range of an expression's values, from the declared bounds of columns.
//!
//! A sum is private only if the contribution of one row is bounded before any row is read. The kernel clips to the
//! range computed here, so a mistake would make a result wrong, never less private.

use sage_sql::{BinaryOperator, Expr, Identifier, UnaryOperator};

use super::refusal::PrivateQueryRefusal;
use crate::stream::{Kind, StreamFile};

/// The smallest and the largest value; infinite if unbounded.
pub(super) type Span = (f64, f64);

const UNBOUNDED: Span = (f64::NEG_INFINITY, f64::INFINITY);
const BOOLEAN: Span = (0.0, 1.0);

/// The text of a literal.
pub(super) fn literal_text(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Text(text) => Some(text),
        _ => None,
    }
}

/// The number of a literal.
pub(super) fn literal_number(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::Number(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        Expr::Unary(UnaryOperator::Minus, of) => literal_number(of).map(|number| -number),
        _ => None,
    }
}

/// The values that a part of a time can have; `None` for unbounded parts.
pub(super) fn time_part_range(part: &str) -> Option<(i64, i64)> {
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

/// The part of a time that the expression extracts.
pub(super) fn time_part(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Call(name, arguments) if matches!(name.as_str(), "date_part" | "datepart") => {
            arguments.first().and_then(literal_text)
        }
        _ => None,
    }
}

/// Whether the expression is boolean.
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

/// The range of the expression's values.
///
/// # Errors
/// When a column does not exist or is not numeric.
pub(super) fn value_span(expression: &Expr, file: &StreamFile) -> Result<Span, PrivateQueryRefusal> {
    if let Some(number) = literal_number(expression) {
        return Ok((number, number));
    }
    if is_truth(expression, file) {
        return Ok(BOOLEAN);
    }
    let span = |part: &Expr| value_span(part, file);
    Ok(match expression {
        Expr::Column(name) => column_span(name, file)?,
        Expr::Unary(UnaryOperator::Minus, inner) => {
            let (low, high) = span(inner)?;
            (-high, -low)
        }
        Expr::Unary(UnaryOperator::Plus, inner) => span(inner)?,
        Expr::Cast(inner, _) => cast_span(inner, file)?,
        Expr::Binary(operator, left, right) => combine_spans(*operator, span(left)?, span(right)?),
        Expr::Case(case) => {
            let results = case.branches.iter().map(|(_, result)| result);
            hull(results.chain(case.otherwise.as_deref()), file)?
        }
        Expr::Call(name, arguments) => match time_part(expression) {
            Some(part) => time_part_span(part),
            None => function_span(name, arguments, file)?,
        },
        _ => UNBOUNDED,
    })
}

/// The range of a cast. It can truncate a number; a cast of a text or a time is unbounded.
fn cast_span(inner: &Expr, file: &StreamFile) -> Result<Span, PrivateQueryRefusal> {
    match inner {
        Expr::Text(_) | Expr::Typed(..) => Ok(UNBOUNDED),
        Expr::Column(name) => match file.column(&name.name).map(|(_, column)| &column.kind) {
            Some(Kind::Time { .. } | Kind::Category { .. } | Kind::Text { .. } | Kind::Hashed) => Ok(UNBOUNDED),
            _ => value_span(inner, file).map(truncate_span),
        },
        _ => value_span(inner, file).map(truncate_span),
    }
}

fn truncate_span((low, high): Span) -> Span {
    (low.min(low.trunc()), high.max(high.trunc()))
}

fn column_span(name: &Identifier, file: &StreamFile) -> Result<Span, PrivateQueryRefusal> {
    let Some((_, column)) = file.column(&name.name) else {
        let names: Vec<&str> = file.columns.iter().map(|column| column.name.as_str()).collect();
        let suggestion = crate::suggest::nearest(&name.name, &names);
        let suggestion = suggestion
            .map_or_else(|| format!("it has {}", names.join(", ")), |suggestion| format!("did you mean {suggestion}?"));
        return Err(PrivateQueryRefusal::new(name, format!("the stream has no such column; {suggestion}")));
    };
    match &column.kind {
        Kind::Number { min, max, .. } => Ok((*min, *max)),
        Kind::Integer { min, max, .. } => Ok((*min as f64, *max as f64)),
        Kind::Boolean => Ok(BOOLEAN),
        Kind::Time { .. } => Err(PrivateQueryRefusal::new(
            name,
            "a time is not a number; extract a part of it, as in extract(hour from ...)",
        )),
        Kind::Category { .. } | Kind::Text { .. } | Kind::Hashed => {
            Err(PrivateQueryRefusal::new(name, "text is not a number; count its values with GROUP BY or WHERE"))
        }
    }
}

fn time_part_span(part: &str) -> Span {
    time_part_range(part).map_or(UNBOUNDED, |(low, high)| (low as f64, high as f64))
}

fn function_span(name: &str, arguments: &[Expr], file: &StreamFile) -> Result<Span, PrivateQueryRefusal> {
    let spans = || arguments.iter().map(|part| value_span(part, file)).collect::<Result<Vec<Span>, _>>();
    let first = || arguments.first().map_or(Ok(UNBOUNDED), |part| value_span(part, file));
    let folded = |choose: fn(f64, f64) -> f64| -> Result<Span, PrivateQueryRefusal> {
        let both = spans()?.into_iter().reduce(|one, two| (choose(one.0, two.0), choose(one.1, two.1)));
        Ok(both.unwrap_or(UNBOUNDED))
    };
    Ok(match name {
        "least" => folded(f64::min)?,
        "greatest" => folded(f64::max)?,
        "coalesce" => hull(arguments.iter(), file)?,
        "nullif" => first()?,
        "floor" => map_span(first()?, f64::floor),
        "ceil" | "ceiling" => map_span(first()?, f64::ceil),
        // Rounding to digits moves a number by less than one.
        "round" | "trunc" if arguments.len() == 1 => map_span(first()?, f64::round),
        "round" | "trunc" => map_span(first()?, |end| end),
        "sqrt" => map_span(first()?, |end| end.max(0.0).sqrt()),
        "abs" => {
            let (low, high) = first()?;
            let least = if low <= 0.0 && high >= 0.0 { 0.0 } else { low.abs().min(high.abs()) };
            (least, low.abs().max(high.abs()))
        }
        _ => UNBOUNDED,
    })
}

fn map_span((low, high): Span, rising: impl Fn(f64) -> f64) -> Span {
    (rising(low), rising(high))
}

fn hull<'part>(parts: impl Iterator<Item = &'part Expr>, file: &StreamFile) -> Result<Span, PrivateQueryRefusal> {
    let mut found: Option<Span> = None;
    for part in parts.filter(|part| **part != Expr::Null) {
        let (low, high) = value_span(part, file)?;
        found = Some(found.map_or((low, high), |(least, most)| (least.min(low), most.max(high))));
    }
    Ok(found.unwrap_or(UNBOUNDED))
}

/// The range of a binary operator on two ranges, in real arithmetic.
fn combine_spans(operator: BinaryOperator, one: Span, two: Span) -> Span {
    let corners = |with: fn(f64, f64) -> f64| {
        let all = [with(one.0, two.0), with(one.0, two.1), with(one.1, two.0), with(one.1, two.1)];
        match all.iter().any(|corner| corner.is_nan()) {
            true => UNBOUNDED,
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
        _ => UNBOUNDED,
    }
}
