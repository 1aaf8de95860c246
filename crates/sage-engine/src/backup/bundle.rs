//! What an auditor takes away: the log, what was released, the streams' files and heads, and not a row.

use std::path::Path;

use super::list::{files_below, new_folder, put};
use super::save::{folded, read};
use crate::api::{EngineError, Places, now};
use crate::log::{KnownHead, copy_log};

/// Writes a bundle into a new folder, which `tools/audit.py` checks without this program. Gives how many events it
/// has. The directory may be in use.
///
/// # Errors
/// When there is no directory, the folder is not empty, or something cannot be written.
pub fn export(path: &Path, places: &Places, to: &Path) -> Result<u64, EngineError> {
    new_folder(to)?;
    copy_log(path, to)?;
    let (head, catalog) = folded(to)?;
    for file in files_below(path, "releases")? {
        if let Some(bytes) = read(&path.join(&file))? {
            put(to, &file, &bytes)?;
        }
    }
    for (name, stream) in catalog.streams() {
        put(to, &format!("streams/{name}.toml"), stream.file.to_text().as_bytes())?;
    }
    put(to, "head", ExportedHead { head, time: now() }.unsigned_line().as_bytes())?;
    for (place, file) in places.heads.iter().enumerate() {
        if let Some(bytes) = read(file)? {
            put(to, &format!("heads/{place}"), &bytes)?;
        }
    }
    Ok(head.length)
}
