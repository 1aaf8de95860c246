//! The key by which the heads of a directory are known.
//!
//! Whoever keeps a head elsewhere wants to know that this directory has said it. The key is made when the first
//! head is exported, lies beside the log and can be read by its owner alone; the other half of it stands in every
//! exported head. It must never sign anything else.

use std::io;
use std::path::Path;

use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::durable;

/// The file of the key.
const FILE: &str = "head-key";

/// Whether a directory has a key, that is, whether a head of its log was ever exported.
pub fn has_head_key(directory: &Path) -> bool {
    directory.join(FILE).exists()
}

pub(super) struct HeadKey(Ed25519KeyPair);

impl HeadKey {
    /// The key of a directory, if it has one.
    pub(super) fn find(directory: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(directory.join(FILE)) {
            Ok(bytes) => {
                let key = Ed25519KeyPair::from_pkcs8(&bytes);
                key.map(|key| Some(Self(key))).map_err(|_| wrong("head-key holds no key; put it back from a copy"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The key of a directory, which is made if it has none.
    pub(super) fn find_or_make(directory: &Path) -> io::Result<Self> {
        if let Some(key) = Self::find(directory)? {
            return Ok(key);
        }
        let bytes =
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| wrong("there is no randomness"))?;
        durable::replace(&directory.join(FILE), bytes.as_ref())?;
        Self::find(directory)?.ok_or_else(|| wrong("head-key was removed while it was made"))
    }

    /// The half that everybody may know.
    pub(super) fn public(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    pub(super) fn sign(&self, said: &str) -> Vec<u8> {
        self.0.sign(said.as_bytes()).as_ref().to_vec()
    }
}

/// Whether the key with this public half has signed what was said.
pub(super) fn is_signed(public: &[u8], said: &str, signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public).verify(said.as_bytes(), signature).is_ok()
}

fn wrong(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}
