//! The law of the total loss, by a tilted Fourier transform.
//!
//! Every stored mass bounds the exact tilted mass from above once `error` is
//! added: wrapped mass only adds, and the rounding of the transforms is
//! bounded after the fact from the spectrum actually seen. What lies above the
//! window is charged by a Chernoff bound (`proofs/pld.md`, sections 4 to 6).

use libm::{exp, expm1, log, log1p, sqrt};
use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

use super::super::parameter::{AccountantError, Certified};
use super::discretise::{Lattice, exponentials};
use super::plan::{Plan, Side};

/// The composed law in one direction.
pub(super) struct Composed {
    step: f64,
    /// Lattice index of the first stored mass.
    first: i64,
    tilted: Vec<f64>,
    /// Bound on the rounding error of each tilted mass.
    error: f64,
    tilt: f64,
    /// Log of the factor removed by normalising each tilted law.
    log_scale: f64,
    /// Mass at infinity and above the window.
    outside: f64,
    /// Mass at infinity that the mechanisms themselves put there.
    certain: f64,
    /// How much all the rounding up of atoms can have added, relatively.
    slack: f64,
    uses: f64,
}

/// Exponents up to this keep their exponentials within the 1e-12 by which
/// masses are raised.
const LARGEST_EXPONENT: f64 = 2000.0;

/// Relative error of a transform of length `n`, times the one-norm of its
/// input: each of `log2 n` levels multiplies and adds once.
fn transform_error(length: usize) -> f64 {
    8.0 * f64::EPSILON * (f64::from(length.ilog2()) + 2.0)
}

/// `sum of count * ln E[e^{tilt * loss}]` over the lattices, from above.
fn log_moment(parts: &[(Lattice, u64)], step: f64, tilt: f64) -> f64 {
    let mut total = 0.0;
    for (lattice, count) in parts {
        let reference = tilt * reference(lattice, step, tilt);
        let sum: f64 = tilted(lattice, step, tilt).sum();
        total += *count as f64 * (log(sum * (1.0 + 1e-12)) + reference + 1e-15 * reference.abs());
    }
    if total.is_nan() { f64::INFINITY } else { total }
}

/// The loss at the end the tilt favours; tilted masses are taken relative to
/// it, so that none overflows.
fn reference(lattice: &Lattice, step: f64, tilt: f64) -> f64 {
    let last = lattice.first + lattice.masses.len() as i64 - 1;
    (if tilt > 0.0 { last } else { lattice.first }) as f64 * step
}

fn tilted(lattice: &Lattice, step: f64, tilt: f64) -> impl Iterator<Item = f64> {
    let offset = -tilt * reference(lattice, step, tilt);
    let factors = exponentials(lattice.first, 1, tilt * step, offset);
    lattice.masses.iter().zip(factors).map(|(&mass, factor)| mass * factor)
}

/// Fills `signal` with the tilted law, folded to its length (a power of two)
/// and normalised; each mass is raised by more than its exponential rounds.
fn fill_tilted(signal: &mut [f64], lattice: &Lattice, step: f64, tilt: f64) -> Certified<f64> {
    signal.fill(0.0);
    let mask = signal.len() - 1;
    for (position, mass) in tilted(lattice, step, tilt).enumerate() {
        signal[position & mask] += mass;
    }
    let norm: f64 = signal.iter().sum();
    if !norm.is_normal() {
        return Err(AccountantError::Unbounded);
    }
    let raise = (1.0 + 1e-12) / norm;
    signal.iter_mut().for_each(|mass| *mass *= raise);
    Ok(norm)
}

/// A spectrum with a bound on the error of each entry.
struct Spectrum {
    values: Vec<Complex<f64>>,
    errors: Vec<f64>,
}

