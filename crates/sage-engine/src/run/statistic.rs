//! An attempt at a statistic: a number or a table, with confidence limits.
//!
//! The released numbers are also what is validated: there is no second pass over the test lane. Counts, sums and
//! histograms cover all rows and use both lanes. Means, variances and quantiles use the train lane, a random sample.
//!
//! Of a unit of several records, counts, sums and histograms count each. A mean counts the unit once, with the mean of its
//! records, and a table of group means once in every group. Variances and quantiles count its first record.

use std::collections::BTreeMap;

use sage_kernel::noise::NoiseSource;
use sage_kernel::{BlockPart, Contribution, Epsilon, Lane, Pair, Permit, Session, Summary, SummaryTag, TableNoise};
use sage_learn::encode::present;
use sage_learn::statistics::{Count, Estimate, Group, GroupBy, Histogram, StatisticError, Sum, Variance};
use sage_learn::validate::{Decision, Uncertainty, Verdict};
use serde::{Deserialize, Serialize};

use super::unit::{mean, turns};
use super::{AttemptFailure, AttemptObserver, AttemptResult, Product, Stage, risks};
use crate::adapt::Attempt;
use crate::pipeline::{Bounds, Goal, Keys, Statistic};
use crate::plan::{AttemptCost, KEY, Recipe, TrainingNoise, VALUE, key_names, quantile_plan};
use crate::read::{Batch, Row};

/// A released statistic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasedStatistic {
    /// The kind of statistic, such as `mean`.
    pub statistic: String,
    /// The joint confidence of all limits.
    pub confidence: f64,
    /// One line, or one per key or quantile level.
    pub lines: Vec<Line>,
}

/// A line of a released statistic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The key or the quantile level; `None` for a single line.
    pub key: Option<String>,
    /// The estimate; absent if there are too few rows.
    pub value: Option<f64>,
    /// The lower limit, if there is one.
    pub low: Option<f64>,
    /// The upper limit, if there is one.
    pub high: Option<f64>,
}

/// Computes a statistic on a session.
pub(crate) fn compute<N: NoiseSource>(
    mut session: Session<Batch, N>, recipe: &Recipe, statistic: &Statistic, cost: &AttemptCost, attempt: &Attempt,
    observer: &dyn AttemptObserver,
) -> Result<AttemptResult, AttemptFailure> {
    observer.enter(Stage::Training)?;
    let TrainingNoise::Tables(noise) = cost.noises.train else {
        return Err(AttemptFailure("the charge is for another kind of training".to_owned()));
    };
    let (risk, _) = risks(recipe.pipeline(), attempt)?;
    // A count or a sum is about the rows themselves, which are no sample then.
    let chance = if is_exact(statistic) { risk.of_noise_alone() } else { risk.of_equal_parts() };
    let (value, key) = value_and_key_columns(recipe);
    let run = StatisticRun { noise, chance, value, key, contribution: recipe.contribution() };
    let Computation { lines, sums, sampling } =
        run.compute(&mut session, statistic).map_err(AttemptFailure::because)?;
    let target = match recipe.pipeline().validate.as_ref().map(|validate| &validate.goal) {
        Some(Goal::Target(target)) => Some(*target),
        _ => None,
    };
    observer.enter(Stage::Validating)?;
    let verdict = Verdict { sums, ..judge(&lines, sampling, target, 1.0 - chance) };
    let published =
        ReleasedStatistic { statistic: statistic_name(statistic).to_owned(), confidence: 1.0 - chance, lines };
    Ok(AttemptResult {
        finished: session.finish(),
        verdict,
        best_constant: None,
        product: Product::Statistic(published),
    })
}

