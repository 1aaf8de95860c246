//! Why nothing was read. A message names a block and a file, never what is in them.

/// A step of reading failed in a way that could depend on a row, so nothing more is said about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failed;

/// Why nothing was read. What was charged stays charged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The log has no such stream.
    UnknownStream {
        /// The stream.
        stream: String,
    },
    /// A part was offered for a block to which it does not belong.
    ForeignPart {
        /// The block it says it is of.
        block: String,
        /// Its file.
        file: String,
    },
    /// A part was offered twice.
    Repeated {
        /// The block.
        block: String,
        /// The file.
        file: String,
    },
    /// The permit is for another stream.
    OtherStream,
    /// The user column is not in the schema.
    UnknownUser {
        /// Its name.
        column: String,
    },
    /// A file is not there.
    Missing {
        /// The block.
        block: String,
        /// The file.
        file: String,
    },
    /// A file is there and cannot be read.
    Unreadable {
        /// The block.
        block: String,
        /// The file.
        file: String,
    },
    /// A file is not the one the log names.
    Changed {
        /// The block.
        block: String,
        /// The file.
        file: String,
    },
    /// A file was written as it is, and is not a part.
    Malformed {
        /// The block.
        block: String,
        /// The file.
        file: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// It failed, and what failed could depend on a row: there is nothing more to say.
    Failed,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownStream { stream } => {
                write!(to, "the log has no stream \"{stream}\"; check the name")
            }
            Self::ForeignPart { block, file } => {
                write!(to, "{block}/{file} was offered for a block with another key; nothing was read")
            }
            Self::Repeated { block, file } => {
                write!(to, "{block}/{file} was offered twice, and would count twice; nothing was read")
            }
            Self::OtherStream => write!(to, "the permit is for another stream; ask for a grant on this one"),
            Self::UnknownUser { column } => {
                write!(to, "the stream has no column \"{column}\" to tell users apart; name one of its schema")
            }
            Self::Missing { block, file } => {
                write!(to, "{block}/{file} is not in the block store; restore it from a backup, then ask again")
            }
            Self::Unreadable { block, file } => {
                write!(to, "{block}/{file} cannot be read; check the block store's rights and connection")
            }
            Self::Changed { block, file } => {
                write!(to, "{block}/{file} is not the file that the log names; restore it from a backup")
            }
            Self::Malformed { block, file, rule } => {
                write!(to, "{block}/{file} is not a part of this stream: {rule}; run sage doctor")
            }
            Self::Failed => {
                write!(to, "it ended without a result; if this repeats, report it as a defect of the program")
            }
        }
    }
}

impl std::error::Error for ReadError {}

impl From<Failed> for ReadError {
    fn from(_: Failed) -> Self {
        Self::Failed
    }
}
