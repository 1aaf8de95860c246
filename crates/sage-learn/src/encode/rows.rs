//! Encoded rows: numbers as `f32`, categories as indices.
//!
//! Every learner reads this form. A category is never a column of zeros with a one in it: it is the place
//! of the one. Each categorical field has a range of places to itself and names exactly one of them in
//! every row, so a row's places are different and in order by construction.

use sage_kernel::Rows;

/// How wide an encoded row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Numbers of a row.
    pub numbers: u32,
    /// Places that a row names: as many as there are categorical fields.
    pub named: u32,
    /// How many places there are in all.
    pub places: u32,
}

impl Layout {
    /// How many inputs a learner sees: the numbers first, then the places.
    pub const fn inputs(self) -> u32 {
        self.numbers + self.places
    }
}

/// A batch of encoded rows.
pub struct Encoded {
    layout: Layout,
    numbers: Vec<f32>,
    places: Vec<u32>,
    labels: Vec<f32>,
    /// How many numbers stand beside a row.
    width_beside: usize,
    beside: Vec<f32>,
}

impl Encoded {
    /// No rows yet.
    pub const fn new(layout: Layout) -> Self {
        Self::beside(layout, 0)
    }

    /// Rows one after the other; nothing if the sizes do not fit the layout.
    pub fn from_parts(layout: Layout, numbers: Vec<f32>, places: Vec<u32>, labels: Vec<f32>) -> Option<Self> {
        let rows = labels.len();
        let fits = numbers.len() == rows * layout.numbers as usize && places.len() == rows * layout.named as usize;
        fits.then_some(Self { layout, numbers, places, labels, width_beside: 0, beside: Vec::new() })
    }

    /// The same rows with one more number beside each, after those that are there; nothing if there is not one for
    /// each row.
    pub fn with_beside(mut self, column: &[f32]) -> Option<Self> {
        if column.len() != self.labels.len() {
            return None;
        }
        let mut beside = Vec::with_capacity(self.beside.len() + column.len());
        for (place, number) in column.iter().enumerate() {
            beside.extend_from_slice(&self.beside[place * self.width_beside..][..self.width_beside]);
            beside.push(*number);
        }
        self.beside = beside;
        self.width_beside += 1;
        Some(self)
    }

    /// How wide the rows are.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Puts a table's number in the stead of the key that every row carries as the number at this place.
    ///
    /// Row by row, and total: a key that the table does not have, or a place that a row does not have,
    /// changes nothing.
    pub fn join(&mut self, place: usize, table: &[f32]) {
        let width = self.layout.numbers as usize;
        if place >= width {
            return;
        }
        for number in self.numbers.iter_mut().skip(place).step_by(width) {
            *number = table.get(*number as usize).copied().unwrap_or(*number);
        }
    }

    /// Apart from the rest of a row, since most rows have nothing there and learners ask for rows by the million.
    #[cold]
    fn beside_of(&self, place: usize) -> &[f32] {
        &self.beside[place * self.width_beside..][..self.width_beside]
    }

    /// No rows yet, each of which will have so many numbers beside it.
    pub(super) const fn beside(layout: Layout, width_beside: usize) -> Self {
        Self { layout, numbers: Vec::new(), places: Vec::new(), labels: Vec::new(), width_beside, beside: Vec::new() }
    }

    pub(super) const fn parts_mut(&mut self) -> Parts<'_> {
        Parts {
            numbers: &mut self.numbers,
            places: &mut self.places,
            labels: &mut self.labels,
            beside: &mut self.beside,
        }
    }
}

/// What the numbers of a batch are written into, row by row.
pub(super) struct Parts<'rows> {
    pub(super) numbers: &'rows mut Vec<f32>,
    pub(super) places: &'rows mut Vec<u32>,
    pub(super) labels: &'rows mut Vec<f32>,
    pub(super) beside: &'rows mut Vec<f32>,
}

/// One encoded row.
#[derive(Clone, Copy)]
pub struct Example<'rows> {
    /// Its numbers.
    pub numbers: &'rows [f32],
    /// The places it names, different and in order.
    pub places: &'rows [u32],
    /// What is to be predicted.
    pub label: f32,
    /// What stands beside it.
    pub beside: &'rows [f32],
}

impl Example<'_> {
    /// Its features one by one into room that is zero: numbers, then places, and one that every row has last.
    ///
    /// Inlined wherever rows come through it: as a call it costs learners a third of their speed.
    #[inline(always)]
    pub fn fill_features(&self, features: &mut [f64]) {
        let (numbers, rest) = features.split_at_mut(self.numbers.len());
        numbers.iter_mut().zip(self.numbers).for_each(|(feature, &number)| *feature = f64::from(number));
        for &place in self.places {
            if let Some(feature) = rest.get_mut(place as usize) {
                *feature = 1.0;
            }
        }
        rest.iter_mut().rev().take(1).for_each(|last| *last = 1.0);
    }
}

impl Rows for Encoded {
    type Row<'rows> = Example<'rows>;

    #[inline]
    fn count(&self) -> usize {
        self.labels.len()
    }

    #[inline]
    fn row(&self, place: usize) -> Example<'_> {
        let (numbers, named) = (self.layout.numbers as usize, self.layout.named as usize);
        Example {
            numbers: &self.numbers[place * numbers..][..numbers],
            places: &self.places[place * named..][..named],
            label: self.labels[place],
            beside: if self.width_beside == 0 { &[] } else { self.beside_of(place) },
        }
    }
}
