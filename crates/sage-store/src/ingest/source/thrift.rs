//! The compact encoding in which Parquet describes itself, walked without keeping anything.
//!
//! A library that reads such a description makes room for as many things as it claims to have, and goes as deep
//! as they are nested. So every description from outside is walked here first: nothing is claimed that is not
//! there, and both number and depth have a limit. Whatever is not plainly right is nothing.

/// How deep structures and lists may be nested; Parquet's own are less than ten deep.
const DEPTH_LIMIT: u8 = 24;

pub(super) const NUMBER: u8 = 5;
pub(super) const LIST: u8 = 9;
pub(super) const STRUCTURE: u8 = 12;

/// A place in a description.
pub(super) struct Walk<'bytes> {
    bytes: &'bytes [u8],
    at: usize,
    /// How many fields and items may still come.
    left: usize,
    depth: u8,
}

/// What is done with a field: it gets the number of the field and its kind, and says whether it has read it.
type Visit<'visit> = dyn FnMut(&mut Walk<'_>, i64, u8) -> Option<Seen> + 'visit;

/// Whether a visitor has read a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    Read,
    Passed,
}

impl<'bytes> Walk<'bytes> {
    /// Starts at the beginning, with a limit on the number of fields and items.
    pub(super) fn new(bytes: &'bytes [u8], limit: usize) -> Self {
        Self { bytes, at: 0, left: limit, depth: 0 }
    }

    /// How many bytes were walked.
    pub(super) fn walked(&self) -> usize {
        self.at
    }

    /// Whether it was the number of fields and items that was too large.
    pub(super) fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn pass(&mut self, count: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(count).ok()?)?;
        self.at = Some(end).filter(|&end| end <= self.bytes.len())?;
        Some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A whole number with a sign.
    pub(super) fn number(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// A number of at most 32 bits. A wider one would be cut by others, and mean something else to them.
    pub(super) fn small(&mut self, kind: u8) -> Option<i32> {
        if kind == NUMBER { i32::try_from(self.number()?).ok() } else { None }
    }

    fn count_down(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }

    /// Goes a step deeper for as long as something is walked.
    fn deeper(&mut self, work: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.depth = Some(self.depth + 1).filter(|&depth| depth <= DEPTH_LIMIT)?;
        work(self)?;
        self.depth -= 1;
        Some(())
    }

    /// Walks the fields of a structure.
    pub(super) fn structure(&mut self, visit: &mut Visit<'_>) -> Option<()> {
        self.deeper(|walk| {
            let mut field = 0_i64;
            loop {
                let byte = walk.byte()?;
                if byte == 0 {
                    return Some(());
                }
                walk.count_down()?;
                let (step, kind) = (byte >> 4, byte & 0x0F);
                field = if step == 0 { walk.number()? } else { field.checked_add(i64::from(step))? };
                if visit(walk, field, kind)? == Seen::Passed {
                    walk.skip(kind)?;
                }
            }
        })
    }

    /// Walks the items of a list; each is told to the visitor by its place.
    pub(super) fn list(&mut self, visit: &mut Visit<'_>) -> Option<()> {
        self.deeper(|walk| {
            let byte = walk.byte()?;
            let (short, kind) = (byte >> 4, byte & 0x0F);
            let size = if short == 15 { walk.unsigned()? } else { u64::from(short) };
            for place in 0..i64::try_from(size).ok()? {
                walk.count_down()?;
                if visit(walk, place, kind)? == Seen::Passed {
                    // Within lists even a yes or no has a byte of its own.
                    if matches!(kind, 1 | 2) { walk.pass(1)? } else { walk.skip(kind)? }
                }
            }
            Some(())
        })
    }

    fn skip(&mut self, kind: u8) -> Option<()> {
        let mut pass: Box<Visit<'_>> = Box::new(|_, _, _| Some(Seen::Passed));
        match kind {
            1 | 2 => Some(()),
            3 => self.pass(1),
            4..=6 => self.unsigned().map(|_| ()),
            7 => self.pass(8),
            8 => {
                let length = self.unsigned()?;
                self.pass(length)
            }
            LIST | 10 => self.list(&mut *pass),
            STRUCTURE => self.structure(&mut *pass),
            // Parquet has no maps.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(bytes: &[u8], limit: usize) -> Option<usize> {
        let mut walk = Walk::new(bytes, limit);
        walk.structure(&mut |_, _, _| Some(Seen::Passed))?;
        Some(walk.walked())
    }

    #[test]
    fn what_is_there_is_walked_and_what_is_only_claimed_is_nothing() {
        for (bytes, limit, wanted) in [
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
            assert_eq!(walked(bytes, limit), wanted, "{bytes:?}");
        }
    }

    #[test]
    fn depth_has_a_limit() {
        for (depth, fits) in [(20, true), (1 << 20, false)] {
            let mut bytes = vec![0x1C; depth];
            bytes.extend(vec![0; depth + 1]);
            assert_eq!(walked(&bytes, usize::MAX).is_some(), fits, "{depth}");
        }
    }

    #[test]
    fn numbers_have_signs_and_widths() {
        let number = |bytes: &[u8]| Walk::new(bytes, 0).number();
        assert_eq!((number(&[0x01]), number(&[0x02]), number(&[0x80])), (Some(-1), Some(1), None));
        assert_eq!(Walk::new(&[0x80, 0x80, 0x80, 0x80, 0x20], 0).small(NUMBER), None);
        assert_eq!(Walk::new(&[0x0A], 0).small(NUMBER), Some(5));
        assert_eq!(Walk::new(&[0x0A], 0).small(6), None);
    }
}
