//! Encoded rows: numbers as `f32`, categories as indices.
//!
//! Every learner reads this form. A category is not stored as a one-hot vector but as the index of its one. Each
//! categorical field has its own range of one-hot indices and exactly one of them in every row, so a row's indices are
//! distinct and ascending by construction.

use std::ops::{Deref, Range};

use sage_kernel::Rows;

/// The layout of an encoded row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Numbers of a row.
    pub numbers: u32,
    /// One-hot indices of a row: one for each categorical field.
    pub active: u32,
    /// The total number of one-hot columns.
    pub columns: u32,
}

impl Layout {
    /// The number of inputs of a learner: the numbers, then the one-hot columns.
    pub const fn inputs(self) -> u32 {
        self.numbers + self.columns
    }
}

/// A batch of encoded rows.
pub struct Encoded {
    layout: Layout,
    numbers: Vec<f32>,
    indices: Vec<u32>,
    labels: Vec<f32>,
    /// How many auxiliary numbers a row has.
    width_beside: usize,
    beside: Vec<f32>,
    /// The end of each unit's records; `None` if every record is a unit.
    ends: Option<Vec<usize>>,
}

impl Encoded {
    /// No rows yet.
    pub const fn new(layout: Layout) -> Self {
        Self::beside(layout, 0)
    }

    /// Row-major parts of rows; `None` if the sizes do not match the layout.
    pub fn from_parts(layout: Layout, numbers: Vec<f32>, indices: Vec<u32>, labels: Vec<f32>) -> Option<Self> {
        let rows = labels.len();
        let fits = numbers.len() == rows * layout.numbers as usize && indices.len() == rows * layout.active as usize;
        fits.then_some(Self { layout, numbers, indices, labels, width_beside: 0, beside: Vec::new(), ends: None })
    }

    /// The same records as units that end at these indices; `None` unless every unit has a record and every record a unit.
    pub fn with_units(self, ends: Vec<usize>) -> Option<Self> {
        let starts = [0].into_iter().chain(ends.iter().copied());
        let whole = ends.last().copied().unwrap_or(0) == self.labels.len();
        let fits = whole && starts.zip(&ends).all(|(start, &end)| start < end);
        fits.then_some(Self { ends: Some(ends), ..self })
    }

    /// All records, in the order of their units.
    pub fn all_records(&self) -> impl Iterator<Item = Example<'_>> {
        (0..self.labels.len()).map(|index| self.example(index))
    }

    /// The same rows with one more auxiliary number each, after the existing ones; `None` if there is not one for each
    /// record.
    pub fn with_beside(mut self, column: &[f32]) -> Option<Self> {
        if column.len() != self.labels.len() {
            return None;
        }
        let mut beside = Vec::with_capacity(self.beside.len() + column.len());
        for (row, number) in column.iter().enumerate() {
            beside.extend_from_slice(&self.beside[row * self.width_beside..][..self.width_beside]);
            beside.push(*number);
        }
        self.beside = beside;
        self.width_beside += 1;
        Some(self)
    }

    /// The layout of the rows.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Replaces the key that every row carries in the number at this index by the table's number.
    ///
    /// Row by row, and total: a key that is not in the table, or an index that a row does not have, changes nothing.
    pub fn join(&mut self, index: usize, table: &[f32]) {
        let width = self.layout.numbers as usize;
        if index >= width {
            return;
        }
        for number in self.numbers.iter_mut().skip(index).step_by(width) {
            *number = table.get(*number as usize).copied().unwrap_or(*number);
        }
    }

    /// The auxiliary numbers of a row. Out of line: most rows have none, and learners read millions of rows.
    #[cold]
    fn beside_of(&self, row: usize) -> &[f32] {
        &self.beside[row * self.width_beside..][..self.width_beside]
    }

    /// No rows yet, each with `width` auxiliary numbers.
    pub(super) const fn beside(layout: Layout, width_beside: usize) -> Self {
        Self {
            layout,
            numbers: Vec::new(),
            indices: Vec::new(),
            labels: Vec::new(),
            width_beside,
            beside: Vec::new(),
            ends: None,
        }
    }

    /// Ends a unit with the last record, if it has records.
    pub(super) fn end_unit(&mut self) {
        let end = self.labels.len();
        let ends = self.ends.get_or_insert_default();
        if ends.last().copied().unwrap_or(0) < end {
            ends.push(end);
        }
    }

    #[inline]
    fn example(&self, index: usize) -> Example<'_> {
        let (numbers, active) = (self.layout.numbers as usize, self.layout.active as usize);
        Example {
            numbers: &self.numbers[index * numbers..][..numbers],
            indices: &self.indices[index * active..][..active],
            label: self.labels[index],
            beside: if self.width_beside == 0 { &[] } else { self.beside_of(index) },
        }
    }

    /// The indices of a unit's records.
    #[inline]
    fn range(&self, unit: usize) -> Range<usize> {
        match &self.ends {
            None => unit..unit + 1,
            Some(ends) => (if unit == 0 { 0 } else { ends[unit - 1] })..ends[unit],
        }
    }

    pub(super) const fn parts_mut(&mut self) -> Parts<'_> {
        Parts {
            numbers: &mut self.numbers,
            indices: &mut self.indices,
            labels: &mut self.labels,
            beside: &mut self.beside,
        }
    }
}

