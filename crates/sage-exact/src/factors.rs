//! Outer products of two factors of small whole numbers, added over rows, exactly.
//!
//! What is dense is multiplied as a matrix; where a row's input is one at a few places and zero elsewhere, its
//! errors are gathered at those places instead. Nothing here depends on the number of threads.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::outer::{Matrix, add_outer, pieces};
use crate::parallel::{parts, shares, side_by_side};

/// Products that are worth a thread, and those of gathering, each of which takes longer.
const WORTH: usize = 1 << 20;
const GATHER_WORTH: usize = 1 << 15;

/// Outputs whose sums are gathered at a time, so that those of a few dozen places stay in a near cache.
const OUTPUTS: usize = 512;
/// From so many outputs on they are gathered in 32 bits first, and below that where there are at most so many sums.
const WIDE: usize = 64;
const NEAR: usize = 1 << 14;

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
    /// The places that rows name.
    pub places: Vec<u32>,
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
    let one = |value: &f32| f64::from(*value) * f64::from(*value);
    if let Ok(values) = <&[f32; 8]>::try_from(values) {
        let squares: [f64; 8] = std::array::from_fn(|place| one(&values[place]));
        return in_pairs(squares);
    }
    let (chunks, rest) = values.as_chunks::<16>();
    let rest = rest.iter().map(one).sum();
    if chunks.is_empty() {
        return rest;
    }
    let mut sums = [0.0f64; 16];
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += one(value));
    }
    in_pairs(std::array::from_fn(|place| sums[place] + sums[place + 8])) + rest
}

#[inline(always)]
fn in_pairs(sums: [f64; 8]) -> f64 {
    let four: [f64; 4] = std::array::from_fn(|place| sums[place] + sums[place + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// One and a half times 2^23.
const WHOLE: f32 = 12_582_912.0;

/// A multiple cut to a whole number.
#[inline(always)]
fn cut_one(value: f32, by: f32) -> i16 {
    let whole = (value * by).clamp(-32_767.0, 32_767.0).trunc();
    // Beside so large a number a whole one stands in the lowest bits, as it is: no cast does many at once.
    (whole + WHOLE).to_bits() as i16
}

/// Cuts the multiples to whole numbers; gives the largest, and the sum of squares.
#[inline(always)]
pub fn cut(values: &[f32], by: f32, out: &mut [i16]) -> (u32, u64) {
    // Embeddings are many and short; of a known size they are done with a few instructions.
    if let (Ok(values), Ok(out)) = (<&[f32; 8]>::try_from(values), <&mut [i16; 8]>::try_from(&mut *out)) {
        *out = std::array::from_fn(|place| cut_one(values[place], by));
        let entries: [i32; 8] = std::array::from_fn(|place| i32::from(out[place]));
        let largest = entries.iter().fold(0, |largest, entry| entry.wrapping_abs().max(largest));
        let squares: [u64; 8] =
            std::array::from_fn(|place| u64::from(entries[place].wrapping_mul(entries[place]) as u32));
        return (largest.unsigned_abs(), squares.iter().fold(0, |sum, square| sum.wrapping_add(*square)));
    }
    for (out, &value) in out.iter_mut().zip(values) {
        *out = cut_one(value, by);
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

/// Writes the sums of all rows' outer products, for each of some layers: for every number, place and the bias, output
/// by output. What stood there is written over.
pub fn sum_outer_products<'data>(
    layers: impl Iterator<Item = (&'data Factors, Widths, &'data mut Vec<i64>)>, threads: usize,
) {
    let mut lists: Vec<Vec<Task<'_>>> = (0..threads.max(1)).map(|_| Vec::new()).collect();
    let (mut narrow, mut worth) = (Vec::new(), 0usize);
    for (factors, widths, sums) in layers {
        let Widths { columns, outputs, named, .. } = widths;
        if factors.peaks.is_empty() || outputs == 0 {
            sums.fill(0);
            continue;
        }
        let (dense, gathered) = sums.split_at_mut(columns * outputs);
        if columns > 0 {
            deal(&mut lists, factors.multiplications(widths, threads, dense));
        }
        if named == 0 {
            gathered.fill(0);
        } else if outputs >= WIDE {
            deal(&mut lists, factors.gatherings(widths, threads, gathered));
        } else {
            worth = worth.saturating_add(factors.errors.len().saturating_mul(named) / GATHER_WORTH);
            narrow.push(Narrow { factors, widths, sums: gathered });
        }
    }
    // Many are small, as embeddings are: threads share them out.
    deal(
        &mut lists,
        shares(narrow, threads.min(1 + worth), |layer| layer.factors.errors.len()).into_iter().map(Task::Narrow),
    );
    lists.retain(|list| !list.is_empty());
    side_by_side(lists, |list| list.into_iter().for_each(Task::work));
}

/// What one thread does without waiting for another. It clears its sums itself: they are near then.
enum Task<'data> {
    /// Some columns of what is multiplied as a matrix.
    Multiply(&'data Factors, Widths, Range<usize>, &'data mut [i64]),
    /// Some outputs of what is gathered, for every place and the bias.
    Gather(&'data Factors, Widths, Range<usize>, Vec<&'data mut [i64]>),
    /// Layers of few outputs.
    Narrow(Vec<Narrow<'data>>),
}

/// Gives the tasks out, the first to the last list, which is done by the thread that waits for the others.
fn deal<'data>(lists: &mut [Vec<Task<'data>>], tasks: impl Iterator<Item = Task<'data>>) {
    let count = lists.len();
    tasks.enumerate().for_each(|(place, task)| lists[count - 1 - place % count].push(task));
}

impl Task<'_> {
    fn work(self) {
        match self {
            Self::Multiply(factors, widths, columns, sums) => {
                sums.fill(0);
                let left = Matrix { entries: &factors.inputs, width: widths.columns };
                let right = Matrix { entries: &factors.errors, width: widths.outputs };
                add_outer(left, columns, right, &pieces(&factors.peaks), sums);
            }
            Self::Gather(factors, widths, range, mut sums) => {
                sums.iter_mut().for_each(|sums| sums.fill(0));
                for start in range.clone().step_by(OUTPUTS) {
                    let outputs = start..range.end.min(start + OUTPUTS);
                    Arch::new().dispatch(Gather { factors, widths, first: range.start, outputs, sums: &mut sums });
                }
            }
            Self::Narrow(layers) => {
                for layer in layers {
                    layer.sums.fill(0);
                    Arch::new().dispatch(layer);
                }
            }
        }
    }
}

impl Factors {
    fn multiplications<'data>(
        &'data self, widths: Widths, threads: usize, mut sums: &'data mut [i64],
    ) -> impl Iterator<Item = Task<'data>> {
        let worth = self.inputs.len().saturating_mul(widths.outputs) / WORTH;
        parts(widths.columns, threads.min(1 + worth)).into_iter().map(move |columns| {
            let share = split(&mut sums, columns.len() * widths.outputs);
            Task::Multiply(self, widths, columns, share)
        })
    }

    /// The places that a row names, and the bias behind them. What is silenced has none that could be relied
    /// on, and nothing to add.
    #[inline(always)]
    fn named(&self, widths: Widths, row: usize) -> impl Iterator<Item = usize> {
        let places = if self.ones[row] == 0 { &[] } else { &self.places[row * widths.named..][..widths.named] };
        places.iter().map(|&place| place as usize).chain(widths.bias)
    }

    #[inline(always)]
    fn gather_narrow(&self, widths: Widths, rows: Range<usize>, sums: &mut [impl Sum]) {
        let mut products = [0i32; WIDE];
        let products = &mut products[..widths.outputs];
        for row in rows {
            let errors = &self.errors[row * widths.outputs..][..widths.outputs];
            let one = i32::from(self.ones[row]);
            for (product, &error) in products.iter_mut().zip(errors) {
                *product = one.wrapping_mul(i32::from(error));
            }
            for place in self.named(widths, row) {
                let sums = &mut sums[place * widths.outputs..][..widths.outputs];
                // Of a known size where there are several, so that it is done with a few instructions.
                let (sums, rest) = sums.as_chunks_mut::<8>();
                let (added, behind) = products.as_chunks::<8>();
                for (sums, added) in sums.iter_mut().zip(added) {
                    *sums = std::array::from_fn(|at| sums[at].and(added[at]));
                }
                for (sum, &added) in rest.iter_mut().zip(behind) {
                    *sum = sum.and(added);
                }
            }
        }
    }

    /// Each row's errors are added to those of the places it names, and to the bias behind the places.
    fn gatherings<'data>(
        &'data self, widths: Widths, threads: usize, sums: &'data mut [i64],
    ) -> impl Iterator<Item = Task<'data>> {
        let outputs = widths.outputs;
        let worth = self.errors.len().saturating_mul(widths.named + 1) / WORTH;
        let ranges = parts(outputs, threads.min(1 + worth).min(outputs.div_ceil(OUTPUTS)));
        let mut shares: Vec<(Range<usize>, Vec<&mut [i64]>)> =
            ranges.into_iter().map(|range| (range, Vec::new())).collect();
        for mut sums in sums.chunks_exact_mut(outputs) {
            for (range, share) in &mut shares {
                share.push(split(&mut sums, range.len()));
            }
        }
        shares.into_iter().map(move |(range, sums)| Task::Gather(self, widths, range, sums))
    }
}

