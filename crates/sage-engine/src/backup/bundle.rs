//! The auditor's bundle: the log, the releases, the stream files and the heads, without any row.

use std::path::Path;

use super::list::{create_empty_folder, files_below, write_file};
use super::save::{fold_log, read_optional};
use crate::api::{EngineError, EngineOptions, now};
use crate::log::{ExportedHead, copy_log};

/// Writes a bundle to a new folder, which `tools/audit.py` checks without this program. Returns the number of events.
/// The directory may be in use.
///
/// # Errors
/// When there is no directory, the folder is not empty, or a file cannot be written.
pub fn export(path: &Path, options: &EngineOptions, to: &Path) -> Result<u64, EngineError> {
    create_empty_folder(to)?;
    copy_log(path, to)?;
    let (head, catalog) = fold_log(to)?;
    for file in files_below(path, "releases")? {
        if let Some(bytes) = read_optional(&path.join(&file))? {
            write_file(to, &file, &bytes)?;
        }
    }
    for (name, stream) in catalog.streams() {
        write_file(to, &format!("streams/{name}.toml"), stream.file.to_text().as_bytes())?;
    }
    write_file(to, "head", ExportedHead { head, time: now() }.unsigned_line().as_bytes())?;
    for (index, file) in options.heads.iter().enumerate() {
        if let Some(bytes) = read_optional(file)? {
            write_file(to, &format!("heads/{index}"), &bytes)?;
        }
    }
    Ok(head.length)
}
