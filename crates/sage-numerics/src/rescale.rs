//! Fixed-point rescaling: integers are multiplied, shifted and added to other integers, exactly.
//!
//! A product of two 64-bit integers has 128 bits, for which there are no vector instructions. If the first factor is
//! small, two 64-bit products with the halves of the second give the same result, bit for bit.

use pulp::{Simd, WithSimd};

use crate::arch::dispatch;

/// Half of the multiplier's bits, and the largest integer whose product with either half fits into 64 bits.
const HALF: u32 = 20;
const SMALL: i64 = 1 << 42;

/// Maps an integer n to (floor(n m / 2^k) + added) times a unit.
#[derive(Clone, Copy, Debug)]
pub struct Rescaler {
    /// Integers are first clamped to plus and minus this, so that the result has at most 62 bits.
    pub limit: i64,
    /// The multiplier m, of at most 40 bits.
    pub multiplier: i64,
    /// The shift k.
    pub shift: u32,
    /// The factor applied to the result in double precision, before it is rounded to single precision.
    pub unit: f64,
}

impl Rescaler {
    /// Rescales `numbers`, adds `added` and writes the results to `out`.
    pub fn apply(self, numbers: &[i64], added: &[i32], out: &mut [f32]) {
        dispatch(Apply { rescaler: self, numbers, added, out });
    }

    #[inline(always)]
    fn to_single(self, scaled: i64, added: i32) -> f32 {
        (scaled.wrapping_add(i64::from(added)) as f64 * self.unit) as f32
    }

    /// Whether every integer of at most `most` stays below 2^51 after rescaling and the addition.
    fn stays_below(self, most: i64) -> bool {
        let scaled = (i128::from(most) * i128::from(self.multiplier)) >> self.shift;
        scaled + (1 << 32) < 1 << 51
    }
}

/// Converts an integer of magnitude below 2^51 to a double, exactly. Only AVX-512 has a vector instruction for the
/// conversion. In a double near 1.5 times 2^52 the lowest bits are the integer itself.
#[inline(always)]
fn integer_to_double(number: i64) -> f64 {
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    f64::from_bits((number as u64).wrapping_add(MAGIC.to_bits())) - MAGIC
}

struct Apply<'data> {
    rescaler: Rescaler,
    numbers: &'data [i64],
    added: &'data [i32],
    out: &'data mut [f32],
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { rescaler, numbers, added, out } = self;
        let Rescaler { limit, multiplier, shift, .. } = rescaler;
        let most = limit.min(SMALL);
        let mut small = shift >= HALF && multiplier < 1 << (2 * HALF);
        for number in numbers {
            small &= (-most..=most).contains(number);
        }
        let all = out.iter_mut().zip(numbers).zip(added);
        if small {
            // With m = h 2^20 + l, the result is the floor of (n h + n l / 2^20) / 2^(k - 20). The inner quotient may be
            // rounded down as well, because n h is an integer.
            let (high, low) = (multiplier >> HALF, multiplier & ((1 << HALF) - 1));
            // The sum has 63 bits and a sign, so a longer shift gives the same as one by 63.
            let rest = (shift - HALF).min(63);
            let most = numbers.iter().fold(0, |most, number| number.wrapping_abs().max(most));
            if rescaler.stays_below(most) {
                for ((out, &number), &added) in all {
                    let scaled = number.wrapping_mul(high).wrapping_add(number.wrapping_mul(low) >> HALF) >> rest;
                    *out = (integer_to_double(scaled.wrapping_add(i64::from(added))) * rescaler.unit) as f32;
                }
                return;
            }
            for ((out, &number), &added) in all {
                let scaled = number.wrapping_mul(high).wrapping_add(number.wrapping_mul(low) >> HALF) >> rest;
                *out = rescaler.to_single(scaled, added);
            }
            return;
        }
        for ((out, &number), &added) in all {
            let scaled = i128::from(number.clamp(-limit, limit)).wrapping_mul(i128::from(multiplier)) >> shift;
            *out = rescaler.to_single(scaled as i64, added);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_convert_to_doubles_exactly() {
        let near = (0..51).flat_map(|bits| [-1i64, 0, 1].map(|offset| (1 << bits) + offset));
        for number in near.chain([0]).filter(|number| *number < 1 << 51).flat_map(|number| [number, -number]) {
            assert_eq!(integer_to_double(number).to_bits(), (number as f64).to_bits(), "{number}");
        }
    }

    #[test]
    fn small_and_large_integers_are_rescaled_alike() {
        let near = (0..=62).flat_map(|bits| [-1i64, 0, 1].map(|offset| (1 << bits) + offset));
        let mut numbers: Vec<i64> = near.flat_map(|number| [number, -number]).collect();
        numbers.sort_unstable_by_key(|number| number.unsigned_abs());
        for (multiplier, shift) in
            [(1, 0), (1, 20), (3, 21), ((1 << 40) - 1, 20), ((1 << 40) - 1, 62), (0x9e_3779_b97f, 42)]
                .into_iter()
                .chain([63, 64, 83, 84, 85, 100].map(|shift| ((1 << 40) - 1, shift)))
        {
            for limit in [1 << 10, 1 << 42, 1 << 50, i64::MAX] {
                let limit = limit
                    .min(i64::try_from((1i128 << 62 << shift.min(64)) / i128::from(multiplier)).unwrap_or(i64::MAX));
                // All at once, where the largest integer selects the code path, and in smaller chunks.
                for size in [numbers.len(), 64, 1] {
                    let rescaler = Rescaler { limit, multiplier, shift, unit: 1.0 };
                    for (chunk, numbers) in numbers.chunks(size).enumerate() {
                        let added: Vec<i32> =
                            (0..numbers.len()).map(|index| (index + chunk) as i32 * 7_919 - 300_000).collect();
                        let mut out = vec![0.0; numbers.len()];
                        rescaler.apply(numbers, &added, &mut out);
                        for ((&number, &added), out) in numbers.iter().zip(&added).zip(out) {
                            let scaled = (i128::from(number.clamp(-limit, limit)) * i128::from(multiplier)) >> shift;
                            let expected = (scaled + i128::from(added)) as f64 as f32;
                            assert_eq!(out, expected, "{number} {limit} {multiplier} {shift}");
                        }
                    }
                }
            }
        }
    }
}
