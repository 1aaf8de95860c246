//! A question held against its stream: which tables of the kernel it takes, and how wide its answers will be.

use sage_kernel::{SCALE, TableNoise};
use sage_learn::statistics::{Quantiles, StatisticError, half_width_of_mean, noise_reach};
use sage_sql::{BinaryOperator, Expr, UnaryOperator};

use super::key::{GROUPS, KeyKind, Keys};
use super::read::{Asked, Item, Written, read};
use super::refusal::QuestionRefusal;
use super::span::{number_of, span};
use crate::read::{Expression, Query, prepare};
use crate::stream::StreamFile;

/// The confidence with which all half-widths of an answer hold together.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// Among how many evenly spaced values a quantile is sought.
const GRID: u32 = 1024;

/// A table of the kernel: some numbers of every group. The place is that of the argument among the columns of rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Table {
    /// How many rows there are, or how many have the argument.
    Rows(Option<usize>),
    /// Count and sum of an argument between bounds.
    Value(usize, (f64, f64)),
    /// The same of its squared distance from the middle of the bounds.
    Squares(usize, (f64, f64)),
    /// One table for each level of a tree over the bounds.
    Levels(usize, (f64, f64)),
}

/// A number of the answer and the table it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Count(usize),
    Sum(usize),
    Mean(usize),
    /// From the table of the argument and from that of its squares; of the deviation, the root is taken.
    Variance(usize, usize),
    Deviation(usize, usize),
    Quantile(usize, f64),
}

/// The kind of an aggregate. Tests that must cover every kind match on it exhaustively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the aggregate of its name")]
pub enum Aggregate {
    Count,
    Sum,
    Mean,
    Variance,
    Deviation,
    Quantile,
}

impl Value {
    const fn aggregate(self) -> Aggregate {
        match self {
            Self::Count(_) => Aggregate::Count,
            Self::Sum(_) => Aggregate::Sum,
            Self::Mean(_) => Aggregate::Mean,
            Self::Variance(..) => Aggregate::Variance,
            Self::Deviation(..) => Aggregate::Deviation,
            Self::Quantile(..) => Aggregate::Quantile,
        }
    }
}

/// A question that can be answered privately.
#[derive(Clone, Debug)]
pub struct Question {
    pub(super) keys: Vec<(String, Keys)>,
    pub(super) values: Vec<(String, Value)>,
    pub(super) tables: Vec<Table>,
    query: Query,
    /// The tables whose argument no row lacks, by the stream's file.
    complete: Vec<usize>,
}

/// How wide an answer will be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Width {
    /// So much to either side.
    Known(f64),
    /// It depends on how many rows there are, which is not public.
    OfRows,
    /// It depends on how the values lie.
    OfValues,
}

impl Question {
    /// Reads a question and holds it against the stream that it is asked of.
    ///
    /// # Errors
    /// A refusal that names the part and says what to ask instead.
    pub fn new(sql: &str, file: &StreamFile) -> Result<Self, QuestionRefusal> {
        let written = read(sql, &file.name)?;
        let filter = written.filter.as_ref().map(ToString::to_string);
        let query = Query { filter, columns: Vec::new() };
        let (tables, complete) = (Vec::new(), Vec::new());
        let mut question = Self { keys: Vec::new(), values: Vec::new(), tables, query, complete };
        question.group(&written, file)?;
        question.aggregate(&written, file)?;
        // Whatever is not a function of one row, or could fail for some row, is refused here.
        if let Err(refusal) = prepare(&file.row_schema(), &question.query) {
            return Err(QuestionRefusal::new("SELECT", refusal.to_string()));
        }
        Ok(question)
    }

    fn group(&mut self, written: &Written, file: &StreamFile) -> Result<(), QuestionRefusal> {
        for (place, (name, key)) in written.keys.iter().enumerate() {
            self.keys.push((name.clone(), Keys::of(key, file)?));
            self.query.columns.push(Expression { name: format!("key_{place}"), sql: key.to_string() });
        }
        match self.group_count() {
            Some(1..=GROUPS) => Ok(()),
            _ => {
                let names: Vec<&str> = self.keys.iter().map(|(name, _)| name.as_str()).collect();
                let why = format!("together these keys make more than {GROUPS} groups; take fewer, or wider ones");
                Err(QuestionRefusal::new(format!("GROUP BY {}", names.join(", ")), why))
            }
        }
    }

    /// How many groups there are: one where nothing is grouped.
    fn group_count(&self) -> Option<u32> {
        self.keys.iter().try_fold(1u32, |all, (_, keys)| all.checked_mul(keys.count()?))
    }

    pub(crate) fn groups(&self) -> u32 {
        self.group_count().unwrap_or(1)
    }

