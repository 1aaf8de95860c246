//! Why a batch was not taken in. Whatever is said here, nothing of the batch was kept.
//!
//! The texts name files, columns, types and lines. They must never hold a value or say how many rows there are,
//! so what a decoder has to say about the bytes it met is not passed on.

use std::fmt;

use sage_kernel::noise::NoiseError;

use crate::blocks::StoreError;

/// Why a batch was not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IngestError {
    /// The batch's own id cannot be used.
    BatchId,
    /// A file or folder cannot be opened or read.
    Unreadable {
        /// Which.
        file: String,
        /// What the system says.
        reason: String,
    },
    /// There is nothing to take in.
    Empty {
        /// The file or folder.
        file: String,
    },
    /// It is of no known format.
    Format {
        /// Which file.
        file: String,
    },
    /// More came through a pipe than is taken up to be read from its end.
    NeedsFile {
        /// Which source.
        file: String,
        /// How much is.
        gibibytes: u64,
    },
    /// The bytes are not what the format says.
    Malformed {
        /// Which file.
        file: String,
        /// The line, from one, in formats that have lines.
        line: Option<u64>,
        /// What is wrong with them.
        reason: &'static str,
    },
    /// Columns of the stream are not there.
    Missing {
        /// Which file.
        file: String,
        /// The columns.
        columns: Vec<String>,
    },
    /// A column has a type that cannot become the declared one.
    Type {
        /// Which file.
        file: String,
        /// The column.
        column: String,
        /// The type it has.
        found: String,
        /// The types it may have.
        allowed: &'static str,
    },
    /// The rows fall into so many blocks that something is wrong with rule or bounds.
    Blocks,
    /// The store failed.
    Store(StoreError),
    /// There is no randomness for the lanes.
    Noise(NoiseError),
    /// The stream's description was not made by reading a file, and contradicts itself.
    Stream,
    /// A part could not be encoded: a bug, since rows are checked before.
    Encoding,
}

impl fmt::Display for IngestError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BatchId => write!(out, "the batch id must have 1 to 256 bytes and no control characters"),
            Self::Unreadable { file, reason } => write!(out, "`{file}` cannot be read: {reason}"),
            Self::Empty { file } => {
                write!(out, "`{file}` holds nothing to take in; give a file with rows, or a folder with such files")
            }
            Self::Format { file } => write!(
                out,
                "`{file}` is of no known format; give Parquet, CSV with a header, NDJSON or Arrow IPC, not compressed as a whole"
            ),
            Self::NeedsFile { file, gibibytes } => write!(
                out,
                "Parquet is read from its end, and more than {gibibytes} GiB came through `{file}`; save it to a file first, or send Arrow, CSV or NDJSON"
            ),
            Self::Malformed { file, line: Some(line), reason } => write!(out, "`{file}`, line {line}: {reason}"),
            Self::Malformed { file, line: None, reason } => write!(out, "`{file}`: {reason}"),
            Self::Missing { file, columns } => {
                write!(
                    out,
                    "`{file}` lacks columns of the stream: {}; names must be the same to the letter",
                    columns.join(", ")
                )
            }
            Self::Type { file, column, found, allowed } => {
                write!(out, "`{file}`: column `{column}` has type {found}; it must be {allowed}")
            }
            Self::Blocks => write!(
                out,
                "the rows fall into more than a million blocks; make blocks larger, or give the time column `min` and `max`"
            ),
            Self::Store(error) => write!(out, "{error}"),
            Self::Noise(error) => write!(out, "the lanes cannot be drawn: {error}"),
            Self::Stream => write!(out, "the stream contradicts itself; read it from its file"),
            Self::Encoding => write!(out, "a part could not be encoded; this is a bug of Sage, please report it"),
        }?;
        write!(out, " (nothing of the batch was kept)")
    }
}

impl std::error::Error for IngestError {}

impl From<StoreError> for IngestError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<NoiseError> for IngestError {
    fn from(error: NoiseError) -> Self {
        Self::Noise(error)
    }
}
