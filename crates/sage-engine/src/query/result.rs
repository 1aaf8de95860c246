//! Results of private queries: tables computed on a session, and the aggregates derived from them.
//!
//! Counts and sums cover all rows, both lanes together. Means, variances and quantiles use the train lane.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, SCALE, Session, TableNoise};
use sage_learn::encode::present;
use sage_learn::statistics::{Estimate, Group, GroupBy, Histogram, Located, StatisticError};
use serde::{Deserialize, Serialize};

use super::key::KeyIndex;
use super::private_query::{CONFIDENCE, PrivateQuery, Table, Value, quantile_plan};
use crate::read::{Batch, Row};

/// A number of a result. Values hidden by the noise are absent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The estimate.
    pub value: Option<f64>,
    /// The lower confidence limit, if there is one.
    pub low: Option<f64>,
    /// The upper confidence limit, if there is one.
    pub high: Option<f64>,
}

impl Cell {
    const EMPTY: Self = Self { value: None, low: None, high: None };

    fn from_estimate(estimate: Estimate) -> Self {
        let finite = |number: f64| Some(number).filter(|number| number.is_finite());
        Self { value: estimate.value.and_then(finite), low: finite(estimate.low), high: finite(estimate.high) }
    }

    /// The larger distance from the estimate to a limit; `None` without limits.
    pub fn half_width(&self) -> Option<f64> {
        Some((self.high? - self.value?).max(self.value? - self.low?))
    }
}

/// A line of a result: one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The value of each key.
    pub keys: Vec<String>,
    /// The number of each aggregate.
    pub cells: Vec<Cell>,
}

/// The result of a private query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultTable {
    /// The names of the keys.
    pub keys: Vec<String>,
    /// The names of the aggregates.
    pub columns: Vec<String>,
    /// The joint confidence of all limits.
    pub confidence: f64,
    /// One line, or one per group, including empty groups.
    pub lines: Vec<Line>,
}

/// The computed table: one entry per group.
enum TableResult {
    /// Counts of both lanes together.
    Rows(Vec<f64>),
    /// Groups of the train lane and, for tables over all rows, of the test lane.
    Groups(Vec<Group>, Vec<Group>),
    /// The requested quantile levels, and their values per group.
    Quantiles(Vec<f64>, Vec<Vec<Located>>),
}

impl PrivateQuery {
    /// Computes the tables, each with its noise, and derives the result from them.
    ///
    /// # Errors
    /// When the charge does not cover a table.
    pub(crate) fn run<N: NoiseSource>(
        &self, session: &mut Session<Batch, N>, noises: &[TableNoise],
    ) -> Result<ResultTable, StatisticError> {
        let indices: Vec<(KeyIndex<'_>, u32)> =
            self.keys.iter().map(|(_, keys)| (keys.key_index(), keys.count().unwrap_or(1))).collect();
        let group = |row: Row<'_>| {
            indices
                .iter()
                .enumerate()
                .try_fold(0u32, |index, (column, (keys, count))| Some(index * count + keys.find(row, column)?))
        };
        let mut results = Vec::with_capacity(self.tables.len());
        for ((index, table), (_, whole)) in self.tables.iter().enumerate().zip(self.parts()) {
            let lanes: &[Lane] = if whole { &Lane::BOTH } else { &[Lane::Train] };
            results.push(self.compute_table(session, index, table, noises[index], lanes, &group)?);
        }
        let mut lines = Vec::with_capacity(self.groups() as usize);
        for index in 0..self.groups() {
            let cell = |(_, value): &(String, Value)| self.cell(*value, index as usize, &results, noises);
            let cells = self.values.iter().map(cell).collect::<Result<_, _>>()?;
            lines.push(Line { keys: self.group_keys(index), cells });
        }
        Ok(ResultTable {
            keys: self.keys.iter().map(|(name, _)| name.clone()).collect(),
            columns: self.names().map(str::to_owned).collect(),
            confidence: CONFIDENCE,
            lines,
        })
    }

    /// The key values of a group.
    fn group_keys(&self, mut index: u32) -> Vec<String> {
        let mut names: Vec<String> = Vec::with_capacity(self.keys.len());
        for (_, keys) in self.keys.iter().rev() {
            let count = keys.count().unwrap_or(1);
            names.push(keys.name(index % count));
            index /= count;
        }
        names.reverse();
        names
    }

