//! The secrets of a directory: the one that assigns the users of a stream to lanes, and the one that authenticates
//! cached block summaries.
//!
//! The first is drawn once, stored in a file that only the owner can read, and recorded in the log by its digest. With
//! another secret a user's rows would be in both lanes, each with the full ceiling, so a batch is refused if the file
//! is missing or has another digest. The second is drawn when it is missing: summaries that it authenticated are then
//! rejected, and the blocks are read and summarised again.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sage_kernel::noise::SecureNoise;
use sage_kernel::{LaneKey, SummaryKey};

use crate::api::EngineError;
use crate::log::hexadecimal;
use crate::private;

/// Draws a stream's secret, or reuses the one that a crash left behind, and returns its digest.
pub(crate) fn make(directory: &Path, stream: &str) -> Result<String, EngineError> {
    let path = file(directory, stream);
    let failed = |error| EngineError::File(path.display().to_string(), error);
    match fs::read(&path) {
        Ok(bytes) if bytes.len() == 32 => return Ok(digest(&bytes)),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let key = LaneKey::draw(&mut SecureNoise::new()?)?;
    write(&path, &key.to_bytes()).map_err(failed)?;
    Ok(digest(&key.to_bytes()))
}

/// The stream's secret.
pub(crate) fn load(directory: &Path, stream: &str, known: Option<&str>) -> Result<LaneKey, EngineError> {
    let path = file(directory, stream);
    let bytes = fs::read(&path).unwrap_or_default();
    let is_it = known == Some(digest(&bytes).as_str());
    match <[u8; 32]>::try_from(bytes) {
        Ok(bytes) if is_it => Ok(LaneKey::from_bytes(bytes)),
        _ => Err(EngineError::Secret(path.display().to_string())),
    }
}

/// No stream can have this name.
const SUMMARIES: &str = "@summaries";

/// The secret that authenticates the cached block summaries of a directory, drawn if it is missing.
pub(crate) fn summary_key(directory: &Path) -> Result<SummaryKey, EngineError> {
    let path = file(directory, SUMMARIES);
    let failed = |error| EngineError::File(path.display().to_string(), error);
    let stored = match fs::read(&path) {
        Ok(bytes) => <[u8; 32]>::try_from(bytes).ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    if let Some(bytes) = stored {
        return Ok(SummaryKey::from_bytes(bytes));
    }
    // 32 uniform bytes, like a key of lanes.
    let bytes = LaneKey::draw(&mut SecureNoise::new()?)?.to_bytes();
    write(&path, &bytes).map_err(failed)?;
    Ok(SummaryKey::from_bytes(bytes))
}

fn file(directory: &Path, stream: &str) -> PathBuf {
    directory.join("secrets").join(stream)
}

fn digest(bytes: &[u8]) -> String {
    hexadecimal(&blake3::derive_key("sage: which secret sends users to lanes", bytes))
}

/// Writes a file durably and atomically that only its owner can read.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    private::make_directories(folder)?;
    let fresh = path.with_extension("new");
    let mut file = private::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    private::sync_path(folder)?;
    folder.parent().map_or(Ok(()), private::sync_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A secret that is missing or damaged is drawn again; an intact one stays, and only its owner can read it.
    #[test]
    fn the_secret_of_summaries_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path(), SUMMARIES);
        let mut seen = Vec::new();
        for damaged in [None, Some(&b"short"[..])] {
            damaged.iter().for_each(|bytes| fs::write(&path, bytes).unwrap());
            summary_key(folder.path()).unwrap();
            let drawn = fs::read(&path).unwrap();
            assert_eq!(drawn.len(), 32);
            summary_key(folder.path()).unwrap();
            assert_eq!(fs::read(&path).unwrap(), drawn, "the same from then on");
            assert!(!seen.contains(&drawn), "another one each time");
            seen.push(drawn);
        }
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777, 0o600);
        assert!(!crate::document::is_name(SUMMARIES), "a stream's secret would lie at the same path");
    }
}
