//! The two factors of every row's gradient, as small whole numbers. Proof: `proofs/gradient.md`.
//!
//! For a dense layer the gradient of one row is the outer product of what went in and the error that came
//! back, and its length is the product of their lengths. Floats decide here how much a row is shortened;
//! that it is short enough is then checked in integers, over all layers together, and a row that is not,
//! or that holds anything but finite numbers, counts as zero. No row may ever change another's factors.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};
use sage_exact::{Factors, Widths, cut, parts, side_by_side, split, square};

/// Units of each factor's grid: an input of length one, an error of the largest allowed length.
pub(crate) const SIZE: u64 = 1 << 13;

/// How much shorter errors are made before they are cut to whole units, so that the floats' own rounding
/// lengthens no row.
const ROOM: f64 = 1.0 - 1.0 / (1 << 20) as f64;

/// Products that are worth a thread.
const WORTH: usize = 1 << 20;

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

    /// How its factors are added up: behind what is multiplied the places are gathered, and the bias behind them.
    pub(crate) fn widths(self) -> Widths {
        let bias = (self.bias == Bias::Added).then_some(self.places as usize);
        Widths { columns: self.columns(), outputs: self.outputs as usize, named: self.named as usize, bias }
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
