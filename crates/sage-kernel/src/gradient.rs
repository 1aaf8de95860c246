//! The sampled sum of outer products: one step of DP-SGD. Proof: `proofs/gradient.md`.
//!
//! For a dense layer the gradient of one row is the outer product of the layer's inputs and of the errors at its outputs.
//! Its norm is the product of their norms, so every row can be clipped without computing its gradient, and the sum over
//! rows is one matrix product. Both factors are quantised to integers (`factors`), and the product is exact. Each row is
//! sampled independently here. The number of sampled rows must never be revealed, and the sum gets noise even if no row
//! was sampled.

use std::ops::Range;

use crate::block::Lane;
use crate::budget::{Rate, Sigma};
use crate::cost::Mechanism;
use crate::factors::{LayerRows, LayerShape, SIZE, quantise};
use crate::noise::{NoiseSource, poisson_mask};
use crate::session::{Rows, Session, SessionError};
use crate::vector::Lattice;
use sage_numerics::{Factors, balanced_chunks, map_parallel, sum_outer_products};

/// The number of coordinates that share a source of noise: a public size, so that the noise does not depend on the
/// number of threads.
const PIECE: usize = 1 << 15;

/// Some of the sampled rows of a step.
pub struct Sample<'step, R> {
    rows: &'step [(&'step R, usize)],
    /// The number of sampled sums before this one.
    step: usize,
}

impl<R: Rows> Sample<'_, R> {
    /// The number of rows. Only the function that computes the step may use it.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// The row at an index below [`Sample::count`]. The records of a row are in front in turn, another one in each step.
    pub fn row(&self, index: usize) -> R::Row<'_> {
        let (batch, row) = self.rows[index];
        batch.record(row, self.step % batch.records(row).max(1))
    }
}

/// The parameters of a step of DP-SGD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The probability that a row is sampled.
    pub rate: Rate,
    /// The noise multiplier: standard deviation over sensitivity.
    pub sigma: Sigma,
    /// The largest L2 norm of one row's gradient over all layers; longer ones are clipped.
    pub clip: f64,
}

/// Buffers that steps reuse. Their content depends on rows and never leaves the session.
#[derive(Default)]
pub(crate) struct Scratch {
    /// For each thread.
    filled: Vec<Vec<LayerRows>>,
    factors: Vec<Factors>,
    sums: Vec<Vec<i64>>,
}

impl<R: Rows, N: NoiseSource> Session<R, N> {
    /// One step of DP-SGD: the noisy sum of the clipped gradients of sampled rows, layer by layer. In a layer the order is:
    /// numeric inputs, one-hot columns, bias; for each of them all outputs.
    ///
    /// `backward` is called with some of the sampled rows at a time, on several threads. For every layer it must overwrite
    /// the inputs and errors of each row completely, because the buffers contain values of other rows. What it writes for
    /// a row must depend only on that row and on public values.
    ///
    /// # Guarantee
    /// One step of [`Mechanism::SampledGaussian`] with as many coordinates as the layers have parameters, if `backward`
    /// fulfils its contract: `proofs/gradient.md`. A row with an infinite or NaN value, or with one-hot indices that are
    /// out of order or out of range, counts as zero. The result does not depend on the number of threads.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn sampled_sum(
        &mut self, lane: Lane, step: Step, layers: &[LayerShape],
        backward: impl Fn(&Sample<'_, R>, &mut [LayerRows]) + Sync,
    ) -> Result<Vec<Vec<f32>>, SessionError>
    where
        R: Sync,
    {
        let Step { rate, sigma, clip } = step;
        if !(1e-30..=1e30).contains(&clip) {
            return Err(SessionError::Parameter("the clipping norm of a step must be from 1e-30 to 1e30"));
        }
        let total = layers.iter().fold(0u128, |total, layer| total.saturating_add(layer.parameters()));
        let coordinates = u32::try_from(total)
            .ok()
            .filter(|&total| total > 0)
            .ok_or(SessionError::Parameter("a network has from 1 to 2^32 - 1 parameters"))?;
        let lattice = Lattice::new(u128::from(SIZE * SIZE), sigma, u64::from(coordinates))?;
        self.granted_rows(lane)?;
        self.plan(lane)?.take_gaussian(&Mechanism::SampledGaussian { rate, sigma, coordinates, steps: 1 })?;
        let (mut scratch, threads, step) = (std::mem::take(&mut self.scratch), self.threads, self.steps);
        self.steps += 1;
        let rows = self.sample(lane, rate)?;
        scratch.clipped_sums(layers, rows.len(), clip, threads, |some, filled| {
            backward(&Sample { rows: &rows[some], step }, filled);
        });
        let unit = clip / (SIZE * SIZE) as f64;
        let noisy = release(&lattice, &scratch.sums, unit, threads, &mut self.noise);
        self.scratch = scratch;
        noisy
    }

    /// Samples rows independently, each with a probability of at most `rate`.
    fn sample(&mut self, lane: Lane, rate: Rate) -> Result<Vec<(&R, usize)>, SessionError> {
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
        Ok(rows)
    }
}

