//! Exact discrete Gaussian noise, for sums under zero-concentrated differential privacy.
//!
//! Rejection sampling from discrete Laplace noise (Canonne, Kamath and Steinke 2020, algorithm 3), with the
//! acceptance probability split into Bernoulli variables whose ratios fit into 128 bits. Proof:
//! `discrete_gaussian.md`. No float and no rounded standard deviation may appear here.

use super::exact::{bernoulli, bernoulli_exp, checked};
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
    /// Added to an integer vector that one person changes by at most `d` in Euclidean norm, one draw
    /// per coordinate costs `d^2 / (2 sigma^2)` of zCDP.
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
    /// The distribution is exactly that of the type restricted to `|x| < 2^127 / (t d^2)`, if the source's
    /// words are uniform and independent. That bound is at least `512 t > 512 sigma`, and the mass
    /// beyond it is below `e^-130000`. After an error the contents of `noise` are meaningless.
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

    /// The same for `q = numerator / unit` below one: `q^2 / 2` is the probability that a fair Bernoulli variable and two
    /// of probability `q` are true.
    #[inline(always)]
    fn accepts_near(&self, numerator: u128, source: &mut impl NoiseSource) -> bool {
        let unit = self.unit;
        bernoulli_exp(source, |s| {
            s.next_u64() >> 63 == 0 && bernoulli(s, numerator, unit) && bernoulli(s, numerator, unit)
        })
    }

    /// The same for `q` of at least one: `q = whole + fraction`, and `q^2 / 2` is
    /// `whole^2 / 2 + whole * fraction + fraction^2 / 2`.
    #[inline(never)]
    fn accepts_far(&self, numerator: u128, source: &mut impl NoiseSource) -> bool {
        let (whole, fraction) = (numerator / self.unit, numerator % self.unit);
        (0..whole.saturating_mul(whole)).all(|_| bernoulli_exp(source, |source| bernoulli(source, 1, 2)))
            && (0..whole).all(|_| bernoulli_exp(source, |source| bernoulli(source, fraction, self.unit)))
            && self.accepts_near(fraction, source)
    }
}
