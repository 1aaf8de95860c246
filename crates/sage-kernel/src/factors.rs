//! The two factors of every row's gradient, as small whole numbers. Proof: `proofs/gradient.md`.
//!
//! For a dense layer the gradient of one row is the outer product of what went in and the error that came
//! back, and its length is the product of their lengths. Floats decide here how much a row is shortened;
//! that it is short enough is then checked in integers, over all layers together, and a row that is not,
//! or that holds anything but finite numbers, counts as zero. No row may ever change another's factors.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use sage_numerics::{
    FactorShape, Factors, dispatch, map_parallel, split_front, split_range, squared_norm, truncate_scaled,
};

/// Units of each factor's grid: an input of length one, an error of the largest allowed length.
pub(crate) const SIZE: u64 = 1 << 13;

/// How much shorter errors are made before they are cut to whole units, so that the floats' own rounding
/// lengthens no row.
const ROOM: f64 = 1.0 - 1.0 / (1 << 20) as f64;

/// Products that are worth a thread.
const WORTH: usize = 1 << 20;

/// Rows that are filled in and cut before the next: few, so that they are in a near cache all the while. A
/// public number.
const ROWS: usize = 96;

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
        self.numbers as usize + (self.named == 0 && matches!(self.bias, Bias::Added)) as usize
    }

    /// The shape of its factors: the dense columns, then the one-hot columns, then the bias.
    pub(crate) fn factor_shape(self) -> FactorShape {
        let bias = (self.bias == Bias::Added).then_some(self.places as usize);
        FactorShape { columns: self.columns(), outputs: self.outputs as usize, active: self.named as usize, bias }
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

    /// Room of the right size for so many rows. What it holds is left from earlier ones, since clearing it would
    /// take longer than some layers do; in builds for tests nothing is left that could pass for a number.
    fn begin(&mut self, layer: LayerShape, count: usize) {
        if cfg!(debug_assertions) {
            self.clear();
        }
        self.values.resize(count.saturating_mul(layer.numbers as usize), f32::NAN);
        self.places.resize(count.saturating_mul(layer.named as usize), u32::MAX);
        self.errors.resize(count.saturating_mul(layer.outputs as usize), f32::NAN);
    }

    /// Whether everything has the size that so many rows need.
    fn fits(&self, layer: LayerShape, count: usize) -> bool {
        let needs = |width: u32| count.checked_mul(width as usize);
        needs(layer.numbers) == Some(self.values.len())
            && needs(layer.named) == Some(self.places.len())
            && needs(layer.outputs) == Some(self.errors.len())
    }

    #[inline(always)]
    fn row(&self, layer: LayerShape, row: usize) -> (&[f32], &[u32], &[f32]) {
        (
            part(&self.values, row, layer.numbers),
            part(&self.places, row, layer.named),
            part(&self.errors, row, layer.outputs),
        )
    }
}

#[inline(always)]
fn part<T>(all: &[T], row: usize, width: u32) -> &[T] {
    &all[row * width as usize..][..width as usize]
}

/// Whether a row names places that exist, each once and in order.
fn places_fit(layer: LayerShape, places: &[u32]) -> bool {
    places.last().is_none_or(|&last| last < layer.places) && places.windows(2).all(|pair| pair[0] < pair[1])
}

/// One layer's factors of some of the rows.
struct Slice<'data> {
    layer: LayerShape,
    inputs: &'data mut [i16],
    ones: &'data mut [i16],
    places: &'data mut [u32],
    errors: &'data mut [i16],
    peaks: &'data mut [u32],
    /// The squared length of what goes into the row at hand.
    square: f64,
}

/// Some of the rows, which one thread fills in and cuts.
struct Share<'data> {
    rows: Range<usize>,
    layers: Vec<Slice<'data>>,
    filled: &'data mut Vec<LayerRows>,
}

