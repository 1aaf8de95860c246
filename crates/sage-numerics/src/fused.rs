//! Fused multiply-add in single precision, on every instruction set.
//!
//! AVX2, AVX-512 and NEON have an instruction for it. Without one, rounding the product before the addition would give
//! different weights on different machines, so the single rounding is emulated in double precision.

use pulp::{Simd, bytemuck::cast};

/// `left * right + sum` for every lane, rounded once.
///
/// # Guarantee
/// The same bits on every instruction set, unless the result is NaN.
#[inline(always)]
pub fn multiply_add<S: Simd>(simd: S, left: S::f32s, right: S::f32s, sum: S::f32s) -> S::f32s {
    if S::IS_SCALAR {
        return cast(round_once(cast(left), cast(right), cast(sum)));
    }
    simd.mul_add_f32s(left, right, sum)
}

/// The product of two 24-bit significands fits into 53 bits, so only the addition rounds. The second rounding, to 24
/// bits, is wrong only where the first result is exactly halfway between two 24-bit numbers.
#[inline(always)]
fn round_once(left: f32, right: f32, sum: f32) -> f32 {
    /// The bits of a double that single precision does not have, and their value halfway between two singles.
    const LOST: u64 = (1 << 29) - 1;
    const HALFWAY: u64 = 1 << 28;
    let (product, added) = (f64::from(left) * f64::from(right), f64::from(sum));
    let nearest = product + added;
    // Numbers that are subnormal in single precision have fewer bits, so their halfway points are elsewhere.
    if nearest.to_bits() & LOST != HALFWAY && nearest.abs() >= f64::from(f32::MIN_POSITIVE) {
        return nearest as f32;
    }
    round_odd(product, added, nearest) as f32
}

/// The sum rounded to odd: an inexact value becomes the neighbour whose last bit is set. Rounding that to single
/// precision gives the correctly rounded result (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums",
/// 2008).
#[cold]
#[inline(never)]
fn round_odd(product: f64, added: f64, nearest: f64) -> f64 {
    // Knuth's two-sum gives the exact error. It is NaN where the sum is not finite; then the result stays as it is.
    let part = nearest - product;
    let error = (product - (nearest - part)) + (added - part);
    let bits = nearest.to_bits();
    let up = i64::from(error > 0.0) - i64::from(error < 0.0);
    let outwards = if nearest < 0.0 { -up } else { up };
    let even = !bits & 1;
    f64::from_bits(bits.wrapping_add((outwards as u64).wrapping_mul(even)))
}

#[cfg(test)]
mod tests {
    use super::round_once;

    /// Compares with the standard library's `mul_add`, which is exact: halfway cases, subnormal numbers, ties,
    /// cancellation, overflow, and random bits.
    #[test]
    fn one_rounding_equals_the_standard_librarys() {
        let mut draw = crate::tests::words(11);
        let edges = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            1.0 + f32::EPSILON,
            1.0 - f32::EPSILON / 2.0,
            3.0,
            0.1,
            f32::MIN_POSITIVE,
            1e-45,
            -1e-45,
            1.1e-38,
            f32::MAX,
            f32::MIN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            16_777_217.0,
            4_097.0,
        ];
        let check = |left: f32, right: f32, sum: f32| {
            let (found, expected) = (round_once(left, right, sum), left.mul_add(right, sum));
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{left:e} {right:e} {sum:e}: {found:e} {expected:e}");
        };
        for left in edges {
            for right in edges {
                edges.iter().for_each(|&sum| check(left, right, sum));
            }
        }
        for _ in 0..2_000_000 {
            let (word, other) = (draw(), draw());
            let [left, right] = [word as u32, (word >> 32) as u32].map(f32::from_bits);
            check(left, right, f32::from_bits(other as u32));
            // Exponents close to each other, where sums cancel and digits of the product are lost.
            let near = |bits: u64| f32::from_bits(0x3f00_0000 + (bits as u32 & 0x01ff_ffff));
            let product = near(word) * near(word >> 32);
            let scale = f32::from_bits((100 + (other >> 40 & 31) as u32) << 23);
            check(near(word), near(word >> 32), -product);
            check(near(word), near(word >> 32), near(other) * scale);
            check(near(word) * scale, -near(word >> 32), near(other));
        }
    }
    /// A sum that is just below the middle of two subnormal numbers, of which the upper one is even. In double precision
    /// it is the middle itself, which would be rounded up.
    #[test]
    fn subnormal_sums_are_rounded_once() {
        let scale = f32::from_bits((127 - 75) << 23);
        let (left, right) = ((1.0 + f32::EPSILON) * scale, (1.0 - f32::EPSILON) * scale);
        let sum = f32::from_bits((1 << 22) + 1);
        for sign in [1.0, -1.0] {
            assert_eq!(f64::from(left) * f64::from(right) + f64::from(sum), f64::from(sum) + libm::exp2(-150.0));
            assert_eq!(round_once(sign * left, right, sign * sum), sign * sum);
            assert_eq!((sign * left).mul_add(right, sign * sum), sign * sum);
        }
    }
}
