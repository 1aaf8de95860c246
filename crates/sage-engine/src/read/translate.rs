//! Translates SQL to the formulas that a model's graph can contain.
//!
//! A model is served without SQL, so its features are part of its graph. An expression that a graph cannot contain is
//! refused here, before anything is charged, and the refusal names the part. Filters and statistics are not exported
//! and may use everything that `sage-sql` accepts.

use arrow::datatypes::Schema;
use sage_model::formula::{Arithmetic, Case, Comparison, Formula, Function, Part};
use sage_sql::{BinaryOperator, Expr, IsTest, Kind, TypeName, UnaryOperator};

use super::query::{Expression, decoded_schema, parse_expression};
use super::refusal::QueryRefusal;

const NO_GRAPH: &str = "a model's graph cannot contain it; features are made of columns, numbers, + - * / %, comparisons, \
                        AND, OR, NOT, CASE, BETWEEN, IN lists, IS NULL, coalesce, nullif, power and functions of one \
                        number, parts of times, and comparisons of text with text literals";
const NO_FUNCTION: &str = "a model's graph cannot contain it; its functions are abs, ceil, floor, round, trunc, signum, \
                           sqrt, exp, ln, sin, cos, tan, tanh, power, extract, coalesce and nullif";
const NO_PART: &str = "a model's graph has the parts epoch, year, quarter, month, day, dow, hour, minute and second";
const NO_CAST: &str = "in a model's graph booleans can be cast to numbers, and integers to floats";

/// Translates an expression to a formula for a model's graph.
///
/// # Errors
/// A refusal that names the part and what is allowed instead.
pub fn formula(schema: &Schema, expression: &Expression) -> Result<Formula, QueryRefusal> {
    let schema = sage_sql::Schema::new(&decoded_schema(schema));
    let parsed = parse_expression(&expression.name, &expression.sql)?;
    // Expressions that are not valid per-row SQL are refused first.
    sage_sql::plan(&parsed, &schema).map_err(|why| QueryRefusal::from_sql(&expression.name, why))?;
    Translation { name: &expression.name, schema: &schema }.translate(&parsed)
}

/// The translation of one expression.
struct Translation<'text> {
    name: &'text str,
    schema: &'text sage_sql::Schema,
}

type Translated = Result<Formula, QueryRefusal>;

