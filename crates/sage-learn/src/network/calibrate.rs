//! Two releases around a training: the label's moments before it, and a calibration of the predictions after it.
//!
//! Both are tables of the kernel with one contribution per row. The first tells where to start, how many rows there are
//! and how far labels spread; the second corrects the slope and the intercept that clipping and noise leave behind.
//! A correction is used as far as its table is precise.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Pair, Range, Rounding, Session, SessionError, TableNoise};

use super::pass::logistic;
use super::shape::Loss;
use super::weights::Network;
use crate::encode::Encoded;
use crate::validate::LabelSums;

/// The released moments of the labels, which are from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelMoments {
    /// The number of rows, at least the noise of the release and one.
    pub rows: f64,
    /// The mean, drawn to one half as far as the noise is large for the rows.
    pub mean: f64,
    /// The standard deviation, from 0.01 to 0.5.
    pub deviation: f64,
}

/// The standard deviation of the noise of one sum of a table, in rows.
pub(super) fn table_deviation(noise: TableNoise) -> f64 {
    match noise {
        TableNoise::Laplace(epsilon) => std::f64::consts::SQRT_2 * 1e12 / (epsilon.units() as f64).max(1.0),
        TableNoise::Gaussian(sigma) => sigma.units() as f64 / 1e9,
    }
}

impl LabelMoments {
    /// The moments according to released sums.
    pub fn new(labels: &LabelSums) -> Self {
        let sums = labels.sums;
        Self::from_sums(sums.squares, sums.rest, sums.below, table_deviation(labels.noise))
    }

    fn from_sums(squares: f64, rest: f64, below: f64, noise: f64) -> Self {
        let rows = (squares + rest + below).max(noise).max(1.0);
        // Before any release a mean is as likely anywhere from 0 to 1, with a variance of 1/12.
        let trust = 1.0 / (1.0 + 12.0 * (noise / rows).powi(2));
        let shrunk = |sum: f64, prior: f64| prior + trust * ((sum / rows).clamp(0.0, 1.0) - prior);
        let (mean, square) = (shrunk(squares + rest, 0.5), shrunk(squares, 1.0 / 3.0));
        Self { rows, mean, deviation: (square - mean * mean).max(1e-4).sqrt().min(0.5) }
    }
}

/// The bins of the calibration table.
const BINS: u32 = 32;
/// Predictions are binned from this many reaches below the centre to as many above it.
const SPAN: f64 = 4.0;
/// The prior standard deviation of the slope about one and of the intercept about zero, in reaches.
pub(super) const PRIOR: f64 = 0.5;
/// Neighbouring bins are merged until they have this many times more rows than the standard deviation of their noise.
const CLEAR: f64 = 3.0;
const NEWTON_STEPS: usize = 25;

/// The public scale of predictions before the logistic function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The prediction of the best constant.
    pub centre: f64,
    /// The distance from it that is typical for good predictions.
    pub reach: f64,
}

/// Corrects the slope and the intercept of a network's predictions by one release.
///
/// # Errors
/// When the charge does not cover it.
pub fn calibrate<N: NoiseSource>(
    session: &mut Session<Encoded, N>, lane: Lane, noise: TableNoise, scale: Scale, network: Network,
) -> Result<Network, SessionError> {
    let range = Range::new(0.0, 1.0).ok_or(SessionError::Parameter("the range of labels"))?;
    let predictor = network.row_predictor();
    let bin = |row: crate::encode::UnitExamples<'_>| {
        let mut output = [0.0];
        predictor.outputs(&row, &mut output);
        let share = ((f64::from(output[0]) - scale.centre) / scale.reach + SPAN) / (2.0 * SPAN);
        let key = (share * f64::from(BINS)).clamp(0.0, f64::from(BINS - 1)) as u32;
        Some((key, f64::from(row.label)))
    };
    let bins = session.pairs(lane, BINS, range, Rounding::Nearest, noise, bin)?;
    let line = Line::fit(&bins, table_deviation(noise), network.shape().loss(), scale);
    Ok(line.map_or_else(|| network.clone(), |line| network.corrected(line.slope, &[line.intercept(scale)])))
}

/// A line from predictions to better ones, in reaches from the centre: slope · (x − at) + level.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    slope: f64,
    at: f64,
    level: f64,
}

/// Neighbouring bins with enough rows together.
#[derive(Clone, Copy, Default)]
struct Bin {
    /// The sum of middles, in reaches from the centre, each times its rows.
    weighted: f64,
    rows: f64,
    /// The sum of labels.
    sum: f64,
    /// How many bins were merged.
    merged: f64,
}

impl Bin {
    fn middle(&self) -> f64 {
        (self.weighted / self.rows).clamp(-SPAN, SPAN)
    }
}

/// Merges bins from the fullest one outwards; what is left at the ends is not clear of the noise. Without merging, the
/// tails would be left out, and they decide about the slope.
fn clear_bins(pairs: &[Pair], noise: f64) -> Vec<Bin> {
    let rows = |bin: usize| pairs[bin].above + pairs[bin].below;
    let Some(fullest) = (0..pairs.len()).max_by(|&one, &other| rows(one).total_cmp(&rows(other))) else {
        return Vec::new();
    };
    let mut bins = Vec::new();
    let mut open = Bin::default();
    let mut add = |bin: usize, open: &mut Bin| {
        open.weighted += rows(bin) * ((bin as f64 + 0.5) / pairs.len() as f64 * 2.0 - 1.0) * SPAN;
        open.rows += rows(bin);
        open.sum += pairs[bin].above;
        open.merged += 1.0;
        if open.rows > CLEAR * noise * (2.0 * open.merged).sqrt() && open.rows >= 1.0 {
            bins.push(std::mem::take(open));
        }
    };
    (fullest..pairs.len()).for_each(|bin| add(bin, &mut open));
    open = Bin::default();
    (0..fullest).rev().for_each(|bin| add(bin, &mut open));
    bins
}

