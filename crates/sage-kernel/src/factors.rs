//! The two factors of every row's gradient, quantised to small integers. Proof: `proofs/gradient.md`.
//!
//! For a dense layer the gradient of one row is the outer product of the layer's inputs and of the errors at its outputs,
//! and its norm is the product of their norms. Floats determine the scale to which a row is clipped. The norm is then
//! checked in integers, over all layers together; a row that is too long, or has an infinite or NaN value, counts as
//! zero. A row must never change the factors of another row.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use sage_numerics::{
    FactorShape, Factors, dispatch, map_parallel, split_front, split_range, squared_norm, truncate_scaled,
};

/// The largest L2 norm of each factor, in units of its grid.
pub(crate) const SIZE: u64 = 1 << 13;

/// The factor by which errors are scaled down before they are truncated to integers, so that rounding of floats does not
/// make a row too long.
const MARGIN: f64 = 1.0 - 1.0 / (1 << 20) as f64;

/// The number of products from which another thread is worthwhile.
const WORTH: usize = 1 << 20;

/// Rows that are filled in and quantised at a time: few, so that they stay in the cache. A public constant.
const ROWS: usize = 96;

/// Whether a layer has a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// A bias for each output, as one more input that is always one.
    Added,
    /// No bias, as in an embedding table.
    Absent,
}

/// The shape of a layer.
///
/// Its inputs are numeric values, then one-hot columns: `active` of them are one in each row, the others zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// Numeric inputs of each row.
    pub numeric: u32,
    /// Active one-hot columns of each row, distinct and in ascending order.
    pub active: u32,
    /// The number of one-hot columns.
    pub columns: u32,
    /// The number of outputs.
    pub outputs: u32,
    /// Whether every output has a bias.
    pub bias: Bias,
}

impl LayerShape {
    /// A dense layer on numeric inputs, with a bias.
    pub const fn dense(numeric: u32, outputs: u32) -> Self {
        Self { numeric, active: 0, columns: 0, outputs, bias: Bias::Added }
    }

    /// A layer on one-hot columns, with a bias.
    pub const fn one_hot(active: u32, columns: u32, outputs: u32) -> Self {
        Self { numeric: 0, active, columns, outputs, bias: Bias::Added }
    }

    /// An embedding table: one active column in each row, no bias.
    pub const fn embedding(columns: u32, outputs: u32) -> Self {
        Self { numeric: 0, active: 1, columns, outputs, bias: Bias::Absent }
    }

    /// The number of inputs: numeric inputs, one-hot columns, and one for the bias.
    pub const fn inputs(self) -> u64 {
        let bias = matches!(self.bias, Bias::Added) as u64;
        self.numeric as u64 + self.columns as u64 + bias
    }

    /// The number of parameters: one for each pair of input and output.
    pub const fn parameters(self) -> u128 {
        self.outputs as u128 * self.inputs() as u128
    }

    /// The number of inputs that are one in a row: active columns and bias.
    const fn ones(self) -> u32 {
        self.active.saturating_add(matches!(self.bias, Bias::Added) as u32)
    }

    /// Columns that are multiplied as a dense matrix: the numeric inputs, and the bias if there are no one-hot columns.
    const fn dense_columns(self) -> usize {
        self.numeric as usize + (self.active == 0 && matches!(self.bias, Bias::Added)) as usize
    }

    /// The shape of its factors: the dense columns, then the one-hot columns, then the bias.
    pub(crate) fn factor_shape(self) -> FactorShape {
        let bias = (self.bias == Bias::Added).then_some(self.columns as usize);
        FactorShape {
            columns: self.dense_columns(),
            outputs: self.outputs as usize,
            active: self.active as usize,
            bias,
        }
    }
}

/// The inputs and errors of one layer, row after row, that the caller fills in. The buffers have the right sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerRows {
    /// Numeric inputs.
    pub values: Vec<f32>,
    /// Indices of the active one-hot columns.
    pub indices: Vec<u32>,
    /// Errors at the outputs.
    pub errors: Vec<f32>,
}

