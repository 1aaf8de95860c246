//! Hashing of categories into a fixed number of indices, by formulas that a bundle can contain.
//!
//! Whole numbers are hashed by arithmetic that is exact in the 53 bits of an `f64`, so that a graph of ONNX operators
//! returns the same index. Text is hashed by FNV-1a over its bytes; no standard ONNX operator does that, so text is
//! hashed only where no bundle is written. Neither hash is secret or hard to invert, and neither needs to be: a hash
//! only decides which rows share an index.

/// The greatest prime below 2²⁶: products of two numbers below it are exact in `f64`.
pub const PRIME: u64 = 67_108_859;

/// The seed of [`integer_index`].
pub const INTEGER_SEED: u64 = 0;

/// The index of a whole number of at most 2⁵³, either sign: [`hash`] by [`INTEGER_SEED`].
pub fn integer_index(value: i64, count: u32) -> Option<u32> {
    let small = value.unsigned_abs() <= 1 << 53;
    small.then(|| hash(value as f64, INTEGER_SEED, count)).flatten()
}

/// The index of a text: FNV-1a with 64 bits over its UTF-8 bytes, modulo the number of indices.
pub fn text_index(text: &str, count: u32) -> u32 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash % u64::from(count.max(1))) as u32
}

/// The multipliers and the summand of a hash, below the prime; the multipliers are not 0.
pub fn hash_key(seed: u64) -> [u64; 3] {
    let mut state = seed;
    [(); 3].map(|()| {
        // SplitMix64: a fixed, public pseudo-random sequence.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        1 + (mixed ^ (mixed >> 31)) % (PRIME - 1)
    })
}

/// The hash of a whole number: `(a · low + b · high + c) mod p mod count`, where low is the number modulo 2²⁶ and
/// high is the quotient, offset to be positive. `None` for a number that is not whole or greater than 2⁵³.
pub fn hash(number: f64, seed: u64, count: u32) -> Option<u32> {
    hash_with(number, hash_key(seed), count)
}

/// [`hash`] with the parameters that [`hash_key`] derives from its seed.
#[inline]
pub fn hash_with(number: f64, [a, b, c]: [u64; 3], count: u32) -> Option<u32> {
    if number.abs() > 9_007_199_254_740_992.0 || number.floor() != number || count == 0 {
        return None;
    }
    let whole = number as i64;
    let low = whole.rem_euclid(1 << 26) as u64 % PRIME;
    let high = (whole.div_euclid(1 << 26) + (1 << 27)) as u64 % PRIME;
    let mixed = (a * low % PRIME + b * high % PRIME + c) % PRIME;
    u32::try_from(mixed % u64::from(count)).ok()
}
