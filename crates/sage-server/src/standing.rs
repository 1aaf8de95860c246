//! Read-only mode after a failed write, and recovery from it.
//!
//! After a failed write the log does nothing more until it is reopened, because it is not known what is on the disk.
//! The server is then read-only: reads and predictions work, and every change is refused with the reason. As soon as
//! a file can be written and flushed again, the directory is reopened, its log is verified, and changes are accepted
//! again. No charge is decided in between.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use sage_engine::{Engine, private};

use crate::diagnostics::note;
use crate::directory::{Directory, DirectoryError};
use crate::problem::Problem;

/// Why the directory was not reopened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    /// The disk does not accept writes.
    #[error("nothing can be written yet: {0}; free space on the disk")]
    NotWritable(#[source] io::Error),
    /// Requests still use the engine.
    #[error("requests are still under way; it is tried again")]
    InUse,
    /// The directory cannot be opened.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// The engine, and the failure that keeps it from writing.
pub(crate) struct Standing {
    /// `None` while the directory is reopened.
    engine: RwLock<Option<Arc<Engine>>>,
    trouble: Mutex<Option<String>>,
}

impl Standing {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine: RwLock::new(Some(Arc::new(engine))), trouble: Mutex::default() }
    }

    /// The engine, for the duration of a request.
    pub(crate) fn engine(&self) -> Result<Arc<Engine>, Problem> {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner).clone();
        engine.ok_or_else(|| Problem::busy("the directory is being reopened after a failed write; try again"))
    }

    /// Records that a write has failed. The first reason is kept.
    pub(crate) fn fails(&self, reason: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.is_none() {
            note(&format!("only reading from now on: {reason}"));
            *trouble = Some(reason.to_owned());
        }
    }

    /// Whether a write has failed.
    pub(crate) fn is_troubled(&self) -> bool {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Refuses changes while nothing can be written.
    pub(crate) fn writable(&self) -> Result<(), Problem> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.as_ref().map_or(Ok(()), |reason| {
            Err(Problem::busy(format!(
                "{}, so nothing is changed or granted; what is there can be read, and changes are taken again by \
                 themselves as soon as there is space on the disk",
                if is_full(reason) { "the disk of the server is full" } else { "the server cannot write to its disk" }
            )))
        })
    }

    /// Reopens the directory once its disk accepts writes.
    pub(crate) fn restore(&self, directory: &Directory) -> Result<(), RestoreError> {
        probe(&directory.path).map_err(RestoreError::NotWritable)?;
        let old = self.engine.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(old) = old
            && let Err(shared) = released(old)
        {
            *self.engine.write().unwrap_or_else(PoisonError::into_inner) = Some(shared);
            return Err(RestoreError::InUse);
        }
        let engine = directory.open()?;
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(engine));
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
        note("written again; changes are taken as before");
        Ok(())
    }

    /// The engine, if no request uses it.
    pub(crate) fn into_engine(self) -> Option<Engine> {
        self.engine.into_inner().unwrap_or_else(PoisonError::into_inner).and_then(Arc::into_inner)
    }
}

/// Waits until no request uses the engine, and drops it.
fn released(mut engine: Arc<Engine>) -> Result<(), Arc<Engine>> {
    let began = Instant::now();
    loop {
        match Arc::try_unwrap(engine) {
            Ok(_) => return Ok(()),
            Err(shared) if began.elapsed() > Duration::from_secs(20) => return Err(shared),
            Err(shared) => engine = shared,
        }
        sleep(Duration::from_millis(10));
    }
}

/// Whether the reason is a full disk.
fn is_full(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    ["full", "no space", "too large", "quota", "disk i/o"].iter().any(|word| reason.contains(word))
}

/// Writes and flushes a file of the size that the next events of the log need, and removes it.
fn probe(directory: &Path) -> io::Result<()> {
    let path = directory.join("space.new");
    let written = private::create(&path).and_then(|mut file| {
        file.write_all(&[0; 256 << 10])?;
        file.sync_all()
    });
    let removed = fs::remove_file(&path);
    written.and(removed)
}