/// Adds noise to the sums, with an independent source for each piece.
fn release<N: NoiseSource>(
    lattice: &Lattice, sums: &[Vec<i64>], unit: f64, threads: usize, noise: &mut N,
) -> Result<Vec<Vec<f32>>, SessionError> {
    let mut noisy: Vec<Vec<f32>> = sums.iter().map(|sums| vec![0.0; sums.len()]).collect();
    let mut pieces = Vec::new();
    for (sums, noisy) in sums.iter().zip(&mut noisy) {
        for (sums, noisy) in sums.chunks(PIECE).zip(noisy.chunks_mut(PIECE)) {
            pieces.push((sums, noisy, noise.fork()?));
        }
    }
    let outcomes = map_parallel(balanced_chunks(pieces, threads, |(sums, ..)| sums.len()), |chunk| {
        let mut pieces = chunk.into_iter();
        pieces.try_for_each(|(sums, noisy, mut noise)| lattice.release_sums(sums, &mut noise, unit, noisy))
    });
    outcomes.into_iter().collect::<Result<(), SessionError>>()?;
    Ok(noisy)
}

impl Scratch {
    /// Computes the exact sums of the clipped outer products, in units of clip / 2^26.
    ///
    /// # Guarantee
    /// The contribution of one row over all layers is an integer vector with an L2 norm of at most 2^26, checked in
    /// integers.
    fn clipped_sums(
        &mut self, layers: &[LayerShape], count: usize, clip: f64, threads: usize,
        fill: impl Fn(Range<usize>, &mut [LayerRows]) + Sync,
    ) {
        self.sums.resize_with(layers.len(), Vec::new);
        for (layer, sums) in layers.iter().zip(&mut self.sums) {
            sums.resize(layer.parameters() as usize, 0);
        }
        if !quantise(layers, count, clip, threads, &mut self.filled, &mut self.factors, fill) {
            self.sums.iter_mut().for_each(|sums| sums.fill(0));
            return;
        }
        let layers = layers.iter().zip(&self.factors).zip(&mut self.sums);
        sum_outer_products(layers.map(|((layer, factors), sums)| (factors, layer.factor_shape(), sums)), threads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factors::Bias;

    fn clipped_sums(layers: &[LayerShape], filled: &[LayerRows], count: usize, clip: f64) -> Vec<Vec<i64>> {
        let mut scratch = Scratch::default();
        scratch.clipped_sums(layers, count, clip, 1, copied(layers, filled, count));
        scratch.sums
    }

    /// A `fill` function that copies rows prepared in advance.
    fn copied(
        layers: &[LayerShape], filled: &[LayerRows], count: usize,
    ) -> impl Fn(Range<usize>, &mut [LayerRows]) + Sync {
        move |rows, out| {
            for ((layer, from), out) in layers.iter().zip(filled).zip(out) {
                let some = |width: u32, end: usize| {
                    // Surplus values are written with the last rows.
                    let end = if rows.end == count { end } else { end.min(rows.end * width as usize) };
                    end.min(rows.start * width as usize)..end
                };
                out.values = from.values[some(layer.numeric, from.values.len())].to_vec();
                out.indices = from.indices[some(layer.active, from.indices.len())].to_vec();
                out.errors = from.errors[some(layer.outputs, from.errors.len())].to_vec();
            }
        }
    }

    fn dense(values: &[f32], errors: &[f32]) -> LayerRows {
        LayerRows { values: values.to_vec(), indices: Vec::new(), errors: errors.to_vec() }
    }

    /// The scale of a row with zero errors overflows at the smallest clips, and zero times infinity is NaN. It was once
    /// taken for a short row, and the product spread it over the sums of all other rows.
    #[test]
    fn a_row_out_of_its_grid_silences_itself_alone() {
        let layers = [LayerShape::dense(1, 1); 2];
        let ordinary = dense(&[0.5], &[0.5]);
        let without = clipped_sums(&layers, &[ordinary.clone(), ordinary], 1, 1e-300);
        assert!(without.iter().all(|layer| layer[0] != 0));
        for large in [[1e38, 1.0], [1.0, 1e38], [1e38, 1e38]] {
            let filled = large.map(|large| dense(&[0.5, large], &[0.5, 0.0]));
            assert_eq!(without, clipped_sums(&layers, &filled, 2, 1e-300));
        }
    }

    /// Adding a row with any content changes the exact sums by at most 2^26 in L2 norm, and never changes the contribution
    /// of another row.
    #[test]
    fn one_row_moves_the_sums_by_at_most_the_clip() {
        let layers = [LayerShape::dense(2, 2), LayerShape::one_hot(2, 4, 1)];
        let extremes = [0.0, -0.0, 1.0, -3.5, 1e-45, 1e38, f32::MAX, f32::MIN, f32::NAN, f32::INFINITY, 1e-20];
        let indices = [[0, 1], [1, 3], [3, 1], [2, 2], [0, 4], [u32::MAX, 0]];
        let filled = |rows: &[(f32, f32, f32, [u32; 2])]| {
            let mut filled = vec![LayerRows::default(); 2];
            for &(one, two, error, indices) in rows {
                filled[0].values.extend([one, two]);
                filled[0].errors.extend([error, two]);
                filled[1].indices.extend(indices);
                filled[1].errors.push(error);
            }
            filled
        };
        let base = [(0.3, -0.7, 2.0, [0, 2]), (1e38, 1.0, -1e38, [1, 2]), (f32::NAN, 0.0, 0.0, [0, 1])];
        for clip in [1e-300, 1e-30, 0.7, 1.0, 1e30] {
            let without = clipped_sums(&layers, &filled(&base), base.len(), clip);
            for &one in &extremes {
                for &two in &extremes {
                    for (index, &error) in extremes.iter().enumerate() {
                        let mut rows = base.to_vec();
                        rows.insert(1, (one, two, error, indices[index % indices.len()]));
                        let with = clipped_sums(&layers, &filled(&rows), rows.len(), clip);
                        let square = without.iter().flatten().zip(with.iter().flatten());
                        let square: u128 =
                            square.map(|(one, other)| u128::from((other - one).unsigned_abs()).pow(2)).sum();
                        assert!(square <= 1 << 52, "{clip} {one} {two} {error}: {square}");
                    }
                }
            }
        }
    }

    /// A step that is large enough for several threads, with buffers that an earlier step has used.
    #[test]
    fn threads_and_used_memory_change_nothing() {
        let layers = [
            LayerShape { numeric: 3, active: 2, columns: 40, outputs: 2_100, bias: Bias::Added },
            LayerShape::dense(2_100, 65),
            LayerShape::embedding(7, 3),
        ];
        let number = |seed: usize| ((seed * 7_919 + 13) % 2_003) as f32 / 1_000.0 - 1.0;
        let fill = |count: usize, filled: &mut [LayerRows]| {
            for (layer, filled) in layers.iter().zip(filled) {
                filled.values.extend((0..count * layer.numeric as usize).map(number));
                filled.errors.extend((0..count * layer.outputs as usize).map(number));
                let indices = |row: usize| (0..layer.active).map(move |field| (row as u32 * 5 + field) % layer.columns);
                filled.indices.extend((0..count).flat_map(indices));
            }
        };
        let mut used = Scratch::default();
        for (count, threads) in [(700, 1), (900, 2), (900, 3), (5, 2), (900, 1)] {
            let mut filled = vec![LayerRows::default(); layers.len()];
            fill(count, &mut filled);
            used.clipped_sums(&layers, count, 1.0, threads, copied(&layers, &filled, count));
            assert_eq!(used.sums, clipped_sums(&layers, &filled, count, 1.0), "{count} {threads}");
            assert!(used.sums.iter().all(|sums| sums.iter().any(|&sum| sum != 0)));
        }
    }

    /// A step without rows, or with values of the wrong size, must not return the sums of the step before.
    #[test]
    fn sums_of_an_earlier_step_are_gone() {
        let layers = [
            LayerShape { numeric: 3, active: 2, columns: 4, outputs: 70, bias: Bias::Added },
            LayerShape::dense(70, 2),
            LayerShape { numeric: 1, active: 1, columns: 3, outputs: 2, bias: Bias::Added },
        ];
        let filled = layers.map(|layer| LayerRows {
            values: vec![1.0; 5 * layer.numeric as usize],
            indices: (0..5).flat_map(|_| 0..layer.active).collect(),
            errors: vec![1.0; 5 * layer.outputs as usize],
        });
        for (count, lost) in [(0, 0), (5, 1)] {
            for threads in [1, 2] {
                let mut used = Scratch::default();
                used.clipped_sums(&layers, 5, 1.0, threads, copied(&layers, &filled, 5));
                assert!(used.sums.iter().all(|sums| sums.iter().any(|&sum| sum != 0)));
                used.clipped_sums(&layers, count, 1.0, threads, |rows, out| {
                    copied(&layers, &filled, count)(rows, out);
                    out[1].errors.truncate(out[1].errors.len() - lost);
                });
                assert!(used.sums.iter().flatten().all(|&sum| sum == 0), "{count} {lost} {threads}");
            }
        }
    }

    #[test]
    fn what_has_the_wrong_size_counts_as_nothing() {
        let layers = [LayerShape::dense(2, 1)];
        for filled in [dense(&[1.0], &[1.0]), dense(&[1.0; 4], &[1.0]), dense(&[1.0; 2], &[]), dense(&[], &[])] {
            assert_eq!(clipped_sums(&layers, &[filled], 1, 1.0), [vec![0; 3]]);
        }
        // Earlier rows of the right size do not count either.
        let mut filled = dense(&[1.0; 1_000], &[1.0; 500]);
        assert!(clipped_sums(&layers, std::slice::from_ref(&filled), 500, 1.0)[0].iter().all(|&sum| sum > 0));
        filled.values.pop();
        assert_eq!(clipped_sums(&layers, &[filled], 500, 1.0), [vec![0; 3]]);
    }
}
