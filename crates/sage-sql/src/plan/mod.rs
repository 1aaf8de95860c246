//! The planner: checks types, validates literals, compiles patterns, and turns a syntax tree into a program.
//!
//! It accepts a closed list of constructs. A refusal names the part and says what to write instead; it depends only on
//! the text and the schema.

mod coerce;
pub(crate) mod function;

use crate::like::Pattern;
use crate::program::{
    Arithmetic, Boolean, Choice, Comparison, Float, Function, Integer, Kind, Pair, Program, Text, Time, Tree,
};
use crate::refusal::Refusal;
use crate::schema::Schema;
use crate::syntax::{BinaryOperator, Case, Expr, Identifier, IsTest, UnaryOperator};

/// The maximum number of operators in a program. An operand that SQL repeats (of `BETWEEN`, of `CASE x WHEN`) is counted
/// each time it is computed.
const LARGEST: usize = 2_000;

const NUMBERS_ONLY: &str = "it needs numbers; for times write extract(epoch from ...), which is in \
                            seconds, and for text CAST(... AS DOUBLE)";
const CONDITION: &str = "it must be true or false; write a comparison";
const TYPE: &str = "columns are booleans, numbers, text, dates and timestamps in UTC";
const AGGREGATE: &str = "only functions of a single row are; private mechanisms compute the aggregates";
const PATTERN: &str = "the pattern of LIKE must be a literal of at most 127 characters";
const TEXT_ONLY: &str = "it needs a text; cast it with CAST(... AS VARCHAR)";

/// Words that mean the current time in other SQL engines.
const CURRENT_TIME_WORDS: &[&str] =
    &["current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"];

type Planned<T> = Result<T, Refusal>;

/// Plans an expression over the columns of a schema.
///
/// # Errors
/// A refusal that names the part and says what is allowed.
pub fn plan(expression: &Expr, schema: &Schema) -> Result<Program, Refusal> {
    let mut planner = Planner { schema, operators: 0 };
    planner.tree(expression).map(|root| Program { root })
}

pub(crate) struct Planner<'schema> {
    schema: &'schema Schema,
    operators: usize,
}

