//! Encryption at rest: a data key for each block, wrapped by a master key, and destroyed when the block is deleted.
//!
//! Data keys lie in the folder `keys` of the directory and nowhere else, also where blocks are in a bucket. A key
//! encrypts the parts of its block and the summaries made of them; a file of quarantined rows has a key of its own. The
//! cipher is AES-256-GCM with random nonces, and the path of a file is authenticated with it, so that one file cannot
//! stand for another. Without its key a file is noise: deleting a block destroys the key first. The master key is given
//! by the operator at every start and is written nowhere.

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

/// What an encrypted file begins with.
const MARK: &[u8] = b"sage encrypted 1\n";
/// The folder of keys in a directory.
pub const FOLDER: &str = "keys";
/// The file by which a master key is known to be the right one.
const CHECK: &str = "master";
/// The folder of data keys.
const DATA: &str = "blocks";
const LENGTH: usize = 32;

/// Where the master key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterKeySource {
    /// A file with 32 bytes, or with 64 hexadecimal digits.
    File(PathBuf),
    /// A command for the shell that prints one or the other, such as one that asks a key service.
    Command(String),
}

/// Why blocks cannot be encrypted or decrypted.
#[derive(Debug)]
#[non_exhaustive]
pub enum KeyError {
    /// The master key cannot be had.
    Source(String),
    /// The directory has encrypted blocks, and no master key was given.
    Missing,
    /// The master key is not the one of this directory.
    Wrong,
    /// The operating system has no randomness.
    Randomness,
    /// The folder of keys failed.
    File(PathBuf, io::Error),
    /// There is no key: its block was deleted.
    Destroyed,
    /// The file is not what was encrypted under this key and path.
    Damaged,
}

impl fmt::Display for KeyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(reason) => write!(
                out,
                "the master key cannot be had: {reason}; give 32 bytes, or 64 hexadecimal digits, with --key-file or \
                 --key-command"
            ),
            Self::Missing => {
                write!(
                    out,
                    "the blocks of this directory are encrypted; give the master key with --key-file or --key-command"
                )
            }
            Self::Wrong => {
                write!(out, "this is not the master key of the directory; give the one its blocks were encrypted under")
            }
            Self::Randomness => write!(out, "the operating system has no randomness for a key"),
            Self::File(path, error) => write!(out, "{}: {error}", path.display()),
            Self::Destroyed => write!(out, "its key was destroyed when its block was deleted"),
            Self::Damaged => write!(out, "it is not the file that was encrypted; restore it from a backup"),
        }
    }
}

impl std::error::Error for KeyError {}

impl MasterKeySource {
    fn load(&self) -> Result<LessSafeKey, KeyError> {
        let failed = |error: &dyn fmt::Display| KeyError::Source(error.to_string());
        let bytes = match self {
            Self::File(path) => fs::read(path).map_err(|error| failed(&format!("{}: {error}", path.display())))?,
            Self::Command(line) => {
                let output = Command::new("sh").args(["-c", line]).output().map_err(|error| failed(&error))?;
                if !output.status.success() {
                    return Err(failed(&format!("the command ended with {}", output.status)));
                }
                output.stdout
            }
        };
        let text = std::str::from_utf8(&bytes).ok().map(str::trim).and_then(from_hexadecimal);
        let key = if bytes.len() == LENGTH { Some(bytes) } else { text };
        cipher(&key.unwrap_or_default()).ok_or_else(|| failed(&"it has another length"))
    }
}

fn cipher(key: &[u8]) -> Option<LessSafeKey> {
    Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?))
}

/// The data keys of a directory.
pub struct BlockKeys {
    folder: PathBuf,
    master: LessSafeKey,
    /// Keys that were unwrapped, by the files they lie in.
    known: Mutex<BTreeMap<PathBuf, [u8; LENGTH]>>,
}

