//! Tables: noisy sums of a bounded value over the rows, grouped by a public key. Proof: `proofs/table.md`.
//!
//! A row's value is clipped to its range, normalised to an integer from 0 to [`SCALE`], and summed twice: its distance
//! from the lower end and its distance from the upper end. The two add up to [`SCALE`] exactly, so one row changes the
//! pair by [`SCALE`] in total, and the number of rows is estimated at no extra cost. Where m records of a row count, each
//! has [`SCALE`] / m steps. A mechanism of this module must never let a row contribute more than [`SCALE`].

use crate::block::Lane;
use crate::budget::{Epsilon, Sigma};
use crate::contribution::PerUnit;
use crate::cost::{Mechanism, SCALE};
use crate::noise::{DiscreteGaussian, DiscreteLaplace, NoiseSource};
use crate::session::{Rows, Session, SessionError, each_row};

/// A closed range of real numbers, fixed in advance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    low: f64,
    high: f64,
}

impl Range {
    /// The range from `low` to `high`; `None` unless both and their difference are finite and `low` is smaller.
    pub fn new(low: f64, high: f64) -> Option<Self> {
        let width = high - low;
        (low.is_finite() && high.is_finite() && width.is_finite() && width > 0.0).then_some(Self { low, high })
    }
}

/// How a value between two steps of the grid is rounded, and how NaN counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest step; NaN counts as the lower end. For statistics.
    Nearest,
    /// Up; NaN counts as the upper end. For losses, which must never be understated.
    Up,
}

/// The noise of a table, which determines its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableNoise {
    /// Discrete Laplace: the whole table is ε-differentially private.
    Laplace(Epsilon),
    /// Discrete Gaussian with this noise multiplier σ: the whole table is 1/(2σ²)-zero-concentrated.
    Gaussian(Sigma),
}

impl TableNoise {
    /// The mechanism to list in a request for one table with this noise.
    ///
    /// # Guarantee
    /// It covers one call of [`Session::pairs`], [`Session::triples`], [`Session::histogram`] or
    /// [`Session::majority_counts`] with this noise.
    ///
    /// # Errors
    /// When the noise multiplier is too small to be priced.
    pub fn mechanism(self) -> Result<Mechanism, SessionError> {
        match self {
            Self::Laplace(epsilon) => Ok(Mechanism::Laplace { epsilon, count: 1 }),
            Self::Gaussian(sigma) => Ok(Mechanism::Zcdp { rho: zcdp_loss(sigma)? }),
        }
    }
}

/// The noisy sums of the normalised values of one key. The two add up to a noisy number of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The sum of (value − low) / (high − low).
    pub above: f64,
    /// The sum of (high − value) / (high − low).
    pub below: f64,
}

/// The noisy sums of one key with a second moment. With s = (value − low) / (high − low), the three add up to a noisy
/// number of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Triple {
    /// The sum of s², where each s² is rounded up to the grid.
    pub squares: f64,
    /// The sum of s − s², with the rounded squares.
    pub rest: f64,
    /// The sum of 1 − s.
    pub below: f64,
}

/// The largest number of keys of a table.
const KEYS_LIMIT: u32 = 1 << 24;

impl<R: Rows, N: NoiseSource> Session<R, N> {
    /// The noisy pair of sums for every key from 0 to `keys` − 1, including keys without rows. [`Contribution::per_unit`]
    /// makes keys of which several records of a row count; a record adds one then, and has as much more noise.
    ///
    /// `value` returns the key and value of a record. One without a key, or with a key outside the table, does not count.
    ///
    /// # Guarantee
    /// One release of the noise's mechanism, whatever `value` returns: `proofs/table.md`, `proofs/contribution.md`.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    ///
    /// [`Contribution::per_unit`]: crate::Contribution::per_unit
    pub fn pairs(
        &mut self, lane: Lane, keys: impl Into<PerUnit<u32>>, range: Range, rounding: Rounding, noise: TableNoise,
        value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Vec<Pair>, SessionError> {
        let keys = keys.into();
        let shares =
            |row: R::Row<'_>, steps| value(row).map(|(key, value)| (key, split_shares(value, range, rounding, steps)));
        let sums = self.table(lane, keys, noise, &pairs_form(keys, range, rounding), shares)?.into_iter();
        Ok(sums.map(|[above, below]| Pair { above, below }).collect())
    }

    /// As [`Session::pairs`], with sums of squares: one sum more per key, with the same noise and cost.
    ///
    /// # Guarantee
    /// One release of the noise's mechanism, whatever `value` returns: `proofs/table.md`.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn triples(
        &mut self, lane: Lane, keys: u32, range: Range, rounding: Rounding, noise: TableNoise,
        value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Vec<Triple>, SessionError> {
        let shares = |row: R::Row<'_>, steps| {
            value(row).map(|(key, value)| {
                let share = quantise(value, range, rounding, steps);
                let square = (share * share).div_ceil(steps);
                (key, [square, share - square, steps - share])
            })
        };
        let sums = self.table(lane, keys.into(), noise, &triples_form(keys, range, rounding), shares)?.into_iter();
        Ok(sums.map(|[squares, rest, below]| Triple { squares, rest, below }).collect())
    }

