//! Sources: keys, forks, failures, and the detection of seeded noise in a binary.

use super::super::source::KeyStream;
use super::super::source::sealed::Sealed;
use super::super::{
    DiscreteGaussian, DiscreteLaplace, NoiseError, RoundedGaussian, SecureNoise, SeededNoise, poisson_mask,
    uniform_below,
};
use super::{chi_square_fits, seeded};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn first_words_of_new_sources_never_repeat() {
    let mut seen = BTreeSet::new();
    for _ in 0..100_000 {
        let mut source = SecureNoise::new().expect("entropy");
        assert!(seen.insert(source.next_u64()));
    }
}

/// The buffer neither skips, repeats nor reorders the output of the cipher.
#[test]
fn the_key_stream_is_the_cipher() {
    let key = [42; 32];
    let mut cipher = ChaCha12Rng::from_seed(key);
    let mut stream = KeyStream::new(key);
    for _ in 0..5_000 {
        let word = stream.take().unwrap_or_else(|| {
            stream.refill();
            stream.take().expect("a full buffer")
        });
        assert_eq!(word, cipher.next_u64());
    }
}

#[test]
fn secure_bytes_are_even() {
    let mut source = SecureNoise::new().expect("entropy");
    let words: Vec<u64> = (0..1 << 17).map(|_| source.next_u64()).collect();
    let mut counts = [0; 256];
    for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
        counts[usize::from(byte)] += 1;
    }
    assert!(chi_square_fits(&counts, &[1.0 / 256.0; 256]));
    assert!(words.iter().collect::<BTreeSet<_>>().len() == words.len());
}

fn no_entropy(_: &mut [u8; 32]) -> bool {
    false
}

/// A child process has the parent's memory. Its first draw must drop the buffered words.
#[test]
fn another_process_takes_a_key_of_its_own() {
    fn childs_entropy(key: &mut [u8; 32]) -> bool {
        key.fill(9);
        true
    }
    fn fixed_entropy(key: &mut [u8; 32]) -> bool {
        key.fill(8);
        true
    }
    let word_after = |another: bool| {
        let mut source = SecureNoise::new().expect("entropy");
        source.entropy = fixed_entropy;
        source.renew().expect("a key");
        let first = source.next_u64();
        source.process ^= u32::from(another);
        source.entropy = childs_entropy;
        source.begin().expect("a key");
        (first, source.next_u64())
    };
    let (parent, child) = (word_after(false), word_after(true));
    assert_eq!(parent.0, child.0);
    assert_ne!(parent.1, child.1);
    assert_eq!(child.1, ChaCha12Rng::from_seed([9; 32]).next_u64());
}

/// Without its own key a child draws nothing: every sampler reports the failure permanently.
#[test]
fn without_entropy_nothing_is_drawn() {
    let mut source = SecureNoise::new().expect("entropy");
    let system = std::mem::replace(&mut source.entropy, no_entropy);
    source.process ^= 1;
    let failed = NoiseError::EntropyUnavailable;
    let laplace = DiscreteLaplace::new(1, 1).expect("in range");
    let gaussian = DiscreteGaussian::new(1, 1).expect("in range");
    let mut mask = vec![1];
    for _ in 0..2 {
        assert_eq!(laplace.fill(&mut source, &mut [0; 3]), Err(failed));
        assert_eq!(gaussian.fill(&mut source, &mut [0; 3]), Err(failed));
        assert_eq!(RoundedGaussian::new().fill(&mut source, &mut [0; 3]), Err(failed));
        assert_eq!(poisson_mask(&mut source, 1 << 64, 9, &mut mask), Err(failed));
        assert_eq!(uniform_below(&mut source, 2), Err(failed));
        assert!(mask.is_empty());
        source.entropy = system;
    }
    assert_eq!(source.renew(), Err(failed));
}

/// A key produces 32 buffers; the 33rd needs a new key, and a failure there fails the draw.
#[test]
fn keys_are_renewed_on_schedule() {
    static FILLS: AtomicU32 = AtomicU32::new(0);
    fn counted(key: &mut [u8; 32]) -> bool {
        FILLS.fetch_add(1, Ordering::Relaxed);
        key.fill(7);
        true
    }
    let mut source = SecureNoise::new().expect("entropy");
    source.entropy = counted;
    for buffers in 1..=96 {
        source.next_buffer();
        assert_eq!(FILLS.load(Ordering::Relaxed), (buffers - 1) / 32);
    }
    assert_eq!(source.finish(), Ok(()));
    source.entropy = no_entropy;
    source.next_buffer();
    assert_eq!(source.finish(), Err(NoiseError::EntropyUnavailable));
    assert_eq!(source.begin(), Err(NoiseError::EntropyUnavailable));
}

#[test]
fn seeds_repeat_and_differ() {
    let words = |seed: u64| {
        let mut source = SeededNoise::new(seed);
        [source.next_u64(), source.next_u64()]
    };
    assert_eq!(words(1), words(1));
    let distinct: BTreeSet<_> = (0..10_000).map(words).collect();
    assert_eq!(distinct.len(), 10_000);
}

/// The release check searches for the label. Here it must be found, or its absence would prove nothing.
#[test]
fn a_binary_with_seeded_noise_shows_it() {
    let _ = seeded("a_binary_with_seeded_noise_shows_it").next_u64();
    // Spelt backwards, so that this test does not itself put the label into the binary.
    let backwards = b"ylno stset dna stnemirepxe :esion dedees egas";
    let needle: Vec<u8> = backwards.iter().rev().copied().collect();
    let path = std::env::current_exe().expect("a path");
    let binary = std::fs::read(path).expect("the test binary");
    let found = binary.windows(needle.len()).any(|window| window == needle);
    assert!(found);
}
