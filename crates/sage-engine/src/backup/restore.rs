//! A directory is made from a backup, behind a fence.

use std::path::Path;

use bytes::Bytes;

use super::list::{BackupError, Saved, digest, new_folder, put};
use super::save::{folded, read};
use crate::api::rollback_fence::fence;
use crate::api::{EngineError, Places};
use crate::blocks::BlockStore;
use crate::log::durable;

/// The file of the server's tokens.
const TOKENS: &str = "tokens.json";

/// What the fence says to whoever opens it.
const FENCE: &[u8] =
    b"This directory was restored from a backup. It grants nothing until an officer has said that the \
original is out of service: sage restore --acknowledge\n";

/// What becomes of the tokens that a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoredTokens {
    /// They do not count any more: one of them may be why there was something to restore.
    Revoked,
    /// They count as they did when the backup was made, also those that were revoked since.
    Kept,
}

/// Makes a new directory from a backup, every file of which is held against the list. It grants nothing until an
/// officer has answered for it.
///
/// # Errors
/// When the folder is no whole backup, a file of it was changed, or the directory is there already.
pub fn restore(backup: &Path, path: &Path, places: &Places, tokens: RestoredTokens) -> Result<Saved, EngineError> {
    let saved = Saved::read(backup)?;
    // All of it is looked at before any of it is written.
    for file in &saved.files {
        checked(backup, &file.path, &file.digest)?;
    }
    new_folder(path)?;
    let fence = fence(path);
    durable::replace(&fence, FENCE).map_err(|error| BackupError::File(fence, error))?;
    let blocks = BlockStore::open(&places.address(path))?;
    let mut parts = Vec::new();
    // A token that is not in the directory does not count: there is no moment at which a revoked one would.
    let left_out = |path: &str| path == "log.db" || (path == TOKENS && tokens == RestoredTokens::Revoked);
    for file in saved.files.iter().filter(|file| !left_out(&file.path)) {
        let bytes = checked(backup, &file.path, &file.digest)?;
        match file.path.strip_prefix("blocks/") {
            Some(part) => {
                blocks.write(part, Bytes::from(bytes))?;
                parts.push(part.to_owned());
            }
            None => put(path, &file.path, &bytes)?,
        }
    }
    blocks.sync(&parts)?;
    // The log is last: without it there is no directory, and whoever opens one finds the fence.
    for file in saved.files.iter().filter(|file| file.path == "log.db") {
        put(path, &file.path, &checked(backup, &file.path, &file.digest)?)?;
    }
    let (head, _) = folded(path)?;
    let same = head.length == saved.events && blake3::Hash::from(head.hash).to_hex().as_str() == saved.head;
    if same { Ok(saved) } else { Err(BackupError::Changed("log.db".to_owned()).into()) }
}

fn checked(backup: &Path, path: &str, known: &str) -> Result<Vec<u8>, BackupError> {
    let bytes = read(&path.split('/').fold(backup.to_owned(), |place, name| place.join(name)))?;
    bytes.filter(|bytes| digest(bytes) == known).ok_or_else(|| BackupError::Changed(path.to_owned()))
}
