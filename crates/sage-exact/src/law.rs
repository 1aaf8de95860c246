//! The law of a sum of independent variables on a lattice, by a tilted Fourier transform.
//!
//! Every stored mass bounds the exact tilted mass from above once `error` is
//! added: wrapped mass only adds, and the rounding of the transforms is
//! bounded after the fact from the spectrum actually seen. What lies above the
//! window is charged by a Chernoff bound (the kernel's
//! `proofs/pld.md`, sections 3 to 5).

use libm::{exp, log, sqrt};
use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

/// Plans transforms, and keeps what it planned.
pub type Planner = RealFftPlanner<f64>;

/// A law of masses at `(first + position) * step`, and a mass at infinity.
pub trait Law {
    /// The lattice's step.
    fn step(&self) -> f64;
    /// The lattice index of the first mass.
    fn first(&self) -> i64;
    /// The masses, none negative.
    fn masses(&self) -> &[f64];
    /// The mass at infinity.
    fn infinity(&self) -> f64;
}

/// Where a law is looked at.
pub struct Side {
    /// The exponential tilt of the lattice law.
    pub tilt: f64,
    /// The tilt whose Chernoff bound closes the window above.
    pub tilt_above: f64,
    /// The lowest value of the window.
    pub low: f64,
}

/// The law of a sum. Its fields are shown for tests.
pub struct Composed {
    step: f64,
    /// Lattice index of the first stored mass.
    pub first: i64,
    /// The masses, tilted.
    pub tilted: Vec<f64>,
    /// Bound on the rounding error of each tilted mass.
    pub error: f64,
    tilt: f64,
    /// Log of the factor removed by normalising each tilted law.
    pub log_scale: f64,
    /// Mass at infinity and above the window.
    outside: f64,
}

/// Exponents up to this keep their exponentials within the 1e-12 by which
/// masses are raised.
const LARGEST_EXPONENT: f64 = 1500.0;
/// Masses that underflow are nothing beside a sum above this.
const LEAST_SUM: f64 = 1e-250;
/// Powers below `e^` this are taken for zero, and their error for `UNSEEN`.
const LOG_UNSEEN: f64 = -700.0;
const UNSEEN: f64 = 1e-300;

/// Relative error of a transform of length `n`, times the one-norm of its
/// input: each of `log2 n` levels multiplies and adds once.
fn transform_error(length: usize) -> f64 {
    8.0 * f64::EPSILON * (f64::from(length.ilog2()) + 2.0)
}

