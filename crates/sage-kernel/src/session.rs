//! A session: the rows of granted blocks together with the unused part of the charge.
//!
//! One type owns both, because otherwise a budget granted on some blocks could be spent on others. Rows enter once, when
//! the permit is consumed, and leave only through the mechanisms (`table`, `vector`, `moments`, `gradient`), each of which
//! bounds the effect of one row, adds noise and consumes its part of the charge. A session must never be copied, printed,
//! counted or iterated. The callbacks on rows are `Fn`, so they cannot store a row by accident; this does not stop
//! malicious code.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::block::Lane;
use crate::event::{AccessMode, GrantId};
use crate::gradient::Scratch;
use crate::grant::{FinishedSession, Permit};
use crate::message::display;
use crate::noise::{NoiseError, NoiseSource, SecureNoise};
use crate::plan::Plan;
use crate::summary::{Summary, SummaryTag, distinct};

/// A batch of rows from the block reader.
///
/// # Guarantee
/// An implementation guarantees that a row is a privacy unit, and that [`Rows::row`], [`Rows::records`] and
/// [`Rows::record`] depend on no other row.
pub trait Rows {
    /// One row: a unit, of which one record is in front.
    type Row<'rows>
    where
        Self: 'rows;

    /// The number of rows. The kernel never reveals it.
    fn count(&self) -> usize;

    /// The row at an index below [`Rows::count`], with its first record in front.
    fn row(&self, index: usize) -> Self::Row<'_>;

    /// The number of records of a row.
    #[inline]
    fn records(&self, _: usize) -> usize {
        1
    }

    /// The row at an index, with the record at an index below [`Rows::records`] in front.
    #[inline]
    fn record(&self, index: usize, _: usize) -> Self::Row<'_> {
        self.row(index)
    }
}

/// Why a mechanism did not run. Nothing is released, and the charge stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// The unused part of the charge does not cover the mechanism.
    NotCovered,
    /// A parameter is out of range; the text names the parameter and its range.
    Parameter(&'static str),
    /// The source of randomness failed.
    Noise(NoiseError),
}

display!(error SessionError {
    Self::NotCovered => "the unused part of this grant's cost does not cover the mechanism; list it in the request",
    Self::Parameter(what) => what,
    Self::Noise(error) => error.to_string(),
});

impl From<NoiseError> for SessionError {
    fn from(error: NoiseError) -> Self {
        Self::Noise(error)
    }
}

/// The rows of granted blocks and the unused part of the charge.
///
/// # Guarantee
/// Every output of a session is the output of a mechanism of its charge, run with the kernel's clipping and noise on the
/// rows of the granted blocks and lanes. Proof: the page in `proofs/` that each method names.
pub struct Session<R, N = SecureNoise> {
    grant: GrantId,
    /// Unique among the sessions of the process. A grant's number is unique only within its log.
    pub(crate) identity: u64,
    pub(crate) plans: [Option<Plan>; 2],
    pub(crate) rows: [Vec<R>; 2],
    /// Cached block summaries that replace the rows of their blocks, and the tag they were computed under.
    pub(crate) summaries: [Vec<Arc<Summary>>; 2],
    pub(crate) tag: SummaryTag,
    pub(crate) noise: N,
    access: AccessMode,
    /// Whether a mechanism of the kernel has consumed a part of the charge.
    consumed: bool,
    pub(crate) threads: usize,
    pub(crate) scratch: Scratch,
    /// The number of sampled sums so far.
    pub(crate) steps: usize,
}

impl Permit {
    /// Reads the granted rows and opens a session on them, with noise from the given source.
    ///
    /// `read` receives the permit and returns the rows of each lane. Rows of a lane that the permit does not cover are
    /// dropped unread.
    ///
    /// # Errors
    /// When `read` fails; the charge stands.
    pub fn open<R: Rows, N: NoiseSource, E>(
        self, noise: N, read: impl FnOnce(&Self) -> Result<[Vec<R>; 2], E>,
    ) -> Result<Session<R, N>, E> {
        self.open_with_summaries(noise, SummaryTag([0; 32]), |permit| Ok((read(permit)?, Vec::new())))
    }

