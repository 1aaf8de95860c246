//! Files and directories that only their owner can use: modes 0600 and 0700, whatever the process's umask is.
//!
//! The mode is set when a file is created, so that others cannot read it for a moment, and again afterwards, because a
//! umask can remove the owner's permissions. Every file that the engine keeps is created here.
//!
//! Windows has no modes: files inherit the access control list of the directory, which must be restricted to the user
//! of the server. All operations on files that differ between systems are in the modules `platform` at the end of this
//! file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
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
    platform::open_with_mode(options, path, FILE)
}

/// Creates a file without a name: it is gone when it is closed, however the process ends. For a moment it has the given
/// name, which must not exist.
///
/// # Errors
/// When it cannot be created, or its name cannot be removed.
pub fn create_unnamed(path: &Path) -> io::Result<File> {
    let file = create_new(path)?;
    fs::remove_file(path)?;
    Ok(file)
}

/// Creates a directory; one that exists is an error.
///
/// # Errors
/// When it cannot be created.
pub fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    platform::set_directory_mode(&mut builder, DIRECTORY);
    builder.create(path)?;
    restrict_directory(path)
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
    match create_directory(path) {
        // Another thread created it first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
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
    platform::set_mode(path, mode)
}

/// Opens a directory, as a handle of its file system.
///
/// # Errors
/// When it cannot be opened.
pub fn open_directory(path: &Path) -> io::Result<File> {
    platform::open_directory(path)
}

/// Flushes a file or the names in a directory to disk.
///
/// # Errors
/// When it cannot be opened or flushed.
pub fn sync_path(path: &Path) -> io::Result<()> {
    platform::sync_path(path)
}

/// Reads exactly as many bytes as the buffer has, from an offset.
///
/// # Errors
/// When the file cannot be read or ends before.
pub fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    platform::read_exact_at(file, buffer, offset)
}

#[cfg(unix)]
mod platform {
    use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
    use std::path::Path;

    pub(super) fn open_with_mode(options: &mut OpenOptions, path: &Path, mode: u32) -> io::Result<File> {
        let file = options.mode(mode).open(path)?;
        if file.metadata()?.permissions().mode() & 0o777 != mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        Ok(file)
    }

    pub(super) fn set_directory_mode(builder: &mut DirBuilder, mode: u32) {
        builder.mode(mode);
    }

    pub(super) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
        match fs::metadata(path)?.permissions().mode() & 0o777 == mode {
            true => Ok(()),
            false => fs::set_permissions(path, Permissions::from_mode(mode)),
        }
    }

    pub(super) fn open_directory(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(super) fn sync_path(path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    pub(super) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        file.read_exact_at(buffer, offset)
    }
}

#[cfg(windows)]
mod platform {
    use std::fs::{self, DirBuilder, File, OpenOptions};
    use std::io;
    use std::os::windows::fs::{FileExt, OpenOptionsExt};
    use std::path::Path;

    /// `FILE_FLAG_BACKUP_SEMANTICS`, which opening a directory needs.
    const DIRECTORY_FLAG: u32 = 0x0200_0000;

    /// Permissions are inherited from the directory.
    pub(super) fn open_with_mode(options: &mut OpenOptions, path: &Path, _: u32) -> io::Result<File> {
        options.open(path)
    }

    pub(super) fn set_directory_mode(_: &mut DirBuilder, _: u32) {}

    /// Fails only if the path does not exist.
    pub(super) fn set_mode(path: &Path, _: u32) -> io::Result<()> {
        fs::metadata(path).map(|_| ())
    }

    pub(super) fn open_directory(path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(DIRECTORY_FLAG).open(path)
    }

    /// The file system's journal keeps names; only files are flushed, which needs the right to write.
    pub(super) fn sync_path(path: &Path) -> io::Result<()> {
        if path.is_dir() { Ok(()) } else { OpenOptions::new().write(true).open(path)?.sync_all() }
    }

    pub(super) fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match file.seek_read(buffer, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => {
                    buffer = &mut buffer[count..];
                    offset += count as u64;
                }
            }
        }
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

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
