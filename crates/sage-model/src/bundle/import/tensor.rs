//! A constant of an ONNX file: its shape, and numbers in single precision or whole ones.

use super::wire::{Found, Message};
use super::{ImportRefusal, refused};
use crate::bundle::steps::MOST_NUMBERS;

/// The types of elements, by their numbers in the format.
pub(super) const FLOAT: i64 = 1;
pub(super) const WHOLE: i64 = 7;
pub(super) const TEXT: i64 = 8;
pub(super) const TRUTH: i64 = 9;
pub(super) const DOUBLE: i64 = 11;

/// The most integers of a constant: they are shapes, axes and indices.
const MOST_WHOLES: usize = 1 << 16;

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) shape: Vec<usize>,
    pub(super) data: Data,
}

/// The elements of a constant.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    Numbers(Vec<f32>),
    Wholes(Vec<i64>),
}

impl Tensor {
    /// Parses a constant and its name. It must have all elements of its shape.
    pub(super) fn read(bytes: &[u8]) -> Result<(&str, Self), ImportRefusal> {
        let (mut name, mut element, mut dimensions) = ("", 0, Vec::new());
        let (mut numbers, mut wholes, mut raw) = (Vec::new(), Vec::new(), None);
        for field in Message::new(bytes) {
            match field? {
                (1, found) => found.wholes(&mut dimensions, 16)?,
                (2, found) => element = found.whole()?,
                (3 | 5 | 6 | 11, _) => return Err(refused(TYPES)),
                (4, found) => found.floats(&mut numbers)?,
                (7, found) => found.wholes(&mut wholes, MOST_WHOLES)?,
                (8, found) => name = found.text()?,
                (9, found) => raw = Some(found),
                (10, found) => found.doubles(&mut numbers)?,
                (13, _) | (14, Found::Whole(1..)) => {
                    return Err(refused("a constant's data is in another file; write them all into `model.onnx`"));
                }
                _ => {}
            }
        }
        let data = match (element, raw) {
            (FLOAT | DOUBLE, None) => Data::Numbers(numbers),
            (WHOLE, None) => Data::Wholes(wholes),
            (FLOAT, Some(raw)) => {
                raw.floats(&mut numbers)?;
                Data::Numbers(numbers)
            }
            (DOUBLE, Some(raw)) => {
                raw.doubles(&mut numbers)?;
                Data::Numbers(numbers)
            }
            (WHOLE, Some(raw)) => Data::Wholes(raw_wholes(raw)?),
            _ => return Err(refused(TYPES)),
        };
        Ok((name, Self { shape: shape(&dimensions)?, data }.complete()?))
    }

    fn complete(self) -> Result<Self, ImportRefusal> {
        let expected = self.shape.iter().try_fold(1_usize, |all, length| all.checked_mul(*length));
        let found = match &self.data {
            Data::Numbers(numbers) => numbers.len(),
            Data::Wholes(wholes) => wholes.len(),
        };
        if let Data::Numbers(numbers) = &self.data
            && !numbers.iter().all(|number| number.is_finite())
        {
            return Err(refused("a constant holds what is no finite number in single precision"));
        }
        match expected {
            Some(expected) if expected == found && found as u64 <= MOST_NUMBERS => Ok(self),
            _ => Err(refused("a constant claims a shape that its data do not have, or more than 2^24 numbers")),
        }
    }

    /// Its numbers; `None` if they are integers.
    pub(super) fn numbers(&self) -> Option<&[f32]> {
        match &self.data {
            Data::Numbers(numbers) => Some(numbers),
            Data::Wholes(_) => None,
        }
    }

    /// Its integers; `None` if they are of another type.
    pub(super) fn wholes(&self) -> Option<&[i64]> {
        match &self.data {
            Data::Wholes(wholes) => Some(wholes),
            Data::Numbers(_) => None,
        }
    }

    /// The transpose.
    pub(super) fn transposed(&self) -> Option<Self> {
        let ([rows, columns], Data::Numbers(numbers)) = (self.shape.as_slice(), &self.data) else { return None };
        let of = |column: usize| numbers.iter().skip(column).step_by((*columns).max(1)).copied();
        let data = Data::Numbers((0..*columns).flat_map(of).collect());
        Some(Self { shape: vec![*columns, *rows], data })
    }
}

const TYPES: &str = "a constant is of a type other than float, double and int64; convert it when it is exported";

fn shape(dimensions: &[i64]) -> Result<Vec<usize>, ImportRefusal> {
    let length = |length: &i64| usize::try_from(*length).ok();
    let shape: Option<Vec<usize>> = dimensions.iter().map(length).collect();
    shape.ok_or_else(|| refused("a constant claims a shape that its data do not have, or more than 2^24 numbers"))
}

fn raw_wholes(raw: Found<'_>) -> Result<Vec<i64>, ImportRefusal> {
    let bytes = raw.bytes()?;
    if bytes.len() > 8 * MOST_WHOLES {
        return Err(refused("a list of whole numbers in it is too long"));
    }
    let whole = |bytes: &[u8]| i64::from_le_bytes(std::array::from_fn(|index| bytes[index]));
    Ok(bytes.chunks_exact(8).map(whole).collect())
}
