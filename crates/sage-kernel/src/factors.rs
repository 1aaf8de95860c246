//! The two factors of every row's gradient, as small whole numbers. Proof: `proofs/gradient.md`.
//!
//! For a dense layer the gradient of one row is the outer product of what went in and the error that came
//! back, and its length is the product of their lengths. Floats decide here how much a row is shortened;
//! that it is short enough is then checked in integers, over all layers together, and a row that is not,
//! or that holds anything but finite numbers, counts as zero. No row may ever change another's factors.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::outer::{Matrix, add_outer, pieces};
use crate::parallel::{parts, side_by_side};

/// Units of each factor's grid: an input of length one, an error of the largest allowed length.
pub(crate) const SIZE: u64 = 1 << 13;

/// How much shorter errors are made before they are cut to whole units, so that the floats' own rounding
/// lengthens no row.
const ROOM: f64 = 1.0 - 1.0 / (1 << 20) as f64;

/// Products that are worth a thread.
const WORTH: usize = 1 << 20;

/// Outputs whose sums are gathered at a time, so that those of a few dozen places stay in a near cache.
const OUTPUTS: usize = 512;
/// From so many outputs on they are gathered in 32 bits first.
const WIDE: usize = 64;

/// Whether a layer has a number for each output that every row adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// It has, as one more input that is always one.
    Added,
    /// It has not, as in a table of embeddings.
    Absent,
}

/// A layer: what goes in and how much comes out.
///
/// Inputs are numbers, then places of which each row names some: those are one, the others zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// Numbers of each row.
    pub numbers: u32,
    /// Different places named for each row, in order.
    pub named: u32,
    /// How many places there are.
    pub places: u32,
    /// What comes out.
    pub outputs: u32,
    /// Whether every output has a bias.
    pub bias: Bias,
}

impl LayerShape {
    /// A layer of numbers with biases.
    pub const fn dense(numbers: u32, outputs: u32) -> Self {
        Self { numbers, named: 0, places: 0, outputs, bias: Bias::Added }
    }

    /// A layer of named places with biases.
    pub const fn named(named: u32, places: u32, outputs: u32) -> Self {
        Self { numbers: 0, named, places, outputs, bias: Bias::Added }
    }

    /// A table with a few numbers for each place, of which every row names one.
    pub const fn embedding(places: u32, outputs: u32) -> Self {
        Self { numbers: 0, named: 1, places, outputs, bias: Bias::Absent }
    }

    /// Numbers, places, and one for the bias.
    pub const fn inputs(self) -> u64 {
        let bias = matches!(self.bias, Bias::Added) as u64;
        self.numbers as u64 + self.places as u64 + bias
    }

    /// Parameters: for each number, then for each place, then for the bias, one for each output.
    pub const fn parameters(self) -> u128 {
        self.outputs as u128 * self.inputs() as u128
    }

    /// Inputs that are one in a row.
    const fn ones(self) -> u32 {
        self.named.saturating_add(matches!(self.bias, Bias::Added) as u32)
    }

    /// Columns that are multiplied as a matrix: the numbers, and the bias where no places are gathered.
    const fn columns(self) -> usize {
        self.numbers as usize + self.gathers().is_none() as usize * matches!(self.bias, Bias::Added) as usize
    }

    /// The first input that is gathered, if places are named: they, and the bias behind them.
    const fn gathers(self) -> Option<usize> {
        if self.named > 0 { Some(self.numbers as usize) } else { None }
    }
}

/// What the caller fills in for one layer, row after row. It comes with the right sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerRows {
    /// The numbers that go in.
    pub values: Vec<f32>,
    /// The places that are named.
    pub places: Vec<u32>,
    /// Errors at the outputs.
    pub errors: Vec<f32>,
}

impl LayerRows {
    /// Empties it.
    pub fn clear(&mut self) {
        self.values.clear();
        self.places.clear();
        self.errors.clear();
    }

    /// Whether everything has the size that so many rows need.
    pub(crate) fn fits(&self, layer: LayerShape, count: usize) -> bool {
        let needs = |width: u32| count.checked_mul(width as usize);
        needs(layer.numbers) == Some(self.values.len())
            && needs(layer.named) == Some(self.places.len())
            && needs(layer.outputs) == Some(self.errors.len())
    }

    fn row(&self, layer: LayerShape, row: usize) -> (&[f32], &[u32], &[f32]) {
        (
            part(&self.values, row, layer.numbers),
            part(&self.places, row, layer.named),
            part(&self.errors, row, layer.outputs),
        )
    }
}