impl Composed {
    pub(super) fn new(
        parts: &[(Lattice, u64)],
        plan: &Plan,
        side: &Side,
        planner: &mut RealFftPlanner<f64>,
    ) -> Certified<Self> {
        let (step, length) = (plan.step, plan.length);
        let forward = planner.plan_fft_forward(length);
        let inverse = planner.plan_fft_inverse(length);
        let mut scratch = vec![Complex::default(); forward.get_scratch_len().max(inverse.get_scratch_len())];
        let mut signal = vec![0.0; length];
        let mut part_spectrum = forward.make_output_vec();
        let mut spectrum = Spectrum {
            values: vec![Complex::new(1.0, 0.0); length / 2 + 1],
            errors: vec![0.0; length / 2 + 1],
        };
        let unknown = |_| AccountantError::Unbounded;
        let (mut log_scale, mut offset, mut infinity, mut largest_exponent) = (0.0, 0_i128, 0.0, 0.0_f64);
        let (mut slack, mut uses, mut log_none) = (0.0, 0.0, 0.0);
        for (lattice, count) in parts {
            let weight = *count as f64;
            let norm = fill_tilted(&mut signal, lattice, step, side.tilt)?;
            forward.process_with_scratch(&mut signal, &mut part_spectrum, &mut scratch).map_err(unknown)?;
            multiply_power(&mut spectrum, &part_spectrum, *count, transform_error(length));
            let log_norm = log(norm) + side.tilt * reference(lattice, step, side.tilt);
            largest_exponent = largest_exponent.max(side.tilt * step * lattice.masses.len() as f64);
            let size = 4.0 + log(norm).abs() + log_norm.abs();
            log_scale += weight * (log_norm + 2.0 * f64::EPSILON * size);
            offset += i128::from(lattice.first) * i128::from(*count);
            infinity += weight * lattice.infinity;
            log_none += weight * log1p(-lattice.infinity.min(lattice.minus_infinity).min(0.5));
            slack += weight * (lattice.raised * exp(side.tilt.abs() * step) + 4e-12);
            uses += weight;
        }
        let error = finish(&mut spectrum, length);
        inverse.process_with_scratch(&mut spectrum.values, &mut signal, &mut scratch).map_err(unknown)?;
        let first = (side.low / step).floor() as i64;
        let above = (first + length as i64) as f64 * step;
        let log_above = log_moment(parts, step, side.tilt_above) - side.tilt_above * above;
        // The last addend covers what underflows on the way.
        let outside = infinity * (1.0 + 1e-9) + exp(log_above) * (1.0 + 1e-9) + 1e-295;
        let widest = side.tilt * step * (first.abs() + length as i64) as f64 + f64::abs(log_scale);
        let bounded = largest_exponent.max(widest) < LARGEST_EXPONENT;
        if !(error.is_finite() && outside.is_finite() && bounded) {
            return Err(AccountantError::Unbounded);
        }
        let shift = (i128::from(first) - offset).rem_euclid(length as i128) as usize;
        signal.rotate_left(shift);
        let inverse_length = 1.0 / length as f64;
        signal.iter_mut().for_each(|mass| *mass *= inverse_length);
        Ok(Self {
            step,
            first,
            tilted: signal,
            error,
            tilt: side.tilt,
            log_scale,
            outside,
            certain: -expm1(log_none) * (1.0 - 1e-9),
            slack: expm1(slack),
            uses,
        })
    }

    /// Walks the masses from the top, untilted, as `(loss, mass, e^{-loss})`;
    /// `adjust` maps a stored mass to the bound wanted.
    fn descend(&self, adjust: impl Fn(f64) -> f64, mut visit: impl FnMut(f64, f64, f64) -> bool) {
        let last = self.first + self.tilted.len() as i64 - 1;
        let factors = exponentials(last, -1, -self.tilt * self.step, self.log_scale);
        let others = exponentials(last, -1, -self.step, 0.0);
        let indices = (self.first..=last).rev();
        for (((index, &stored), factor), other) in
            indices.zip(self.tilted.iter().rev()).zip(factors).zip(others)
        {
            let loss = index as f64 * self.step;
            let mass = adjust(stored) * factor;
            if !visit(loss, mass, other) {
                break;
            }
        }
    }

    /// The smallest epsilon at which the bound on delta is within `delta`, and
    /// how fast the log of delta falls there.
    pub(super) fn epsilon(&self, delta: f64) -> Certified<(f64, f64)> {
        let room = delta - self.outside;
        if room <= 0.0 {
            return Err(AccountantError::Unbounded);
        }
        let (mut mass, mut other) = (0.0, 0.0);
        let below = exp(-self.step);
        let mut found = None;
        let mut lowest = f64::INFINITY;
        self.descend(
            |tilted| (tilted.max(0.0) + self.error) * (1.0 + 1e-12),
            |loss, here, other_factor| {
                mass += here;
                other += here * other_factor;
                lowest = loss - self.step;
                if mass - (below / other_factor).max(1.0) * other > room {
                    found = Some(log((mass - room) / other).clamp(lowest.max(0.0), loss));
                }
                found.is_none() && lowest > 0.0
            },
        );
        // Delta at the bottom of the window is within bounds: so is epsilon.
        let epsilon = found.unwrap_or(lowest.max(0.0)) * (1.0 + 1e-13);
        if epsilon.is_nan() {
            return Err(AccountantError::Unbounded);
        }
        Ok((epsilon, exp(epsilon) * other / delta))
    }

    /// An upper bound of delta at `epsilon`.
    pub(super) fn delta(&self, epsilon: f64) -> f64 {
        if epsilon < (self.first - 1) as f64 * self.step {
            return 1.0;
        }
        let mut sum = self.outside;
        self.descend(
            |tilted| (tilted.max(0.0) + self.error) * (1.0 + 1e-12),
            |loss, mass, _| {
                if loss > epsilon {
                    sum -= mass * expm1(epsilon - loss);
                }
                loss > epsilon
            },
        );
        if sum.is_nan() { 1.0 } else { sum }
    }

