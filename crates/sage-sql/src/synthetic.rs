//! Random expressions and random rows for tests, biased towards cases that break evaluators: conditions that only some
//! rows satisfy, casts, patterns, dates, nulls and extreme values.
//!
//! It is compiled only for the tests of this crate and, with the feature `synthetic`, of other crates. No shipped build
//! contains it.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

/// A small deterministic pseudo-random number generator (SplitMix64) with its seed.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A random number below the bound.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// A random element of the list.
    pub fn pick<'list, T>(&mut self, list: &'list [T]) -> &'list T {
        let index = self.below(list.len() as u64);
        &list[usize::try_from(index).unwrap_or(0)]
    }
}

/// The columns of the synthetic rows: two floats, two integers, a boolean, two texts and two times.
pub fn schema() -> Schema {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let column = |name: &str, kind: &DataType| Field::new(name, kind.clone(), true);
    Schema::new(vec![
        column("x", &DataType::Float64),
        column("y", &DataType::Float64),
        column("n", &DataType::Int64),
        column("m", &DataType::Int64),
        column("b", &DataType::Boolean),
        column("name", &DataType::Utf8),
        column("note", &DataType::Utf8),
        column("t", &time),
        column("u", &time),
    ])
}

const NUMBERS: &[f64] = &[
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.75,
    1e308,
    -1e308,
    5e-324,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    9_007_199_254_740_993.0,
];
const INTEGERS: &[i64] = &[0, 1, -1, 2, 7, -3, 100, i64::MIN, i64::MAX, 1 << 53, -86_400];
const NAMES: &[&str] = &["Bob", "Zed", "Ann", "", "bob ", "%", "_b", "12", "-7.5", "1e999", "true", "nan"];
const NOTES: &[&str] = &[
    "2026-01-02",
    "2023-02-29",
    "1699-12-31T23:59:59",
    "2026-11-17T18:00:00+02:00",
    "not a date",
    "\u{1f695}\u{301}\0%_\\",
    "a long text that does not fit into a view of its own",
    "0",
];
const TIMES: &[i64] = &[
    0,
    -1,
    1_700_000_000_123_456,
    -8_520_336_000_000_000,
    -8_520_336_000_000_001,
    7_258_118_400_000_000,
    i64::MIN,
    i64::MAX,
];

/// `count` random rows, in which about every ninth value is null.
pub fn rows(dice: &mut Dice, count: usize) -> RecordBatch {
    fn values<T: Copy>(dice: &mut Dice, list: &[T], count: usize) -> Vec<Option<T>> {
        (0..count).map(|_| (dice.below(9) > 0).then(|| *dice.pick(list))).collect()
    }
    let times = |dice: &mut Dice| -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(values(dice, TIMES, count)).with_timezone("UTC"))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Float64Array::from(values(dice, NUMBERS, count))),
        Arc::new(Float64Array::from(values(dice, NUMBERS, count))),
        Arc::new(Int64Array::from(values(dice, INTEGERS, count))),
        Arc::new(Int64Array::from(values(dice, INTEGERS, count))),
        Arc::new(BooleanArray::from(values(dice, &[true, false], count))),
        Arc::new(StringArray::from(values(dice, NAMES, count))),
        Arc::new(StringArray::from(values(dice, NOTES, count))),
        times(dice),
        times(dice),
    ];
    RecordBatch::try_new(Arc::new(schema()), columns).unwrap_or_else(|_| RecordBatch::new_empty(Arc::new(schema())))
}

const PARTS: &[&str] = &[
    "epoch",
    "year",
    "isoyear",
    "quarter",
    "month",
    "week",
    "day",
    "doy",
    "dow",
    "isodow",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
    "nanosecond",
    "foo",
];
const UNITS: &[&str] =
    &["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond", "fortnight"];
const PATTERNS: &[&str] = &["B%", "%o_", "%", "_", "", "100\\%", "%a%b%c%d%e%f%", "___________"];
const COMPARISONS: &[&str] = &["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"];

/// Every function that an expression may call.
pub fn functions() -> impl Iterator<Item = &'static str> {
    crate::plan::function::names()
}

/// The functions of one real number that are picked.
const REAL: &[&str] = &[
    "abs", "acos", "asin", "atan", "cbrt", "ceil", "ceiling", "cos", "cosh", "degrees", "exp", "floor", "ln", "log10",
    "log2", "radians", "round", "sign", "signum", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
];
const NOT: &[&str] = &["", "NOT "];

/// A random condition of at most this depth. The planner refuses some of them; none may fail on a row.
pub fn condition(dice: &mut Dice, depth: u32) -> String {
    if depth == 0 {
        return (*dice.pick(&["b", "name = 'Bob'", "x > 0", "n IS NULL", "TRUE", "NULL"])).to_owned();
    }
    let below = depth - 1;
    match dice.below(15) {
        0 => format!("({}) AND ({})", condition(dice, below), condition(dice, below)),
        1 => format!("({}) OR ({})", condition(dice, below), condition(dice, below)),
        2 => format!("NOT ({})", condition(dice, below)),
        3 => format!("({}) {} ({})", number(dice, below), dice.pick(COMPARISONS), number(dice, below)),
        4 => format!("({}) {} ({})", text(dice, below), dice.pick(COMPARISONS), text(dice, below)),
        5 => format!("({}) {} ({})", time(dice, below), dice.pick(COMPARISONS), time(dice, below)),
        6 => {
            let (not, like) = (*dice.pick(NOT), *dice.pick(&["LIKE", "ILIKE"]));
            format!("({}) {not}{like} '{}'", text(dice, below), dice.pick(PATTERNS))
        }
        7 => {
            let (not, of) = (*dice.pick(NOT), number(dice, below));
            format!("({of}) {not}BETWEEN ({}) AND ({})", number(dice, below), number(dice, below))
        }
        8 => {
            let not = *dice.pick(NOT);
            format!("({}) {not}IN ('Bob', 'Zed', {})", text(dice, below), text(dice, below))
        }
        9 => {
            let test = *dice.pick(&["NULL", "NOT NULL", "TRUE", "NOT TRUE", "FALSE", "NOT FALSE"]);
            format!("({}) IS {test}", condition(dice, below))
        }
        11 => format!("isnan({})", number(dice, below)),
        12 => {
            let function = *dice.pick(&["starts_with", "ends_with", "contains"]);
            format!("{function}({}, {})", text(dice, below), text(dice, below))
        }
        13 => format!("({}) = {}", condition(dice, below), dice.pick(&["TRUE", "FALSE"])),
        10 => format!("CAST(({}) AS BOOLEAN)", text(dice, below)),
        _ => format!(
            "CASE WHEN ({}) THEN ({}) ELSE ({}) END",
            condition(dice, below),
            condition(dice, below),
            condition(dice, below)
        ),
    }
}

