//! From SQL to formulas: what a feature must be made of to go into a model's graph.
//!
//! A model is served where there is no SQL, so its features are written into its graph. What a graph cannot
//! hold is refused here, before anything is charged, and the refusal names the part. Filters and statistics
//! do not leave with a model and may use all of what `allow` lets pass.

use arrow::datatypes::{DataType, Schema};
use datafusion::common::DFSchema;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use datafusion::scalar::ScalarValue;
use sage_learn::formula::{Arithmetic, Case, Comparison, Formula, Function, Part};

use super::query::{Expression, allowed, as_read, planned};
use super::refusal::QueryRefusal;

const NO_GRAPH: &str = "a model's graph cannot hold it; features are made of columns, numbers, + - * / %, comparisons, \
                        AND, OR, NOT, CASE, BETWEEN, IN lists, IS NULL, coalesce, nullif, power and functions of one \
                        number, parts of times, and comparisons of text with written text";
const NO_FUNCTION: &str = "a model's graph cannot hold it; its functions are abs, ceil, floor, round, trunc, signum, \
                           sqrt, exp, ln, sin, cos, tan, tanh, power, extract, coalesce and nullif";
const NO_PART: &str = "a model's graph has the parts epoch, year, quarter, month, day, dow, hour, minute and second";
const NO_CAST: &str = "in a model's graph truth values are cast to numbers, and whole numbers to real ones";

/// The expression as a formula that a model's graph can hold.
///
/// # Errors
/// A refusal that names the part and says what is allowed.
pub fn formula(schema: &Schema, expression: &Expression) -> Result<Formula, QueryRefusal> {
    let schema = planned(&as_read(schema))?;
    let state = SessionStateBuilder::new().with_default_features().build();
    let parsed = allowed(&state, &schema, &expression.name, &expression.sql)?;
    Translation { place: &expression.name, schema: &schema }.of(&parsed)
}

/// One expression on its way.
struct Translation<'text> {
    place: &'text str,
    schema: &'text DFSchema,
}

type Translated = Result<Formula, QueryRefusal>;

