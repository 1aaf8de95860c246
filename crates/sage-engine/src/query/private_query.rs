//! A private query checked against its stream: the tables it needs, and the expected width of its results.

use sage_kernel::{SCALE, TableNoise};
use sage_learn::statistics::{Quantiles, StatisticError, half_width_of_mean, noise_reach};
use sage_sql::{BinaryOperator, Expr, UnaryOperator};

use super::key::{KeyKind, Keys, MAX_GROUPS};
use super::read::{AggregateExpression, Item, ParsedQuery, read};
use super::refusal::PrivateQueryRefusal;
use super::span::{literal_number, value_span};
use crate::read::{Expression, Query, prepare};
use crate::stream::StreamFile;

/// The joint confidence of all half-widths of a result.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// The number of evenly spaced candidate values of a quantile.
const GRID: u32 = 1024;

/// A noisy table with numbers for every group. The index is that of the argument among the columns of rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Table {
    /// The number of rows, or of rows with the argument.
    Rows(Option<usize>),
    /// The count and sum of an argument between bounds.
    Value(usize, (f64, f64)),
    /// The same for its squared distance from the middle of the bounds.
    Squares(usize, (f64, f64)),
    /// One table for each level of a tree over the bounds.
    Levels(usize, (f64, f64)),
}

/// An aggregate and the index of its table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Count(usize),
    Sum(usize),
    Mean(usize),
    /// The tables of the argument and of its squares. The deviation is the square root of the variance.
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

/// A query that can be answered privately.
#[derive(Clone, Debug)]
pub struct PrivateQuery {
    pub(super) keys: Vec<(String, Keys)>,
    pub(super) values: Vec<(String, Value)>,
    pub(super) tables: Vec<Table>,
    query: Query,
    /// The tables whose argument is never missing, according to the stream file.
    complete: Vec<usize>,
}

/// The expected half-width of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ResultWidth {
    /// This much to either side.
    Known(f64),
    /// It depends on the number of rows, which is not public.
    DependsOnRows,
    /// It depends on the distribution of the values.
    DependsOnValues,
}

impl PrivateQuery {
    /// Parses a query and checks it against the stream.
    ///
    /// # Errors
    /// A refusal that names the part and what to use instead.
    pub fn new(sql: &str, file: &StreamFile) -> Result<Self, PrivateQueryRefusal> {
        let parsed = read(sql, &file.name)?;
        let filter = parsed.filter.as_ref().map(ToString::to_string);
        let row_query = Query { filter, columns: Vec::new() };
        let (tables, complete) = (Vec::new(), Vec::new());
        let mut query = Self { keys: Vec::new(), values: Vec::new(), tables, query: row_query, complete };
        query.add_keys(&parsed, file)?;
        query.add_aggregates(&parsed, file)?;
        // Expressions that are not functions of one row, or could fail for some row, are refused here.
        if let Err(refusal) = prepare(&file.row_schema(), &query.query) {
            return Err(PrivateQueryRefusal::new("SELECT", refusal.to_string()));
        }
        Ok(query)
    }

    fn add_keys(&mut self, parsed: &ParsedQuery, file: &StreamFile) -> Result<(), PrivateQueryRefusal> {
        for (index, (name, key)) in parsed.keys.iter().enumerate() {
            self.keys.push((name.clone(), Keys::from_expression(key, file)?));
            self.query.columns.push(Expression { name: format!("key_{index}"), sql: key.to_string() });
        }
        match self.group_count() {
            Some(1..=MAX_GROUPS) => Ok(()),
            _ => {
                let names: Vec<&str> = self.keys.iter().map(|(name, _)| name.as_str()).collect();
                let why =
                    format!("together these keys make more than {MAX_GROUPS} groups; use fewer keys, or wider groups");
                Err(PrivateQueryRefusal::new(format!("GROUP BY {}", names.join(", ")), why))
            }
        }
    }

    /// The number of groups; one without GROUP BY.
    fn group_count(&self) -> Option<u32> {
        self.keys.iter().try_fold(1u32, |all, (_, keys)| all.checked_mul(keys.count()?))
    }

    pub(crate) fn groups(&self) -> u32 {
        self.group_count().unwrap_or(1)
    }

