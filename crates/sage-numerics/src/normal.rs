//! The Gaussian curve in 128-bit fixed point, with proved error bounds.
//!
//! A fraction `v` in `[0, 1)` is the integer `floor(v * 2^128)`; one unit below means `2^-128`.
//! Results are the same on every machine. The bounds are derived in the kernel's `rounded_gaussian.md`; nothing
//! here may be changed without that page.

/// `floor(left * right / 2^128)`.
#[inline(always)]
fn multiply(left: u128, right: u128) -> u128 {
    const LOW: u128 = u64::MAX as u128;
    let (left_high, left_low) = (left >> 64, left & LOW);
    let (right_high, right_low) = (right >> 64, right & LOW);
    let low = left_low * right_low;
    let first = left_high * right_low + (low >> 64);
    let second = left_low * right_high + (first & LOW);
    left_high * right_high + (first >> 64) + (second >> 64)
}

const TERMS: usize = 24;

/// `1 / k!`, rounded down; one itself, which has no representation, is one unit short.
const INVERSE_FACTORIALS: [u128; TERMS] = {
    let mut values = [u128::MAX; TERMS];
    let mut index = 2;
    while index < TERMS {
        values[index] = values[index - 1] / index as u128;
        index += 1;
    }
    values
};

/// The argument is divided by `2^HALVINGS`, and the result is squared as many times.
const HALVINGS: u32 = 10;

/// `exp(-square / 2^49)` for `square < 2^56`, off by at most 4608 units.
#[inline]
fn exp_of_negative(square: u64) -> u128 {
    let reduced = u128::from(square) << (128 - 49 - HALVINGS);
    let mut sum = INVERSE_FACTORIALS[TERMS - 1];
    for coefficient in INVERSE_FACTORIALS[..TERMS - 1].iter().rev() {
        sum = coefficient - multiply(reduced, sum);
    }
    for _ in 0..HALVINGS {
        sum = multiply(sum, sum);
    }
    sum
}

/// `1 / sqrt(2 pi)`, rounded down.
const GAUSSIAN_PEAK: u128 = 0x6621_14cf_50d9_4234_3f2c_f140_2eae_38bf;

/// `2^24 * P(round(N) = x)` for `N` normal of standard deviation `2^24`, and `|x| <= 2^28 - 1`.
///
/// This is the density at `y = x / 2^24`, times `1 + (y^2 - 1) / (24 * 2^48)` for the rounding.
/// Off by at most [`HEIGHT_ERROR`] units, plus the next term of the rounding correction.
#[inline]
pub fn rounded_gaussian_height(x: i32) -> u128 {
    let magnitude = u64::from(x.unsigned_abs());
    let square = magnitude * magnitude;
    let density = multiply(GAUSSIAN_PEAK, exp_of_negative(square));
    let curvature = u128::from(square.abs_diff(1 << 48)) << 72;
    let correction = (multiply(density, curvature) >> 40) / 24;
    if square >= 1 << 48 { density + correction } else { density - correction }
}

/// The error bound of [`rounded_gaussian_height`], in units of `2^-128`.
pub const HEIGHT_ERROR: u128 = 1 << 12;

#[cfg(test)]
mod tests {
    use super::multiply;
    use dashu::integer::UBig;

    /// Every carry between the four partial products is included, at the ends of the range and for random factors.
    #[test]
    fn fixed_point_products_are_exact_floors() {
        let mut draw = crate::tests::words(12);
        let edges = [0, 1, 2, u128::from(u64::MAX), 1 << 64, (1 << 64) + 1, u128::MAX - 1, u128::MAX];
        let check = |left: u128, right: u128| {
            let exact: UBig = (UBig::from(left) * UBig::from(right)) >> 128;
            assert_eq!(UBig::from(multiply(left, right)), exact, "{left:x} {right:x}");
        };
        edges.iter().for_each(|&left| edges.iter().for_each(|&right| check(left, right)));
        for _ in 0..20_000 {
            let mut wide = || u128::from(draw()) << 64 | u128::from(draw());
            let (left, right) = (wide(), wide());
            check(left, right);
            check(left | u128::from(u64::MAX), right | u128::from(u64::MAX));
        }
    }
}
