//! The doctor: compares the store with the log in both directions, and verifies the log itself.
//!
//! An examination changes nothing. A repair removes files that no event names and burns grants that no process can be
//! using. It must never touch a file that the log names, and cannot recover a missing one.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use sage_kernel::{Gate, GrantId, Head};

use crate::api::{EngineError, EngineOptions, now};
use crate::blocks::{BlockStore, StoreError, SummaryCache, parts_digest};
use crate::catalog::{AttemptEnd, Catalog, Note, NoteCollector, Stage};
use crate::log::{BoxedLog, Directory, has_head_key};
use crate::release::{ArtifactStore, Kind};

/// A problem in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// The log names a file that is not in the store.
    Missing(String),
    /// A file in the store differs from the one that the log names.
    Changed(String),
    /// No event names the file, as after a crash during ingest or deletion.
    Orphan(String),
    /// A grant was started by a process that is gone.
    Running(GrantId),
    /// The ledger has a stream that no note describes.
    Undescribed(String),
    /// The files of a release are missing or changed.
    Release(String),
    /// No event names the file of a release, as after a crash during a release.
    Unreleased(String),
    /// Cached block summaries that are damaged, or whose block is deleted, unknown or changed.
    Sums(String),
}

impl Finding {
    /// Whether a repair resolves the problem.
    pub const fn is_repairable(&self) -> bool {
        matches!(self, Self::Orphan(_) | Self::Running(_) | Self::Unreleased(_) | Self::Sums(_))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(
                out,
                "{path} is named in the log and missing from the store; restore it from a backup, or retire its block"
            ),
            Self::Changed(path) => {
                write!(
                    out,
                    "{path} differs from the file that was ingested; restore it from a backup, or retire its block"
                )
            }
            Self::Orphan(path) => write!(out, "{path} is not named in the log; --repair removes it"),
            Self::Running(GrantId(grant)) => {
                write!(
                    out,
                    "grant {grant} was started by a process that is gone; --repair burns it, and so does the next start"
                )
            }
            Self::Release(name) => {
                write!(out, "the files of release {name} are missing or changed; restore them from a backup")
            }
            Self::Unreleased(path) => {
                write!(out, "releases/{path} belongs to no release in the log; --repair removes it")
            }
            Self::Sums(path) => {
                write!(
                    out,
                    "sums/{path} does not match a block in the log; --repair removes it, and the summaries are \
                     computed again when needed"
                )
            }
            Self::Undescribed(stream) => {
                write!(out, "stream \"{stream}\" has no file in the log; compare the log with a copy")
            }
        }
    }
}

/// An examined directory.
pub struct Doctor {
    gate: Gate<NoteCollector<BoxedLog>>,
    catalog: Catalog,
    blocks: BlockStore,
    artifacts: ArtifactStore,
    sums: SummaryCache,
    findings: Vec<Finding>,
    /// The number of block files that were compared with their digests.
    files: usize,
    head_exported: bool,
    /// Holds the lock of the directory.
    _directory: Directory,
}

impl Doctor {
    /// Verifies the log from its first record, and every file that it names.
    ///
    /// # Errors
    /// When there is no such directory, another process uses it, or its hash chain is broken.
    pub fn examine(path: &Path, options: &EngineOptions) -> Result<Self, EngineError> {
        if !path.join("log.db").exists() {
            let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no log here");
            return Err(EngineError::File(path.display().to_string(), missing));
        }
        Self::examine_copy(path, path, options)
    }

    /// As [`Doctor::examine`], with a log in another folder.
    pub(crate) fn examine_copy(log: &Path, path: &Path, options: &EngineOptions) -> Result<Self, EngineError> {
        let directory = Directory::open(log)?;
        let gate = Gate::open(NoteCollector::new(directory.log()?))?;
        let mut catalog = Catalog::default();
        for (number, kind, body) in gate.log().take_below(gate.head().length) {
            if kind == Note::KIND {
                let applied = Note::from_bytes(&body).map(|note| catalog.apply(note));
                applied.and_then(Result::ok).ok_or(EngineError::Catalog { number })?;
            }
        }
        let blocks = BlockStore::open(&options.address(path))?;
        let artifacts = ArtifactStore::open(path)?;
        let sums = SummaryCache::open(path)?;
        let (findings, files) = (Vec::new(), 0);
        // The signing key is created with the first exported head.
        let head_exported = has_head_key(path);
        let mut doctor =
            Self { gate, catalog, blocks, artifacts, sums, findings, files, head_exported, _directory: directory };
        doctor.inspect()?;
        Ok(doctor)
    }

    /// The log head. Every record up to it was verified.
    pub const fn head(&self) -> Head {
        self.gate.head()
    }

