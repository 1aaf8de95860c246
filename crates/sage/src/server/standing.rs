//! Whether things can be written, and how that comes back.
//!
//! After a write that failed the log does nothing more until it is opened anew, because nobody knows what is on the
//! disk. The server then only reads: what there is can be looked at and models can be asked, and every change is
//! refused with the reason. As soon as a file can be written and flushed again, the directory is opened anew, its log
//! verified, and changes are taken as before. No charge is decided in between.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use sage_engine::{Engine, private};

use super::problem::Problem;
use crate::failure::Failure;
use crate::output::tell;

/// The engine, and what keeps it from writing.
pub(super) struct Standing {
    /// Nothing while the directory is opened anew.
    engine: RwLock<Option<Arc<Engine>>>,
    trouble: Mutex<Option<String>>,
}

impl Standing {
    pub(super) fn new(engine: Engine) -> Self {
        Self { engine: RwLock::new(Some(Arc::new(engine))), trouble: Mutex::default() }
    }

    /// The engine, for as long as a request takes.
    pub(super) fn engine(&self) -> Result<Arc<Engine>, Problem> {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner).clone();
        engine.ok_or_else(|| Problem::busy("the directory is being opened anew after a failed write; try again"))
    }

    /// Notes that a write has failed. The first reason is the one that counts.
    pub(super) fn fails(&self, reason: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.is_none() {
            tell(&format!("only reading from now on: {reason}"));
            *trouble = Some(reason.to_owned());
        }
    }

    /// Whether a write has failed.
    pub(super) fn is_troubled(&self) -> bool {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Refuses changes while nothing can be written.
    pub(super) fn writable(&self) -> Result<(), Problem> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.as_ref().map_or(Ok(()), |reason| {
            Err(Problem::busy(format!(
                "{}, so nothing is changed or granted; what is there can be read, and changes are taken again by \
                 themselves as soon as there is room to write",
                if is_full(reason) { "the disk of the server is full" } else { "the server cannot write to its disk" }
            )))
        })
    }

    /// Opens the directory anew, if its disk takes what is written.
    pub(super) fn restore(&self, directory: &Path, open: impl Fn() -> Result<Engine, Failure>) -> Result<(), Failure> {
        probe(directory).map_err(|error| {
            Failure::no_answer(format!("nothing can be written yet: {error}"), "make room on the disk")
        })?;
        let old = self.engine.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(old) = old
            && let Err(shared) = released(old)
        {
            *self.engine.write().unwrap_or_else(PoisonError::into_inner) = Some(shared);
            return Err(Failure::no_answer("requests are still under way", "it is tried again"));
        }
        let engine = open()?;
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(engine));
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
        tell("written again; changes are taken as before");
        Ok(())
    }

    /// The engine at the end, if nobody else has it.
    pub(super) fn into_engine(self) -> Option<Engine> {
        self.engine.into_inner().unwrap_or_else(PoisonError::into_inner).and_then(Arc::into_inner)
    }
}

/// Waits until nobody else uses the engine, and lets it go.
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

/// Whether a reason is that there is no room.
fn is_full(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    ["full", "no space", "too large", "quota", "disk i/o"].iter().any(|word| reason.contains(word))
}

/// Writes and flushes as much as the next steps of the log need, and takes it away again.
fn probe(directory: &Path) -> io::Result<()> {
    let path = directory.join("room.new");
    let written = private::create(&path).and_then(|mut file| {
        file.write_all(&[0; 256 << 10])?;
        file.sync_all()
    });
    let removed = fs::remove_file(&path);
    written.and(removed)
}
