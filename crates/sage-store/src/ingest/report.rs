//! What became of the rows of a batch, for those who may see it.
//!
//! These are true counts of rows. They must never reach the log, an error, a page or a pipeline's author.

use std::collections::BTreeMap;

/// Why a row was left out or set aside, or a value changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// A value that must be there is not.
    Absent,
    /// A value is not of the declared type.
    Unreadable,
    /// A number is none.
    NotANumber,
    /// A value is outside its bounds, or a text is too long.
    Outside,
    /// A text is none of the categories.
    OtherCategory,
    /// A row's time is absent, unreadable or outside its bounds, so that it belongs to no block.
    Time,
    /// A row's block is sealed.
    Late,
}

impl Reason {
    /// As it stands in a quarantine file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Unreadable => "unreadable",
            Self::NotANumber => "not a number",
            Self::Outside => "outside its bounds",
            Self::OtherCategory => "no known category",
            Self::Time => "no time within its bounds",
            Self::Late => "late",
        }
    }
}

/// Counts of rows by column and reason.
type Counts = BTreeMap<(String, Reason), u64>;

/// What became of the rows of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows read.
    pub read: u64,
    /// Rows stored in blocks.
    pub stored: u64,
    /// Rows set aside.
    pub quarantined: u64,
    /// For each column and reason, the rows left out for it; a row may count under several.
    pub dropped: Counts,
    /// For each column and reason, the values that were replaced: by a bound, by the category for others, or by
    /// nothing.
    pub changed: Counts,
}

impl Report {
    pub(super) fn drop(&mut self, column: &str, reason: Reason, rows: usize) {
        note(&mut self.dropped, column, reason, rows);
    }

    pub(super) fn change(&mut self, column: &str, reason: Reason, rows: usize) {
        note(&mut self.changed, column, reason, rows);
    }

    /// Takes over what another part of the work counted.
    pub(super) fn add(&mut self, other: Self) {
        self.read += other.read;
        self.stored += other.stored;
        self.quarantined += other.quarantined;
        for (mine, theirs) in [(&mut self.dropped, other.dropped), (&mut self.changed, other.changed)] {
            for (at, rows) in theirs {
                *mine.entry(at).or_default() += rows;
            }
        }
    }
}

fn note(counts: &mut Counts, column: &str, reason: Reason, rows: usize) {
    if rows > 0 {
        *counts.entry((column.to_owned(), reason)).or_default() += rows as u64;
    }
}
