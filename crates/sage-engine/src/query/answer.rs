//! Answers: the question's tables are computed on a session, and what they say is worked out from released numbers.
//!
//! Counts and sums are of all rows, both lanes together. Means, variances and quantiles are those of the train lane.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, SCALE, Session, TableNoise};
use sage_learn::encode::present;
use sage_learn::statistics::{Estimate, Group, GroupBy, Histogram, Located, StatisticError};
use serde::{Deserialize, Serialize};

use super::key::Finder;
use super::question::{CONFIDENCE, Question, Table, Value, quantiles};
use crate::read::{Batch, Row};

/// A number of an answer. What the noise hides is absent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The estimate.
    pub value: Option<f64>,
    /// The lower limit, where there is one.
    pub low: Option<f64>,
    /// The upper limit, where there is one.
    pub high: Option<f64>,
}

impl Cell {
    const NOTHING: Self = Self { value: None, low: None, high: None };

    fn of(estimate: Estimate) -> Self {
        let finite = |number: f64| Some(number).filter(|number| number.is_finite());
        Self { value: estimate.value.and_then(finite), low: finite(estimate.low), high: finite(estimate.high) }
    }

    /// The larger of the two distances to the limits; nothing where there is no limit.
    pub fn half_width(&self) -> Option<f64> {
        Some((self.high? - self.value?).max(self.value? - self.low?))
    }
}

/// A line of an answer: one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// A value for each key.
    pub keys: Vec<String>,
    /// A number for each aggregate.
    pub cells: Vec<Cell>,
}

/// What a question was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The names of the keys.
    pub keys: Vec<String>,
    /// The names of the aggregates.
    pub columns: Vec<String>,
    /// The confidence with which all limits hold together.
    pub confidence: f64,
    /// Its lines: one, or one for each group, the empty ones included.
    pub lines: Vec<Line>,
}

/// What a table says of every group.
enum Told {
    /// The counts of both lanes together.
    Rows(Vec<f64>),
    /// On the train lane, and where the question is about all rows on the test lane.
    Groups(Vec<Group>, Vec<Group>),
    /// For each share that is asked for.
    Quantiles(Vec<f64>, Vec<Vec<Located>>),
}

impl Question {
    /// Computes the tables, each with its noise, and answers from them.
    ///
    /// # Errors
    /// When the charge does not cover it.
    pub(crate) fn answer<N: NoiseSource>(
        &self, session: &mut Session<Batch, N>, noises: &[TableNoise],
    ) -> Result<Answer, StatisticError> {
        let finders: Vec<(Finder<'_>, u32)> =
            self.keys.iter().map(|(_, keys)| (keys.finder(), keys.count().unwrap_or(1))).collect();
        let group = |row: Row<'_>| {
            finders
                .iter()
                .enumerate()
                .try_fold(0u32, |place, (column, (finder, count))| Some(place * count + finder.of(row, column)?))
        };
        let mut told = Vec::with_capacity(self.tables.len());
        for ((place, table), (_, whole)) in self.tables.iter().enumerate().zip(self.parts()) {
            let lanes: &[Lane] = if whole { &Lane::BOTH } else { &[Lane::Train] };
            told.push(self.told(session, place, table, noises[place], lanes, &group)?);
        }
        let mut lines = Vec::with_capacity(self.groups() as usize);
        for place in 0..self.groups() {
            let cell = |(_, value): &(String, Value)| self.cell(*value, place as usize, &told, noises);
            let cells = self.values.iter().map(cell).collect::<Result<_, _>>()?;
            lines.push(Line { keys: self.names_at(place), cells });
        }
        Ok(Answer {
            keys: self.keys.iter().map(|(name, _)| name.clone()).collect(),
            columns: self.names().map(str::to_owned).collect(),
            confidence: CONFIDENCE,
            lines,
        })
    }

    /// The keys of a group.
    fn names_at(&self, mut place: u32) -> Vec<String> {
        let mut names: Vec<String> = Vec::with_capacity(self.keys.len());
        for (_, keys) in self.keys.iter().rev() {
            let count = keys.count().unwrap_or(1);
            names.push(keys.name(place % count));
            place /= count;
        }
        names.reverse();
        names
    }

