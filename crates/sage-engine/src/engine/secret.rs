//! The secret that sends the users of a stream to lanes.
//!
//! It is drawn once, kept in a file that only the owner may read, and known to the log by its digest. With
//! another secret a user's rows would fall into both lanes, each with the whole ceiling, so a batch is refused
//! when the file is gone or is not the one the log knows.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sage_kernel::LaneKey;
use sage_kernel::noise::SecureNoise;

use super::EngineError;
use crate::log::hexadecimal;

/// Draws a stream's secret, or finds the one that a crash left behind, and gives its digest.
pub(super) fn make(directory: &Path, stream: &str) -> Result<String, EngineError> {
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
pub(super) fn load(directory: &Path, stream: &str, known: Option<&str>) -> Result<LaneKey, EngineError> {
    let path = file(directory, stream);
    let bytes = fs::read(&path).unwrap_or_default();
    let is_it = known == Some(digest(&bytes).as_str());
    match <[u8; 32]>::try_from(bytes) {
        Ok(bytes) if is_it => Ok(LaneKey::from_bytes(bytes)),
        _ => Err(EngineError::Secret(path.display().to_string())),
    }
}

fn file(directory: &Path, stream: &str) -> PathBuf {
    directory.join("secrets").join(stream)
}

fn digest(bytes: &[u8]) -> String {
    hexadecimal(&blake3::derive_key("sage: which secret sends users to lanes", bytes))
}

/// Writes a file that only its owner can read, whole or not at all, and makes it last.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let fresh = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    fs::File::open(folder)?.sync_all()?;
    folder.parent().map_or(Ok(()), |above| fs::File::open(above)?.sync_all())
}
