//! Canonical bytes: one value, one encoding (`docs/reference/log-format.md`).
//!
//! Numbers are little-endian base-128 with no needless byte, text and lists carry their length first.
//! The reader refuses everything the writer would not have written, so two different byte strings never
//! mean the same event, and no input makes it panic or reserve memory it was not sent.

/// The bytes are not what the writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

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
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(first)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0u64;
        for place in 0..10 {
            let byte = self.byte()?;
            let digit = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit, and only the first byte may be zero.
            if (place == 9 && digit > 1) || (byte == 0 && place > 0) {
                return Err(Malformed);
            }
            number |= digit << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    pub(crate) fn raw(&mut self, length: usize) -> Result<&'bytes [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'bytes [u8], Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        self.raw(length)
    }

    /// A list whose items take at least one byte each, so a length can never outgrow the input.
    pub(crate) fn list<T>(
        &mut self, mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if length > self.0.len() {
            return Err(Malformed);
        }
        (0..length).map(|_| item(self)).collect()
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
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
                assert_eq!(Reader(&writer.0[..cut]).number(), Err(Malformed));
            }
        }
        for bytes in [&[0x80, 0x00][..], &[0xff; 10], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]] {
            assert_eq!(Reader(bytes).number(), Err(Malformed), "{bytes:?}");
        }
    }

    /// Every string of up to three bytes, and longer ones at the edge of 64 bits: what is read as a number is written
    /// as the same bytes.
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
        assert_eq!(Reader(&[5, 1, 2]).bytes(), Err(Malformed));
        assert_eq!(Reader(&[200, 1]).list(Reader::byte), Err(Malformed));
        assert_eq!(Reader(&[1, 2]).raw(3), Err(Malformed));
        assert_eq!(Reader(&[0]).end(), Err(Malformed));
    }
}
