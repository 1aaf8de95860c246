//! Rows that only name places: which places they name together, and the sums of their labels by place.
//!
//! Such a row is ones at the places it names, a one that every row has, and zeros. Its products are counts,
//! so rows become columns of bits, and a count is the number of bits that two columns share. Where places are
//! many and a row names few of them, most columns share nothing, and pairs are counted row by row instead.

use pulp::{Arch, Simd, WithSimd};

/// Rows that are turned into a word of each column at a time.
const GROUP: usize = 64;
/// Words of a column that are counted at a time.
const WORDS: usize = 32;
/// Columns of bits pay if a row names more than one place in so many.
const SPARSE: usize = 12;

/// Adds rows of named places to the triangle of their moments: places, the one that every row has, the label.
pub struct PlaceSums<'total> {
    named: usize,
    /// The rows of a group, one after the other, each with room for the one that every row has, and their
    /// labels in whole units.
    pending: Vec<u32>,
    labels: Vec<i64>,
    /// For each feature the rows of the group that have it, and the sum of the labels of all that had.
    cells: Vec<(u64, i64)>,
    /// So many words for each feature; none if pairs are counted row by row.
    bits: Vec<u64>,
    words: usize,
    total: &'total mut [i128],
}

impl<'total> PlaceSums<'total> {
    /// For rows that name so many of so many places.
    pub fn new(named: usize, places: usize, total: &'total mut [i128]) -> Self {
        let bits = if places <= SPARSE * named { vec![0; (places + 1) * WORDS] } else { Vec::new() };
        let (pending, labels) = (vec![0; (named + 1) * GROUP], Vec::with_capacity(GROUP));
        Self { named, pending, labels, cells: vec![(0, 0); places + 1], bits, words: 0, total }
    }

    /// Takes a row: what the function writes into zeros, and the label in whole units that it returns.
    ///
    /// # Guarantee
    /// A row that names a place beyond the last, or not each once and in order, has no features.
    // Every row comes through here, and a call for each costs a fifth of the speed.
    #[inline(always)]
    pub fn push(&mut self, row: impl FnOnce(&mut [u32]) -> i64) {
        let start = self.labels.len() * (self.named + 1);
        self.labels.push(row(&mut self.pending[start..start + self.named]));
        if self.labels.len() == GROUP {
            // There the compiler may use the widest registers the machine has.
            Arch::new().dispatch(self);
        }
    }

    /// Turns the rows of a group into words.
    #[inline(always)]
    fn gather(&mut self) {
        let places = self.cells.len() - 1;
        let (mut squares, width) = (0, self.named + 1);
        let pending = &mut self.pending[..self.labels.len() * width];
        // Behind all places, so that what is beyond the last is out of order.
        pending.iter_mut().skip(self.named).step_by(width).for_each(|last| *last = places as u32);
        let in_order = all_in_order(pending, self.named, places as u32);
        for (bit, (&label, named)) in self.labels.iter().zip(pending.chunks_exact(width)).enumerate() {
            squares += label * label;
            if !in_order && named.iter().zip(named.iter().skip(1)).any(|(one, next)| one >= next) {
                continue;
            }
            for &place in named.iter() {
                let (bits, labels) = &mut self.cells[place as usize];
                *bits |= 1 << bit;
                // Far from any overflow: 2^11 rows of at most 2^20.
                *labels = labels.wrapping_add(label);
            }
            if self.bits.is_empty() {
                for (at, &place) in named.iter().enumerate() {
                    let row = triangle_row(places + 2, place as usize);
                    named[at..].iter().for_each(|&other| self.total[row + other as usize] += 1);
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
            self.count();
        }
    }

    /// Counts what the columns share, and adds what was summed by feature.
    #[inline(always)]
    fn count(&mut self) {
        let size = self.cells.len() + 1;
        let (columns, _) = self.bits.as_chunks();
        add_shared(columns, size, self.total);
        self.bits.fill(0);
        for (feature, (_, labels)) in self.cells.iter_mut().enumerate() {
            self.total[triangle_row(size, feature) + size - 1] += i128::from(std::mem::take(labels));
        }
        self.words = 0;
    }

    /// Adds what is still pending.
    pub fn finish(mut self) {
        self.gather();
        self.count();
    }
}

impl WithSimd for &mut PlaceSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.gather();
    }
}

/// Whether in every row, of so many places and the one behind them all, each is above the one before.
///
/// Rows are looked at together: if nothing is above the last, no row begins above the end of the one before, so
/// all that rises is within rows.
#[inline(always)]
fn all_in_order(rows: &[u32], named: usize, last: u32) -> bool {
    let (mut rises, mut largest) = (0u32, 0);
    for (&one, &next) in rows.iter().zip(rows.iter().skip(1)) {
        // A group is far too small for this to wrap, and a check would cost more than the sum.
        rises = rises.wrapping_add(u32::from(one < next));
        largest = next.max(largest);
    }
    let largest = rows.first().map_or(largest, |&first| first.max(largest));
    largest <= last && rises as usize == rows.len() / (named + 1) * named
}

/// Adds, for every two columns, how many bits they share.
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

/// Where a row of the upper triangle of a square matrix would begin if it had its first columns too.
pub const fn triangle_row(size: usize, row: usize) -> usize {
    row * (2 * size - row - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The triangle by hand: every row written out as ones and zeros with its label last.
    fn by_hand(rows: &[(Vec<u32>, i64)], places: usize) -> Vec<i128> {
        let size = places + 2;
        let mut triangle = vec![0; size * (size + 1) / 2];
        for (named, label) in rows {
            let mut row = vec![0i128; size];
            row[places + 1] = i128::from(*label);
            let fits = named.iter().all(|&place| (place as usize) < places);
            if fits && named.windows(2).all(|pair| pair[0] < pair[1]) {
                named.iter().for_each(|&place| row[place as usize] = 1);
                row[places] = 1;
            }
            let pairs = (0..size).flat_map(|one| (one..size).map(move |other| (one, other)));
            triangle.iter_mut().zip(pairs).for_each(|(sum, (one, other))| *sum += row[one] * row[other]);
        }
        triangle
    }

    #[test]
    fn the_triangle_has_every_place_once() {
        for size in 1..9 {
            let places = (0..size).flat_map(|row| (row..size).map(move |column| triangle_row(size, row) + column));
            assert_eq!(places.collect::<Vec<_>>(), (0..size * (size + 1) / 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn counts_equal_those_by_hand_around_every_edge() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for (named, places) in [(0, 0), (0, 1), (1, 1), (1, 12), (1, 13), (2, 5), (3, 40), (5, 5)] {
            for count in [0, 1, 63, 64, 65, 64 * 32, 64 * 32 + 1, 5_000] {
                let row = |_| {
                    // Hostile rows among the others: out of order, twice the same, beyond the last.
                    let mut row: Vec<u32> = (0..named).map(|_| draw(places as u64 + 1) as u32).collect();
                    if draw(8) > 0 {
                        row.sort_unstable();
                    }
                    (row, draw(1 << 21) as i64 - (1 << 20))
                };
                let rows: Vec<(Vec<u32>, i64)> = (0..count).map(row).collect();
                let mut total = vec![0; (places + 2) * (places + 3) / 2];
                let mut sums = PlaceSums::new(named, places, &mut total);
                for (row, label) in &rows {
                    sums.push(|named| {
                        named.copy_from_slice(row);
                        *label
                    });
                }
                sums.finish();
                assert_eq!(total, by_hand(&rows, places), "{named} of {places}, {count} rows");
            }
        }
    }
}
