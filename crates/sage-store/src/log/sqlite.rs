//! The log as a table in a SQLite file.
//!
//! One append is one transaction and one flush. It moves the head from where the caller saw it, which is
//! what makes a lost race a conflict, and adds the records behind it. Beside the records the file says in a
//! row of its own where the log ends, so that damage which hides the last records is found when it is opened.
//! After any failure of a write the handle does nothing more, not even the tidying at its end: what a second
//! flush says after one that failed means nothing. It must never report an append that is not on the disk.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row};
use sage_kernel::{Head, Log, LogError, Record};

use super::directory::{Held, OpenError};
use super::durable;
use super::store::{LogStore, StoreKind};
use crate::private;

/// The format of the file this release writes.
pub const FORMAT: i32 = 1;

/// The letters SAGE, by which a file is known as ours.
pub(super) const APPLICATION: i32 = 0x5341_4745;

const SCHEMA: &str = "
    CREATE TABLE record (
        number INTEGER PRIMARY KEY,
        time INTEGER NOT NULL,
        previous BLOB NOT NULL,
        body BLOB NOT NULL,
        hash BLOB NOT NULL
    ) STRICT;
    CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), length INTEGER NOT NULL, hash BLOB NOT NULL) STRICT;
    INSERT INTO head VALUES (1, 0, zeroblob(32));
";

const READ: &str = "SELECT number, time, previous, body, hash FROM record WHERE number >= ?1 ORDER BY number LIMIT ?2";
const LAST: &str = "SELECT number, hash FROM record ORDER BY number DESC LIMIT 1";
const HEAD: &str = "SELECT length, hash FROM head WHERE one = 1";
const MOVE_HEAD: &str = "UPDATE head SET length = ?1, hash = ?2 WHERE one = 1 AND length = ?3 AND hash = ?4";
/// Kept compiled like the others: a commit is too short for them to be read anew each time.
const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";
const INSERT: &str = "INSERT INTO record (number, time, previous, body, hash) VALUES (?1, ?2, ?3, ?4, ?5)";

/// What durability rests on, and what finds damage early. SQLite would also move the write-ahead log into
/// the file by itself now and then, and say nothing if that failed; so it is told not to.
const SETTINGS: [(&str, &str); 6] = [
    ("journal_mode", "wal"),
    ("synchronous", "2"),
    ("fullfsync", "1"),
    ("wal_autocheckpoint", "0"),
    ("cell_size_check", "1"),
    ("trusted_schema", "0"),
];

/// How long to wait for another handle's transaction.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How much the write-ahead log may hold before it is moved into the file and written over from its start.
/// Writing over it costs one flush a commit; letting it grow would also flush the file's new size each time.
const OVERWRITE_AFTER_BYTES: usize = 4 << 20;

/// What an append writes besides its records: about one page of records and one for the head.
const COMMIT_BYTES: usize = 3 * 4096;

/// What a kept snapshot begins with.
const SNAPSHOT: &[u8; 8] = b"sagesnp1";

/// Records in a SQLite file.
#[derive(Debug)]
pub(super) struct SqliteLog {
    connection: Connection,
    directory: PathBuf,
    /// Set by the first failed write; nothing happens after.
    failure: Option<String>,
    /// About how much was written since the write-ahead log was last moved into the file.
    pending_bytes: usize,
    /// Keeps the directory ours for as long as the log is open. Dropped after the connection.
    _lock: Arc<Held>,
}

/// The log's file in a directory.
pub(super) fn file(directory: &Path) -> PathBuf {
    directory.join("log.db")
}

/// A SQLite file in the directory.
pub(super) const KIND: StoreKind = StoreKind {
    exists: |directory| file(directory).try_exists(),
    create,
    restrict,
    open: |directory, lock| Ok(Box::new(SqliteLog::open(directory, lock)?)),
};

