//! The functions that an expression may call.

use super::coerce::{self, SameKind};
use super::{Planned, Planner};
use crate::program::{
    Arithmetic, Boolean, Comparison, Ends, Extreme, Float, Function, Integer, Part, Text, Time, Tree, Unit,
};
use crate::refusal::Refusal;
use crate::syntax::Expr;

const FUNCTION: &str = "allowed are abs, ceil, floor, round, trunc, sqrt, cbrt, exp, ln, log2, log10, power, signum, \
                        isnan, trigonometric functions, date_part, extract, date_trunc, coalesce, nullif, \
                        greatest, least, lower, upper, trim, length, substr, left, right, strpos, contains, \
                        starts_with, ends_with, ascii and concat";
pub(super) const CURRENT_TIME: &str = "now() and similar functions change between evaluations; write a literal time";
const ARGUMENTS: &str = "the number of arguments is wrong";
const TIME_ONLY: &str = "it needs a time; cast a text with CAST(... AS TIMESTAMP)";
const PART: &str = "the part of the time must be a literal: year, isoyear, quarter, month, week, day, doy, dow, isodow, \
                    hour, minute, second, millisecond, microsecond, nanosecond or epoch";
const UNIT: &str = "the unit must be a literal: year, quarter, month, week, day, hour, minute, second, millisecond or \
                    microsecond";
const DIGITS: &str = "the number of digits must be a literal from 0 to 1000000";
const LENGTH: &str = "the length must be a literal integer from 0 to 1000000";
const POSITION: &str = "start and length must be literal integers from 0 to 1000000";

/// Functions of one float.
const REAL: &[(&str, Function)] = &[
    ("abs", Function::Abs),
    ("acos", Function::Acos),
    ("asin", Function::Asin),
    ("atan", Function::Atan),
    ("cbrt", Function::Cbrt),
    ("ceil", Function::Ceil),
    ("ceiling", Function::Ceil),
    ("cos", Function::Cos),
    ("cosh", Function::Cosh),
    ("degrees", Function::Degrees),
    ("exp", Function::Exp),
    ("floor", Function::Floor),
    ("ln", Function::Ln),
    ("log10", Function::Log10),
    ("log2", Function::Log2),
    ("radians", Function::Radians),
    ("sign", Function::Sign),
    ("signum", Function::Sign),
    ("sin", Function::Sin),
    ("sinh", Function::Sinh),
    ("sqrt", Function::Sqrt),
    ("tan", Function::Tan),
    ("tanh", Function::Tanh),
];

