//! Exact discrete Laplace noise, for scalars and histograms under pure differential privacy.
//!
//! An exponential variable is drawn by von Neumann's comparison of uniforms, whose digits are drawn
//! only when needed; its scaled integer part is exactly geometric. Proof: `discrete_laplace.md`.
//! No logarithm, no float and no rounded scale may appear here.

use super::exact::{checked, digits_below};
use super::{NoiseError, NoiseSource};

/// Integer noise with `P(x)` proportional to `exp(-|x| / b)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscreteLaplace {
    pub(super) numerator: u64,
    pub(super) denominator: u64,
}

impl DiscreteLaplace {
    /// Noise of scale `b = numerator / denominator`.
    ///
    /// # Guarantee
    /// Added to an integer that one person changes by at most `d`, a draw costs epsilon `d / b`.
    ///
    /// # Errors
    /// `ParameterOutOfRange` unless `2^-10 <= b <= 2^60` and the reduced numerator is below 2^63.
    pub fn new(numerator: u64, denominator: u64) -> Result<Self, NoiseError> {
        let divisor = greatest_common_divisor(numerator, denominator).max(1);
        let (numerator, denominator) = (numerator / divisor, denominator / divisor);
        let large_enough = u128::from(numerator) << 10 >= u128::from(denominator);
        let small_enough = u128::from(numerator) <= u128::from(denominator) << 60;
        if numerator == 0 || !large_enough || !small_enough || numerator >> 63 != 0 {
            return Err(NoiseError::ParameterOutOfRange);
        }
        Ok(Self { numerator, denominator })
    }

    /// Fills `noise` with independent draws.
    ///
    /// # Guarantee
    /// The distribution is exactly that of the type, if the source's words are uniform and independent. After
    /// an error the contents of `noise` are meaningless.
    ///
    /// # Errors
    /// `EntropyUnavailable` from the source.
    pub fn fill(&self, source: &mut impl NoiseSource, noise: &mut [i128]) -> Result<(), NoiseError> {
        checked(source, |source| noise.fill_with(|| self.draw(source)))
    }

    /// A signed geometric magnitude; a negative zero is drawn again.
    #[inline(always)]
    pub(super) fn draw(&self, source: &mut impl NoiseSource) -> i128 {
        loop {
            let exponential = Exponential::draw(source);
            let negative = exponential.negative;
            let magnitude = self.scaled_floor(exponential, source) as i128;
            if !negative {
                return magnitude;
            }
            if magnitude != 0 {
                return -magnitude;
            }
        }
    }

    /// `floor(b * (whole + fraction))`, drawing more digits of the fraction if they matter.
    #[inline(always)]
    fn scaled_floor(&self, exponential: Exponential, source: &mut impl NoiseSource) -> u128 {
        let numerator = u128::from(self.numerator);
        let product = numerator * u128::from(exponential.first);
        let mut value = numerator * u128::from(exponential.whole) + (product >> 63);
        // The remaining digits add `numerator * rest / 2^63`; there is a carry if that is at least `gap`.
        let gap = (1 << 63) - (product & (u128::MAX >> 65));
        if gap < numerator && (value + 1) % u128::from(self.denominator) == 0 {
            let mut known = exponential.rest.into_iter();
            let digit = || known.next().unwrap_or_else(|| source.next_u64());
            value += u128::from(!digits_below(digit, gap, numerator));
        }
        match u64::try_from(value) {
            Ok(small) => u128::from(small / self.denominator),
            Err(_) => value / u128::from(self.denominator),
        }
    }
}

fn greatest_common_divisor(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { greatest_common_divisor(right, left % right) }
}

/// A standard exponential variable, and an independent fair bit.
///
/// The fraction has 63 binary digits, followed by as many 64-bit digits as a comparison needed.
pub(super) struct Exponential {
    pub(super) whole: u64,
    pub(super) first: u64,
    pub(super) rest: Vec<u64>,
    negative: bool,
}

impl Exponential {
    /// Uniforms are drawn while they descend. The first one is accepted as the fraction if the run has
    /// odd length, which has probability `exp(-x)` given its value `x`; each rejection adds one
    /// (von Neumann).
    #[inline(always)]
    pub(super) fn draw(source: &mut impl NoiseSource) -> Self {
        let mut whole = 0;
        loop {
            let word = source.next_u64();
            let first = word >> 1;
            let (mut previous, mut odd) = (first, true);
            let accepted = loop {
                let next = source.next_u64() >> 1;
                if next > previous {
                    break odd.then(Vec::new);
                }
                if next == previous {
                    break finish_tied_run(first, previous, odd, source);
                }
                previous = next;
                odd = !odd;
            };
            if let Some(rest) = accepted {
                return Self { whole, first, rest, negative: word & 1 == 1 };
            }
            whole += 1;
        }
    }
}

/// Completes a descending run whose newest member equals the previous one in the first 63 digits, keeping
/// all digits. Returns the later digits of the first member if it is accepted. Needed about once in
/// 2^61 draws.
#[cold]
#[inline(never)]
fn finish_tied_run(first: u64, previous: u64, mut odd: bool, source: &mut impl NoiseSource) -> Option<Vec<u64>> {
    // The run descends strictly: only the first member has its leading digits.
    let mut later = (previous != first).then(|| vec![previous]);
    let mut first = vec![first];
    let mut next = vec![previous];
    while below(&mut next, later.as_mut().unwrap_or(&mut first), source) {
        odd = !odd;
        later = Some(next);
        next = vec![source.next_u64() >> 1];
    }
    odd.then(|| first.split_off(1))
}

/// Whether one uniform is below another, drawing digits until they differ.
fn below(left: &mut Vec<u64>, right: &mut Vec<u64>, source: &mut impl NoiseSource) -> bool {
    let mut index = 0;
    while left[index] == right[index] {
        index += 1;
        for number in [&mut *left, &mut *right] {
            if number.len() == index {
                number.push(source.next_u64());
            }
        }
    }
    left[index] < right[index]
}
