//! A directory of Sage: opened for a command or a server, with the reasons why that can fail.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use sage_engine::log::OpenError;
use sage_engine::{Engine, EngineError, EngineOptions, Opened};

/// How long a command waits for a directory that another process has open.
const PATIENCE: Duration = Duration::from_secs(3);

/// A directory and the options that it is opened with.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The directory with the log.
    pub path: PathBuf,
    /// Where its parts are and what the operator allows.
    pub options: EngineOptions,
}

/// Why a directory was not opened.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The path holds no log.
    #[error(
        "{} is no directory of sage; name it with --dir, or make it by creating a stream: sage stream create FILE",
        .0.display()
    )]
    Missing(PathBuf),
    /// The directory comes from a backup, and no officer has acknowledged the loss of what was spent since.
    #[error(
        "the directory was restored from a backup, whose log ends at event {events}, and what was spent since is \
         forgotten; nothing is granted"
    )]
    Restored {
        /// Events in the log.
        events: u64,
    },
    /// The log is shorter than an exported head says.
    #[error(
        "the log ends at event {events} and an exported head shows that it had gone to event {known}: the directory was \
         put back from a copy, and what was spent since is forgotten; nothing is granted"
    )]
    RolledBackGate {
        /// Events in the log.
        events: u64,
        /// Events when the head was exported.
        known: u64,
    },
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl DirectoryError {
    /// What the user can do, where the message does not say it.
    #[must_use]
    pub const fn help(&self) -> Option<&'static str> {
        match self {
            Self::Restored { .. } => Some(
                "let an officer say that the original is out of service: sage restore --acknowledge --nothing-since --as \
                 NAME",
            ),
            Self::RolledBackGate { .. } => {
                Some("put the newest log back, or let an officer answer for it: sage doctor --acknowledge --as NAME")
            }
            Self::Missing(_) | Self::Engine(_) => None,
        }
    }
}

impl Directory {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// When it does not exist, is in use for too long, was rolled back, or cannot be read.
    pub fn open(&self) -> Result<Engine, DirectoryError> {
        self.check_exists()?;
        self.open_or_create()
    }

    /// Opens an existing directory; `None` while another process has it open.
    ///
    /// # Errors
    /// As [`Directory::open`].
    pub fn open_if_free(&self) -> Result<Option<Engine>, DirectoryError> {
        self.check_exists()?;
        match Engine::open(&self.path, &self.options) {
            Err(EngineError::Open(OpenError::InUse(_))) => Ok(None),
            opened => ready(opened?).map(Some),
        }
    }

    /// Refuses a path without a log.
    ///
    /// # Errors
    /// When there is no log.
    pub fn check_exists(&self) -> Result<(), DirectoryError> {
        if self.path.join("log.db").exists() { Ok(()) } else { Err(DirectoryError::Missing(self.path.clone())) }
    }

    /// Opens the directory and creates it if it is new. Waits a moment for a process that has it open.
    ///
    /// # Errors
    /// As [`Directory::open`].
    pub fn open_or_create(&self) -> Result<Engine, DirectoryError> {
        let start = Instant::now();
        loop {
            match Engine::open(&self.path, &self.options) {
                Err(EngineError::Open(OpenError::InUse(_))) if start.elapsed() < PATIENCE => {
                    sleep(Duration::from_millis(50));
                }
                opened => return ready(opened?),
            }
        }
    }

    /// Whether the path does not exist or is an empty directory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self.path.read_dir() {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }
}

fn ready(opened: Opened) -> Result<Engine, DirectoryError> {
    match opened {
        Opened::Ready(engine) => Ok(*engine),
        Opened::Fenced(log) => {
            let (present, known) = log.heads();
            let events = present.length;
            Err(match log.is_restored() {
                true => DirectoryError::Restored { events },
                false => {
                    DirectoryError::RolledBackGate { events, known: known.map_or(events, |known| known.head.length) }
                }
            })
        }
    }
}
