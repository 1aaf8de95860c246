//! Ingest errors. After each of them, nothing of the batch is stored.
//!
//! The messages name files, columns, types and lines. They must never contain a value or a number of rows, so the
//! messages of decoders are not passed on.

use sage_kernel::noise::NoiseError;

use crate::blocks::StoreError;

/// Why a batch was not ingested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The id of the batch is invalid.
    #[error("the batch id must have 1 to 256 bytes and no control characters{NOTHING_KEPT}")]
    BatchId,
    /// A file or folder cannot be opened or read.
    #[error("`{file}` cannot be read: {reason}{NOTHING_KEPT}")]
    Unreadable {
        /// The file or folder.
        file: String,
        /// The message of the operating system.
        reason: String,
    },
    /// The source is empty.
    #[error("`{file}` contains no rows to ingest; give a file with rows, or a folder with such files{NOTHING_KEPT}")]
    Empty {
        /// The file or folder.
        file: String,
    },
    /// The format of a file is not recognised.
    #[error(
        "the format of `{file}` is not supported; give Parquet, CSV with a header, NDJSON or Arrow IPC, not compressed \
         as a whole{NOTHING_KEPT}"
    )]
    Format {
        /// The file.
        file: String,
    },
    /// A pipe with Parquet, which must be spooled to a file, exceeds the size limit.
    #[error(
        "Parquet is read from its end, and `{file}` sent more than {gibibytes} GiB; save it to a file first, or send \
         Arrow, CSV or NDJSON{NOTHING_KEPT}"
    )]
    NeedsFile {
        /// The name of the pipe.
        file: String,
        /// The limit in GiB.
        gibibytes: u64,
    },
    /// The contents of a file violate its format.
    #[error("`{file}`{}: {reason}{NOTHING_KEPT}", .line.map_or_else(String::new, |line| format!(", line {line}")))]
    Malformed {
        /// The file.
        file: String,
        /// The line, counted from one, in text formats.
        line: Option<u64>,
        /// What is wrong.
        reason: &'static str,
    },
    /// A file lacks columns of the stream.
    #[error(
        "`{file}` lacks columns of the stream: {}; names must match exactly{NOTHING_KEPT}", .columns.join(", ")
    )]
    Missing {
        /// The file.
        file: String,
        /// The missing columns.
        columns: Vec<String>,
    },
    /// The type of a column cannot be converted to the declared one.
    #[error("`{file}`: column `{column}` has type {found}; it must be {allowed}{NOTHING_KEPT}")]
    Type {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// Its type in the file.
        found: String,
        /// A description of the types it may have.
        allowed: &'static str,
    },
    /// The rows belong to too many blocks, so the block rule or the bounds are wrong.
    #[error(
        "the rows fall into more than a million blocks; make blocks larger, or give the time column `min` and \
         `max`{NOTHING_KEPT}"
    )]
    Blocks,
    /// The store failed.
    #[error("{0}{NOTHING_KEPT}")]
    Store(#[from] StoreError),
    /// The operating system provides no randomness for the assignment to lanes.
    #[error("the lanes cannot be drawn: {0}{NOTHING_KEPT}")]
    Noise(#[from] NoiseError),
    /// The stream's declaration is inconsistent. It was not read from a file.
    #[error("the declaration of the stream is inconsistent; read it from its file{NOTHING_KEPT}")]
    Stream,
    /// A part could not be encoded. This is a bug, since rows are checked before.
    #[error("a part could not be encoded; this is a bug in Sage, please report it{NOTHING_KEPT}")]
    Encoding,
}

/// The end of every message.
const NOTHING_KEPT: &str = " (nothing of the batch was kept)";
