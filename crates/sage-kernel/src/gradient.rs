//! The sampled sum of outer products: one step of DP-SGD. Proof: `proofs/gradient.md`.
//!
//! For a dense layer the gradient of one row is the outer product of what went in and the error that came
//! back. Its length is the product of their lengths, so every row can be shortened without its gradient
//! ever being formed, and the sum over rows is one matrix product. Here both factors become whole numbers,
//! the joint length over all layers is checked in integers, and the product is exact. Which rows take part
//! is drawn here, each with its own chance; how many did is told to nobody; the sum gets noise even when
//! no row took part.

use crate::block::Lane;
use crate::budget::{Rate, Sigma};
use crate::cost::Mechanism;
use crate::noise::{NoiseSource, poisson_mask};
use crate::session::{Rows, Session, SessionError};
use crate::vector::Lattice;
use sage_exact::{ROWS_AT_A_TIME, add_product};

/// Units of each factor's grid: an input of length one, an error of the largest allowed length.
const SIZE: u64 = 1 << 20;

/// What goes into a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputShape {
    /// So many numbers for each row.
    Dense(u32),
    /// So many different places for each row, in order, out of a width: those are one, the others zero.
    Places {
        /// Places named for each row.
        named: u32,
        /// The width they are out of.
        width: u32,
    },
}

impl InputShape {
    /// Numbers the layer sees for each row.
    pub const fn width(self) -> u32 {
        match self {
            Self::Dense(width) | Self::Places { width, .. } => width,
        }
    }

    /// Numbers and places that the caller fills in for each row: some of the one and none of the other.
    const fn filled(self) -> (usize, usize) {
        match self {
            Self::Dense(width) => (width as usize, 0),
            Self::Places { named, .. } => (0, named as usize),
        }
    }
}

/// A dense layer: what goes in, how much comes out, and a bias for each output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// What goes in.
    pub inputs: InputShape,
    /// What comes out.
    pub outputs: u32,
}

impl LayerShape {
    /// Parameters: a weight for each pair of an output and an input, then the biases of the outputs.
    pub const fn parameters(self) -> u64 {
        self.outputs as u64 * (self.inputs.width() as u64 + 1)
    }
}

/// What the caller fills in for one layer, row after row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerRows {
    /// Dense inputs, or empty.
    pub values: Vec<f32>,
    /// Named places, or empty.
    pub places: Vec<u32>,
    /// Errors at the outputs.
    pub errors: Vec<f32>,
}

/// The rows that take part in a step.
pub struct Sample<'session, R> {
    rows: Vec<(&'session R, usize)>,
}

impl<R: Rows> Sample<'_, R> {
    /// How many there are. Known to the function that computes the step, and to nobody else.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// The row at a place below [`Sample::count`].
    pub fn row(&self, place: usize) -> R::Row<'_> {
        let (batch, row) = self.rows[place];
        batch.row(row)
    }
}

/// The parameters of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The chance of a row to take part.
    pub rate: Rate,
    /// Noise over sensitivity.
    pub sigma: Sigma,
    /// The longest gradient of one row, over all layers; longer ones are shortened.
    pub clip: f64,
}

impl<R: Rows, N: NoiseSource> Session<R, N> {
    /// One step: the noisy sum of the rows' gradients, layer by layer, weights row by row and then biases.
    ///
    /// `backward` gets the sampled rows and fills in, for every layer, inputs and errors of each row in
    /// order. What it fills in for a row must depend on that row and on public values alone.
    ///
    /// # Guarantee
    /// One step of [`Mechanism::SampledGaussian`] with as many coordinates as the layers have parameters,
    /// if `backward` keeps its promise: `proofs/gradient.md`. A row it fills in with anything that is no
    /// finite number, or with places out of order or beyond the width, counts as zero.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn sampled_sum(
        &mut self, lane: Lane, step: Step, layers: &[LayerShape], backward: impl Fn(&Sample<'_, R>, &mut [LayerRows]),
    ) -> Result<Vec<Vec<f32>>, SessionError> {
        let Step { rate, sigma, clip } = step;
        if !(1e-30..=1e30).contains(&clip) {
            return Err(SessionError::Parameter("the clip of a step is from 1e-30 to 1e30"));
        }
        let total = layers.iter().try_fold(0u64, |total, layer| total.checked_add(layer.parameters()));
        let coordinates = total
            .and_then(|total| u32::try_from(total).ok())
            .filter(|&total| total > 0)
            .ok_or(SessionError::Parameter("a network has from 1 to 2^32 - 1 parameters"))?;
        let lattice = Lattice::new(u128::from(SIZE) * u128::from(SIZE), sigma, u64::from(coordinates))?;
        self.granted_rows(lane)?;
        self.plan(lane)?.take_gaussian(&Mechanism::SampledGaussian { rate, sigma, coordinates, steps: 1 })?;
        let sample = self.sample(lane, rate)?;
        let mut filled = vec![LayerRows::default(); layers.len()];
        backward(&sample, &mut filled);
        let sums = clipped_sums(layers, &filled, sample.count(), clip);
        let unit = clip / (SIZE as f64 * SIZE as f64);
        let mut noisy = Vec::with_capacity(layers.len());
        for sums in sums {
            let mut layer = Vec::with_capacity(sums.len());
            lattice.release(sums.into_iter(), &mut self.noise, |value| layer.push((value * unit) as f32))?;
            noisy.push(layer);
        }
        Ok(noisy)
    }