impl Translation<'_> {
    fn translate(&self, part: &Expr) -> Translated {
        Ok(match part {
            Expr::Column(column) => Formula::Column(column.name.clone()),
            Expr::Number(text) => self.number(part, text)?,
            Expr::Boolean(truth) => Formula::Truth(*truth),
            Expr::Null => Formula::Null,
            Expr::Unary(UnaryOperator::Not, inner) => Formula::Not(self.boxed(inner)?),
            Expr::Unary(UnaryOperator::Plus, inner) => self.translate(inner)?,
            Expr::Unary(UnaryOperator::Minus, inner) => match &**inner {
                Expr::Number(text) => self.number(part, &format!("-{text}"))?,
                _ => Formula::Function(Function::Negate, self.boxed(inner)?),
            },
            Expr::Is(test, inner) => self.is(*test, inner)?,
            Expr::All(parts) => self.joined(parts, Formula::Both)?,
            Expr::Any(parts) => self.joined(parts, Formula::Either)?,
            Expr::Binary(operator, left, right) => self.binary(part, *operator, left, right)?,
            Expr::Between { negated, of, low, high } => {
                let (value, low, high) = (self.translate(of)?, self.translate(low)?, self.translate(high)?);
                let within = Formula::Both(
                    Box::new(compare(Comparison::AtLeast, value.clone(), low)),
                    Box::new(compare(Comparison::AtMost, value, high)),
                );
                if *negated { not(within) } else { within }
            }
            Expr::InList { negated, of, list } => {
                let found = self.list(part, of, list)?;
                if *negated { not(found) } else { found }
            }
            Expr::Case(case) => self.case(case)?,
            Expr::Cast(inner, to) => self.cast(inner, *to)?,
            Expr::Call(name, arguments) => self.function(part, name, arguments)?,
            other => return self.refused(other, NO_GRAPH),
        })
    }

    fn boxed(&self, part: &Expr) -> Result<Box<Formula>, QueryRefusal> {
        self.translate(part).map(Box::new)
    }

    fn refused(&self, part: &Expr, why: &'static str) -> Translated {
        Err(QueryRefusal::part(self.name, part, why))
    }

    fn number(&self, part: &Expr, text: &str) -> Translated {
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Formula::Number(number)),
            _ => self.refused(part, NO_GRAPH),
        }
    }

    fn is(&self, test: IsTest, inner: &Expr) -> Translated {
        let inner = self.translate(inner)?;
        Ok(match test {
            IsTest::Null => Formula::IsNull(Box::new(inner)),
            IsTest::NotNull => not(Formula::IsNull(Box::new(inner))),
            IsTest::True => is_true(inner),
            IsTest::NotTrue => not(is_true(inner)),
            IsTest::False => is_true(not(inner)),
            IsTest::NotFalse => not(is_true(not(inner))),
        })
    }

    fn joined(&self, parts: &[Expr], join: fn(Box<Formula>, Box<Formula>) -> Formula) -> Translated {
        let mut whole: Option<Formula> = None;
        for part in parts {
            let part = self.translate(part)?;
            whole = Some(match whole {
                Some(before) => join(Box::new(before), Box::new(part)),
                None => part,
            });
        }
        Ok(whole.unwrap_or(Formula::Null))
    }

    fn binary(&self, part: &Expr, operator: BinaryOperator, left: &Expr, right: &Expr) -> Translated {
        let equal = matches!(operator, BinaryOperator::Equal | BinaryOperator::NotEqual);
        for (one, other) in [(left, right), (right, left)] {
            if let (true, Expr::Text(text)) = (equal, other) {
                let among = Formula::Among(self.boxed(one)?, vec![text.clone()]);
                return Ok(if operator == BinaryOperator::Equal { among } else { not(among) });
            }
        }
        let arithmetic = |how| Ok(Formula::Arithmetic(how, self.boxed(left)?, self.boxed(right)?));
        let comparison = |how| Ok(Formula::Compare(how, self.boxed(left)?, self.boxed(right)?));
        match operator {
            BinaryOperator::Add => arithmetic(Arithmetic::Add),
            BinaryOperator::Subtract => arithmetic(Arithmetic::Subtract),
            BinaryOperator::Multiply => arithmetic(Arithmetic::Multiply),
            BinaryOperator::Divide => arithmetic(Arithmetic::Divide),
            BinaryOperator::Remainder => arithmetic(Arithmetic::Remainder),
            BinaryOperator::Equal => comparison(Comparison::Equal),
            BinaryOperator::NotEqual => comparison(Comparison::Different),
            BinaryOperator::Less => comparison(Comparison::Less),
            BinaryOperator::LessOrEqual => comparison(Comparison::AtMost),
            BinaryOperator::Greater => comparison(Comparison::Greater),
            BinaryOperator::GreaterOrEqual => comparison(Comparison::AtLeast),
            BinaryOperator::Concatenate | BinaryOperator::Distinct | BinaryOperator::NotDistinct => {
                self.refused(part, NO_GRAPH)
            }
        }
    }

    fn list(&self, part: &Expr, of: &Expr, list: &[Expr]) -> Translated {
        let value = self.translate(of)?;
        let texts: Option<Vec<String>> = list.iter().map(literal_text).collect();
        if let Some(texts) = texts {
            return Ok(Formula::Among(Box::new(value), texts));
        }
        let mut any: Option<Formula> = None;
        for one in list {
            let equal = compare(Comparison::Equal, value.clone(), self.translate(one)?);
            any = Some(match any {
                Some(before) => Formula::Either(Box::new(before), Box::new(equal)),
                None => equal,
            });
        }
        any.map_or_else(|| self.refused(part, NO_GRAPH), Ok)
    }

    fn case(&self, case: &sage_sql::Case) -> Translated {
        let mut branches = Vec::with_capacity(case.branches.len());
        for (when, then) in &case.branches {
            let condition = match &case.operand {
                None => self.translate(when)?,
                Some(operand) => self.binary(when, BinaryOperator::Equal, operand, when)?,
            };
            branches.push((condition, self.translate(then)?));
        }
        let otherwise = case.otherwise.as_ref().map(|otherwise| self.boxed(otherwise)).transpose()?;
        Ok(Formula::Case(Case { branches, otherwise }))
    }

    fn cast(&self, inner: &Expr, to: TypeName) -> Translated {
        let from = sage_sql::plan(inner, self.schema).map_err(|why| QueryRefusal::from_sql(self.name, why))?.kind();
        let to_number =
            matches!(to, TypeName::TinyInt | TypeName::SmallInt | TypeName::Int | TypeName::BigInt | TypeName::Double);
        match (from, to) {
            (Kind::Boolean, _) if to_number => Ok(Formula::AsNumber(self.boxed(inner)?)),
            (Kind::Integer | Kind::Float, TypeName::Double) | (Kind::Integer, TypeName::BigInt) => {
                self.translate(inner)
            }
            (Kind::Boolean, TypeName::Boolean) | (Kind::Text, TypeName::Text) => self.translate(inner),
            _ => Err(QueryRefusal::part(self.name, format!("CAST({inner} AS {})", to.name()), NO_CAST)),
        }
    }

    fn function(&self, part: &Expr, name: &str, arguments: &[Expr]) -> Translated {
        let one = |of: Function| match arguments {
            [argument] => Ok(Formula::Function(of, self.boxed(argument)?)),
            _ => self.refused(part, NO_FUNCTION),
        };
        match (name, arguments) {
            ("abs", _) => one(Function::Abs),
            ("ceil" | "ceiling", _) => one(Function::Ceil),
            ("floor", _) => one(Function::Floor),
            ("round", _) => one(Function::Round),
            ("trunc", _) => one(Function::Truncate),
            ("signum" | "sign", _) => one(Function::Sign),
            ("sqrt", _) => one(Function::Sqrt),
            ("exp", _) => one(Function::Exp),
            ("ln", _) => one(Function::Ln),
            ("sin", _) => one(Function::Sin),
            ("cos", _) => one(Function::Cos),
            ("tan", _) => one(Function::Tan),
            ("tanh", _) => one(Function::Tanh),
            ("power" | "pow", [base, exponent]) => {
                Ok(Formula::Arithmetic(Arithmetic::Power, self.boxed(base)?, self.boxed(exponent)?))
            }
            ("coalesce", all) => {
                all.iter().map(|part| self.translate(part)).collect::<Result<_, _>>().map(Formula::Coalesce)
            }
            ("nullif", [value, unwanted]) => {
                let branches = vec![(self.binary(part, BinaryOperator::Equal, value, unwanted)?, Formula::Null)];
                Ok(Formula::Case(Case { branches, otherwise: Some(self.boxed(value)?) }))
            }
            ("date_part" | "datepart", [Expr::Text(which), time]) => match part_of_time(which) {
                Some(which) => Ok(Formula::Part(which, self.boxed(time)?)),
                None => self.refused(part, NO_PART),
            },
            _ => self.refused(part, NO_FUNCTION),
        }
    }
}

fn part_of_time(name: &str) -> Option<Part> {
    Some(match name.to_ascii_lowercase().as_str() {
        "epoch" => Part::Epoch,
        "year" => Part::Year,
        "quarter" => Part::Quarter,
        "month" => Part::Month,
        "day" => Part::Day,
        "dow" => Part::DayOfWeek,
        "hour" => Part::Hour,
        "minute" => Part::Minute,
        "second" => Part::Second,
        _ => return None,
    })
}

/// The text of a literal.
fn literal_text(part: &Expr) -> Option<String> {
    match part {
        Expr::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn not(of: Formula) -> Formula {
    Formula::Not(Box::new(of))
}

/// `IS TRUE`: false where the formula is false or null.
fn is_true(of: Formula) -> Formula {
    Formula::Coalesce(vec![of, Formula::Truth(false)])
}

fn compare(how: Comparison, left: Formula, right: Formula) -> Formula {
    Formula::Compare(how, Box::new(left), Box::new(right))
}