/// Summarises a block while it is read, for a session that computes this statistic. Returns no summaries if the
/// statistic needs the rows themselves.
pub(crate) fn summarise(
    recipe: &Recipe, statistic: &Statistic, permit: &Permit, part: (BlockPart, SummaryTag), rows: &[Batch],
) -> Result<Vec<Summary>, StatisticError> {
    let (value, key) = value_and_key_columns(recipe);
    let noise = TableNoise::Laplace(Epsilon::ZERO);
    let contribution = recipe.contribution();
    // NaN and infinities are missing values: a summary leaves out what the session would leave out.
    let number = |row: Row<'_>| row.number(value).unwrap_or(f64::NAN);
    let sums = match statistic {
        Statistic::Sum { bounds, .. } => {
            let all = GroupBy { keys: 1, bounds: (bounds.low(), bounds.high()), noise };
            all.summarise(contribution, permit, part, rows, |row| Some((0, number(row))))?
        }
        Statistic::Mean { bounds, .. } => {
            let all = GroupBy { keys: 1, bounds: (bounds.low(), bounds.high()), noise };
            all.summarise(Contribution::ONE, permit, part, rows, |row| Some((0, unit_mean(row, value, *bounds)?)))?
        }
        Statistic::GroupMean { keys, bounds, .. } => {
            let index = KeyIndex::new(keys);
            let groups = GroupBy { keys: keys.count(), bounds: (bounds.low(), bounds.high()), noise };
            let entry = |row: Row<'_>| group_mean(row, &index, (key, value), *bounds);
            groups.summarise(groups_of_unit(contribution, keys), permit, part, rows, entry)?
        }
        Statistic::Count => Histogram { keys: 1, noise }.summarise(contribution, permit, part, rows, |_| Some(0))?,
        Statistic::Histogram { keys, .. } => {
            let index = KeyIndex::new(keys);
            let histogram = Histogram { keys: keys.count(), noise };
            histogram.summarise(contribution, permit, part, rows, |row| index.find(row, key))?
        }
        Statistic::Variance { .. } | Statistic::Quantile { .. } => None,
    };
    Ok(sums.into_iter().collect())
}

/// The column indices of the value and the key.
fn value_and_key_columns(recipe: &Recipe) -> (usize, usize) {
    let columns = &recipe.query().columns;
    let position = |name: &str| columns.iter().position(|column| column.name == name).unwrap_or(usize::MAX);
    (position(VALUE), position(KEY))
}

/// The parameters of one computation.
struct StatisticRun {
    noise: TableNoise,
    chance: f64,
    value: usize,
    key: usize,
    contribution: Contribution,
}

/// The lines of a statistic, and how precise they are.
struct Computation {
    lines: Vec<Line>,
    /// The released sums behind its least precise means.
    sums: Vec<Pair>,
    /// The half-width of the least precise line without noise; `None` if it is not known.
    sampling: Option<f64>,
}

impl Computation {
    fn of_means(lines: Vec<Line>, group_by: &GroupBy, groups: &[Group], chance: f64) -> Self {
        let mut widest: Vec<&Group> = groups.iter().collect();
        widest.sort_by(|one, two| two.interval.half_width().total_cmp(&one.interval.half_width()));
        let sampling = widest.first().map(|group| group_by.sampling_half_width(group, chance));
        Self { lines, sums: widest.into_iter().map(|group| group_by.sums(group)).collect(), sampling }
    }
}

type Computed<T> = Result<T, StatisticError>;

impl StatisticRun {
    fn compute<N: NoiseSource>(&self, session: &mut Session<Batch, N>, statistic: &Statistic) -> Computed<Computation> {
        match statistic {
            Statistic::Mean { bounds, .. } => {
                let all = GroupBy { keys: 1, bounds: (bounds.low(), bounds.high()), noise: self.noise };
                let value = |row: Row<'_>| Some((0, unit_mean(row, self.value, *bounds)?));
                let groups = all.run(session, Lane::Train, self.chance, value)?;
                let lines = groups.iter().map(|group| to_line(None, group.interval)).collect();
                Ok(Computation::of_means(lines, &all, &groups, self.chance))
            }
            Statistic::GroupMean { keys, bounds, .. } => {
                let index = KeyIndex::new(keys);
                let by_key = GroupBy { keys: keys.count(), bounds: (bounds.low(), bounds.high()), noise: self.noise };
                let entry = |row: Row<'_>| group_mean(row, &index, (self.key, self.value), *bounds);
                let contribution = groups_of_unit(self.contribution, keys);
                let groups = by_key.run_records(contribution, session, Lane::Train, self.chance, entry)?;
                let shown = |group: &Group| Estimate {
                    value: group.interval.value.filter(|_| !group.too_few),
                    ..group.interval
                };
                let names = key_names(keys).into_iter().zip(&groups);
                let lines = names.map(|(key, group)| to_line(Some(key), shown(group))).collect();
                Ok(Computation::of_means(lines, &by_key, &groups, self.chance))
            }
            other => {
                let sampling = is_exact(other).then_some(0.0);
                Ok(Computation { lines: self.lines(session, other)?, sums: Vec::new(), sampling })
            }
        }
    }

