//! Exact discrete Gaussian noise, for sums under zero-concentrated differential privacy.
//!
//! Rejection from discrete Laplace noise (Canonne, Kamath and Steinke 2020, algorithm 3), with the
//! acceptance probability split into coins whose ratios fit 128 bits. Leading digits serve
//! to decide early; what they leave open is decided by all of them. Proof:
//! `discrete_gaussian.md`. No float and no rounded standard deviation may appear here.

use super::exact::{checked, coin, exp_coin};
use super::laplace::DiscreteLaplace;
use super::{NoiseError, NoiseSource};

/// Integer noise with `P(x)` proportional to `exp(-x^2 / (2 sigma^2))`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscreteGaussian {
    /// Discrete Laplace noise of the integer scale `t = floor(sigma) + 1`.
    proposal: DiscreteLaplace,
    /// `t * d^2`, where `sigma = n / d` in lowest terms.
    magnitude_factor: u128,
    /// `n^2`.
    centre: u128,
    /// `t * d * n`.
    unit: u128,
}

/// A ratio of 128-bit integers, `numerator <= denominator < 2^127`.
pub(super) struct Ratio {
    pub(super) numerator: u128,
    pub(super) denominator: u128,
}

impl DiscreteGaussian {
    /// Noise of parameter `sigma = numerator / denominator`.
    ///
    /// # Guarantee
    /// Added to an integer vector that one person moves by at most `d` in Euclidean norm, one draw
    /// a coordinate costs `d^2 / (2 sigma^2)` of zero-concentrated privacy.
    ///
    /// # Errors
    /// `ParameterOutOfRange` unless `2^-10 <= sigma <= 2^40` and, in lowest terms,
    /// `(floor(sigma) + 1) * denominator <= 2^59`.
    pub fn new(numerator: u64, denominator: u64) -> Result<Self, NoiseError> {
        let (n, d) = DiscreteLaplace::new(numerator, denominator)?.ratio();
        let t = n / d + 1;
        let (wide_n, wide_d, wide_t) = (u128::from(n), u128::from(d), u128::from(t));
        if wide_n > wide_d << 40 || wide_t * wide_d > 1 << 59 {
            return Err(NoiseError::ParameterOutOfRange);
        }
        Ok(Self {
            proposal: DiscreteLaplace::new(t, 1)?,
            magnitude_factor: wide_t * wide_d * wide_d,
            centre: wide_n * wide_n,
            unit: wide_t * wide_d * wide_n,
        })
    }

    /// One draw.
    ///
    /// # Guarantee
    /// The law is exactly that of the type restricted to `|x| < 2^127 / (t d^2)`, if the source's
    /// words are uniform and independent. That bound is at least `512 t > 512 sigma`, and the mass
    /// beyond it below `e^-130000`.
    ///
    /// # Errors
    /// `EntropyUnavailable` from the source.
    pub fn sample(&self, source: &mut impl NoiseSource) -> Result<i128, NoiseError> {
        checked(source, |source| self.draw(source))
    }

    /// Fills `noise` with independent draws; cheaper than as many calls of `sample`.
    ///
    /// # Guarantee
    /// As for [`DiscreteGaussian::sample`]. On an error the contents of `noise` mean nothing.
    ///
    /// # Errors
    /// `EntropyUnavailable` from the source.
    pub fn fill(&self, source: &mut impl NoiseSource, noise: &mut [i128]) -> Result<(), NoiseError> {
        checked(source, |source| {
            noise.fill_with(|| self.draw(source));
        })
    }

    #[inline(always)]
    fn draw(&self, source: &mut impl NoiseSource) -> i128 {
        loop {
            let candidate = self.proposal.draw(source);
            if self.accepts(candidate.unsigned_abs(), source) {
                return candidate;
            }
        }
    }

    /// True with probability `exp(-q^2 / 2)`, where `q = |magnitude / sigma - sigma / t|`.
    #[inline(always)]
    fn accepts(&self, magnitude: u128, source: &mut impl NoiseSource) -> bool {
        let product = self.magnitude_factor.checked_mul(magnitude);
        let Some(product) = product.filter(|product| product >> 127 == 0) else {
            return false; // Beyond 512 sigma: see the guarantee of `sample`.
        };
        let numerator = product.abs_diff(self.centre);
        if numerator < self.unit {
            return self.ratio(numerator).half_square_exp_coin(source);
        }
        self.accepts_far(numerator, source)
    }

    /// The same where `q` is one or more: `q = whole + fraction`, and `q^2 / 2` is
    /// `whole^2 / 2 + whole * fraction + fraction^2 / 2`.
    #[inline(never)]
    fn accepts_far(&self, numerator: u128, source: &mut impl NoiseSource) -> bool {
        let whole = numerator / self.unit;
        let fraction = self.ratio(numerator % self.unit);
        let squared = whole.saturating_mul(whole);
        (0..squared).all(|_| exp_coin(source, |source| coin(source, 1, 2)))
            && (0..whole).all(|_| exp_coin(source, |source| fraction.coin(source)))
            && fraction.half_square_exp_coin(source)
    }

    #[inline(always)]
    fn ratio(&self, numerator: u128) -> Ratio {
        Ratio { numerator, denominator: self.unit }
    }
}

impl Ratio {
    /// An exact coin of this probability.
    #[inline(always)]
    pub(super) fn coin(&self, source: &mut impl NoiseSource) -> bool {
        let word = source.next_u64();
        // Shifted until the denominator has 63 bits; bits may be lost, but the ratio stays between
        // `n / (d + 1)` and `(n + 1) / d`.
        let (n, d) = match self.denominator.leading_zeros() {
            zeros @ ..65 => (self.numerator >> (65 - zeros), self.denominator >> (65 - zeros)),
            zeros => (self.numerator << (zeros - 65), self.denominator << (zeros - 65)),
        };
        if (u128::from(word) + 1) * (d + 1) <= n << 64 {
            return true;
        }
        if u128::from(word) * d >= (n + 1) << 64 {
            return false;
        }
        self.coin_by_digits(word, source)
    }

    /// Compares the ratio with the number which begins with `word`, binary digit by digit.
    #[cold]
    #[inline(never)]
    pub(super) fn coin_by_digits(&self, mut word: u64, source: &mut impl NoiseSource) -> bool {
        let mut remainder = self.numerator;
        if remainder >= self.denominator {
            return true;
        }
        loop {
            for position in (0..64).rev() {
                remainder <<= 1;
                let ratio_digit = remainder >= self.denominator;
                if ratio_digit {
                    remainder -= self.denominator;
                }
                let number_digit = word >> position & 1 == 1;
                if ratio_digit != number_digit {
                    return ratio_digit;
                }
            }
            word = source.next_u64();
        }
    }

    /// True with probability `exp(-ratio^2 / 2)`.
    #[inline(always)]
    fn half_square_exp_coin(&self, source: &mut impl NoiseSource) -> bool {
        exp_coin(source, |source| source.next_u64() >> 63 == 0 && self.coin(source) && self.coin(source))
    }
}
