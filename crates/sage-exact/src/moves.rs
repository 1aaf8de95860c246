//! Whole numbers multiplied and shifted, exactly, and other whole numbers added.
//!
//! A product of two numbers of 64 bits has 128, which no machine multiplies several of at once. Where the first
//! is small, two products with the halves of the second are enough, and they give the same to the last bit.

use pulp::{Arch, Simd, WithSimd};

/// Half of a multiplier's bits, and the largest numbers that can be multiplied with either half in 64 bits.
const HALF: u32 = 20;
const SMALL: i64 = 1 << 42;

/// From a number n to the whole part of n m / 2^k, rounded down, plus another number, times a unit.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    /// Numbers beyond this, of either sign, are first moved in to it; the result then has at most 62 bits.
    pub limit: i64,
    /// m, of at most 40 bits.
    pub multiplier: i64,
    /// k.
    pub shift: u32,
    /// What the result is multiplied with, in double precision, before it is rounded to single.
    pub unit: f64,
}

impl Moves {
    /// Moves numbers and adds others.
    pub fn apply(self, numbers: &[i64], added: &[i32], out: &mut [f32]) {
        Arch::new().dispatch(Apply { moves: self, numbers, added, out });
    }

    #[inline(always)]
    fn with(self, moved: i64, added: i32) -> f32 {
        (moved.wrapping_add(i64::from(added)) as f64 * self.unit) as f32
    }
}

struct Apply<'data> {
    moves: Moves,
    numbers: &'data [i64],
    added: &'data [i32],
    out: &'data mut [f32],
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { moves, numbers, added, out } = self;
        let Moves { limit, multiplier, shift, .. } = moves;
        let most = limit.min(SMALL);
        let mut small = shift >= HALF && multiplier < 1 << (2 * HALF);
        for number in numbers {
            small &= (-most..=most).contains(number);
        }
        let all = out.iter_mut().zip(numbers).zip(added);
        if small {
            // With m = h 2^20 + l the whole part is that of (n h + n l / 2^20) / 2^(k - 20), where the inner
            // quotient may be rounded down too, since what is beside it is whole.
            let (high, low) = (multiplier >> HALF, multiplier & ((1 << HALF) - 1));
            for ((out, &number), &added) in all {
                let moved = number.wrapping_mul(high).wrapping_add(number.wrapping_mul(low) >> HALF) >> (shift - HALF);
                *out = moves.with(moved, added);
            }
            return;
        }
        for ((out, &number), &added) in all {
            let moved = i128::from(number.clamp(-limit, limit)).wrapping_mul(i128::from(multiplier)) >> shift;
            *out = moves.with(moved as i64, added);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_numbers_are_moved_alike() {
        let near = (0..=62).flat_map(|bits| [-1i64, 0, 1].map(|beside| (1 << bits) + beside));
        let mut numbers: Vec<i64> = near.flat_map(|number| [number, -number]).collect();
        numbers.sort_unstable_by_key(|number| number.unsigned_abs());
        for (multiplier, shift) in
            [(1, 0), (1, 20), (3, 21), ((1 << 40) - 1, 20), ((1 << 40) - 1, 62), (0x9e_3779_b97f, 42)]
        {
            for limit in [1 << 10, 1 << 42, 1 << 50, i64::MAX] {
                let limit =
                    limit.min(i64::try_from((1i128 << 62 << shift) / i128::from(multiplier)).unwrap_or(i64::MAX));
                // In one piece, where the largest decide, and one by one.
                for piece in [numbers.len(), 64, 1] {
                    let moves = Moves { limit, multiplier, shift, unit: 1.0 };
                    for (place, numbers) in numbers.chunks(piece).enumerate() {
                        let added: Vec<i32> =
                            (0..numbers.len()).map(|at| (at + place) as i32 * 7_919 - 300_000).collect();
                        let mut out = vec![0.0; numbers.len()];
                        moves.apply(numbers, &added, &mut out);
                        for ((&number, &added), out) in numbers.iter().zip(&added).zip(out) {
                            let moved = (i128::from(number.clamp(-limit, limit)) * i128::from(multiplier)) >> shift;
                            let expected = (moved + i128::from(added)) as f64 as f32;
                            assert_eq!(out, expected, "{number} {limit} {multiplier} {shift}");
                        }
                    }
                }
            }
        }
    }
}