    /// A lower bound of the exact epsilon at `delta`.
    ///
    /// The lattice loss exceeds the true one by more than `drift` with a
    /// chance of at most a two-thousandth of delta; the tails cut off are
    /// rarer still. Mass from outside the window, wrapped into it, is bounded
    /// as tilted mass by Chernoff and taken away again.
    pub(super) fn epsilon_below(&self, delta: f64, parts: &[(Lattice, u64)], side: &Side) -> f64 {
        let bottom = self.first as f64 * self.step;
        let top = bottom + self.tilted.len() as f64 * self.step;
        let beyond = |tilt: f64, edge: f64| {
            let log_moment = log_moment(parts, self.step, tilt);
            exp(log_moment - self.log_scale + (self.tilt - tilt) * edge)
        };
        let below = [side.tilt_below, 0.5 * (side.tilt_below + side.tilt), 0.0];
        let below = below.map(|tilt| if tilt < side.tilt { beyond(tilt, bottom) } else { 1.0 });
        let above = if side.tilt_above > side.tilt { beyond(side.tilt_above, top) } else { 1.0 };
        let wrapped = below.into_iter().fold(1.0, f64::min) + above;
        let added = wrapped + self.slack;
        let (mut mass, mut other) = (0.0, 0.0);
        let mut found = None;
        let wanted = delta * 1.003 - self.certain;
        self.descend(
            |tilted| (tilted - self.error).max(0.0) * (1.0 - 1e-12),
            |loss, here, other_factor| {
                mass += here;
                other += here * other_factor;
                let at = loss - self.step;
                let charged = exp(self.log_scale - self.tilt * at) * added;
                if mass - exp(at) * other - charged >= wanted {
                    found = Some(at);
                }
                found.is_none() && at > 0.0
            },
        );
        let drift = self.step * sqrt(0.5 * self.uses * log(2000.0 / delta))
            + 0.125 * self.uses * self.step * self.step;
        found.map_or(0.0, |at| (at - drift).max(0.0))
    }
}

/// How many entries are raised to a power together.
const BLOCK: usize = 64;

/// Multiplies a spectrum by `part` to the power `count`, entry by entry, and
/// carries the error bounds along.
fn multiply_power(spectrum: &mut Spectrum, part: &[Complex<f64>], count: u64, entry_error: f64) {
    let relative = 2.0 * f64::EPSILON * (count as f64 + 2.0);
    let blocks = spectrum.values.chunks_mut(BLOCK).zip(spectrum.errors.chunks_mut(BLOCK));
    for ((values, errors), part) in blocks.zip(part.chunks(BLOCK)) {
        let length = part.len();
        let mut base = [Complex::new(0.0, 0.0); BLOCK];
        let mut size = [0.0_f64; BLOCK];
        base[..length].copy_from_slice(part);
        let mut largest = 0.0_f64;
        for (size, value) in size.iter_mut().zip(part) {
            *size = sqrt(value.re * value.re + value.im * value.im) + entry_error;
            largest = largest.max(*size);
        }
        if log(largest) * (count as f64) < -740.0 {
            values.fill(Complex::new(0.0, 0.0));
            errors.fill(f64::MIN_POSITIVE);
            continue;
        }
        let first_size = size;
        let mut power = [Complex::new(1.0, 0.0); BLOCK];
        let mut power_size = [1.0_f64; BLOCK];
        let mut left = count;
        while left > 0 {
            if left & 1 == 1 {
                for index in 0..BLOCK {
                    power[index] *= base[index];
                    power_size[index] *= size[index];
                }
            }
            left >>= 1;
            if left > 0 {
                for index in 0..BLOCK {
                    base[index] = base[index] * base[index];
                    size[index] *= size[index];
                }
            }
        }
        for index in 0..length {
            let before = values[index];
            let magnitude = sqrt(before.re * before.re + before.im * before.im);
            let one_less = power_size[index] / first_size[index];
            let own = count as f64 * entry_error * one_less + relative * power_size[index];
            errors[index] = errors[index] * power_size[index] + magnitude * own + f64::MIN_POSITIVE;
            values[index] = before * power[index];
        }
    }
}

/// The bound on each mass after the inverse transform; also makes the two real
/// entries of the spectrum real.
fn finish(spectrum: &mut Spectrum, length: usize) -> f64 {
    let (mut error, mut size) = (0.0, 0.0);
    for (value, bound) in spectrum.values.iter().zip(&spectrum.errors) {
        error += bound;
        size += sqrt(value.re * value.re + value.im * value.im);
    }
    for index in [0, length / 2] {
        spectrum.values[index].im = 0.0;
    }
    (error + transform_error(length) * size) * 2.1 / length as f64
}

#[cfg(test)]
mod tests;
