//! Planned expressions: trees of typed operators, each of which is total.
//!
//! There is one tree type for each kind of value, so a tree that adds a text to a number cannot be built, and no operator
//! can fail. Arguments that must be literals (patterns, parts of times, numbers of digits) are fields with validated
//! values.

use crate::like::Pattern;

/// The kind of value that an expression has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Always null.
    Null,
    /// True or false.
    Boolean,
    /// A 64-bit integer.
    Integer,
    /// A 64-bit floating-point number.
    Float,
    /// A text.
    Text,
    /// An instant in UTC, to the microsecond.
    Time,
}

/// A planned expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub(crate) root: Tree,
}

/// A tree of any kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Null,
    Boolean(Boolean),
    Integer(Integer),
    Float(Float),
    Text(Text),
    Time(Time),
}

/// `CASE`: the result of the first condition that is true.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice<T> {
    pub(crate) branches: Vec<(Boolean, T)>,
    pub(crate) otherwise: Box<T>,
}

/// True, false or null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Boolean {
    Column(usize),
    Constant(Option<bool>),
    Not(Box<Boolean>),
    All(Vec<Boolean>),
    Any(Vec<Boolean>),
    /// Never null.
    IsNull(Box<Tree>),
    /// Whether the operand is this value; never null.
    Is(bool, Box<Boolean>),
    Compare(Comparison, Pair),
    /// Whether two values differ, where null counts as a value; never null.
    Distinct(Pair),
    /// One of these numbers.
    FloatIn(Box<Float>, Vec<f64>),
    /// One of these texts, which are sorted.
    TextIn(Box<Text>, Vec<String>),
    Like(Box<Text>, Pattern),
    StartsWith(Box<Text>, Box<Text>),
    EndsWith(Box<Text>, Box<Text>),
    Contains(Box<Text>, Box<Text>),
    IsNan(Box<Float>),
    /// Whether a number is nonzero.
    FromFloat(Box<Float>),
    /// A text parsed as a boolean, or null.
    FromText(Box<Text>),
    Choice(Choice<Boolean>),
}

/// An integer or null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Integer {
    Column(usize),
    Constant(Option<i64>),
    FromBoolean(Box<Boolean>),
    /// Truncated towards zero; null outside the range.
    FromFloat(Box<Float>, (i64, i64)),
    /// Null where the text is not an integer in the range.
    FromText(Box<Text>, (i64, i64)),
    /// Null outside the range.
    Within(Box<Integer>, (i64, i64)),
    /// Microseconds since 1970.
    FromTime(Box<Time>),
    Part(Part, Box<Time>),
    Characters(Box<Text>),
    Bytes(Box<Text>),
    /// The code point of the first character, 0 for an empty text.
    FirstCharacter(Box<Text>),
    /// The position of a text in another one, counted from 1; 0 if it is not contained.
    Position(Box<Text>, Box<Text>),
    Extreme(Extreme, Vec<Integer>),
    Choice(Choice<Integer>),
}

/// A floating-point number or null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Float {
    Column(usize),
    Constant(Option<f64>),
    FromInteger(Box<Integer>),
    FromText(Box<Text>),
    /// Seconds since 1970.
    Epoch(Box<Time>),
    Function(Function, Box<Float>),
    Arithmetic(Arithmetic, Box<Float>, Box<Float>),
    /// Rounded to this many decimal places.
    Rounded(Box<Float>, u32),
    /// Truncated to this many decimal places.
    Truncated(Box<Float>, u32),
    Extreme(Extreme, Vec<Float>),
    Choice(Choice<Float>),
    /// An injected fault: panics if the batch contains this value.
    #[cfg(test)]
    PanicsAt(Box<Float>, f64),
}

/// A text or null. Computed texts of more than [`LONGEST_TEXT`] bytes are null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Text {
    Column(usize),
    Constant(Option<String>),
    FromBoolean(Box<Boolean>),
    FromInteger(Box<Integer>),
    FromFloat(Box<Float>),
    Upper(Box<Text>),
    Lower(Box<Text>),
    /// The first text without the characters of the second at its ends.
    Trimmed(Ends, Box<Text>, Box<Text>),
    /// The concatenation; a null counts as empty.
    Concatenated(Vec<Text>),
    /// The concatenation; null if one part is null.
    Joined(Vec<Text>),
    /// From this character, counted from 1, this many characters or to the end.
    Substring(Box<Text>, i64, Option<i64>),
    /// The first characters.
    Left(Box<Text>, i64),
    /// The last characters.
    Right(Box<Text>, i64),
    Extreme(Extreme, Vec<Text>),
    Choice(Choice<Text>),
}

/// A time in microseconds since 1970, or null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Time {
    Column(usize),
    Constant(Option<i64>),
    /// Null where the text is not a time within the supported years.
    FromText(Box<Text>),
    Truncated(Unit, Box<Time>),
    Extreme(Extreme, Vec<Time>),
    Choice(Choice<Time>),
}

/// The longest computed text, in bytes: the same as the longest text in a column.
pub(crate) const LONGEST_TEXT: usize = 1 << 20;

/// Two values of the same kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pair {
    Integer(Box<Integer>, Box<Integer>),
    Float(Box<Float>, Box<Float>),
    Text(Box<Text>, Box<Text>),
    Time(Box<Time>, Box<Time>),
}

/// A comparison operator. For floats, NaN equals itself and is greater than all other numbers, and the two zeros are
/// equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Whether the greatest or the least of several values is taken. Nulls are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extreme {
    Greatest,
    Least,
}

/// The ends of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Both,
    Start,
    End,
}

/// An operation on two floats. A zero divisor counts as positive zero; zero to a negative power is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Atan2,
}

/// A function of one float. The square root of a negative number is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Negate,
    Abs,
    Acos,
    Asin,
    Atan,
    Cbrt,
    Ceil,
    Cos,
    Cosh,
    Degrees,
    Exp,
    Floor,
    Ln,
    Log10,
    Log2,
    Radians,
    Round,
    Sign,
    Sin,
    Single,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
    Truncate,
}

/// A part of a time that is an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Year,
    IsoYear,
    Quarter,
    Month,
    /// The ISO 8601 week.
    Week,
    Day,
    DayOfYear,
    /// Sunday is 0.
    DayOfWeek,
    /// Monday is 1.
    IsoDayOfWeek,
    Hour,
    Minute,
    Second,
    /// Of the minute, seconds included.
    Millisecond,
    /// Of the minute, seconds included.
    Microsecond,
    /// Of the minute, seconds included.
    Nanosecond,
}

/// A unit that times are truncated to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl Tree {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Null => Kind::Null,
            Self::Boolean(_) => Kind::Boolean,
            Self::Integer(_) => Kind::Integer,
            Self::Float(_) => Kind::Float,
            Self::Text(_) => Kind::Text,
            Self::Time(_) => Kind::Time,
        }
    }
}

impl Program {
    /// The kind of the program's values.
    pub const fn kind(&self) -> Kind {
        self.root.kind()
    }
}
