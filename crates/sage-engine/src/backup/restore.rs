//! Restores a directory from a backup, behind a rollback fence.

use std::path::Path;

use bytes::Bytes;

use super::list::{BackupError, BackupManifest, create_empty_folder, digest, write_file};
use super::save::{fold_log, read_optional};
use crate::api::rollback_fence::fence;
use crate::api::{EngineError, EngineOptions};
use crate::blocks::BlockStore;
use crate::log::durable;

/// The name of the server's token file.
const TOKENS: &str = "tokens.json";

/// The text of the fence file.
const FENCE: &[u8] =
    b"This directory was restored from a backup. It grants nothing until an officer confirms that the \
original is out of service: sage restore --acknowledge\n";

/// How the tokens of a backup are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoredTokens {
    /// The tokens are revoked: a stolen one may be the reason for the restoration.
    Revoked,
    /// The tokens are valid as at the time of the backup, including those revoked since.
    Kept,
}

/// Restores a backup to a new directory, and verifies every file against the manifest. The directory grants nothing
/// until an officer acknowledges it.
///
/// # Errors
/// When the folder is not a complete backup, a file was changed, or the directory already exists.
pub fn restore(
    backup: &Path, path: &Path, options: &EngineOptions, tokens: RestoredTokens,
) -> Result<BackupManifest, EngineError> {
    let saved = BackupManifest::read(backup)?;
    // All files are verified before the first one is written.
    for file in &saved.files {
        read_verified(backup, &file.path, &file.digest)?;
    }
    create_empty_folder(path)?;
    let fence = fence(path);
    durable::replace(&fence, FENCE).map_err(|error| BackupError::File(fence, error))?;
    let blocks = BlockStore::open(&options.address(path))?;
    let mut parts = Vec::new();
    // Revoked tokens are never written, so that they are not valid at any moment.
    let left_out = |path: &str| path == "log.db" || (path == TOKENS && tokens == RestoredTokens::Revoked);
    for file in saved.files.iter().filter(|file| !left_out(&file.path)) {
        let bytes = read_verified(backup, &file.path, &file.digest)?;
        match file.path.strip_prefix("blocks/") {
            Some(part) => {
                blocks.write(part, Bytes::from(bytes))?;
                parts.push(part.to_owned());
            }
            None => write_file(path, &file.path, &bytes)?,
        }
    }
    blocks.sync(&parts)?;
    // The log is last: without it there is no directory, and with it there is a fence.
    for file in saved.files.iter().filter(|file| file.path == "log.db") {
        write_file(path, &file.path, &read_verified(backup, &file.path, &file.digest)?)?;
    }
    let (head, _) = fold_log(path)?;
    let same = head.length == saved.events && blake3::Hash::from(head.hash).to_hex().as_str() == saved.head;
    if same { Ok(saved) } else { Err(BackupError::Changed("log.db".to_owned()).into()) }
}

fn read_verified(backup: &Path, path: &str, known: &str) -> Result<Vec<u8>, BackupError> {
    let bytes = read_optional(&path.split('/').fold(backup.to_owned(), |path, name| path.join(name)))?;
    bytes.filter(|bytes| digest(bytes) == known).ok_or_else(|| BackupError::Changed(path.to_owned()))
}
