//! Encryption at rest: a data key per block, wrapped by a master key, and destroyed when the block is deleted.
//!
//! Data keys are stored only in the folder `keys` of the directory, also if blocks are in a bucket. A data key encrypts
//! the parts of its block and their summaries; a file of quarantined rows has its own key. The cipher is AES-256-GCM
//! with random nonces, and it authenticates the path of a file, so that no file can replace another. Deleting a block
//! destroys its key first; without the key its files cannot be decrypted. The operator supplies the master key at every
//! start, and it is never written to disk.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

use super::StoreError;
use crate::log::{durable, from_hexadecimal};

/// The first bytes of an encrypted file.
const MARK: &[u8] = b"sage encrypted 1\n";
/// The folder of keys in a directory.
pub const FOLDER: &str = "keys";
/// The file that verifies the master key: an empty text sealed under it.
const CHECK: &str = "master";
/// The folder of data keys.
const DATA: &str = "blocks";
const LENGTH: usize = 32;

/// Where the master key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterKeySource {
    /// A file with 32 bytes, or with 64 hexadecimal digits.
    File(PathBuf),
    /// A shell command that prints the key in either form, such as a client of a key service.
    Command(String),
}

/// Why blocks cannot be encrypted or decrypted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The master key cannot be read, or is malformed.
    #[error(
        "the master key cannot be read: {0}; give 32 bytes, or 64 hexadecimal digits, with --key-file or --key-command"
    )]
    Source(String),
    /// The directory has encrypted blocks, and no master key was given.
    #[error("the blocks of this directory are encrypted; give the master key with --key-file or --key-command")]
    Missing,
    /// The master key belongs to another directory.
    #[error("this is not the master key of the directory; give the one its blocks were encrypted under")]
    Wrong,
    /// The operating system provides no randomness.
    #[error("the operating system provides no randomness for a key")]
    Randomness,
    /// A file of the folder of keys cannot be read or written.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    File(PathBuf, #[source] io::Error),
    /// The data key does not exist, because its block was deleted.
    #[error("its key was destroyed when its block was deleted")]
    Destroyed,
    /// The file was not encrypted under this key and path, or was changed.
    #[error("the encrypted file is damaged; restore it from a backup")]
    Damaged,
}

impl MasterKeySource {
    fn load(&self) -> Result<LessSafeKey, KeyError> {
        let failed = |error: &dyn fmt::Display| KeyError::Source(error.to_string());
        let bytes = match self {
            Self::File(path) => fs::read(path).map_err(|error| failed(&format!("{}: {error}", path.display())))?,
            Self::Command(line) => {
                let output = Command::new("sh").args(["-c", line]).output().map_err(|error| failed(&error))?;
                if !output.status.success() {
                    return Err(failed(&format!("the command failed with {}", output.status)));
                }
                output.stdout
            }
        };
        let text = std::str::from_utf8(&bytes).ok().map(str::trim).and_then(from_hexadecimal);
        let key = if bytes.len() == LENGTH { Some(bytes) } else { text };
        cipher(&key.unwrap_or_default()).ok_or_else(|| failed(&"it has the wrong length"))
    }
}

fn cipher(key: &[u8]) -> Option<LessSafeKey> {
    Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?))
}

/// The data keys of a directory.
pub struct BlockKeys {
    folder: PathBuf,
    master: LessSafeKey,
    /// Unwrapped keys, by the paths of their files.
    unwrapped: Mutex<BTreeMap<PathBuf, [u8; LENGTH]>>,
}