    fn add_aggregates(&mut self, parsed: &ParsedQuery, file: &StreamFile) -> Result<(), PrivateQueryRefusal> {
        let values = parsed.items.iter().filter_map(|(name, item)| match item {
            Item::Value(aggregate) => Some((name, &**aggregate)),
            Item::Key(_) => None,
        });
        // Bounded aggregates come first, so that counts can share their tables.
        let (counts, others): (Vec<_>, Vec<_>) =
            values.clone().partition(|(_, aggregate)| matches!(aggregate, AggregateExpression::Count(_)));
        let mut found: Vec<(&String, &AggregateExpression, Value)> = Vec::new();
        for (name, aggregate) in others.into_iter().chain(counts) {
            let value = self.plan_aggregate(aggregate, file)?;
            found.push((name, aggregate, value));
        }
        for (name, aggregate) in values {
            let own = found.iter().position(|(known, also, _)| *known == name && *also == aggregate);
            let Some((.., value)) = own.map(|index| found.remove(index)) else { continue };
            self.values.push((name.clone(), value));
        }
        Ok(())
    }

    fn plan_aggregate(
        &mut self, aggregate: &AggregateExpression, file: &StreamFile,
    ) -> Result<Value, PrivateQueryRefusal> {
        Ok(match aggregate {
            AggregateExpression::Count(None) => {
                let always = |table: &Table| matches!(table, Table::Value(of, _) if self.is_never_null(*of, file));
                let shared = self.tables.iter().position(always);
                Value::Count(shared.unwrap_or_else(|| self.table_index(Table::Rows(None))))
            }
            AggregateExpression::Count(Some(of)) => {
                let of = self.argument_column(of);
                let shared = self.tables.iter().position(|table| matches!(table, Table::Value(own, _) if *own == of));
                Value::Count(shared.unwrap_or_else(|| self.table_index(Table::Rows(Some(of)))))
            }
            AggregateExpression::Sum(of) => Value::Sum(self.bounded_table(of, file, Table::Value)?),
            AggregateExpression::Mean(of) => Value::Mean(self.bounded_table(of, file, Table::Value)?),
            AggregateExpression::Variance(of) => Value::Variance(
                self.bounded_table(of, file, Table::Value)?,
                self.bounded_table(of, file, Table::Squares)?,
            ),
            AggregateExpression::Deviation(of) => Value::Deviation(
                self.bounded_table(of, file, Table::Value)?,
                self.bounded_table(of, file, Table::Squares)?,
            ),
            AggregateExpression::Quantile(of, share) => {
                Value::Quantile(self.bounded_table(of, file, Table::Levels)?, *share)
            }
        })
    }

    /// Whether this argument is a column without nulls, according to the stream file.
    fn is_never_null(&self, of: usize, file: &StreamFile) -> bool {
        let sql = self.query.columns.get(of).map(|column| column.sql.as_str());
        sql.is_some_and(|sql| file.columns.iter().any(|column| column.name == sql && !column.nullable))
    }

    fn bounded_table(
        &mut self, of: &Expr, file: &StreamFile, table: fn(usize, (f64, f64)) -> Table,
    ) -> Result<usize, PrivateQueryRefusal> {
        let (low, high) = value_span(of, file)?;
        if !(low.is_finite() && high.is_finite() && (high - low).is_finite()) {
            let why = format!(
                "the contribution of one row is not bounded by the declared bounds; bound it yourself, as in \
                 greatest(0, least(100, {of}))"
            );
            return Err(PrivateQueryRefusal::new(of, why));
        }
        if low >= high {
            return Err(PrivateQueryRefusal::new(of, "it is a constant; use count(*)"));
        }
        let index = self.argument_column(of);
        let table = self.table_index(table(index, (low, high)));
        if never_missing(of, file) && !self.complete.contains(&table) {
            self.complete.push(table);
        }
        Ok(table)
    }

    /// The index of an argument among the columns of rows.
    fn argument_column(&mut self, of: &Expr) -> usize {
        let sql = of.to_string();
        let known = self.query.columns.iter().skip(self.keys.len()).position(|column| column.sql == sql);
        known.map_or_else(
            || {
                let index = self.query.columns.len();
                self.query.columns.push(Expression { name: format!("value_{index}"), sql });
                index
            },
            |index| index + self.keys.len(),
        )
    }

    fn table_index(&mut self, table: Table) -> usize {
        self.tables.iter().position(|known| *known == table).unwrap_or_else(|| {
            self.tables.push(table);
            self.tables.len() - 1
        })
    }

