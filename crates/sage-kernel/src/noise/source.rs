//! Secure random words, and the sealed trait through which samplers draw them.
//!
//! A source is keyed by the operating system and expanded by ChaCha12. It must never be cloned,
//! printed, seeded by a caller, shared between two processes, or continue silently after the
//! operating system failed to return a key.

use super::NoiseError;
use rand_chacha::ChaCha12Core;
use rand_chacha::rand_core::SeedableRng;
use rand_chacha::rand_core::block::Generator;

/// Buffered words: eight calls of the cipher, which returns 256 bytes per call.
const BUFFER_WORDS: usize = 256;
const WORDS_PER_CALL: usize = 32;

/// The key is renewed from the operating system after this many buffers (64 KiB of output).
const BUFFERS_PER_KEY: u32 = 32;

/// A source of independent, uniform 64-bit words.
///
/// # Guarantee
///
/// Only `SecureNoise` implements this in a build without the `seeded` feature, and no word is
/// returned twice.
pub trait NoiseSource: sealed::Sealed {}

impl<S: sealed::Sealed> NoiseSource for S {}

pub(super) mod sealed {
    use super::{KeyStream, NoiseError};

    /// Seals [`super::NoiseSource`]: no caller can supply its own randomness.
    ///
    /// A draw is `begin`, any number of words, `finish`; its result may be used only if both
    /// returned `Ok`.
    pub trait Sealed: Send + Sized {
        /// Creates a source for another thread, whose words are independent of this one's.
        fn fork(&mut self) -> Result<Self, NoiseError>;

        /// The buffered words.
        fn stream(&mut self) -> &mut KeyStream;

        /// Refills the buffer.
        fn next_buffer(&mut self) {
            self.stream().refill();
        }

        /// Ensures that the following words belong to this process alone.
        fn begin(&mut self) -> Result<(), NoiseError> {
            Ok(())
        }

        /// Checks that every word since `begin` may be used.
        fn finish(&mut self) -> Result<(), NoiseError> {
            Ok(())
        }

        /// The next word. Outside `begin` and `finish` it may be one that a parent process also used.
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

/// A buffered ChaCha12 key stream.
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
/// * A value exists only if the operating system returned a full key.
/// * Two processes never use the same words: every draw compares the process ID with that of
///   the process that requested the key, and a child requests its own key.
/// * A key produces at most 64 KiB, so that copies of a resumed machine image diverge soon;
///   [`SecureNoise::renew`] makes them diverge immediately.
/// * If a key cannot be renewed, the draw in progress and all later ones fail.
///
/// It is neither `Clone` nor `Debug`. See `proofs/randomness.md`.
pub struct SecureNoise {
    stream: Box<KeyStream>,
    /// Writes a key; returns false if there is none.
    pub(super) entropy: fn(&mut [u8; 32]) -> bool,
    /// The process that requested the key.
    pub(super) process: u32,
    buffers_left: u32,
    failed: bool,
}

impl SecureNoise {
    /// Requests a key from the operating system.
    ///
    /// # Errors
    /// [`NoiseError::EntropyUnavailable`] if it returns none.
    pub fn new() -> Result<Self, NoiseError> {
        Self::keyed_by(|key: &mut [u8; 32]| getrandom::fill(key).is_ok())
    }

    fn keyed_by(entropy: fn(&mut [u8; 32]) -> bool) -> Result<Self, NoiseError> {
        let stream = Box::new(KeyStream::new([0; 32]));
        let mut source = Self { stream, entropy, process: 0, buffers_left: 0, failed: false };
        source.renew()?;
        Ok(source)
    }

    /// Discards the key and all buffered words and requests a new key. For the start of a job.
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
    /// A source with its own key, from the same entropy source.
    fn fork(&mut self) -> Result<Self, NoiseError> {
        self.result()?;
        Self::keyed_by(self.entropy)
    }

    #[inline(always)]
    fn stream(&mut self) -> &mut KeyStream {
        &mut self.stream
    }

    /// Fills the next buffer, with a new key if the old one has reached its limit.
    ///
    /// After a failure the old key stays in use, so that samplers terminate; `finish` then returns the error.
    #[inline(never)]
    fn next_buffer(&mut self) {
        if self.buffers_left == 0 {
            let _recorded = self.renew();
        }
        self.buffers_left = self.buffers_left.saturating_sub(1);
        self.stream.refill();
    }

    /// The fork rule: a process that did not request this key requests its own before drawing a word.
    #[inline]
    fn begin(&mut self) -> Result<(), NoiseError> {
        if std::process::id() == self.process { self.result() } else { self.renew() }
    }

    #[inline]
    fn finish(&mut self) -> Result<(), NoiseError> {
        self.result()
    }
}