    /// Draws which rows take part: each by itself, with a chance that is not above the one asked for.
    fn sample(&mut self, lane: Lane, rate: Rate) -> Result<Sample<'_, R>, SessionError> {
        let mut rows = Vec::new();
        let mut mask = Vec::new();
        for batch in &self.rows[lane.index()] {
            let count = batch.count();
            poisson_mask(&mut self.noise, rate.in_words(), count, &mut mask)?;
            for (word, &bits) in mask.iter().enumerate() {
                let mut bits = bits;
                while bits != 0 {
                    rows.push((batch, word * 64 + bits.trailing_zeros() as usize));
                    bits &= bits - 1;
                }
            }
        }
        Ok(Sample { rows })
    }
}

/// The exact sums of the shortened outer products, in units of clip / 2^40.
///
/// # Guarantee
/// The contribution of one row, over all layers together, is a vector of whole numbers no longer than
/// 2^40, checked in integers.
fn clipped_sums(layers: &[LayerShape], filled: &[LayerRows], count: usize, clip: f64) -> Vec<Vec<i128>> {
    let mut totals: Vec<Vec<i128>> = layers.iter().map(|layer| vec![0; layer.parameters() as usize]).collect();
    let sized = layers.iter().zip(filled).all(|(layer, rows)| rows.fits(*layer, count));
    if !sized {
        return totals;
    }
    for first in (0..count).step_by(ROWS_AT_A_TIME) {
        let rows = first..count.min(first + ROWS_AT_A_TIME);
        let scales: Vec<Option<f64>> = rows.clone().map(|row| scale_of(layers, filled, row, clip)).collect();
        let mut factors: Vec<Factors> =
            layers.iter().zip(filled).map(|(layer, filled)| filled.quantise(*layer, rows.clone(), &scales)).collect();
        silence_long_rows(&mut factors, rows.len());
        for (factors, total) in factors.iter().zip(&mut totals) {
            // So few rows of at most 2^40 each fit into 64 bits.
            let mut sums = vec![0i64; total.len()];
            factors.add_to(rows.len(), &mut sums);
            total.iter_mut().zip(sums).for_each(|(total, sum)| *total += i128::from(sum));
        }
    }
    totals
}

/// What a row's errors are multiplied with: one over the length its gradient counts as.
fn scale_of(layers: &[LayerShape], filled: &[LayerRows], row: usize, clip: f64) -> Option<f64> {
    let mut squares = 0.0;
    for (layer, rows) in layers.iter().zip(filled) {
        if !rows.places_fit(*layer, row) {
            return None;
        }
        let errors: f64 = rows.errors_of(*layer, row).iter().map(|&error| f64::from(error) * f64::from(error)).sum();
        squares += rows.input_square(*layer, row) * errors;
    }
    // Finite numbers give a finite sum here, so anything else held something that is no number.
    squares.is_finite().then(|| 1.0 / libm::sqrt(squares).max(clip))
}

/// A row whose parts are together longer than allowed, or out of their grids, counts as zero.
fn silence_long_rows(factors: &mut [Factors], count: usize) {
    let limit = u128::from(SIZE).pow(4);
    for row in 0..count {
        let length = factors.iter().fold(0u128, |sum, layer| sum.saturating_add(layer.square(row)));
        if length > limit {
            factors.iter_mut().for_each(|layer| layer.silence(row));
        }
    }
}

/// Both factors of one layer's outer products, as whole numbers.
struct Factors {
    /// Inputs row by row with the bias last; for named places, the one number they all have and the bias.
    inputs: Vec<f64>,
    input_width: usize,
    /// The places that the rows name.
    places: Vec<u32>,
    errors: Vec<f64>,
    outputs: usize,
    layer: LayerShape,
}