/// Takes the log's files away from everybody but their owner. SQLite gives what it makes beside the log the mode of
/// the log.
fn restrict(path: &Path) -> io::Result<()> {
    for ending in ["", "-wal", "-shm"] {
        match private::restrict_file(&durable::beside(&file(path), ending)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Makes an empty log under another name and renames it, so that `log.db` is never half made.
fn create(path: &Path) -> Result<(), OpenError> {
    let failed = |error| OpenError::File(path.to_owned(), error);
    let file = file(path);
    let fresh = durable::beside(&file, ".new");
    for ending in ["", "-journal", "-wal", "-shm"] {
        match fs::remove_file(durable::beside(&fresh, ending)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    // SQLite takes an empty file for a new database and keeps its mode.
    private::create_new(&fresh).map_err(failed)?;
    make(&fresh)?;
    File::open(&fresh).and_then(|made| made.sync_all()).map_err(failed)?;
    durable::publish(&fresh, &file).map_err(failed)
}

/// Makes an empty log in a file that does not exist.
fn make(path: &Path) -> Result<(), OpenError> {
    let connection = Connection::open(path).map_err(store)?;
    settle(&connection)?;
    let fill = || {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        connection.pragma_update(None, "application_id", APPLICATION)?;
        connection.pragma_update(None, "user_version", FORMAT)?;
        connection.execute_batch(SCHEMA)?;
        connection.execute_batch("COMMIT")
    };
    fill().map_err(store)?;
    connection.close().map_err(|(_, error)| store(error))
}

/// Makes the settings and holds the store to them.
fn settle(connection: &Connection) -> Result<(), OpenError> {
    connection.busy_timeout(PATIENCE).map_err(store)?;
    for (name, wanted) in SETTINGS {
        connection.pragma_update(None, name, wanted).map_err(store)?;
        let found = match connection.pragma_query_value(None, name, |row| row.get(0)).map_err(store)? {
            Value::Integer(number) => number.to_string(),
            Value::Text(text) => text,
            other => format!("{other:?}"),
        };
        if found != wanted {
            return Err(OpenError::Setting { name, found, wanted });
        }
    }
    Ok(())
}

impl SqliteLog {
    fn open(directory: &Path, lock: Arc<Held>) -> Result<Self, OpenError> {
        let path = file(directory);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).map_err(store)?;
        let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        let application = number("application_id").map_err(|error| foreign(&path, error))?;
        if application != APPLICATION {
            return Err(OpenError::Foreign(path));
        }
        let found = number("user_version").map_err(store)?;
        if found != FORMAT {
            return Err(OpenError::Format { found, known: FORMAT });
        }
        settle(&connection)?;
        // A flush that failed before we came may have left in memory what is not on the disk. Moved into
        // the file, everything is written and flushed anew.
        overwrite(&connection).map_err(store)?;
        let log = Self { connection, directory: directory.to_owned(), failure: None, pending_bytes: 0, _lock: lock };
        // By now the write-ahead log has its name, and keeps it while we are here. SQLite flushes that name too,
        // but does not look whether it could.
        durable::sync_directory(directory).map_err(|error| OpenError::File(directory.to_owned(), error))?;
        if !log.ends_where_it_says().map_err(store)? {
            return Err(OpenError::Damaged(path));
        }
        Ok(log)
    }

    /// Both are read at one moment: another handle may be appending.
    fn ends_where_it_says(&self) -> rusqlite::Result<bool> {
        let _moment = self.connection.unchecked_transaction()?;
        Ok(self.head()? == self.last()?)
    }

    /// Where the file says that the log ends.
    fn head(&self) -> rusqlite::Result<Head> {
        head(&self.connection)
    }

    /// Where the records end.
    fn last(&self) -> rusqlite::Result<Head> {
        let last = self.connection.query_row(LAST, [], |row| {
            Ok(Head { length: row.get::<_, i64>(0)?.cast_unsigned().saturating_add(1), hash: row.get(1)? })
        });
        Ok(last.optional()?.unwrap_or(Head::EMPTY))
    }

    fn usable(&self) -> Result<(), LogError> {
        self.failure.as_ref().map_or(Ok(()), |reason| {
            Err(LogError::Failed(format!("an earlier write failed ({reason}); open the directory again")))
        })
    }

    /// Stops the handle for good. Not even closing it touches the file then.
    fn stop(&mut self, reason: &str) {
        self.failure = Some(reason.to_owned());
        // Without the setting, closing would flush again and hide that a flush has failed. It cannot fail on
        // an open connection; were it to, the next one to open the file still moves everything anew.
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }

    fn write(&mut self, expected: Head, records: &[Record]) -> Result<Head, LogError> {
        if self.pending_bytes > OVERWRITE_AFTER_BYTES {
            overwrite(&self.connection).map_err(failed)?;
            self.pending_bytes = 0;
        }
        let next = records.last().map_or(expected, Record::head);
        run(&self.connection, BEGIN).map_err(failed)?;
        let entered = self.enter(expected, next, records);
        if entered.is_err() && !self.connection.is_autocommit() {
            run(&self.connection, ROLLBACK).map_err(failed)?;
        }
        entered?;
        run(&self.connection, COMMIT).map_err(|error| LogError::Unknown(error.to_string()))?;
        self.pending_bytes += COMMIT_BYTES + records.iter().map(|record| record.body.len() + 100).sum::<usize>();
        Ok(next)
    }

    /// Moves the head and adds the records, within a transaction.
    fn enter(&self, expected: Head, next: Head, records: &[Record]) -> Result<(), LogError> {
        let moved = self
            .connection
            .prepare_cached(MOVE_HEAD)
            .and_then(|mut update| {
                update.execute((next.length.cast_signed(), next.hash, expected.length.cast_signed(), expected.hash))
            })
            .map_err(failed)?;
        if moved != 1 {
            let found = head(&self.connection).map_err(failed)?;
            // Of the same length but another chain: to read on would find nothing new, so this is no race.
            return Err(match found.length == expected.length {
                true => LogError::Failed("the log was replaced under this process".to_owned()),
                false => LogError::Conflict,
            });
        }
        let insert = || -> rusqlite::Result<()> {
            let mut insert = self.connection.prepare_cached(INSERT)?;
            for record in records {
                let Record { number, time, previous, body, hash } = record;
                insert.execute((number.cast_signed(), time.cast_signed(), previous, body, hash))?;
            }
            Ok(())
        };
        insert().map_err(failed)
    }

    fn snapshot_file(&self) -> PathBuf {
        self.directory.join("snapshot")
    }
}

impl LogStore for SqliteLog {
    fn save_snapshot(&self, head_length: u64, bytes: &[u8]) -> Result<(), LogError> {
        self.usable()?;
        let mut kept = SNAPSHOT.to_vec();
        kept.extend(head_length.to_le_bytes());
        kept.extend(bytes);
        kept.extend(blake3::hash(&kept).as_bytes());
        durable::replace(&self.snapshot_file(), &kept).map_err(|error| LogError::Failed(error.to_string()))
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        let kept = fs::read(self.snapshot_file()).ok()?;
        let (content, digest) = kept.split_last_chunk::<32>()?;
        let (start, rest) = content.split_first_chunk::<8>()?;
        let (length, bytes) = rest.split_first_chunk::<8>()?;
        let fits = start == SNAPSHOT && *blake3::hash(content).as_bytes() == *digest;
        (fits && u64::from_le_bytes(*length) <= self.head().ok()?.length).then(|| bytes.to_vec())
    }
}

impl Log for SqliteLog {
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError> {
        self.usable()?;
        let Ok(from) = i64::try_from(from) else { return Ok(Vec::new()) };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let read = || -> rusqlite::Result<Vec<Record>> {
            self.connection.prepare_cached(READ)?.query_map((from, limit), record)?.collect()
        };
        read().map_err(failed)
    }

    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError> {
        self.usable()?;
        let written = self.write(expected, &records);
        if let Err(LogError::Failed(reason) | LogError::Unknown(reason)) = &written {
            self.stop(reason);
        }
        written
    }
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        number: row.get::<_, i64>(0)?.cast_unsigned(),
        time: row.get::<_, i64>(1)?.cast_unsigned(),
        previous: row.get(2)?,
        body: row.get(3)?,
        hash: row.get(4)?,
    })
}

fn head(connection: &Connection) -> rusqlite::Result<Head> {
    connection
        .prepare_cached(HEAD)?
        .query_row([], |row| Ok(Head { length: row.get::<_, i64>(0)?.cast_unsigned(), hash: row.get(1)? }))
}

fn run(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(|_| ())
}

/// Moves the write-ahead log into the file, so that the next commit writes over its start. Nobody is waited
/// for: while an auditor reads an older state the write-ahead log grows, and this is tried again later.
fn overwrite(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

fn failed(error: rusqlite::Error) -> LogError {
    LogError::Failed(error.to_string())
}

pub(super) fn store(error: rusqlite::Error) -> OpenError {
    OpenError::Store(error.to_string())
}

pub(super) fn foreign(path: &Path, error: rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::Foreign(path.to_owned()),
        _ => store(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenError, settle};
    use rusqlite::Connection;

    #[test]
    fn a_store_whose_settings_do_not_take_is_refused() {
        // A database in memory has no write-ahead log, whatever it is told.
        let store = Connection::open_in_memory().expect("memory");
        let refused = settle(&store).expect_err("it cannot be durable");
        assert!(matches!(refused, OpenError::Setting { name: "journal_mode", .. }), "{refused}");
        assert!(refused.to_string().contains("local file system"));
    }
}
