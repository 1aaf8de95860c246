//! The chance that a released mean is as precise as its target.

use sage_kernel::Pair;
use sage_numerics::bisect;

use super::normal_cdf;
use crate::statistics::interval_shares;

/// A forecast of the half-widths of the means of all groups, from sums that an earlier attempt released.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanForecast {
    /// The released sums of each group, per block.
    pub groups: Vec<Pair>,
    /// The standard deviation of the noise of each sum, per block.
    pub deviation: f64,
    /// The range of the values.
    pub width: f64,
    /// The largest half-width that is accepted.
    pub target: f64,
}

impl MeanForecast {
    /// The probability that all groups are within the target, on so many blocks, if noise stays within `reach` and the
    /// limits of each group fail with probability `chance`.
    pub fn chance(&self, blocks: f64, reach: f64, chance: f64) -> f64 {
        self.groups.iter().map(|group| self.group_chance(*group, blocks, reach, chance)).product()
    }

    fn group_chance(&self, group: Pair, blocks: f64, reach: f64, chance: f64) -> f64 {
        let rows = (group.above + group.below).max(0.0);
        // A group that earlier noise hid is assumed to have half of its rows on either side.
        let share = if rows > 0.0 { (group.above / rows).clamp(0.0, 1.0) } else { 0.5 };
        let fits = |rows: f64| self.half_width(rows * blocks, share, reach, chance) <= self.target;
        let most = (rows + 8.0 * self.deviation).max(1.0 / blocks);
        if !fits(most) {
            return 0.0;
        }
        let needed = bisect(most, 0.0, fits);
        let deviation = (std::f64::consts::SQRT_2 * self.deviation).max(1e-9 * most);
        normal_cdf((rows - needed) / deviation)
    }

    /// The half-width of the mean of so many rows.
    fn half_width(&self, rows: f64, share: f64, reach: f64, chance: f64) -> f64 {
        let pair = Pair { above: rows * share, below: rows * (1.0 - share) };
        let Some((low, middle, high)) = interval_shares(pair, reach, chance) else { return f64::INFINITY };
        (high - middle).max(middle - low) * self.width
    }

    /// The half-widths that sampling alone and sampling with noise leave for the worst group on so many blocks.
    pub fn worst(&self, blocks: f64, reach: f64, chance: f64) -> Option<(f64, f64)> {
        let halves = self.groups.iter().map(|group| {
            let rows = (group.above + group.below).max(0.0);
            let share = if rows > 0.0 { (group.above / rows).clamp(0.0, 1.0) } else { 0.5 };
            let half = |reach: f64| self.half_width(rows * blocks, share, reach, chance);
            (half(0.0), half(reach))
        });
        halves.max_by(|one, two| one.1.total_cmp(&two.1))
    }
}

/// The half-width of a count or sum over both lanes, whose noise stays within `reach` on each. It does not depend on
/// rows.
pub fn half_width_of_sum(reach: f64, (low, high): (f64, f64)) -> f64 {
    2.0 * reach * (low.abs() + high.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast() -> MeanForecast {
        let groups = [(50.0, 50.0), (10.0, 30.0), (2.0, 3.0)].map(|(above, below)| Pair { above, below }).to_vec();
        MeanForecast { groups, deviation: 0.5, width: 100.0, target: 5.0 }
    }

    #[test]
    fn chances_are_monotone_and_reach_both_ends() {
        let forecast = forecast();
        let chances: Vec<f64> = (0..16).map(|step| forecast.chance(2.0_f64.powi(step), 3.0, 0.01)).collect();
        assert!(chances.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{chances:?}");
        assert!(chances[0] == 0.0 && chances[15] > 0.99, "{chances:?}");
        assert!(forecast.chance(256.0, 3.0, 0.01) >= forecast.chance(256.0, 30.0, 0.01));
    }

    /// The forecast is the formula of the interval: where it says yes with certainty, the interval is within target.
    #[test]
    fn a_certain_forecast_is_right() {
        let forecast = MeanForecast { deviation: 1e-9, ..forecast() };
        for step in 0..60 {
            let blocks = 1.3_f64.powi(step);
            let chance = forecast.chance(blocks, 3.0, 0.01);
            let (_, half) = forecast.worst(blocks, 3.0, 0.01).unwrap();
            assert_eq!(chance > 0.5, half <= 5.0, "{blocks} blocks: {chance} {half}");
        }
    }
}