impl Planner<'_> {
    pub(super) fn call(&mut self, expression: &Expr, name: &str, arguments: &[Expr]) -> Planned<Tree> {
        if let Some((_, function)) = REAL.iter().find(|(known, _)| *known == name) {
            let [of] = arguments else { return Err(Refusal::part(expression, ARGUMENTS)) };
            return Ok(Tree::Float(Float::Function(*function, Box::new(self.float(expression, of)?))));
        }
        match (name, arguments) {
            ("round" | "trunc", [_] | [_, _]) => self.round(expression, name, arguments),
            ("power" | "pow", [base, exponent]) => self.arithmetic(expression, Arithmetic::Power, base, exponent),
            ("atan2", [y, x]) => self.arithmetic(expression, Arithmetic::Atan2, y, x),
            ("isnan", [of]) => Ok(Tree::Boolean(Boolean::IsNan(Box::new(self.float(expression, of)?)))),
            ("coalesce", [_, ..]) => self.coalesce(expression, arguments),
            ("nullif", [of, other]) => {
                let equal = self.comparison(expression, Comparison::Equal, of, other)?;
                let value = self.tree(of)?;
                self.conditional(expression, vec![equal], vec![Tree::Null, value])
            }
            ("greatest", [_, ..]) => self.extreme(expression, Extreme::Greatest, arguments),
            ("least", [_, ..]) => self.extreme(expression, Extreme::Least, arguments),
            ("date_part" | "datepart", [part, time]) => self.part(expression, part, time),
            ("date_trunc" | "datetrunc", [unit, time]) => {
                let unit = literal(unit).and_then(|text| unit_named(&text.to_lowercase()));
                let unit = unit.ok_or_else(|| Refusal::part(expression, UNIT))?;
                Ok(Tree::Time(Time::Truncated(unit, Box::new(self.time(expression, time)?))))
            }
            _ => self.text_function(expression, name, arguments),
        }
    }

    fn text_function(&mut self, expression: &Expr, name: &str, arguments: &[Expr]) -> Planned<Tree> {
        let ends = match name {
            "btrim" | "trim" => Some(Ends::Both),
            "ltrim" => Some(Ends::Start),
            "rtrim" => Some(Ends::End),
            _ => None,
        };
        Ok(match (name, arguments) {
            (_, [of]) if ends.is_some() => self.trim(ends, of, None)?,
            (_, [of, characters]) if ends.is_some() => self.trim(ends, of, Some(characters))?,
            ("lower", [of]) => Tree::Text(Text::Lower(Box::new(self.text(of)?))),
            ("upper", [of]) => Tree::Text(Text::Upper(Box::new(self.text(of)?))),
            ("concat", [_, ..]) => {
                let parts = arguments.iter().map(|part| self.text(part)).collect::<Planned<Vec<Text>>>()?;
                Tree::Text(Text::Concatenated(parts))
            }
            ("length" | "char_length" | "character_length", [of]) => {
                Tree::Integer(Integer::Characters(Box::new(self.text(of)?)))
            }
            ("octet_length", [of]) => Tree::Integer(Integer::Bytes(Box::new(self.text(of)?))),
            ("ascii", [of]) => Tree::Integer(Integer::FirstCharacter(Box::new(self.text(of)?))),
            ("strpos" | "instr", [of, searched]) => {
                let (of, searched) = self.two_texts(of, searched)?;
                Tree::Integer(Integer::Position(of, searched))
            }
            ("starts_with", [of, with]) => {
                let (of, with) = self.two_texts(of, with)?;
                Tree::Boolean(Boolean::StartsWith(of, with))
            }
            ("ends_with", [of, with]) => {
                let (of, with) = self.two_texts(of, with)?;
                Tree::Boolean(Boolean::EndsWith(of, with))
            }
            ("contains", [of, with]) => {
                let (of, with) = self.two_texts(of, with)?;
                Tree::Boolean(Boolean::Contains(of, with))
            }
            ("left", [of, count]) => {
                Tree::Text(Text::Left(Box::new(self.text(of)?), small_literal(expression, count, LENGTH)?))
            }
            ("right", [of, count]) => {
                Tree::Text(Text::Right(Box::new(self.text(of)?), small_literal(expression, count, LENGTH)?))
            }
            ("substr" | "substring", [of, start]) => {
                Tree::Text(Text::Substring(Box::new(self.text(of)?), small_literal(expression, start, POSITION)?, None))
            }
            ("substr" | "substring", [of, start, count]) => {
                let (start, count) =
                    (small_literal(expression, start, POSITION)?, small_literal(expression, count, POSITION)?);
                Tree::Text(Text::Substring(Box::new(self.text(of)?), start, Some(count)))
            }
            ("now" | "today", _) => {
                return Err(Refusal::part(expression, CURRENT_TIME));
            }
            _ if KNOWN.contains(&name) => return Err(Refusal::part(expression, ARGUMENTS)),
            _ => return Err(Refusal::part(format!("{name}()"), FUNCTION)),
        })
    }

    fn two_texts(&mut self, one: &Expr, two: &Expr) -> Planned<(Box<Text>, Box<Text>)> {
        Ok((Box::new(self.text(one)?), Box::new(self.text(two)?)))
    }

    fn trim(&mut self, ends: Option<Ends>, of: &Expr, characters: Option<&Expr>) -> Planned<Tree> {
        let of = Box::new(self.text(of)?);
        let characters = match characters {
            None => Text::Constant(Some(" ".to_owned())),
            Some(characters) => self.text(characters)?,
        };
        Ok(Tree::Text(Text::Trimmed(ends.unwrap_or(Ends::Both), of, Box::new(characters))))
    }

    fn round(&mut self, expression: &Expr, name: &str, arguments: &[Expr]) -> Planned<Tree> {
        let Some(of) = arguments.first() else { return Err(Refusal::part(expression, ARGUMENTS)) };
        let of = Box::new(self.float(expression, of)?);
        let digits = arguments.get(1).map(|digits| small_literal(expression, digits, DIGITS)).transpose()?;
        let digits = digits.map(|digits| u32::try_from(digits).unwrap_or(0));
        Ok(Tree::Float(match (name, digits) {
            ("round", None) => Float::Function(Function::Round, of),
            ("round", Some(digits)) => Float::Rounded(of, digits),
            (_, None) => Float::Function(Function::Truncate, of),
            (_, Some(digits)) => Float::Truncated(of, digits),
        }))
    }

    /// The first value that is not null.
    fn coalesce(&mut self, expression: &Expr, arguments: &[Expr]) -> Planned<Tree> {
        let mut conditions = Vec::with_capacity(arguments.len());
        let mut results = Vec::with_capacity(arguments.len());
        for (index, argument) in arguments.iter().enumerate() {
            let before = self.operators;
            let tree = self.tree(argument)?;
            if index + 1 < arguments.len() {
                // The value is computed twice: for the null test and as the result.
                self.count(self.operators - before)?;
                conditions.push(Boolean::Not(Box::new(Boolean::IsNull(Box::new(tree.clone())))));
            }
            results.push(tree);
        }
        self.conditional(expression, conditions, results)
    }

    fn extreme(&mut self, expression: &Expr, which: Extreme, arguments: &[Expr]) -> Planned<Tree> {
        let trees = arguments.iter().map(|argument| self.tree(argument)).collect::<Planned<Vec<Tree>>>()?;
        Ok(match coerce::unify(expression, trees)? {
            SameKind::Null => Tree::Null,
            SameKind::Boolean(all) => {
                // The greatest of booleans is their OR and the least their AND; nulls are skipped.
                let integers = all.into_iter().map(|boolean| Integer::FromBoolean(Box::new(boolean))).collect();
                let number = Float::FromInteger(Box::new(Integer::Extreme(which, integers)));
                Tree::Boolean(Boolean::FromFloat(Box::new(number)))
            }
            SameKind::Integer(all) => Tree::Integer(Integer::Extreme(which, all)),
            SameKind::Float(all) => Tree::Float(Float::Extreme(which, all)),
            SameKind::Text(all) => Tree::Text(Text::Extreme(which, all)),
            SameKind::Time(all) => Tree::Time(Time::Extreme(which, all)),
        })
    }

    fn time(&mut self, expression: &Expr, of: &Expr) -> Planned<Time> {
        match self.tree(of)? {
            Tree::Time(time) => Ok(time),
            Tree::Null => Ok(Time::Constant(None)),
            _ => Err(Refusal::part(expression, TIME_ONLY)),
        }
    }

    fn part(&mut self, expression: &Expr, part: &Expr, time: &Expr) -> Planned<Tree> {
        let Some(name) = literal(part).map(str::to_lowercase) else { return Err(Refusal::part(expression, PART)) };
        let time = Box::new(self.time(expression, time)?);
        if name == "epoch" {
            return Ok(Tree::Float(Float::Epoch(time)));
        }
        let part = part_named(&name).ok_or_else(|| Refusal::part(expression, PART))?;
        Ok(Tree::Integer(Integer::Part(part, time)))
    }
}

