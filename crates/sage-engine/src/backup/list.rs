//! The list of a backup's files, and why there is none.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::log::durable;
use crate::private;

/// The format of a backup.
const FORMAT: u32 = 1;

/// The name of the list.
const LIST: &str = "backup.json";

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    format: u32,
    /// When it was made, in milliseconds since 1970.
    pub made: u64,
    /// How many events its log has.
    pub events: u64,
    /// The hash of the last, in hexadecimal.
    pub head: String,
    /// Its files, the log among them.
    pub files: Vec<SavedFile>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedFile {
    /// Where it lies, by names with `/` between them.
    pub path: String,
    /// BLAKE3 of its bytes, in hexadecimal.
    pub digest: String,
}

/// Why a backup cannot be made or is not what was made.
#[derive(Debug)]
#[non_exhaustive]
pub enum BackupError {
    /// The folder is there and not empty.
    NotEmpty(PathBuf),
    /// There is no list, or one of another release.
    NoBackup(PathBuf),
    /// A file is not the one that is in the list.
    Changed(String),
    /// A file that the log names is gone, or is another one.
    Missing(String),
    /// The file system failed.
    File(PathBuf, io::Error),
}

impl fmt::Display for BackupError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEmpty(path) => {
                write!(out, "{} is not empty, and nothing in it is overwritten; name a new folder", path.display())
            }
            Self::NoBackup(path) => write!(
                out,
                "{} is no backup that this release knows: its {LIST} is missing or of another form, as when making it \
                 was interrupted",
                path.display()
            ),
            Self::Changed(file) => {
                write!(out, "{file} is not the file that was saved; use another backup, nothing was restored")
            }
            Self::Missing(file) => {
                write!(out, "{file} is named in the log and is gone or changed; see what is wrong with: sage doctor")
            }
            Self::File(path, error) => write!(out, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for BackupError {}

impl Saved {
    pub(super) const fn new(made: u64, events: u64, head: String, files: Vec<SavedFile>) -> Self {
        Self { format: FORMAT, made, events, head, files }
    }

    pub(super) fn read(folder: &Path) -> Result<Self, BackupError> {
        let none = || BackupError::NoBackup(folder.to_owned());
        let bytes = fs::read(folder.join(LIST)).map_err(|_| none())?;
        let saved: Self = serde_json::from_slice(&bytes).map_err(|_| none())?;
        // A path is only ever put together from the names of our own folders.
        let plain = |file: &SavedFile| {
            file.path.split('/').all(|name| !matches!(name, "" | "." | "..")) && !file.path.contains('\\')
        };
        if saved.format == FORMAT && saved.files.iter().all(plain) { Ok(saved) } else { Err(none()) }
    }

    /// Writes the list, last of all.
    pub(super) fn write(&self, folder: &Path) -> Result<(), BackupError> {
        let path = folder.join(LIST);
        let bytes = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        bytes.and_then(|bytes| durable::replace(&path, &bytes)).map_err(|error| BackupError::File(path, error))
    }
}

/// The digest of bytes as the list has it.
pub(super) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Makes a folder that nobody else can look into, and refuses one with something in it.
pub(super) fn new_folder(folder: &Path) -> Result<(), BackupError> {
    let failed = |error| BackupError::File(folder.to_owned(), error);
    durable::make_directory(folder).map_err(failed)?;
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(BackupError::NotEmpty(folder.to_owned()));
    }
    private::restrict_directory(folder).map_err(failed)
}

/// Writes a file that only its owner can read, durably, with the folders above it.
pub(super) fn put(folder: &Path, path: &str, bytes: &[u8]) -> Result<(), BackupError> {
    let place = path.split('/').fold(folder.to_owned(), |place, name| place.join(name));
    let write = || {
        if let Some(above) = place.parent() {
            durable::make_directory(above)?;
        }
        durable::replace(&place, bytes)
    };
    write().map_err(|error| BackupError::File(place.clone(), error))
}

/// The files below a folder by their paths in it, in order; none if it is not there. Links are not followed.
pub(super) fn files_below(root: &Path, folder: &str) -> Result<Vec<String>, BackupError> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let place = root.join(&folder);
        let failed = |error| BackupError::File(place.clone(), error);
        let entries = match fs::read_dir(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let (path, kind) = (format!("{folder}/{name}"), entry.file_type().map_err(failed)?);
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() && !name.ends_with(".new") {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}
