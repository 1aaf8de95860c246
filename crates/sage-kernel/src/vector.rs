//! Vectors: fixed-point sums with Gaussian noise on a lattice. Proof: `proofs/vector.md`.
//!
//! Every vector release ends in [`Lattice::release`] or [`Lattice::release_sums`]. The sum is exact, in integer units of
//! a fine grid, and one row changes it by at most a known number of these units in L2 norm. An integer multiplication and
//! a shift map it to the coarser lattice of the noise, which can add one lattice unit to the change of each coordinate;
//! the noise covers the norm and this slack together. A sum must never be released except through the lattice.

use crate::block::Lane;
use crate::budget::Sigma;
use crate::cost::Mechanism;
use crate::noise::{NoiseSource, RoundedGaussian};
use crate::session::{Rows, Session, SessionError, each_row};
use sage_numerics::Rescaler;

/// The largest L2 norm of a row's vector, in units of the fine grid.
pub(crate) const LENGTH: u64 = 1 << 30;

/// Units of [`Sigma`] in 1.
const SIGMA_UNITS: u128 = 1_000_000_000;

/// The largest number of draws made at a time.
const CHUNK: usize = 4096;

/// The lattice on which exact sums get noise, for one sensitivity, noise multiplier and number of coordinates.
pub(crate) struct Lattice {
    multiplier: i128,
    shift: u32,
    /// The number of draws made at a time: at most the number of coordinates.
    chunk: usize,
}

impl Lattice {
    /// The lattice for sums that one row changes by at most `length` units in L2 norm.
    ///
    /// # Guarantee
    /// With m the multiplier and k the shift: length · m / 2^k + √coordinates ≤ 2^24 / σ.
    pub(crate) fn new(length: u128, sigma: Sigma, coordinates: u64) -> Result<Self, SessionError> {
        let coarse = SessionError::Parameter(
            "the noise multiplier times the root of the number of coordinates must stay below 2^23",
        );
        if sigma == Sigma::ZERO || length == 0 || length > 1 << 62 {
            return Err(coarse);
        }
        let deviation = u128::from(RoundedGaussian::STANDARD_DEVIATION);
        let reach = deviation * SIGMA_UNITS / u128::from(sigma.units());
        let slack = u128::from(coordinates.isqrt() + 1);
        let target = reach.checked_sub(slack).filter(|&target| target >= slack && target > 0).ok_or(coarse)?;
        // The largest m with at most 40 bits such that m / 2^k stays at or below target / length.
        let mut shift = 0;
        while shift < 100 && (target << (shift + 1)) / length < 1 << 40 && target.leading_zeros() > shift + 1 {
            shift += 1;
        }
        let multiplier = i128::try_from((target << shift) / length).map_err(|_| coarse)?;
        let chunk = coordinates.clamp(1, CHUNK as u64) as usize;
        if multiplier == 0 { Err(coarse) } else { Ok(Self { multiplier, shift, chunk }) }
    }

    /// Adds noise to exact sums and passes them to `out`, in units of the fine grid.
    ///
    /// # Guarantee
    /// If one row changes the sums by at most `length` units, the result is a post-processing of a Gaussian release with
    /// noise multiplier at least σ, up to the deviation of the noise that the cost of [`Mechanism::Gaussian`] includes.
    pub(crate) fn release(
        &self, sums: impl Iterator<Item = i128>, noise: &mut impl NoiseSource, mut out: impl FnMut(f64),
    ) -> Result<(), SessionError> {
        let sampler = RoundedGaussian::new();
        let unit = self.unit();
        let mut drawn = vec![0i32; self.chunk];
        let mut next = drawn.len();
        for sum in sums {
            if next == drawn.len() {
                sampler.fill(noise, &mut drawn)?;
                next = 0;
            }
            let moved = self.to_lattice(sum);
            out((moved + i128::from(drawn[next])) as f64 * unit);
            next += 1;
        }
        Ok(())
    }

