//! The artifact store: a folder per release, named by its digest, and the reports of attempts.

use std::fmt;
use std::path::Path;

use bytes::Bytes;
use sage_model::bundle::Bundle;

use super::artefact::{self, Artefact, STATISTIC};
use crate::blocks::{BlockStore, StoreError};
use crate::run::{ReleasedStatistic, Report};

/// Why a release cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ArtifactStoreError {
    /// The store failed, or a file is gone.
    Store(StoreError),
    /// The files differ from those that were released.
    Changed(String),
}

impl fmt::Display for ArtifactStoreError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(out),
            Self::Changed(digest) => {
                write!(out, "the files of release {digest} were changed after the release; restore them from a backup")
            }
        }
    }
}

impl std::error::Error for ArtifactStoreError {}

impl From<StoreError> for ArtifactStoreError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The store of releases and reports.
pub(crate) struct ArtifactStore {
    store: BlockStore,
}

impl ArtifactStore {
    /// Opens the artifact store of a directory.
    pub(crate) fn open(directory: &Path) -> Result<Self, StoreError> {
        Ok(Self { store: BlockStore::local(directory.join("releases"))? })
    }

    /// Stores a release durably. It is not visible before the log names it.
    pub(crate) fn put(&self, artefact: &Artefact) -> Result<(), StoreError> {
        let path = |name: &String| format!("{}/{name}", artefact.digest);
        artefact.files.iter().try_for_each(|(name, bytes)| self.store.write(&path(name), bytes.clone()))?;
        self.store.sync(&artefact.files.iter().map(|(name, _)| path(name)).collect::<Vec<_>>())
    }

    /// The files of a release by name.
    pub(crate) fn files(&self, digest: &str) -> Result<Vec<(String, Bytes)>, StoreError> {
        let folder = format!("{digest}/");
        let paths = self.store.list(digest)?.into_iter().filter(|path| path.starts_with(&folder));
        paths.map(|path| Ok((path[folder.len()..].to_owned(), self.store.read(&path)?))).collect()
    }

    /// Reads a model and verifies its digest.
    pub(crate) fn model(&self, digest: &str) -> Result<Bundle, ArtifactStoreError> {
        let files = self.files(digest)?.into_iter().map(|(name, bytes)| (name, bytes.to_vec())).collect();
        Bundle::read_vouched(files, digest).map_err(|_| ArtifactStoreError::Changed(digest.to_owned()))
    }

    /// Reads a statistic and verifies its digest.
    pub(crate) fn statistic(&self, digest: &str) -> Result<ReleasedStatistic, ArtifactStoreError> {
        let files = self.files(digest)?;
        let vouched = files.iter().filter(|_| artefact::digest(artefact::named(&files)).to_string() == digest);
        let text = vouched.into_iter().find(|(name, _)| name == STATISTIC).map(|(_, bytes)| bytes);
        let read = text.and_then(|text| serde_json::from_slice(text).ok());
        read.ok_or_else(|| ArtifactStoreError::Changed(digest.to_owned()))
    }

    /// Stores the report of an attempt until the log has it.
    pub(crate) fn put_report(&self, report: &Report) -> Result<(), StoreError> {
        self.store.put(&path(report.digest()), Bytes::from(report.to_bytes()))
    }

    /// The report with this digest, if it is stored.
    pub(crate) fn report(&self, digest: [u8; 32]) -> Option<Report> {
        let bytes = self.store.read(&path(digest)).ok()?;
        let vouched = *blake3::hash(&bytes).as_bytes() == digest;
        vouched.then(|| serde_json::from_slice(&bytes).ok()).flatten()
    }

    /// All paths in the store.
    pub(crate) fn list(&self) -> Result<Vec<String>, StoreError> {
        self.store.list("")
    }

    /// Deletes a file that no event names.
    pub(crate) fn delete(&self, path: &str) -> Result<(), StoreError> {
        self.store.delete(path)
    }

    /// The path of a stored report.
    pub(crate) fn report_path(digest: [u8; 32]) -> String {
        path(digest)
    }
}

fn path(digest: [u8; 32]) -> String {
    format!("reports/{}.json", blake3::Hash::from(digest).to_hex())
}
