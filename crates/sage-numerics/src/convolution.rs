//! The distribution of a sum of independent variables on a lattice, by an exponentially tilted FFT.
//!
//! Every stored mass plus `error` is an upper bound on the exact tilted mass: wrapped mass only adds, and the rounding
//! error of the transforms is bounded a posteriori from the computed spectrum. The mass above the window is charged by
//! a Chernoff bound (the kernel's `proofs/pld.md`, sections 3 to 5).

use libm::{exp, log, sqrt};
use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

/// Plans FFTs and caches the plans.
pub type FftPlanner = RealFftPlanner<f64>;

/// A distribution with masses at `(first + position) * step`, and a mass at infinity.
pub trait LatticeDistribution {
    /// The distance between lattice points.
    fn step(&self) -> f64;
    /// The lattice index of the first mass.
    fn first(&self) -> i64;
    /// The masses, all non-negative.
    fn masses(&self) -> &[f64];
    /// The mass at infinity.
    fn infinity(&self) -> f64;
}

/// The tilt and the window of one convolution.
pub struct TiltedWindow {
    /// The exponential tilt applied before the transform.
    pub tilt: f64,
    /// The tilt of the Chernoff bound on the mass above the window.
    pub tilt_above: f64,
    /// The lowest value of the window.
    pub low: f64,
}

/// The distribution of a sum. Some fields are public for tests.
pub struct Convolution {
    step: f64,
    /// Lattice index of the first stored mass.
    pub first: i64,
    /// The tilted masses.
    pub tilted: Vec<f64>,
    /// Upper bound on the rounding error of each tilted mass.
    pub error: f64,
    tilt: f64,
    /// Log of the factor removed by normalising each tilted distribution.
    pub log_scale: f64,
    /// Mass at infinity plus the bound on the mass above the window.
    outside: f64,
}

/// Up to this exponent the relative error of an exponential is below 1e-12, by which masses are raised.
const LARGEST_EXPONENT: f64 = 1500.0;
/// Masses that underflow are negligible compared with a sum above this.
const LEAST_SUM: f64 = 1e-250;
/// Powers below `e^LOG_NEGLIGIBLE` count as zero, with an error of `NEGLIGIBLE`.
const LOG_NEGLIGIBLE: f64 = -700.0;
const NEGLIGIBLE: f64 = 1e-300;

/// Error bound of a transform, relative to the one-norm of its input: each of the `log2(length)` levels multiplies and
/// adds once.
fn transform_error(length: usize) -> f64 {
    8.0 * f64::EPSILON * (f64::from(length.ilog2()) + 2.0)
}

/// Adds the tilted masses to `signal`, folded to its length, which is a power of two. They are scaled by the factor at
/// the end that the tilt favours, so that none overflows. Returns their sum and the log of that factor. The sum is NaN
/// where exponents are too large to be accurate, or where too much underflows for the sum to be a bound.
fn add_tilted(signal: &mut [f64], lattice: &impl LatticeDistribution, tilt: f64) -> (f64, f64) {
    let last = lattice.first() + lattice.masses().len() as i64 - 1;
    let reference = tilt * lattice.step() * (if tilt > 0.0 { last } else { lattice.first() }) as f64;
    let factors = exponentials(lattice.first(), 1, tilt * lattice.step(), -reference);
    let (mask, mut sum) = (signal.len() - 1, 0.0);
    for (position, (&mass, factor)) in lattice.masses().iter().zip(factors).enumerate() {
        signal[position & mask] += mass * factor;
        sum += mass * factor;
    }
    let usable = sum > LEAST_SUM && reference.abs() < LARGEST_EXPONENT;
    (if usable { sum } else { f64::NAN }, reference)
}

/// An upper bound on `sum of count * ln E[e^{tilt * loss}]` over the lattices.
fn log_moment<L: LatticeDistribution>(parts: &[(L, u64)], tilt: f64) -> f64 {
    let one = |(lattice, count): &(L, u64)| {
        let (sum, reference) = add_tilted(&mut [0.0], lattice, tilt);
        *count as f64 * (log(sum * (1.0 + 1e-12)) + reference + 1e-15 * reference.abs())
    };
    parts.iter().map(one).sum()
}

impl Convolution {
    /// Convolves each distribution with itself `count` times and all of them with each other, in a window whose `length`
    /// is a power of two. Returns `None` if no bound can be given.
    pub fn new(
        parts: &[(impl LatticeDistribution, u64)], length: usize, window: &TiltedWindow, planner: &mut FftPlanner,
    ) -> Option<Self> {
        let forward = planner.plan_fft_forward(length);
        let inverse = planner.plan_fft_inverse(length);
        let mut signal = forward.make_input_vec();
        let mut part_spectrum = forward.make_output_vec();
        let mut spectrum = vec![Complex::new(1.0, 0.0); part_spectrum.len()];
        let mut errors = vec![0.0; part_spectrum.len()];
        let step = parts.first()?.0.step();
        let tilt = window.tilt;
        let (mut log_scale, mut offset, mut infinity) = (0.0_f64, 0_i128, 0.0);
        for (lattice, count) in parts {
            signal.fill(0.0);
            let (norm, reference) = add_tilted(&mut signal, lattice, tilt);
            // Each mass is raised by more than the rounding error of its exponential.
            let raise = (1.0 + 1e-12) / norm;
            signal.iter_mut().for_each(|mass| *mass *= raise);
            forward.process(&mut signal, &mut part_spectrum).ok()?;
            multiply_power(&mut spectrum, &mut errors, &part_spectrum, *count, transform_error(length));
            let (weight, log_norm) = (*count as f64, log(norm));
            let size = 4.0 + 2.0 * log_norm.abs() + reference.abs();
            log_scale += weight * (log_norm + reference + 2.0 * f64::EPSILON * size);
            offset += i128::from(lattice.first()) * i128::from(*count);
            infinity += weight * lattice.infinity();
        }
        let error = mass_error(&spectrum, &errors, length);
        for real in [0, length / 2] {
            spectrum[real].im = 0.0;
        }
        inverse.process(&mut spectrum, &mut signal).ok()?;
        let first = (window.low / step).floor().min(0.0) as i64;
        let above = (first + length as i64) as f64 * step;
        let log_above = log_moment(parts, window.tilt_above) - window.tilt_above * above;
        // The last term covers everything that underflowed.
        let outside = (infinity + exp(log_above)) * (1.0 + 1e-9) + 1e-295;
        // Two of the caller's choices could make the result wrong instead of loose: the Chernoff bound needs a positive
        // tilt, and folding needs a length that is a power of two.
        let usable = window.tilt_above > 0.0 && length.is_power_of_two() && log_scale.abs() < LARGEST_EXPONENT;
        if !(usable && error.is_finite() && outside.is_finite()) {
            return None;
        }
        signal.rotate_left((i128::from(first) - offset).rem_euclid(length as i128) as usize);
        signal.iter_mut().for_each(|mass| *mass /= length as f64);
        Some(Self { step, first, tilted: signal, error, tilt, log_scale, outside })
    }