impl Translation<'_> {
    fn of(&self, part: &Expr) -> Translated {
        Ok(match part {
            Expr::Column(column) => Formula::Column(column.name.clone()),
            Expr::Literal(value, _) => self.constant(part, value)?,
            Expr::Alias(alias) => self.of(&alias.expr)?,
            Expr::Not(inner) => Formula::Not(self.boxed(inner)?),
            Expr::Negative(inner) => Formula::Function(Function::Negate, self.boxed(inner)?),
            Expr::IsNull(inner) | Expr::IsUnknown(inner) => Formula::IsNull(self.boxed(inner)?),
            Expr::IsNotNull(inner) | Expr::IsNotUnknown(inner) => not(Formula::IsNull(self.boxed(inner)?)),
            Expr::IsTrue(inner) => certainly(self.of(inner)?),
            Expr::IsNotTrue(inner) => not(certainly(self.of(inner)?)),
            Expr::IsFalse(inner) => certainly(not(self.of(inner)?)),
            Expr::IsNotFalse(inner) => not(certainly(not(self.of(inner)?))),
            Expr::BinaryExpr(binary) => self.binary(part, binary)?,
            Expr::Between(between) => {
                let (value, low, high) = (self.of(&between.expr)?, self.of(&between.low)?, self.of(&between.high)?);
                let within = Formula::Both(
                    Box::new(compare(Comparison::AtLeast, value.clone(), low)),
                    Box::new(compare(Comparison::AtMost, value, high)),
                );
                if between.negated { not(within) } else { within }
            }
            Expr::InList(list) => self.list(part, list)?,
            Expr::Case(case) => self.case(case)?,
            Expr::Cast(cast) => self.cast(&cast.expr, cast.field.data_type())?,
            Expr::TryCast(cast) => self.cast(&cast.expr, cast.field.data_type())?,
            Expr::ScalarFunction(function) => self.function(part, function)?,
            other => return self.refused(other, NO_GRAPH),
        })
    }

    fn boxed(&self, part: &Expr) -> Result<Box<Formula>, QueryRefusal> {
        self.of(part).map(Box::new)
    }

    fn refused(&self, part: &Expr, why: &'static str) -> Translated {
        Err(QueryRefusal::part(self.place, part.human_display(), why))
    }

    fn constant(&self, part: &Expr, value: &ScalarValue) -> Translated {
        if value.is_null() {
            return Ok(Formula::Null);
        }
        if let ScalarValue::Boolean(Some(truth)) = value {
            return Ok(Formula::Truth(*truth));
        }
        let number = value.data_type().is_numeric().then(|| value.cast_to(&DataType::Float64));
        match number {
            Some(Ok(ScalarValue::Float64(Some(number)))) if number.is_finite() => Ok(Formula::Number(number)),
            _ => self.refused(part, NO_GRAPH),
        }
    }

    fn binary(&self, part: &Expr, binary: &BinaryExpr) -> Translated {
        let BinaryExpr { left, op, right } = binary;
        let equal = matches!(op, Operator::Eq | Operator::NotEq);
        for (one, other) in [(left, right), (right, left)] {
            if let (true, Some(text)) = (equal, written(other)) {
                let among = Formula::Among(self.boxed(one)?, vec![text]);
                return Ok(if *op == Operator::Eq { among } else { not(among) });
            }
        }
        let arithmetic = match op {
            Operator::Plus => Some(Arithmetic::Add),
            Operator::Minus => Some(Arithmetic::Subtract),
            Operator::Multiply => Some(Arithmetic::Multiply),
            Operator::Divide => Some(Arithmetic::Divide),
            Operator::Modulo => Some(Arithmetic::Remainder),
            _ => None,
        };
        let comparison = match op {
            Operator::Eq => Some(Comparison::Equal),
            Operator::NotEq => Some(Comparison::Different),
            Operator::Lt => Some(Comparison::Less),
            Operator::LtEq => Some(Comparison::AtMost),
            Operator::Gt => Some(Comparison::Greater),
            Operator::GtEq => Some(Comparison::AtLeast),
            _ => None,
        };
        let both = || Ok::<_, QueryRefusal>((self.boxed(left)?, self.boxed(right)?));
        match (arithmetic, comparison, op) {
            (Some(arithmetic), ..) => both().map(|(left, right)| Formula::Arithmetic(arithmetic, left, right)),
            (_, Some(comparison), _) => both().map(|(left, right)| Formula::Compare(comparison, left, right)),
            (.., Operator::And) => both().map(|(left, right)| Formula::Both(left, right)),
            (.., Operator::Or) => both().map(|(left, right)| Formula::Either(left, right)),
            _ => self.refused(part, NO_GRAPH),
        }
    }

    fn list(&self, part: &Expr, list: &InList) -> Translated {
        let value = self.of(&list.expr)?;
        let texts: Option<Vec<String>> = list.list.iter().map(written).collect();
        let found = match texts {
            Some(texts) if !texts.is_empty() => Formula::Among(Box::new(value), texts),
            _ => {
                let mut any: Option<Formula> = None;
                for one in &list.list {
                    let equal = compare(Comparison::Equal, value.clone(), self.of(one)?);
                    any = Some(match any {
                        Some(before) => Formula::Either(Box::new(before), Box::new(equal)),
                        None => equal,
                    });
                }
                match any {
                    Some(any) => any,
                    None => return self.refused(part, NO_GRAPH),
                }
            }
        };
        Ok(if list.negated { not(found) } else { found })
    }

    fn case(&self, case: &datafusion::logical_expr::Case) -> Translated {
        let mut branches = Vec::with_capacity(case.when_then_expr.len());
        for (when, then) in &case.when_then_expr {
            let condition = match &case.expr {
                None => self.of(when)?,
                Some(of) => {
                    let equal = BinaryExpr::new(of.clone(), Operator::Eq, when.clone());
                    self.binary(when, &equal)?
                }
            };
            branches.push((condition, self.of(then)?));
        }
        let otherwise = case.else_expr.as_ref().map(|otherwise| self.boxed(otherwise)).transpose()?;
        Ok(Formula::Case(Case { branches, otherwise }))
    }

    fn cast(&self, inner: &Expr, to: &DataType) -> Translated {
        let from = inner.get_type(self.schema);
        let from = from.map_err(|error| QueryRefusal::unreadable(self.place, error.strip_backtrace()))?;
        match (from, to) {
            (DataType::Boolean, to) if to.is_numeric() => Ok(Formula::AsNumber(self.boxed(inner)?)),
            (from, DataType::Float64) if from.is_integer() || from.is_floating() => self.of(inner),
            (from, to) if from == *to => self.of(inner),
            _ => Err(QueryRefusal::part(self.place, format!("CAST({} AS {to})", inner.human_display()), NO_CAST)),
        }
    }

    fn function(&self, part: &Expr, function: &ScalarFunction) -> Translated {
        let one = |of: Function| match function.args.as_slice() {
            [argument] => Ok(Formula::Function(of, self.boxed(argument)?)),
            _ => self.refused(part, NO_FUNCTION),
        };
        match (function.name(), function.args.as_slice()) {
            ("abs", _) => one(Function::Abs),
            ("ceil", _) => one(Function::Ceil),
            ("floor", _) => one(Function::Floor),
            ("round", _) => one(Function::Round),
            ("trunc", _) => one(Function::Truncate),
            ("signum", _) => one(Function::Sign),
            ("sqrt", _) => one(Function::Sqrt),
            ("exp", _) => one(Function::Exp),
            ("ln", _) => one(Function::Ln),
            ("sin", _) => one(Function::Sin),
            ("cos", _) => one(Function::Cos),
            ("tan", _) => one(Function::Tan),
            ("tanh", _) => one(Function::Tanh),
            ("power", [base, exponent]) => {
                Ok(Formula::Arithmetic(Arithmetic::Power, self.boxed(base)?, self.boxed(exponent)?))
            }
            ("coalesce", all) => all.iter().map(|part| self.of(part)).collect::<Result<_, _>>().map(Formula::Coalesce),
            ("nullif", [value, unwanted]) => {
                let equal = BinaryExpr::new(Box::new(value.clone()), Operator::Eq, Box::new(unwanted.clone()));
                let branches = vec![(self.binary(part, &equal)?, Formula::Null)];
                Ok(Formula::Case(Case { branches, otherwise: Some(self.boxed(value)?) }))
            }
            ("date_part", [which, time]) => match written(which).and_then(|which| part_of_time(&which)) {
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

/// A text that is written out.
fn written(part: &Expr) -> Option<String> {
    match part {
        Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text), _) => {
            text.clone()
        }
        _ => None,
    }
}

fn not(of: Formula) -> Formula {
    Formula::Not(Box::new(of))
}

/// True where it is true, and false where it is false or null.
fn certainly(of: Formula) -> Formula {
    Formula::Coalesce(vec![of, Formula::Truth(false)])
}

fn compare(how: Comparison, left: Formula, right: Formula) -> Formula {
    Formula::Compare(how, Box::new(left), Box::new(right))
}
