//! A consistent copy of the log, also while another process writes it.
//!
//! SQLite's backup API reads the database in one transaction, so the copy is the log between two appends. It is
//! verified like any log when it is opened. The original is opened read-only.

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

/// Opens the log of a directory for reading.
fn open_read_only(directory: &Path) -> Result<Connection, OpenError> {
    let path = sqlite::file(directory);
    if !path.exists() {
        return Err(OpenError::LogMissing(directory.to_owned()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&path, flags).map_err(sqlite::store)?;
    connection.busy_timeout(sqlite::BUSY_TIMEOUT).map_err(sqlite::store)?;
    let application = connection.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0));
    match application {
        Ok(APPLICATION) => Ok(connection),
        Ok(_) => Err(OpenError::Foreign(path)),
        Err(error) => Err(sqlite::foreign(&path, error)),
    }
}

/// Reads the format version of the log in a directory, whether this release supports it or not.
///
/// # Errors
/// When there is no log, or the file is not a log of Sage.
pub fn read_format(directory: &Path) -> Result<i32, OpenError> {
    open_read_only(directory)?.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sqlite::store)
}

/// Copies the log of a directory into another directory, which is created if it does not exist and must have no log.
///
/// # Errors
/// When `from` has no log, `to` has one already, or a file cannot be written.
pub fn copy_log(from: &Path, to: &Path) -> Result<(), OpenError> {
    let source = open_read_only(from)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| OpenError::File(path, error)
    };
    durable::make_directory(to).map_err(failed(to))?;
    let path = sqlite::file(to);
    if path.exists() {
        return Err(OpenError::Store(format!("{} exists already", path.display())));
    }
    let fresh = durable::with_suffix(&path, ".copy");
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

/// A copy of a log in a temporary folder, which is removed on drop.
#[derive(Debug)]
pub struct LogCopy {
    path: PathBuf,
}

impl LogCopy {
    /// Copies the log of a directory.
    ///
    /// # Errors
    /// As [`copy_log`].
    pub fn create(directory: &Path) -> Result<Self, OpenError> {
        static COPIES: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        // The folder must not exist: another user may have created it.
        let path = std::env::temp_dir().join(format!("sage-log-{}-{since}-{number}", std::process::id()));
        private::create_directory(&path).map_err(|error| OpenError::File(path.clone(), error))?;
        let copy = Self { path };
        copy_log(directory, &copy.path)?;
        Ok(copy)
    }

    /// The directory with the copy.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LogCopy {
    fn drop(&mut self) {
        // A folder that remains contains nothing that the log does not.
        let _ = fs::remove_dir_all(&self.path);
    }
}
