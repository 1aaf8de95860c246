//! The two releases around a training for several classes: the classes' shares before it, a calibration after it.
//!
//! The shares are a histogram of the kernel: training starts at the best constant prediction. The calibration is one noisy
//! vector sum: how the loss changes with a common slope of all classes, and by how much the predicted probability of each
//! class exceeds its share, for several slopes. It determines the slope, then an intercept for each class. A correction
//! is used as far as the sum is precise.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Session, SessionError, Sigma, TableNoise};

use super::calibrate::{PRIOR, table_deviation};
use super::pass::softmax;
use super::weights::Network;
use crate::encode::{Encoded, UnitExamples};

/// The released shares of the classes.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassShares {
    /// The number of rows, at least the noise of the release and one.
    pub rows: f64,
    /// The share of each class: positive, adding up to one, drawn to equal shares as far as the noise is large for the
    /// rows.
    pub shares: Vec<f64>,
}

/// Shares are taken as at least this, or a quarter of an equal share.
const LEAST_SHARE: f64 = 0.005;

impl ClassShares {
    /// Equal shares.
    pub fn equal(classes: u32, rows: f64) -> Self {
        Self { rows, shares: vec![1.0 / f64::from(classes); classes as usize] }
    }

    /// Releases the shares of the classes of a lane. A label is the index of a class.
    ///
    /// # Errors
    /// When the charge does not cover it.
    pub fn release<N: NoiseSource>(
        session: &mut Session<Encoded, N>, lane: Lane, classes: u32, noise: TableNoise,
    ) -> Result<Self, SessionError> {
        let counts = session.histogram(lane, classes, noise, |row: UnitExamples<'_>| Some(row.label as u32))?;
        Ok(Self::from_counts(&counts, table_deviation(noise)))
    }

    fn from_counts(counts: &[f64], noise: f64) -> Self {
        let classes = counts.len().max(1) as f64;
        let rows = counts.iter().sum::<f64>().max(noise * classes.sqrt()).max(1.0);
        let equal = 1.0 / classes;
        // Before any release all shares are equally likely: each has this variance.
        let prior = (classes - 1.0) / (classes * classes * (classes + 1.0));
        let trust = prior / (prior + (noise / rows).powi(2));
        let least = LEAST_SHARE.min(0.25 * equal);
        let share = |count: &f64| (equal + trust * ((count / rows).clamp(0.0, 1.0) - equal)).max(least);
        let mut shares: Vec<f64> = counts.iter().map(share).collect();
        let sum: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= sum);
        Self { rows, shares }
    }

    /// The outputs before the softmax that predict the shares for every row.
    pub fn centres(&self) -> Vec<f64> {
        self.shares.iter().map(|&share| libm::log(share)).collect()
    }

    /// The curvatures of the cross-entropy by the outputs at these shares: the eigenvalues of diag(p) − pp' except zero,
    /// in ascending order. Each lies between two neighbouring shares.
    pub(super) fn curvatures(&self) -> Vec<f64> {
        let mut sorted = self.shares.clone();
        sorted.sort_by(f64::total_cmp);
        let between = |pair: &[f64]| {
            let (mut low, mut high) = (pair[0], pair[1]);
            for _ in 0..50 {
                let middle = 0.5 * (low + high);
                let secular: f64 = sorted.iter().map(|share| share * share / (share - middle)).sum();
                // Equal shares are an eigenvalue themselves, and the sum is not a number there.
                if secular > 1.0 { high = middle } else { low = middle }
            }
            0.5 * (low + high)
        };
        sorted.windows(2).map(between).collect()
    }
}

/// The slopes at which the calibration is evaluated.
const SLOPES: [f64; 6] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0];
/// The largest distance of a row's outputs from the centres in the calibration; longer ones are shortened to it.
const SPAN: f64 = 4.0;

/// How many numbers the calibration of several classes releases.
pub(super) const fn calibration_width(classes: u32) -> u32 {
    SLOPES.len() as u32 * (1 + classes)
}

