//! A session: the rows of granted blocks and what is left of the charge, in one owner.
//!
//! As two values, a budget granted on some blocks could be spent on others. Rows go in once, when the
//! permit is used, and come out only through the mechanisms in this folder of files (`table`, `vector`,
//! `moments`, `gradient`), each of which bounds what one row can do, adds noise and uses up its part of
//! the charge. A session cannot be copied, printed, counted or iterated. The functions of a row that
//! callers pass are `Fn`: they have nowhere to put a row. That stops accidents, not malice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::block::Lane;
use crate::event::{Door, GrantId};
use crate::gradient::Scratch;
use crate::grant::{Finished, Permit};
use crate::message::says;
use crate::noise::{NoiseError, NoiseSource, SecureNoise};
use crate::plan::Plan;
use crate::summary::{Summary, Tag, distinct};

/// A batch of rows as the block reader makes them.
///
/// # Guarantee
/// The reader promises that [`Rows::row`] shows nothing of any other row.
pub trait Rows {
    /// One row.
    type Row<'rows>
    where
        Self: 'rows;

    /// How many rows there are. The kernel keeps this to itself.
    fn count(&self) -> usize;

    /// The row at a place below [`Rows::count`].
    fn row(&self, place: usize) -> Self::Row<'_>;
}

/// Why a mechanism did not run. Nothing is released then, and what was charged stays charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// What is left of the charge does not cover it.
    NotCovered,
    /// A parameter is out of its range; the text names it and says what is allowed.
    Parameter(&'static str),
    /// There is no randomness to be had.
    Noise(NoiseError),
}

says!(error SessionError {
    Self::NotCovered => "what is left of this grant's cost does not cover the mechanism; list it when charging",
    Self::Parameter(what) => what,
    Self::Noise(error) => error.to_string(),
});

impl From<NoiseError> for SessionError {
    fn from(error: NoiseError) -> Self {
        Self::Noise(error)
    }
}

/// Rows and what may still be asked of them.
///
/// # Guarantee
/// Everything that comes out of a session is a mechanism of the charge it was opened under, run with the
/// kernel's clipping and noise on the rows of the granted blocks and lanes. Proof: the page in `proofs/`
/// that each method names.
pub struct Session<R, N = SecureNoise> {
    grant: GrantId,
    /// Unlike that of any other session of the process. A grant's number is unique within its log only.
    pub(crate) identity: u64,
    pub(crate) plans: [Option<Plan>; 2],
    pub(crate) rows: [Vec<R>; 2],
    /// Sums of blocks in the stead of their rows, and what they are sums of.
    pub(crate) kept: [Vec<Arc<Summary>>; 2],
    pub(crate) tag: Tag,
    pub(crate) noise: N,
    door: Door,
    /// Whether a mechanism of the kernel has used some of the charge.
    touched: bool,
    pub(crate) threads: usize,
    pub(crate) scratch: Scratch,
}

impl Permit {
    /// Reads the granted rows and opens a session on them, with noise from this source.
    ///
    /// The reader gets the permit to look at and gives back the rows of each lane. What it gives for a
    /// lane the permit does not cover is dropped unread.
    ///
    /// # Errors
    /// When the reader fails; the charge stands all the same.
    pub fn open<R: Rows, N: NoiseSource, E>(
        self, noise: N, read: impl FnOnce(&Self) -> Result<[Vec<R>; 2], E>,
    ) -> Result<Session<R, N>, E> {
        self.open_with_summaries(noise, Tag([0; 32]), |permit| Ok((read(permit)?, Vec::new())))
    }

