//! Scalars: sums of a bounded number over the rows, in one cell or by a public key. Proof:
//! `proofs/table.md`.
//!
//! A row's number is moved into its range, turned into a whole share of [`SCALE`], and counted twice: how
//! far it lies above the lower end and how far below the upper one. The two add up to [`SCALE`] exactly, so
//! one row moves the pair by [`SCALE`] in total, and a count comes out for nothing.

use crate::block::Lane;
use crate::budget::{Epsilon, Sigma};
use crate::cost::{Mechanism, SCALE};
use crate::noise::{DiscreteGaussian, DiscreteLaplace, NoiseSource};
use crate::session::{Rows, Session, SessionError, each_row};

/// A closed range of real numbers, given in advance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    low: f64,
    high: f64,
}

impl Range {
    /// The range from `low` to `high`, if both are finite and `low` is the smaller.
    pub fn new(low: f64, high: f64) -> Option<Self> {
        let width = high - low;
        (low.is_finite() && high.is_finite() && width.is_finite() && width > 0.0).then_some(Self { low, high })
    }
}

/// How a number that is between two steps, or no number, is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// To the nearest step; what is no number counts as the lower end.
    AsStatistic,
    /// Up; what is no number counts as the upper end. A loss is never made to look smaller.
    AsLoss,
}

/// The noise of a table, and with it its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableNoise {
    /// Discrete Laplace: the whole table is ε-differentially private.
    Laplace(Epsilon),
    /// Discrete Gaussian with this noise multiplier σ: the whole table is 1/(2σ²)-concentrated.
    Gaussian(Sigma),
}

impl TableNoise {
    /// The mechanism to list when charging for one table with this noise.
    ///
    /// # Guarantee
    /// It covers one call of [`Session::pairs`], [`Session::triples`], [`Session::histogram`] or
    /// [`Session::best_answers`] with this noise.
    ///
    /// # Errors
    /// When the noise multiplier is so small that it has no price.
    pub fn mechanism(self) -> Result<Mechanism, SessionError> {
        match self {
            Self::Laplace(epsilon) => Ok(Mechanism::Laplace { epsilon, count: 1 }),
            Self::Gaussian(sigma) => Ok(Mechanism::Zcdp { rho: concentrated(sigma)? }),
        }
    }
}

/// The noisy sums of one key, in rows: both numbers are shares of the range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The sum of (value − low) / (high − low).
    pub above: f64,
    /// The sum of (high − value) / (high − low).
    pub below: f64,
}

/// The noisy sums of one key with a second moment, in rows. With s = (value − low) / (high − low), the three
/// add up to the number of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Triple {
    /// The sum of s², each rounded up to the grid.
    pub squares: f64,
    /// The sum of s less those squares.
    pub rest: f64,
    /// The sum of 1 − s.
    pub below: f64,
}

/// The most keys of a table.
const KEYS_LIMIT: u32 = 1 << 24;

impl<R: Rows, N: NoiseSource> Session<R, N> {
    /// The pair of sums for every key from 0 to `keys` − 1, the empty ones included.
    ///
    /// A row has one key at most; rows without one, or with one beyond the table, count nowhere.
    ///
    /// # Guarantee
    /// One release of the noise's mechanism, whatever `value` returns: `proofs/table.md`.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn pairs(
        &mut self, lane: Lane, keys: u32, range: Range, taken: Taken, noise: TableNoise,
        value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Vec<Pair>, SessionError> {
        let shares = |row: R::Row<'_>| value(row).map(|(key, value)| (key, shares_of(value, range, taken)));
        let sums = self.table(lane, keys, noise, &pairs_form(keys, range, taken), shares)?.into_iter();
        Ok(sums.map(|[above, below]| Pair { above, below }).collect())
    }

