//! Atomic and durable file writes.
//!
//! A file's name is durable only after its directory is flushed too. No function here returns success before that.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::private;

/// Replaces a file atomically: after a crash there is either the old or the new file. Only its owner can read it.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = with_suffix(path, ".new");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write_and_sync(private::create_new(&fresh)?, bytes)?;
    publish(&fresh, path)
}

fn write_and_sync(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// Renames a complete, flushed file to its final name, durably.
pub(super) fn publish(fresh: &Path, path: &Path) -> io::Result<()> {
    fs::rename(fresh, path)?;
    sync_directory(parent(path))
}

/// Creates a directory and its missing parents, durably. Only their owner can use them.
pub fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    make_directory(parent(path))?;
    private::make_directories(path)?;
    sync_directory(parent(path))
}

/// Flushes the entries of a directory.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    private::sync_path(path)
}

/// The path with a suffix appended to its name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The directory of a path, which is the working directory for a bare name.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
