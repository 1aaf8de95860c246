//! Reproducible randomness for tests and experiments.
//!
//! Compiled only for this crate's tests and under the feature `seeded`, which no shipped build
//! enables. Anyone who knows the seed can subtract the noise: it must never reach a release.

use super::NoiseError;
use super::source::{KeyStream, sealed};
use rand_chacha::ChaCha20Core;
use rand_chacha::rand_core::SeedableRng;
use rand_chacha::rand_core::block::Generator;

/// Part of every seeded key, so a binary that can create one contains these bytes. The release
/// check searches for them.
static SEEDED_LABEL: [u8; 45] = *b"sage seeded noise: experiments and tests only";

/// Noise that anyone with the seed can reproduce.
///
/// # Guarantee
///
/// Equal seeds give equal words on every machine; different seeds give streams that look
/// independent. There is no secrecy.
pub struct SeededNoise {
    stream: Box<KeyStream>,
}

impl SeededNoise {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        // `black_box` keeps the optimiser from splitting the label in the binary.
        let label = std::hint::black_box(&SEEDED_LABEL);
        let mut mixed = [0u8; 32];
        for (index, byte) in label.iter().enumerate() {
            mixed[index % 32] ^= byte.rotate_left((index / 32) as u32);
        }
        for (slot, byte) in mixed.iter_mut().zip(seed.to_le_bytes()) {
            *slot ^= byte;
        }
        let mut expanded = [0u32; 64];
        ChaCha20Core::from_seed(mixed).generate(&mut expanded);
        let mut key = [0u8; 32];
        for (slot, word) in key.chunks_exact_mut(4).zip(expanded) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        Self { stream: Box::new(KeyStream::new(key)) }
    }
}

impl sealed::Sealed for SeededNoise {
    fn fork(&mut self) -> Result<Self, NoiseError> {
        let mut key = [0u8; 32];
        for slot in key.chunks_exact_mut(8) {
            slot.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        Ok(Self { stream: Box::new(KeyStream::new(key)) })
    }

    #[inline(always)]
    fn stream(&mut self) -> &mut KeyStream {
        &mut self.stream
    }
}
