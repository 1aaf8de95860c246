//! Verification for an auditor: the chain, the exported heads and every stored file, without changing anything.
//!
//! The log is copied as it is at one moment and the copy is read from its first record, so that a server may go on
//! meanwhile. What only its owner can tell, such as files that no event names yet, is left out then.

use std::path::{Path, PathBuf};

use sage_kernel::Head;

use crate::api::rollback_fence::fence;
use crate::api::{EngineError, Places};
use crate::doctor::{Doctor, Finding};
use crate::log::{Directory, Heads, KnownHead, LogCopy};

/// What was verified, and what was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// Where the log ends. Every record up to here was verified.
    pub head: Head,
    /// The exported heads, and whether the log holds them.
    pub heads: Vec<(PathBuf, ExportedHead, bool)>,
    /// How many files were held against their digests.
    pub files: usize,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
    /// Whether a process is working on the directory.
    pub in_use: bool,
    /// Whether the directory was restored and waits for an officer.
    pub fenced: bool,
}

impl Verified {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.heads.iter().all(|(.., held)| *held)
    }
}

/// Verifies a directory.
///
/// # Errors
/// When there is no log, or it is not what was written.
pub fn verify(path: &Path, places: &Places) -> Result<Verified, EngineError> {
    let in_use = Directory::is_in_use(path);
    let copy = LogCopy::create(path)?;
    let doctor = Doctor::examine_copy(copy.path(), path, places)?;
    let heads = Heads::new(places.heads.clone(), std::num::NonZeroU64::MAX, path).compare(doctor.gate())?;
    let ours = |finding: &&Finding| !(in_use && finding.is_repairable());
    Ok(Verified {
        head: doctor.head(),
        heads,
        files: doctor.files(),
        findings: doctor.findings().iter().filter(ours).cloned().collect(),
        in_use,
        fenced: fence(path).exists(),
    })
}