impl LayerRows {
    /// Whether everything has the size that so many rows need.
    fn fits(&self, layer: LayerShape, count: usize) -> bool {
        let (values, places) = layer.inputs.filled();
        self.values.len() == count * values
            && self.places.len() == count * places
            && self.errors.len() == count * layer.outputs as usize
    }

    /// Whether a row names places that exist, each once and in order.
    fn places_fit(&self, layer: LayerShape, row: usize) -> bool {
        let places = self.places_of(layer, row);
        let exists = places.last().is_none_or(|&last| last < layer.inputs.width());
        exists && places.windows(2).all(|pair| pair[0] < pair[1])
    }

    fn values_of(&self, layer: LayerShape, row: usize) -> &[f32] {
        let (values, _) = layer.inputs.filled();
        &self.values[row * values..][..values]
    }

    fn places_of(&self, layer: LayerShape, row: usize) -> &[u32] {
        let (_, places) = layer.inputs.filled();
        &self.places[row * places..][..places]
    }

    fn errors_of(&self, layer: LayerShape, row: usize) -> &[f32] {
        &self.errors[row * layer.outputs as usize..][..layer.outputs as usize]
    }

    /// The squared length of what goes in, the bias included.
    fn input_square(&self, layer: LayerShape, row: usize) -> f64 {
        let values: f64 = self.values_of(layer, row).iter().map(|&value| f64::from(value) * f64::from(value)).sum();
        1.0 + values + layer.inputs.filled().1 as f64
    }

    fn quantise(&self, layer: LayerShape, rows: std::ops::Range<usize>, scales: &[Option<f64>]) -> Factors {
        let outputs = layer.outputs as usize;
        let input_width = match layer.inputs {
            InputShape::Dense(width) => width as usize + 1,
            InputShape::Places { .. } => 2,
        };
        let mut inputs = vec![0.0; rows.len() * input_width];
        let mut errors = vec![0.0; rows.len() * outputs];
        let named = layer.inputs.filled().1;
        let mut places = vec![0; rows.len() * named];
        for (place, (row, scale)) in rows.zip(scales).enumerate() {
            // A row without a scale stays zero.
            let Some(scale) = scale else { continue };
            let length = libm::sqrt(self.input_square(layer, row));
            let into = SIZE as f64 / length;
            let inputs = &mut inputs[place * input_width..][..input_width];
            inputs.fill(libm::trunc(into));
            for (input, &value) in inputs.iter_mut().zip(self.values_of(layer, row)) {
                *input = libm::trunc(f64::from(value) * into);
            }
            places[place * named..][..named].copy_from_slice(self.places_of(layer, row));
            let share = scale * length * SIZE as f64;
            let target = errors[place * outputs..][..outputs].iter_mut();
            target.zip(self.errors_of(layer, row)).for_each(|(target, &error)| {
                *target = libm::trunc(f64::from(error) * share);
            });
        }
        Factors { inputs, input_width, places, errors, outputs, layer }
    }
}

impl Factors {
    /// The squared length of the row's outer product, or more than any if a factor is out of its grid.
    fn square(&self, row: usize) -> u128 {
        // A number above the grid's size would not be multiplied exactly, and one that is no number
        // would take every other row of the product with it.
        let whole = |value: &f64| {
            let size = libm::fabs(*value);
            if size <= SIZE as f64 { u128::from(size as u64) } else { u128::MAX }
        };
        let sum = |values: &[f64]| {
            values.iter().fold(0u128, |sum, value| sum.saturating_add(whole(value).saturating_mul(whole(value))))
        };
        let inputs = &self.inputs[row * self.input_width..][..self.input_width];
        let inputs = match self.layer.inputs {
            InputShape::Dense(_) => sum(inputs),
            InputShape::Places { named, .. } => {
                sum(&inputs[..1]).saturating_mul(u128::from(named)).saturating_add(sum(&inputs[1..]))
            }
        };
        let errors = sum(&self.errors[row * self.outputs..][..self.outputs]);
        if inputs == u128::MAX || errors == u128::MAX { u128::MAX } else { inputs.saturating_mul(errors) }
    }

    fn silence(&mut self, row: usize) {
        self.inputs[row * self.input_width..][..self.input_width].fill(0.0);
        self.errors[row * self.outputs..][..self.outputs].fill(0.0);
    }