fn part<T>(all: &[T], row: usize, width: u32) -> &[T] {
    &all[row * width as usize..][..width as usize]
}

/// Whether a row names places that exist, each once and in order.
fn places_fit(layer: LayerShape, places: &[u32]) -> bool {
    places.last().is_none_or(|&last| last < layer.places) && places.windows(2).all(|pair| pair[0] < pair[1])
}

/// Both factors of one layer's outer products, as whole numbers.
#[derive(Default)]
pub(crate) struct Factors {
    /// What is multiplied as a matrix.
    inputs: Vec<i16>,
    /// What the inputs that are one became.
    ones: Vec<i16>,
    errors: Vec<i16>,
    /// The products of each row's largest entries.
    peaks: Vec<u32>,
}

/// One layer's factors of some of the rows.
struct Slice<'data> {
    layer: LayerShape,
    filled: &'data LayerRows,
    inputs: &'data mut [i16],
    ones: &'data mut [i16],
    errors: &'data mut [i16],
    peaks: &'data mut [u32],
    /// The squared length of what goes into the row at hand.
    square: f64,
}

/// Fills in the factors of all rows.
///
/// # Guarantee
/// For every row, the squared lengths of its outer products over all layers add up to at most 2^52,
/// checked in integers; they depend on that row's numbers alone.
pub(crate) fn quantise(
    layers: &[LayerShape], filled: &[LayerRows], count: usize, clip: f64, threads: usize, factors: &mut Vec<Factors>,
) {
    factors.resize_with(layers.len(), Factors::default);
    let size: usize = layers.iter().map(|layer| layer.columns() + layer.outputs as usize).sum();
    let ranges = parts(count, threads.min(1 + count.saturating_mul(size) / WORTH));
    let mut shares: Vec<(Range<usize>, Vec<Slice<'_>>)> =
        ranges.iter().map(|rows| (rows.clone(), Vec::new())).collect();
    for ((layer, filled), factors) in layers.iter().zip(filled).zip(factors) {
        factors.inputs.resize(count * layer.columns(), 0);
        factors.errors.resize(count * layer.outputs as usize, 0);
        factors.ones.resize(count, 0);
        factors.peaks.resize(count, 0);
        let (mut inputs, mut errors) = (&mut factors.inputs[..], &mut factors.errors[..]);
        let (mut ones, mut peaks) = (&mut factors.ones[..], &mut factors.peaks[..]);
        for (rows, share) in &mut shares {
            let slice = Slice {
                layer: *layer,
                filled,
                inputs: split(&mut inputs, rows.len() * layer.columns()),
                ones: split(&mut ones, rows.len()),
                errors: split(&mut errors, rows.len() * layer.outputs as usize),
                peaks: split(&mut peaks, rows.len()),
                square: 0.0,
            };
            share.push(slice);
        }
    }
    side_by_side(shares, |(rows, mut layers)| Arch::new().dispatch(Quantise { rows, layers: &mut layers, clip }));
}

/// Cuts off the first so many.
pub(crate) fn split<'data, T>(rest: &mut &'data mut [T], count: usize) -> &'data mut [T] {
    let (first, behind) = std::mem::take(rest).split_at_mut(count);
    *rest = behind;
    first
}

struct Quantise<'data, 'layers> {
    rows: Range<usize>,
    layers: &'layers mut [Slice<'data>],
    clip: f64,
}

impl WithSimd for Quantise<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (place, row) in self.rows.clone().enumerate() {
            let scale = scale_of(self.layers, row, self.clip);
            let mut length = 0u128;
            for layer in &mut *self.layers {
                length = length.saturating_add(layer.quantise(row, place, scale));
            }
            if scale.is_none() || length > u128::from(SIZE).pow(4) {
                self.layers.iter_mut().for_each(|layer| layer.silence(place));
            }
        }
    }
}

