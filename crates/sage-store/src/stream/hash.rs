//! The hash that stands for a text in a column of type `hashed`.

/// The hash of a text: FNV-1a with 64 bits over its UTF-8 bytes, folded to 53 bits, which are exact in an `f64`.
///
/// It is neither secret nor hard to invert and need not be: what leaves a stream is protected by noise, and a hash only
/// decides which rows share a category. Stored blocks and released models depend on it, so it must never change.
pub fn hash_text(text: &str) -> i64 {
    const BITS: u32 = 53;
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    ((hash ^ (hash >> BITS)) & ((1 << BITS) - 1)) as i64
}

#[cfg(test)]
mod tests {
    use super::hash_text;

    /// Computed with an independent program in Python. Stored blocks contain these numbers.
    #[test]
    fn hashes_are_those_of_stored_blocks() {
        let long = "x".repeat(1000);
        for (text, hash) in [
            ("a", 1_086_646_154_029_559),
            ("05db9164", 6_495_523_634_189_965),
            ("Zürich", 6_827_251_818_036_663),
            (long.as_str(), 3_889_905_460_893_128),
        ] {
            assert_eq!(hash_text(text), hash);
        }
    }
}
