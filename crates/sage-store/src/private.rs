//! Files and directories that only their owner can use: modes 0600 and 0700, whatever the process's umask is.
//!
//! A file is created with its mode, so that others can never read it, not even for a moment. The mode is set again
//! afterwards, because a umask may clear bits of the owner. The engine creates all its files through this module.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE: u32 = 0o600;
const DIRECTORY: u32 = 0o700;

/// Creates a file, truncating an existing one.
///
/// # Errors
/// When the file cannot be created or its mode cannot be set.
pub fn create(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Creates a file that does not exist yet.
///
/// # Errors
/// When the file exists or cannot be created, or its mode cannot be set.
pub fn create_new(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true).write(true).create_new(true), path)
}

/// Opens a file for reading and writing, creating it if it does not exist.
///
/// # Errors
/// When the file cannot be opened or its mode cannot be set.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)
}

/// Writes a file, replacing its contents.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create(path)?.write_all(bytes)
}

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.mode(FILE).open(path)?;
    if file.metadata()?.permissions().mode() & 0o777 != FILE {
        file.set_permissions(Permissions::from_mode(FILE))?;
    }
    Ok(file)
}

/// Creates a directory and its missing parents. Existing directories keep their modes.
///
/// # Errors
/// When a directory cannot be created.
pub fn make_directories(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        make_directories(above)?;
    }
    match DirBuilder::new().mode(DIRECTORY).create(path) {
        // Another thread created it first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => restrict_directory(path),
    }
}

/// Sets the mode of a directory to 0700.
///
/// # Errors
/// When the directory belongs to another user.
pub fn restrict_directory(path: &Path) -> io::Result<()> {
    restrict(path, DIRECTORY)
}

/// Sets the mode of a file to 0600.
///
/// # Errors
/// When the file belongs to another user.
pub fn restrict_file(path: &Path) -> io::Result<()> {
    restrict(path, FILE)
}

/// Makes a folder and its contents readable by every user, and so by the user that a sandbox runs as. The folder must
/// be inside a directory that only its owner can enter; other users then cannot reach it.
///
/// # Errors
/// When a mode cannot be set.
pub fn show_to_sandbox(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() {
        restrict(path, 0o755)?;
        return fs::read_dir(path)?.try_for_each(|entry| show_to_sandbox(&entry?.path()));
    }
    // Sockets and symbolic links keep their modes.
    if metadata.is_file() { restrict(path, 0o644) } else { Ok(()) }
}

fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    match fs::metadata(path)?.permissions().mode() & 0o777 == mode {
        true => Ok(()),
        false => fs::set_permissions(path, Permissions::from_mode(mode)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn created_paths_are_private_and_existing_directories_keep_their_modes() {
        let folder = tempfile::tempdir().expect("a folder");
        let wide = folder.path().join("wide");
        fs::create_dir(&wide).expect("made");
        fs::set_permissions(&wide, Permissions::from_mode(0o755)).expect("set");
        let deep = wide.join("a/b");
        make_directories(&deep).expect("made");
        assert_eq!((mode(&wide), mode(&wide.join("a")), mode(&deep)), (0o755, 0o700, 0o700));
        let file = deep.join("file");
        write(&file, b"one").expect("written");
        assert_eq!(mode(&file), 0o600);
        // Rewriting a file that an earlier version left readable makes it private.
        fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("set");
        write(&file, b"two").expect("written");
        assert_eq!((mode(&file), fs::read(&file).expect("read")), (0o600, b"two".to_vec()));
        assert!(create_new(&file).is_err());
        restrict_directory(&wide).expect("ours");
        assert_eq!(mode(&wide), 0o700);
    }
}
