//! Secure random words, and the sealed trait through which samplers get them.
//!
//! A source is keyed by the operating system and stretched by ChaCha12. It must never be cloned,
//! printed, seeded by a caller, shared between two processes, or go on silently after the
//! operating system refused it a key.

use super::NoiseError;
use rand_chacha::ChaCha12Core;
use rand_chacha::rand_core::SeedableRng;
use rand_chacha::rand_core::block::Generator;

/// Words kept ready: eight calls of the cipher, which makes 256 bytes a call.
const BUFFER_WORDS: usize = 256;
const WORDS_PER_CALL: usize = 32;

/// A new key is taken from the operating system after this many buffers (64 KiB of output).
const BUFFERS_PER_KEY: u32 = 32;

/// A source of independent, uniform 64-bit words.
///
/// # Guarantee
///
/// Only `SecureNoise` implements this in a build without the `seeded` feature, and no word is given
/// out twice.
pub trait NoiseSource: sealed::Sealed {}

impl<S: sealed::Sealed> NoiseSource for S {}

pub(super) mod sealed {
    use super::{KeyStream, NoiseError};

    /// Keeps [`super::NoiseSource`] closed: no caller can bring randomness of its own.
    ///
    /// A draw is `begin`, any number of words, `finish`; its result may be used only if both
    /// returned `Ok`.
    pub trait Sealed: Send + Sized {
        /// Another source, whose words are independent of this one's: for another thread.
        fn fork(&mut self) -> Result<Self, NoiseError>;

        /// The words made ahead.
        fn stream(&mut self) -> &mut KeyStream;

        /// Makes more of them.
        fn next_buffer(&mut self) {
            self.stream().refill();
        }

        /// Makes sure that the words to come belong to this process alone.
        fn begin(&mut self) -> Result<(), NoiseError> {
            Ok(())
        }

        /// Says whether every word since `begin` may be relied on.
        fn finish(&mut self) -> Result<(), NoiseError> {
            Ok(())
        }

        /// The next word. Outside `begin` and `finish` it may be one that a parent process used too.
        #[inline(always)]
        fn next_u64(&mut self) -> u64 {
            loop {
                if let Some(word) = self.stream().take() {
                    return word;
                }
                self.next_buffer();
            }
        }
    }
}

/// A ChaCha12 key stream with a buffer in front.
pub struct KeyStream {
    cipher: ChaCha12Core,
    buffer: [u64; BUFFER_WORDS],
    used: usize,
}

impl KeyStream {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self { cipher: ChaCha12Core::from_seed(key), buffer: [0; BUFFER_WORDS], used: BUFFER_WORDS }
    }

    /// The next word of the buffer, if one is left.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<u64> {
        let word = *self.buffer.get(self.used)?;
        self.used += 1;
        Some(word)
    }

    #[inline(never)]
    pub(super) fn refill(&mut self) {
        let mut block = [0u32; 2 * WORDS_PER_CALL];
        for part in self.buffer.chunks_exact_mut(WORDS_PER_CALL) {
            self.cipher.generate(&mut block);
            for (word, halves) in part.iter_mut().zip(block.chunks_exact(2)) {
                *word = u64::from(halves[0]) | u64::from(halves[1]) << 32;
            }
        }
        self.used = 0;
    }
}

/// Randomness for releases: ChaCha12 keyed by the operating system.
///
/// # Guarantee
///
/// * A value exists only if the operating system gave a full key.
/// * Two processes never use the same words: every draw compares the process number with that of
///   the process which took the key, and a child takes a key of its own.
/// * A key makes at most 64 KiB, so that the copies of a resumed machine image part soon;
///   [`SecureNoise::renew`] makes them part at once.
/// * If a key cannot be renewed, the draw in progress and all later ones are errors.
///
/// It is neither `Clone` nor `Debug`. See `proofs/randomness.md`.
pub struct SecureNoise {
    stream: Box<KeyStream>,
    /// Writes a key, or says that there is none.
    pub(super) entropy: fn(&mut [u8; 32]) -> bool,
    /// The process which took the key.
    pub(super) process: u32,
    buffers_left: u32,
    failed: bool,
}

impl SecureNoise {
    /// Takes a key from the operating system.
    ///
    /// # Errors
    /// [`NoiseError::EntropyUnavailable`] if it has none to give.
    pub fn new() -> Result<Self, NoiseError> {
        Self::keyed_by(|key: &mut [u8; 32]| getrandom::fill(key).is_ok())
    }

    fn keyed_by(entropy: fn(&mut [u8; 32]) -> bool) -> Result<Self, NoiseError> {
        let stream = Box::new(KeyStream::new([0; 32]));
        let mut source = Self { stream, entropy, process: 0, buffers_left: 0, failed: false };
        source.renew()?;
        Ok(source)
    }

    /// Throws the key and all buffered words away and takes a new key. For the start of a job.
    ///
    /// # Errors
    /// [`NoiseError::EntropyUnavailable`]; the source stays unusable.
    pub fn renew(&mut self) -> Result<(), NoiseError> {
        let mut key = [0; 32];
        if (self.entropy)(&mut key) {
            *self.stream = KeyStream::new(key);
            self.process = std::process::id();
            self.buffers_left = BUFFERS_PER_KEY;
        } else {
            self.failed = true;
        }
        self.result()
    }

    fn result(&self) -> Result<(), NoiseError> {
        if self.failed { Err(NoiseError::EntropyUnavailable) } else { Ok(()) }
    }
}

impl sealed::Sealed for SecureNoise {
    /// A source with a key of its own, from where this one has its keys.
    fn fork(&mut self) -> Result<Self, NoiseError> {
        self.result()?;
        Self::keyed_by(self.entropy)
    }

    #[inline(always)]
    fn stream(&mut self) -> &mut KeyStream {
        &mut self.stream
    }

    /// Makes the next buffer, under a new key when the old one has made its share.
    ///
    /// After a failure the old key goes on, so that samplers end; `finish` withholds the result.
    #[inline(never)]
    fn next_buffer(&mut self) {
        if self.buffers_left == 0 {
            let _recorded = self.renew();
        }
        self.buffers_left = self.buffers_left.saturating_sub(1);
        self.stream.refill();
    }

    /// The fork rule: a process which did not take this key takes its own before any word.
    #[inline]
    fn begin(&mut self) -> Result<(), NoiseError> {
        if std::process::id() == self.process { self.result() } else { self.renew() }
    }

    #[inline]
    fn finish(&mut self) -> Result<(), NoiseError> {
        self.result()
    }
}
