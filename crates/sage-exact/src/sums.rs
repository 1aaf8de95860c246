//! Exact sums of rows in 64-bit pieces, none of which can overflow.

/// The most rows of a piece: so many numbers of at most 2^40 stay below 2^62.
const PIECE_ROWS: usize = 1 << 22;

/// Sums over rows, as one or more pieces of the same size that add up to them.
pub struct Sums {
    size: usize,
    /// The pieces one after the other.
    pub numbers: Vec<i64>,
    /// How many rows were added.
    pub rows: u64,
    in_last: usize,
}

/// Where a row of the upper triangle of a square matrix would begin if it had its first columns too.
pub const fn triangle_row(size: usize, row: usize) -> usize {
    row * (2 * size - row - 1) / 2
}

impl Sums {
    /// No rows, in one piece of so many numbers.
    pub fn new(size: usize) -> Self {
        Self { size, numbers: vec![0; size], rows: 0, in_last: 0 }
    }

    /// The upper triangle of the moments of so many features and a label.
    pub fn of_moments(width: usize) -> Self {
        Self::new((width + 1) * (width + 2) / 2)
    }

    /// Sums that were written down; nothing if they are no whole pieces.
    pub fn written(size: usize, numbers: Vec<i64>, rows: u64) -> Option<Self> {
        let whole = size > 0 && !numbers.is_empty() && numbers.len().is_multiple_of(size);
        whole.then_some(Self { size, numbers, rows, in_last: PIECE_ROWS })
    }

    /// How many numbers a piece has.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// The piece that so many more rows are added to, each moving no number of it by more than 2^40.
    pub fn room(&mut self, rows: usize) -> &mut [i64] {
        if self.in_last + rows > PIECE_ROWS {
            self.numbers.resize(self.numbers.len() + self.size, 0);
            self.in_last = 0;
        }
        self.in_last += rows;
        self.rows += rows as u64;
        let last = self.numbers.len() - self.size;
        &mut self.numbers[last..]
    }

    /// The pieces.
    pub fn pieces(&mut self) -> impl Iterator<Item = &mut [i64]> {
        self.numbers.chunks_exact_mut(self.size)
    }

    /// Adds the sums to totals of as many numbers as a piece has.
    pub fn add_to(&self, total: &mut [i128]) {
        for piece in self.numbers.chunks_exact(self.size) {
            total.iter_mut().zip(piece).for_each(|(total, &sum)| *total += i128::from(sum));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rows_than_a_piece_holds_begin_another() {
        let mut sums = Sums::new(1);
        for _ in 0..3 {
            sums.room(PIECE_ROWS)[0] += (1 << 40) * PIECE_ROWS as i64;
        }
        let mut total = [0];
        sums.add_to(&mut total);
        assert_eq!((total[0], sums.rows, sums.numbers.len()), (3 << 62, 3 << 22, 3));
    }

    #[test]
    fn the_triangle_has_every_place_once() {
        for size in 1..9 {
            let places = (0..size).flat_map(|row| (row..size).map(move |column| triangle_row(size, row) + column));
            assert_eq!(places.collect::<Vec<_>>(), (0..size * (size + 1) / 2).collect::<Vec<_>>());
        }
    }
}
