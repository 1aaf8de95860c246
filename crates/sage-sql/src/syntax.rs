//! The syntax tree of an expression, and its formatting as SQL.
//!
//! Formatting a tree and parsing the result gives the same tree.

use std::fmt;

/// A name: folded to lower case unless it is quoted, as in SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identifier {
    /// The name without quotes.
    pub name: String,
    /// Whether it was written in double quotes.
    pub quoted: bool,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A column.
    Column(Identifier),
    /// A qualified name, which matches no column.
    Qualified(String),
    /// An unsigned number, as written.
    Number(String),
    /// A text.
    Text(String),
    /// `TRUE` or `FALSE`.
    Boolean(bool),
    /// `NULL`.
    Null,
    /// `DATE '...'` or `TIMESTAMP '...'`.
    Typed(TypeName, String),
    /// A prefix operator.
    Unary(UnaryOperator, Box<Expr>),
    /// An operator with two operands.
    Binary(BinaryOperator, Box<Expr>, Box<Expr>),
    /// `AND` of two or more conditions.
    All(Vec<Expr>),
    /// `OR` of two or more conditions.
    Any(Vec<Expr>),
    /// `IS ...`.
    Is(IsTest, Box<Expr>),
    /// `[NOT] BETWEEN low AND high`.
    Between {
        /// Whether it is `NOT BETWEEN`.
        negated: bool,
        /// The value.
        of: Box<Expr>,
        /// The lower bound.
        low: Box<Expr>,
        /// The upper bound.
        high: Box<Expr>,
    },
    /// `[NOT] IN (...)`.
    InList {
        /// Whether it is `NOT IN`.
        negated: bool,
        /// The value.
        of: Box<Expr>,
        /// The list.
        list: Vec<Expr>,
    },
    /// `[NOT] LIKE pattern` or `[NOT] ILIKE pattern`.
    Like {
        /// Whether it is `NOT LIKE`.
        negated: bool,
        /// Whether it is `ILIKE`.
        case_insensitive: bool,
        /// The value.
        of: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
    },
    /// `CASE ... END`.
    Case(Case),
    /// `CAST(... AS ...)`, `TRY_CAST` and `::`, which all return null where the value cannot be cast.
    Cast(Box<Expr>, TypeName),
    /// A function call with the function's name in lower case.
    Call(String, Vec<Expr>),
    /// A function call in a form that only aggregates and windows have.
    Aggregate(Box<Aggregation>),
}

/// `CASE`, with its optional operand.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The value that the conditions are compared with.
    pub operand: Option<Box<Expr>>,
    /// Conditions and results; at least one.
    pub branches: Vec<(Expr, Expr)>,
    /// The result if no condition holds.
    pub otherwise: Option<Box<Expr>>,
}

/// `count(*)`, `DISTINCT`, `FILTER`, `OVER`, `WITHIN GROUP`.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregation {
    /// The function's name in lower case.
    pub name: String,
    /// Its arguments.
    pub arguments: Vec<Expr>,
    /// Whether the argument is `*`.
    pub star: bool,
    /// Whether `DISTINCT` precedes the arguments.
    pub distinct: bool,
    /// The condition of `FILTER (WHERE ...)`.
    pub filter: Option<Expr>,
    /// Whether a window follows.
    pub windowed: bool,
    /// The expression of `WITHIN GROUP (ORDER BY ...)`.
    pub within_group: Option<Expr>,
}

/// A prefix operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the operator of its name")]
pub enum UnaryOperator {
    Not,
    Minus,
    Plus,
}

/// An operator between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the operator of its name")]
pub enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Concatenate,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Distinct,
    NotDistinct,
}

/// What follows `IS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the test of its name")]
pub enum IsTest {
    Null,
    NotNull,
    True,
    NotTrue,
    False,
    NotFalse,
}

/// A type that a cast can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeName {
    /// `BOOLEAN`.
    Boolean,
    /// `TINYINT`: 8 bits.
    TinyInt,
    /// `SMALLINT`: 16 bits.
    SmallInt,
    /// `INT`: 32 bits.
    Int,
    /// `BIGINT`: 64 bits.
    BigInt,
    /// `REAL`: rounded to single precision.
    Real,
    /// `DOUBLE`.
    Double,
    /// `VARCHAR`, `TEXT`, `STRING`.
    Text,
    /// `DATE`.
    Date,
    /// `TIMESTAMP`.
    Timestamp,
}