struct Gather<'data, 'sums> {
    factors: &'data Factors,
    widths: Widths,
    /// The output that each of the sums begins with.
    first: usize,
    outputs: Range<usize>,
    sums: &'data mut [&'sums mut [i64]],
}

impl WithSimd for Gather<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { factors, widths, first, outputs, sums } = self;
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
                for place in factors.named(widths, row) {
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

/// A layer of few outputs.
struct Narrow<'data> {
    factors: &'data Factors,
    widths: Widths,
    sums: &'data mut [i64],
}

impl WithSimd for Narrow<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { factors, widths, sums } = self;
        let each = widths.outputs * (widths.named + 1);
        let mut near = Vec::new();
        for rows in pieces(&factors.peaks) {
            if sums.len() > NEAR || rows.len() * each < sums.len() {
                factors.gather_narrow(widths, rows, sums);
                continue;
            }
            // More is added than there are sums: half as wide they stay in a near cache.
            near.clear();
            near.resize(sums.len(), 0i32);
            factors.gather_narrow(widths, rows, &mut near);
            for (sum, &near) in sums.iter_mut().zip(&near) {
                *sum = sum.wrapping_add(i64::from(near));
            }
        }
    }
}

/// Sums of products that cannot wrap.
trait Sum: Copy {
    fn and(self, product: i32) -> Self;
}

impl Sum for i32 {
    #[inline(always)]
    fn and(self, product: i32) -> Self {
        self.wrapping_add(product)
    }
}

impl Sum for i64 {
    #[inline(always)]
    fn and(self, product: i32) -> Self {
        self.wrapping_add(Self::from(product))
    }
}