    fn told<N: NoiseSource>(
        &self, session: &mut Session<Batch, N>, place: usize, table: &Table, noise: TableNoise, lanes: &[Lane],
        group: &dyn Fn(Row<'_>) -> Option<u32>,
    ) -> Result<Told, StatisticError> {
        let (keys, chance) = (self.groups(), 0.5 * self.chance());
        let number = |row: Row<'_>, of: usize| row.number(of).and_then(present);
        let groups = |session: &mut Session<Batch, N>, bounds, value: &dyn Fn(Row<'_>) -> Option<(u32, f64)>| {
            let each = GroupBy { keys, bounds, noise };
            let mut found = lanes.iter().map(|lane| each.run(session, *lane, chance, value));
            let train = found.next().unwrap_or(Ok(Vec::new()))?;
            Ok::<Told, StatisticError>(Told::Groups(train, found.next().unwrap_or(Ok(Vec::new()))?))
        };
        match *table {
            Table::Rows(of) => {
                let mut all = vec![0.0; keys as usize];
                let counts = |row: Row<'_>| match of {
                    Some(of) if !there(row, of) => None,
                    _ => group(row),
                };
                for lane in lanes {
                    let (counted, _) = Histogram { keys, noise }.run(session, *lane, chance, counts)?;
                    all.iter_mut().zip(counted).for_each(|(all, some)| *all += some);
                }
                Ok(Told::Rows(all))
            }
            Table::Value(of, bounds) => groups(session, bounds, &|row| Some((group(row)?, number(row, of)?))),
            Table::Squares(of, (low, high)) => {
                let (middle, half) = (low + 0.5 * (high - low), 0.5 * (high - low));
                let square = |row: Row<'_>| number(row, of).map(|value| (value.clamp(low, high) - middle).powi(2));
                groups(session, (0.0, half * half), &|row| Some((group(row)?, square(row)?)))
            }
            Table::Levels(of, bounds) => {
                let mut shares: Vec<f64> = self.shares(place).collect();
                shares.dedup();
                let plan = quantiles(bounds, noise)?;
                let value = |row: Row<'_>| Some((group(row)?, number(row, of)?));
                let found = plan.run_by_key(session, Lane::Train, keys, &shares, self.chance(), value)?;
                Ok(Told::Quantiles(shares, found))
            }
        }
    }

    fn shares(&self, table: usize) -> impl Iterator<Item = f64> {
        self.values.iter().filter_map(move |(_, value)| match value {
            Value::Quantile(of, share) if *of == table => Some(*share),
            _ => None,
        })
    }

    fn cell(&self, value: Value, place: usize, told: &[Told], noises: &[TableNoise]) -> Result<Cell, StatisticError> {
        let around = |value: f64, reach: f64| Cell::of(Estimate::around(value, reach));
        let train = |of: usize| match &told[of] {
            Told::Groups(train, _) => train.get(place).copied(),
            _ => None,
        };
        let mean = |of: usize| train(of).filter(|group| !group.too_few).map(|group| group.interval);
        Ok(match value {
            Value::Count(of) => {
                let counted = match &told[of] {
                    Told::Rows(counts) => counts[place],
                    Told::Groups(train, test) => train[place].count + test.get(place).map_or(0.0, |group| group.count),
                    Told::Quantiles(..) => return Ok(Cell::NOTHING),
                };
                around(counted, 2.0 * self.count_reach(of, noises[of])?)
            }
            Value::Sum(of) => {
                let Told::Groups(train, test) = &told[of] else { return Ok(Cell::NOTHING) };
                let (low, high) = self.bounds(of);
                let reach = self.reach(noises[of], 8.0)?;
                let lanes = [Some(&train[place]), test.get(place)].into_iter().flatten();
                let (mut sum, mut off) = (0.0, 0.0);
                for group in lanes {
                    sum += group.sum;
                    let rounding = (high - low) / (2.0 * SCALE as f64) * (group.count + 2.0 * reach).max(0.0);
                    off += (high.abs() + low.abs()) * reach + rounding;
                }
                around(sum, off)
            }
            Value::Mean(of) => mean(of).map_or(Cell::NOTHING, Cell::of),
            Value::Variance(of, squares) => variance(mean(of), mean(squares), self.bounds(of)),
            Value::Deviation(of, squares) => rooted(variance(mean(of), mean(squares), self.bounds(of))),
            Value::Quantile(of, share) => {
                let Told::Quantiles(shares, found) = &told[of] else { return Ok(Cell::NOTHING) };
                let at = shares.iter().position(|known| *known == share).and_then(|at| found.get(place)?.get(at));
                // Without a limit on either side it says nothing about the rows.
                let said = at.filter(|at| at.low.is_finite() || at.high.is_finite());
                said.map_or(Cell::NOTHING, |at| {
                    Cell::of(Estimate { value: Some(at.value), low: at.low, high: at.high })
                })
            }
        })
    }
}

/// Whether a row has an argument: NaN and infinities are missing, as in every other aggregate.
fn there(row: Row<'_>, of: usize) -> bool {
    row.number(of).is_some_and(f64::is_finite) || row.text(of).is_some()
}

/// The variance from the mean and from that of squared distances to the middle of the bounds.
fn variance(mean: Option<Estimate>, squares: Option<Estimate>, (low, high): (f64, f64)) -> Cell {
    let Some((mean, squares)) = mean.zip(squares) else { return Cell::NOTHING };
    let Some((at, square)) = mean.value.zip(squares.value) else { return Cell::NOTHING };
    let middle = low + 0.5 * (high - low);
    let (least, at, most) = (mean.low - middle, at - middle, mean.high - middle);
    let far = least.abs().max(most.abs());
    let near = if least <= 0.0 && most >= 0.0 { 0.0 } else { least.abs().min(most.abs()) };
    let low = (squares.low - far * far).max(0.0);
    let high = (squares.high - near * near).max(low);
    Cell::of(Estimate { value: Some((square - at * at).clamp(low, high)), low, high })
}

fn rooted(cell: Cell) -> Cell {
    let root = |number: Option<f64>| number.map(f64::sqrt);
    Cell { value: root(cell.value), low: root(cell.low), high: root(cell.high) }
}
