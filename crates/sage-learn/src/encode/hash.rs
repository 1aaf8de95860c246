//! Hashing into a fixed number of places, by formulas that a bundle can state.
//!
//! Whole numbers are hashed by arithmetic that never leaves 63 bits, so that a graph of integer operations
//! (`Mod`, `Mul`, `Add` of ONNX) gives the same place. Text is hashed by FNV-1a over its bytes; no standard
//! ONNX operator does that, so a bundle with hashed text needs its text turned into numbers before the graph.
//! Neither is secret or hard to invert, and neither needs to be: a hash only decides which rows share a place.

/// The prime 2^31 − 1, by which a whole number is reduced first.
pub const HASH_MODULUS: i64 = (1 << 31) - 1;
/// What the remainder is multiplied with; a generator of the prime's multiplicative group.
pub const HASH_MULTIPLIER: i64 = 48_271;
/// What is added to the product, so that zero does not stay zero.
pub const HASH_INCREMENT: i64 = 12_345_701;

/// The place of a whole number: ((v mod p) · m + c) mod p mod places, every remainder taken as not negative.
pub fn integer_place(value: i64, places: u32) -> u32 {
    let spread = (value.rem_euclid(HASH_MODULUS) * HASH_MULTIPLIER + HASH_INCREMENT) % HASH_MODULUS;
    (spread % i64::from(places.max(1))) as u32
}

/// The place of a text: FNV-1a with 64 bits over its UTF-8 bytes, modulo the number of places.
pub fn text_place(text: &str, places: u32) -> u32 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash % u64::from(places.max(1))) as u32
}
