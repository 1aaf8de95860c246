//! Every way a command can fail, and the message and exit code of each.
//!
//! A message names the flag and the field, what was given and what is allowed, and ends with a command or flag that
//! works. User input is escaped and shortened.

use std::io;

use sage_engine::EngineError;
use sage_engine::backup::BackupError;
use sage_engine::plan::PlanRefusal;
use sage_engine::stream::MemberRefusal;
use sage_server::ServeError;
use sage_server::diagnostics::note;
use sage_server::directory::DirectoryError;
use sage_server::views::requests::QueryRequestError;

/// Why a command did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line is invalid.
    #[error("{message}")]
    Usage { message: String, help: String },
    /// The command is valid and cannot be done.
    #[error("{message}")]
    NoAnswer { message: String, help: String },
    /// The engine or a server refused; the message says what to do.
    #[error("{message}")]
    Engine { message: String, code: u8 },
    /// The run did not succeed; this is a result and not an error.
    #[error("{message}")]
    Ended { message: String, code: u8 },
    /// Standard output was closed by its reader; this is not an error.
    #[error("the reader of standard output is gone")]
    ReaderGone,
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), help: help.into() }
    }

    pub(crate) fn no_answer(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::NoAnswer { message: message.into(), help: help.into() }
    }

    pub(crate) const fn ended(message: String, code: u8) -> Self {
        Self::Ended { message, code }
    }

    /// The same failure with another help text.
    pub(crate) fn helped(self, help: &str) -> Self {
        match self {
            Self::Usage { message, .. } => Self::usage(message, help),
            other => other,
        }
    }

    /// The code the program ends with: `sage help exit-codes`.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::ReaderGone => 0,
            Self::NoAnswer { .. } | Self::Output(_) => 1,
            Self::Usage { .. } => 2,
            Self::Engine { code, .. } | Self::Ended { code, .. } => *code,
        }
    }

    /// Writes to standard error what happened and what to do.
    pub(crate) fn report(&self) {
        let text = match self {
            Self::ReaderGone => return,
            Self::Output(error) => format!("error: cannot write to standard output: {error}\n"),
            Self::Ended { message, .. } => format!("{message}\n"),
            Self::Engine { message, .. } => format!("error: {message}\n"),
            Self::Usage { message, help } | Self::NoAnswer { message, help } => {
                format!("error: {message}\n  help  {help}\n")
            }
        };
        note(text.trim_end());
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::ReaderGone } else { Self::Output(error) }
    }
}

impl From<DirectoryError> for Failure {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Engine(error) => error.into(),
            DirectoryError::Missing(_) => Self::Engine { message: error.to_string(), code: 14 },
            other => Self::no_answer(other.to_string(), other.help().unwrap_or("sage doctor")),
        }
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Directory(error) => error.into(),
            ServeError::Engine(error) => error.into(),
            ServeError::Output(error) => error.into(),
            other => Self::no_answer(other.to_string(), other.help().unwrap_or("sage serve --help")),
        }
    }
}

impl From<QueryRequestError> for Failure {
    fn from(error: QueryRequestError) -> Self {
        use QueryRequestError as E;
        let help = match error {
            E::NoCost => "add --epsilon 0.05, or --error 100 for the least cost with this half-width",
            E::Epsilon { .. } => "--epsilon 0.05",
            E::Error => "--error 100",
            _ => "add --last 24, --since 2026-11-01, --block KEY or --all",
        };
        let flag = if matches!(error, E::Epsilon { .. } | E::Error) { "--" } else { "" };
        Self::usage(format!("{flag}{error}"), help)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let code = match &error {
            EngineError::Refused(_) => 12,
            EngineError::NotInRole { .. } | EngineError::Suspended { .. } | EngineError::AttestedNotAllowed(_) => 13,
            EngineError::Backup(BackupError::NotEmpty(_)) => 2,
            EngineError::Backup(BackupError::NoBackup(_)) => 14,
            EngineError::NoStream(_) | EngineError::NoBlock(_) | EngineError::NoQuarantine(_) => 14,
            EngineError::Members(refusal) => match refusal {
                MemberRefusal::UnknownContext(_) => 14,
                MemberRefusal::Ambiguous { .. } => 2,
                MemberRefusal::NotMember { .. } => 13,
                _ => 1,
            },
            EngineError::NoRun(_) | EngineError::NoRelease(_) | EngineError::Withdrawn(..) => 14,
            EngineError::ChargedButFailed { .. } => 15,
            EngineError::Alias(_) | EngineError::OtherQuestion(_) => 2,
            EngineError::Plan(PlanRefusal::Part { part, .. }) if part == "budget" => 12,
            _ => 1,
        };
        Self::Engine { message: error.to_string(), code }
    }
}