    /// Whether a head of this log was ever exported. If not, a log that was truncated, or rewritten with a new hash
    /// chain, cannot be distinguished from the original.
    pub const fn head_was_exported(&self) -> bool {
        self.head_exported
    }

    /// The number of block files that were compared with their digests.
    pub const fn files(&self) -> usize {
        self.files
    }

    pub(crate) const fn gate(&self) -> &Gate<NoteCollector<BoxedLog>> {
        &self.gate
    }

    /// The problems found.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn inspect(&mut self) -> Result<(), EngineError> {
        let mut named = BTreeSet::new();
        let mut findings = Vec::new();
        for (name, stream) in self.catalog.streams() {
            let parts = stream.blocks.values().flat_map(|block| &block.parts);
            for part in parts.chain(stream.quarantine.iter().map(|own| &own.part)) {
                let path = part.path(name);
                match self.blocks.read(&path) {
                    Ok(bytes) if *blake3::hash(&bytes).as_bytes() == part.digest => {}
                    Ok(_) => findings.push(Finding::Changed(path.clone())),
                    Err(StoreError::Absent(_)) => findings.push(Finding::Missing(path.clone())),
                    Err(error) => return Err(error.into()),
                }
                named.insert(path);
            }
        }
        self.files = named.len();
        let stored = self.blocks.list("")?;
        findings.extend(stored.into_iter().filter(|path| !named.contains(path)).map(Finding::Orphan));
        findings.extend(self.gate.ledger().running().map(Finding::Running));
        self.inspect_releases(&mut findings)?;
        self.inspect_summaries(&mut findings)?;
        let streams = (0..).map_while(|index| self.gate.ledger().stream(sage_kernel::StreamId(index)));
        let undescribed = streams.map(|stream| stream.name()).filter(|name| self.catalog.stream(name).is_none());
        findings.extend(undescribed.map(|name| Finding::Undescribed(name.to_owned())));
        self.findings = findings;
        Ok(())
    }

    /// Checks that the files of every release are unchanged, and that the artifact store has no other files, except
    /// reports that are also in a note.
    fn inspect_releases(&self, findings: &mut Vec<Finding>) -> Result<(), EngineError> {
        let mut digests = BTreeSet::new();
        for (name, version, release) in self.catalog.history().releases() {
            let sound = match release.kind {
                Kind::Model => self.artifacts.model(&release.digest).is_ok(),
                Kind::Statistic => self.artifacts.statistic(&release.digest).is_ok(),
            };
            if !sound {
                findings.push(Finding::Release(format!("{name}@{version}")));
            }
            digests.insert(release.digest.as_str());
        }
        let attempts = self.catalog.history().runs().flat_map(|(_, run)| &run.attempts);
        let reports: BTreeSet<String> = attempts
            .filter_map(|one| match &one.end {
                Some(AttemptEnd::Judged(report)) => Some(ArtifactStore::report_path(report.digest())),
                _ => None,
            })
            .collect();
        for path in self.artifacts.list()? {
            let folder = path.split('/').next().unwrap_or_default();
            if !digests.contains(folder) && !reports.contains(&path) {
                findings.push(Finding::Unreleased(path));
            }
        }
        Ok(())
    }

    /// Checks that cached summaries belong to existing blocks in their current state.
    fn inspect_summaries(&self, findings: &mut Vec<Finding>) -> Result<(), EngineError> {
        for path in self.sums.list()? {
            let owner = SummaryCache::owner(&path);
            let stream = owner.and_then(|(stream, block)| Some((self.catalog.stream(stream)?, block)));
            let block = stream.and_then(|(stream, block)| stream.blocks.get(block));
            let parts = block.filter(|block| block.stage != Stage::Deleted).map(|block| parts_digest(&block.parts));
            let locked = parts.is_some() && self.sums.is_locked(&path);
            if !locked && (parts.is_none() || parts != self.sums.source(&path)) {
                findings.push(Finding::Sums(path));
            }
        }
        Ok(())
    }

    /// Removes files that no event names, and burns grants that no process can be using. Returns the remaining
    /// findings, which need a person.
    ///
    /// # Errors
    /// When the store or the log fails; the next examination finds what was not repaired.
    pub fn repair(mut self) -> Result<Vec<Finding>, EngineError> {
        for finding in &self.findings {
            match finding {
                Finding::Orphan(path) => self.blocks.delete(path)?,
                Finding::Unreleased(path) => self.artifacts.delete(path)?,
                Finding::Sums(path) => self.sums.delete(path)?,
                Finding::Running(grant) => self.gate.burn(now(), *grant)?,
                _ => {}
            }
        }
        Ok(self.findings.into_iter().filter(|finding| !finding.is_repairable()).collect())
    }
}