/// Adds the masses under `tilt` to `signal`, folded to its length, a power of
/// two, and relative to the loss at the end the tilt favours, so that none
/// overflows: their sum, and the log of the factor taken out. The sum is no
/// number where exponents round too far, or so much underflows that what is
/// left of it is no bound.
fn add_tilted(signal: &mut [f64], lattice: &impl Law, tilt: f64) -> (f64, f64) {
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

/// `sum of count * ln E[e^{tilt * loss}]` over the lattices, from above.
fn log_moment<L: Law>(parts: &[(L, u64)], tilt: f64) -> f64 {
    let one = |(lattice, count): &(L, u64)| {
        let (sum, reference) = add_tilted(&mut [0.0], lattice, tilt);
        *count as f64 * (log(sum * (1.0 + 1e-12)) + reference + 1e-15 * reference.abs())
    };
    parts.iter().map(one).sum()
}

impl Composed {
    /// The law of the sum of so many of each, in a window of a length that is a power of two; nothing if no bound
    /// can be given.
    pub fn new(parts: &[(impl Law, u64)], length: usize, side: &Side, planner: &mut Planner) -> Option<Self> {
        let forward = planner.plan_fft_forward(length);
        let inverse = planner.plan_fft_inverse(length);
        let mut signal = forward.make_input_vec();
        let mut part_spectrum = forward.make_output_vec();
        let mut spectrum = vec![Complex::new(1.0, 0.0); part_spectrum.len()];
        let mut errors = vec![0.0; part_spectrum.len()];
        let step = parts.first()?.0.step();
        let tilt = side.tilt;
        let (mut log_scale, mut offset, mut infinity) = (0.0_f64, 0_i128, 0.0);
        for (lattice, count) in parts {
            signal.fill(0.0);
            let (norm, reference) = add_tilted(&mut signal, lattice, tilt);
            // Each mass is raised by more than its exponential rounds.
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
        let error = error_of_masses(&spectrum, &errors, length);
        for real in [0, length / 2] {
            spectrum[real].im = 0.0;
        }
        inverse.process(&mut spectrum, &mut signal).ok()?;
        let first = (side.low / step).floor().min(0.0) as i64;
        let above = (first + length as i64) as f64 * step;
        let log_above = log_moment(parts, side.tilt_above) - side.tilt_above * above;
        // The last addend covers what underflows on the way.
        let outside = (infinity + exp(log_above)) * (1.0 + 1e-9) + 1e-295;
        // Of a plan's guesses two could make an answer wrong, not only loose: Chernoff's bound needs a tilt
        // upwards, and folding a length that is a power of two.
        let usable = side.tilt_above > 0.0 && length.is_power_of_two() && log_scale.abs() < LARGEST_EXPONENT;
        if !(usable && error.is_finite() && outside.is_finite()) {
            return None;
        }
        signal.rotate_left((i128::from(first) - offset).rem_euclid(length as i128) as usize);
        signal.iter_mut().for_each(|mass| *mass /= length as f64);
        Some(Self { step, first, tilted: signal, error, tilt, log_scale, outside })
    }

    /// The smallest value e for which the bound on the sum of `mass (1 - e^(e - value))` above it is within
    /// `delta`, and how fast the log of that falls there.
    pub fn epsilon(&self, delta: f64) -> Option<(f64, f64)> {
        // Every rounding below is moved past: `room` down, `mass` up, `other` down.
        let room = (delta - self.outside) * (1.0 - 1e-15);
        if room <= 0.0 {
            return None;
        }
        let last = self.first + self.tilted.len() as i64 - 1;
        let untilt = exponentials(last, -1, -self.tilt * self.step, self.log_scale);
        let (mut mass, mut other, mut epsilon) = (0.0, 0.0, f64::INFINITY);
        let below = exp(-self.step) * (1.0 - 1e-15);
        // From the top: mass of the losses seen under P, and under Q times
        // `e^loss`, since alone that overflows or vanishes where losses are large.
        for (index, (&tilted, factor)) in (1..=last).rev().zip(self.tilted.iter().rev().zip(untilt)) {
            let here = (tilted.max(0.0) + self.error) * (1.0 + 1e-12) * factor;
            mass = (mass + here) * (1.0 + 2.0 * f64::EPSILON);
            other = other * below + here;
            let loss = index as f64 * self.step;
            epsilon = loss - self.step;
            if mass - below * other > room {
                epsilon = (loss + log((mass - room) / other) + 1e-15).clamp(epsilon, loss);
                break;
            }
        }
        // Where the loop ends by itself, delta at the last epsilon is within,
        // unless the mass overflowed and compared as nothing.
        epsilon *= 1.0 + 1e-13;
        if (mass + epsilon).is_finite() { Some((epsilon, other / delta)) } else { None }
    }
}

/// Multiplies a spectrum by `part` to the power `count`, entry by entry, and
/// carries the bounds on the error of each entry along.
fn multiply_power(
    spectrum: &mut [Complex<f64>], errors: &mut [f64], part: &[Complex<f64>], count: u64, entry_error: f64,
) {
    let relative = 2.0 * f64::EPSILON * (count as f64 + 2.0);
    let unseen = exp(LOG_UNSEEN / count as f64);
    for ((value, error), &entry) in spectrum.iter_mut().zip(errors).zip(part) {
        let first_size = size_of(entry) + entry_error;
        if first_size < unseen {
            (*value, *error) = (Complex::new(0.0, 0.0), UNSEEN);
            continue;
        }
        let (mut base, mut size) = (entry, first_size);
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
        let own = count as f64 * entry_error * (power_size / first_size) + relative * power_size;
        *error = *error * power_size + size_of(*value) * own + UNSEEN;
        *value *= power;
    }
}

fn size_of(value: Complex<f64>) -> f64 {
    sqrt(value.re * value.re + value.im * value.im)
}

/// The bound on each mass after the inverse transform.
fn error_of_masses(spectrum: &[Complex<f64>], errors: &[f64], length: usize) -> f64 {
    let size: f64 = spectrum.iter().map(|&value| size_of(value)).sum();
    (errors.iter().sum::<f64>() + transform_error(length) * size) * 2.1 / length as f64
}

/// `e^{offset + rate * index}` from index `first` in steps of `stride`, each
/// exact to 1e-13 times the size of its exponent: products, started afresh
/// every 32, or each time if they grow fast.
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