    fn aggregate(&mut self, written: &Written, file: &StreamFile) -> Result<(), QuestionRefusal> {
        let values = written.items.iter().filter_map(|(name, item)| match item {
            Item::Value(asked) => Some((name, &**asked)),
            Item::Key(_) => None,
        });
        // What has bounds first, so that counts find a table that counts for them.
        let (counts, others): (Vec<_>, Vec<_>) =
            values.clone().partition(|(_, asked)| matches!(asked, Asked::Count(_)));
        let mut found: Vec<(&String, &Asked, Value)> = Vec::new();
        for (name, asked) in others.into_iter().chain(counts) {
            let value = self.value(asked, file)?;
            found.push((name, asked, value));
        }
        for (name, asked) in values {
            let own = found.iter().position(|(known, also, _)| *known == name && *also == asked);
            let Some((.., value)) = own.map(|place| found.remove(place)) else { continue };
            self.values.push((name.clone(), value));
        }
        Ok(())
    }

    fn value(&mut self, asked: &Asked, file: &StreamFile) -> Result<Value, QuestionRefusal> {
        Ok(match asked {
            Asked::Count(None) => {
                let always = |table: &Table| matches!(table, Table::Value(of, _) if self.always_there(*of, file));
                let shared = self.tables.iter().position(always);
                Value::Count(shared.unwrap_or_else(|| self.table(Table::Rows(None))))
            }
            Asked::Count(Some(of)) => {
                let of = self.column(of);
                let shared = self.tables.iter().position(|table| matches!(table, Table::Value(own, _) if *own == of));
                Value::Count(shared.unwrap_or_else(|| self.table(Table::Rows(Some(of)))))
            }
            Asked::Sum(of) => Value::Sum(self.bounded(of, file, Table::Value)?),
            Asked::Mean(of) => Value::Mean(self.bounded(of, file, Table::Value)?),
            Asked::Variance(of) => {
                Value::Variance(self.bounded(of, file, Table::Value)?, self.bounded(of, file, Table::Squares)?)
            }
            Asked::Deviation(of) => {
                Value::Deviation(self.bounded(of, file, Table::Value)?, self.bounded(of, file, Table::Squares)?)
            }
            Asked::Quantile(of, share) => Value::Quantile(self.bounded(of, file, Table::Levels)?, *share),
        })
    }

    /// Whether every row has this argument, by the stream's file.
    fn always_there(&self, of: usize, file: &StreamFile) -> bool {
        let sql = self.query.columns.get(of).map(|column| column.sql.as_str());
        sql.is_some_and(|sql| file.columns.iter().any(|column| column.name == sql && !column.nullable))
    }

    fn bounded(
        &mut self, of: &Expr, file: &StreamFile, table: fn(usize, (f64, f64)) -> Table,
    ) -> Result<usize, QuestionRefusal> {
        let (low, high) = span(of, file)?;
        if !(low.is_finite() && high.is_finite() && (high - low).is_finite()) {
            let why = format!(
                "what one row can add to it is not known from the declared bounds; bound it yourself, as in \
                 greatest(0, least(100, {of}))"
            );
            return Err(QuestionRefusal::new(of, why));
        }
        if low >= high {
            return Err(QuestionRefusal::new(of, "it is always the same number; ask for count(*)"));
        }
        let place = self.column(of);
        let table = self.table(table(place, (low, high)));
        if never_missing(of, file) && !self.complete.contains(&table) {
            self.complete.push(table);
        }
        Ok(table)
    }

    /// The place of an argument among the columns of rows.
    fn column(&mut self, of: &Expr) -> usize {
        let sql = of.to_string();
        let known = self.query.columns.iter().skip(self.keys.len()).position(|column| column.sql == sql);
        known.map_or_else(
            || {
                let place = self.query.columns.len();
                self.query.columns.push(Expression { name: format!("value_{place}"), sql });
                place
            },
            |place| place + self.keys.len(),
        )
    }

    fn table(&mut self, table: Table) -> usize {
        self.tables.iter().position(|known| *known == table).unwrap_or_else(|| {
            self.tables.push(table);
            self.tables.len() - 1
        })
    }

    /// What of each row is looked at.
    pub(crate) const fn query(&self) -> &Query {
        &self.query
    }

