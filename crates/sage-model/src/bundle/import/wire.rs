//! Parses the fields of a protobuf message in place. Nothing is copied, and no allocation depends on a length that a
//! message claims, so a small file cannot use much memory.

use super::{ImportRefusal, refused};

/// The value of a field.
#[derive(Clone, Copy)]
pub(super) enum Found<'file> {
    /// A whole number.
    Whole(u64),
    /// Four bytes.
    Four([u8; 4]),
    /// Eight bytes.
    Eight([u8; 8]),
    /// Bytes: text, a message, or packed numbers.
    Bytes(&'file [u8]),
}

/// The fields of a message, one after the other.
pub(super) struct Message<'file> {
    rest: &'file [u8],
}

impl<'file> Message<'file> {
    pub(super) const fn new(bytes: &'file [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, count: u64) -> Result<&'file [u8], ImportRefusal> {
        let count = usize::try_from(count).ok().filter(|count| *count <= self.rest.len());
        let (taken, rest) = self.rest.split_at(count.ok_or_else(truncated)?);
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ImportRefusal> {
        let mut value = 0_u64;
        for index in 0..10 {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 127) << (7 * index);
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(refused("a number in it has more than 64 bits"))
    }

    fn field(&mut self) -> Result<(u64, Found<'file>), ImportRefusal> {
        let key = self.varint()?;
        let found = match key & 7 {
            0 => Found::Whole(self.varint()?),
            1 => Found::Eight(fixed(self.take(8)?)),
            2 => {
                let length = self.varint()?;
                Found::Bytes(self.take(length)?)
            }
            5 => Found::Four(fixed(self.take(4)?)),
            _ => return Err(refused("it is not an ONNX file, or it is damaged")),
        };
        Ok((key >> 3, found))
    }
}

impl<'file> Iterator for Message<'file> {
    type Item = Result<(u64, Found<'file>), ImportRefusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

fn truncated() -> ImportRefusal {
    refused("it ends before it is complete; write it again")
}

fn fixed<const COUNT: usize>(bytes: &[u8]) -> [u8; COUNT] {
    let mut fixed = [0; COUNT];
    fixed.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    fixed
}

impl<'file> Found<'file> {
    /// The bytes; refused if the field has another wire type.
    pub(super) fn bytes(self) -> Result<&'file [u8], ImportRefusal> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(refused("a field in it is of another type than ONNX has")),
        }
    }

    /// A text of at most 1000 bytes.
    pub(super) fn text(self) -> Result<&'file str, ImportRefusal> {
        let text = std::str::from_utf8(self.bytes()?).ok().filter(|text| text.len() <= 1_000);
        text.ok_or_else(|| refused("a name in it is not UTF-8, or longer than 1000 bytes"))
    }

    /// The whole number; refused if the field has another wire type.
    pub(super) fn whole(self) -> Result<i64, ImportRefusal> {
        match self {
            Self::Whole(whole) => Ok(whole as i64),
            _ => Err(refused("a field in it is of another type than ONNX has")),
        }
    }

    /// Appends whole numbers, single or packed, up to the limit.
    pub(super) fn wholes(self, into: &mut Vec<i64>, most: usize) -> Result<(), ImportRefusal> {
        match self {
            Self::Whole(whole) => into.push(whole as i64),
            _ => {
                let mut packed = Message::new(self.bytes()?);
                while !packed.rest.is_empty() && into.len() <= most {
                    into.push(packed.varint()? as i64);
                }
            }
        }
        if into.len() > most { Err(refused("a list of whole numbers in it is too long")) } else { Ok(()) }
    }

    /// Appends numbers in single precision, single or packed.
    pub(super) fn floats(self, into: &mut Vec<f32>) -> Result<(), ImportRefusal> {
        match self {
            Self::Four(bytes) => into.push(f32::from_le_bytes(bytes)),
            _ => into.extend(self.bytes()?.chunks_exact(4).map(|bytes| f32::from_le_bytes(fixed(bytes)))),
        }
        Ok(())
    }

    /// Appends numbers in double precision, rounded to single, single or packed.
    pub(super) fn doubles(self, into: &mut Vec<f32>) -> Result<(), ImportRefusal> {
        match self {
            Self::Eight(bytes) => into.push(f64::from_le_bytes(bytes) as f32),
            _ => into.extend(self.bytes()?.chunks_exact(8).map(|bytes| f64::from_le_bytes(fixed(bytes)) as f32)),
        }
        Ok(())
    }
}
