//! The manifest of a backup, and the errors of backups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::log::durable;
use crate::private;

/// The version of the backup format.
const FORMAT: u32 = 1;

/// The file name of the manifest.
const MANIFEST: &str = "backup.json";

/// The manifest of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupManifest {
    format: u32,
    /// The time of the backup, in milliseconds since 1970.
    pub made: u64,
    /// The number of events in its log.
    pub events: u64,
    /// The hash of the last event, in hexadecimal.
    pub head: String,
    /// All files, including the log.
    pub files: Vec<BackupFile>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupFile {
    /// The relative path, separated by `/`.
    pub path: String,
    /// BLAKE3 of its bytes, in hexadecimal.
    pub digest: String,
}

/// Why a backup cannot be made or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The folder is not empty.
    #[error("{} is not empty, and nothing in it is overwritten; name a new folder", .0.display())]
    NotEmpty(PathBuf),
    /// The manifest is missing or of another format.
    #[error(
        "{} is not a complete backup that this release can read: its {manifest} is missing or invalid, as after an \
         interrupted backup; use another backup",
        .0.display(),
        manifest = MANIFEST
    )]
    NoBackup(PathBuf),
    /// A file of the backup differs from the manifest.
    #[error("{0} differs from the file that was saved; use another backup, nothing was restored")]
    Changed(String),
    /// A file that the log names is missing or changed.
    #[error("{0} is named in the log and missing or changed; find out more with: sage doctor")]
    Missing(String),
    /// The file system failed.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    File(PathBuf, #[source] io::Error),
}

impl BackupManifest {
    pub(super) const fn new(made: u64, events: u64, head: String, files: Vec<BackupFile>) -> Self {
        Self { format: FORMAT, made, events, head, files }
    }

    pub(super) fn read(folder: &Path) -> Result<Self, BackupError> {
        let none = || BackupError::NoBackup(folder.to_owned());
        let bytes = fs::read(folder.join(MANIFEST)).map_err(|_| none())?;
        let saved: Self = serde_json::from_slice(&bytes).map_err(|_| none())?;
        // Paths in a manifest consist of plain names. Anything else could escape the folder.
        let plain = |file: &BackupFile| {
            file.path.split('/').all(|name| !matches!(name, "" | "." | "..")) && !file.path.contains('\\')
        };
        if saved.format == FORMAT && saved.files.iter().all(plain) { Ok(saved) } else { Err(none()) }
    }

    /// Writes the manifest, after all other files.
    pub(super) fn write(&self, folder: &Path) -> Result<(), BackupError> {
        let path = folder.join(MANIFEST);
        let bytes = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        bytes.and_then(|bytes| durable::replace(&path, &bytes)).map_err(|error| BackupError::File(path, error))
    }
}

/// The digest of bytes, as in the manifest.
pub(super) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Creates a folder that only its owner can read, and refuses one that is not empty.
pub(super) fn create_empty_folder(folder: &Path) -> Result<(), BackupError> {
    let failed = |error| BackupError::File(folder.to_owned(), error);
    durable::make_directory(folder).map_err(failed)?;
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(BackupError::NotEmpty(folder.to_owned()));
    }
    private::restrict_directory(folder).map_err(failed)
}

/// Writes a file that only its owner can read, durably, and creates its parent folders.
pub(super) fn write_file(folder: &Path, path: &str, bytes: &[u8]) -> Result<(), BackupError> {
    let target = path.split('/').fold(folder.to_owned(), |path, name| path.join(name));
    let write = || {
        if let Some(above) = target.parent() {
            durable::make_directory(above)?;
        }
        durable::replace(&target, bytes)
    };
    write().map_err(|error| BackupError::File(target.clone(), error))
}

/// The paths of all files below a folder, sorted; none if it does not exist. Links are not followed.
pub(super) fn files_below(root: &Path, folder: &str) -> Result<Vec<String>, BackupError> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        let directory = root.join(&folder);
        let failed = |error| BackupError::File(directory.clone(), error);
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let (path, kind) = (format!("{folder}/{name}"), entry.file_type().map_err(failed)?);
            if kind.is_dir() {
                pending.push(path);
            } else if kind.is_file() && !name.ends_with(".new") {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}