    /// As [`Permit::open`], but `read` returns cached summaries for some blocks instead of their rows, all computed under
    /// the given tag.
    ///
    /// # Guarantee
    /// Summaries of blocks or lanes that are not granted are dropped unread, and so is a second summary of the same block
    /// and kind. The caller guarantees that a row of a block is either in every summary of the block, or among the rows
    /// and in no summary. A mechanism runs only if the lane has no summaries, or has some of its kind.
    ///
    /// # Errors
    /// As [`Permit::open`].
    pub fn open_with_summaries<R: Rows, N: NoiseSource, E>(
        self, noise: N, tag: SummaryTag, read: impl FnOnce(&Self) -> Result<([Vec<R>; 2], Vec<Arc<Summary>>), E>,
    ) -> Result<Session<R, N>, E> {
        let (mut rows, summaries) = read(&self)?;
        let summaries = distinct(&self, summaries);
        for (rows, plan) in rows.iter_mut().zip(&self.plans) {
            if plan.is_none() {
                rows.clear();
            }
        }
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let identity = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let (grant, plans, access) = (self.grant, self.plans, self.access);
        let scratch = Scratch::default();
        Ok(Session {
            grant,
            identity,
            plans,
            rows,
            summaries,
            tag,
            noise,
            access,
            consumed: false,
            threads: 1,
            scratch,
            steps: 0,
        })
    }
}

impl<R: Rows, N: NoiseSource> Session<R, N> {
    /// Sets the number of threads of [`Session::sampled_sum`], at least one. No output depends on it.
    pub const fn use_threads(&mut self, threads: usize) {
        self.threads = if threads == 0 { 1 } else { threads };
    }

    /// Ends the session; its result can now be released.
    pub fn finish(self) -> FinishedSession {
        FinishedSession { grant: self.grant }
    }

    /// Hands the rows of both lanes to code whose author attested their cost in the request.
    ///
    /// # Errors
    /// Returns the session unless its access mode is attested and no mechanism of the kernel has consumed a part of the
    /// charge, which covers one or the other. Also if it has cached summaries, which are never handed out.
    pub fn into_attested(self) -> Result<AttestedRows<R>, Box<Self>> {
        match self.access {
            AccessMode::Attested { .. } if !self.consumed && self.summaries.iter().all(Vec::is_empty) => {
                Ok(AttestedRows { grant: self.grant, rows: self.rows })
            }
            _ => Err(Box::new(self)),
        }
    }

    /// Changes the batches in place, for example to join a released value to the rows it was computed from.
    ///
    /// # Guarantee
    /// Nothing is released and nothing is consumed. As with [`Rows::row`], the caller guarantees that the change is
    /// row by row: the new row depends only on the old row and on released or public values, and no row is added or
    /// removed. Then neighbouring data sets stay neighbouring, and every mechanism keeps its privacy loss.
    pub fn rewrite(&mut self, change: impl Fn(&mut R)) {
        self.rows.iter_mut().flatten().for_each(change);
    }

    /// The rows of a granted lane; an error if the lane has cached summaries.
    pub(crate) fn granted_rows(&self, lane: Lane) -> Result<&[R], SessionError> {
        if self.plans[lane.index()].is_none() {
            return Err(SessionError::NotCovered);
        }
        if !self.summaries[lane.index()].is_empty() {
            return Err(SessionError::Parameter(
                "the lane was opened with cached summaries, which contain no rows; open it with rows",
            ));
        }
        Ok(&self.rows[lane.index()])
    }

    pub(crate) fn plan(&mut self, lane: Lane) -> Result<&mut Plan, SessionError> {
        self.consumed = true;
        self.plans[lane.index()].as_mut().ok_or(SessionError::NotCovered)
    }
}

/// Calls a function for every row of the batches and returns the number of rows.
pub(crate) fn each_row<R: Rows>(batches: &[R], mut visit: impl FnMut(R::Row<'_>)) -> u64 {
    each_unit(batches, |batch, index| visit(batch.row(index)))
}

/// As [`each_row`], with the batch and the index of the row.
pub(crate) fn each_unit<R: Rows>(batches: &[R], mut visit: impl FnMut(&R, usize)) -> u64 {
    for batch in batches {
        (0..batch.count()).for_each(|index| visit(batch, index));
    }
    batches.iter().map(|batch| batch.count() as u64).sum()
}

/// Rows in the attested access mode: visible to the author's code.
pub struct AttestedRows<R> {
    grant: GrantId,
    rows: [Vec<R>; 2],
}

impl<R> AttestedRows<R> {
    /// The rows of a lane.
    pub fn lane(&self, lane: Lane) -> &[R] {
        &self.rows[lane.index()]
    }

    /// Ends the access; the result can now be released as attested.
    pub fn finish(self) -> FinishedSession {
        FinishedSession { grant: self.grant }
    }
}