impl TypeName {
    /// The type's name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::TinyInt => "TINYINT",
            Self::SmallInt => "SMALLINT",
            Self::Int => "INT",
            Self::BigInt => "BIGINT",
            Self::Real => "REAL",
            Self::Double => "DOUBLE",
            Self::Text => "VARCHAR",
            Self::Date => "DATE",
            Self::Timestamp => "TIMESTAMP",
        }
    }
}

impl IsTest {
    const fn words(self) -> &'static str {
        match self {
            Self::Null => "IS NULL",
            Self::NotNull => "IS NOT NULL",
            Self::True => "IS TRUE",
            Self::NotTrue => "IS NOT TRUE",
            Self::False => "IS FALSE",
            Self::NotFalse => "IS NOT FALSE",
        }
    }
}

impl BinaryOperator {
    /// The operator as it is written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Concatenate => "||",
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Distinct => "IS DISTINCT FROM",
            Self::NotDistinct => "IS NOT DISTINCT FROM",
        }
    }

    /// The precedence of the operator.
    pub(crate) const fn precedence(self) -> u8 {
        match self {
            Self::Distinct | Self::NotDistinct => precedence::IS,
            Self::Equal | Self::NotEqual | Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual => {
                precedence::COMPARISON
            }
            Self::Concatenate => precedence::CONCATENATION,
            Self::Add | Self::Subtract => precedence::SUM,
            Self::Multiply | Self::Divide | Self::Remainder => precedence::PRODUCT,
        }
    }
}

/// Operator precedences, from the lowest.
pub(crate) mod precedence {
    pub(crate) const OR: u8 = 1;
    pub(crate) const AND: u8 = 2;
    pub(crate) const NOT: u8 = 3;
    pub(crate) const IS: u8 = 4;
    pub(crate) const COMPARISON: u8 = 5;
    pub(crate) const RANGE: u8 = 6;
    pub(crate) const CONCATENATION: u8 = 7;
    pub(crate) const SUM: u8 = 8;
    pub(crate) const PRODUCT: u8 = 9;
    pub(crate) const SIGN: u8 = 10;
    pub(crate) const CAST: u8 = 11;
    pub(crate) const PRIMARY: u8 = 12;
}

impl Expr {
    /// The expressions directly inside this one.
    pub fn children(&self) -> Vec<&Self> {
        match self {
            Self::Column(_)
            | Self::Qualified(_)
            | Self::Number(_)
            | Self::Text(_)
            | Self::Boolean(_)
            | Self::Null
            | Self::Typed(..) => Vec::new(),
            Self::Unary(_, of) | Self::Is(_, of) | Self::Cast(of, _) => vec![of],
            Self::Binary(_, left, right) => vec![left, right],
            Self::All(parts) | Self::Any(parts) | Self::Call(_, parts) => parts.iter().collect(),
            Self::Between { of, low, high, .. } => vec![of, low, high],
            Self::InList { of, list, .. } => std::iter::once(&**of).chain(list).collect(),
            Self::Like { of, pattern, .. } => vec![of, pattern],
            Self::Case(case) => {
                let branches = case.branches.iter().flat_map(|(when, then)| [when, then]);
                let around = case.operand.iter().chain(&case.otherwise).map(AsRef::as_ref);
                around.chain(branches).collect()
            }
            Self::Aggregate(of) => of.arguments.iter().chain(&of.filter).chain(&of.within_group).collect(),
        }
    }

    /// Whether the expression reads the column of this name.
    pub fn reads(&self, column: &str) -> bool {
        match self {
            Self::Column(name) => name.name == column,
            other => other.children().into_iter().any(|child| child.reads(column)),
        }
    }

    const fn precedence(&self) -> u8 {
        match self {
            Self::Any(_) => precedence::OR,
            Self::All(_) => precedence::AND,
            Self::Unary(UnaryOperator::Not, _) => precedence::NOT,
            Self::Is(..) => precedence::IS,
            Self::Between { .. } | Self::InList { .. } | Self::Like { .. } => precedence::RANGE,
            Self::Unary(..) => precedence::SIGN,
            Self::Binary(operator, ..) => operator.precedence(),
            _ => precedence::PRIMARY,
        }
    }