    /// The noisy number of rows with each key from 0 to `keys` − 1, including keys without rows; of records where several
    /// of a row count, as in [`Session::pairs`].
    ///
    /// # Guarantee
    /// One release of the noise's mechanism, whatever `key` returns: `proofs/table.md`.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn histogram(
        &mut self, lane: Lane, keys: impl Into<PerUnit<u32>>, noise: TableNoise,
        key: impl Fn(R::Row<'_>) -> Option<u32>,
    ) -> Result<Vec<f64>, SessionError> {
        let keys = keys.into();
        let shares = |row: R::Row<'_>, steps| key(row).map(|key| (key, [steps]));
        Ok(self.table(lane, keys, noise, &histogram_form(keys), shares)?.into_flattened())
    }

    /// The noisy numbers of rows whose label is, and is not, the majority label of their key: the correct and wrong
    /// predictions of the best classifier that is a function of the key.
    ///
    /// `value` returns the key and label of a row, below `keys` and `labels`. A row without them, or with values out of
    /// range, counts as correct.
    ///
    /// # Guarantee
    /// One release of the noise's mechanism, whatever `value` returns: `proofs/table.md`.
    ///
    /// # Errors
    /// When the charge does not cover it, a parameter is out of range, or the lane was opened with cached summaries.
    pub fn majority_counts(
        &mut self, lane: Lane, keys: u32, labels: u32, noise: TableNoise,
        value: impl Fn(R::Row<'_>) -> Option<(u32, u32)>,
    ) -> Result<[f64; 2], SessionError> {
        check_keys(keys.saturating_mul(labels))?;
        self.granted_rows(lane)?;
        let mut sums = [0i128; 2];
        self.draw(lane, noise, &mut sums)?;
        let mut counts = vec![0u64; (keys * labels) as usize];
        let mut right = 0;
        let rows = each_row(self.granted_rows(lane)?, |row| match value(row) {
            Some((key, label)) if key < keys && label < labels => counts[(key * labels + label) as usize] += 1,
            _ => right += 1,
        });
        right += counts.chunks(labels as usize).filter_map(|labels| labels.iter().max()).sum::<u64>();
        let exact = [right, rows - right];
        sums.iter_mut().zip(exact).for_each(|(sum, rows)| *sum += i128::from(rows) * i128::from(SCALE));
        Ok(sums.map(|sum| in_rows(sum, SCALE)))
    }

    /// The noisy sums of `NUMBERS` normalised values for every key. The charge is consumed and the noise drawn before any
    /// row is read.
    fn table<const NUMBERS: usize>(
        &mut self, lane: Lane, keys: PerUnit<u32>, noise: TableNoise, form: &[u64],
        shares: impl Fn(R::Row<'_>, u64) -> Option<(u32, [u64; NUMBERS])>,
    ) -> Result<Vec<[f64; NUMBERS]>, SessionError> {
        check_keys(keys.bounds)?;
        let mut sums = vec![[0i128; NUMBERS]; keys.bounds as usize];
        self.draw(lane, noise, sums.as_flattened_mut())?;
        self.gather(lane, form, sums.as_flattened_mut(), |rows, sums| add_shares(rows, keys, sums, shares))?;
        let steps = keys.contribution.steps(SCALE);
        Ok(sums.into_iter().map(|sums| sums.map(|sum| in_rows(sum, steps))).collect())
    }

    /// Consumes the charge of one release and draws its noise.
    fn draw(&mut self, lane: Lane, noise: TableNoise, sums: &mut [i128]) -> Result<(), SessionError> {
        match noise {
            TableNoise::Laplace(epsilon) => {
                let sampler = laplace(epsilon, SCALE)?;
                self.plan(lane)?.take_laplace(epsilon)?;
                Ok(sampler.fill(&mut self.noise, sums)?)
            }
            TableNoise::Gaussian(sigma) => {
                let sampler = gaussian(sigma)?;
                self.plan(lane)?.take_zcdp(zcdp_loss(sigma)?)?;
                Ok(sampler.fill(&mut self.noise, sums)?)
            }
        }
    }
}

pub(crate) fn check_keys(keys: u32) -> Result<(), SessionError> {
    let fits = (1..=KEYS_LIMIT).contains(&keys);
    if fits { Ok(()) } else { Err(SessionError::Parameter("a table has from 1 to 2^24 keys")) }
}

pub(crate) fn pairs_form(keys: PerUnit<u32>, range: Range, rounding: Rounding) -> Vec<u64> {
    let bounds = vec![2, u64::from(keys.bounds), range.low.to_bits(), range.high.to_bits(), rounding as u64];
    keys.contribution.form(bounds)
}

fn triples_form(keys: u32, range: Range, rounding: Rounding) -> Vec<u64> {
    vec![4, u64::from(keys), range.low.to_bits(), range.high.to_bits(), rounding as u64]
}

pub(crate) fn histogram_form(keys: PerUnit<u32>) -> Vec<u64> {
    keys.contribution.form(vec![3, u64::from(keys.bounds)])
}

/// Adds the normalised values of the records that have a key of the table; returns the number of rows. `shares` gets the
/// number of steps of a record, which its values add up to.
pub(crate) fn add_shares<R: Rows, const NUMBERS: usize>(
    rows: &[R], keys: PerUnit<u32>, sums: &mut [i128],
    shares: impl Fn(R::Row<'_>, u64) -> Option<(u32, [u64; NUMBERS])>,
) -> u64 {
    let (sums, _) = sums.as_chunks_mut::<NUMBERS>();
    let steps = keys.contribution.steps(SCALE);
    keys.contribution.each_record(rows, |row| {
        let Some((key, shares)) = shares(row, steps) else { return false };
        let Some(sums) = sums.get_mut(key as usize) else { return false };
        sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += i128::from(share));
        true
    })
}

/// The normalised distances of a value from the lower and from the upper end; they add up to `steps`.
#[inline]
pub(crate) fn split_shares(value: f64, range: Range, rounding: Rounding, steps: u64) -> [u64; 2] {
    let share = quantise(value, range, rounding, steps);
    [share, steps - share]
}

/// The zero-concentrated loss ρ = 1 / (2σ²) of one release with this noise multiplier, rounded up.
fn zcdp_loss(sigma: Sigma) -> Result<Epsilon, SessionError> {
    let square = u128::from(sigma.units()) * u128::from(sigma.units());
    let units = 500_000_000_000_000_000_000_000_000_000u128.checked_div(square).ok_or(SessionError::NotCovered)? + 1;
    u64::try_from(units).ok().and_then(Epsilon::from_units).ok_or(SessionError::NotCovered)
}

/// The normalised value: a value as an integer fraction of its range, in units of 1 / `steps`.
///
/// # Guarantee
/// From 0 to `steps` for every bit pattern.
#[inline]
pub(crate) fn quantise(value: f64, range: Range, rounding: Rounding, steps: u64) -> u64 {
    if value.is_nan() {
        return match rounding {
            Rounding::Nearest => 0,
            Rounding::Up => steps,
        };
    }
    let share = (value.clamp(range.low, range.high) - range.low) / (range.high - range.low) * steps as f64;
    // Non-negative and small, so the fractional part is exact, and this is a round or ceil without a function call.
    let whole = share as u64;
    let cut = share - whole as f64;
    let up = match rounding {
        Rounding::Nearest => cut >= 0.5,
        Rounding::Up => cut > 0.0,
    };
    (whole + u64::from(up)).min(steps)
}

fn in_rows(units: i128, steps: u64) -> f64 {
    units as f64 / steps as f64
}

/// Discrete Laplace noise for a privacy loss of ε where one row changes the sums by `sensitivity` in L1.
pub(crate) fn laplace(epsilon: Epsilon, sensitivity: u64) -> Result<DiscreteLaplace, SessionError> {
    let too_wide = SessionError::Parameter("the sensitivity is too large for Laplace noise");
    let numerator = sensitivity.checked_mul(1_000_000_000_000).ok_or(too_wide)?;
    Ok(DiscreteLaplace::new(numerator, epsilon.units())?)
}

/// Discrete Gaussian noise with this multiplier where one row changes the sums by [`SCALE`] in L2.
fn gaussian(sigma: Sigma) -> Result<DiscreteGaussian, SessionError> {
    let bad = SessionError::Parameter("the noise multiplier of a table is more than zero and at most 262144");
    // σ · SCALE, where 10^9 / 2^9 is an integer.
    let numerator = sigma.units().checked_mul(SCALE >> 9).ok_or(bad)?;
    DiscreteGaussian::new(numerator, 1_000_000_000 >> 9).map_err(|_| bad)
}