    /// Adds the outer products of all rows: weights output by output, then the biases.
    fn add_to(&self, count: usize, total: &mut [i64]) {
        let width = self.layer.inputs.width() as usize;
        let (weights, biases) = total.split_at_mut(self.outputs * width);
        match self.layer.inputs {
            InputShape::Dense(_) => {
                let mut product = vec![0.0; self.outputs * (width + 1)];
                add_product(&self.errors, &self.inputs, count, &mut product);
                for (output, sums) in product.chunks_exact(width + 1).enumerate() {
                    let targets = weights[output * width..][..width].iter_mut();
                    targets.zip(sums).for_each(|(target, &sum)| *target += sum as i64);
                    biases[output] += sums[width] as i64;
                }
            }
            InputShape::Places { named, .. } => {
                let named = named as usize;
                for row in 0..count {
                    let (each, bias) = (self.inputs[2 * row] as i64, self.inputs[2 * row + 1] as i64);
                    let errors = &self.errors[row * self.outputs..][..self.outputs];
                    for (output, &error) in errors.iter().enumerate() {
                        let error = error as i64;
                        for &place in &self.places[row * named..][..named] {
                            weights[output * width + place as usize] += error * each;
                        }
                        biases[output] += error * bias;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(values: &[f32], errors: &[f32]) -> LayerRows {
        LayerRows { values: values.to_vec(), places: Vec::new(), errors: errors.to_vec() }
    }

    /// The share of a row with zero errors overflows at the smallest clips; zero times that is no number.
    /// It was once taken for short, and the product spread it over the sums of all other rows.
    #[test]
    fn a_row_out_of_its_grid_silences_itself_alone() {
        let layers = [LayerShape { inputs: InputShape::Dense(1), outputs: 1 }; 2];
        let ordinary = dense(&[0.5], &[0.5]);
        let without = clipped_sums(&layers, &[ordinary.clone(), ordinary], 1, 1e-300);
        assert!(without.iter().all(|layer| layer[0] != 0));
        for large in [[1e38, 1.0], [1.0, 1e38], [1e38, 1e38]] {
            let filled = large.map(|large| dense(&[0.5, large], &[0.5, 0.0]));
            assert_eq!(without, clipped_sums(&layers, &filled, 2, 1e-300));
        }
    }

    /// One row more moves the exact sums by at most 2^40 in length, whatever it holds, and never any
    /// other row's part.
    #[test]
    fn one_row_moves_the_sums_by_at_most_the_clip() {
        let layers = [
            LayerShape { inputs: InputShape::Dense(2), outputs: 2 },
            LayerShape { inputs: InputShape::Places { named: 2, width: 4 }, outputs: 1 },
        ];
        let extremes = [0.0, -0.0, 1.0, -3.5, 1e-45, 1e38, f32::MAX, f32::MIN, f32::NAN, f32::INFINITY, 1e-20];
        let places = [[0, 1], [1, 3], [3, 1], [2, 2], [0, 4], [u32::MAX, 0]];
        let filled = |rows: &[(f32, f32, f32, [u32; 2])]| {
            let mut filled = vec![LayerRows::default(); 2];
            for &(one, two, error, places) in rows {
                filled[0].values.extend([one, two]);
                filled[0].errors.extend([error, two]);
                filled[1].places.extend(places);
                filled[1].errors.push(error);
            }
            filled
        };
        let base = [(0.3, -0.7, 2.0, [0, 2]), (1e38, 1.0, -1e38, [1, 2]), (f32::NAN, 0.0, 0.0, [0, 1])];
        for clip in [1e-300, 1e-30, 0.7, 1.0, 1e30] {
            let without = clipped_sums(&layers, &filled(&base), base.len(), clip);
            for &one in &extremes {
                for &two in &extremes {
                    for (place, &error) in extremes.iter().enumerate() {
                        let mut rows = base.to_vec();
                        rows.insert(1, (one, two, error, places[place % places.len()]));
                        let with = clipped_sums(&layers, &filled(&rows), rows.len(), clip);
                        let square = without.iter().flatten().zip(with.iter().flatten());
                        let square: u128 = square.map(|(one, other)| (other - one).unsigned_abs().pow(2)).sum();
                        assert!(square <= 1 << 80, "{clip} {one} {two} {error}: {square}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_has_the_wrong_size_counts_as_nothing() {
        let layers = [LayerShape { inputs: InputShape::Dense(2), outputs: 1 }];
        for filled in [dense(&[1.0], &[1.0]), dense(&[1.0; 4], &[1.0]), dense(&[1.0; 2], &[]), dense(&[], &[])] {
            assert_eq!(clipped_sums(&layers, &[filled], 1, 1.0), [vec![0; 3]]);
        }
    }
}
