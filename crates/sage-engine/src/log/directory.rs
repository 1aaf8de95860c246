//! The directory of an engine and its single owner.
//!
//! Whoever holds the lock on the file `lock` owns everything beside it. The operating system releases the
//! lock when its holder ends, however it ends. The file also says whether the log was ever made: a directory
//! whose log has gone missing must never be taken for a new one, since every budget would be whole again.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sage_kernel::{Gate, GateError};

use super::durable;
use super::sqlite::{self, SqliteLog};
use crate::private;

/// What the lock file says once there is a log.
const MADE: &[u8] = b"The log of this directory is log.db. Whoever holds the lock on this file owns the directory.\n";

/// Why a directory or its log cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process owns the directory.
    Held(PathBuf),
    /// There was a log here, and it is gone.
    LogMissing(PathBuf),
    /// The file is not a log of ours.
    Foreign(PathBuf),
    /// The log was written by another release, in a format this one does not know.
    Format {
        /// The format of the file.
        found: i32,
        /// The format of this release.
        known: i32,
    },
    /// A setting that durability rests on did not take.
    Setting {
        /// Its name.
        name: &'static str,
        /// What it is.
        found: String,
        /// What it has to be.
        wanted: &'static str,
    },
    /// The file says two things about where the log ends.
    Damaged(PathBuf),
    /// The log is not a chain, or breaks the rules of the ledger.
    Gate(GateError),
    /// The store failed.
    Store(String),
    /// The file system failed.
    File(PathBuf, io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(path) => write!(
                out,
                "{} is in use by another process; stop that one, or ask it instead of opening the directory",
                path.display()
            ),
            Self::LogMissing(path) => write!(
                out,
                "the log of {} is gone; a new one would give every budget out again, so put log.db back from a copy",
                path.display()
            ),
            Self::Foreign(path) => {
                write!(
                    out,
                    "{} is not a log of Sage; put the right file there, or choose another directory",
                    path.display()
                )
            }
            Self::Format { found, known } if found > known => write!(
                out,
                "the log has format {found} and this release knows up to {known}; use the release that wrote it"
            ),
            Self::Format { found, known } => write!(
                out,
                "the log has format {found} and this release needs {known}; open it once with a release between them"
            ),
            Self::Setting { name, found, wanted } => write!(
                out,
                "the store has {name} = {found} where {wanted} is needed for a charge to be durable; \
                 move the directory to a local file system"
            ),
            Self::Damaged(path) => write!(
                out,
                "{} does not end where it says it ends; nothing is granted on it, put it back from a copy",
                path.display()
            ),
            Self::Gate(error) => error.fmt(out),
            Self::Store(reason) => write!(out, "the log could not be opened: {reason}"),
            Self::File(path, error) => write!(out, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for OpenError {}

/// The lock, given back when nobody needs it any more.
///
/// Closing the file would not be enough: a process that is started at that moment has a copy of it until it runs its
/// own program, and would keep the lock for as long.
#[derive(Debug)]
pub(super) struct Held(File);

impl Drop for Held {
    fn drop(&mut self) {
        // Where it fails, the lock ends with the last copy of the file.
        let _ = self.0.unlock();
    }
}

/// A directory that this process owns for as long as this value, or a log made from it, lives.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    lock: Arc<Held>,
}

impl Directory {
    /// Takes the directory, making it and an empty log if it is new.
    ///
    /// # Errors
    /// When another process has it, its log has gone, or the file system fails.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let failed = |error| OpenError::File(path.to_owned(), error);
        durable::make_directory(path).map_err(failed)?;
        // One that was made by an earlier version, or by hand, may be open to others.
        private::restrict_directory(path).map_err(failed)?;
        let mut lock = private::open_or_create(&path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Held(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut said = Vec::new();
        lock.read_to_end(&mut said).map_err(failed)?;
        let has_log = sqlite::file(path).try_exists().map_err(failed)?;
        // A crash can leave the sentence torn; any of it was written after the log had its name.
        if !has_log && !said.is_empty() {
            return Err(OpenError::LogMissing(path.to_owned()));
        }
        if !has_log {
            Self::make_log(path)?;
        }
        Self::restrict_log(path).map_err(failed)?;
        if said != MADE {
            Self::mark(path, &mut lock).map_err(failed)?;
        }
        Ok(Self { path: path.to_owned(), lock: Arc::new(Held(lock)) })
    }

    /// Whether another process owns the directory at this moment. Nothing is made or changed.
    pub fn is_held(path: impl AsRef<Path>) -> bool {
        let lock = File::open(path.as_ref().join("lock"));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Takes the log's files away from everybody but their owner. SQLite gives what it makes beside the log the mode of
    /// the log.
    fn restrict_log(path: &Path) -> io::Result<()> {
        for ending in ["", "-wal", "-shm"] {
            match private::restrict_file(&durable::beside(&sqlite::file(path), ending)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes an empty log under another name and renames it, so that `log.db` is never half made.
    fn make_log(path: &Path) -> Result<(), OpenError> {
        let failed = |error| OpenError::File(path.to_owned(), error);
        let file = sqlite::file(path);
        let fresh = durable::beside(&file, ".new");
        for ending in ["", "-journal", "-wal", "-shm"] {
            match fs::remove_file(durable::beside(&fresh, ending)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        // SQLite takes an empty file for a new database and keeps its mode.
        private::create_new(&fresh).map_err(failed)?;
        sqlite::make(&fresh)?;
        private::sync_path(&fresh).map_err(failed)?;
        durable::publish(&fresh, &file).map_err(failed)
    }

    fn mark(path: &Path, lock: &mut File) -> io::Result<()> {
        lock.rewind()?;
        lock.write_all(MADE)?;
        lock.sync_all()?;
        durable::sync_directory(path)
    }

    /// The log. The directory stays taken for as long as the log lives.
    ///
    /// # Errors
    /// When the file is not a log of this release, or its settings do not take.
    pub fn log(&self) -> Result<SqliteLog, OpenError> {
        SqliteLog::open(&self.path, Arc::clone(&self.lock))
    }

    /// The gate on the log, after all of it was read and verified.
    ///
    /// # Errors
    /// As for [`Directory::log`], and when the log is not what was written.
    pub fn gate(&self) -> Result<Gate<SqliteLog>, OpenError> {
        Gate::open(self.log()?).map_err(OpenError::Gate)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::Held;
    use std::fs::File;

    #[test]
    fn the_lock_is_given_back_though_a_copy_of_the_file_is_open() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let file = File::create(&path).expect("a file");
        file.try_lock().expect("free");
        let _copy = file.try_clone().expect("a copy");
        let other = File::open(&path).expect("the file");
        assert!(other.try_lock().is_err(), "it is held");
        drop(Held(file));
        other.try_lock().expect("free again");
    }
}
