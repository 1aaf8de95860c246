//! Copies a log in SQLite, also while another process writes it.
//!
//! SQLite's backup API reads the database in one transaction, so the copy is the log between two appends. The original is
//! opened read-only.

use std::fs;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::directory::OpenError;
use super::durable;
use super::sqlite::{self, APPLICATION};
use crate::private;

/// Opens the log of a directory for reading.
fn open_read_only(directory: &Path) -> Result<Connection, OpenError> {
    let path = sqlite::file(directory);
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

pub(super) fn read_format(directory: &Path) -> Result<i32, OpenError> {
    open_read_only(directory)?.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sqlite::store)
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<(), OpenError> {
    let source = open_read_only(from)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| OpenError::File(path, error)
    };
    let path = sqlite::file(to);
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
