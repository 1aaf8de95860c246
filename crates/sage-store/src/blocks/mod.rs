//! Blocks on disk: hive-partitioned Parquet files that are written once.
//!
//! The rows of a block are the rows of its parts, and a file is a part only if an event of the log lists it. A part
//! has the columns of the stream's schema and then [`LANE_COLUMN`]. Each row group has rows of one lane: first the
//! groups of the train lane, then those of the test lane. The contents of a part must reach a pipeline only through
//! [`sage_kernel::Permit::open`].

mod keys;
mod store;
mod summary_cache;

pub use keys::{BlockKeys, KeyError, MasterKeySource};
pub use keys::{FOLDER as KEYS_FOLDER, is_encrypted};
pub use store::{BlockStore, StoreError};
pub use summary_cache::SummaryCache;
pub use summary_cache::{SummaryId, parts_digest};

/// The last column of a part: true for rows of the test lane.
pub const LANE_COLUMN: &str = "_lane";

/// A file with rows of one block, as the log records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The block's public key, which is also its folder below the stream's: `hour=2026-11-01T08`, or several such
    /// levels.
    pub block: String,
    /// The file's name in that folder.
    pub file: String,
    /// The BLAKE3 hash of the stored bytes. A file with another hash is not read.
    pub digest: [u8; 32],
}

impl Part {
    /// The path below the root of the block store.
    pub fn path(&self, stream: &str) -> String {
        format!("{stream}/{}/{}", self.block, self.file)
    }

    /// The owner of its data key, if parts are encrypted: its block or, for quarantined rows, the file itself.
    pub fn key_owner(&self, stream: &str) -> String {
        match self.block == crate::ingest::QUARANTINE {
            true => self.path(stream),
            false => format!("{stream}/{}", self.block),
        }
    }
}
