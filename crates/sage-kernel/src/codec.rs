//! Canonical encoding: each value has exactly one encoding (`docs/reference/log-format.md`).
//!
//! Numbers are minimal little-endian base-128; text and lists are prefixed with their length. The reader refuses
//! everything that the writer does not produce, so two different byte strings never encode the same event. No input may
//! make it panic or allocate more than the input's size.

/// The bytes are not a canonical encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedBytes;

/// Writes canonical bytes.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number as u8) | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }
}

/// Reads canonical bytes.
pub(crate) struct Reader<'bytes>(pub(crate) &'bytes [u8]);

impl<'bytes> Reader<'bytes> {
    pub(crate) fn byte(&mut self) -> Result<u8, MalformedBytes> {
        let (&first, rest) = self.0.split_first().ok_or(MalformedBytes)?;
        self.0 = rest;
        Ok(first)
    }

    pub(crate) fn number(&mut self) -> Result<u64, MalformedBytes> {
        let mut number = 0u64;
        for position in 0..10 {
            let byte = self.byte()?;
            let digit = u64::from(byte & 0x7f);
            // The tenth byte contributes one bit, and only the first byte can be zero.
            if (position == 9 && digit > 1) || (byte == 0 && position > 0) {
                return Err(MalformedBytes);
            }
            number |= digit << (7 * position);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(MalformedBytes)
    }

    pub(crate) fn raw(&mut self, length: usize) -> Result<&'bytes [u8], MalformedBytes> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(MalformedBytes)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'bytes [u8], MalformedBytes> {
        let length = usize::try_from(self.number()?).map_err(|_| MalformedBytes)?;
        self.raw(length)
    }

    /// A list whose items take at least one byte each, so its length is bounded by the input's.
    pub(crate) fn list<T>(
        &mut self, mut item: impl FnMut(&mut Self) -> Result<T, MalformedBytes>,
    ) -> Result<Vec<T>, MalformedBytes> {
        let length = usize::try_from(self.number()?).map_err(|_| MalformedBytes)?;
        if length > self.0.len() {
            return Err(MalformedBytes);
        }
        (0..length).map(|_| item(self)).collect()
    }

    pub(crate) fn end(&self) -> Result<(), MalformedBytes> {
        if self.0.is_empty() { Ok(()) } else { Err(MalformedBytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_encoding() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut writer = Writer::default();
            writer.number(number);
            let mut reader = Reader(&writer.0);
            assert_eq!(reader.number(), Ok(number));
            assert_eq!(reader.end(), Ok(()));
            for cut in 0..writer.0.len() {
                assert_eq!(Reader(&writer.0[..cut]).number(), Err(MalformedBytes));
            }
        }
        for bytes in [&[0x80, 0x00][..], &[0xff; 10], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]] {
            assert_eq!(Reader(bytes).number(), Err(MalformedBytes), "{bytes:?}");
        }
    }

    /// Every string of up to three bytes, and longer ones near the limit of 64 bits: a number that is decoded encodes to
    /// the same bytes.
    #[test]
    fn every_short_string_is_canonical_or_refused() {
        let check = |bytes: &[u8]| {
            let mut reader = Reader(bytes);
            let Ok(number) = reader.number() else { return false };
            let used = bytes.len() - reader.0.len();
            let mut writer = Writer::default();
            writer.number(number);
            assert_eq!(writer.0, bytes[..used], "{bytes:?}");
            true
        };
        let mut read = 0u32;
        for word in 0..1u32 << 24 {
            let bytes = word.to_be_bytes();
            read += u32::from(check(&bytes[1..]));
        }
        // A number ends at the first byte below 128, which is not zero but for the number zero itself.
        assert_eq!(read, 128 * 65_536 + 128 * 127 * 256 + 128 * 128 * 127);
        for last in 0..=255 {
            for before in [0x80, 0x81, 0xfe, 0xff] {
                let mut bytes = [before; 10];
                bytes[9] = last;
                assert_eq!(check(&bytes), last == 1, "{before} {last}");
            }
        }
    }

    #[test]
    fn lengths_beyond_the_input_are_refused() {
        assert_eq!(Reader(&[5, 1, 2]).bytes(), Err(MalformedBytes));
        assert_eq!(Reader(&[200, 1]).list(Reader::byte), Err(MalformedBytes));
        assert_eq!(Reader(&[1, 2]).raw(3), Err(MalformedBytes));
        assert_eq!(Reader(&[0]).end(), Err(MalformedBytes));
    }
}
