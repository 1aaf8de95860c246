//! Rows that only name places: which places they name together, and the sums of their labels by place.
//!
//! Such a row is ones at the places it names, a one that every row has, and zeros. Its products are counts,
//! so rows become columns of bits, and a count is the number of bits that two columns share. Where places are
//! many and a row names few of them, most columns share nothing, and pairs are counted row by row instead.

use pulp::{Arch, Simd, WithSimd};

use crate::sums::{Sums, triangle_row};

/// Rows that are turned into a word of each column at a time.
const GROUP: usize = 64;
/// Words of a column that are counted at a time.
const WORDS: usize = 32;
/// Columns of bits pay if a row names more than one place in so many.
const SPARSE: usize = 12;

/// Gathers rows of named places into the triangle of their moments: places, the one that every row has, the
/// label.
pub struct PlaceSums {
    places: usize,
    named: usize,
    /// The rows of a group, written one after the other, and their labels in whole units.
    pending: Vec<u32>,
    labels: Vec<i64>,
    /// So many words for each place; none if pairs are counted row by row.
    bits: Vec<u64>,
    words: usize,
    /// For each place the rows of the group that name it, and the sum of the labels of all that did.
    cells: Vec<(u64, i64)>,
    /// The other sums: rows with features, their labels, and the squares of all labels.
    whole: [i64; 3],
    sums: Sums,
}

impl PlaceSums {
    /// For rows that name so many of so many places.
    pub fn new(named: usize, places: usize) -> Self {
        Self {
            places,
            named,
            pending: vec![0; named * GROUP],
            labels: Vec::with_capacity(GROUP),
            bits: if places <= SPARSE * named { vec![0; places * WORDS] } else { Vec::new() },
            words: 0,
            cells: vec![(0, 0); places],
            whole: [0; 3],
            sums: Sums::of_moments(places + 1),
        }
    }

    /// Takes a row: what the function writes into zeros, and the label in whole units that it returns.
    ///
    /// # Guarantee
    /// A row that names a place beyond the last, or not each once and in order, has no features.
    pub fn push(&mut self, row: impl FnOnce(&mut [u32]) -> i64) {
        let start = self.labels.len() * self.named;
        self.labels.push(row(&mut self.pending[start..start + self.named]));
        if self.labels.len() == GROUP {
            self.gather();
        }
    }

    /// Turns the rows of a group into words.
    fn gather(&mut self) {
        let sums = self.sums.room(self.labels.len());
        for (bit, &label) in self.labels.iter().enumerate() {
            let named = &self.pending[bit * self.named..][..self.named];
            self.whole[2] += label * label;
            let falling = named.iter().zip(named.iter().skip(1)).filter(|(one, next)| one >= next).count();
            if falling > 0 || named.last().is_some_and(|&place| place as usize >= self.places) {
                continue;
            }
            self.whole[0] += 1;
            self.whole[1] += label;
            for &place in named {
                let (bits, labels) = &mut self.cells[place as usize];
                *bits |= 1 << bit;
                // Far from any overflow: 2^11 rows of at most 2^20.
                *labels = labels.wrapping_add(label);
            }
            if self.bits.is_empty() {
                for (at, &place) in named.iter().enumerate() {
                    let row = triangle_row(self.places + 2, place as usize);
                    named[at..].iter().for_each(|&other| sums[row + other as usize] += 1);
                }
            }
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

    /// Counts what the columns share, and adds what was summed by place.
    fn count(&mut self) {
        let (places, size) = (self.places, self.places + 2);
        let sums = self.sums.room(0);
        if !self.bits.is_empty() {
            Arch::new().dispatch(SharedBits { columns: &self.bits, size, sums });
            self.bits.fill(0);
        }
        for (place, (_, labels)) in self.cells.iter_mut().enumerate() {
            sums[triangle_row(size, place) + places + 1] += std::mem::take(labels);
        }
        let corner = &mut sums[triangle_row(size, places) + places..];
        corner.iter_mut().zip(&mut self.whole).for_each(|(sum, whole)| *sum += std::mem::take(whole));
        self.words = 0;
    }

    /// The sums; what a place shares with the one that every row has is what it shares with itself.
    pub fn finish(mut self) -> Sums {
        self.gather();
        self.count();
        let size = self.places + 2;
        for piece in self.sums.pieces() {
            for place in 0..self.places {
                let row = triangle_row(size, place);
                piece[row + self.places] = piece[row + place];
            }
        }
        self.sums
    }
}

/// Adds, for every two columns, how many bits they share.
struct SharedBits<'data> {
    columns: &'data [u64],
    size: usize,
    sums: &'data mut [i64],
}

impl WithSimd for SharedBits<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let (columns, _) = self.columns.as_chunks::<WORDS>();
        for (place, left) in columns.iter().enumerate() {
            let sums = &mut self.sums[triangle_row(self.size, place) + place..];
            for (sum, right) in sums.iter_mut().zip(&columns[place..]) {
                let shared = left.iter().zip(right).map(|(left, right)| u64::from((left & right).count_ones()));
                *sum += shared.sum::<u64>() as i64;
            }
        }
    }
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
                let mut sums = PlaceSums::new(named, places);
                for (row, label) in &rows {
                    sums.push(|named| {
                        named.copy_from_slice(row);
                        *label
                    });
                }
                let sums = sums.finish();
                let mut total = vec![0; (places + 2) * (places + 3) / 2];
                sums.add_to(&mut total);
                assert_eq!(total, by_hand(&rows, places), "{named} of {places}, {count} rows");
                assert_eq!(sums.rows, count as u64);
            }
        }
    }
}
