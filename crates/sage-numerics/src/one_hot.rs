//! Moments of one-hot rows: how often two columns are active together, and the sum of the labels per column.
//!
//! A row has a one at each active column, a constant one for the intercept, and zeros elsewhere. Its products are
//! counts, so rows are transposed into one bit vector per column, and a count is the number of bits that two vectors
//! share. If there are many columns of which a row activates few, most vectors share nothing, and pairs are counted row
//! by row instead.

use pulp::{Simd, WithSimd};

use crate::arch::dispatch;

/// Rows per group; a group fills one word of each column's bit vector.
const GROUP: usize = 64;
/// Words per column that are counted together.
const WORDS: usize = 32;
/// Bit vectors are faster if a row activates more than one column out of this many.
const SPARSE: usize = 12;

/// Adds the moments of one-hot rows to an upper triangle over the columns, the intercept and the label.
pub struct OneHotMoments<'total> {
    active: usize,
    /// The rows of a group, each with a slot for the intercept, and their labels in integer units.
    pending: Vec<u32>,
    labels: Vec<i64>,
    /// For each feature, the rows of the group that have it as a bit mask, and the sum of the labels of all its rows.
    cells: Vec<(u64, i64)>,
    /// [`WORDS`] words for each feature; empty if pairs are counted row by row.
    bits: Vec<u64>,
    words: usize,
    total: &'total mut [i128],
}

impl<'total> OneHotMoments<'total> {
    /// Creates sums for rows with `active` one-hot indices out of `columns`.
    pub fn new(active: usize, columns: usize, total: &'total mut [i128]) -> Self {
        let bits = if columns <= SPARSE * active { vec![0; (columns + 1) * WORDS] } else { Vec::new() };
        let (pending, labels) = (vec![0; (active + 1) * GROUP], Vec::with_capacity(GROUP));
        Self { active, pending, labels, cells: vec![(0, 0); columns + 1], bits, words: 0, total }
    }

    /// Adds a row: the function writes the active indices into a zeroed slice and returns the label in integer units.
    ///
    /// # Guarantee
    /// A row whose indices are out of range or not strictly increasing counts as a row without features.
    // This runs once per row; without inlining it is a fifth slower.
    #[inline(always)]
    pub fn push(&mut self, row: impl FnOnce(&mut [u32]) -> i64) {
        let start = self.labels.len() * (self.active + 1);
        self.labels.push(row(&mut self.pending[start..start + self.active]));
        if self.labels.len() == GROUP {
            // Inside, the compiler may use the widest vector registers.
            dispatch(self);
        }
    }

    /// Transposes the rows of a group into one word per column.
    #[inline(always)]
    fn flush_group(&mut self) {
        let columns = self.cells.len() - 1;
        let (mut squares, width) = (0, self.active + 1);
        let pending = &mut self.pending[..self.labels.len() * width];
        // The intercept has the highest index, so an index out of range is out of order.
        pending.iter_mut().skip(self.active).step_by(width).for_each(|last| *last = columns as u32);
        let in_order = all_in_order(pending, self.active, columns as u32);
        for (bit, (&label, active)) in self.labels.iter().zip(pending.chunks_exact(width)).enumerate() {
            squares += label * label;
            if !in_order && active.iter().zip(active.iter().skip(1)).any(|(one, next)| one >= next) {
                continue;
            }
            for &column in active.iter() {
                let (bits, labels) = &mut self.cells[column as usize];
                *bits |= 1 << bit;
                // No overflow: at most 2^11 rows with labels of at most 2^20.
                *labels = labels.wrapping_add(label);
            }
            if self.bits.is_empty() {
                for (at, &column) in active.iter().enumerate() {
                    let row = triangle_row(columns + 2, column as usize);
                    active[at..].iter().for_each(|&other| self.total[row + other as usize] += 1);
                }
            }
        }
        if let Some(last) = self.total.last_mut() {
            *last += i128::from(squares);
        }
        for (column, (bits, _)) in self.bits.chunks_exact_mut(WORDS).zip(&mut self.cells) {
            column[self.words] = std::mem::take(bits);
        }
        self.pending.fill(0);
        self.labels.clear();
        self.words += 1;
        if self.words == WORDS {
            self.flush_words();
        }
    }

