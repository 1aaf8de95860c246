//! The log in a SQLite file.
//!
//! An append is one transaction and one flush. It updates the stored head only if it is the one that the caller
//! expects, so a lost race is a conflict, and inserts the records. The head is a row of its own, so that damage which
//! hides the last records is detected when the log is opened. After a failed write the handle refuses every operation,
//! even the checkpoint on close: a flush that succeeds after a failed one proves nothing. An append that is not on the
//! disk must never be reported as done.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row};
use sage_kernel::{Head, Log, LogError, Record};

use super::directory::{DirectoryLock, OpenError};
use super::durable;
use super::sqlite_copy;
use super::store::{LogStore, StoreKind};
use crate::private;

/// The format version that this release reads and writes.
pub const FORMAT: i32 = 1;

/// SQLite's application id of a log: the letters SAGE.
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
/// Cached as prepared statements like the others, because compiling them takes long compared with a commit.
const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";
const INSERT: &str = "INSERT INTO record (number, time, previous, body, hash) VALUES (?1, ?2, ?3, ?4, ?5)";

/// The settings that durability depends on or that detect damage early. Automatic checkpoints are off, because SQLite
/// does not report their failures.
const SETTINGS: [(&str, &str); 6] = [
    ("journal_mode", "wal"),
    ("synchronous", "2"),
    ("fullfsync", "1"),
    ("wal_autocheckpoint", "0"),
    ("cell_size_check", "1"),
    ("trusted_schema", "0"),
];

/// How long to wait for another handle's transaction.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The size of the write-ahead log at which it is checkpointed and then overwritten from its start. Overwriting needs
/// one flush per commit; growing it would also flush the new file size each time.
const CHECKPOINT_AFTER_BYTES: usize = 4 << 20;

/// What an append writes besides its records: about one page of records and one for the head.
const COMMIT_BYTES: usize = 3 * 4096;

/// The first bytes of a snapshot file.
const SNAPSHOT: &[u8; 8] = b"sagesnp1";

/// The log in a SQLite file.
#[derive(Debug)]
pub(super) struct SqliteLog {
    connection: Connection,
    directory: PathBuf,
    /// The reason of the first failed write. Once set, all operations are refused.
    failure: Option<String>,
    /// About how many bytes were written since the last checkpoint.
    pending_bytes: usize,
    /// Keeps the directory locked while the log is open. Dropped after the connection.
    _lock: Arc<DirectoryLock>,
}

/// The path of the log in a directory.
pub(super) fn file(directory: &Path) -> PathBuf {
    directory.join("log.db")
}

/// The kind of store: a SQLite file in the directory.
pub(super) const KIND: StoreKind = StoreKind {
    exists: |directory| file(directory).try_exists(),
    create,
    restrict,
    open: |directory, lock| Ok(Box::new(SqliteLog::open(directory, lock)?)),
    format: sqlite_copy::read_format,
    copy: sqlite_copy::copy,
};

