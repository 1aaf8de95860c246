//! Double-double arithmetic: a number is the unevaluated sum of two `f64`, which gives about 106 bits.
//!
//! The relative error of each operation is below 2^-100. Used where the rounding error of a computation is part of a
//! proof and has to be negligible for every input.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A double-double number, of about 106 bits.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct DoubleDouble {
    /// The value rounded to one `f64`.
    pub high: f64,
    low: f64,
}

fn two_sum(one: f64, other: f64) -> (f64, f64) {
    let sum = one + other;
    let part = sum - one;
    (sum, (one - (sum - part)) + (other - part))
}

fn quick_two_sum(large: f64, small: f64) -> (f64, f64) {
    let sum = large + small;
    (sum, small - (sum - large))
}

impl DoubleDouble {
    /// Zero.
    pub const ZERO: Self = Self { high: 0.0, low: 0.0 };

    fn new((high, low): (f64, f64)) -> Self {
        let (high, low) = quick_two_sum(high, low);
        Self { high, low }
    }

    /// Converts an integer: exactly if it has at most 106 bits, otherwise with a relative error below 2^-100.
    pub fn from_integer(value: i128) -> Self {
        let high = value as f64;
        // The difference fits: `high` is within half a unit in the last place of the value.
        let low = value.wrapping_sub(high as i128) as f64;
        Self::new((high, low))
    }

    /// The largest integer that is not above the value.
    pub fn floor(self) -> i128 {
        let high = libm::floor(self.high);
        if high == self.high { high as i128 + libm::floor(self.low) as i128 } else { high as i128 }
    }

    /// Whether the value is below zero.
    pub fn is_negative(self) -> bool {
        self.high < 0.0
    }

    /// The absolute value.
    pub fn abs(self) -> Self {
        if self.is_negative() { -self } else { self }
    }

    /// The square root; zero if the value is not above zero.
    pub fn sqrt(self) -> Self {
        if self.high <= 0.0 {
            return Self::ZERO;
        }
        let guess = Self::from(libm::sqrt(self.high));
        // One Newton step doubles the number of correct digits.
        guess + (self - guess * guess) / (guess + guess)
    }
}

impl From<f64> for DoubleDouble {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

impl Neg for DoubleDouble {
    type Output = Self;
    fn neg(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }
}

impl Add for DoubleDouble {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (high, error) = two_sum(self.high, other.high);
        let (low, rest) = two_sum(self.low, other.low);
        let (high, error) = quick_two_sum(high, error + low);
        Self::new((high, error + rest))
    }
}

impl Sub for DoubleDouble {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for DoubleDouble {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let product = self.high * other.high;
        let error = self.high.mul_add(other.high, -product);
        Self::new((product, error + (self.high * other.low + self.low * other.high)))
    }
}

impl Div for DoubleDouble {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let first = self.high / other.high;
        let rest = self - other * Self::from(first);
        let second = rest.high / other.high;
        let rest = rest - other * Self::from(second);
        Self::new(quick_two_sum(first, second)) + Self::from(rest.high / other.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dashu::base::Abs;
    use dashu::integer::IBig;
    use dashu::rational::RBig;

    fn exact(value: DoubleDouble) -> RBig {
        let part = |part: f64| RBig::try_from(part).expect("a finite number");
        part(value.high) + part(value.low)
    }

    /// Whether the relative error is at most 2^-100.
    fn close(found: DoubleDouble, truth: &RBig) -> bool {
        let bound = RBig::from_parts(IBig::ONE, dashu::integer::UBig::ONE << 100);
        (exact(found) - truth).abs() <= truth.clone().abs() * bound
    }

    fn normalised(value: DoubleDouble) -> bool {
        value.high + value.low == value.high
    }

    /// Every operation compared with rationals, for operands of similar and different size, with and without
    /// cancellation.
    #[test]
    fn operations_keep_a_hundred_bits() {
        let mut draw = crate::tests::words(1);
        let mut number = |near: Option<DoubleDouble>| {
            let word = draw();
            let value = (draw() as i128 - (1 << 63)) << 40 | i128::from(draw() >> 24);
            let scale = libm::ldexp(1.0, (word % 160) as i32 - 120);
            match near {
                // The sum cancels to a few bits, or to zero.
                Some(near) if word >> 62 == 0 => {
                    DoubleDouble::new((-near.high, -near.low * (1.0 + ((word >> 8) % 3) as f64 * 1e-15)))
                }
                _ => DoubleDouble::from_integer(value) * DoubleDouble::from(scale),
            }
        };
        for _ in 0..20_000 {
            let one = number(None);
            let other = number(Some(one));
            let (a, b) = (exact(one), exact(other));
            for (found, truth) in [(one + other, &a + &b), (one - other, &a - &b), (one * other, &a * &b)] {
                assert!(close(found, &truth) && normalised(found), "{one:?} {other:?}: {found:?}");
            }
            if other != DoubleDouble::ZERO {
                let found = one / other;
                assert!(close(found, &(&a / &b)) && normalised(found), "{one:?} / {other:?}: {found:?}");
            }
            let root = one.abs().sqrt();
            assert!(close(root * root, &a.clone().abs()), "root of {one:?}");
        }
    }

    #[test]
    fn integers_round_trip() {
        for value in [0, 1, -1, (1 << 53) + 1, -(1 << 90) - 1, (1 << 105) + 1, -(1i128 << 100) + 12_345] {
            assert_eq!(DoubleDouble::from_integer(value).floor(), value);
            assert_eq!((DoubleDouble::from_integer(value) + DoubleDouble::from(0.75)).floor(), value);
            assert_eq!((DoubleDouble::from_integer(value) - DoubleDouble::from(0.25)).floor(), value - 1);
        }
    }
}
