//! Random numbers for synthetic rows: fast, repeatable, and not secure.

/// Hashes a number (SplitMix64), so that neighbouring numbers give unrelated results.
pub(super) const fn scramble(number: u64) -> u64 {
    let word = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A number in [0, 1) from the upper bits of a word.
pub(super) fn unit(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// A xoshiro256++ generator, seeded from a seed and a stream number.
pub(super) struct Random([u64; 4]);

impl Random {
    pub(super) const fn new(seed: u64, stream: u64) -> Self {
        let first = scramble(seed ^ scramble(stream));
        let second = scramble(first);
        let third = scramble(second);
        Self([first, second, third, scramble(third)])
    }

    pub(super) const fn word(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let word = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        word
    }
}
