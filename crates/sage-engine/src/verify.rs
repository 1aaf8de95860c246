//! Verification for an auditor: the hash chain, the exported heads and every stored file, without changing anything.
//!
//! A snapshot of the log is read from its first record, so that a server may continue meanwhile. Findings that only the
//! owner of the directory can judge, such as files that no event names yet, are then left out.

use std::path::{Path, PathBuf};

use sage_kernel::Head;

use crate::api::rollback_fence::fence;
use crate::api::{EngineError, EngineOptions};
use crate::doctor::{Doctor, Finding};
use crate::log::{Directory, ExportedHead, Heads, LogCopy};

/// The result of a verification.
#[derive(Clone, Debug, PartialEq)]
pub struct Verification {
    /// The log head. Every record up to it was verified.
    pub head: Head,
    /// The exported heads, and whether the log contains them.
    pub heads: Vec<(PathBuf, ExportedHead, bool)>,
    /// The number of files that were compared with their digests.
    pub files: usize,
    /// The problems found.
    pub findings: Vec<Finding>,
    /// Whether a process uses the directory.
    pub in_use: bool,
    /// Whether the directory was restored and waits for an officer's acknowledgement.
    pub fenced: bool,
}

impl Verification {
    /// Whether no problem was found.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.heads.iter().all(|(.., matches)| *matches)
    }
}

/// Verifies a directory.
///
/// # Errors
/// When there is no log, or its hash chain is broken.
pub fn verify(path: &Path, options: &EngineOptions) -> Result<Verification, EngineError> {
    let in_use = Directory::is_in_use(path);
    let copy = LogCopy::create(path)?;
    let doctor = Doctor::examine_copy(copy.path(), path, options)?;
    let heads = Heads::new(options.heads.clone(), std::num::NonZeroU64::MAX, path).compare(doctor.gate())?;
    let ours = |finding: &&Finding| !(in_use && finding.is_repairable());
    Ok(Verification {
        head: doctor.head(),
        heads,
        files: doctor.files(),
        findings: doctor.findings().iter().filter(ours).cloned().collect(),
        in_use,
        fenced: fence(path).exists(),
    })
}
