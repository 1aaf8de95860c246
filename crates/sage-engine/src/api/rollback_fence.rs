//! The rollback fence: a directory that was rolled back or restored grants nothing until an officer acknowledges it.
//!
//! An older copy of the ledger lacks everything that was spent after it was made. A rollback is detected by exported
//! heads; a directory made by `sage restore` contains a file, the fence, from before its log exists. The fence is
//! removed after the officer's acknowledgement is an event of the log, and not before.

use std::fs;
use std::path::{Path, PathBuf};

use sage_kernel::Head;

use crate::api::checkpoint::History;
use crate::api::{Engine, EngineError, EngineOptions, Principal, Store, now};
use crate::blocks::BlockStore;
use crate::log::{Directory, ExportedHead, RolledBackGate, SinceBackup, SoundGate, durable};
use crate::stream::Role;

/// A directory whose log may lack recent charges.
pub struct RollbackFence {
    pub(crate) directory: Directory,
    pub(crate) blocks: BlockStore,
    pub(crate) log: Doubted,
    pub(crate) history: History,
    pub(crate) options: EngineOptions,
}

/// The reason for the fence.
pub(crate) enum Doubted {
    /// An exported head is missing from the log.
    RolledBackGate(RolledBackGate<Store>),
    /// The directory was restored from a backup.
    Restored(SoundGate<Store>),
}

impl RollbackFence {
    /// The head of the log, and the newest exported head that is missing from it; `None` if the directory was restored
    /// and no such head is known.
    pub const fn heads(&self) -> (Head, Option<ExportedHead>) {
        match &self.log {
            Doubted::RolledBackGate(log) => (log.head(), Some(log.known())),
            Doubted::Restored(log) => (log.head(), None),
        }
    }

    /// Whether the directory was restored from a backup.
    pub fn is_restored(&self) -> bool {
        fence(self.directory.path()).exists()
    }

    /// Opens a directory that was rolled back, and records the officer's acknowledgement.
    ///
    /// # Errors
    /// When the principal is not an officer, the directory was restored from a backup, or the log cannot be written.
    pub fn acknowledge(self, officer: &Principal) -> Result<Engine, EngineError> {
        if self.is_restored() {
            return Err(EngineError::Fenced);
        }
        self.is_officer(officer)?;
        let Doubted::RolledBackGate(log) = self.log else { return Err(EngineError::Fenced) };
        let sound = log.acknowledge(now(), officer.name())?;
        Engine::ready(self.directory, self.blocks, sound, self.history, self.options)
    }

    /// Opens a restored directory. The officer confirms that the original is out of service, and states what it granted
    /// since the backup. If that is not known, every block is retired.
    ///
    /// # Errors
    /// When the principal is not an officer, or the log cannot be written. Nothing is granted then.
    pub fn acknowledge_restore(self, officer: &Principal, since: SinceBackup) -> Result<Engine, EngineError> {
        self.is_officer(officer)?;
        let mut sound = match self.log {
            Doubted::RolledBackGate(log) => log.acknowledge(now(), officer.name())?,
            Doubted::Restored(log) => log,
        };
        sound.acknowledge_restore(now(), officer.name(), since)?;
        let fence = fence(self.directory.path());
        let failed = |error| EngineError::File(fence.display().to_string(), error);
        match fs::remove_file(&fence) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => durable::sync_directory(self.directory.path()).map_err(failed)?,
        }
        Engine::ready(self.directory, self.blocks, sound, self.history, self.options)
    }

    /// Refuses a principal who is not an officer of any stream, if there are streams.
    fn is_officer(&self, who: &Principal) -> Result<(), EngineError> {
        let catalog = self.history.fold(|_, _| {})?;
        let officers = |name: &str| {
            let officers = catalog.stream(name).and_then(|known| known.file.access.get(&Role::PrivacyOfficer));
            officers.is_some_and(|names| names.iter().any(|name| name == who.name()))
        };
        let streams: Vec<&str> = catalog.streams().map(|(name, _)| name).collect();
        match streams.first() {
            Some(stream) if !streams.iter().any(|name| officers(name)) => Err(EngineError::NotInRole {
                principal: who.name().to_owned(),
                role: Role::PrivacyOfficer,
                stream: (*stream).to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// The path of the fence file.
pub(crate) fn fence(directory: &Path) -> PathBuf {
    directory.join("fence")
}
