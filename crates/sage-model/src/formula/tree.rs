//! The syntax tree of a formula, and its display form.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A formula over the columns of one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Formula {
    /// A column by its name.
    Column(String),
    /// A number, finite.
    Number(f64),
    /// A truth value.
    Truth(bool),
    /// Null.
    Null,
    /// A function of one number.
    Function(Function, Box<Formula>),
    /// An arithmetic operation on two numbers.
    Arithmetic(Arithmetic, Box<Formula>, Box<Formula>),
    /// Two numbers compared; null if one of them is.
    Compare(Comparison, Box<Formula>, Box<Formula>),
    /// AND, with null as unknown.
    Both(Box<Formula>, Box<Formula>),
    /// OR, with null as unknown.
    Either(Box<Formula>, Box<Formula>),
    /// NOT, with null as unknown.
    Not(Box<Formula>),
    /// Whether a value of any kind is null.
    IsNull(Box<Formula>),
    /// A number where it is finite, and null where it is NaN or infinite: missing values are one state.
    Finite(Box<Formula>),
    /// The first number or truth value that is not null.
    Coalesce(Vec<Formula>),
    /// The result of the first condition that is true.
    Case(Case),
    /// 1 for true and 0 for false.
    AsNumber(Box<Formula>),
    /// A part of a time, in UTC.
    Part(Part, Box<Formula>),
    /// Whether a text column is one of these texts; `=` is a list with one text.
    Among(Box<Formula>, Vec<String>),
    /// A value of a table, looked up by key.
    Lookup(Lookup),
}

/// CASE WHEN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Conditions and results, at least one.
    pub branches: Vec<(Formula, Formula)>,
    /// The result when no condition is true; null if there is none.
    pub otherwise: Option<Box<Formula>>,
}

/// A value of a table, null where the table has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lookup {
    /// The table.
    pub table: String,
    /// Its column.
    pub column: String,
    /// The key: a number, or a text column if the keys are texts.
    pub key: Box<Formula>,
}

/// A function of one number. Half is rounded away from zero; the root of a negative number is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the function of its name")]
pub enum Function {
    Negate,
    Abs,
    Ceil,
    Floor,
    Round,
    Truncate,
    Sign,
    Sqrt,
    Exp,
    Ln,
    Sin,
    Cos,
    Tan,
    Tanh,
}

/// An arithmetic operation. A remainder has the sign of the dividend; 0 to a negative power is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the operation of its name")]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the comparison of its name")]
pub enum Comparison {
    Equal,
    Different,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// A part of a time. The day of the week counts from Sunday, which is 0; the epoch is in seconds from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the part of its name")]
pub enum Part {
    Epoch,
    Year,
    Quarter,
    Month,
    Day,
    DayOfWeek,
    Hour,
    Minute,
    Second,
}

/// The kind of a formula's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Number,
    /// A truth value.
    Truth,
    /// A text, which can be compared with written texts and looked up.
    Text,
    /// A time, of which parts can be taken.
    Time,
}

impl Formula {
    /// The formulas directly inside this one.
    pub fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Column(_) | Self::Number(_) | Self::Truth(_) | Self::Null => Vec::new(),
            Self::Function(_, of)
            | Self::Not(of)
            | Self::IsNull(of)
            | Self::Finite(of)
            | Self::AsNumber(of)
            | Self::Part(_, of)
            | Self::Among(of, _) => vec![of],
            Self::Arithmetic(_, left, right)
            | Self::Compare(_, left, right)
            | Self::Both(left, right)
            | Self::Either(left, right) => vec![left, right],
            Self::Coalesce(all) => all.iter().collect(),
            Self::Case(case) => {
                let branches = case.branches.iter().flat_map(|(condition, result)| [condition, result]);
                branches.chain(case.otherwise.as_deref()).collect()
            }
            Self::Lookup(lookup) => vec![&lookup.key],
        }
    }

    /// The names of the columns it reads, in the order of the tree, with repetitions.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::Column(name) => vec![name],
            other => other.parts().into_iter().flat_map(Self::columns).collect(),
        }
    }
}

impl Arithmetic {
    const fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Power => "^",
        }
    }
}

impl Comparison {
    const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Different => "<>",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        }
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => write!(f, "{name}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Truth(truth) => write!(f, "{truth}"),
            Self::Null => write!(f, "NULL"),
            Self::Function(function, of) => write!(f, "{}({of})", format!("{function:?}").to_lowercase()),
            Self::Arithmetic(operation, left, right) => write!(f, "({left} {} {right})", operation.sign()),
            Self::Compare(comparison, left, right) => write!(f, "({left} {} {right})", comparison.sign()),
            Self::Both(left, right) => write!(f, "({left} AND {right})"),
            Self::Either(left, right) => write!(f, "({left} OR {right})"),
            Self::Not(of) => write!(f, "NOT {of}"),
            Self::IsNull(of) => write!(f, "{of} IS NULL"),
            Self::Finite(of) => write!(f, "finite({of})"),
            Self::Coalesce(all) => {
                let all: Vec<String> = all.iter().map(Self::to_string).collect();
                write!(f, "coalesce({})", all.join(", "))
            }
            Self::Case(case) => {
                write!(f, "CASE")?;
                for (condition, result) in &case.branches {
                    write!(f, " WHEN {condition} THEN {result}")?;
                }
                if let Some(otherwise) = &case.otherwise {
                    write!(f, " ELSE {otherwise}")?;
                }
                write!(f, " END")
            }
            Self::AsNumber(of) => write!(f, "CAST({of} AS DOUBLE)"),
            Self::Part(part, of) => write!(f, "extract({} from {of})", format!("{part:?}").to_lowercase()),
            Self::Among(of, texts) => write!(f, "{of} IN ({})", texts.join(", ")),
            Self::Lookup(lookup) => write!(f, "{}.{}[{}]", lookup.table, lookup.column, lookup.key),
        }
    }
}
