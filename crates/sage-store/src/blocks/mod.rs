//! Blocks on disk: hive-partitioned Parquet, written once.
//!
//! A block's rows are the rows of its parts, and a file is a part of a block only if an event of the log
//! names it. A part has the columns of the stream's schema and then [`LANE_COLUMN`]. Its row groups are
//! pure: first those of the train lane, then those of the test lane. What is in a part must never reach a
//! pipeline but through [`sage_kernel::Permit::open`].

mod kept;
mod keys;
mod store;

pub use kept::{KeptSums, Place, parts_digest};
pub use keys::{BlockKeys, FOLDER as KEYS_FOLDER, KeyError, MasterKeySource, is_encrypted};
pub use store::{BlockStore, StoreError};

/// The column that holds each row's coin: true for the test lane. It is the last one of a part.
pub const LANE_COLUMN: &str = "_lane";

/// A file of rows of one block, as the log names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The block's public key, which is also its folder below the stream's: `hour=2026-11-01T08`, or several
    /// such levels for a combined rule.
    pub block: String,
    /// The file's name within that folder.
    pub file: String,
    /// BLAKE3 of its bytes. A file with any other is not this part, and is not read.
    pub digest: [u8; 32],
}

impl Part {
    /// Where it lies below the root of the block store.
    pub fn path(&self, stream: &str) -> String {
        format!("{stream}/{}/{}", self.block, self.file)
    }

    /// What its key belongs to, where parts are encrypted: its block or, for quarantined rows, itself.
    pub fn key_owner(&self, stream: &str) -> String {
        match self.block == crate::ingest::QUARANTINE {
            true => self.path(stream),
            false => format!("{stream}/{}", self.block),
        }
    }
}
