//! A validating walker of the Thrift compact encoding, in which Parquet stores its metadata.
//!
//! Libraries that parse this metadata allocate memory for as many items as it claims and recurse as deep as it nests.
//! So untrusted metadata is walked here first, without allocation: it must contain all it claims, and the number of
//! items and the depth have limits. The walker returns `None` for anything invalid.

/// How deep structures and lists may nest. Valid Parquet metadata nests less than ten deep.
const DEPTH_LIMIT: u8 = 24;

pub(super) const NUMBER: u8 = 5;
pub(super) const LIST: u8 = 9;
pub(super) const STRUCTURE: u8 = 12;

/// A cursor over encoded metadata.
pub(super) struct Walker<'bytes> {
    bytes: &'bytes [u8],
    position: usize,
    /// How many more fields and items are allowed.
    left: usize,
    depth: u8,
}

/// A callback for a field or item. It gets the field's number or the item's index, and the type.
type Visit<'visit> = dyn FnMut(&mut Walker<'_>, i64, u8) -> Option<Visited> + 'visit;

/// Whether a callback has read the value itself, or the walker is to skip it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Visited {
    Read,
    Skip,
}

impl<'bytes> Walker<'bytes> {
    /// Starts at the beginning of the bytes, with a limit on the number of fields and items.
    pub(super) fn new(bytes: &'bytes [u8], limit: usize) -> Self {
        Self { bytes, position: 0, left: limit, depth: 0 }
    }

    /// The number of bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Whether the limit on fields and items was reached.
    pub(super) fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    fn read_byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.position)?;
        self.position += 1;
        Some(byte)
    }

    fn skip_bytes(&mut self, count: u64) -> Option<()> {
        let end = self.position.checked_add(usize::try_from(count).ok()?)?;
        self.position = Some(end).filter(|&end| end <= self.bytes.len())?;
        Some(())
    }

    fn read_varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.read_byte()?;
            value |= u64::from(byte & 0x7F).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a signed integer in zigzag encoding.
    pub(super) fn read_i64(&mut self) -> Option<i64> {
        let value = self.read_varint()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// Reads an integer of at most 32 bits. Other readers would truncate a wider one to another value.
    pub(super) fn read_i32(&mut self, kind: u8) -> Option<i32> {
        if kind == NUMBER { i32::try_from(self.read_i64()?).ok() } else { None }
    }

    fn count_down(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }

    /// Runs `work` one nesting level deeper.
    fn descend(&mut self, work: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.depth = Some(self.depth + 1).filter(|&depth| depth <= DEPTH_LIMIT)?;
        work(self)?;
        self.depth -= 1;
        Some(())
    }

    /// Walks the fields of a structure.
    pub(super) fn walk_structure(&mut self, visit: &mut Visit<'_>) -> Option<()> {
        self.descend(|walker| {
            let mut field = 0_i64;
            loop {
                let byte = walker.read_byte()?;
                if byte == 0 {
                    return Some(());
                }
                walker.count_down()?;
                let (step, kind) = (byte >> 4, byte & 0x0F);
                field = if step == 0 { walker.read_i64()? } else { field.checked_add(i64::from(step))? };
                if visit(walker, field, kind)? == Visited::Skip {
                    walker.skip(kind)?;
                }
            }
        })
    }

    /// Walks the items of a list.
    pub(super) fn walk_list(&mut self, visit: &mut Visit<'_>) -> Option<()> {
        self.descend(|walker| {
            let byte = walker.read_byte()?;
            let (short, kind) = (byte >> 4, byte & 0x0F);
            let size = if short == 15 { walker.read_varint()? } else { u64::from(short) };
            for index in 0..i64::try_from(size).ok()? {
                walker.count_down()?;
                if visit(walker, index, kind)? == Visited::Skip {
                    // In a list a boolean takes a byte.
                    if matches!(kind, 1 | 2) { walker.skip_bytes(1)? } else { walker.skip(kind)? }
                }
            }
            Some(())
        })
    }

    fn skip(&mut self, kind: u8) -> Option<()> {
        let mut skip_all: Box<Visit<'_>> = Box::new(|_, _, _| Some(Visited::Skip));
        match kind {
            1 | 2 => Some(()),
            3 => self.skip_bytes(1),
            4..=6 => self.read_varint().map(|_| ()),
            7 => self.skip_bytes(8),
            8 => {
                let length = self.read_varint()?;
                self.skip_bytes(length)
            }
            LIST | 10 => self.walk_list(&mut *skip_all),
            STRUCTURE => self.walk_structure(&mut *skip_all),
            // Parquet metadata has no maps.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked_bytes(bytes: &[u8], limit: usize) -> Option<usize> {
        let mut walker = Walker::new(bytes, limit);
        walker.walk_structure(&mut |_, _, _| Some(Visited::Skip))?;
        Some(walker.position())
    }

    #[test]
    fn claims_that_exceed_the_bytes_are_refused() {
        for (bytes, limit, expected) in [
            (&[0_u8][..], 0, Some(1)),
            (&[0x15, 0x02, 0x00], 1, Some(3)),
            // A number without an end, a text longer than the rest, a list of 2³¹ items, one field too many.
            (&[0x15, 0x80], 9, None),
            (&[0x18, 0x7F, 0x00], 9, None),
            (&[0x19, 0xF5, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0x02], 1 << 30, None),
            (&[0x15, 0x02, 0x15, 0x02, 0x00], 1, None),
            // A map, and an unknown kind.
            (&[0x1B, 0x00, 0x00], 9, None),
            (&[0x1E, 0x00], 9, None),
        ] {
            assert_eq!(walked_bytes(bytes, limit), expected, "{bytes:?}");
        }
    }

    #[test]
    fn depth_has_a_limit() {
        for (depth, fits) in [(20, true), (1 << 20, false)] {
            let mut bytes = vec![0x1C; depth];
            bytes.extend(vec![0; depth + 1]);
            assert_eq!(walked_bytes(&bytes, usize::MAX).is_some(), fits, "{depth}");
        }
    }

    #[test]
    fn numbers_have_signs_and_widths() {
        let number = |bytes: &[u8]| Walker::new(bytes, 0).read_i64();
        assert_eq!((number(&[0x01]), number(&[0x02]), number(&[0x80])), (Some(-1), Some(1), None));
        assert_eq!(Walker::new(&[0x80, 0x80, 0x80, 0x80, 0x20], 0).read_i32(NUMBER), None);
        assert_eq!(Walker::new(&[0x0A], 0).read_i32(NUMBER), Some(5));
        assert_eq!(Walker::new(&[0x0A], 0).read_i32(6), None);
    }
}
