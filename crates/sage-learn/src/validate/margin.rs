//! How far noise may have shifted a released sum, and the probability left for the sampling error of the rows.
//!
//! A test's [risk](super::Risk) has one part for the noise of all its numbers and one for the rows.

use std::num::NonZeroU32;

use sage_kernel::accountant::Certified;
use sage_kernel::{Epsilon, SCALE, Sigma, TableNoise};
use sage_numerics::bisect;

use super::risk::Risk;
use super::target::OutOfRange;
use crate::plan::{discrete_gaussian_quantile, discrete_laplace_quantile};

/// The noise on each number that a test uses, in rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Discrete Laplace: its scale and the size of its steps.
    Laplace {
        /// The scale, in rows.
        scale: f64,
        /// Grid steps per row.
        steps: u64,
    },
    /// Discrete Gaussian on the kernel's grid.
    Gaussian {
        /// The standard deviation, in rows.
        deviation: f64,
    },
}

impl From<TableNoise> for Noise {
    fn from(noise: TableNoise) -> Self {
        match noise {
            TableNoise::Laplace(epsilon) => Self::Laplace { scale: 1.0 / number(epsilon), steps: SCALE },
            TableNoise::Gaussian(sigma) => Self::Gaussian { deviation: deviation_of(sigma) },
        }
    }
}

impl Noise {
    /// The noise of [`sage_kernel::BestLoss`] with this gap.
    pub fn of_best_loss(epsilon: Epsilon, gap: f64) -> Self {
        Self::Laplace { scale: (1.0 + 2.0 * gap) / number(epsilon), steps: SCALE }
    }

    /// The bound, in rows, that one draw exceeds with probability at most `chance`. Infinite if no bound is known: a
    /// test then decides nothing.
    pub fn reach(self, chance: f64) -> f64 {
        self.certified_reach(chance).unwrap_or(f64::INFINITY)
    }

    /// The bound, in rows, that the largest sum of the first draws, of up to `draws` draws, exceeds with probability at
    /// most `chance`. Infinite if no bound is known.
    pub(crate) fn reach_of_sums(self, draws: NonZeroU32, chance: f64) -> f64 {
        let draws = f64::from(draws.get());
        // By Lévy's inequality the largest sum exceeds a bound at most twice as often as the last one.
        let exponent = -libm::log(0.5 * chance);
        let reach = match self {
            Self::Gaussian { deviation } => deviation * libm::sqrt(2.0 * draws * exponent),
            Self::Laplace { scale, .. } => {
                // Chernoff's bound with E e^(uZ/scale) ≤ 1/(1 − u²), at its best u.
                let enough = |multiple: f64| {
                    let u = (libm::sqrt(draws * draws + multiple * multiple) - draws) / multiple;
                    u * multiple + draws * libm::log1p(-u * u) >= exponent
                };
                // Beyond this any number of draws has enough: at u = 1/2 a draw adds at most ln(4/3).
                scale * bisect(2.0 * exponent + draws, f64::MIN_POSITIVE, enough)
            }
        };
        if exponent > 0.0 && reach.is_finite() { reach * (1.0 + 1e-9) } else { f64::INFINITY }
    }

    /// [`Noise::reach`], or the reason why no bound is known.
    pub(crate) fn certified_reach(self, chance: f64) -> Certified<f64> {
        let (units, steps) = match self {
            Self::Laplace { scale, steps } => {
                (discrete_laplace_quantile(scale * steps as f64 * (1.0 + 4.0 * f64::EPSILON), chance)?, steps)
            }
            Self::Gaussian { deviation } => (discrete_gaussian_quantile(deviation * SCALE as f64, chance)?, SCALE),
        };
        Ok(units as f64 / steps as f64)
    }
}

fn number(epsilon: Epsilon) -> f64 {
    epsilon.units() as f64 / 1e12
}

fn deviation_of(sigma: Sigma) -> f64 {
    sigma.units() as f64 / 1e9
}

/// What a decision allows for: noise within a reach, and an unlucky sample with some probability.
///
/// # Guarantee
/// The reach is not negative, the probability strictly between zero and one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    reach: f64,
    chance: f64,
}

impl Margin {
    /// A margin with this reach and this probability.
    ///
    /// # Errors
    /// Unless the reach is not negative and the probability strictly between zero and one.
    pub fn new(reach: f64, chance: f64) -> Result<Self, OutOfRange> {
        let fine = reach >= 0.0 && chance > 0.0 && chance < 1.0;
        fine.then_some(Self { reach, chance }).ok_or(OutOfRange("a reach is at least zero, a chance between 0 and 1"))
    }

    /// For one side of two numbers: half of the noise's part for each, the rows' part for one side.
    pub fn one_sided(noise: Noise, risk: Risk) -> Self {
        Self::share(noise, risk, 0.5, 1.0)
    }

    /// For both sides of two numbers: a quarter of the noise's part for each noise on each side, half of the rows' part
    /// for each side.
    pub fn two_sided(noise: Noise, risk: Risk) -> Self {
        Self::share(noise, risk, 0.25, 0.5)
    }

    /// For both sides of three numbers and one side of the rows.
    pub fn of_triple(noise: Noise, risk: Risk) -> Self {
        Self::share(noise, risk, 1.0 / 6.0, 1.0)
    }

    /// For both sides of three numbers, two of which are added up, and both sides of the rows. The sum of two
    /// noises is within twice the reach unless one of them is beyond it.
    pub(super) fn of_triple_two_sided(noise: Noise, risk: Risk) -> Self {
        let one = Self::share(noise, risk, 1.0 / 6.0, 0.5);
        Self { reach: 2.0 * one.reach, ..one }
    }

    /// For both sides of three numbers, two of which are added up, and both sides of two means of the rows.
    pub(super) fn of_label_sums(noise: Noise, risk: Risk) -> Self {
        let one = Self::share(noise, risk, 1.0 / 6.0, 0.25);
        Self { reach: 2.0 * one.reach, ..one }
    }

    fn share(noise: Noise, risk: Risk, noises: f64, rows: f64) -> Self {
        Self { reach: noise.reach(risk.noise() * noises), chance: risk.rows() * rows }
    }

    /// The margin if there were no noise.
    pub(super) fn without_noise(self) -> Self {
        Self { reach: 0.0, ..self }
    }

    /// How far the sums may be from the exact ones: the noise and the rounding to floats.
    pub(super) fn reach(self, sums: f64) -> f64 {
        self.reach + 4.0 * f64::EPSILON * sums
    }

    pub(super) const fn chance(self) -> f64 {
        self.chance
    }
}