/// Makes the log's files private. SQLite creates the files beside the log with the mode of the log.
fn restrict(directory: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        match private::restrict_file(&durable::with_suffix(&file(directory), suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Creates an empty log under another name and renames it, so that `log.db` is always complete.
fn create(directory: &Path) -> Result<(), OpenError> {
    let failed = |error| OpenError::File(directory.to_owned(), error);
    let file = file(directory);
    let fresh = durable::with_suffix(&file, ".new");
    for suffix in ["", "-journal", "-wal", "-shm"] {
        match fs::remove_file(durable::with_suffix(&fresh, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    // SQLite treats an empty file as a new database and keeps its mode.
    private::create_new(&fresh).map_err(failed)?;
    write_schema(&fresh)?;
    private::sync_path(&fresh).map_err(failed)?;
    durable::publish(&fresh, &file).map_err(failed)
}

/// Creates an empty log in an empty file.
fn write_schema(path: &Path) -> Result<(), OpenError> {
    let connection = Connection::open(path).map_err(store)?;
    apply_settings(&connection)?;
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

/// Applies the settings and checks that SQLite accepted them.
fn apply_settings(connection: &Connection) -> Result<(), OpenError> {
    connection.busy_timeout(BUSY_TIMEOUT).map_err(store)?;
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
    fn open(directory: &Path, lock: Arc<DirectoryLock>) -> Result<Self, OpenError> {
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
        apply_settings(&connection)?;
        // After a failed flush of an earlier process, the page cache may contain data that is not on the disk. A
        // checkpoint writes and flushes everything again.
        checkpoint(&connection).map_err(store)?;
        let log = Self { connection, directory: directory.to_owned(), failure: None, pending_bytes: 0, _lock: lock };
        // The write-ahead log exists now and keeps its name while the log is open. SQLite flushes the directory too,
        // but ignores errors.
        durable::sync_directory(directory).map_err(|error| OpenError::File(directory.to_owned(), error))?;
        if !log.head_matches_records().map_err(store)? {
            return Err(OpenError::Damaged(path));
        }
        Ok(log)
    }

    /// Whether the stored head is that of the last record. Both are read in one transaction, because another handle may
    /// be appending.
    fn head_matches_records(&self) -> rusqlite::Result<bool> {
        let _transaction = self.connection.unchecked_transaction()?;
        Ok(self.head()? == self.last_record_head()?)
    }

    /// The stored head.
    fn head(&self) -> rusqlite::Result<Head> {
        read_head(&self.connection)
    }

    /// The head by the last record.
    fn last_record_head(&self) -> rusqlite::Result<Head> {
        let last = self.connection.query_row(LAST, [], |row| {
            Ok(Head { length: row.get::<_, i64>(0)?.cast_unsigned().saturating_add(1), hash: row.get(1)? })
        });
        Ok(last.optional()?.unwrap_or(Head::EMPTY))
    }

    /// Refuses to work after a failed write.
    fn check_usable(&self) -> Result<(), LogError> {
        self.failure.as_ref().map_or(Ok(()), |reason| {
            Err(LogError::Failed(format!("an earlier write failed ({reason}); open the directory again")))
        })
    }

    /// Disables the handle for good. Even closing it then leaves the file alone.
    fn disable(&mut self, reason: &str) {
        self.failure = Some(reason.to_owned());
        // Otherwise closing would flush again and hide the failed flush. The call cannot fail on an open connection,
        // and if it did, the next process to open the log would still write everything again.
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }

    fn write(&mut self, expected: Head, records: &[Record]) -> Result<Head, LogError> {
        if self.pending_bytes > CHECKPOINT_AFTER_BYTES {
            checkpoint(&self.connection).map_err(failed)?;
            self.pending_bytes = 0;
        }
        let next = records.last().map_or(expected, Record::head);
        run(&self.connection, BEGIN).map_err(failed)?;
        let inserted = self.insert_records(expected, next, records);
        if inserted.is_err() && !self.connection.is_autocommit() {
            run(&self.connection, ROLLBACK).map_err(failed)?;
        }
        inserted?;
        run(&self.connection, COMMIT).map_err(|error| LogError::Unknown(error.to_string()))?;
        self.pending_bytes += COMMIT_BYTES + records.iter().map(|record| record.body.len() + 100).sum::<usize>();
        Ok(next)
    }

    /// Moves the head and inserts the records, within a transaction.
    fn insert_records(&self, expected: Head, next: Head, records: &[Record]) -> Result<(), LogError> {
        let moved = self
            .connection
            .prepare_cached(MOVE_HEAD)
            .and_then(|mut update| {
                update.execute((next.length.cast_signed(), next.hash, expected.length.cast_signed(), expected.hash))
            })
            .map_err(failed)?;
        if moved != 1 {
            let found = read_head(&self.connection).map_err(failed)?;
            // The same length but another hash is not a race: there are no new records to read.
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
        self.check_usable()?;
        let mut file = SNAPSHOT.to_vec();
        file.extend(head_length.to_le_bytes());
        file.extend(bytes);
        file.extend(blake3::hash(&file).as_bytes());
        durable::replace(&self.snapshot_file(), &file).map_err(|error| LogError::Failed(error.to_string()))
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        let file = fs::read(self.snapshot_file()).ok()?;
        let (content, digest) = file.split_last_chunk::<32>()?;
        let (start, rest) = content.split_first_chunk::<8>()?;
        let (length, bytes) = rest.split_first_chunk::<8>()?;
        let intact = start == SNAPSHOT && *blake3::hash(content).as_bytes() == *digest;
        (intact && u64::from_le_bytes(*length) <= self.head().ok()?.length).then(|| bytes.to_vec())
    }
}

impl Log for SqliteLog {
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError> {
        self.check_usable()?;
        let Ok(from) = i64::try_from(from) else { return Ok(Vec::new()) };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let read = || -> rusqlite::Result<Vec<Record>> {
            self.connection.prepare_cached(READ)?.query_map((from, limit), read_record)?.collect()
        };
        read().map_err(failed)
    }

    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError> {
        self.check_usable()?;
        let written = self.write(expected, &records);
        if let Err(LogError::Failed(reason) | LogError::Unknown(reason)) = &written {
            self.disable(reason);
        }
        written
    }
}

fn read_record(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        number: row.get::<_, i64>(0)?.cast_unsigned(),
        time: row.get::<_, i64>(1)?.cast_unsigned(),
        previous: row.get(2)?,
        body: row.get(3)?,
        hash: row.get(4)?,
    })
}

fn read_head(connection: &Connection) -> rusqlite::Result<Head> {
    connection
        .prepare_cached(HEAD)?
        .query_row([], |row| Ok(Head { length: row.get::<_, i64>(0)?.cast_unsigned(), hash: row.get(1)? }))
}

fn run(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(|_| ())
}

/// Copies the write-ahead log into the database, so that the next commit overwrites its start. A passive checkpoint
/// does not wait for readers: while one reads an older state, the write-ahead log grows, and a later checkpoint
/// completes.
fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
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
    use super::{OpenError, apply_settings};
    use rusqlite::Connection;

    #[test]
    fn a_database_that_ignores_a_setting_is_refused() {
        // A database in memory has no write-ahead log, whatever the setting.
        let store = Connection::open_in_memory().expect("memory");
        let refused = apply_settings(&store).expect_err("it cannot be durable");
        assert!(matches!(refused, OpenError::Setting { name: "journal_mode", .. }), "{refused}");
        assert!(refused.to_string().contains("local file system"));
    }
}