/// Functions that are refused because of the number of their arguments, not because of their name.
const KNOWN: &[&str] = &[
    "round",
    "trunc",
    "power",
    "pow",
    "atan2",
    "isnan",
    "coalesce",
    "nullif",
    "greatest",
    "least",
    "date_part",
    "date_trunc",
    "btrim",
    "trim",
    "ltrim",
    "rtrim",
    "lower",
    "upper",
    "concat",
    "length",
    "octet_length",
    "ascii",
    "strpos",
    "starts_with",
    "ends_with",
    "contains",
    "left",
    "right",
    "substr",
    "substring",
];

/// Every function by its name, for tests that must call each of them.
#[cfg(any(test, feature = "synthetic"))]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    REAL.iter().map(|(name, _)| *name).chain(KNOWN.iter().copied())
}

fn literal(argument: &Expr) -> Option<&str> {
    match argument {
        Expr::Text(text) => Some(text),
        _ => None,
    }
}

/// A literal integer from 0 to a million.
fn small_literal(expression: &Expr, argument: &Expr, why: &'static str) -> Planned<i64> {
    let number = match argument {
        Expr::Number(text) => text.parse::<i64>().ok(),
        _ => None,
    };
    number.filter(|number| (0..=1_000_000).contains(number)).ok_or_else(|| Refusal::part(expression, why))
}

fn part_named(name: &str) -> Option<Part> {
    Some(match name {
        "year" => Part::Year,
        "isoyear" => Part::IsoYear,
        "quarter" => Part::Quarter,
        "month" => Part::Month,
        "week" => Part::Week,
        "day" => Part::Day,
        "doy" => Part::DayOfYear,
        "dow" => Part::DayOfWeek,
        "isodow" => Part::IsoDayOfWeek,
        "hour" => Part::Hour,
        "minute" => Part::Minute,
        "second" => Part::Second,
        "millisecond" | "milliseconds" => Part::Millisecond,
        "microsecond" | "microseconds" => Part::Microsecond,
        "nanosecond" | "nanoseconds" => Part::Nanosecond,
        _ => return None,
    })
}

fn unit_named(name: &str) -> Option<Unit> {
    Some(match name {
        "microsecond" => Unit::Microsecond,
        "millisecond" => Unit::Millisecond,
        "second" => Unit::Second,
        "minute" => Unit::Minute,
        "hour" => Unit::Hour,
        "day" => Unit::Day,
        "week" => Unit::Week,
        "month" => Unit::Month,
        "quarter" => Unit::Quarter,
        "year" => Unit::Year,
        _ => return None,
    })
}
