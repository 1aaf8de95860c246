//! Errors of reading. A message names a block and a file, never their contents.

/// A failure that could depend on a row, so it carries no details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpaqueFailure;

/// Why nothing was read. The charge stays charged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The log has no such stream.
    #[error("the log has no stream \"{stream}\"; check the name")]
    UnknownStream {
        /// The stream.
        stream: String,
    },
    /// A part was passed for a block that it does not belong to.
    #[error("{block}/{file} does not belong to this block; nothing was read")]
    ForeignPart {
        /// The block that the part names.
        block: String,
        /// Its file.
        file: String,
    },
    /// A part was passed twice.
    #[error("{block}/{file} was passed twice; nothing was read")]
    Repeated {
        /// The block.
        block: String,
        /// The file.
        file: String,
    },
    /// The permit is for another stream.
    #[error("the permit is for another stream; request a grant on this one")]
    OtherStream,
    /// The user column is not in the schema.
    #[error("the stream has no column \"{column}\" to identify users; choose a column of its schema")]
    UnknownUser {
        /// Its name.
        column: String,
    },
    /// A file is missing from the store.
    #[error("{block}/{file} is not in the block store; restore it from a backup, then try again")]
    Missing {
        /// The block.
        block: String,
        /// The file.
        file: String,
    },
    /// A file exists and cannot be read.
    #[error("{block}/{file} cannot be read; check the permissions of the block store and the connection to it")]
    Unreadable {
        /// The block.
        block: String,
        /// The file.
        file: String,
    },
    /// A file differs from the one that the log names.
    #[error("{block}/{file} is not the file that the log names; restore it from a backup")]
    Changed {
        /// The block.
        block: String,
        /// The file.
        file: String,
    },
    /// A file has the recorded digest and is not a valid part.
    #[error("{block}/{file} is not a part of this stream: {rule}; run sage doctor")]
    Malformed {
        /// The block.
        block: String,
        /// The file.
        file: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// A failure that could depend on a row, without details.
    #[error("it ended without a result; if this happens again, report a bug")]
    Failed,
}

impl From<OpaqueFailure> for ReadError {
    fn from(_: OpaqueFailure) -> Self {
        Self::Failed
    }
}
