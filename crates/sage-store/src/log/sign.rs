//! The key that signs the exported heads of a directory.
//!
//! A signature proves which directory exported a head. The key pair is created when the first head is exported. The
//! private key is in a file beside the log that only its owner can read; every exported head contains the public key.
//! The key must never sign anything else.

use std::io;
use std::path::Path;

use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::durable;

/// The name of the key's file.
const FILE: &str = "head-key";

/// Whether a directory has a key, that is, whether a head of its log was ever exported.
pub fn has_head_key(directory: &Path) -> bool {
    directory.join(FILE).exists()
}

/// The key pair of a directory.
pub(super) struct HeadKey(Ed25519KeyPair);

impl HeadKey {
    /// The key of a directory, if it has one.
    pub(super) fn find(directory: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(directory.join(FILE)) {
            Ok(bytes) => {
                let key = Ed25519KeyPair::from_pkcs8(&bytes);
                key.map(|key| Some(Self(key))).map_err(|_| invalid("head-key is not a key; restore it from a backup"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The key of a directory, which is created if it has none.
    pub(super) fn find_or_create(directory: &Path) -> io::Result<Self> {
        if let Some(key) = Self::find(directory)? {
            return Ok(key);
        }
        let bytes =
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| invalid("there is no randomness"))?;
        durable::replace(&directory.join(FILE), bytes.as_ref())?;
        Self::find(directory)?.ok_or_else(|| invalid("head-key was removed while it was created"))
    }

    /// The public key.
    pub(super) fn public(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    pub(super) fn sign(&self, message: &str) -> Vec<u8> {
        self.0.sign(message.as_bytes()).as_ref().to_vec()
    }
}

/// Whether a signature of a message is valid under a public key.
pub(super) fn is_signed(public: &[u8], message: &str, signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public).verify(message.as_bytes(), signature).is_ok()
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}