impl BlockKeys {
    /// The keys of a directory; `None` where no master key is given and nothing was ever encrypted.
    ///
    /// # Errors
    /// When the master key cannot be had, is missing, or is another one.
    pub fn open(directory: &Path, source: Option<&MasterKeySource>) -> Result<Option<Self>, KeyError> {
        let folder = directory.join(FOLDER);
        let check = folder.join(CHECK);
        let known = match fs::read(&check) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read.map_err(|error| KeyError::File(check.clone(), error))?),
        };
        let Some(source) = source else {
            return if known.is_some() { Err(KeyError::Missing) } else { Ok(None) };
        };
        let master = source.load()?;
        match known {
            Some(sealed) => drop(opened(&master, CHECK, &sealed).map_err(|_| KeyError::Wrong)?),
            None => {
                let sealed = sealed(&master, CHECK, Vec::new())?;
                let made = durable::make_directory(&folder).and_then(|()| durable::replace(&check, &sealed));
                made.map_err(|error| KeyError::File(check.clone(), error))?;
            }
        }
        Ok(Some(Self { folder, master, known: Mutex::default() }))
    }

    /// Encrypts a file of a block. The block's key is made, durably, if it has none.
    ///
    /// # Errors
    /// When there is no randomness, or the key cannot be kept.
    pub(crate) fn encrypt(&self, owner: &str, path: &str, bytes: Vec<u8>) -> Result<Vec<u8>, KeyError> {
        let key = match self.find(owner)? {
            Some(key) => key,
            None => self.make(owner)?,
        };
        sealed(&key, path, bytes)
    }

    /// Decrypts a file of a block.
    ///
    /// # Errors
    /// When the key was destroyed, or the file is not what was encrypted under this path.
    pub fn decrypt(&self, owner: &str, path: &str, bytes: &[u8]) -> Result<Vec<u8>, KeyError> {
        let key = self.find(owner)?.ok_or(KeyError::Destroyed)?;
        opened(&key, path, bytes)
    }

    /// Destroys the key of a block: its file is overwritten, removed, and the removal is durable. What is encrypted
    /// under it can never be read again.
    ///
    /// # Errors
    /// When it is still there.
    pub fn destroy(&self, owner: &str) -> Result<(), KeyError> {
        let path = self.path(owner);
        let mut known = self.lock();
        known.remove(&path);
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

    /// Where the key of a block, or of another owner of files, lies.
    fn path(&self, owner: &str) -> PathBuf {
        owner.split('/').fold(self.folder.join(DATA), |path, name| path.join(name)).join("key")
    }

    fn find(&self, owner: &str) -> Result<Option<LessSafeKey>, KeyError> {
        let path = self.path(owner);
        let mut known = self.lock();
        if let Some(key) = known.get(&path) {
            return Ok(cipher(key));
        }
        let wrapped = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| KeyError::File(path.clone(), error))?,
        };
        let key = opened(&self.master, owner, &wrapped)?;
        let key = <[u8; LENGTH]>::try_from(key).map_err(|_| KeyError::Damaged)?;
        known.insert(path, key);
        Ok(cipher(&key))
    }

    fn make(&self, owner: &str) -> Result<LessSafeKey, KeyError> {
        let path = self.path(owner);
        let mut key = [0; LENGTH];
        SystemRandom::new().fill(&mut key).map_err(|_| KeyError::Randomness)?;
        let wrapped = sealed(&self.master, owner, key.to_vec())?;
        let mut known = self.lock();
        let folder = path.parent().unwrap_or(&self.folder);
        let made = durable::make_directory(folder).and_then(|()| durable::replace(&path, &wrapped));
        made.map_err(|error| KeyError::File(path.clone(), error))?;
        known.insert(path, key);
        cipher(&key).ok_or(KeyError::Damaged)
    }

    /// What the mutex guards is whole at every instruction that could panic.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, [u8; LENGTH]>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether these bytes are an encrypted file.
pub fn is_encrypted(bytes: &[u8]) -> bool {
    bytes.starts_with(MARK)
}

