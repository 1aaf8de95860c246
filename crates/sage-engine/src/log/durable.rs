//! Files that are there whole or not at all, whatever happens while they are written.
//!
//! A name is durable only when its directory is flushed too. Nothing here may report success before that.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::private;

/// Replaces a file by these bytes: after a crash there is the old one or the new one. Only its owner can read either.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = beside(path, ".new");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fill(private::create_new(&fresh)?, bytes)?;
    publish(&fresh, path)
}

fn fill(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// Gives a finished, flushed file its name.
pub(super) fn publish(fresh: &Path, path: &Path) -> io::Result<()> {
    fs::rename(fresh, path)?;
    sync_directory(parent(path))
}

/// Makes the directory and those above it that are missing, for their owner alone.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    make_directory(parent(path))?;
    private::make_directories(path)?;
    sync_directory(parent(path))
}

/// Flushes the names in a directory.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    private::sync_path(path)
}

/// The file's path with more at its end.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The directory a path is in; the present one for a bare name.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
