//! What may change in a stream's file once it has rows, and what may not.
//!
//! Rows that are stored stay as they were checked and where they were put, so neither bounds nor block rule
//! can move. A changed policy is an event of its own, with its own rules about who must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Answers, Role, StreamFile};

/// A change that may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The ceilings or doors. Loosening them needs two principals: the engine decides that on the kernel's
    /// policies.
    Policy,
    /// Who the privacy officers are. It needs two of them, as loosening does: an officer who could name others alone
    /// could also supply the second approval.
    Officers,
    /// Who has the other roles.
    Access,
    /// Who may spend in which context.
    Members,
    /// How long rows are kept.
    Retention,
    /// How coarsely those outside are told when something happened.
    Tick,
    /// When results are shown to people with a role. Showing them earlier needs two officers:
    /// [`StreamFile::discloses_earlier`].
    Answers,
    /// What becomes of late rows, from now on.
    Late,
}

/// A change that may not be made: make a new stream instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// This key of `[stream]` is fixed for ever.
    Fixed(&'static str),
    /// The columns are not the same, in the same order.
    Columns,
    /// The type or the bounds of this column are not the same.
    Bounds(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(key) => write!(out, "`{key}` cannot change, because stored rows follow it")?,
            Self::Columns => {
                write!(out, "columns cannot be added, removed or moved, because stored rows have the old ones")?
            }
            Self::Bounds(column) => {
                write!(
                    out,
                    "the type and bounds of column `{column}` cannot change, because stored rows were checked with the old ones"
                )?;
            }
        }
        write!(out, "; create a new stream under another name")
    }
}

impl std::error::Error for Refused {}

impl StreamFile {
    /// The privacy officers, in the order of their names.
    pub fn officers(&self) -> BTreeSet<&str> {
        self.access.get(&Role::PrivacyOfficer).into_iter().flatten().map(String::as_str).collect()
    }

    /// Everybody with another role than privacy officer.
    fn other_roles(&self) -> BTreeMap<Role, &[String]> {
        let others = self.access.iter().filter(|(role, _)| **role != Role::PrivacyOfficer);
        others.map(|(role, names)| (*role, names.as_slice())).collect()
    }

    /// Whether the stream would show results to people with a role earlier if it followed this other file: at once
    /// instead of at the end of a disclosure interval, or at the end of a shorter one.
    pub fn discloses_earlier(&self, other: &Self) -> bool {
        let shorter = other.tick.map(|tick| tick.microseconds()) < self.tick.map(|tick| tick.microseconds());
        self.answers == Answers::AtInterval && (other.answers == Answers::AtOnce || shorter)
    }

    /// What would change if the stream followed this other file from now on; nothing if they say the same.
    ///
    /// # Errors
    /// With the first change that may not be made.
    pub fn changes(&self, other: &Self) -> Result<Vec<Change>, Refused> {
        let fixed = [
            ("name", self.name == other.name),
            ("unit", self.unit == other.unit),
            ("user", self.user == other.user),
            ("time", self.time == other.time),
            ("blocks", self.blocks == other.blocks),
            ("test_share", self.test_share == other.test_share),
            ("census", self.census == other.census),
        ];
        if let Some((key, _)) = fixed.into_iter().find(|(_, same)| !same) {
            return Err(Refused::Fixed(key));
        }
        if !self.columns.iter().map(|column| &column.name).eq(other.columns.iter().map(|column| &column.name)) {
            return Err(Refused::Columns);
        }
        if let Some((old, _)) = self.columns.iter().zip(&other.columns).find(|(old, new)| old != new) {
            return Err(Refused::Bounds(old.name.clone()));
        }
        let mut changes = Vec::new();
        let mut note = |same: bool, change: Change| changes.extend((!same).then_some(change));
        let as_much = self.policy.allows_as_much_as(&other.policy);
        note(as_much, Change::Policy);
        note(self.policy == other.policy || !as_much, Change::Members);
        note(self.officers() == other.officers(), Change::Officers);
        note(self.other_roles() == other.other_roles(), Change::Access);
        note(self.retention == other.retention, Change::Retention);
        note(self.tick == other.tick, Change::Tick);
        note(self.answers == other.answers, Change::Answers);
        note(self.late == other.late, Change::Late);
        Ok(changes)
    }
}
