//! Outer products of two factors of small whole numbers, added over rows, exactly.
//!
//! What is dense is multiplied as a matrix; where a row's input is one at a few places and zero elsewhere, its
//! errors are gathered at those places instead. Nothing here depends on the number of threads.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::outer::{Matrix, add_outer, pieces};
use crate::parallel::{parts, side_by_side};

/// Products that are worth a thread.
const WORTH: usize = 1 << 20;

/// Outputs whose sums are gathered at a time, so that those of a few dozen places stay in a near cache.
const OUTPUTS: usize = 512;
/// From so many outputs on they are gathered in 32 bits first.
const WIDE: usize = 64;

/// How wide the factors of a row are.
#[derive(Clone, Copy, Debug)]
pub struct Widths {
    /// Columns that are multiplied as a matrix.
    pub columns: usize,
    /// Errors of a row.
    pub outputs: usize,
    /// Places that a row names.
    pub named: usize,
    /// The place of the bias, which every row names, if there is one behind the places.
    pub bias: Option<usize>,
}

/// Both factors of rows' outer products. Peaks bound the products: what is added up in 32 bits follows them.
#[derive(Default)]
pub struct Factors {
    /// What is multiplied as a matrix.
    pub inputs: Vec<i16>,
    /// What the inputs that are one became.
    pub ones: Vec<i16>,
    /// What inputs are multiplied with.
    pub errors: Vec<i16>,
    /// The products of each row's largest entries.
    pub peaks: Vec<u32>,
}

/// Cuts off the first so many.
pub fn split<'data, T>(rest: &mut &'data mut [T], count: usize) -> &'data mut [T] {
    let (first, behind) = std::mem::take(rest).split_at_mut(count);
    *rest = behind;
    first
}

/// The sum of squares, in an order that lets the machine do several at once.
#[inline(always)]
pub fn square(values: &[f32]) -> f64 {
    let (chunks, rest) = values.as_chunks::<16>();
    let one = |value: &f32| f64::from(*value) * f64::from(*value);
    let rest = rest.iter().map(one).sum();
    if chunks.is_empty() {
        return rest;
    }
    let mut sums = [0.0f64; 16];
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += one(value));
    }
    sums.iter().sum::<f64>() + rest
}

/// One and a half times 2^23.
const WHOLE: f32 = 12_582_912.0;

/// Cuts the multiples to whole numbers; gives the largest, and the sum of squares.
#[inline(always)]
pub fn cut(values: &[f32], by: f32, out: &mut [i16]) -> (u32, u64) {
    for (out, &value) in out.iter_mut().zip(values) {
        let whole = (value * by).clamp(-32_767.0, 32_767.0).trunc();
        // Beside so large a number a whole one stands in the lowest bits, as it is: no cast does many at once.
        *out = (whole + WHOLE).to_bits() as i16;
    }
    let (mut largest, mut squares) = (0, 0u64);
    // Fewer than 2^32 squares of 30 bits fit into 64; the additions need no check of their own.
    for &entry in &*out {
        let entry = i32::from(entry);
        largest = entry.wrapping_abs().max(largest);
        squares = squares.wrapping_add(u64::from(entry.wrapping_mul(entry) as u32));
    }
    (largest.unsigned_abs(), squares)
}

impl Factors {
    /// Adds the outer products of all rows: for every number, place and the bias, output by output.
    pub fn add_to(&self, widths: Widths, places: &[u32], threads: usize, sums: &mut [i64]) {
        let Widths { columns, outputs, named, .. } = widths;
        if self.peaks.is_empty() || outputs == 0 {
            return;
        }
        let (mut dense, gathered) = sums.split_at_mut(columns * outputs);
        if columns > 0 {
            let left = Matrix { entries: &self.inputs, width: columns };
            let right = Matrix { entries: &self.errors, width: outputs };
            let pieces = pieces(&self.peaks);
            let worth = self.inputs.len().saturating_mul(outputs) / WORTH;
            let ranges = parts(columns, threads.min(1 + worth));
            let shares = ranges.into_iter().map(|range| {
                let share = split(&mut dense, range.len() * outputs);
                (range, share)
            });
            side_by_side(shares.collect(), |(range, share)| add_outer(left, range, right, &pieces, share));
        }
        if named > 0 {
            self.gather(widths, places, threads, gathered);
        }
    }

