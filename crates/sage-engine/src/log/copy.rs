//! A copy of the log as it is at one moment, also while another process writes it.
//!
//! SQLite's own way of copying a database reads it in one transaction, so what comes out is the log after some append
//! and not in the middle of one. The copy is verified like any log when it is opened. Nothing here writes to the log
//! that is copied.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::directory::OpenError;
use super::durable;
use super::sqlite::{self, APPLICATION};
use crate::private;

/// Opens the log of a directory to look at.
fn look(directory: &Path) -> Result<Connection, OpenError> {
    let path = sqlite::file(directory);
    if !path.exists() {
        return Err(OpenError::LogMissing(directory.to_owned()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&path, flags).map_err(sqlite::store)?;
    connection.busy_timeout(sqlite::PATIENCE).map_err(sqlite::store)?;
    let application = connection.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0));
    match application {
        Ok(APPLICATION) => Ok(connection),
        Ok(_) => Err(OpenError::Foreign(path)),
        Err(error) => Err(sqlite::foreign(&path, error)),
    }
}

/// The format of the log in a directory, whether this release knows it or not.
///
/// # Errors
/// When there is no log of ours.
pub fn format_of(directory: &Path) -> Result<i32, OpenError> {
    look(directory)?.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sqlite::store)
}

/// Copies the log of a directory into another one, which is made if it is not there, and must have no log.
///
/// # Errors
/// When there is no log, there is one already, or a file cannot be written.
pub fn copy_log(from: &Path, to: &Path) -> Result<(), OpenError> {
    let source = look(from)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| OpenError::File(path, error)
    };
    durable::make_directory(to).map_err(failed(to))?;
    let path = sqlite::file(to);
    if path.exists() {
        return Err(OpenError::Store(format!("{} is there already", path.display())));
    }
    let fresh = durable::beside(&path, ".copy");
    if fresh.exists() {
        fs::remove_file(&fresh).map_err(failed(&fresh))?;
    }
    private::create_new(&fresh).map_err(failed(&fresh))?;
    let mut copy = Connection::open(&fresh).map_err(sqlite::store)?;
    let outcome = Backup::new(&source, &mut copy).and_then(|backup| backup.step(-1)).map_err(sqlite::store)?;
    if !matches!(outcome, StepResult::Done) {
        return Err(OpenError::Store("the log is busy; try again".to_owned()));
    }
    copy.close().map_err(|(_, error)| sqlite::store(error))?;
    private::sync_path(&fresh).map_err(failed(&fresh))?;
    durable::publish(&fresh, &path).map_err(failed(&path))
}

/// A copy of a log in a folder of its own, gone when it is dropped.
#[derive(Debug)]
pub struct LogCopy {
    path: PathBuf,
}

impl LogCopy {
    /// Copies the log of a directory.
    ///
    /// # Errors
    /// As [`copy_log`].
    pub fn of(directory: &Path) -> Result<Self, OpenError> {
        static COPIES: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        // Made by us or not at all: a folder that somebody else has put there is refused.
        let path = std::env::temp_dir().join(format!("sage-log-{}-{since}-{number}", std::process::id()));
        private::create_directory(&path).map_err(|error| OpenError::File(path.clone(), error))?;
        let copy = Self { path };
        copy_log(directory, &copy.path)?;
        Ok(copy)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LogCopy {
    fn drop(&mut self) {
        // A folder that stays holds nothing that the log does not.
        let _ = fs::remove_dir_all(&self.path);
    }
}
