//! The ingest report: exact counts of the rows of a batch.
//!
//! The counts are not private. They must never reach the log, an error message, a page or a pipeline's author.

use std::collections::BTreeMap;

/// Why a row was dropped or quarantined, or a value changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// A required value is absent.
    Absent,
    /// A value does not have the declared type.
    Unreadable,
    /// A number is NaN.
    NotANumber,
    /// A value is outside its bounds, or a text is too long.
    Outside,
    /// A text is not in the list of categories.
    OtherCategory,
    /// The row's time is absent, unreadable or outside its bounds, so it belongs to no block.
    Time,
    /// The row's block is sealed.
    Late,
}

impl Reason {
    /// The reason as it is written into a quarantine file.
    pub const fn label(self) -> &'static str {
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

/// How the rows of a batch were treated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows read.
    pub read: u64,
    /// Rows stored in blocks.
    pub stored: u64,
    /// Rows quarantined.
    pub quarantined: u64,
    /// Dropped rows by column and reason. A row may count under several.
    pub dropped: Counts,
    /// Replaced values by column and reason. The replacement is a bound, the category for unknown texts, or null.
    pub changed: Counts,
}

impl Report {
    /// Counts dropped rows.
    pub(super) fn count_dropped(&mut self, column: &str, reason: Reason, rows: usize) {
        add_count(&mut self.dropped, column, reason, rows);
    }

    /// Counts rows with a changed value.
    pub(super) fn count_changed(&mut self, column: &str, reason: Reason, rows: usize) {
        add_count(&mut self.changed, column, reason, rows);
    }

    /// Adds the counts of another report.
    pub(super) fn add(&mut self, other: Self) {
        self.read += other.read;
        self.stored += other.stored;
        self.quarantined += other.quarantined;
        for (mine, theirs) in [(&mut self.dropped, other.dropped), (&mut self.changed, other.changed)] {
            for (key, rows) in theirs {
                *mine.entry(key).or_default() += rows;
            }
        }
    }
}

fn add_count(counts: &mut Counts, column: &str, reason: Reason, rows: usize) {
    if rows > 0 {
        *counts.entry((column.to_owned(), reason)).or_default() += rows as u64;
    }
}