    /// The names of the numbers of the answer.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|(name, _)| name.as_str())
    }

    /// The kind of each number of the answer.
    pub fn aggregates(&self) -> impl Iterator<Item = Aggregate> {
        self.values.iter().map(|(_, value)| value.aggregate())
    }

    /// The kind of each key that is grouped by.
    pub fn key_kinds(&self) -> impl Iterator<Item = KeyKind> {
        self.keys.iter().map(|(_, keys)| keys.kind())
    }

    /// For each table, how many of the kernel's it takes, and whether it is about all rows. Those that are not are
    /// read from the train lane, a random part of the rows that says as much.
    pub(crate) fn parts(&self) -> Vec<(u32, bool)> {
        let part = |(place, table): (usize, &Table)| {
            let own = |value: &Value| matches!(value, Value::Count(of) | Value::Sum(of) if *of == place);
            let taken = if matches!(table, Table::Levels(..)) { levels() } else { 1 };
            (taken, self.values.iter().any(|(_, value)| own(value)))
        };
        self.tables.iter().enumerate().map(part).collect()
    }

    /// The chance that any one aggregate's half-widths do not hold.
    pub(super) fn chance(&self) -> f64 {
        (1.0 - CONFIDENCE) / self.values.len().max(1) as f64
    }

    /// How wide the answers will be with this noise in each table, where that is known from public things alone. The
    /// rows are those of the train lane, at least so many, if that is public.
    ///
    /// # Errors
    /// When a noise has no quantile.
    pub(crate) fn widths(&self, noises: &[TableNoise], rows: Option<u64>) -> Result<Vec<Width>, StatisticError> {
        let whole = self.keys.is_empty() && self.query.filter.is_none();
        let width = |value: &Value| {
            Ok(match *value {
                Value::Count(of) => Width::Known(2.0 * self.count_reach(of, noises[of])?),
                Value::Sum(of) => {
                    let (low, high) = self.bounds(of);
                    let reach = self.reach(noises[of], 8.0)?;
                    // Rounding adds half a millionth of the range for each row at most: rows are not public.
                    let rounding = (high - low) / (2.0 * SCALE as f64) * rows.unwrap_or(0) as f64;
                    Width::Known(2.0 * (high.abs() + low.abs()) * reach + rounding)
                }
                // How many rows a mean is of is public only where no row can lack the argument.
                Value::Mean(of) => match rows.filter(|_| whole && self.complete.contains(&of)) {
                    Some(rows) => {
                        let half = half_width_of_mean(rows, self.bounds(of), noises[of], 0.5 * self.chance())?;
                        Width::Known(half)
                    }
                    None => Width::OfRows,
                },
                Value::Variance(..) | Value::Deviation(..) | Value::Quantile(..) => Width::OfValues,
            })
        };
        self.values.iter().map(|(_, value)| width(value)).collect()
    }

    /// How far a lane's count of any group is off.
    pub(super) fn count_reach(&self, of: usize, noise: TableNoise) -> Result<f64, StatisticError> {
        Ok(match self.tables[of] {
            Table::Rows(_) => self.reach(noise, 4.0)?,
            _ => 2.0 * self.reach(noise, 8.0)?,
        })
    }

    /// How far one number's noise may be off, where so many sides of numbers of each group share the chance.
    pub(super) fn reach(&self, noise: TableNoise, sides: f64) -> Result<f64, StatisticError> {
        noise_reach(noise, self.chance() / (sides * f64::from(self.groups())))
    }

    pub(super) fn bounds(&self, of: usize) -> (f64, f64) {
        match self.tables[of] {
            Table::Value(_, bounds) | Table::Squares(_, bounds) | Table::Levels(_, bounds) => bounds,
            Table::Rows(_) => (0.0, 1.0),
        }
    }
}

/// Whether an expression is present in every row: neither null nor NaN nor infinite.
fn never_missing(of: &Expr, file: &StreamFile) -> bool {
    let present = |part: &Expr| never_missing(part, file);
    match of {
        Expr::Unary(UnaryOperator::Minus, of) => present(of),
        Expr::Column(name) => file.column(&name.name).is_some_and(|(_, column)| !column.nullable),
        Expr::Binary(BinaryOperator::Add | BinaryOperator::Subtract | BinaryOperator::Multiply, left, right) => {
            present(left) && present(right)
        }
        Expr::Binary(BinaryOperator::Divide, left, right) => {
            present(left) && number_of(right).is_some_and(|by| by.abs() >= 1.0)
        }
        Expr::Call(name, arguments) => {
            matches!(name.as_str(), "abs" | "least" | "greatest") && arguments.iter().all(present)
        }
        other => number_of(other).is_some(),
    }
}

/// How many tables a quantile takes.
fn levels() -> u32 {
    (GRID + 1).next_power_of_two().ilog2()
}

/// The plan of the quantiles between bounds.
pub(super) fn quantiles((low, high): (f64, f64), noise: TableNoise) -> Result<Quantiles, StatisticError> {
    let edge = |place: u32| low + (high - low) * f64::from(place) / f64::from(GRID - 1);
    Quantiles::new((0..GRID).map(edge).collect(), noise)
}
