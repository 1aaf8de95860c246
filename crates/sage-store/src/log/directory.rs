//! The directory of an engine and its exclusive lock.
//!
//! The process that holds the lock on the file `lock` owns the directory. The operating system releases the lock when
//! the process ends, however it ends. The file also records that the log was created: a directory whose log is missing
//! must never be taken for a new one, because every budget would be full again.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sage_kernel::{Gate, GateError};

use super::durable;
use super::store::{self, BoxedLog, StoreKind};
use crate::private;

/// The contents of the lock file once there is a log.
const LOG_CREATED: &[u8] =
    b"The log of this directory is log.db. Whoever holds the lock on this file owns the directory.\n";

/// Why a directory or its log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process owns the directory.
    #[error(
        "{} is in use by another process; stop that process, or send it requests instead of opening the directory",
        .0.display()
    )]
    InUse(PathBuf),
    /// The directory had a log, and it is missing.
    #[error(
        "the log of {} is missing; a new one would grant every budget again, so restore log.db from a backup",
        .0.display()
    )]
    LogMissing(PathBuf),
    /// The file is not a log of Sage.
    #[error("{} is not a log of Sage; put the right file there, or choose another directory", .0.display())]
    Foreign(PathBuf),
    /// The log has a format that this release does not support.
    #[error(
        "the log has format {found} and this release {}",
        if found > known {
            format!("supports up to {known}; use the release that wrote it")
        } else {
            format!("needs {known}; open it once with a release between them")
        }
    )]
    Format {
        /// The format of the file.
        found: i32,
        /// The format of this release.
        known: i32,
    },
    /// SQLite did not accept a setting that durability depends on.
    #[error(
        "SQLite has {name} = {found}, but {wanted} is needed for a charge to be durable; move the directory to a \
         local file system"
    )]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// Its value.
        found: String,
        /// The required value.
        wanted: &'static str,
    },
    /// The stored head and the last record disagree about the end of the log.
    #[error(
        "{} is damaged: its last record is not the one its head names; nothing is granted on it, restore it from a \
         backup",
        .0.display()
    )]
    Damaged(PathBuf),
    /// The log is not a valid hash chain, or violates the rules of the ledger.
    #[error(transparent)]
    Gate(GateError),
    /// SQLite failed.
    #[error("the log could not be opened: {0}")]
    Store(String),
    /// The file system failed.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    File(PathBuf, #[source] io::Error),
}

/// An exclusive file lock, released on drop.
///
/// Closing the file is not enough: a child process that is being started has a copy of the descriptor until it executes
/// its own program, and would keep the lock until then.
#[derive(Debug)]
pub(super) struct DirectoryLock(File);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // If this fails, the lock ends with the last copy of the descriptor.
        let _ = self.0.unlock();
    }
}

/// A directory that this process owns while this value, or a log opened from it, exists.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    lock: Arc<DirectoryLock>,
    kind: &'static StoreKind,
}

impl Directory {
    /// Locks the directory, and creates it with an empty log if it is new.
    ///
    /// # Errors
    /// When another process owns it, its log is missing, or the file system fails.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let failed = |error| OpenError::File(path.to_owned(), error);
        durable::make_directory(path).map_err(failed)?;
        // A directory that was created by an earlier version or by hand may have a wider mode.
        private::restrict_directory(path).map_err(failed)?;
        let mut lock = private::open_or_create(&path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut mark = Vec::new();
        lock.read_to_end(&mut mark).map_err(failed)?;
        let (kind, has_log) = store::kind_in(path).map_err(failed)?;
        // A crash can leave the mark incomplete, but it is written only after the log has its name.
        if !has_log && !mark.is_empty() {
            return Err(OpenError::LogMissing(path.to_owned()));
        }
        if !has_log {
            (kind.create)(path)?;
        }
        (kind.restrict)(path).map_err(failed)?;
        if mark != LOG_CREATED {
            Self::write_mark(path, &mut lock).map_err(failed)?;
        }
        Ok(Self { path: path.to_owned(), lock: Arc::new(DirectoryLock(lock)), kind })
    }

    /// Whether another process owns the directory now. Changes nothing.
    pub fn is_in_use(path: impl AsRef<Path>) -> bool {
        let lock = File::open(path.as_ref().join("lock"));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Records in the lock file that the log was created.
    fn write_mark(path: &Path, lock: &mut File) -> io::Result<()> {
        lock.rewind()?;
        lock.write_all(LOG_CREATED)?;
        lock.sync_all()?;
        durable::sync_directory(path)
    }

    /// Opens the log. The directory stays locked while the log is open.
    ///
    /// # Errors
    /// When the file is not a log of this release, or the store does not accept its settings.
    pub fn log(&self) -> Result<BoxedLog, OpenError> {
        (self.kind.open)(&self.path, Arc::clone(&self.lock))
    }

    /// Opens the log, reads and verifies it, and returns its gate.
    ///
    /// # Errors
    /// As for [`Directory::log`], and when verification fails.
    pub fn gate(&self) -> Result<Gate<BoxedLog>, OpenError> {
        Gate::open(self.log()?).map_err(OpenError::Gate)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::DirectoryLock;
    use std::fs::File;

    #[test]
    fn the_lock_is_released_though_a_copy_of_the_descriptor_is_open() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let file = File::create(&path).expect("a file");
        file.try_lock().expect("free");
        let _copy = file.try_clone().expect("a copy");
        let other = File::open(&path).expect("the file");
        assert!(other.try_lock().is_err(), "locked");
        drop(DirectoryLock(file));
        other.try_lock().expect("free again");
    }
}
