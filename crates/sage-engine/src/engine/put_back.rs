//! A directory that grants nothing until an officer has answered for it: put back from an old copy, or restored.
//!
//! An older ledger forgets what was spent after it was copied. Exported heads show that a directory was put back; a
//! directory that `sage restore` has made says so itself, by a file that lies in it from before its log does. That
//! file is the fence: it goes when the officer's answer is an event of the log, and not before.

use std::fs;
use std::path::{Path, PathBuf};

use sage_kernel::Head;

use super::checkpoint::History;
use super::{Engine, EngineError, Places, Principal, Store, now};
use crate::blocks::BlockStore;
use crate::log::{Directory, ExportedHead, RolledBackGate, SinceBackup, SoundGate, durable};
use crate::stream::Role;

/// A directory whose log may be older than what was granted on it.
pub struct PutBack {
    pub(super) directory: Directory,
    pub(super) blocks: BlockStore,
    pub(super) log: Doubted,
    pub(super) history: History,
    pub(super) places: Places,
}

/// What speaks against the log.
pub(super) enum Doubted {
    /// An exported head that it does not hold.
    RolledBack(RolledBackGate<Store>),
    /// A fence, and nothing else.
    Restored(SoundGate<Store>),
}

impl PutBack {
    /// Where the log ends, and the newest head that was exported from it and is not in it; nothing where the directory
    /// was restored and no such head is known.
    pub const fn heads(&self) -> (Head, Option<ExportedHead>) {
        match &self.log {
            Doubted::RolledBack(log) => (log.head(), Some(log.known())),
            Doubted::Restored(log) => (log.head(), None),
        }
    }

    /// Whether the directory was made from a backup.
    pub fn is_restored(&self) -> bool {
        fence(self.directory.path()).exists()
    }

    /// Goes on with a log that was put back, with the officer's name in it.
    ///
    /// # Errors
    /// When the principal is no officer, the directory was restored, or the log cannot be written.
    pub fn acknowledge(self, officer: &Principal) -> Result<Engine, EngineError> {
        if self.is_restored() {
            return Err(EngineError::Fenced);
        }
        self.is_officer(officer)?;
        let Doubted::RolledBack(log) = self.log else { return Err(EngineError::Fenced) };
        let sound = log.acknowledge(now(), officer.name())?;
        Engine::ready(self.directory, self.blocks, sound, self.history, self.places)
    }

    /// Goes on with a restored directory: the officer says that the original is out of service, and what it granted
    /// since the backup. Where that is not known, every block is retired.
    ///
    /// # Errors
    /// When the principal is no officer, or the log cannot be written. Nothing is granted then.
    pub fn acknowledge_restore(self, officer: &Principal, since: SinceBackup) -> Result<Engine, EngineError> {
        self.is_officer(officer)?;
        let mut sound = match self.log {
            Doubted::RolledBack(log) => log.acknowledge(now(), officer.name())?,
            Doubted::Restored(log) => log,
        };
        sound.acknowledge_restore(now(), officer.name(), since)?;
        let fence = fence(self.directory.path());
        let failed = |error| EngineError::File(fence.display().to_string(), error);
        match fs::remove_file(&fence) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => durable::sync_directory(self.directory.path()).map_err(failed)?,
        }
        Engine::ready(self.directory, self.blocks, sound, self.history, self.places)
    }

    /// Refuses who is the officer of no stream, where there are streams.
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

/// The file that says that a directory was restored and grants nothing yet.
pub(crate) fn fence(directory: &Path) -> PathBuf {
    directory.join("fence")
}
