//! Stream files: the declaration of a stream.
//!
//! A [`StreamFile`] is plain data: the columns of the rows, the rule that partitions them into blocks, the roles of
//! principals, and the privacy ceilings. It is parsed from TOML, written back in a canonical form, and converted to
//! the kernel's [`Policy`] and [`Split`]. It must never depend on a row: everything in it is public and declared in
//! advance.

mod change;
mod codes;
mod column;
mod hash;
mod key;
mod members;
mod policy;
mod read;
mod width;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use sage_kernel::{Contribution, Epsilon, Policy, Rate, Split};

pub use change::{Change, ForbiddenChange};
pub use codes::{BlockEncoder, KeyColumns};
pub use column::{Column, Kind, Outside, UnknownCategory};
pub use hash::hash_text;
pub use key::{BlockRule, Cell, LATE_LEVEL, Levels, Span, format_time, late_key, parse_time};
pub use members::MemberRefusal;
pub use policy::{ContextLimit, Limit, Limits, PolicyFile};
pub use width::Width;

pub use crate::document::DocumentError as StreamFileError;

use crate::blocks::LANE_COLUMN;

/// The privacy unit: what one ceiling protects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A row.
    Event,
    /// All rows of a user within one block.
    User {
        /// The most rows of a user that count in a block, per query.
        contribution: u32,
    },
}

impl Unit {
    /// The most records of a unit that count in a block.
    pub fn contribution(&self) -> Contribution {
        match self {
            Self::Event => Contribution::ONE,
            Self::User { contribution } => Contribution::new(*contribution).unwrap_or(Contribution::ONE),
        }
    }
}

/// How rows are treated whose block is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateRows {
    /// They are quarantined and never read.
    Quarantine,
    /// They are stored in a late block: [`late_key`].
    LateBlock,
}

/// The census: private counts of the units in sealed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// The total cost for each lane of a block.
    pub epsilon: Epsilon,
    /// The number of blocks for which the running count is most accurate; one optimises the counts of single blocks.
    pub horizon: u32,
}

/// A role of a principal on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Sets policies.
    PrivacyOfficer,
    /// Ingests rows.
    DataEngineer,
    /// Runs pipelines and queries.
    MlEngineer,
    /// Reads the log.
    Auditor,
}

impl Role {
    /// All roles with their names in a file.
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

/// A stream as its file declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamFile {
    /// Its name, which is also the name of its folder.
    pub name: String,
    /// The privacy unit.
    pub unit: Unit,
    /// The column with the user of each row.
    pub user: Option<String>,
    /// The column with the time of each row.
    pub time: Option<String>,
    /// The rule that partitions rows into blocks.
    pub blocks: BlockRule,
    /// How rows of sealed blocks are treated.
    pub late: LateRows,
    /// The probability that a row, or a user, is in the test lane.
    pub test_share: Rate,
    /// The census, if units are counted.
    pub census: Option<Census>,
    /// How long rows are kept after their block is sealed.
    pub retention: Option<Width>,
    /// The disclosure interval for users without a role on the stream, if it is longer than the server's.
    pub disclosure_interval: Option<Width>,
    /// When results are shown to users with a role on the stream.
    pub answers: Disclosure,
    /// The privacy ceilings.
    pub policy: PolicyFile,
    /// The principals of each role.
    pub access: BTreeMap<Role, Vec<String>>,
    /// The columns of a row, in their stored order.
    pub columns: Vec<Column>,
}

/// When the results of queries and attempts are shown to users with a role on the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disclosure {
    /// As soon as they are computed.
    #[default]
    AtOnce,
    /// At the end of the disclosure interval in which they were computed, so that their timing reveals nothing finer.
    AtInterval,
}

impl StreamFile {
    /// Parses the text of a stream's file.
    ///
    /// # Errors
    /// With the line, the key and the values it may have.
    pub fn parse(text: &str) -> Result<Self, StreamFileError> {
        read::read_stream(text)
    }

    /// The canonical text: equal streams have equal texts, and parsing the text gives the stream back.
    pub fn to_text(&self) -> String {
        write::write_stream(self)
    }

    /// The kernel's policy; see [`PolicyFile::kernel`].
    pub fn kernel_policy(&self) -> Option<Policy> {
        self.policy.kernel()
    }

    /// The kernel's split into lanes. `None` if one lane would always be empty, which [`StreamFile::parse`] rules out.
    pub fn split(&self) -> Option<Split> {
        Split::new(self.test_share)
    }

    /// The declared columns of a row as an Arrow schema.
    pub fn row_schema(&self) -> Schema {
        let declared = self.columns.iter().map(|column| Field::new(&column.name, column.storage(), column.nullable));
        Schema::new(declared.collect::<Vec<Field>>())
    }

    /// The Arrow schema of a stored part: the declared columns, then the lane.
    pub fn schema(&self) -> SchemaRef {
        let lane = Arc::new(Field::new(LANE_COLUMN, DataType::Boolean, false));
        Arc::new(Schema::new(self.row_schema().fields().iter().cloned().chain([lane]).collect::<Vec<_>>()))
    }

    /// The column with this name, and its index.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, column)| column.name == name)
    }

    /// The unit that the ceiling protects, in words, for pages and releases. In a stream of users it is a user's rows
    /// in one block; over several blocks the losses of a user add up.
    pub fn unit_text(&self) -> &'static str {
        match (&self.unit, self.blocks.user_range.is_some() && self.blocks.levels() == 1) {
            (Unit::Event, _) => "one row",
            (Unit::User { .. }, true) => "all rows of one user",
            (Unit::User { .. }, false) => "all rows of one user within one block",
        }
    }
}