/// Fills in the factors of all rows, from what `fill` gives for some of them at a time; false if it gave
/// anything in the wrong size.
///
/// # Guarantee
/// For every row, the squared lengths of its outer products over all layers add up to at most 2^52,
/// checked in integers; they depend on that row's numbers alone.
pub(crate) fn quantise(
    layers: &[LayerShape], count: usize, clip: f64, threads: usize, room: &mut Vec<Vec<LayerRows>>,
    factors: &mut Vec<Factors>, fill: impl Fn(Range<usize>, &mut [LayerRows]) + Sync,
) -> bool {
    factors.resize_with(layers.len(), Factors::default);
    let size: usize =
        layers.iter().map(|layer| (layer.columns() + layer.named as usize) * layer.outputs as usize).sum();
    let ranges = split_range(count, threads.min(1 + count.saturating_mul(size) / WORTH));
    room.resize_with(ranges.len().max(room.len()), Vec::new);
    let share = |(rows, filled)| Share { rows, layers: Vec::new(), filled };
    let mut shares: Vec<Share<'_>> = ranges.into_iter().zip(room).map(share).collect();
    for (layer, factors) in layers.iter().zip(factors) {
        factors.inputs.resize(count * layer.columns(), 0);
        factors.errors.resize(count * layer.outputs as usize, 0);
        factors.indices.resize(count * layer.named as usize, 0);
        factors.ones.resize(count, 0);
        factors.peaks.resize(count, 0);
        let (mut inputs, mut errors) = (&mut factors.inputs[..], &mut factors.errors[..]);
        let (mut ones, mut places, mut peaks) =
            (&mut factors.ones[..], &mut factors.indices[..], &mut factors.peaks[..]);
        for Share { rows, layers, .. } in &mut shares {
            layers.push(Slice {
                layer: *layer,
                inputs: split_front(&mut inputs, rows.len() * layer.columns()),
                ones: split_front(&mut ones, rows.len()),
                places: split_front(&mut places, rows.len() * layer.named as usize),
                errors: split_front(&mut errors, rows.len() * layer.outputs as usize),
                peaks: split_front(&mut peaks, rows.len()),
                square: 0.0,
            });
        }
    }
    map_parallel(shares, |share| share.quantise(clip, &fill)).into_iter().all(|sized| sized)
}

impl Share<'_> {
    fn quantise(mut self, clip: f64, fill: impl Fn(Range<usize>, &mut [LayerRows])) -> bool {
        self.filled.resize_with(self.layers.len(), LayerRows::default);
        for first in self.rows.clone().step_by(ROWS) {
            let rows = first..self.rows.end.min(first + ROWS);
            for (filled, Slice { layer, .. }) in self.filled.iter_mut().zip(&self.layers) {
                filled.begin(*layer, rows.len());
            }
            fill(rows.clone(), self.filled);
            let mut both = self.filled.iter().zip(&self.layers);
            if !both.all(|(filled, slice)| filled.fits(slice.layer, rows.len())) {
                return false;
            }
            let (before, filled) = (first - self.rows.start, &self.filled[..]);
            dispatch(Quantise { count: rows.len(), before, filled, layers: &mut self.layers, clip });
        }
        true
    }
}

struct Quantise<'data, 'layers> {
    count: usize,
    /// Rows of the share that came before.
    before: usize,
    filled: &'layers [LayerRows],
    layers: &'layers mut [Slice<'data>],
    clip: f64,
}

impl WithSimd for Quantise<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for row in 0..self.count {
            let place = self.before + row;
            let scale = scale_of(self.layers, self.filled, row, self.clip);
            let mut length = 0u128;
            for (layer, filled) in self.layers.iter_mut().zip(self.filled) {
                length = length.saturating_add(layer.quantise(filled, row, place, scale));
            }
            if scale.is_none() || length > u128::from(SIZE).pow(4) {
                self.layers.iter_mut().for_each(|layer| layer.silence(place));
            }
        }
    }
}

/// What a row's errors are multiplied with: one over the length its gradient counts as.
#[inline(always)]
fn scale_of(layers: &mut [Slice<'_>], filled: &[LayerRows], row: usize, clip: f64) -> Option<f64> {
    let mut squares = 0.0;
    for (Slice { layer, square: inputs, .. }, filled) in layers.iter_mut().zip(filled) {
        let (values, places, errors) = filled.row(*layer, row);
        if !places_fit(*layer, places) {
            return None;
        }
        *inputs = squared_norm(values) + f64::from(layer.ones());
        squares += *inputs * squared_norm(errors);
    }
    // Finite numbers give a finite sum here, so anything else held something that is no number.
    squares.is_finite().then(|| 1.0 / libm::sqrt(squares).max(clip))
}

impl Slice<'_> {
    /// Writes a row's factors and gives the squared length of their outer product.
    #[inline(always)]
    fn quantise(&mut self, filled: &LayerRows, row: usize, place: usize, scale: Option<f64>) -> u128 {
        let Some(scale) = scale else { return 0 };
        let layer = self.layer;
        let (values, places, errors) = filled.row(layer, row);
        let named = self.places[place * places.len()..].iter_mut().zip(places);
        named.for_each(|(named, &place)| *named = place);
        let length = libm::sqrt(self.square);
        let into = SIZE as f64 / length;
        let inputs = &mut self.inputs[place * layer.columns()..][..layer.columns()];
        let one = into as i16;
        let (numbers, bias) = inputs.split_at_mut(values.len());
        bias.fill(one);
        let (largest, squares) = truncate_scaled(values, into as f32, numbers);
        self.ones[place] = one;
        let ones = u128::from(layer.ones()) * u128::from(one.unsigned_abs()).pow(2);
        let share = scale * length * SIZE as f64 * ROOM;
        let outputs = layer.outputs as usize;
        let (peak, error_squares) =
            truncate_scaled(errors, share as f32, &mut self.errors[place * outputs..][..outputs]);
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

#[cfg(test)]
mod tests;