    /// As [`Lattice::release`], for sums of 64 bits, multiplied by `unit`, in single precision.
    ///
    /// # Guarantee
    /// As [`Lattice::release`]. Sums that would exceed 2^62 on the lattice are clamped first.
    pub(crate) fn release_sums(
        &self, sums: &[i64], noise: &mut impl NoiseSource, unit: f64, out: &mut [f32],
    ) -> Result<(), SessionError> {
        let sampler = RoundedGaussian::new();
        let limit = i64::try_from((1i128 << 62 << self.shift.min(64)) / self.multiplier).unwrap_or(i64::MAX);
        let rescaler =
            Rescaler { limit, multiplier: self.multiplier as i64, shift: self.shift, unit: unit * self.unit() };
        let mut drawn = [0i32; CHUNK];
        for (sums, out) in sums.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
            let drawn = &mut drawn[..sums.len()];
            sampler.fill(noise, drawn)?;
            rescaler.apply(sums, drawn, out);
        }
        Ok(())
    }

    /// The size of a lattice unit, in units of the fine grid.
    fn unit(&self) -> f64 {
        libm::ldexp(1.0, self.shift as i32) / self.multiplier as f64
    }

    /// A sum in lattice units, rounded down.
    ///
    /// A sum that is too large to multiply (of at least 10⁹ rows) is clamped first, so that no data can stop the session;
    /// clamping does not increase the distance of two sums.
    fn to_lattice(&self, sum: i128) -> i128 {
        let limit = i128::MAX / 2 / self.multiplier;
        (sum.clamp(-limit, limit) * self.multiplier) >> self.shift
    }
}

/// Quantises a vector: clips it to the L2 norm `clip` and writes it in units of a grid on which `clip` is `length`.
///
/// # Guarantee
/// The squares of the result add up to at most `length`², checked in integers. A vector with an infinite or NaN entry
/// becomes zero.
pub(crate) fn quantise_vector(values: &[f64], clip: f64, length: u64, out: &mut [i64]) {
    let largest = values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    let finite = values.iter().all(|value| value.is_finite());
    if !finite || largest == 0.0 || values.len() != out.len() {
        out.fill(0);
        return;
    }
    // Scaled by its largest entry, so that no square overflows or vanishes.
    let norm = largest * libm::sqrt(values.iter().map(|value| (value / largest) * (value / largest)).sum());
    let root = libm::sqrt(values.len() as f64);
    // Rounding to nearest can lengthen the vector by half the square root of its size.
    let reach = (length as f64 - 0.5 * root - 1.0).max(0.0) * (1.0 - 1e-12);
    let scale = if norm > clip { reach / norm } else { reach / clip };
    for (out, value) in out.iter_mut().zip(values) {
        *out = libm::round(value * scale) as i64;
    }
    if !within(out, length) {
        out.fill(0);
    }
}

/// Whether the squares add up to at most `length`².
pub(crate) fn within(values: &[i64], length: u64) -> bool {
    let square = |value: &i64| u128::from(value.unsigned_abs()) * u128::from(value.unsigned_abs());
    let squares = values.iter().fold(0u128, |sum, value| sum.saturating_add(square(value)));
    squares <= u128::from(length) * u128::from(length)
}

/// The size of one grid unit in the caller's scale, for vectors quantised with this clip and length.
pub(crate) fn grid_unit(clip: f64, length: u64, width: usize) -> f64 {
    clip / ((length as f64 - 0.5 * libm::sqrt(width as f64) - 1.0) * (1.0 - 1e-12))
}

impl<R: Rows, N: NoiseSource> Session<R, N> {
    /// The noisy sum of a vector over the rows, where each row's vector is clipped to the L2 norm `clip`.
    ///
    /// # Guarantee
    /// One [`Mechanism::Gaussian`] with `width` coordinates, whatever `value` writes: `proofs/vector.md`.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn vector_sum(
        &mut self, lane: Lane, width: u32, clip: f64, sigma: Sigma, value: impl Fn(R::Row<'_>, &mut [f64]),
    ) -> Result<Vec<f64>, SessionError> {
        check_clip(clip)?;
        if width == 0 || width > 1 << 26 {
            return Err(SessionError::Parameter("a vector has from 1 to 2^26 coordinates"));
        }
        let size = width as usize;
        let lattice = Lattice::new(u128::from(LENGTH), sigma, u64::from(width))?;
        self.plan(lane)?.take_gaussian(&Mechanism::Gaussian { sigma, coordinates: width, count: 1 })?;
        let mut sums = vec![0i128; size];
        let (mut values, mut units) = (vec![0.0; size], vec![0i64; size]);
        each_row(self.granted_rows(lane)?, |row| {
            values.fill(0.0);
            value(row, &mut values);
            quantise_vector(&values, clip, LENGTH, &mut units);
            sums.iter_mut().zip(&units).for_each(|(sum, &unit)| *sum += i128::from(unit));
        });
        let unit = grid_unit(clip, LENGTH, size);
        let mut noisy = Vec::with_capacity(size);
        lattice.release(sums.into_iter(), &mut self.noise, |sum| noisy.push(sum * unit))?;
        Ok(noisy)
    }
}

