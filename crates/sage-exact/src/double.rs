//! Real numbers with twice the digits of `f64`, as the unevaluated sum of two.
//!
//! Relative error of each operation below 2^-100. Used where the error of a computation is part of a
//! promise and has to be negligible for every input.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number of about 106 bits.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Double {
    /// The number, to the digits of one `f64`.
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

impl Double {
    /// Nothing.
    pub const ZERO: Self = Self { high: 0.0, low: 0.0 };

    fn new((high, low): (f64, f64)) -> Self {
        let (high, low) = quick_two_sum(high, low);
        Self { high, low }
    }

    /// A whole number of at most 106 bits, exactly; a larger one with the error above.
    pub fn from_whole(value: i128) -> Self {
        let high = value as f64;
        // The difference fits: `high` is within half a unit in its last place of the value.
        let low = value.wrapping_sub(high as i128) as f64;
        Self::new((high, low))
    }

    /// The whole number below or at the value.
    pub fn floor(self) -> i128 {
        let high = libm::floor(self.high);
        if high == self.high { high as i128 + libm::floor(self.low) as i128 } else { high as i128 }
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.high < 0.0
    }

    /// Its size.
    pub fn abs(self) -> Self {
        if self.is_negative() { -self } else { self }
    }

    /// Its root; zero if it is not above zero.
    pub fn sqrt(self) -> Self {
        if self.high <= 0.0 {
            return Self::ZERO;
        }
        let guess = Self::from(libm::sqrt(self.high));
        // One step of Newton's iteration doubles the digits.
        guess + (self - guess * guess) / (guess + guess)
    }
}

impl From<f64> for Double {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

impl Neg for Double {
    type Output = Self;
    fn neg(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }
}

impl Add for Double {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (high, error) = two_sum(self.high, other.high);
        let (low, rest) = two_sum(self.low, other.low);
        let (high, error) = quick_two_sum(high, error + low);
        Self::new((high, error + rest))
    }
}

impl Sub for Double {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Double {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let product = self.high * other.high;
        let error = self.high.mul_add(other.high, -product);
        Self::new((product, error + (self.high * other.low + self.low * other.high)))
    }
}

impl Div for Double {
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

    fn exact(value: Double) -> RBig {
        let part = |part: f64| RBig::try_from(part).expect("a finite number");
        part(value.high) + part(value.low)
    }

    /// Within 2^-100 of the true value, relative to it.
    fn close(found: Double, truth: &RBig) -> bool {
        let bound = RBig::from_parts(IBig::ONE, dashu::integer::UBig::ONE << 100);
        (exact(found) - truth).abs() <= truth.clone().abs() * bound
    }

    fn normalised(value: Double) -> bool {
        value.high + value.low == value.high
    }

    /// Every operation against rationals, numbers of like and unlike size, with and without cancellation.
    #[test]
    fn operations_keep_a_hundred_bits() {
        let mut draw = crate::tests::words(1);
        let mut number = |near: Option<Double>| {
            let word = draw();
            let value = (draw() as i128 - (1 << 63)) << 40 | i128::from(draw() >> 24);
            let scale = libm::ldexp(1.0, (word % 160) as i32 - 120);
            match near {
                // Cancels to a few bits, or to none.
                Some(near) if word >> 62 == 0 => {
                    Double::new((-near.high, -near.low * (1.0 + ((word >> 8) % 3) as f64 * 1e-15)))
                }
                _ => Double::from_whole(value) * Double::from(scale),
            }
        };
        for _ in 0..20_000 {
            let one = number(None);
            let other = number(Some(one));
            let (a, b) = (exact(one), exact(other));
            for (found, truth) in [(one + other, &a + &b), (one - other, &a - &b), (one * other, &a * &b)] {
                assert!(close(found, &truth) && normalised(found), "{one:?} {other:?}: {found:?}");
            }
            if other != Double::ZERO {
                let found = one / other;
                assert!(close(found, &(&a / &b)) && normalised(found), "{one:?} / {other:?}: {found:?}");
            }
            let root = one.abs().sqrt();
            assert!(close(root * root, &a.clone().abs()), "root of {one:?}");
        }
    }

    #[test]
    fn whole_numbers_go_in_and_out() {
        for value in [0, 1, -1, (1 << 53) + 1, -(1 << 90) - 1, (1 << 105) + 1, -(1i128 << 100) + 12_345] {
            assert_eq!(Double::from_whole(value).floor(), value);
            assert_eq!((Double::from_whole(value) + Double::from(0.75)).floor(), value);
            assert_eq!((Double::from_whole(value) - Double::from(0.25)).floor(), value - 1);
        }
    }
}
