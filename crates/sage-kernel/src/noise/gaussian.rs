//! Exact discrete Gaussian noise, for sums under zero-concentrated differential privacy.
//!
//! Rejection from discrete Laplace noise (Canonne, Kamath and Steinke 2020, algorithm 3), with the
//! acceptance probability split into coins whose ratios fit 128 bits. Proof:
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
        let sigma = DiscreteLaplace::new(numerator, denominator)?;
        let t = sigma.numerator / sigma.denominator + 1;
        let (n, d, wide_t) = (u128::from(sigma.numerator), u128::from(sigma.denominator), u128::from(t));
        if n > d << 40 || wide_t * d > 1 << 59 {
            return Err(NoiseError::ParameterOutOfRange);
        }
        let proposal = DiscreteLaplace::new(t, 1)?;
        Ok(Self { proposal, magnitude_factor: wide_t * d * d, centre: n * n, unit: wide_t * d * n })
    }

    /// Fills `noise` with independent draws.
    ///
    /// # Guarantee
    /// The law is exactly that of the type restricted to `|x| < 2^127 / (t d^2)`, if the source's
    /// words are uniform and independent. That bound is at least `512 t > 512 sigma`, and the mass
    /// beyond it below `e^-130000`. On an error the contents of `noise` mean nothing.
    ///
    /// # Errors
    /// `EntropyUnavailable` from the source.
    pub fn fill(&self, source: &mut impl NoiseSource, noise: &mut [i128]) -> Result<(), NoiseError> {
        checked(source, |source| noise.fill_with(|| self.draw(source)))
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
            return false; // Beyond 512 sigma: see the guarantee of `fill`.
        };
        let numerator = product.abs_diff(self.centre);
        if numerator < self.unit { self.accepts_near(numerator, source) } else { self.accepts_far(numerator, source) }
    }

    /// The same where `q = numerator / unit` is below one: `q^2 / 2` is a fair coin and two of `q`.
    #[inline(always)]
    fn accepts_near(&self, numerator: u128, source: &mut impl NoiseSource) -> bool {
        let unit = self.unit;
        exp_coin(source, |s| s.next_u64() >> 63 == 0 && coin(s, numerator, unit) && coin(s, numerator, unit))
    }

    /// The same where `q` is one or more: `q = whole + fraction`, and `q^2 / 2` is
    /// `whole^2 / 2 + whole * fraction + fraction^2 / 2`.
    #[inline(never)]
    fn accepts_far(&self, numerator: u128, source: &mut impl NoiseSource) -> bool {
        let (whole, fraction) = (numerator / self.unit, numerator % self.unit);
        (0..whole.saturating_mul(whole)).all(|_| exp_coin(source, |source| coin(source, 1, 2)))
            && (0..whole).all(|_| exp_coin(source, |source| coin(source, fraction, self.unit)))
            && self.accepts_near(fraction, source)
    }
}
