//! Stores the code folder of a pipeline that runs its author's program, under its digest.

use std::fs;
use std::path::Path;

use crate::api::EngineError;
use crate::private;
use crate::release;

/// Limits on the size of a code folder.
const LARGEST: u64 = 64 << 20;
const MOST_FILES: usize = 1000;

/// Copies a folder into the directory and returns its digest.
pub(crate) fn keep(directory: &Path, folder: &Path) -> Result<String, EngineError> {
    let failed = |path: &Path, error: std::io::Error| EngineError::File(path.display().to_string(), error);
    let mut files = Vec::new();
    list(folder, folder, &mut files).map_err(|error| failed(folder, error))?;
    files.sort();
    let mut contents = Vec::with_capacity(files.len());
    for name in files {
        let bytes = fs::read(folder.join(&name)).map_err(|error| failed(folder, error))?;
        contents.push((name, bytes));
    }
    let named = contents.iter().map(|(name, bytes): &(String, Vec<u8>)| (name.as_str(), bytes.as_slice()));
    let digest = release::digest(named).to_string();
    let target = directory.join("code").join(&digest);
    for (name, bytes) in contents {
        let path = target.join(&name);
        let parent = path.parent().unwrap_or(&target);
        private::make_directories(parent)
            .and_then(|()| private::write(&path, &bytes))
            .map_err(|error| failed(&path, error))?;
    }
    Ok(digest)
}

/// The regular files of a folder, as relative paths. Links are not followed.
fn list(root: &Path, folder: &Path, files: &mut Vec<String>) -> std::io::Result<()> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if kind.is_dir() && !hidden {
            list(root, &entry.path(), files)?;
        } else if kind.is_file() {
            bytes += entry.metadata()?.len();
            let path = entry.path();
            let name = path.strip_prefix(root).map_err(std::io::Error::other)?;
            files.push(name.to_string_lossy().into_owned());
        }
        if files.len() > MOST_FILES || bytes > LARGEST {
            return Err(std::io::Error::other(
                "a folder of code has at most 1000 files and 64 MiB; name a smaller one",
            ));
        }
    }
    Ok(())
}