    fn lines<N: NoiseSource>(&self, session: &mut Session<Batch, N>, statistic: &Statistic) -> Computed<Vec<Line>> {
        let (noise, chance, contribution) = (self.noise, self.chance, self.contribution);
        let number = |row: Row<'_>| row.number(self.value).unwrap_or(f64::NAN);
        match statistic {
            Statistic::Mean { .. } | Statistic::GroupMean { .. } => Ok(Vec::new()),
            Statistic::Count => {
                sum_lanes(|lane| Count { noise }.run_records(contribution, session, lane, 0.5 * chance, |_| true))
            }
            Statistic::Sum { bounds, .. } => {
                let sum = Sum { bounds: (bounds.low(), bounds.high()), noise };
                sum_lanes(|lane| sum.run_records(contribution, session, lane, 0.5 * chance, number))
            }
            Statistic::Variance { bounds, .. } => {
                let variance = Variance { bounds: (bounds.low(), bounds.high()), noise };
                Ok(vec![to_line(None, variance.run(session, Lane::Train, chance, number)?)])
            }
            Statistic::Histogram { keys, relative, .. } => self.histogram(session, keys, *relative),
            Statistic::Quantile { at, .. } => {
                let plan = quantile_plan(statistic, noise).map_err(|_| StatisticError::Bounds)?;
                let found = plan.run(session, Lane::Train, at, chance, number)?;
                let located = at.iter().zip(found).map(|(share, at)| Line {
                    key: Some(share.to_string()),
                    value: finite(at.value),
                    low: finite(at.low),
                    high: finite(at.high),
                });
                Ok(located.collect())
            }
        }
    }

    fn histogram<N: NoiseSource>(
        &self, session: &mut Session<Batch, N>, keys: &Keys, relative: bool,
    ) -> Computed<Vec<Line>> {
        let index = KeyIndex::new(keys);
        let histogram = Histogram { keys: keys.count(), noise: self.noise };
        let mut counts = vec![0.0; keys.count() as usize];
        // A share also depends on the sum of all counts.
        let chance = if relative { 0.5 * self.chance } else { self.chance };
        let mut reach = 0.0;
        for lane in Lane::BOTH {
            let key = |row: Row<'_>| index.find(row, self.key);
            let (counted, off) = histogram.run_records(self.contribution, session, lane, 0.5 * chance, key)?;
            counts.iter_mut().zip(counted).for_each(|(all, some)| *all += some);
            reach += off;
        }
        let around = |value: f64| Estimate { value: Some(value), low: value - reach, high: value + reach };
        let found = match relative {
            true => histogram.shares(self.contribution, &counts, Lane::BOTH.len(), reach, 0.5 * self.chance),
            false => counts.into_iter().map(around).collect(),
        };
        Ok(key_names(keys).into_iter().zip(found).map(|(key, found)| to_line(Some(key), found)).collect())
    }
}

/// The mean of a unit's values, each clipped to the bounds; `None` if all are missing.
fn unit_mean(row: Row<'_>, column: usize, bounds: Bounds) -> Option<f64> {
    mean(row.in_turn().map(|record| clipped(record, column, bounds)))
}

fn clipped(record: Row<'_>, column: usize, bounds: Bounds) -> Option<f64> {
    record.number(column).and_then(present).map(|value| value.clamp(bounds.low(), bounds.high()))
}

/// The number of groups to which a unit adds.
pub(crate) fn groups_of_unit(contribution: Contribution, keys: &Keys) -> Contribution {
    Contribution::new(keys.count()).map_or(turns(contribution), |keys| turns(contribution).min(keys))
}

/// The mean of a unit's values in the group of the record in front, if it is the unit's first record of this group with a
/// value: so a unit adds to each of its groups once.
fn group_mean(row: Row<'_>, index: &KeyIndex<'_>, (key, value): (usize, usize), bounds: Bounds) -> Option<(u32, f64)> {
    let most = turns(Contribution::LIMIT).records() as usize;
    let group = index.find(row, key)?;
    clipped(row, value, bounds)?;
    let of_group = |record: Row<'_>| {
        let own = index.find(record, key) == Some(group);
        own.then(|| clipped(record, value, bounds)).flatten()
    };
    let repeated = row.in_turn().take(row.position()).any(|record| of_group(record).is_some());
    if repeated || row.position() >= most {
        return None;
    }
    Some((group, mean(row.in_turn().take(most).map(of_group))?))
}