impl BlockKeys {
    /// Opens the keys of a directory. Returns `None` if no master key is given and nothing was ever encrypted.
    ///
    /// # Errors
    /// When the master key cannot be read, is missing, or belongs to another directory.
    pub fn open(directory: &Path, source: Option<&MasterKeySource>) -> Result<Option<Self>, KeyError> {
        let folder = directory.join(FOLDER);
        let check = folder.join(CHECK);
        let existing = match fs::read(&check) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read.map_err(|error| KeyError::File(check.clone(), error))?),
        };
        let Some(source) = source else {
            return if existing.is_some() { Err(KeyError::Missing) } else { Ok(None) };
        };
        let master = source.load()?;
        match existing {
            Some(sealed) => drop(unseal(&master, CHECK, &sealed).map_err(|_| KeyError::Wrong)?),
            None => {
                let sealed = seal(&master, CHECK, Vec::new())?;
                let made = durable::make_directory(&folder).and_then(|()| durable::replace(&check, &sealed));
                made.map_err(|error| KeyError::File(check.clone(), error))?;
            }
        }
        Ok(Some(Self { folder, master, unwrapped: Mutex::default() }))
    }

    /// Encrypts a file of an owner, usually a block. Creates the owner's key, durably, if it has none.
    ///
    /// # Errors
    /// When there is no randomness, or the key cannot be stored.
    pub(crate) fn encrypt(&self, owner: &str, path: &str, bytes: Vec<u8>) -> Result<Vec<u8>, KeyError> {
        let key = match self.find(owner)? {
            Some(key) => key,
            None => self.create(owner)?,
        };
        seal(&key, path, bytes)
    }

    /// Decrypts a file of an owner.
    ///
    /// # Errors
    /// When the key was destroyed, or the file was not encrypted under this key and path.
    pub fn decrypt(&self, owner: &str, path: &str, bytes: &[u8]) -> Result<Vec<u8>, KeyError> {
        let key = self.find(owner)?.ok_or(KeyError::Destroyed)?;
        unseal(&key, path, bytes)
    }

    /// Destroys the key of an owner: overwrites its file, removes it, and makes the removal durable. Files encrypted
    /// under it can never be decrypted again.
    ///
    /// # Errors
    /// When the key may still exist.
    pub fn destroy(&self, owner: &str) -> Result<(), KeyError> {
        let path = self.path(owner);
        let mut unwrapped = self.lock();
        unwrapped.remove(&path);
        let destroy = || {
            let mut file = match OpenOptions::new().write(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                file => file?,
            };
            let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
            file.write_all(&vec![0; length])?;
            file.sync_all()?;
            fs::remove_file(&path)?;
            path.parent().map_or(Ok(()), durable::sync_directory)
        };
        destroy().map_err(|error| KeyError::File(path.clone(), error))
    }

    /// The path of an owner's key.
    fn path(&self, owner: &str) -> PathBuf {
        owner.split('/').fold(self.folder.join(DATA), |path, name| path.join(name)).join("key")
    }

    fn find(&self, owner: &str) -> Result<Option<LessSafeKey>, KeyError> {
        let path = self.path(owner);
        let mut unwrapped = self.lock();
        if let Some(key) = unwrapped.get(&path) {
            return Ok(cipher(key));
        }
        let wrapped = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| KeyError::File(path.clone(), error))?,
        };
        let key = unseal(&self.master, owner, &wrapped)?;
        let key = <[u8; LENGTH]>::try_from(key).map_err(|_| KeyError::Damaged)?;
        unwrapped.insert(path, key);
        Ok(cipher(&key))
    }

    fn create(&self, owner: &str) -> Result<LessSafeKey, KeyError> {
        let path = self.path(owner);
        let mut key = [0; LENGTH];
        SystemRandom::new().fill(&mut key).map_err(|_| KeyError::Randomness)?;
        let wrapped = seal(&self.master, owner, key.to_vec())?;
        let mut unwrapped = self.lock();
        let folder = path.parent().unwrap_or(&self.folder);
        let made = durable::make_directory(folder).and_then(|()| durable::replace(&path, &wrapped));
        made.map_err(|error| KeyError::File(path.clone(), error))?;
        unwrapped.insert(path, key);
        cipher(&key).ok_or(KeyError::Damaged)
    }

    /// Locks the map and ignores poisoning: the map is consistent at every instruction that could panic.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, [u8; LENGTH]>> {
        self.unwrapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether these bytes are an encrypted file.
pub fn is_encrypted(bytes: &[u8]) -> bool {
    bytes.starts_with(MARK)
}

/// Encrypts bytes. The result is the mark, a nonce, and the ciphertext with its tag.
fn seal(key: &LessSafeKey, path: &str, mut bytes: Vec<u8>) -> Result<Vec<u8>, KeyError> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(|_| KeyError::Randomness)?;
    let tag = Aad::from(path.as_bytes());
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), tag, &mut bytes)
        .map_err(|_| KeyError::Damaged)?;
    Ok([MARK, &nonce, &bytes].concat())
}

/// Decrypts what [`seal`] returns for the same key and path.
fn unseal(key: &LessSafeKey, path: &str, bytes: &[u8]) -> Result<Vec<u8>, KeyError> {
    let rest = bytes.strip_prefix(MARK).and_then(|rest| rest.split_first_chunk::<NONCE_LEN>());
    let (nonce, sealed) = rest.ok_or(KeyError::Damaged)?;
    let mut bytes = sealed.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let length = key.open_in_place(nonce, Aad::from(path.as_bytes()), &mut bytes).map_err(|_| KeyError::Damaged)?.len();
    bytes.truncate(length);
    Ok(bytes)
}