    fn compute_table<N: NoiseSource>(
        &self, session: &mut Session<Batch, N>, index: usize, table: &Table, noise: TableNoise, lanes: &[Lane],
        group: &dyn Fn(Row<'_>) -> Option<u32>,
    ) -> Result<TableResult, StatisticError> {
        let (keys, chance) = (self.groups(), 0.5 * self.chance());
        let number = |row: Row<'_>, of: usize| row.number(of).and_then(present);
        let groups = |session: &mut Session<Batch, N>, bounds, value: &dyn Fn(Row<'_>) -> Option<(u32, f64)>| {
            let each = GroupBy { keys, bounds, noise };
            let mut found = lanes.iter().map(|lane| each.run(session, *lane, chance, value));
            let train = found.next().unwrap_or(Ok(Vec::new()))?;
            Ok::<TableResult, StatisticError>(TableResult::Groups(train, found.next().unwrap_or(Ok(Vec::new()))?))
        };
        match *table {
            Table::Rows(of) => {
                let mut all = vec![0.0; keys as usize];
                let counts = |row: Row<'_>| match of {
                    Some(of) if !is_present(row, of) => None,
                    _ => group(row),
                };
                for lane in lanes {
                    let (counted, _) = Histogram { keys, noise }.run(session, *lane, chance, counts)?;
                    all.iter_mut().zip(counted).for_each(|(all, some)| *all += some);
                }
                Ok(TableResult::Rows(all))
            }
            Table::Value(of, bounds) => groups(session, bounds, &|row| Some((group(row)?, number(row, of)?))),
            Table::Squares(of, (low, high)) => {
                let (middle, half) = (low + 0.5 * (high - low), 0.5 * (high - low));
                let square = |row: Row<'_>| number(row, of).map(|value| (value.clamp(low, high) - middle).powi(2));
                groups(session, (0.0, half * half), &|row| Some((group(row)?, square(row)?)))
            }
            Table::Levels(of, bounds) => {
                let mut shares: Vec<f64> = self.shares(index).collect();
                shares.dedup();
                let plan = quantile_plan(bounds, noise)?;
                let value = |row: Row<'_>| Some((group(row)?, number(row, of)?));
                let found = plan.run_by_key(session, Lane::Train, keys, &shares, self.chance(), value)?;
                Ok(TableResult::Quantiles(shares, found))
            }
        }
    }

    fn shares(&self, table: usize) -> impl Iterator<Item = f64> {
        self.values.iter().filter_map(move |(_, value)| match value {
            Value::Quantile(of, share) if *of == table => Some(*share),
            _ => None,
        })
    }

    fn cell(
        &self, value: Value, index: usize, results: &[TableResult], noises: &[TableNoise],
    ) -> Result<Cell, StatisticError> {
        let around = |value: f64, reach: f64| Cell::from_estimate(Estimate::around(value, reach));
        let train = |of: usize| match &results[of] {
            TableResult::Groups(train, _) => train.get(index).copied(),
            _ => None,
        };
        let mean = |of: usize| train(of).filter(|group| !group.too_few).map(|group| group.interval);
        Ok(match value {
            Value::Count(of) => {
                let counted = match &results[of] {
                    TableResult::Rows(counts) => counts[index],
                    TableResult::Groups(train, test) => {
                        train[index].count + test.get(index).map_or(0.0, |group| group.count)
                    }
                    TableResult::Quantiles(..) => return Ok(Cell::EMPTY),
                };
                around(counted, 2.0 * self.count_reach(of, noises[of])?)
            }
            Value::Sum(of) => {
                let TableResult::Groups(train, test) = &results[of] else { return Ok(Cell::EMPTY) };
                let (low, high) = self.bounds(of);
                let reach = self.reach(noises[of], 8.0)?;
                let lanes = [Some(&train[index]), test.get(index)].into_iter().flatten();
                let (mut sum, mut off) = (0.0, 0.0);
                for group in lanes {
                    sum += group.sum;
                    let rounding = (high - low) / (2.0 * SCALE as f64) * (group.count + 2.0 * reach).max(0.0);
                    off += (high.abs() + low.abs()) * reach + rounding;
                }
                around(sum, off)
            }
            Value::Mean(of) => mean(of).map_or(Cell::EMPTY, Cell::from_estimate),
            Value::Variance(of, squares) => variance(mean(of), mean(squares), self.bounds(of)),
            Value::Deviation(of, squares) => square_root(variance(mean(of), mean(squares), self.bounds(of))),
            Value::Quantile(of, share) => {
                let TableResult::Quantiles(shares, found) = &results[of] else { return Ok(Cell::EMPTY) };
                let at = shares.iter().position(|known| *known == share).and_then(|at| found.get(index)?.get(at));
                // Without a limit on either side the estimate carries no information.
                let bounded = at.filter(|at| at.low.is_finite() || at.high.is_finite());
                bounded.map_or(Cell::EMPTY, |at| {
                    Cell::from_estimate(Estimate { value: Some(at.value), low: at.low, high: at.high })
                })
            }
        })
    }
}

/// Whether a row has the argument. NaN and infinities are missing, as in every other aggregate.
fn is_present(row: Row<'_>, of: usize) -> bool {
    row.number(of).is_some_and(f64::is_finite) || row.text(of).is_some()
}

/// The variance from the mean and the mean squared distance to the middle of the bounds.
fn variance(mean: Option<Estimate>, squares: Option<Estimate>, (low, high): (f64, f64)) -> Cell {
    let Some((mean, squares)) = mean.zip(squares) else { return Cell::EMPTY };
    let Some((at, square)) = mean.value.zip(squares.value) else { return Cell::EMPTY };
    let middle = low + 0.5 * (high - low);
    let (least, at, most) = (mean.low - middle, at - middle, mean.high - middle);
    let far = least.abs().max(most.abs());
    let near = if least <= 0.0 && most >= 0.0 { 0.0 } else { least.abs().min(most.abs()) };
    let low = (squares.low - far * far).max(0.0);
    let high = (squares.high - near * near).max(low);
    Cell::from_estimate(Estimate { value: Some((square - at * at).clamp(low, high)), low, high })
}

fn square_root(cell: Cell) -> Cell {
    let root = |number: Option<f64>| number.map(f64::sqrt);
    Cell { value: root(cell.value), low: root(cell.low), high: root(cell.high) }
}