impl LayerRows {
    /// Clears all buffers.
    pub fn clear(&mut self) {
        self.values.clear();
        self.indices.clear();
        self.errors.clear();
    }

    /// Resizes the buffers for `count` rows. They keep values of earlier rows, because clearing them would take longer than
    /// some layers do. Test builds fill them with NaN to catch slots that are never written.
    fn begin(&mut self, layer: LayerShape, count: usize) {
        if cfg!(debug_assertions) {
            self.clear();
        }
        self.values.resize(count.saturating_mul(layer.numeric as usize), f32::NAN);
        self.indices.resize(count.saturating_mul(layer.active as usize), u32::MAX);
        self.errors.resize(count.saturating_mul(layer.outputs as usize), f32::NAN);
    }

    /// Whether the buffers have the right sizes for `count` rows.
    fn fits(&self, layer: LayerShape, count: usize) -> bool {
        let needs = |width: u32| count.checked_mul(width as usize);
        needs(layer.numeric) == Some(self.values.len())
            && needs(layer.active) == Some(self.indices.len())
            && needs(layer.outputs) == Some(self.errors.len())
    }

    #[inline(always)]
    fn row(&self, layer: LayerShape, row: usize) -> (&[f32], &[u32], &[f32]) {
        (
            part(&self.values, row, layer.numeric),
            part(&self.indices, row, layer.active),
            part(&self.errors, row, layer.outputs),
        )
    }
}

#[inline(always)]
fn part<T>(all: &[T], row: usize, width: u32) -> &[T] {
    &all[row * width as usize..][..width as usize]
}

/// Whether the indices of a row are in range, distinct and in ascending order.
fn indices_fit(layer: LayerShape, indices: &[u32]) -> bool {
    indices.last().is_none_or(|&last| last < layer.columns) && indices.windows(2).all(|pair| pair[0] < pair[1])
}

/// The factors of one layer for some of the rows.
struct Slice<'data> {
    layer: LayerShape,
    inputs: &'data mut [i16],
    ones: &'data mut [i16],
    indices: &'data mut [u32],
    errors: &'data mut [i16],
    peaks: &'data mut [u32],
    /// The squared norm of the current row's inputs.
    square: f64,
}

/// The rows that one thread fills in and quantises.
struct Share<'data> {
    rows: Range<usize>,
    layers: Vec<Slice<'data>>,
    filled: &'data mut Vec<LayerRows>,
}

