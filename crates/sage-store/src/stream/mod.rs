//! Streams: what the file of a stream says, in the user's words.
//!
//! A [`StreamFile`] is plain data: what a stream's rows look like, how they fall into blocks, who may do what,
//! and how much may be lost. It reads its text, writes it back in one form, and hands the kernel its
//! [`Policy`] and [`Split`]. It must never look at a row: everything in it is public and was decided before.

mod change;
mod codes;
mod column;
mod key;
mod members;
mod policy;
mod read;
mod width;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use sage_kernel::{Epsilon, Policy, Rate, Split};

pub use change::{Change, Refused};
pub use codes::{Attributes, Keyer};
pub use column::{Column, Kind, Other, Outside};
pub use key::{BlockRule, Cell, LATE_LEVEL, Levels, Span, late_key, time_of, time_text};
pub use members::MemberRefusal;
pub use policy::{ContextLimit, Limit, Limits, PolicyFile};
pub use width::Width;

pub use crate::document::DocumentError as StreamFileError;

use crate::blocks::LANE_COLUMN;

/// What one privacy unit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A row.
    Event,
    /// All rows of a user within one block.
    User {
        /// The most rows of a user that count in a block, for each query.
        contribution: u32,
    },
}

/// What becomes of rows whose block is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// They are set aside and never read.
    Quarantine,
    /// They go to a block of their own: [`late_key`].
    LateBlock,
}

/// How the units of sealed blocks are counted, privately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// What it may cost each lane of a block, in all.
    pub epsilon: Epsilon,
    /// For how many blocks the running count is to be at its best; one for sizes of blocks alone.
    pub horizon: u32,
}

/// What a principal may be to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Decides policies.
    PrivacyOfficer,
    /// Brings rows in.
    DataEngineer,
    /// Runs pipelines.
    MlEngineer,
    /// Reads the log.
    Auditor,
}

impl Role {
    /// All of them with their names in a file.
    pub const ALL: [(&'static str, Self); 4] = [
        ("privacy-officer", Self::PrivacyOfficer),
        ("data-engineer", Self::DataEngineer),
        ("ml-engineer", Self::MlEngineer),
        ("auditor", Self::Auditor),
    ];
}

impl std::fmt::Display for Role {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Self::ALL.iter().filter(|(_, role)| role == self).try_for_each(|(name, _)| out.write_str(name))
    }
}

/// A stream as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamFile {
    /// Its name, which is also its folder.
    pub name: String,
    /// What one more or less of is hidden.
    pub unit: Unit,
    /// The column that says whose row it is.
    pub user: Option<String>,
    /// The column with the time of the event.
    pub time: Option<String>,
    /// How rows fall into blocks.
    pub blocks: BlockRule,
    /// What becomes of rows of sealed blocks.
    pub late: Late,
    /// The chance of the test lane.
    pub test_share: Rate,
    /// How units are counted, if they are.
    pub census: Option<Census>,
    /// How long rows are kept after their block is sealed.
    pub retention: Option<Width>,
    /// How coarsely those outside are told when something happened, if more coarsely than the server does anyway.
    pub tick: Option<Width>,
    /// When answers and the ends of attempts are shown to people with a role.
    pub answers: Answers,
    /// How much may be lost.
    pub policy: PolicyFile,
    /// Who may do what.
    pub access: BTreeMap<Role, Vec<String>>,
    /// What a row is, in the order of the stored columns.
    pub columns: Vec<Column>,
}

/// When the results of queries and attempts are shown to people with a role on the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// As soon as they are computed.
    #[default]
    AtOnce,
    /// At the end of the disclosure interval in which they were computed, so that their timing reveals nothing finer.
    AtInterval,
}

impl StreamFile {
    /// Reads a stream from the text of its file.
    ///
    /// # Errors
    /// With the line, the field and what may stand there.
    pub fn parse(text: &str) -> Result<Self, StreamFileError> {
        read::stream(text)
    }

    /// The text in its one form: equal streams have equal texts, and parsing it gives the stream back.
    pub fn to_text(&self) -> String {
        write::stream(self)
    }

    /// The kernel's policy, as [`PolicyFile::kernel`].
    pub fn kernel_policy(&self) -> Option<Policy> {
        self.policy.kernel()
    }

    /// The kernel's split into lanes; nothing if a lane would stay empty, which no file that was read says.
    pub fn split(&self) -> Option<Split> {
        Split::new(self.test_share)
    }

    /// The columns of a row, as declared.
    pub fn row_schema(&self) -> Schema {
        let declared = self.columns.iter().map(|column| Field::new(&column.name, column.storage(), column.nullable));
        Schema::new(declared.collect::<Vec<Field>>())
    }

    /// The columns of a stored part: those declared, then the lane.
    pub fn schema(&self) -> SchemaRef {
        let lane = Arc::new(Field::new(LANE_COLUMN, DataType::Boolean, false));
        Arc::new(Schema::new(self.row_schema().fields().iter().cloned().chain([lane]).collect::<Vec<_>>()))
    }

    /// The column of that name, with its place.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, column)| column.name == name)
    }

    /// What the ceiling is a promise about, for pages and releases: in a stream of users the unit is a user's
    /// rows in one block, so that for a user's whole life the losses of the blocks add up.
    pub fn unit_text(&self) -> &'static str {
        match (&self.unit, self.blocks.user_range.is_some() && self.blocks.levels() == 1) {
            (Unit::Event, _) => "one row",
            (Unit::User { .. }, true) => "all rows of one user",
            (Unit::User { .. }, false) => "all rows of one user within one block",
        }
    }
}