/// Encrypts a file if there are keys, and returns it unchanged otherwise.
pub(super) fn encrypt_file(
    keys: Option<&BlockKeys>, owner: &str, path: &str, bytes: Bytes,
) -> Result<Bytes, StoreError> {
    let Some(keys) = keys else { return Ok(bytes) };
    keys.encrypt(owner, path, bytes.into()).map(Bytes::from).map_err(|error| failed(path, &error))
}

/// As [`encrypt_file`], but never creates a key. Fails if there are keys and the owner has none, because its block was
/// deleted or is older than the encryption.
pub(super) fn encrypt_with_existing_key(
    keys: Option<&BlockKeys>, owner: &str, path: &str, bytes: Bytes,
) -> Result<Bytes, KeyError> {
    let Some(keys) = keys else { return Ok(bytes) };
    let key = keys.find(owner)?.ok_or(KeyError::Destroyed)?;
    seal(&key, path, bytes.into()).map(Bytes::from)
}

/// Decrypts a file if it is encrypted, and returns it unchanged otherwise.
pub(super) fn decrypt_file(
    keys: Option<&BlockKeys>, owner: &str, path: &str, bytes: Bytes,
) -> Result<Bytes, StoreError> {
    match (is_encrypted(&bytes), keys) {
        (false, _) => Ok(bytes),
        (true, None) => Err(failed(path, &KeyError::Missing)),
        (true, Some(keys)) => keys.decrypt(owner, path, &bytes).map(Bytes::from).map_err(|error| failed(path, &error)),
    }
}

fn failed(path: &str, error: &KeyError) -> StoreError {
    StoreError::Failed { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(folder: &Path, byte: u8) -> MasterKeySource {
        let file = folder.join(format!("key-{byte}"));
        fs::write(&file, [byte; LENGTH]).unwrap();
        MasterKeySource::File(file)
    }

    #[test]
    fn a_file_is_decrypted_only_under_its_own_path_and_key() {
        let folder = tempfile::tempdir().unwrap();
        let keys = BlockKeys::open(folder.path(), Some(&source(folder.path(), 7))).unwrap().unwrap();
        let secret = b"a row and another row".to_vec();
        let bytes = keys.encrypt("rides/day=1", "rides/day=1/a", secret.clone()).unwrap();
        assert!(is_encrypted(&bytes) && !bytes.windows(5).any(|some| some == b"a row"));
        assert_ne!(bytes, keys.encrypt("rides/day=1", "rides/day=1/a", secret.clone()).unwrap(), "another nonce");
        assert_eq!(keys.decrypt("rides/day=1", "rides/day=1/a", &bytes).unwrap(), secret);
        assert!(matches!(keys.decrypt("rides/day=1", "rides/day=1/b", &bytes), Err(KeyError::Damaged)));
        assert!(matches!(keys.decrypt("rides/day=2", "rides/day=1/a", &bytes), Err(KeyError::Destroyed)));
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            assert!(keys.decrypt("rides/day=1", "rides/day=1/a", &changed).is_err(), "byte {index}");
        }
        drop(keys);
        let keys = BlockKeys::open(folder.path(), Some(&source(folder.path(), 7))).unwrap().unwrap();
        assert_eq!(keys.decrypt("rides/day=1", "rides/day=1/a", &bytes).unwrap(), secret, "after a restart");
        keys.destroy("rides/day=1").unwrap();
        keys.destroy("rides/day=1").unwrap();
        assert!(matches!(keys.decrypt("rides/day=1", "rides/day=1/a", &bytes), Err(KeyError::Destroyed)));
    }

    #[test]
    fn a_missing_or_wrong_master_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(BlockKeys::open(folder.path(), None).unwrap().is_none(), "nothing is encrypted");
        drop(BlockKeys::open(folder.path(), Some(&source(folder.path(), 1))).unwrap());
        assert!(matches!(BlockKeys::open(folder.path(), None), Err(KeyError::Missing)));
        assert!(matches!(BlockKeys::open(folder.path(), Some(&source(folder.path(), 2))), Err(KeyError::Wrong)));
        let line = MasterKeySource::Command(format!("printf '{}\\n'", "01".repeat(LENGTH)));
        assert!(BlockKeys::open(folder.path(), Some(&line)).unwrap().is_some(), "the same from a command");
        for line in ["exit 3", "echo short", "printf ''"] {
            let source = MasterKeySource::Command(line.to_owned());
            assert!(matches!(BlockKeys::open(folder.path(), Some(&source)), Err(KeyError::Source(_))), "{line}");
        }
    }
}