    /// The places that a row names, and the bias behind them. What is silenced has none that could be relied
    /// on, and nothing to add.
    #[inline(always)]
    fn named(&self, widths: Widths, places: &[u32], row: usize) -> impl Iterator<Item = usize> {
        let places = if self.ones[row] == 0 { &[] } else { &places[row * widths.named..][..widths.named] };
        places.iter().map(|&place| place as usize).chain(widths.bias)
    }

    fn gather_narrow(&self, widths: Widths, places: &[u32], sums: &mut [i64]) {
        let outputs = widths.outputs;
        for (row, errors) in self.errors.chunks_exact(outputs).enumerate() {
            let one = i64::from(self.ones[row]);
            for place in self.named(widths, places, row) {
                let sums = sums[place * outputs..][..outputs].iter_mut();
                let both = sums.zip(errors);
                both.for_each(|(sum, &error)| *sum = sum.wrapping_add(one.wrapping_mul(i64::from(error))));
            }
        }
    }

    /// Adds each row's errors to those of the places it names, and to the bias behind the places.
    fn gather(&self, widths: Widths, places: &[u32], threads: usize, sums: &mut [i64]) {
        let outputs = widths.outputs;
        if outputs < WIDE {
            return self.gather_narrow(widths, places, sums);
        }
        let worth = self.errors.len().saturating_mul(widths.named + 1) / WORTH;
        let ranges = parts(outputs, threads.min(1 + worth).min(outputs.div_ceil(OUTPUTS)));
        let mut shares: Vec<(Range<usize>, Vec<&mut [i64]>)> =
            ranges.into_iter().map(|range| (range, Vec::new())).collect();
        for mut sums in sums.chunks_exact_mut(outputs) {
            for (range, share) in &mut shares {
                share.push(split(&mut sums, range.len()));
            }
        }
        side_by_side(shares, |(range, mut share)| {
            for first in range.clone().step_by(OUTPUTS) {
                let some = first..range.end.min(first + OUTPUTS);
                let task =
                    Gather { factors: self, widths, places, first: range.start, outputs: some, sums: &mut share };
                Arch::new().dispatch(task);
            }
        });
    }
}

struct Gather<'data, 'sums> {
    factors: &'data Factors,
    widths: Widths,
    places: &'data [u32],
    /// The output that each of the sums begins with.
    first: usize,
    outputs: Range<usize>,
    sums: &'data mut [&'sums mut [i64]],
}

impl WithSimd for Gather<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { factors, widths, places, first, outputs, sums } = self;
        let target = outputs.start - first..outputs.end - first;
        let mut products = [0i32; OUTPUTS];
        let products = &mut products[..outputs.len()];
        let mut near = vec![0i32; sums.len() * products.len()];
        for rows in pieces(&factors.peaks) {
            near.fill(0);
            for row in rows {
                let errors = &factors.errors[row * widths.outputs..][outputs.clone()];
                for (product, &error) in products.iter_mut().zip(errors) {
                    *product = i32::from(error).wrapping_mul(i32::from(factors.ones[row]));
                }
                for place in factors.named(widths, places, row) {
                    let near = near[place * products.len()..][..products.len()].iter_mut();
                    near.zip(&*products).for_each(|(near, &product)| *near = near.wrapping_add(product));
                }
            }
            for (sums, near) in sums.iter_mut().zip(near.chunks_exact(products.len())) {
                let both = sums[target.clone()].iter_mut().zip(near);
                both.for_each(|(sum, &near)| *sum = sum.wrapping_add(i64::from(near)));
            }
        }
    }
}