/// Whether nothing about a statistic is uncertain but the noise.
const fn is_exact(statistic: &Statistic) -> bool {
    matches!(statistic, Statistic::Count | Statistic::Sum { .. } | Statistic::Histogram { .. })
}

/// The sum of a statistic over both lanes.
fn sum_lanes(mut run: impl FnMut(Lane) -> Computed<Estimate>) -> Computed<Vec<Line>> {
    let (one, two) = (run(Lane::Train)?, run(Lane::Test)?);
    let value = one.value.zip(two.value).map(|(one, two)| one + two);
    Ok(vec![to_line(None, Estimate { value, low: one.low + two.low, high: one.high + two.high })])
}

fn finite(number: f64) -> Option<f64> {
    Some(number).filter(|number| number.is_finite())
}

/// A line without an estimate shows no limits either: they would be the public bounds.
fn to_line(key: Option<String>, estimate: Estimate) -> Line {
    let limit = |limit: f64| estimate.value.and(finite(limit));
    Line { key, value: estimate.value.and_then(finite), low: limit(estimate.low), high: limit(estimate.high) }
}

/// Finds the index of a row's key in the list of keys.
enum KeyIndex<'keys> {
    Count(u32),
    Texts(BTreeMap<&'keys str, u32>),
}

impl<'keys> KeyIndex<'keys> {
    fn new(keys: &'keys Keys) -> Self {
        match keys {
            Keys::Count(count) => Self::Count(*count),
            Keys::Texts(texts) => Self::Texts(texts.iter().map(String::as_str).zip(0..).collect()),
        }
    }

    fn find(&self, row: Row<'_>, column: usize) -> Option<u32> {
        match self {
            Self::Count(count) => row.integer(column).and_then(|key| u32::try_from(key).ok()).filter(|key| key < count),
            Self::Texts(indices) => row.text(column).and_then(|text| indices.get(text)).copied(),
        }
    }
}

/// Accepts a statistic if every line is within the target precision, or if there is no target.
fn judge(lines: &[Line], sampling: Option<f64>, target: Option<f64>, confidence: f64) -> Verdict {
    let half = |line: &Line| match (line.value, line.low, line.high) {
        (Some(value), Some(low), Some(high)) => (high - value).max(value - low),
        _ => f64::INFINITY,
    };
    let worst = lines.iter().map(half).fold(0.0, f64::max);
    let estimates = lines.iter().map(|line| Estimate {
        value: line.value,
        low: line.low.unwrap_or(f64::NEG_INFINITY),
        high: line.high.unwrap_or(f64::INFINITY),
    });
    let percent = 100.0 * confidence;
    let within = match worst.is_finite() {
        true => format!("every number is known to within {worst:.4} with a confidence of {percent:.2} %"),
        false => "at least one number cannot be distinguished from the noise".to_owned(),
    };
    let uncertainty = sampling.zip(target).filter(|_| worst.is_finite()).map(|(sampling, target)| {
        let sampling = sampling.clamp(0.0, worst);
        Uncertainty { sampling, noise: worst - sampling, missed_by: worst - target }
    });
    let (decision, explanation) = match target {
        None => (Decision::Accept, format!("{within}; no target precision is set.")),
        Some(target) if worst <= target => (Decision::Accept, format!("{within}; the target is {target}.")),
        Some(target) => {
            let help = uncertainty.map_or_else(|| "more rows or more budget help".to_owned(), remedy);
            (Decision::Retry, format!("{within}; the target is {target}: {help}."))
        }
    };
    Verdict { uncertainty, ..Verdict::new(decision, estimates.collect(), confidence, explanation) }
}

/// What would make a statistic more precise.
fn remedy(Uncertainty { sampling, noise, .. }: Uncertainty) -> String {
    let help =
        if noise > sampling { "a larger ε or more rows help" } else { "more rows help, a larger ε alone does not" };
    format!("{sampling:.4} of it is sampling and {noise:.4} is noise, so {help}")
}

const fn statistic_name(statistic: &Statistic) -> &'static str {
    match statistic {
        Statistic::Count => "count",
        Statistic::Sum { .. } => "sum",
        Statistic::Mean { .. } => "mean",
        Statistic::Variance { .. } => "variance",
        Statistic::Histogram { relative: false, .. } => "histogram",
        Statistic::Histogram { relative: true, .. } => "frequencies",
        Statistic::GroupMean { .. } => "group_mean",
        Statistic::Quantile { .. } => "quantile",
    }
}