/// The mark, a nonce, and the encrypted bytes with their tag.
fn sealed(key: &LessSafeKey, path: &str, mut bytes: Vec<u8>) -> Result<Vec<u8>, KeyError> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(|_| KeyError::Randomness)?;
    let tag = Aad::from(path.as_bytes());
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), tag, &mut bytes)
        .map_err(|_| KeyError::Damaged)?;
    Ok([MARK, &nonce, &bytes].concat())
}

fn opened(key: &LessSafeKey, path: &str, bytes: &[u8]) -> Result<Vec<u8>, KeyError> {
    let rest = bytes.strip_prefix(MARK).and_then(|rest| rest.split_first_chunk::<NONCE_LEN>());
    let (nonce, sealed) = rest.ok_or(KeyError::Damaged)?;
    let mut bytes = sealed.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let length = key.open_in_place(nonce, Aad::from(path.as_bytes()), &mut bytes).map_err(|_| KeyError::Damaged)?.len();
    bytes.truncate(length);
    Ok(bytes)
}

/// Bytes as they are stored: encrypted where there are keys.
pub(super) fn stored(keys: Option<&BlockKeys>, owner: &str, path: &str, bytes: Bytes) -> Result<Bytes, StoreError> {
    let Some(keys) = keys else { return Ok(bytes) };
    keys.encrypt(owner, path, bytes.into()).map(Bytes::from).map_err(|error| failed(path, &error))
}

/// As [`stored`], under a key that is there already: where there are keys and the owner has none, nothing is stored. Its
/// block was deleted, or is older than the encryption.
pub(super) fn stored_if_keyed(
    keys: Option<&BlockKeys>, owner: &str, path: &str, bytes: Bytes,
) -> Result<Bytes, KeyError> {
    let Some(keys) = keys else { return Ok(bytes) };
    let key = keys.find(owner)?.ok_or(KeyError::Destroyed)?;
    sealed(&key, path, bytes.into()).map(Bytes::from)
}

/// Bytes as they were before they were stored.
pub(super) fn read_back(keys: Option<&BlockKeys>, owner: &str, path: &str, bytes: Bytes) -> Result<Bytes, StoreError> {
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
    fn a_file_is_read_back_under_its_own_path_and_key_alone() {
        let folder = tempfile::tempdir().unwrap();
        let keys = BlockKeys::open(folder.path(), Some(&source(folder.path(), 7))).unwrap().unwrap();
        let secret = b"a row and another row".to_vec();
        let bytes = keys.encrypt("rides/day=1", "rides/day=1/a", secret.clone()).unwrap();
        assert!(is_encrypted(&bytes) && !bytes.windows(5).any(|some| some == b"a row"));
        assert_ne!(bytes, keys.encrypt("rides/day=1", "rides/day=1/a", secret.clone()).unwrap(), "another nonce");
        assert_eq!(keys.decrypt("rides/day=1", "rides/day=1/a", &bytes).unwrap(), secret);
        assert!(matches!(keys.decrypt("rides/day=1", "rides/day=1/b", &bytes), Err(KeyError::Damaged)));
        assert!(matches!(keys.decrypt("rides/day=2", "rides/day=1/a", &bytes), Err(KeyError::Destroyed)));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(keys.decrypt("rides/day=1", "rides/day=1/a", &changed).is_err(), "byte {at}");
        }
        drop(keys);
        let keys = BlockKeys::open(folder.path(), Some(&source(folder.path(), 7))).unwrap().unwrap();
        assert_eq!(keys.decrypt("rides/day=1", "rides/day=1/a", &bytes).unwrap(), secret, "after a restart");
        keys.destroy("rides/day=1").unwrap();
        keys.destroy("rides/day=1").unwrap();
        assert!(matches!(keys.decrypt("rides/day=1", "rides/day=1/a", &bytes), Err(KeyError::Destroyed)));
    }

    #[test]
    fn the_master_key_is_the_right_one_or_none_is_used() {
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