/// A random numeric expression of at most this depth.
pub fn number(dice: &mut Dice, depth: u32) -> String {
    if depth == 0 {
        return (*dice.pick(&["x", "y", "n", "m", "0", "1.5", "-3", "1e300", "NULL"])).to_owned();
    }
    let below = depth - 1;
    match dice.below(16) {
        0 => {
            let operator = *dice.pick(&["+", "-", "*", "/", "%"]);
            format!("({}) {operator} ({})", number(dice, below), number(dice, below))
        }
        1 => {
            let function = *dice.pick(REAL);
            format!("{function}({})", number(dice, below))
        }
        2 => {
            let function = *dice.pick(&["power", "pow", "atan2"]);
            format!("{function}({}, {})", number(dice, below), number(dice, below))
        }
        3 => format!("CAST(({}) AS {})", text(dice, below), dice.pick(&["DOUBLE", "INT", "TINYINT", "BIGINT"])),
        4 => format!("CAST(({}) AS {})", number(dice, below), dice.pick(&["INT", "SMALLINT", "REAL", "BIGINT"])),
        5 | 6 => format!("date_part('{}', {})", dice.pick(PARTS), time(dice, below)),
        7 => format!("coalesce({}, {})", number(dice, below), number(dice, below)),
        8 => format!("nullif({}, {})", number(dice, below), number(dice, below)),
        9 => {
            let function = *dice.pick(&["greatest", "least"]);
            format!("{function}({}, {})", number(dice, below), number(dice, below))
        }
        10 => {
            let function = *dice.pick(&["length", "octet_length", "ascii"]);
            format!("{function}({})", text(dice, below))
        }
        11 => format!("strpos({}, {})", text(dice, below), text(dice, below)),
        12 => {
            let function = *dice.pick(&["round", "trunc"]);
            format!("{function}({}, {})", number(dice, below), dice.pick(&["0", "2", "400"]))
        }
        13 => format!("{}({})", dice.pick(&["-", "+"]), number(dice, below)),
        14 => format!("CASE {} WHEN {} THEN 1 END", number(dice, below), number(dice, below)),
        _ => format!(
            "CASE WHEN name = 'Bob' THEN ({}) WHEN ({}) THEN 2 ELSE ({}) END",
            number(dice, below),
            condition(dice, below),
            number(dice, below)
        ),
    }
}

/// A random text expression of at most this depth.
pub fn text(dice: &mut Dice, depth: u32) -> String {
    if depth == 0 {
        return (*dice.pick(&["name", "note", "'Bob'", "'2026-01-01'", "''", "'12'", "NULL"])).to_owned();
    }
    let below = depth - 1;
    match dice.below(8) {
        0 => format!("{}({})", dice.pick(&["upper", "lower"]), text(dice, below)),
        1 => format!("({}) || ({})", text(dice, below), text(dice, below)),
        2 => format!("concat({}, {})", text(dice, below), number(dice, below)),
        3 => {
            let function = *dice.pick(&["substr", "substring"]);
            format!("{function}({}, {}, {})", text(dice, below), dice.below(5), dice.below(5))
        }
        4 => format!("{}({}, {})", dice.pick(&["left", "right"]), text(dice, below), dice.below(4)),
        5 => format!("{}({})", dice.pick(&["trim", "btrim", "ltrim", "rtrim"]), text(dice, below)),
        6 => format!("CAST(({}) AS VARCHAR)", number(dice, below)),
        _ => format!(
            "CASE WHEN ({}) THEN ({}) ELSE ({}) END",
            condition(dice, below),
            text(dice, below),
            text(dice, below)
        ),
    }
}

/// A random time expression of at most this depth.
pub fn time(dice: &mut Dice, depth: u32) -> String {
    if depth == 0 {
        return (*dice.pick(&["t", "u", "TIMESTAMP '2026-01-01T00:00:00'", "DATE '1999-12-31'", "NULL"])).to_owned();
    }
    let below = depth - 1;
    match dice.below(5) {
        0 => format!("date_trunc('{}', {})", dice.pick(UNITS), time(dice, below)),
        1 => format!("CAST(({}) AS TIMESTAMP)", text(dice, below)),
        2 => format!("CAST(({}) AS DATE)", text(dice, below)),
        3 => format!("coalesce({}, {})", time(dice, below), time(dice, below)),
        _ => format!(
            "CASE WHEN ({}) THEN ({}) ELSE ({}) END",
            condition(dice, below),
            time(dice, below),
            time(dice, below)
        ),
    }
}