/// Computes the factors of all rows from the values that `fill` writes for some rows at a time; returns false if a buffer
/// has the wrong size.
///
/// # Guarantee
/// For every row, the squared norms of its outer products over all layers add up to at most 2^52, checked in integers.
/// The factors of a row depend only on that row's values.
pub(crate) fn quantise(
    layers: &[LayerShape], count: usize, clip: f64, threads: usize, buffers: &mut Vec<Vec<LayerRows>>,
    factors: &mut Vec<Factors>, fill: impl Fn(Range<usize>, &mut [LayerRows]) + Sync,
) -> bool {
    factors.resize_with(layers.len(), Factors::default);
    let size: usize =
        layers.iter().map(|layer| (layer.dense_columns() + layer.active as usize) * layer.outputs as usize).sum();
    let ranges = split_range(count, threads.min(1 + count.saturating_mul(size) / WORTH));
    buffers.resize_with(ranges.len().max(buffers.len()), Vec::new);
    let share = |(rows, filled)| Share { rows, layers: Vec::new(), filled };
    let mut shares: Vec<Share<'_>> = ranges.into_iter().zip(buffers).map(share).collect();
    for (layer, factors) in layers.iter().zip(factors) {
        factors.inputs.resize(count * layer.dense_columns(), 0);
        factors.errors.resize(count * layer.outputs as usize, 0);
        factors.indices.resize(count * layer.active as usize, 0);
        factors.ones.resize(count, 0);
        factors.peaks.resize(count, 0);
        let (mut inputs, mut errors) = (&mut factors.inputs[..], &mut factors.errors[..]);
        let (mut ones, mut indices, mut peaks) =
            (&mut factors.ones[..], &mut factors.indices[..], &mut factors.peaks[..]);
        for Share { rows, layers, .. } in &mut shares {
            layers.push(Slice {
                layer: *layer,
                inputs: split_front(&mut inputs, rows.len() * layer.dense_columns()),
                ones: split_front(&mut ones, rows.len()),
                indices: split_front(&mut indices, rows.len() * layer.active as usize),
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
    /// The number of rows of the share that were quantised before.
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
            let index = self.before + row;
            let scale = row_scale(self.layers, self.filled, row, self.clip);
            let mut length = 0u128;
            for (layer, filled) in self.layers.iter_mut().zip(self.filled) {
                length = length.saturating_add(layer.quantise(filled, row, index, scale));
            }
            if scale.is_none() || length > u128::from(SIZE).pow(4) {
                self.layers.iter_mut().for_each(|layer| layer.clear_row(index));
            }
        }
    }
}

/// The scale of a row's errors: one over the larger of its gradient's norm and the clip; `None` for an invalid row.
#[inline(always)]
fn row_scale(layers: &mut [Slice<'_>], filled: &[LayerRows], row: usize, clip: f64) -> Option<f64> {
    let mut squares = 0.0;
    for (Slice { layer, square: inputs, .. }, filled) in layers.iter_mut().zip(filled) {
        let (values, indices, errors) = filled.row(*layer, row);
        if !indices_fit(*layer, indices) {
            return None;
        }
        *inputs = squared_norm(values) + f64::from(layer.ones());
        squares += *inputs * squared_norm(errors);
    }
    // The sum is finite for finite values, so otherwise the row has an infinite or NaN value.
    squares.is_finite().then(|| 1.0 / libm::sqrt(squares).max(clip))
}

impl Slice<'_> {
    /// Writes a row's factors and returns the squared norm of their outer product.
    #[inline(always)]
    fn quantise(&mut self, filled: &LayerRows, row: usize, index: usize, scale: Option<f64>) -> u128 {
        let Some(scale) = scale else { return 0 };
        let layer = self.layer;
        let (values, indices, errors) = filled.row(layer, row);
        let targets = self.indices[index * indices.len()..].iter_mut().zip(indices);
        targets.for_each(|(target, &column)| *target = column);
        let length = libm::sqrt(self.square);
        let into = SIZE as f64 / length;
        let inputs = &mut self.inputs[index * layer.dense_columns()..][..layer.dense_columns()];
        let one = into as i16;
        let (numbers, bias) = inputs.split_at_mut(values.len());
        bias.fill(one);
        let (largest, squares) = truncate_scaled(values, into as f32, numbers);
        self.ones[index] = one;
        let ones = u128::from(layer.ones()) * u128::from(one.unsigned_abs()).pow(2);
        let share = scale * length * SIZE as f64 * MARGIN;
        let outputs = layer.outputs as usize;
        let (peak, error_squares) =
            truncate_scaled(errors, share as f32, &mut self.errors[index * outputs..][..outputs]);
        self.peaks[index] = largest.max(u32::from(one.unsigned_abs())) * peak;
        (u128::from(squares) + ones).saturating_mul(u128::from(error_squares))
    }

    fn clear_row(&mut self, index: usize) {
        let (columns, outputs) = (self.layer.dense_columns(), self.layer.outputs as usize);
        self.inputs[index * columns..][..columns].fill(0);
        self.errors[index * outputs..][..outputs].fill(0);
        self.ones[index] = 0;
        self.peaks[index] = 0;
    }
}

#[cfg(test)]
mod tests;
