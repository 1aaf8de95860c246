//! Exact discrete Laplace noise, for scalars and histograms under pure differential privacy.
//!
//! An exponential variable is drawn by von Neumann's comparison of uniforms, whose digits are made
//! only when needed; its scaled integer part is exactly geometric. Proof: `discrete_laplace.md`.
//! No logarithm, no float, and no scale that was rounded on the way may appear here.

use super::exact::{checked, digits_below};
use super::{NoiseError, NoiseSource};

/// Integer noise with `P(x)` proportional to `exp(-|x| / b)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscreteLaplace {
    numerator: u64,
    denominator: u64,
}

impl DiscreteLaplace {
    /// Noise of scale `b = numerator / denominator`.
    ///
    /// # Guarantee
    /// Added to an integer that one person moves by at most `d`, a draw costs epsilon `d / b`.
    ///
    /// # Errors
    /// `ParameterOutOfRange` unless `2^-10 <= b <= 2^60` and the reduced numerator is below 2^63.
    pub fn new(numerator: u64, denominator: u64) -> Result<Self, NoiseError> {
        let divisor = greatest_common_divisor(numerator, denominator);
        if numerator == 0 || denominator == 0 {
            return Err(NoiseError::ParameterOutOfRange);
        }
        let (numerator, denominator) = (numerator / divisor, denominator / divisor);
        let large_enough = u128::from(numerator) << 10 >= u128::from(denominator);
        let small_enough = u128::from(numerator) <= u128::from(denominator) << 60;
        if !large_enough || !small_enough || numerator >> 63 != 0 {
            return Err(NoiseError::ParameterOutOfRange);
        }
        Ok(Self { numerator, denominator })
    }

    /// One draw.
    ///
    /// # Guarantee
    /// The law is exactly that of the type, if the source's words are uniform and independent.
    ///
    /// # Errors
    /// `EntropyUnavailable` from the source.
    pub fn sample(&self, source: &mut impl NoiseSource) -> Result<i128, NoiseError> {
        checked(source, |source| self.draw(source))
    }

    /// Fills `noise` with independent draws; cheaper than as many calls of `sample`.
    ///
    /// # Guarantee
    /// As for [`DiscreteLaplace::sample`]. On an error the contents of `noise` mean nothing.
    ///
    /// # Errors
    /// `EntropyUnavailable` from the source.
    pub fn fill(&self, source: &mut impl NoiseSource, noise: &mut [i128]) -> Result<(), NoiseError> {
        checked(source, |source| {
            noise.fill_with(|| self.draw(source));
        })
    }

    /// The scale in lowest terms.
    pub(super) fn ratio(&self) -> (u64, u64) {
        (self.numerator, self.denominator)
    }

    /// A signed geometric magnitude; minus zero is drawn again.
    #[inline(always)]
    pub(super) fn draw(&self, source: &mut impl NoiseSource) -> i128 {
        loop {
            let (exponential, negative) = exponential(source);
            let magnitude = self.scaled_floor(exponential, source) as i128;
            if !negative {
                return magnitude;
            }
            if magnitude != 0 {
                return -magnitude;
            }
        }
    }

    /// `floor(b * (whole + fraction))`, making more digits of the fraction if they matter.
    #[inline(always)]
    fn scaled_floor(&self, exponential: Exponential, source: &mut impl NoiseSource) -> u128 {
        let product = u128::from(self.numerator) * u128::from(exponential.fraction.first);
        let mut value = u128::from(self.numerator) * u128::from(exponential.whole) + (product >> 63);
        // The digits not yet used add `numerator * rest / 2^63`; they carry from `gap` onwards.
        let gap = (1 << 63) - (product as u64 & (u64::MAX >> 1));
        if gap < self.numerator && (value + 1) % u128::from(self.denominator) == 0 {
            let mut known = exponential.fraction.rest.into_iter();
            let digit = || known.next().unwrap_or_else(|| source.next_u64());
            value += u128::from(!digits_below(digit, gap, self.numerator));
        }
        match u64::try_from(value) {
            Ok(small) => u128::from(small / self.denominator),
            Err(_) => value / u128::from(self.denominator),
        }
    }
}

fn greatest_common_divisor(mut left: u64, mut right: u64) -> u64 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left.max(1)
}

/// A uniform number in `[0, 1)`: 63 binary digits, then as many 64-bit digits as were needed.
pub(super) struct Uniform {
    pub(super) first: u64,
    pub(super) rest: Vec<u64>,
}

impl Uniform {
    fn new(first: u64) -> Self {
        Self { first, rest: Vec::new() }
    }

    fn digit(&mut self, index: usize, source: &mut impl NoiseSource) -> u64 {
        while self.rest.len() <= index {
            self.rest.push(source.next_u64());
        }
        self.rest[index]
    }

    /// Compares two uniforms, making digits until they differ.
    fn below(&mut self, other: &mut Self, source: &mut impl NoiseSource) -> bool {
        if self.first != other.first {
            return self.first < other.first;
        }
        let mut index = 0;
        loop {
            let (left, right) = (self.digit(index, source), other.digit(index, source));
            if left != right {
                return left < right;
            }
            index += 1;
        }
    }
}

/// A standard exponential variable.
pub(super) struct Exponential {
    pub(super) whole: u64,
    pub(super) fraction: Uniform,
}

/// An exponential variable and an independent fair bit.
///
/// Uniforms are drawn while they descend; the first is accepted as the fraction if the run has odd
/// length, which given its value `x` has probability `exp(-x)`; each refusal adds one (von Neumann).
#[inline(always)]
pub(super) fn exponential(source: &mut impl NoiseSource) -> (Exponential, bool) {
    let mut whole = 0;
    loop {
        let word = source.next_u64();
        let first = word >> 1;
        let mut previous = first;
        let mut odd = true;
        let accepted = loop {
            let next = source.next_u64() >> 1;
            if next > previous {
                break odd.then(|| Uniform::new(first));
            }
            if next == previous {
                break finish_tied_run(first, previous, odd, source);
            }
            previous = next;
            odd = !odd;
        };
        if let Some(fraction) = accepted {
            return (Exponential { whole, fraction }, word & 1 == 1);
        }
        whole += 1;
    }
}

/// Ends a descending run whose newest member equals the one before it in the first 63 digits, with
/// all digits kept; gives the first member if it is accepted. Happens once in 2^61 draws or so.
#[cold]
#[inline(never)]
fn finish_tied_run(
    first: u64,
    previous: u64,
    mut odd: bool,
    source: &mut impl NoiseSource,
) -> Option<Uniform> {
    // The run descended strictly: only its start has the first member's leading digits.
    let mut later = (previous != first).then(|| Uniform::new(previous));
    let mut first = Uniform::new(first);
    let mut next = Uniform::new(previous);
    loop {
        if !next.below(later.as_mut().unwrap_or(&mut first), source) {
            return odd.then_some(first);
        }
        odd = !odd;
        later = Some(next);
        next = Uniform::new(source.next_u64() >> 1);
    }
}
