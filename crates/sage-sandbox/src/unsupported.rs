//! The sandbox on systems other than Linux: the same items, and every run is refused.
//!
//! Namespaces, seccomp and Landlock are parts of the Linux kernel. Nothing is run without them, and the message protocol
//! of runs without a sandbox uses Linux system calls too.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::command::{Containment, Observer, Run};
use crate::report::{Isolation, Listing, Report, RunError};

fn refusal() -> RunError {
    RunError::Invalid(
        "programs of pipelines run in a sandbox that needs Linux; run Sage on Linux, in a container or a virtual \
         machine, or use a built-in learner"
            .to_owned(),
    )
}

/// Does nothing: there are no setup stages on this system.
pub fn enter_if_requested() {}

/// Refuses every run on this system.
#[derive(Clone, Debug)]
pub struct Sandbox;

impl Sandbox {
    /// A sandbox that refuses every run.
    pub fn new(_: Containment) -> Self {
        Self
    }

    /// The same.
    pub fn with_program(_: Containment, _: PathBuf) -> Self {
        Self
    }

    /// Always the refusal.
    pub fn available(&self) -> Result<Isolation, RunError> {
        Err(refusal())
    }

    /// The path of the rows on the host.
    pub fn rows_path(&self, folder: &Path) -> PathBuf {
        folder.join("rows")
    }

    /// The path of the socket on the host.
    pub fn socket_path(&self, socket: &Path) -> PathBuf {
        socket.to_owned()
    }

    /// Always the refusal.
    pub fn run(&self, _: &Run, _: &mut dyn Observer) -> Result<Report, RunError> {
        Err(refusal())
    }
}

/// The output folder of a run. There is none on this system, so this type has no values.
#[derive(Debug)]
pub enum Output {}

impl Output {
    /// Lists the regular files.
    pub fn files(&self) -> io::Result<Listing> {
        match *self {}
    }

    /// Opens a regular file.
    pub fn open(&self, _: &Path) -> io::Result<File> {
        match *self {}
    }

    /// Reads a regular file.
    pub fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        match *self {}
    }
}
