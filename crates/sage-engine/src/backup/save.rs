//! Saves a directory, also while a server uses it.

use std::fs;
use std::io;
use std::path::Path;

use sage_kernel::{Gate, Head};

use super::list::{BackupError, BackupFile, BackupManifest, create_empty_folder, digest, files_below, write_file};
use crate::api::{EngineError, EngineOptions, now};
use crate::blocks::{BlockStore, KEYS_FOLDER, StoreError};
use crate::catalog::{Catalog, Note, NoteCollector};
use crate::log::{Directory, copy_log};

/// How often the log is copied, at most, when blocks are deleted during the backup.
const MAX_TRIES: u32 = 3;

/// The folders and files of a directory that are saved besides the log and the blocks.
const FOLDERS: [&str; 5] = ["releases", "code", "secrets", "outputs", KEYS_FOLDER];
const FILES: [&str; 2] = ["tokens.json", "submissions.jsonl"];

/// Saves the directory at this path to a new folder. The directory may be in use.
///
/// # Errors
/// When there is no directory, the folder is not empty, or a file that the log names is missing or changed.
pub fn save(path: &Path, options: &EngineOptions, to: &Path) -> Result<BackupManifest, EngineError> {
    create_empty_folder(to)?;
    let blocks = BlockStore::open(&options.address(path))?;
    let mut tries = 1;
    let (head, parts) = loop {
        copy_log(path, to)?;
        let (head, catalog) = fold_log(to)?;
        match save_blocks(&catalog, &blocks, to) {
            // A block was deleted after the log was copied: a newer log records that.
            Err(EngineError::Backup(BackupError::Missing(_))) if tries < MAX_TRIES => {
                tries += 1;
                let log = to.join("log.db");
                fs::remove_file(&log).map_err(|error| EngineError::File(log.display().to_string(), error))?;
            }
            saved => break (head, saved?),
        }
    };
    let mut files = parts;
    for folder in FOLDERS {
        for file in files_below(path, folder)? {
            // A file removed since the listing is not named by the copied log.
            if let Some(bytes) = read_optional(&path.join(&file))? {
                write_file(to, &file, &bytes)?;
                files.push(BackupFile { digest: digest(&bytes), path: file });
            }
        }
    }
    for file in FILES {
        if let Some(bytes) = read_optional(&path.join(file))? {
            write_file(to, file, &bytes)?;
            files.push(BackupFile { digest: digest(&bytes), path: file.to_owned() });
        }
    }
    let log = read_optional(&to.join("log.db"))?.unwrap_or_default();
    files.push(BackupFile { digest: digest(&log), path: "log.db".to_owned() });
    let saved = BackupManifest::new(now(), head.length, blake3::Hash::from(head.hash).to_hex().to_string(), files);
    saved.write(to)?;
    Ok(saved)
}

/// Verifies the log of a folder from its first record, and returns its head and catalog.
pub(super) fn fold_log(folder: &Path) -> Result<(Head, Catalog), EngineError> {
    let directory = Directory::open(folder)?;
    let gate = Gate::open(NoteCollector::new(directory.log()?))?;
    let mut catalog = Catalog::default();
    for (number, kind, body) in gate.log().take_below(gate.head().length) {
        if kind == Note::KIND {
            let applied = Note::from_bytes(&body).map(|note| catalog.apply(note));
            applied.and_then(Result::ok).ok_or(EngineError::Catalog { number })?;
        }
    }
    let head = gate.head();
    drop((gate, directory));
    // The lock file belongs to a directory in use, which this is not.
    match fs::remove_file(folder.join("lock")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(EngineError::File(folder.display().to_string(), error))
        }
        _ => Ok((head, catalog)),
    }
}

/// Saves every part that the log names, and verifies its digest.
fn save_blocks(catalog: &Catalog, blocks: &BlockStore, to: &Path) -> Result<Vec<BackupFile>, EngineError> {
    let mut files = Vec::new();
    for (name, stream) in catalog.streams() {
        let parts = stream.blocks.values().flat_map(|block| &block.parts);
        for part in parts.chain(stream.quarantine.iter().map(|own| &own.part)) {
            let path = part.path(name);
            let bytes = match blocks.read(&path) {
                Ok(bytes) if *blake3::hash(&bytes).as_bytes() == part.digest => bytes,
                Ok(_) | Err(StoreError::Absent(_)) => return Err(BackupError::Missing(path).into()),
                Err(error) => return Err(error.into()),
            };
            let path = format!("blocks/{path}");
            write_file(to, &path, &bytes)?;
            files.push(BackupFile { digest: digest(&bytes), path });
        }
    }
    Ok(files)
}

/// The bytes of a file, if it exists.
pub(super) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, BackupError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BackupError::File(path.to_owned(), error)),
    }
}