    /// The columns that are computed from each row.
    pub(crate) const fn query(&self) -> &Query {
        &self.query
    }

    /// The names of the aggregates.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|(name, _)| name.as_str())
    }

    /// The kind of each aggregate.
    pub fn aggregates(&self) -> impl Iterator<Item = Aggregate> {
        self.values.iter().map(|(_, value)| value.aggregate())
    }

    /// The kind of each group key.
    pub fn key_kinds(&self) -> impl Iterator<Item = KeyKind> {
        self.keys.iter().map(|(_, keys)| keys.kind())
    }

    /// For each table, the number of the kernel's tables it needs, and whether it covers all rows. The other tables use
    /// the train lane, a random sample.
    pub(crate) fn parts(&self) -> Vec<(u32, bool)> {
        let part = |(index, table): (usize, &Table)| {
            let own = |value: &Value| matches!(value, Value::Count(of) | Value::Sum(of) if *of == index);
            let taken = if matches!(table, Table::Levels(..)) { quantile_tables() } else { 1 };
            (taken, self.values.iter().any(|(_, value)| own(value)))
        };
        self.tables.iter().enumerate().map(part).collect()
    }

    /// The probability that the half-widths of one aggregate do not hold.
    pub(super) fn chance(&self) -> f64 {
        (1.0 - CONFIDENCE) / self.values.len().max(1) as f64
    }

    /// The expected half-widths with this noise in each table, as far as public data determine them. `rows` is a public
    /// lower bound on the rows of the train lane.
    ///
    /// # Errors
    /// When a noise has no quantile.
    pub(crate) fn widths(&self, noises: &[TableNoise], rows: Option<u64>) -> Result<Vec<ResultWidth>, StatisticError> {
        let whole = self.keys.is_empty() && self.query.filter.is_none();
        let width = |value: &Value| {
            Ok(match *value {
                Value::Count(of) => ResultWidth::Known(2.0 * self.count_reach(of, noises[of])?),
                Value::Sum(of) => {
                    let (low, high) = self.bounds(of);
                    let reach = self.reach(noises[of], 8.0)?;
                    // Rounding adds at most half a millionth of the range per row. The number of rows is private.
                    let rounding = (high - low) / (2.0 * SCALE as f64) * rows.unwrap_or(0) as f64;
                    ResultWidth::Known(2.0 * (high.abs() + low.abs()) * reach + rounding)
                }
                // The number of rows in a mean is public only if no row can lack the argument.
                Value::Mean(of) => match rows.filter(|_| whole && self.complete.contains(&of)) {
                    Some(rows) => {
                        let half = half_width_of_mean(rows, self.bounds(of), noises[of], 0.5 * self.chance())?;
                        ResultWidth::Known(half)
                    }
                    None => ResultWidth::DependsOnRows,
                },
                Value::Variance(..) | Value::Deviation(..) | Value::Quantile(..) => ResultWidth::DependsOnValues,
            })
        };
        self.values.iter().map(|(_, value)| width(value)).collect()
    }

    /// The error bound of a lane's count of any group.
    pub(super) fn count_reach(&self, of: usize, noise: TableNoise) -> Result<f64, StatisticError> {
        Ok(match self.tables[of] {
            Table::Rows(_) => self.reach(noise, 4.0)?,
            _ => 2.0 * self.reach(noise, 8.0)?,
        })
    }

    /// The error bound of one number, if `sides` bounds per group share the failure probability.
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
            present(left) && literal_number(right).is_some_and(|by| by.abs() >= 1.0)
        }
        Expr::Call(name, arguments) => {
            matches!(name.as_str(), "abs" | "least" | "greatest") && arguments.iter().all(present)
        }
        other => literal_number(other).is_some(),
    }
}

/// The number of tables that a quantile needs.
fn quantile_tables() -> u32 {
    (GRID + 1).next_power_of_two().ilog2()
}

/// The plan of quantiles between bounds.
pub(super) fn quantile_plan((low, high): (f64, f64), noise: TableNoise) -> Result<Quantiles, StatisticError> {
    let edge = |index: u32| low + (high - low) * f64::from(index) / f64::from(GRID - 1);
    Quantiles::new((0..GRID).map(edge).collect(), noise)
}