    /// The expression as an operand, in parentheses if its precedence is lower than this.
    const fn at(&self, least: u8) -> Operand<'_> {
        Operand { of: self, least }
    }
}

struct Operand<'expr> {
    of: &'expr Expr,
    least: u8,
}

impl fmt::Display for Operand<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of.precedence() < self.least { write!(out, "({})", self.of) } else { write!(out, "{}", self.of) }
    }
}

struct List<'items>(&'items [Expr], &'static str, u8);

impl fmt::Display for List<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(items, separator, least) = self;
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.write_str(separator)?;
            }
            write!(out, "{}", item.at(*least))?;
        }
        Ok(())
    }
}

const fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

impl fmt::Display for Identifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.quoted { write!(out, "\"{}\"", self.name.replace('"', "\"\"")) } else { out.write_str(&self.name) }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use precedence as level;
        match self {
            Self::Column(name) => write!(out, "{name}"),
            Self::Qualified(text) | Self::Number(text) => out.write_str(text),
            Self::Text(text) => write!(out, "'{}'", text.replace('\'', "''")),
            Self::Boolean(boolean) => out.write_str(if *boolean { "TRUE" } else { "FALSE" }),
            Self::Null => out.write_str("NULL"),
            Self::Typed(name, text) => write!(out, "{} '{}'", name.name(), text.replace('\'', "''")),
            Self::Unary(UnaryOperator::Not, of) => write!(out, "NOT {}", of.at(level::NOT)),
            // A space after the sign, so that two of them do not start a comment.
            Self::Unary(UnaryOperator::Minus, of) => match **of {
                Self::Unary(..) => write!(out, "- {}", of.at(level::SIGN)),
                _ => write!(out, "-{}", of.at(level::SIGN)),
            },
            Self::Unary(UnaryOperator::Plus, of) => write!(out, "+{}", of.at(level::SIGN)),
            Self::Binary(operator, left, right) => {
                let own = operator.precedence();
                write!(out, "{} {} {}", left.at(own), operator.symbol(), right.at(own + 1))
            }
            Self::All(parts) => write!(out, "{}", List(parts, " AND ", level::NOT)),
            Self::Any(parts) => write!(out, "{}", List(parts, " OR ", level::AND)),
            Self::Is(test, of) => write!(out, "{} {}", of.at(level::IS), test.words()),
            Self::Between { negated, of, low, high } => {
                let (of, low, high) =
                    (of.at(level::RANGE), low.at(level::CONCATENATION), high.at(level::CONCATENATION));
                write!(out, "{of} {}BETWEEN {low} AND {high}", not(*negated))
            }
            Self::InList { negated, of, list } => {
                write!(out, "{} {}IN ({})", of.at(level::RANGE), not(*negated), List(list, ", ", 0))
            }
            Self::Like { negated, case_insensitive, of, pattern } => {
                let word = if *case_insensitive { "ILIKE" } else { "LIKE" };
                let (of, pattern) = (of.at(level::RANGE), pattern.at(level::CONCATENATION));
                write!(out, "{of} {}{word} {pattern}", not(*negated))
            }
            Self::Case(case) => write!(out, "{case}"),
            Self::Cast(of, to) => write!(out, "CAST({of} AS {})", to.name()),
            Self::Call(name, arguments) => write!(out, "{name}({})", List(arguments, ", ", 0)),
            Self::Aggregate(aggregation) => write!(out, "{aggregation}"),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("CASE")?;
        if let Some(operand) = &self.operand {
            write!(out, " {operand}")?;
        }
        for (when, then) in &self.branches {
            write!(out, " WHEN {when} THEN {then}")?;
        }
        if let Some(otherwise) = &self.otherwise {
            write!(out, " ELSE {otherwise}")?;
        }
        out.write_str(" END")
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        match self.star {
            true => write!(out, "{}(*)", self.name)?,
            false => write!(out, "{}({distinct}{})", self.name, List(&self.arguments, ", ", 0))?,
        }
        if let Some(order) = &self.within_group {
            write!(out, " WITHIN GROUP (ORDER BY {order})")?;
        }
        if let Some(filter) = &self.filter {
            write!(out, " FILTER (WHERE {filter})")?;
        }
        if self.windowed { out.write_str(" OVER (...)") } else { Ok(()) }
    }
}
