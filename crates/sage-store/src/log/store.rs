//! Log stores: the trait that every store implements, and the list of all kinds.
//!
//! The rest of the program holds a [`BoxedLog`] and does not know which store it is. To add a store, implement
//! [`LogStore`] in a module beside `sqlite`, describe it by a `StoreKind` and add that to `KINDS`; the conformance suite
//! (`tests/log/conformance.rs`) lists what it must do.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use sage_kernel::{Head, Log, LogError, Record};

use super::directory::{DirectoryLock, OpenError};
use super::sqlite;

/// A log that can also keep a snapshot of the state folded from it.
pub trait LogStore: Log + Debug + Send {
    /// Replaces the snapshot by one of the state after `head_length` records.
    ///
    /// # Errors
    /// When it cannot be written; the previous snapshot is then still there.
    fn save_snapshot(&self, head_length: u64, bytes: &[u8]) -> Result<(), LogError>;

    /// The snapshot, or `None` if there is none, it is damaged, or it belongs to a longer log.
    fn snapshot(&self) -> Option<Vec<u8>>;
}

/// The log of a directory, of whatever kind.
pub type BoxedLog = Box<dyn LogStore>;

impl Log for BoxedLog {
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Record>, LogError> {
        (**self).read(from, limit)
    }

    fn append(&mut self, expected: Head, records: Vec<Record>) -> Result<Head, LogError> {
        (**self).append(expected, records)
    }
}

/// One kind of log store: how the log of a directory is found, created and opened.
#[derive(Debug)]
pub(super) struct StoreKind {
    /// Whether the directory has a log of this kind.
    pub(super) exists: fn(&Path) -> io::Result<bool>,
    /// Creates an empty log, completely or not at all.
    pub(super) create: fn(&Path) -> Result<(), OpenError>,
    /// Restricts the files of the log to their owner.
    pub(super) restrict: fn(&Path) -> io::Result<()>,
    /// Opens the log. It keeps the directory locked for as long as it is open.
    pub(super) open: fn(&Path, Arc<DirectoryLock>) -> Result<BoxedLog, OpenError>,
    /// Reads the format version of the log, whether this release supports it or not.
    pub(super) format: fn(&Path) -> Result<i32, OpenError>,
    /// Copies the log of the first directory into the second, which has none, also while another process appends. The
    /// copy is the log between two appends, complete or absent.
    pub(super) copy: fn(&Path, &Path) -> Result<(), OpenError>,
}

/// All kinds. A new directory gets a log of the first kind; an existing one is opened by the kind whose log it has.
static KINDS: [StoreKind; 1] = [sqlite::KIND];

/// The kind of the log in a directory, and whether the log exists.
pub(super) fn kind_in(directory: &Path) -> io::Result<(&'static StoreKind, bool)> {
    for kind in &KINDS {
        if (kind.exists)(directory)? {
            return Ok((kind, true));
        }
    }
    Ok((&KINDS[0], false))
}
