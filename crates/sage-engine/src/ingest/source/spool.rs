//! A pipe whose format is read from its end is first taken up by a file.
//!
//! The file has no name by the time the first byte is written, so that it is gone with the process however that
//! ends, and it can only be read by its owner. It must never grow without a limit: a pipe may have no end.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::unreadable;
use crate::ingest::error::IngestError;
use crate::private;

/// The most that is taken up.
const LIMIT: u64 = 16 << 30;

/// Where pipes are taken up.
pub(in crate::ingest) struct Spool {
    folder: PathBuf,
    limit: u64,
}

impl Spool {
    /// Files in this folder, which should be where there is room for as much as comes in.
    pub(in crate::ingest) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), limit: LIMIT }
    }

    /// A file with everything that comes through the pipe.
    pub(super) fn take(&self, file: &str, bytes: Box<dyn Read + Send>) -> Result<File, IngestError> {
        let mut spooled = self.file().map_err(|error| self.failed(&error))?;
        let mut read = Watched { bytes, error: None };
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

    fn file(&self) -> io::Result<File> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!(".spool-{}-{number}", std::process::id()));
        private::create_unnamed(&path)
    }

    fn failed(&self, error: &io::Error) -> IngestError {
        unreadable(&self.folder.display().to_string(), error)
    }
}

/// A reader that remembers whether it was the one that failed.
struct Watched {
    bytes: Box<dyn Read + Send>,
    error: Option<io::Error>,
}

impl Read for Watched {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(out).inspect_err(|error| self.error = Some(error.kind().into()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Seek};

    use super::*;

    fn take(limit: u64, bytes: Box<dyn Read + Send>) -> (tempfile::TempDir, Result<File, IngestError>) {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool { folder: folder.path().to_owned(), limit };
        let taken = spool.take("standard input", bytes);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left there");
        (folder, taken)
    }

    #[test]
    fn what_fits_is_there_and_has_no_name() {
        let (_folder, taken) = take(4, Box::new(&b"rows"[..]));
        let mut file = taken.expect("it fits");
        let mut found = String::new();
        file.rewind().expect("a file");
        file.read_to_string(&mut found).expect("a file");
        assert_eq!(found, "rows");
    }

    #[test]
    fn a_pipe_without_an_end_is_refused() {
        let (_folder, taken) = take(1 << 20, Box::new(io::repeat(7)));
        assert!(matches!(taken, Err(IngestError::NeedsFile { .. })));
    }

    #[test]
    fn a_pipe_that_breaks_is_named_and_so_is_a_folder_that_is_not_there() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
        let (_folder, taken) = take(9, Box::new(Broken));
        assert!(matches!(taken, Err(IngestError::Unreadable { file, .. }) if file == "standard input"));
        let spool = Spool::new(Path::new("no such folder"));
        let taken = spool.take("standard input", Box::new(&b"rows"[..]));
        assert!(matches!(taken, Err(IngestError::Unreadable { file, .. }) if file == "no such folder"));
    }
}