/// Corrects a common slope of the outputs and an intercept for each class by one release with this noise multiplier.
///
/// # Errors
/// When the charge does not cover it.
pub fn calibrate_classes<N: NoiseSource>(
    session: &mut Session<Encoded, N>, lane: Lane, sigma: Sigma, known: &ClassShares, network: Network,
) -> Result<Network, SessionError> {
    let centres = known.centres();
    let classes = centres.len();
    let predictor = network.row_predictor();
    let write = |row: UnitExamples<'_>, sums: &mut [f64]| {
        let (mut outputs, mut given) = (vec![0.0; classes], vec![0.0; classes]);
        predictor.outputs(&row, &mut outputs);
        let mut offsets: Vec<f64> =
            outputs.iter().zip(&centres).map(|(output, centre)| f64::from(*output) - centre).collect();
        centre(&mut offsets);
        for (slope, sums) in SLOPES.iter().zip(sums.chunks_exact_mut(1 + classes)) {
            let scaled = offsets.iter().zip(&centres).map(|(offset, centre)| (slope * offset + centre) as f32);
            given.iter_mut().zip(scaled).for_each(|(given, value)| *given = value);
            softmax(&mut given);
            for (class, (given, offset)) in given.iter().zip(&offsets).enumerate() {
                let error = f64::from(*given) - f64::from(u8::from(class == row.label as usize));
                sums[0] += error * offset / SPAN;
                sums[1 + class] = error;
            }
        }
    };
    // Errors have a norm of at most the root of two, and so have their products with offsets over the span.
    let clip = 2.0 * (SLOPES.len() as f64).sqrt();
    let sums = session.vector_sum(lane, calibration_width(classes as u32), clip, sigma, write)?;
    let noise = sigma.units() as f64 / 1e9 * clip;
    let (slope, intercepts) = correction(&sums, noise, known);
    Ok(network.corrected(slope, &intercepts))
}

/// Moves the mean of a row's offsets to zero, which changes no probability, and shortens them to the span.
fn centre(offsets: &mut [f64]) {
    let mean = offsets.iter().sum::<f64>() / offsets.len() as f64;
    offsets.iter_mut().for_each(|offset| *offset -= mean);
    let norm = offsets.iter().map(|offset| offset * offset).sum::<f64>().sqrt();
    if norm > SPAN {
        offsets.iter_mut().for_each(|offset| *offset *= SPAN / norm);
    }
}