impl Planner<'_> {
    fn count(&mut self, operators: usize) -> Planned<()> {
        self.operators += operators;
        if self.operators > LARGEST { Err(Refusal::TooLarge) } else { Ok(()) }
    }

    pub(crate) fn tree(&mut self, expression: &Expr) -> Planned<Tree> {
        self.count(1)?;
        Ok(match expression {
            Expr::Column(name) => self.column(name)?,
            Expr::Qualified(name) => return Err(self.unknown(name)),
            Expr::Number(text) => number(text)?,
            Expr::Text(text) => Tree::Text(Text::Constant(Some(text.clone()))),
            Expr::Boolean(boolean) => Tree::Boolean(Boolean::Constant(Some(*boolean))),
            Expr::Null => Tree::Null,
            Expr::Typed(to, text) => {
                let literal = Tree::Text(Text::Constant(Some(text.clone())));
                coerce::cast(expression, literal, *to)?
            }
            Expr::Unary(operator, of) => self.unary(expression, *operator, of)?,
            Expr::Binary(operator, left, right) => self.binary(expression, *operator, left, right)?,
            Expr::All(parts) => Tree::Boolean(Boolean::All(self.conditions(parts)?)),
            Expr::Any(parts) => Tree::Boolean(Boolean::Any(self.conditions(parts)?)),
            Expr::Is(test, of) => Tree::Boolean(self.is(*test, of)?),
            Expr::Between { negated, of, low, high } => {
                self.count(2)?;
                let least = self.comparison(expression, Comparison::GreaterOrEqual, of, low)?;
                let most = self.comparison(expression, Comparison::LessOrEqual, of, high)?;
                Tree::Boolean(negate_if(*negated, Boolean::All(vec![least, most])))
            }
            Expr::InList { negated, of, list } => {
                Tree::Boolean(negate_if(*negated, self.in_list(expression, of, list)?))
            }
            Expr::Like { negated, case_insensitive, of, pattern } => {
                let text = self.text(of)?;
                let Expr::Text(pattern) = &**pattern else { return Err(Refusal::part(expression, PATTERN)) };
                let pattern =
                    Pattern::new(pattern, *case_insensitive).ok_or_else(|| Refusal::part(expression, PATTERN))?;
                Tree::Boolean(negate_if(*negated, Boolean::Like(Box::new(text), pattern)))
            }
            Expr::Case(case) => self.case(expression, case)?,
            Expr::Cast(of, to) => {
                let tree = self.tree(of)?;
                coerce::cast(expression, tree, *to)?
            }
            Expr::Call(name, arguments) => self.call(expression, name, arguments)?,
            Expr::Aggregate(_) => return Err(Refusal::part(expression, AGGREGATE)),
        })
    }

    fn column(&self, name: &Identifier) -> Planned<Tree> {
        let Some((index, kind)) = self.schema.column(&name.name) else { return Err(self.unknown(&name.name)) };
        match kind {
            Some(Kind::Boolean) => Ok(Tree::Boolean(Boolean::Column(index))),
            Some(Kind::Integer) => Ok(Tree::Integer(Integer::Column(index))),
            Some(Kind::Float) => Ok(Tree::Float(Float::Column(index))),
            Some(Kind::Text) => Ok(Tree::Text(Text::Column(index))),
            Some(Kind::Time) => Ok(Tree::Time(Time::Column(index))),
            Some(Kind::Null) => Ok(Tree::Null),
            None => Err(Refusal::part(name, TYPE)),
        }
    }

    fn unknown(&self, name: &str) -> Refusal {
        if CURRENT_TIME_WORDS.contains(&name) {
            return Refusal::part(name, function::CURRENT_TIME);
        }
        let names: Vec<&str> = self.schema.names().collect();
        Refusal::unreadable(format!("there is no column {name}; the columns are {}", names.join(", ")))
    }

    /// Plans an operand that must be a number, as a float.
    fn float(&mut self, expression: &Expr, operand: &Expr) -> Planned<Float> {
        let tree = self.tree(operand)?;
        coerce::float(tree).ok_or_else(|| Refusal::part(expression, NUMBERS_ONLY))
    }

    fn condition(&mut self, operand: &Expr) -> Planned<Boolean> {
        match self.tree(operand)? {
            Tree::Boolean(boolean) => Ok(boolean),
            Tree::Null => Ok(Boolean::Constant(None)),
            _ => Err(Refusal::part(operand, CONDITION)),
        }
    }

    fn conditions(&mut self, parts: &[Expr]) -> Planned<Vec<Boolean>> {
        parts.iter().map(|part| self.condition(part)).collect()
    }

    /// Plans an operand as text; numbers and booleans are formatted.
    fn text(&mut self, operand: &Expr) -> Planned<Text> {
        let tree = self.tree(operand)?;
        coerce::text(tree).ok_or_else(|| Refusal::part(operand, TEXT_ONLY))
    }

    fn unary(&mut self, expression: &Expr, operator: UnaryOperator, of: &Expr) -> Planned<Tree> {
        match operator {
            UnaryOperator::Not => Ok(Tree::Boolean(Boolean::Not(Box::new(self.condition(of)?)))),
            UnaryOperator::Plus => Ok(Tree::Float(self.float(expression, of)?)),
            UnaryOperator::Minus => match of {
                // A negative literal is an integer if it fits.
                Expr::Number(text) => number(&format!("-{text}")),
                _ => Ok(Tree::Float(Float::Function(Function::Negate, Box::new(self.float(expression, of)?)))),
            },
        }
    }

    fn binary(&mut self, expression: &Expr, operator: BinaryOperator, left: &Expr, right: &Expr) -> Planned<Tree> {
        let operation = match operator {
            BinaryOperator::Add => return self.arithmetic(expression, Arithmetic::Add, left, right),
            BinaryOperator::Subtract => return self.arithmetic(expression, Arithmetic::Subtract, left, right),
            BinaryOperator::Multiply => return self.arithmetic(expression, Arithmetic::Multiply, left, right),
            BinaryOperator::Divide => return self.arithmetic(expression, Arithmetic::Divide, left, right),
            BinaryOperator::Remainder => return self.arithmetic(expression, Arithmetic::Remainder, left, right),
            BinaryOperator::Concatenate => {
                let parts = vec![self.text(left)?, self.text(right)?];
                return Ok(Tree::Text(Text::Joined(parts)));
            }
            BinaryOperator::Distinct | BinaryOperator::NotDistinct => None,
            BinaryOperator::Equal => Some(Comparison::Equal),
            BinaryOperator::NotEqual => Some(Comparison::NotEqual),
            BinaryOperator::Less => Some(Comparison::Less),
            BinaryOperator::LessOrEqual => Some(Comparison::LessOrEqual),
            BinaryOperator::Greater => Some(Comparison::Greater),
            BinaryOperator::GreaterOrEqual => Some(Comparison::GreaterOrEqual),
        };
        Ok(Tree::Boolean(match operation {
            Some(operation) => self.comparison(expression, operation, left, right)?,
            None => {
                let pair = self.pair(expression, left, right)?;
                negate_if(operator == BinaryOperator::NotDistinct, Boolean::Distinct(pair))
            }
        }))
    }

    fn arithmetic(&mut self, expression: &Expr, operation: Arithmetic, left: &Expr, right: &Expr) -> Planned<Tree> {
        let (left, right) = (self.float(expression, left)?, self.float(expression, right)?);
        Ok(Tree::Float(Float::Arithmetic(operation, Box::new(left), Box::new(right))))
    }

    fn pair(&mut self, expression: &Expr, left: &Expr, right: &Expr) -> Planned<Pair> {
        let (left, right) = (self.tree(left)?, self.tree(right)?);
        coerce::pair(expression, left, right)
    }

    fn comparison(&mut self, expression: &Expr, operation: Comparison, left: &Expr, right: &Expr) -> Planned<Boolean> {
        Ok(Boolean::Compare(operation, self.pair(expression, left, right)?))
    }

    fn is(&mut self, test: IsTest, of: &Expr) -> Planned<Boolean> {
        Ok(match test {
            IsTest::Null => Boolean::IsNull(Box::new(self.tree(of)?)),
            IsTest::NotNull => Boolean::Not(Box::new(Boolean::IsNull(Box::new(self.tree(of)?)))),
            IsTest::True => Boolean::Is(true, Box::new(self.condition(of)?)),
            IsTest::NotTrue => Boolean::Not(Box::new(Boolean::Is(true, Box::new(self.condition(of)?)))),
            IsTest::False => Boolean::Is(false, Box::new(self.condition(of)?)),
            IsTest::NotFalse => Boolean::Not(Box::new(Boolean::Is(false, Box::new(self.condition(of)?)))),
        })
    }

    /// Membership in a list. A list of literals is searched directly; any other list becomes a chain of comparisons.
    fn in_list(&mut self, expression: &Expr, of: &Expr, list: &[Expr]) -> Planned<Boolean> {
        let texts: Option<Vec<String>> = list.iter().map(literal_text).collect();
        let numbers: Option<Vec<f64>> = list.iter().map(literal_number).collect();
        match (self.tree(of)?, texts, numbers) {
            (Tree::Text(of), Some(mut texts), _) => {
                self.count(texts.len())?;
                texts.sort_unstable();
                Ok(Boolean::TextIn(Box::new(of), texts))
            }
            (Tree::Float(of), _, Some(numbers)) => {
                self.count(numbers.len())?;
                Ok(Boolean::FloatIn(Box::new(of), numbers))
            }
            // Each comparison computes and counts the value again.
            _ => {
                let equal = list.iter().map(|one| self.comparison(expression, Comparison::Equal, of, one));
                equal.collect::<Planned<Vec<Boolean>>>().map(Boolean::Any)
            }
        }
    }

    fn case(&mut self, expression: &Expr, case: &Case) -> Planned<Tree> {
        let mut conditions = Vec::with_capacity(case.branches.len());
        let mut results = Vec::with_capacity(case.branches.len() + 1);
        for (when, then) in &case.branches {
            conditions.push(match &case.operand {
                None => self.condition(when)?,
                Some(operand) => self.comparison(expression, Comparison::Equal, operand, when)?,
            });
            results.push(self.tree(then)?);
        }
        results.push(case.otherwise.as_ref().map_or(Ok(Tree::Null), |otherwise| self.tree(otherwise))?);
        self.conditional(expression, conditions, results)
    }

    /// The first result whose condition is true, or the last one.
    fn conditional(&mut self, expression: &Expr, conditions: Vec<Boolean>, results: Vec<Tree>) -> Planned<Tree> {
        fn choice<T>(conditions: Vec<Boolean>, mut results: Vec<T>, null: T) -> Choice<T> {
            let otherwise = Box::new(results.pop().unwrap_or(null));
            Choice { branches: conditions.into_iter().zip(results).collect(), otherwise }
        }
        Ok(match coerce::unify(expression, results)? {
            coerce::SameKind::Null => Tree::Null,
            coerce::SameKind::Boolean(all) => {
                Tree::Boolean(Boolean::Choice(choice(conditions, all, Boolean::Constant(None))))
            }
            coerce::SameKind::Integer(all) => {
                Tree::Integer(Integer::Choice(choice(conditions, all, Integer::Constant(None))))
            }
            coerce::SameKind::Float(all) => Tree::Float(Float::Choice(choice(conditions, all, Float::Constant(None)))),
            coerce::SameKind::Text(all) => Tree::Text(Text::Choice(choice(conditions, all, Text::Constant(None)))),
            coerce::SameKind::Time(all) => Tree::Time(Time::Choice(choice(conditions, all, Time::Constant(None)))),
        })
    }
}

/// The condition, negated if `negated`.
fn negate_if(negated: bool, boolean: Boolean) -> Boolean {
    if negated { Boolean::Not(Box::new(boolean)) } else { boolean }
}

/// A numeric literal: an integer if it has neither a point nor an exponent and fits.
fn number(text: &str) -> Planned<Tree> {
    if let Ok(integer) = text.parse::<i64>() {
        return Ok(Tree::Integer(Integer::Constant(Some(integer))));
    }
    match text.parse::<f64>() {
        Ok(float) if float.is_finite() => Ok(Tree::Float(Float::Constant(Some(float)))),
        _ => Err(Refusal::part(text, "the number is too large")),
    }
}

fn literal_text(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn literal_number(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::Number(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        Expr::Unary(UnaryOperator::Minus, of) => match &**of {
            Expr::Number(_) => literal_number(of).map(|number| -number),
            _ => None,
        },
        _ => None,
    }
}