impl Line {
    /// `None` if no bin is clear of the noise.
    fn fit(pairs: &[Pair], noise: f64, loss: Loss, scale: Scale) -> Option<Self> {
        let bins = clear_bins(pairs, noise);
        let total: f64 = bins.iter().map(|bin| bin.rows).sum();
        if bins.is_empty() {
            return None;
        }
        let at = bins.iter().map(|bin| bin.rows * bin.middle()).sum::<f64>() / total;
        let mut line = Self { slope: 1.0, at, level: at };
        let (mut curvature, mut gradient_noise) = ([1.0, 1.0], [0.0, 0.0]);
        for _ in 0..NEWTON_STEPS {
            let mut gradient = [0.0, 0.0];
            (curvature, gradient_noise) = ([1e-9, 1e-9], [0.0, 0.0]);
            for bin in &bins {
                let offset = bin.middle() - at;
                let predicted = scale.centre + scale.reach * (line.slope * offset + line.level);
                let (value, derivative) = match loss {
                    Loss::Squared => (predicted, 1.0),
                    Loss::Logistic | Loss::Softmax { .. } => {
                        let chance = f64::from(logistic(predicted as f32));
                        (chance, (chance * (1.0 - chance)).max(1e-3))
                    }
                };
                let error = bin.sum - bin.rows * value;
                let weight = bin.rows * derivative * scale.reach;
                let spread = bin.merged * noise * noise * (1.0 + 2.0 * value * value);
                for (index, factor) in [(0, offset), (1, 1.0)] {
                    gradient[index] += factor * error;
                    curvature[index] += factor * factor * weight;
                    gradient_noise[index] += factor * factor * spread;
                }
            }
            // Offsets are centred, so the two parameters are nearly independent.
            line.slope = (line.slope + gradient[0] / curvature[0]).clamp(0.0, 2.0);
            line.level = (line.level + gradient[1] / curvature[1]).clamp(at - 2.0, at + 2.0);
        }
        let trust = |index: usize| {
            let variance = gradient_noise[index] / (curvature[index] * curvature[index]);
            PRIOR * PRIOR / (PRIOR * PRIOR + variance)
        };
        Some(Self { slope: 1.0 + trust(0) * (line.slope - 1.0), at, level: at + trust(1) * (line.level - at) })
    }

    /// The intercept of the same line over predictions.
    fn intercept(&self, Scale { centre, reach }: Scale) -> f64 {
        centre + reach * (self.level - self.slope * self.at) - self.slope * centre
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(loss: Loss, scale: Scale, rows: f64, slope: f64, shift: f64) -> Vec<Pair> {
        let pair = |bin: u32| {
            let middle = ((f64::from(bin) + 0.5) / f64::from(BINS) * 2.0 - 1.0) * SPAN;
            let rows = rows * (-0.5 * middle * middle).exp();
            let truth = scale.centre + scale.reach * (slope * middle + shift);
            let mean = match loss {
                Loss::Squared | Loss::Softmax { .. } => truth,
                Loss::Logistic => 1.0 / (1.0 + (-truth).exp()),
            };
            Pair { above: rows * mean, below: rows * (1.0 - mean) }
        };
        (0..BINS).map(pair).collect()
    }

    #[test]
    fn a_precise_table_recovers_the_line_and_a_noisy_one_changes_little() {
        for (loss, scale) in
            [(Loss::Squared, Scale { centre: 0.3, reach: 0.05 }), (Loss::Logistic, Scale { centre: -1.0, reach: 1.0 })]
        {
            for (slope, shift) in [(1.0, 0.0), (0.5, 0.2), (0.0, -0.3), (1.6, 0.1)] {
                let table = pairs(loss, scale, 1e6, slope, shift);
                let line = Line::fit(&table, 1.0, loss, scale).expect("clear bins");
                assert!((line.slope - slope).abs() < 0.02, "{loss:?} {slope}: {line:?}");
                let wanted = slope * line.at + shift;
                assert!((line.level - wanted).abs() < 0.02, "{loss:?} {shift}: {line:?}");
            }
            let vague = Line::fit(&pairs(loss, scale, 1e3, 0.0, 0.0), 300.0, loss, scale).expect("clear bins");
            assert!(vague.slope > 0.5, "{vague:?}");
            assert_eq!(Line::fit(&pairs(loss, scale, 1e3, 0.0, 0.0), 1e4, loss, scale), None);
            assert_eq!(Line::fit(&[], 1.0, loss, scale), None);
        }
    }

    #[test]
    fn moments_survive_any_noise() {
        let exact = LabelMoments::from_sums(10.0, 10.0, 80.0, 0.0);
        assert!((exact.rows - 100.0).abs() < 1e-9 && (exact.mean - 0.2).abs() < 1e-9);
        assert!((exact.deviation - 0.06f64.sqrt()).abs() < 1e-9);
        for sums in [[-500.0, 20.0, 3.0], [900.0, -900.0, 4.0], [0.0; 3], [1e9, 1e9, -1e9]] {
            for noise in [0.0, 1.0, 100.0, 1e6] {
                let moments = LabelMoments::from_sums(sums[0], sums[1], sums[2], noise);
                assert!(moments.rows >= 1.0 && (0.0..=1.0).contains(&moments.mean), "{moments:?}");
                assert!((0.01..=0.5).contains(&moments.deviation), "{moments:?}");
            }
        }
    }
}
