//! A consistent copy of the log, also while another process writes it. It is verified like any log when it is opened.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::directory::OpenError;
use super::durable;
use super::store::{StoreKind, kind_in};
use crate::private;

/// The kind of the log in a directory; an error if there is none.
fn existing_kind(directory: &Path) -> Result<&'static StoreKind, OpenError> {
    match kind_in(directory).map_err(|error| OpenError::File(directory.to_owned(), error))? {
        (kind, true) => Ok(kind),
        (_, false) => Err(OpenError::LogMissing(directory.to_owned())),
    }
}

/// Reads the format version of the log in a directory, whether this release supports it or not.
///
/// # Errors
/// When there is no log, or the file is not a log of Sage.
pub fn read_format(directory: &Path) -> Result<i32, OpenError> {
    (existing_kind(directory)?.format)(directory)
}

/// Copies the log of a directory into another directory, which is created if it does not exist and must have no log.
///
/// # Errors
/// When `from` has no log, `to` has one already, or a file cannot be written.
pub fn copy_log(from: &Path, to: &Path) -> Result<(), OpenError> {
    let kind = existing_kind(from)?;
    durable::make_directory(to).map_err(|error| OpenError::File(to.to_owned(), error))?;
    if existing_kind(to).is_ok() {
        return Err(OpenError::Store(format!("{} has a log already", to.display())));
    }
    (kind.copy)(from, to)
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
