//! Reads the output folder of a command. Names and bytes come from untrusted code: no link is followed, only regular
//! files are opened, and sizes are bounded.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

use crate::limits::Limits;
use crate::report::{Listing, OutputFile};

/// The deepest folder that is listed.
const DEPTH: usize = 8;

/// The output folder after a run. It is in memory and is discarded when this value is dropped.
#[derive(Debug)]
pub struct Output {
    folder: OwnedFd,
    bytes: u64,
    files: u64,
}

impl Output {
    pub(crate) fn new(folder: OwnedFd, limits: &Limits) -> Self {
        Self { folder, bytes: limits.output_bytes, files: limits.output_files }
    }

    /// Lists the regular files. Fails if their number or their total size exceeds the limits.
    pub fn files(&self) -> io::Result<Listing> {
        let mut listing = Listing::default();
        let mut entries = 0;
        let mut folders = vec![(PathBuf::new(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            let opened = self.open_beneath(&folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
            for entry in Dir::read_from(&opened)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                entries += 1;
                if entries > self.files {
                    return Err(io::Error::other(format!("more than {} files in the output", self.files)));
                }
                let path = folder.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name));
                match self.kind(&path)? {
                    (FileType::RegularFile, bytes) => listing.files.push(OutputFile { path, bytes }),
                    (FileType::Directory, _) if depth < DEPTH => folders.push((path, depth + 1)),
                    _ => listing.skipped += 1,
                }
            }
        }
        let total = listing.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
        if total > self.bytes {
            return Err(io::Error::other(format!("more than {} bytes in the output", self.bytes)));
        }
        listing.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    /// Opens a regular file in the folder without following links.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        // Without NONBLOCK, opening a pipe would wait for a writer forever.
        let opened = self.open_beneath(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let status = fstat(&opened)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("not a regular file"));
        }
        if u64::try_from(status.st_size).map_or(true, |size| size > self.bytes) {
            return Err(io::Error::other(format!("more than {} bytes in a file of the output", self.bytes)));
        }
        Ok(File::from(opened))
    }

    /// Reads a regular file, at most up to the limit.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.take(self.bytes).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn kind(&self, path: &Path) -> io::Result<(FileType, u64)> {
        let opened = self.open_beneath(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let status = fstat(&opened)?;
        Ok((FileType::from_raw_mode(status.st_mode), u64::try_from(status.st_size).unwrap_or(u64::MAX)))
    }

    fn open_beneath(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        // NO_SYMLINKS would refuse even to open a link itself, which is needed to find out that it is one.
        if !flags.contains(OFlags::NOFOLLOW) {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        Ok(openat2(&self.folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)?)
    }
}

impl AsFd for Output {
    /// The folder. Callers that open paths below it must not follow links.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::Output;
    use crate::limits::Limits;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn output(folder: &Path, limits: &Limits) -> Output {
        Output::new(File::open(folder).expect("the folder").into(), limits)
    }

    #[test]
    fn links_and_pipes_are_never_opened() {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path().join("output");
        fs::create_dir_all(folder.join("a/b")).expect("folders");
        fs::write(temporary.path().join("secret"), "secret").expect("a secret");
        fs::write(folder.join("a/b/model.bin"), "model").expect("a file");
        for (target, link) in [("../secret", "one"), ("/etc/passwd", "two"), ("a", "three"), ("..", "four")] {
            symlink(target, folder.join(link)).expect("a link");
        }
        let pipe = folder.join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("a pipe");
        let output = output(&folder, &Limits::default());
        let listing = output.files().expect("a listing");
        assert_eq!(listing.files.iter().map(|f| f.path.as_path()).collect::<Vec<_>>(), [Path::new("a/b/model.bin")]);
        assert_eq!(listing.skipped, 5);
        for path in ["one", "two", "three/b/model.bin", "four/secret", "../secret", "/etc/passwd", "pipe", "a", ""] {
            assert!(output.read(Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(output.read(Path::new("a/b/model.bin")).expect("bytes"), b"model");
    }

    #[test]
    fn more_than_the_limit_is_an_error() {
        let temporary = tempfile::tempdir().expect("a folder");
        for name in ["a", "b"] {
            fs::write(temporary.path().join(name), [0; 10]).expect("a file");
        }
        let files = |bytes, files| {
            let limits = Limits { output_bytes: bytes, output_files: files, ..Limits::default() };
            output(temporary.path(), &limits).files().is_ok()
        };
        assert!(files(20, 2));
        assert!(!files(19, 2));
        assert!(!files(20, 1));
        let limits = Limits { output_bytes: 9, ..Limits::default() };
        assert!(output(temporary.path(), &limits).read(Path::new("a")).is_err());
    }
}
