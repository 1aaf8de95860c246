//! Spooling of a pipe to a temporary file, for formats that are read from their end.
//!
//! The file is unlinked before the first byte is written, so it disappears with the process however that ends. Only its
//! owner can read it. Its size has a limit, because a pipe may never end.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::unreadable;
use crate::ingest::error::IngestError;
use crate::private;

/// The most bytes of a spooled pipe.
const LIMIT: u64 = 16 << 30;

/// Spools pipes to files in a folder.
pub(in crate::ingest) struct Spool {
    folder: PathBuf,
    limit: u64,
}

impl Spool {
    /// Spools to files in this folder, whose disk should have space for the whole input.
    pub(in crate::ingest) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), limit: LIMIT }
    }

    /// Copies a pipe to its end into a file.
    pub(super) fn store(&self, file: &str, bytes: Box<dyn Read + Send>) -> Result<File, IngestError> {
        let mut spooled = self.create_file().map_err(|error| self.failed(&error))?;
        let mut read = PipeReader { bytes, error: None };
        let copied = io::copy(&mut (&mut read).take(self.limit + 1), &mut spooled);
        match (copied, read.error) {
            (_, Some(error)) => Err(unreadable(file, &error)),
            (Err(error), None) => Err(self.failed(&error)),
            (Ok(count), None) if count > self.limit => {
                Err(IngestError::NeedsFile { file: file.to_owned(), gibibytes: self.limit >> 30 })
            }
            (Ok(_), None) => Ok(spooled),
        }
    }

    fn create_file(&self) -> io::Result<File> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!(".spool-{}-{number}", std::process::id()));
        private::create_unnamed(&path)
    }

    fn failed(&self, error: &io::Error) -> IngestError {
        unreadable(&self.folder.display().to_string(), error)
    }
}

/// A reader that keeps its error, so that a failure of the pipe can be distinguished from one of the file.
struct PipeReader {
    bytes: Box<dyn Read + Send>,
    error: Option<io::Error>,
}

impl Read for PipeReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(out).inspect_err(|error| self.error = Some(error.kind().into()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Seek};

    use super::*;

    fn store(limit: u64, bytes: Box<dyn Read + Send>) -> (tempfile::TempDir, Result<File, IngestError>) {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool { folder: folder.path().to_owned(), limit };
        let stored = spool.store("standard input", bytes);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "no file remains in the folder");
        (folder, stored)
    }

    #[test]
    fn a_pipe_within_the_limit_is_stored_in_an_unnamed_file() {
        let (_folder, stored) = store(4, Box::new(&b"rows"[..]));
        let mut file = stored.expect("within the limit");
        let mut found = String::new();
        file.rewind().expect("a file");
        file.read_to_string(&mut found).expect("a file");
        assert_eq!(found, "rows");
    }

    #[test]
    fn an_endless_pipe_is_refused() {
        let (_folder, stored) = store(1 << 20, Box::new(io::repeat(7)));
        assert!(matches!(stored, Err(IngestError::NeedsFile { .. })));
    }

    #[test]
    fn errors_name_the_broken_pipe_or_the_missing_folder() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
        let (_folder, stored) = store(9, Box::new(Broken));
        assert!(matches!(stored, Err(IngestError::Unreadable { file, .. }) if file == "standard input"));
        let spool = Spool::new(Path::new("no such folder"));
        let stored = spool.store("standard input", Box::new(&b"rows"[..]));
        assert!(matches!(stored, Err(IngestError::Unreadable { file, .. }) if file == "no such folder"));
    }
}