    /// As [`Session::pairs`], with the squares: one number more with the same noise, for the same cost.
    ///
    /// # Guarantee
    /// One release of the noise's mechanism, whatever `value` returns: `proofs/table.md`.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn triples(
        &mut self, lane: Lane, keys: u32, range: Range, taken: Taken, noise: TableNoise,
        value: impl Fn(R::Row<'_>) -> Option<(u32, f64)>,
    ) -> Result<Vec<Triple>, SessionError> {
        let shares = |row: R::Row<'_>| {
            value(row).map(|(key, value)| {
                let share = quantise(value, range, taken);
                let square = (share * share).div_ceil(SCALE);
                (key, [square, share - square, SCALE - share])
            })
        };
        let sums = self.table(lane, keys, noise, &triples_form(keys, range, taken), shares)?.into_iter();
        Ok(sums.map(|[squares, rest, below]| Triple { squares, rest, below }).collect())
    }

    /// The noisy number of rows with each key from 0 to `keys` − 1, the empty ones included.
    ///
    /// # Guarantee
    /// One release of the noise's mechanism, whatever `key` returns: `proofs/table.md`.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn histogram(
        &mut self, lane: Lane, keys: u32, noise: TableNoise, key: impl Fn(R::Row<'_>) -> Option<u32>,
    ) -> Result<Vec<f64>, SessionError> {
        let shares = |row: R::Row<'_>| key(row).map(|key| (key, [SCALE]));
        Ok(self.table(lane, keys, noise, &histogram_form(keys), shares)?.into_flattened())
    }

    /// How many rows the best function of their key is right about, and about how many it is wrong, with noise: for
    /// every key it gives the answer that most of the rows with this key have.
    ///
    /// `value` gives a row's key and its answer, below `keys` and `answers`. A row without them, or with others,
    /// counts as one that it is right about.
    ///
    /// # Guarantee
    /// One release of the noise's mechanism, whatever `value` returns: `proofs/table.md`.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range, and on a lane that was opened on sums.
    pub fn best_answers(
        &mut self, lane: Lane, keys: u32, answers: u32, noise: TableNoise,
        value: impl Fn(R::Row<'_>) -> Option<(u32, u32)>,
    ) -> Result<[f64; 2], SessionError> {
        check_keys(keys.saturating_mul(answers))?;
        self.granted_rows(lane)?;
        let mut sums = [0i128; 2];
        self.draw(lane, noise, &mut sums)?;
        let mut counts = vec![0u64; (keys * answers) as usize];
        let mut right = 0;
        let rows = each_row(self.granted_rows(lane)?, |row| match value(row) {
            Some((key, answer)) if key < keys && answer < answers => counts[(key * answers + answer) as usize] += 1,
            _ => right += 1,
        });
        right += counts.chunks(answers as usize).filter_map(|answers| answers.iter().max()).sum::<u64>();
        let exact = [right, rows - right];
        sums.iter_mut().zip(exact).for_each(|(sum, rows)| *sum += i128::from(rows) * i128::from(SCALE));
        Ok(sums.map(in_rows))
    }

    /// The noisy sums of so many numbers for every key, in rows. The charge is used up and the noise drawn
    /// before any row is looked at.
    fn table<const NUMBERS: usize>(
        &mut self, lane: Lane, keys: u32, noise: TableNoise, form: &[u64],
        shares: impl Fn(R::Row<'_>) -> Option<(u32, [u64; NUMBERS])>,
    ) -> Result<Vec<[f64; NUMBERS]>, SessionError> {
        check_keys(keys)?;
        let mut sums = vec![[0i128; NUMBERS]; keys as usize];
        self.draw(lane, noise, sums.as_flattened_mut())?;
        self.gather(lane, form, sums.as_flattened_mut(), |rows, sums| add_shares(rows, sums, shares))?;
        Ok(sums.into_iter().map(|sums| sums.map(in_rows)).collect())
    }

    /// Uses up the charge of one release and draws its noise.
    fn draw(&mut self, lane: Lane, noise: TableNoise, sums: &mut [i128]) -> Result<(), SessionError> {
        match noise {
            TableNoise::Laplace(epsilon) => {
                let sampler = laplace(epsilon, SCALE)?;
                self.plan(lane)?.take_laplace(epsilon)?;
                Ok(sampler.fill(&mut self.noise, sums)?)
            }
            TableNoise::Gaussian(sigma) => {
                let sampler = gaussian(sigma)?;
                self.plan(lane)?.take_zcdp(concentrated(sigma)?)?;
                Ok(sampler.fill(&mut self.noise, sums)?)
            }
        }
    }
}

pub(crate) fn check_keys(keys: u32) -> Result<(), SessionError> {
    let fits = (1..=KEYS_LIMIT).contains(&keys);
    if fits { Ok(()) } else { Err(SessionError::Parameter("a table has from 1 to 2^24 keys")) }
}

pub(crate) fn pairs_form(keys: u32, range: Range, taken: Taken) -> Vec<u64> {
    vec![2, u64::from(keys), range.low.to_bits(), range.high.to_bits(), taken as u64]
}

fn triples_form(keys: u32, range: Range, taken: Taken) -> Vec<u64> {
    vec![4, u64::from(keys), range.low.to_bits(), range.high.to_bits(), taken as u64]
}

pub(crate) fn histogram_form(keys: u32) -> Vec<u64> {
    vec![3, u64::from(keys)]
}

/// Adds the shares of every row that has a key of the table; gives how many rows there are.
pub(crate) fn add_shares<R: Rows, const NUMBERS: usize>(
    rows: &[R], sums: &mut [i128], shares: impl Fn(R::Row<'_>) -> Option<(u32, [u64; NUMBERS])>,
) -> u64 {
    let (sums, _) = sums.as_chunks_mut::<NUMBERS>();
    each_row(rows, |row| {
        if let Some((key, shares)) = shares(row)
            && let Some(sums) = sums.get_mut(key as usize)
        {
            sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += i128::from(share));
        }
    })
}

/// What a number lies above the lower end and below the upper one, in whole shares that add up to [`SCALE`].
#[inline]
pub(crate) fn shares_of(value: f64, range: Range, taken: Taken) -> [u64; 2] {
    let share = quantise(value, range, taken);
    [share, SCALE - share]
}

/// The concentrated loss 1 / (2σ²) of one release with this noise multiplier, rounded up.
fn concentrated(sigma: Sigma) -> Result<Epsilon, SessionError> {
    let square = u128::from(sigma.units()) * u128::from(sigma.units());
    let units = 500_000_000_000_000_000_000_000_000_000u128.checked_div(square).ok_or(SessionError::NotCovered)? + 1;
    u64::try_from(units).ok().and_then(Epsilon::from_units).ok_or(SessionError::NotCovered)
}

/// A number as a whole share of the range.
///
/// # Guarantee
/// From 0 to [`SCALE`] for every bit pattern.
#[inline]
pub(crate) fn quantise(value: f64, range: Range, taken: Taken) -> u64 {
    if value.is_nan() {
        return match taken {
            Taken::AsStatistic => 0,
            Taken::AsLoss => SCALE,
        };
    }
    let share = (value.clamp(range.low, range.high) - range.low) / (range.high - range.low) * SCALE as f64;
    // Not negative and small, so what the cast cuts off is exact, and this is a round or a ceiling without a call.
    let whole = share as u64;
    let cut = share - whole as f64;
    let up = match taken {
        Taken::AsStatistic => cut >= 0.5,
        Taken::AsLoss => cut > 0.0,
    };
    (whole + u64::from(up)).min(SCALE)
}

fn in_rows(units: i128) -> f64 {
    units as f64 / SCALE as f64
}

/// Noise for a loss of ε where one row moves the sums by `sensitivity` in total.
pub(crate) fn laplace(epsilon: Epsilon, sensitivity: u64) -> Result<DiscreteLaplace, SessionError> {
    let too_wide = SessionError::Parameter("the sensitivity is too large for Laplace noise");
    let numerator = sensitivity.checked_mul(1_000_000_000_000).ok_or(too_wide)?;
    Ok(DiscreteLaplace::new(numerator, epsilon.units())?)
}

/// Noise with this multiplier where one row moves the sums by [`SCALE`] in length.
fn gaussian(sigma: Sigma) -> Result<DiscreteGaussian, SessionError> {
    let bad = SessionError::Parameter("the noise multiplier of a table is more than zero and at most 262144");
    // σ · SCALE, where 10^9 / 2^9 is whole.
    let numerator = sigma.units().checked_mul(SCALE >> 9).ok_or(bad)?;
    DiscreteGaussian::new(numerator, 1_000_000_000 >> 9).map_err(|_| bad)
}