    /// As [`Permit::open`], where the reader gives sums of some blocks in the stead of their rows, all of them
    /// made under this tag.
    ///
    /// # Guarantee
    /// What is not of a granted lane of a granted block is dropped unread, and so is a second summary of the
    /// same block and kind. The reader promises that a row of a block is in every summary of the block, or
    /// among the rows and in none. A mechanism runs only if the lane has no summaries, or some of its kind.
    ///
    /// # Errors
    /// As [`Permit::open`].
    pub fn open_with_summaries<R: Rows, N: NoiseSource, E>(
        self, noise: N, tag: Tag, read: impl FnOnce(&Self) -> Result<([Vec<R>; 2], Vec<Arc<Summary>>), E>,
    ) -> Result<Session<R, N>, E> {
        let (mut rows, kept) = read(&self)?;
        let kept = distinct(&self, kept);
        for (rows, plan) in rows.iter_mut().zip(&self.plans) {
            if plan.is_none() {
                rows.clear();
            }
        }
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let identity = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let (grant, plans, door) = (self.grant, self.plans, self.door);
        let scratch = Scratch::default();
        Ok(Session { grant, identity, plans, rows, kept, tag, noise, door, touched: false, threads: 1, scratch })
    }
}

impl<R: Rows, N: NoiseSource> Session<R, N> {
    /// Lets the sampled sum use so many threads, at least one. No released number depends on it.
    pub const fn use_threads(&mut self, threads: usize) {
        self.threads = if threads == 0 { 1 } else { threads };
    }

    /// Ends the session; what it computed may now be released.
    pub fn finish(self) -> Finished {
        Finished { grant: self.grant }
    }

    /// Hands the rows of both lanes to code whose author vouched for their cost when it was charged.
    ///
    /// # Errors
    /// Gives the session back unless it was charged through the declared door and no mechanism of the
    /// kernel has used any of that charge: it pays for one or the other. Also if it holds sums: they are not
    /// shown.
    pub fn into_declared(self) -> Result<DeclaredRows<R>, Box<Self>> {
        match self.door {
            Door::Declared { .. } if !self.touched && self.kept.iter().all(Vec::is_empty) => {
                Ok(DeclaredRows { grant: self.grant, rows: self.rows })
            }
            _ => Err(Box::new(self)),
        }
    }

    /// Changes the batches where they are, so that a released number can be put into the rows it was
    /// computed from.
    ///
    /// # Guarantee
    /// Nothing comes out, and nothing is used up. As with [`Rows::row`] the caller promises that the change
    /// goes row by row: what becomes of a row depends on that row and on released or public numbers, and
    /// rows neither appear nor vanish. Then neighbours stay neighbours, and every mechanism loses what it
    /// would have lost.
    pub fn rewrite(&mut self, change: impl Fn(&mut R)) {
        self.rows.iter_mut().flatten().for_each(change);
    }

    /// The rows of a lane that was granted and opened on rows alone.
    pub(crate) fn granted_rows(&self, lane: Lane) -> Result<&[R], SessionError> {
        if self.plans[lane.index()].is_none() {
            return Err(SessionError::NotCovered);
        }
        if !self.kept[lane.index()].is_empty() {
            return Err(SessionError::Parameter("the lane was opened on sums, which hold no rows"));
        }
        Ok(&self.rows[lane.index()])
    }

    pub(crate) fn plan(&mut self, lane: Lane) -> Result<&mut Plan, SessionError> {
        self.touched = true;
        self.plans[lane.index()].as_mut().ok_or(SessionError::NotCovered)
    }
}

/// Calls a function for every row of the batches; gives how many there are.
pub(crate) fn each_row<R: Rows>(batches: &[R], mut visit: impl FnMut(R::Row<'_>)) -> u64 {
    for batch in batches {
        (0..batch.count()).for_each(|place| visit(batch.row(place)));
    }
    batches.iter().map(|batch| batch.count() as u64).sum()
}

/// Rows in the open: the louder door.
pub struct DeclaredRows<R> {
    grant: GrantId,
    rows: [Vec<R>; 2],
}

impl<R> DeclaredRows<R> {
    /// The rows of a lane.
    pub fn lane(&self, lane: Lane) -> &[R] {
        &self.rows[lane.index()]
    }

    /// Ends the reading; what was computed may now be released, as attested.
    pub fn finish(self) -> Finished {
        Finished { grant: self.grant }
    }
}
