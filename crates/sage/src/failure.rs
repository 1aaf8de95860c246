//! Every way a command can end badly, and what the user is told then.
//!
//! A message names the flag and the field, what was given and what is allowed, and ends with a command or
//! flag that works. What the user typed is shown escaped and shortened, never as it came.

use std::io;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line asks for something that cannot be meant.
    Usage { message: String, help: String },
    /// The question is clear and has no answer.
    NoAnswer { message: String, help: String },
    /// The engine said no; its message says what to do.
    Engine { message: String, code: u8 },
    /// What was waited for ended otherwise than with success, and that is no error.
    Ended { message: String, code: u8 },
    /// Standard output was closed by its reader: nothing is wrong.
    ReaderGone,
    /// Standard output cannot be written.
    Output(io::Error),
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

    /// The same with another way out.
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

    /// Says on standard error what happened and what to do.
    pub(crate) fn tell(&self) {
        let text = match self {
            Self::ReaderGone => return,
            Self::Output(error) => format!("error: cannot write to standard output: {error}\n"),
            Self::Ended { message, .. } => format!("{message}\n"),
            Self::Engine { message, .. } => format!("error: {message}\n"),
            Self::Usage { message, help } | Self::NoAnswer { message, help } => {
                format!("error: {message}\n  help  {help}\n")
            }
        };
        crate::output::tell(text.trim_end());
    }

    /// What happened, without what to do.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::ReaderGone => "the reader of standard output is gone".to_owned(),
            Self::Output(error) => error.to_string(),
            Self::Ended { message, .. } | Self::Engine { message, .. } => message.clone(),
            Self::Usage { message, .. } | Self::NoAnswer { message, .. } => message.clone(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::ReaderGone } else { Self::Output(error) }
    }
}

/// What the user typed, quoted, with anything a terminal might act on escaped, and not too long.
pub(crate) fn quoted(text: &str) -> String {
    const MOST: usize = 40;
    let short: String = text.chars().take(MOST).collect();
    let more = if text.chars().nth(MOST).is_some() { "..." } else { "" };
    format!("{short:?}{more}")
}