/// What a row's errors are multiplied with: one over the length its gradient counts as.
#[inline(always)]
fn scale_of(layers: &mut [Slice<'_>], row: usize, clip: f64) -> Option<f64> {
    let mut squares = 0.0;
    for Slice { layer, filled, square: inputs, .. } in layers {
        let (values, places, errors) = filled.row(*layer, row);
        if !places_fit(*layer, places) {
            return None;
        }
        *inputs = square(values) + f64::from(layer.ones());
        squares += *inputs * square(errors);
    }
    // Finite numbers give a finite sum here, so anything else held something that is no number.
    squares.is_finite().then(|| 1.0 / libm::sqrt(squares).max(clip))
}

/// The sum of squares, in an order that lets the machine do several at once.
#[inline(always)]
fn square(values: &[f32]) -> f64 {
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
fn cut(values: &[f32], by: f32, out: &mut [i16]) -> (u32, u64) {
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

impl Slice<'_> {
    /// Writes a row's factors and gives the squared length of their outer product.
    #[inline(always)]
    fn quantise(&mut self, row: usize, place: usize, scale: Option<f64>) -> u128 {
        let Some(scale) = scale else { return 0 };
        let layer = self.layer;
        let (values, _, errors) = self.filled.row(layer, row);
        let length = libm::sqrt(self.square);
        let into = SIZE as f64 / length;
        let inputs = &mut self.inputs[place * layer.columns()..][..layer.columns()];
        let one = into as i16;
        let (numbers, bias) = inputs.split_at_mut(values.len());
        bias.fill(one);
        let (largest, squares) = cut(values, into as f32, numbers);
        self.ones[place] = one;
        let ones = u128::from(layer.ones()) * u128::from(one.unsigned_abs()).pow(2);
        let share = scale * length * SIZE as f64 * ROOM;
        let outputs = layer.outputs as usize;
        let (peak, error_squares) = cut(errors, share as f32, &mut self.errors[place * outputs..][..outputs]);
        self.peaks[place] = largest.max(u32::from(one.unsigned_abs())) * peak;
        (u128::from(squares) + ones).saturating_mul(u128::from(error_squares))
    }

    fn silence(&mut self, place: usize) {
        let (columns, outputs) = (self.layer.columns(), self.layer.outputs as usize);
        self.inputs[place * columns..][..columns].fill(0);
        self.errors[place * outputs..][..outputs].fill(0);
        self.ones[place] = 0;
        self.peaks[place] = 0;
    }
}

impl Factors {
    /// Adds the outer products of all rows: for every number, place and the bias, output by output.
    pub(crate) fn add_to(&self, layer: LayerShape, places: &[u32], threads: usize, sums: &mut [i64]) {
        let outputs = layer.outputs as usize;
        if self.peaks.is_empty() || outputs == 0 {
            return;
        }
        let columns = layer.columns();
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
        if layer.gathers().is_some() {
            self.gather(layer, places, threads, gathered);
        }
    }

    /// The places that a row names, and the bias behind them. What is silenced has none that could be relied
    /// on, and nothing to add.
    #[inline(always)]
    fn named(&self, layer: LayerShape, places: &[u32], row: usize) -> impl Iterator<Item = usize> {
        let bias = (layer.bias == Bias::Added).then_some(layer.places as usize);
        let places = if self.ones[row] == 0 { &[] } else { part(places, row, layer.named) };
        places.iter().map(|&place| place as usize).chain(bias)
    }

    fn gather_narrow(&self, layer: LayerShape, places: &[u32], sums: &mut [i64]) {
        let outputs = layer.outputs as usize;
        for (row, errors) in self.errors.chunks_exact(outputs).enumerate() {
            let one = i64::from(self.ones[row]);
            for place in self.named(layer, places, row) {
                let sums = sums[place * outputs..][..outputs].iter_mut();
                let both = sums.zip(errors);
                both.for_each(|(sum, &error)| *sum = sum.wrapping_add(one.wrapping_mul(i64::from(error))));
            }
        }
    }

    /// Adds each row's errors to those of the places it names, and to the bias behind the places.
    fn gather(&self, layer: LayerShape, places: &[u32], threads: usize, sums: &mut [i64]) {
        let outputs = layer.outputs as usize;
        if outputs < WIDE {
            return self.gather_narrow(layer, places, sums);
        }
        let worth = self.errors.len().saturating_mul(layer.ones() as usize) / WORTH;
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
                let task = Gather { factors: self, layer, places, first: range.start, outputs: some, sums: &mut share };
                Arch::new().dispatch(task);
            }
        });
    }
}

struct Gather<'data, 'sums> {
    factors: &'data Factors,
    layer: LayerShape,
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
        let Self { factors, layer, places, first, outputs, sums } = self;
        let target = outputs.start - first..outputs.end - first;
        let mut products = [0i32; OUTPUTS];
        let products = &mut products[..outputs.len()];
        let mut near = vec![0i32; sums.len() * products.len()];
        for rows in pieces(&factors.peaks) {
            near.fill(0);
            for row in rows {
                let errors = &factors.errors[row * layer.outputs as usize..][outputs.clone()];
                for (product, &error) in products.iter_mut().zip(errors) {
                    *product = i32::from(error).wrapping_mul(i32::from(factors.ones[row]));
                }
                for place in factors.named(layer, places, row) {
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