    /// Counts the bits that columns share, and adds the label sums.
    #[inline(always)]
    fn flush_words(&mut self) {
        let size = self.cells.len() + 1;
        let (columns, _) = self.bits.as_chunks();
        add_shared(columns, size, self.total);
        self.bits.fill(0);
        for (feature, (_, labels)) in self.cells.iter_mut().enumerate() {
            self.total[triangle_row(size, feature) + size - 1] += i128::from(std::mem::take(labels));
        }
        self.words = 0;
    }

    /// Adds the pending rows.
    pub fn finish(mut self) {
        self.flush_group();
        self.flush_words();
    }
}

impl WithSimd for &mut OneHotMoments<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.flush_group();
    }
}

/// Whether the `active` indices and the intercept of every row are strictly increasing.
///
/// All rows are checked in one pass: if no index is above `last`, no row starts above the end of the row before, so every
/// increase is within a row.
#[inline(always)]
fn all_in_order(rows: &[u32], active: usize, last: u32) -> bool {
    let (mut rises, mut largest) = (0u32, 0);
    for (&one, &next) in rows.iter().zip(rows.iter().skip(1)) {
        // A group is far too small for an overflow, and a check would cost more than the sum.
        rises = rises.wrapping_add(u32::from(one < next));
        largest = next.max(largest);
    }
    let largest = rows.first().map_or(largest, |&first| first.max(largest));
    largest <= last && rises as usize == rows.len() / (active + 1) * active
}

/// Adds, for every pair of columns, the number of bits they share.
#[inline(always)]
fn add_shared(columns: &[[u64; WORDS]], size: usize, total: &mut [i128]) {
    for (feature, left) in columns.iter().enumerate() {
        let total = total[triangle_row(size, feature) + feature..].iter_mut();
        for (total, right) in total.zip(&columns[feature..]) {
            let shared = left.iter().zip(right).map(|(left, right)| u64::from((left & right).count_ones()));
            *total += i128::from(shared.sum::<u64>());
        }
    }
}

/// The offset of a row in the packed upper triangle of a square matrix, minus the index of its first column, so that
/// `triangle_row(size, row) + column` is the position of an entry.
pub const fn triangle_row(size: usize, row: usize) -> usize {
    row * (2 * size - row - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The naive triangle: every row is expanded to ones and zeros, with its label last.
    fn naive_triangle(rows: &[(Vec<u32>, i64)], columns: usize) -> Vec<i128> {
        let size = columns + 2;
        let mut triangle = vec![0; size * (size + 1) / 2];
        for (active, label) in rows {
            let mut row = vec![0i128; size];
            row[columns + 1] = i128::from(*label);
            let fits = active.iter().all(|&column| (column as usize) < columns);
            if fits && active.windows(2).all(|pair| pair[0] < pair[1]) {
                active.iter().for_each(|&column| row[column as usize] = 1);
                row[columns] = 1;
            }
            let pairs = (0..size).flat_map(|one| (one..size).map(move |other| (one, other)));
            triangle.iter_mut().zip(pairs).for_each(|(sum, (one, other))| *sum += row[one] * row[other]);
        }
        triangle
    }

    #[test]
    fn the_triangle_has_every_entry_once() {
        for size in 1..9 {
            let entries = (0..size).flat_map(|row| (row..size).map(move |column| triangle_row(size, row) + column));
            assert_eq!(entries.collect::<Vec<_>>(), (0..size * (size + 1) / 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn counts_equal_naive_counts_around_every_edge() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for (active, columns) in [(0, 0), (0, 1), (1, 1), (1, 12), (1, 13), (2, 5), (3, 40), (5, 5)] {
            for count in [0, 1, 63, 64, 65, 64 * 32, 64 * 32 + 1, 5_000] {
                let row = |_| {
                    // Including hostile rows: out of order, repeated, or out of range.
                    let mut row: Vec<u32> = (0..active).map(|_| draw(columns as u64 + 1) as u32).collect();
                    if draw(8) > 0 {
                        row.sort_unstable();
                    }
                    (row, draw(1 << 21) as i64 - (1 << 20))
                };
                let rows: Vec<(Vec<u32>, i64)> = (0..count).map(row).collect();
                let mut total = vec![0; (columns + 2) * (columns + 3) / 2];
                let mut sums = OneHotMoments::new(active, columns, &mut total);
                for (row, label) in &rows {
                    sums.push(|active| {
                        active.copy_from_slice(row);
                        *label
                    });
                }
                sums.finish();
                assert_eq!(total, naive_triangle(&rows, columns), "{active} of {columns}, {count} rows");
            }
        }
    }
}
