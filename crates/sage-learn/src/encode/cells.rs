//! Rows that have only categorical fields as one key: the index of their combination of categories.

use std::num::NonZeroU32;

use super::encoding::Encoding;

/// The most combinations, so that a table of the kernel holds two classes for each.
const MOST: u64 = 1 << 23;

/// All combinations of categories that a row of an encoding can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// How many categories each field has.
    sizes: Vec<u32>,
    count: NonZeroU32,
}

impl Cells {
    /// How many combinations there are.
    pub const fn count(&self) -> NonZeroU32 {
        self.count
    }

    /// The index of the combination of these one-hot indices; `None` if they are out of range.
    pub fn of(&self, indices: &[u32]) -> Option<u32> {
        let (mut cell, mut first) = (0u32, 0u32);
        for (index, &size) in indices.iter().zip(&self.sizes) {
            let category = index.checked_sub(first).filter(|category| *category < size)?;
            // It cannot overflow: it is below the count, which has 23 bits.
            cell = cell * size + category;
            first += size;
        }
        (indices.len() == self.sizes.len()).then_some(cell)
    }
}

impl Encoding {
    /// The combinations of categories of a row; `None` if rows have numeric fields, or there are more than 2^23
    /// combinations.
    pub fn cells(&self) -> Option<Cells> {
        let counts = self.stated().fields.iter().map(|field| field.kind.columns()).filter(|&count| count > 0);
        let sizes: Option<Vec<u32>> = counts.map(|count| u32::try_from(count).ok()).collect();
        let sizes = sizes.filter(|_| self.layout().numbers == 0)?;
        let count =
            sizes.iter().try_fold(1u64, |count, &size| Some(count * u64::from(size)).filter(|&all| all <= MOST));
        let count = u32::try_from(count?).ok().and_then(NonZeroU32::new)?;
        Some(Cells { sizes, count })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Categories, Field, FieldKind, Key, KeyKind, Label, LabelKind, Scale, Span, Stated};
    use super::*;

    fn field(name: &str, edges: usize) -> Field {
        let edges = (0..edges).map(|edge| edge as f64).collect();
        Field { name: name.to_owned(), kind: FieldKind::Category(Key { column: 0, kind: KeyKind::Bucket(edges) }) }
    }

    fn encoding(fields: Vec<Field>) -> Encoding {
        Encoding::new(Stated { fields, label: Label { column: 1, kind: LabelKind::Truth } }).unwrap()
    }

    #[test]
    fn every_combination_is_a_cell_of_its_own() {
        let own = encoding(vec![field("a", 2), field("b", 1), field("c", 3)]);
        let sizes: Vec<u32> = own.stated().fields.iter().map(|field| field.kind.columns() as u32).collect();
        let cells = own.cells().unwrap();
        assert_eq!(cells.count().get(), sizes.iter().product::<u32>());
        let mut seen = vec![false; cells.count().get() as usize];
        for one in 0..sizes[0] {
            for two in 0..sizes[1] {
                for three in 0..sizes[2] {
                    let indices = [one, sizes[0] + two, sizes[0] + sizes[1] + three];
                    let cell = cells.of(&indices).unwrap() as usize;
                    assert!(!std::mem::replace(&mut seen[cell], true), "{indices:?}");
                }
            }
        }
        assert!(seen.iter().all(|&seen| seen));
        for wrong in [&[][..], &[0], &[0, 0, 0], &[sizes[0], sizes[0], 9], &[u32::MAX; 3], &[0, sizes[0], 99, 99]] {
            assert_eq!(cells.of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn numbers_and_too_many_combinations_have_no_cells() {
        let scale = Scale { low: 0.0, high: 1.0, span: Span::Signed, missing: Some(0.0) };
        let number = Field { name: "x".to_owned(), kind: FieldKind::Number { column: 0, scale } };
        assert!(encoding(vec![field("a", 2)]).cells().is_some());
        assert!(encoding(vec![field("a", 2), number]).cells().is_none());
        let many: Vec<Field> = (0..3).map(|name| field(&name.to_string(), 250)).collect();
        assert!(encoding(many[..2].to_vec()).cells().is_some());
        assert!(encoding(many).cells().is_none());
        let kind = KeyKind::OneOf(Categories::Integers(vec![1, 2]));
        let one_of = Field { name: "k".to_owned(), kind: FieldKind::Category(Key { column: 0, kind }) };
        assert!(encoding(vec![one_of]).cells().is_some());
    }
}
