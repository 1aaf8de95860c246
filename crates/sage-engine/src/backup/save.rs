//! A directory is saved, also while a server works on it.

use std::fs;
use std::io;
use std::path::Path;

use sage_kernel::{Gate, Head};

use super::list::{BackupError, Saved, SavedFile, digest, files_below, new_folder, put};
use crate::blocks::{BlockStore, KEYS_FOLDER, StoreError};
use crate::catalog::{Catalog, Note, NoteCollector};
use crate::engine::{EngineError, Places, now};
use crate::log::{Directory, copy_log};

/// How often the log is copied anew because a block was deleted meanwhile.
const TRIES: u32 = 3;

/// What lies in a directory beside the log and the blocks, and is saved with them.
const FOLDERS: [&str; 5] = ["releases", "code", "secrets", "outputs", KEYS_FOLDER];
const FILES: [&str; 2] = ["tokens.json", "submissions.jsonl"];

/// Saves the directory at this path into a new folder. The directory may be in use.
///
/// # Errors
/// When there is no directory, the folder is not empty, or a file that the log names is gone or changed.
pub fn save(path: &Path, places: &Places, to: &Path) -> Result<Saved, EngineError> {
    new_folder(to)?;
    let blocks = BlockStore::open(&places.address(path))?;
    let mut tries = 1;
    let (head, parts) = loop {
        copy_log(path, to)?;
        let (head, catalog) = folded(to)?;
        match save_blocks(&catalog, &blocks, to) {
            // A block that was deleted after the log was copied: a newer log says so.
            Err(EngineError::Backup(BackupError::Missing(_))) if tries < TRIES => {
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
            // What is removed between the list and the look belonged to nothing that the copied log names.
            if let Some(bytes) = read(&path.join(&file))? {
                put(to, &file, &bytes)?;
                files.push(SavedFile { digest: digest(&bytes), path: file });
            }
        }
    }
    for file in FILES {
        if let Some(bytes) = read(&path.join(file))? {
            put(to, file, &bytes)?;
            files.push(SavedFile { digest: digest(&bytes), path: file.to_owned() });
        }
    }
    let log = read(&to.join("log.db"))?.unwrap_or_default();
    files.push(SavedFile { digest: digest(&log), path: "log.db".to_owned() });
    let saved = Saved::new(now(), head.length, blake3::Hash::from(head.hash).to_hex().to_string(), files);
    saved.write(to)?;
    Ok(saved)
}

/// The log of a folder, verified from its first record: where it ends, and what it says of files.
pub(super) fn folded(folder: &Path) -> Result<(Head, Catalog), EngineError> {
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
    // The owner's file belongs to a directory in use, and this is none.
    match fs::remove_file(folder.join("lock")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(EngineError::File(folder.display().to_string(), error))
        }
        _ => Ok((head, catalog)),
    }
}

/// Saves every part that the log names, held against its digest.
fn save_blocks(catalog: &Catalog, blocks: &BlockStore, to: &Path) -> Result<Vec<SavedFile>, EngineError> {
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
            put(to, &path, &bytes)?;
            files.push(SavedFile { digest: digest(&bytes), path });
        }
    }
    Ok(files)
}

/// The bytes of a file, if it is there.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, BackupError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BackupError::File(path.to_owned(), error)),
    }
}
