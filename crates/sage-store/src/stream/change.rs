//! Changes of a stream's file: which ones are allowed once the stream exists.
//!
//! Stored rows keep the values they were checked to have and the blocks they were assigned to, so bounds and
//! block rule cannot change. A policy change is an event of its own, with its own rules about who must approve it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Disclosure, Role, StreamFile, Width};

/// A change that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The ceilings or the access modes. Loosening them needs two principals; the engine checks that on the kernel's
    /// policies.
    Policy,
    /// The privacy officers. This change needs two of them, as loosening does: an officer who could appoint others
    /// alone could also supply the second approval.
    Officers,
    /// The principals with the other roles.
    Access,
    /// The members of contexts.
    Members,
    /// How long rows are kept.
    Retention,
    /// The disclosure interval for users without a role on the stream.
    DisclosureInterval,
    /// When results are shown to users with a role. Showing them earlier needs two officers:
    /// [`StreamFile::discloses_earlier`].
    Disclosure,
    /// How late rows are treated from now on.
    Late,
}

/// A change that is not allowed. It needs a new stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForbiddenChange {
    /// A key of `[stream]` that never changes.
    #[error("`{0}` cannot change, because stored rows follow it; create a new stream under another name")]
    Fixed(&'static str),
    /// The set or the order of the columns.
    #[error(
        "columns cannot be added, removed or moved, because stored rows have the old ones; create a new stream \
             under another name"
    )]
    Columns,
    /// The type or the bounds of a column.
    #[error(
        "the type and bounds of column `{0}` cannot change, because stored rows were checked with the old ones; \
             create a new stream under another name"
    )]
    Bounds(String),
}

impl StreamFile {
    /// The privacy officers, sorted by name.
    pub fn officers(&self) -> BTreeSet<&str> {
        self.access.get(&Role::PrivacyOfficer).into_iter().flatten().map(String::as_str).collect()
    }

    /// The principals of each role other than privacy officer.
    fn other_roles(&self) -> BTreeMap<Role, &[String]> {
        let others = self.access.iter().filter(|(role, _)| **role != Role::PrivacyOfficer);
        others.map(|(role, names)| (*role, names.as_slice())).collect()
    }

    /// Whether `other` shows results to users with a role earlier than this file does: at once instead of at the end of
    /// a disclosure interval, or at the end of a shorter interval.
    pub fn discloses_earlier(&self, other: &Self) -> bool {
        let length = |file: &Self| file.disclosure_interval.map(Width::microseconds);
        let shorter = length(other) < length(self);
        self.answers == Disclosure::AtInterval && (other.answers == Disclosure::AtOnce || shorter)
    }

    /// The changes from this file to `other`; empty if both describe the same stream.
    ///
    /// # Errors
    /// With the first change that is not allowed.
    pub fn changes(&self, other: &Self) -> Result<Vec<Change>, ForbiddenChange> {
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
            return Err(ForbiddenChange::Fixed(key));
        }
        if !self.columns.iter().map(|column| &column.name).eq(other.columns.iter().map(|column| &column.name)) {
            return Err(ForbiddenChange::Columns);
        }
        if let Some((old, _)) = self.columns.iter().zip(&other.columns).find(|(old, new)| old != new) {
            return Err(ForbiddenChange::Bounds(old.name.clone()));
        }
        let mut changes = Vec::new();
        let mut push_unless = |same: bool, change: Change| changes.extend((!same).then_some(change));
        let same_limits = self.policy.has_same_limits(&other.policy);
        push_unless(same_limits, Change::Policy);
        push_unless(self.policy == other.policy || !same_limits, Change::Members);
        push_unless(self.officers() == other.officers(), Change::Officers);
        push_unless(self.other_roles() == other.other_roles(), Change::Access);
        push_unless(self.retention == other.retention, Change::Retention);
        push_unless(self.disclosure_interval == other.disclosure_interval, Change::DisclosureInterval);
        push_unless(self.answers == other.answers, Change::Disclosure);
        push_unless(self.late == other.late, Change::Late);
        Ok(changes)
    }
}
