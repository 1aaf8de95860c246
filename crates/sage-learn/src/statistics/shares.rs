//! The shares of several classes, from one histogram.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Mechanism, Pair, Rows, Session, TableNoise};

use super::interval::{StatisticError, charge_for, noise_reach, shares};
use crate::estimate::Estimate;

/// The share of each of several classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The number of classes.
    pub classes: u32,
    /// The noise of the histogram.
    pub noise: TableNoise,
}

impl Shares {
    /// What a lane is charged.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        charge_for(self.noise).into_iter().collect()
    }

    /// The share of each class; the intervals are for the distribution that rows are drawn from, and hold together except
    /// with probability `chance`. A row without a class is in no count.
    ///
    /// # Errors
    /// When the charge does not cover it or a parameter is out of range.
    pub fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, lane: Lane, chance: f64, class: impl Fn(R::Row<'_>) -> Option<u32>,
    ) -> Result<Vec<Estimate>, StatisticError> {
        let each = chance / f64::from(self.classes.max(1));
        let reach = noise_reach(self.noise, each / 8.0)?;
        let counts = session.histogram(lane, self.classes, self.noise, class)?;
        Ok(estimates(&counts, reach, each))
    }
}

/// The shares, if the noise of each count is within `reach`, each except with probability `chance` for sampling.
fn estimates(counts: &[f64], reach: f64, chance: f64) -> Vec<Estimate> {
    let all: f64 = counts.iter().sum();
    // The count of the rows of all other classes has the noise of each.
    let reach = reach * (counts.len().max(2) - 1) as f64;
    let estimate = |&count: &f64| match shares(Pair { above: count, below: all - count }, reach, chance) {
        Some((low, middle, high)) => Estimate { value: Some(middle), low: low.max(0.0), high: high.min(1.0) },
        None => Estimate { value: None, low: 0.0, high: 1.0 },
    };
    counts.iter().map(estimate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_cover_the_shares_for_every_noise_within_reach() {
        for (counts, reach) in [([5_000.0, 3_000.0, 2_000.0], 50.0), ([100.0, 1.0, 0.0], 3.0)] {
            let all: f64 = counts.iter().sum();
            for signs in 0..8_u8 {
                let sign = |class: usize| if signs >> class & 1 == 1 { reach } else { -reach };
                let noisy: Vec<f64> = counts.iter().enumerate().map(|(class, count)| count + sign(class)).collect();
                for (found, count) in estimates(&noisy, reach, 0.01).iter().zip(counts) {
                    assert!(found.low <= count / all && count / all <= found.high, "{noisy:?}: {found:?}");
                    assert!(found.low >= 0.0 && found.high <= 1.0 && found.low < found.high, "{found:?}");
                }
            }
        }
        let hidden = estimates(&[-5.0, -9.0], 100.0, 0.01);
        assert!(hidden.iter().all(|one| one.low == 0.0 && one.high == 1.0), "{hidden:?}");
    }
}