/// The buffers that rows are encoded into.
pub(super) struct Parts<'rows> {
    pub(super) numbers: &'rows mut Vec<f32>,
    pub(super) indices: &'rows mut Vec<u32>,
    pub(super) labels: &'rows mut Vec<f32>,
    pub(super) beside: &'rows mut Vec<f32>,
}

/// One encoded record.
#[derive(Clone, Copy)]
pub struct Example<'rows> {
    /// Its numbers.
    pub numbers: &'rows [f32],
    /// Its one-hot indices, distinct and ascending.
    pub indices: &'rows [u32],
    /// The label.
    pub label: f32,
    /// Its auxiliary numbers.
    pub beside: &'rows [f32],
}

impl Example<'_> {
    /// Writes its features into a zeroed buffer: numbers, then the one-hot columns, then a constant one.
    ///
    /// Inlined into every loop over rows: as a call it costs learners a third of their speed.
    #[inline(always)]
    pub fn fill_features(&self, features: &mut [f64]) {
        let (numbers, rest) = features.split_at_mut(self.numbers.len());
        numbers.iter_mut().zip(self.numbers).for_each(|(feature, &number)| *feature = f64::from(number));
        for &index in self.indices {
            if let Some(feature) = rest.get_mut(index as usize) {
                *feature = 1.0;
            }
        }
        rest.iter_mut().rev().take(1).for_each(|last| *last = 1.0);
    }
}

/// A row of a session: the encoded records of one privacy unit. It stands for the one of them that is in front.
#[derive(Clone, Copy)]
pub struct UnitExamples<'rows> {
    front: Example<'rows>,
    batch: &'rows Encoded,
    unit: usize,
}

impl<'rows> UnitExamples<'rows> {
    /// The records of the unit; there is at least one.
    pub fn records(self) -> impl Iterator<Item = Example<'rows>> {
        self.batch.range(self.unit).map(|index| self.batch.example(index))
    }
}

impl<'rows> Deref for UnitExamples<'rows> {
    type Target = Example<'rows>;

    #[inline]
    fn deref(&self) -> &Example<'rows> {
        &self.front
    }
}

impl Rows for Encoded {
    type Row<'rows> = UnitExamples<'rows>;

    #[inline]
    fn count(&self) -> usize {
        self.ends.as_ref().map_or(self.labels.len(), Vec::len)
    }

    #[inline]
    fn row(&self, index: usize) -> UnitExamples<'_> {
        self.record(index, 0)
    }

    #[inline]
    fn records(&self, index: usize) -> usize {
        self.range(index).len()
    }

    #[inline]
    fn record(&self, index: usize, record: usize) -> UnitExamples<'_> {
        UnitExamples { front: self.example(self.range(index).start + record), batch: self, unit: index }
    }
}