/// Checks that a clipping bound is finite and positive.
pub(crate) fn check_clip(clip: f64) -> Result<(), SessionError> {
    let bounds = clip.is_finite() && clip >= f64::MIN_POSITIVE;
    if bounds { Ok(()) } else { Err(SessionError::Parameter("a clipping bound must be a finite number above zero")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dashu::integer::IBig;

    /// Pseudorandom words from a seed.
    fn words(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        }
    }

    /// length · m / 2^k + √coordinates ≤ 2^24 / σ in exact integers, with little slack: the noise covers the change by a
    /// row and the rounding of every coordinate, for every length, σ and size.
    #[test]
    fn the_lattice_is_as_coarse_as_the_noise_needs() {
        let mut word = words(3);
        let mut made = 0;
        for _ in 0..20_000 {
            let length = u128::from((1 + (word() >> 2)) >> (word() % 62)).max(1);
            let sigma = Sigma::from_units(1 + (word() >> (4 + word() % 50))).filter(|&sigma| sigma > Sigma::ZERO);
            let coordinates = 1 + (word() >> (32 + word() % 32));
            let Some(sigma) = sigma else { continue };
            let Ok(lattice) = Lattice::new(length, sigma, coordinates) else { continue };
            made += 1;
            let Lattice { multiplier, shift, .. } = lattice;
            assert!(multiplier > 0, "{length} {sigma} {coordinates}");
            // With s = σ in units: 2^24 · 10^9 · 2^k − s · length · m ≥ s · 2^k · √coordinates.
            let whole = |number: u128| IBig::from(number);
            let reach = whole((1u128 << 24) * 1_000_000_000) << shift as usize;
            let left = &reach - whole(u128::from(sigma.units())) * whole(length) * IBig::from(multiplier);
            let slack = whole(u128::from(sigma.units())) << shift as usize;
            assert!(left >= IBig::ZERO, "{length} {sigma} {coordinates}");
            assert!(
                &left * &left >= &slack * &slack * whole(u128::from(coordinates)),
                "{length} {sigma} {coordinates}"
            );
            // At most two lattice units of slack, except for multipliers with few digits.
            let given = &left * &left - &slack * &slack * whole(u128::from(coordinates));
            assert!(given <= &reach * &reach || multiplier < 1 << 10);
        }
        assert!(made > 5_000, "{made}");
    }

    /// Both ways of moving sums onto the lattice equal exact integers, for lengths up to 2^58 and every noise multiplier.
    #[test]
    fn both_widths_of_sums_equal_exact_integers() {
        use crate::noise::SeededNoise;
        let mut word = words(6);
        let mut tried = 0;
        for length in (20..=58).map(|bits| 1u128 << bits) {
            for sigma in [1e6, 1e8, 1e9, 3.7e10, 7e13, 1e15, 4e15] {
                let sigma = Sigma::from_units(sigma as u64).expect("σ");
                let Ok(lattice) = Lattice::new(length, sigma, 3) else { continue };
                tried += 1;
                let mut sums: Vec<i64> = (0..64).map(|_| word() as i64 >> (word() % 64)).collect();
                sums.extend([0, 1, -1, length as i64, -(length as i64), 1 << 42, -(1 << 42), (1 << 42) + 1]);
                let onto = |sum: i64| (IBig::from(sum) * IBig::from(lattice.multiplier)) >> lattice.shift as usize;
                // All together, and the small ones alone, which take the faster way.
                sums.sort_unstable_by_key(|sum| sum.unsigned_abs());
                let small = sums.partition_point(|sum| sum.unsigned_abs() <= 1 << 42);
                for sums in [&sums[..], &sums[..small], &sums[..small / 2]] {
                    let mut drawn = vec![0; sums.len()];
                    RoundedGaussian::new().fill(&mut SeededNoise::new(5), &mut drawn).expect("noise");
                    let mut out = vec![0.0; sums.len()];
                    lattice.release_sums(sums, &mut SeededNoise::new(5), 1.0, &mut out).expect("noise");
                    for ((&sum, drawn), out) in sums.iter().zip(drawn).zip(out) {
                        assert_eq!(
                            IBig::from(lattice.to_lattice(i128::from(sum))),
                            onto(sum),
                            "{length} {sigma} {sum}"
                        );
                        if onto(sum) < IBig::from(1i64 << 62) && onto(sum) > -IBig::from(1i64 << 62) {
                            let exact = i128::try_from(onto(sum)).expect("62 bits") + i128::from(drawn);
                            assert_eq!(out, (exact as f64 * lattice.unit()) as f32, "{length} {sigma} {sum}");
                        }
                    }
                }
            }
        }
        assert!(tried > 150, "{tried}");
    }

    /// On the lattice, the difference of two sums grows by at most one lattice unit.
    #[test]
    fn moving_onto_the_lattice_adds_one_at_most() {
        let mut word = words(4);
        for sigma in [1_000_000_000, 500_000_000, 77_000_000_000] {
            let lattice = Lattice::new(1 << 30, Sigma::from_units(sigma).expect("σ"), 9).expect("fits");
            for _ in 0..5_000 {
                let sum = (i128::from(word() as i64) << 20) >> (word() % 80);
                let apart = i128::from(word() >> 34);
                let moved = lattice.to_lattice(sum + apart) - lattice.to_lattice(sum);
                let exact = IBig::from(apart) * IBig::from(lattice.multiplier);
                let floor: IBig = exact.clone() >> lattice.shift as usize;
                assert!(IBig::from(moved) >= floor && IBig::from(moved) <= floor + IBig::ONE, "{sum} {apart}");
            }
            // Sums too large to multiply are clamped.
            for sum in [i128::MAX, i128::MAX - 1, i128::MAX / 3] {
                assert_eq!(lattice.to_lattice(sum), lattice.to_lattice(i128::MAX), "{sum}");
                assert!(lattice.to_lattice(-sum) >= -lattice.to_lattice(sum) - 1);
            }
        }
    }

    /// The norm of a quantised vector is at most the length, for all inputs and for clips from the smallest float to the
    /// largest.
    #[test]
    fn quantised_vectors_are_short_enough() {
        let mut word = words(5);
        let clips = [f64::MIN_POSITIVE, 3e-308, 1e-300, 1e-290, 1e-20, 0.7, 1.0, 1e20, 1e300, f64::MAX];
        let specials = [0.0, -0.0, 1.0, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, f64::NAN, f64::INFINITY, 1e-308];
        for round in 0..40_000 {
            let clip = clips[round % clips.len()];
            let length = if round % 2 == 0 { LENGTH } else { 1 << 20 };
            let size = 1 + (word() % 6) as usize;
            let values: Vec<f64> = (0..size)
                .map(|_| match word() % 4 {
                    0 => specials[(word() % 10) as usize],
                    1 => f64::from_bits(word()),
                    2 => clip,
                    _ => clip * (word() >> 11) as f64 / (1u64 << 52) as f64,
                })
                .collect();
            let mut units = vec![7; size];
            quantise_vector(&values, clip, length, &mut units);
            let squares: IBig = units.iter().map(|&unit| IBig::from(unit) * IBig::from(unit)).sum();
            assert!(squares <= IBig::from(length) * IBig::from(length), "{values:?} {clip:e}: {units:?}");
            if values.iter().any(|value| !value.is_finite()) {
                assert!(units.iter().all(|&unit| unit == 0), "{values:?}");
            }
        }
        // The check itself, at its boundary and where squares overflow.
        assert!(within(&[3, 4], 5) && !within(&[3, 4], 4) && !within(&[3, 5], 5));
        assert!(!within(&[i64::MIN; 5], u64::MAX >> 1) && !within(&[i64::MAX; 9], 1 << 30));
        let mut units = [1; 2];
        quantise_vector(&[1.0], 1.0, LENGTH, &mut units);
        assert_eq!(units, [0; 2], "a vector of another size");
    }
}