/// The slope and the intercepts of the outputs, from the released sums.
fn correction(sums: &[f64], noise: f64, known: &ClassShares) -> (f64, Vec<f64>) {
    let each = 1 + known.shares.len();
    let at = |slope: usize, index: usize| sums[slope * each + index];
    let last = SLOPES.len() - 1;
    // The derivative of the loss grows with the slope, and is zero at the best one.
    let next = (0..=last).find(|&slope| at(slope, 0) >= 0.0).unwrap_or(last).max(1);
    let (low, high) = (at(next - 1, 0), at(next, 0));
    let best = if high > low { SLOPES[next - 1] - low / (high - low) * (SLOPES[next] - SLOPES[next - 1]) } else { 1.0 };
    let best = best.clamp(SLOPES[next - 1], SLOPES[next]);
    let growth = ((at(last, 0) - at(0, 0)) / (SLOPES[last] - SLOPES[0])).max(noise);
    let trust = |deviation: f64| PRIOR * PRIOR / (PRIOR * PRIOR + deviation * deviation);
    let slope = 1.0 + trust(noise / growth) * (best - 1.0);
    let next = (1..last).find(|&next| SLOPES[next] >= slope).unwrap_or(last);
    let share = (slope - SLOPES[next - 1]) / (SLOPES[next] - SLOPES[next - 1]);
    let intercept = |(class, (&given, centre)): (usize, (&f64, f64))| {
        let excess = (1.0 - share) * at(next - 1, 1 + class) + share * at(next, 1 + class);
        // The curvature is at most that of a constant, so a step by it never increases the loss.
        let rows = known.rows * given;
        let step = (-excess / rows).clamp(-2.0, 2.0);
        centre - slope * centre + trust(noise / rows) * step
    };
    (slope, known.shares.iter().zip(known.centres()).enumerate().map(intercept).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_survive_any_noise() {
        let exact = ClassShares::from_counts(&[50.0, 30.0, 20.0], 0.0);
        assert!(exact.shares.iter().zip([0.5, 0.3, 0.2]).all(|(found, share)| (found - share).abs() < 1e-9));
        assert!((exact.rows - 100.0).abs() < 1e-9);
        for counts in [vec![-500.0, 20.0, 3.0], vec![0.0; 64], vec![1e9, -1e9], vec![1e-3, 1e6, 0.0]] {
            for noise in [0.0, 1.0, 100.0, 1e6] {
                let found = ClassShares::from_counts(&counts, noise);
                let sum: f64 = found.shares.iter().sum();
                assert!(found.rows >= 1.0 && (sum - 1.0).abs() < 1e-9, "{found:?}");
                assert!(found.shares.iter().all(|&share| share > 1e-3), "{found:?}");
                assert!(found.curvatures().iter().all(|&one| one > 0.0 && one <= 0.5), "{found:?}");
            }
        }
    }

    /// Two classes have twice the curvature of the logistic loss, because both outputs move; equal shares are
    /// eigenvalues themselves; all eigenvalues add up to the trace.
    #[test]
    fn curvatures_are_eigenvalues() {
        let of = |shares: &[f64]| ClassShares { rows: 1.0, shares: shares.to_vec() }.curvatures();
        let two = of(&[0.2, 0.8]);
        assert!((two[0] - 2.0 * 0.16).abs() < 1e-9, "{two:?}");
        assert!(of(&[0.25; 4]).iter().all(|one| (one - 0.25).abs() < 1e-9));
        let shares = [0.55, 0.25, 0.15, 0.05];
        let trace = 1.0 - shares.iter().map(|share| share * share).sum::<f64>();
        assert!((of(&shares).iter().sum::<f64>() - trace).abs() < 1e-9);
    }

    /// The sums that outputs along one line have, for labels that follow from the outputs by a slope and intercepts.
    fn sums(known: &ClassShares, slope: f64, shifts: &[f64]) -> Vec<f64> {
        let (centres, classes) = (known.centres(), known.shares.len());
        let chances = |offsets: &[f64], slope: f64, shifts: &[f64]| {
            let output = |class: usize| slope * offsets[class] + centres[class] + shifts[class];
            let powers: Vec<f64> = (0..classes).map(|class| output(class).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(|power| power / sum).collect::<Vec<f64>>()
        };
        let mut sums = vec![0.0; SLOPES.len() * (1 + classes)];
        for row in 0..1000_u32 {
            let mut offsets: Vec<f64> =
                (0..classes as u32).map(|class| f64::from((row * (7 + class) + 3 * class) % 41) / 20.0 - 1.0).collect();
            centre(&mut offsets);
            let truth = chances(&offsets, slope, shifts);
            for (slope, sums) in SLOPES.iter().zip(sums.chunks_exact_mut(1 + classes)) {
                let given = chances(&offsets, *slope, &vec![0.0; classes]);
                for class in 0..classes {
                    let error = (given[class] - truth[class]) * known.rows / 1000.0;
                    sums[0] += error * offsets[class] / SPAN;
                    sums[1 + class] += error;
                }
            }
        }
        sums
    }

    #[test]
    fn a_precise_sum_recovers_the_correction_and_a_noisy_one_changes_little() {
        let known = ClassShares { rows: 1e6, shares: vec![0.5, 0.3, 0.2] };
        for truth in [0.3, 0.8, 1.0, 1.7, 2.5] {
            let (slope, intercepts) = correction(&sums(&known, truth, &[0.0; 3]), 1.0, &known);
            // Between two slopes the derivative is taken as a line, which it nearly is.
            assert!((slope - truth).abs() < 0.05_f64.max(0.04 * truth), "{truth}: {slope}");
            let centred = intercepts.iter().zip(known.centres()).map(|(found, centre)| found - (1.0 - slope) * centre);
            assert!(centred.into_iter().all(|found| found.abs() < 0.03), "{truth}: {intercepts:?}");
        }
        let (_, intercepts) = correction(&sums(&known, 1.0, &[0.3, 0.0, -0.3]), 1.0, &known);
        assert!(intercepts[0] - intercepts[2] > 0.3 && intercepts[0] - intercepts[2] < 0.65, "{intercepts:?}");
        let mut noisy = sums(&known, 1.0, &[0.0; 3]);
        noisy.iter_mut().step_by(4).for_each(|sum| *sum = -*sum);
        let (slope, intercepts) = correction(&noisy, 1e8, &known);
        assert!((slope - 1.0).abs() < 0.5 && intercepts.iter().all(|one| one.abs() < 0.5), "{slope} {intercepts:?}");
    }
}