    /// The smallest epsilon for which the bound on the sum of `mass * (1 - e^(epsilon - loss))` over losses above epsilon
    /// is at most `delta`, and the slope with which the log of that bound falls there.
    pub fn epsilon(&self, delta: f64) -> Option<(f64, f64)> {
        // Every rounding error below is compensated in the safe direction: `budget` down, `mass` up, `other` down.
        let budget = (delta - self.outside) * (1.0 - 1e-15);
        if budget <= 0.0 {
            return None;
        }
        let last = self.first + self.tilted.len() as i64 - 1;
        let untilt = exponentials(last, -1, -self.tilt * self.step, self.log_scale);
        let (mut mass, mut other, mut epsilon) = (0.0, 0.0, f64::INFINITY);
        let below = exp(-self.step) * (1.0 - 1e-15);
        // From the top down: the mass of the losses so far under P, and under Q times `e^loss`, because without that
        // factor it overflows or vanishes where losses are large.
        for (index, (&tilted, factor)) in (1..=last).rev().zip(self.tilted.iter().rev().zip(untilt)) {
            let here = (tilted.max(0.0) + self.error) * (1.0 + 1e-12) * factor;
            mass = (mass + here) * (1.0 + 2.0 * f64::EPSILON);
            other = other * below + here;
            let loss = index as f64 * self.step;
            epsilon = loss - self.step;
            if mass - below * other > budget {
                epsilon = (loss + log((mass - budget) / other) + 1e-15).clamp(epsilon, loss);
                break;
            }
        }
        // If the loop ran to its end, the last epsilon is within delta, unless the mass overflowed and every comparison
        // was false.
        epsilon *= 1.0 + 1e-13;
        if (mass + epsilon).is_finite() { Some((epsilon, other / delta)) } else { None }
    }
}

/// Multiplies a spectrum by `part` to the power `count`, entry by entry, and updates the error bound of each entry.
fn multiply_power(
    spectrum: &mut [Complex<f64>], errors: &mut [f64], part: &[Complex<f64>], count: u64, entry_error: f64,
) {
    let relative = 2.0 * f64::EPSILON * (count as f64 + 2.0);
    let negligible = exp(LOG_NEGLIGIBLE / count as f64);
    for ((value, error), &entry) in spectrum.iter_mut().zip(errors).zip(part) {
        let first_magnitude = magnitude(entry) + entry_error;
        if first_magnitude < negligible {
            (*value, *error) = (Complex::new(0.0, 0.0), NEGLIGIBLE);
            continue;
        }
        let (mut base, mut size) = (entry, first_magnitude);
        let (mut power, mut power_size) = (Complex::new(1.0, 0.0), 1.0);
        let mut left = count;
        while left > 0 {
            if left & 1 == 1 {
                power *= base;
                power_size *= size;
            }
            base *= base;
            size *= size;
            left >>= 1;
        }
        let own = count as f64 * entry_error * (power_size / first_magnitude) + relative * power_size;
        *error = *error * power_size + magnitude(*value) * own + NEGLIGIBLE;
        *value *= power;
    }
}

fn magnitude(value: Complex<f64>) -> f64 {
    sqrt(value.re * value.re + value.im * value.im)
}

/// The error bound of each mass after the inverse transform.
fn mass_error(spectrum: &[Complex<f64>], errors: &[f64], length: usize) -> f64 {
    let size: f64 = spectrum.iter().map(|&value| magnitude(value)).sum();
    (errors.iter().sum::<f64>() + transform_error(length) * size) * 2.1 / length as f64
}

/// `e^{offset + rate * index}` from index `first` in steps of `stride`, each with a relative error of at most 1e-13 times
/// its exponent. Values are running products, restarted every 32 steps, or at every step if they grow fast.
pub fn exponentials(first: i64, stride: i64, rate: f64, offset: f64) -> impl Iterator<Item = f64> {
    let ratio = exp(rate * stride as f64);
    let period = if rate.abs() < 0.02 { 32 } else { 1 };
    let mut current = 0.0;
    (0_i64..).map(move |passed| {
        if passed % period == 0 {
            current = exp(offset + rate * (first + stride * passed) as f64);
        } else {
            current *= ratio;
        }
        current
    })
}

#[cfg(test)]
mod tests;
