//! Type coercion and casts.

use super::Planned;
use crate::calendar;
use crate::program::{Boolean, Float, Integer, Kind, Pair, Text, Time, Tree, Unit};
use crate::refusal::Refusal;
use crate::syntax::{Expr, TypeName};

const CONSTANT: &str = "the literal cannot be read as the type that it is compared with or cast to";
const MIXED: &str = "its operands are of different types; cast one of them";
const TIME_FROM: &str = "only a text or a time can be cast to a time";
const TEXT_FROM_TIME: &str = "a time has no cast to text; write extract(year from ...) and the like";
const BOOLEAN_FROM_TIME: &str = "a time has no cast to a boolean; write a comparison";

/// Trees of one kind.
pub(super) enum SameKind {
    Null,
    Boolean(Vec<Boolean>),
    Integer(Vec<Integer>),
    Float(Vec<Float>),
    Text(Vec<Text>),
    Time(Vec<Time>),
}

/// A number as a float; `None` if the tree is not a number.
pub(super) fn float(tree: Tree) -> Option<Float> {
    match tree {
        Tree::Float(float) => Some(float),
        Tree::Integer(Integer::Constant(value)) => Some(Float::Constant(value.map(|value| value as f64))),
        Tree::Integer(integer) => Some(Float::FromInteger(Box::new(integer))),
        Tree::Null => Some(Float::Constant(None)),
        _ => None,
    }
}

/// A value as text; `None` if it is a time.
pub(super) fn text(tree: Tree) -> Option<Text> {
    match tree {
        Tree::Text(text) => Some(text),
        Tree::Integer(integer) => Some(Text::FromInteger(Box::new(integer))),
        Tree::Float(float) => Some(Text::FromFloat(Box::new(float))),
        Tree::Boolean(boolean) => Some(Text::FromBoolean(Box::new(boolean))),
        Tree::Null => Some(Text::Constant(None)),
        Tree::Time(_) => None,
    }
}

/// The kind in which values of two kinds are compared. A text that is compared with a number or a time is parsed.
fn common(left: Kind, right: Kind) -> Option<Kind> {
    use Kind::{Boolean, Float, Integer, Null, Text, Time};
    match (left, right) {
        (Null, other) | (other, Null) => Some(other),
        (one, other) if one == other => Some(one),
        (Integer, Float) | (Float, Integer) => Some(Float),
        (Boolean, Integer) | (Integer, Boolean) => Some(Integer),
        (Boolean, Float) | (Float, Boolean) => Some(Float),
        (Text, number @ (Integer | Float)) | (number @ (Integer | Float), Text) => Some(match number {
            Integer => Float,
            other => other,
        }),
        (Text, Time) | (Time, Text) => Some(Time),
        (Text, Boolean) | (Boolean, Text) => Some(Boolean),
        _ => None,
    }
}

/// Converts two values to one kind.
pub(super) fn pair(expression: &Expr, left: Tree, right: Tree) -> Planned<Pair> {
    let kind = common(left.kind(), right.kind()).ok_or_else(|| Refusal::part(expression, MIXED))?;
    Ok(match kind {
        // Two nulls are compared as integers, and booleans as 0 and 1.
        Kind::Null | Kind::Integer | Kind::Boolean => {
            Pair::Integer(Box::new(to_integer(expression, left)?), Box::new(to_integer(expression, right)?))
        }
        Kind::Float => Pair::Float(Box::new(to_float(expression, left)?), Box::new(to_float(expression, right)?)),
        Kind::Text => Pair::Text(Box::new(to_text(expression, left)?), Box::new(to_text(expression, right)?)),
        Kind::Time => Pair::Time(Box::new(to_time(expression, left)?), Box::new(to_time(expression, right)?)),
    })
}

/// Converts the results of CASE, coalesce, greatest and least to one kind. If one of them is a text, numbers become text.
pub(super) fn unify(expression: &Expr, trees: Vec<Tree>) -> Planned<SameKind> {
    use Kind::{Null, Text, Time};
    let mut kind = Null;
    for tree in &trees {
        kind = match (kind, tree.kind()) {
            (Text, other) | (other, Text) if !matches!(other, Time) => Text,
            (one, other) => common(one, other).ok_or_else(|| Refusal::part(expression, MIXED))?,
        };
    }
    let all = trees.into_iter();
    Ok(match kind {
        Kind::Null => SameKind::Null,
        Kind::Boolean => SameKind::Boolean(all.map(|tree| to_boolean(expression, tree)).collect::<Result<_, _>>()?),
        Kind::Integer => SameKind::Integer(all.map(|tree| to_integer(expression, tree)).collect::<Result<_, _>>()?),
        Kind::Float => SameKind::Float(all.map(|tree| to_float(expression, tree)).collect::<Result<_, _>>()?),
        Kind::Text => SameKind::Text(all.map(|tree| to_text(expression, tree)).collect::<Result<_, _>>()?),
        Kind::Time => SameKind::Time(all.map(|tree| to_time(expression, tree)).collect::<Result<_, _>>()?),
    })
}

fn to_boolean(expression: &Expr, tree: Tree) -> Planned<Boolean> {
    match tree {
        Tree::Boolean(boolean) => Ok(boolean),
        Tree::Null => Ok(Boolean::Constant(None)),
        Tree::Text(text) => Ok(Boolean::FromText(Box::new(text))),
        Tree::Integer(number) => Ok(Boolean::FromFloat(Box::new(Float::FromInteger(Box::new(number))))),
        Tree::Float(number) => Ok(Boolean::FromFloat(Box::new(number))),
        Tree::Time(_) => Err(Refusal::part(expression, MIXED)),
    }
}

fn to_integer(expression: &Expr, tree: Tree) -> Planned<Integer> {
    match tree {
        Tree::Integer(number) => Ok(number),
        Tree::Null => Ok(Integer::Constant(None)),
        Tree::Boolean(boolean) => Ok(Integer::FromBoolean(Box::new(boolean))),
        Tree::Text(text) => {
            // Only a text that is compared with a boolean gets here.
            let boolean = Boolean::FromText(Box::new(text));
            Ok(Integer::FromBoolean(Box::new(boolean)))
        }
        Tree::Float(_) | Tree::Time(_) => Err(Refusal::part(expression, MIXED)),
    }
}

fn to_float(expression: &Expr, tree: Tree) -> Planned<Float> {
    match tree {
        Tree::Text(Text::Constant(Some(text))) => match text.trim().parse::<f64>() {
            Ok(number) => Ok(Float::Constant(Some(number))),
            Err(_) => Err(Refusal::part(format!("'{text}' in {expression}"), CONSTANT)),
        },
        Tree::Text(text) => Ok(Float::FromText(Box::new(text))),
        Tree::Boolean(boolean) => Ok(Float::FromInteger(Box::new(Integer::FromBoolean(Box::new(boolean))))),
        other => float(other).ok_or_else(|| Refusal::part(expression, MIXED)),
    }
}

fn to_text(expression: &Expr, tree: Tree) -> Planned<Text> {
    text(tree).ok_or_else(|| Refusal::part(expression, TEXT_FROM_TIME))
}

fn to_time(expression: &Expr, tree: Tree) -> Planned<Time> {
    match tree {
        Tree::Time(time) => Ok(time),
        Tree::Null => Ok(Time::Constant(None)),
        Tree::Text(Text::Constant(Some(text))) => match calendar::parse_time(&text) {
            Some(time) => Ok(Time::Constant(Some(time))),
            None => Err(Refusal::part(format!("'{text}' in {expression}"), CONSTANT)),
        },
        Tree::Text(text) => Ok(Time::FromText(Box::new(text))),
        _ => Err(Refusal::part(expression, TIME_FROM)),
    }
}

/// A cast: null where a value cannot be converted. A literal that cannot be converted is refused.
pub(super) fn cast(expression: &Expr, of: Tree, to: TypeName) -> Planned<Tree> {
    // A time converts to a number as microseconds since 1970.
    let of = match (of, to) {
        (Tree::Time(_), TypeName::Text) => return Err(Refusal::part(expression, TEXT_FROM_TIME)),
        (Tree::Time(_), TypeName::Boolean) => return Err(Refusal::part(expression, BOOLEAN_FROM_TIME)),
        (of, TypeName::Date | TypeName::Timestamp) => of,
        (Tree::Time(time), _) => Tree::Integer(Integer::FromTime(Box::new(time))),
        (of, _) => of,
    };
    Ok(match to {
        TypeName::Boolean => match of {
            Tree::Text(Text::Constant(Some(text))) if !is_boolean(&text) => {
                return Err(Refusal::part(expression, CONSTANT));
            }
            other => Tree::Boolean(to_boolean(expression, other)?),
        },
        TypeName::TinyInt => integer(expression, of, (i64::from(i8::MIN), i64::from(i8::MAX)))?,
        TypeName::SmallInt => integer(expression, of, (i64::from(i16::MIN), i64::from(i16::MAX)))?,
        TypeName::Int => integer(expression, of, (i64::from(i32::MIN), i64::from(i32::MAX)))?,
        TypeName::BigInt => integer(expression, of, (i64::MIN, i64::MAX))?,
        TypeName::Double => Tree::Float(to_float(expression, of)?),
        TypeName::Real => {
            let double = Box::new(to_float(expression, of)?);
            Tree::Float(Float::Function(crate::program::Function::Single, double))
        }
        TypeName::Text => Tree::Text(to_text(expression, of)?),
        TypeName::Timestamp => Tree::Time(to_time(expression, of)?),
        TypeName::Date => Tree::Time(Time::Truncated(Unit::Day, Box::new(to_time(expression, of)?))),
    })
}

fn is_boolean(text: &str) -> bool {
    let named = ["true", "t", "yes", "y", "on", "1", "false", "f", "no", "n", "off", "0"];
    named.iter().any(|name| text.trim().eq_ignore_ascii_case(name))
}

fn integer(expression: &Expr, of: Tree, range: (i64, i64)) -> Planned<Tree> {
    let inside = |value: i64| (range.0..=range.1).contains(&value);
    Ok(Tree::Integer(match of {
        Tree::Null => Integer::Constant(None),
        Tree::Integer(Integer::Constant(Some(value))) if !inside(value) => {
            return Err(Refusal::part(expression, CONSTANT));
        }
        Tree::Integer(number) => Integer::Within(Box::new(number), range),
        Tree::Float(number) => Integer::FromFloat(Box::new(number), range),
        Tree::Boolean(boolean) => Integer::FromBoolean(Box::new(boolean)),
        Tree::Text(Text::Constant(Some(text))) => match text.trim().parse::<i64>() {
            Ok(value) if inside(value) => Integer::Constant(Some(value)),
            _ => return Err(Refusal::part(expression, CONSTANT)),
        },
        Tree::Text(text) => Integer::FromText(Box::new(text), range),
        Tree::Time(_) => return Err(Refusal::part(expression, MIXED)),
    }))
}
