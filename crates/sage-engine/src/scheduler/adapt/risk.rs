//! The error probability that a [probing](super::RiskSchedule::Probing) schedule has left.
//!
//! Attempt i may be wrong with probability η / dᵢ, where dᵢ is chosen before the attempt from released values. Each
//! attempt takes at most half of what is left, so Σ 1/dᵢ ≤ 1 however the divisors are chosen, and the expected number
//! of wrong acceptances of a run is at most η. After some sixty attempts nothing is left that a divisor can express;
//! each later attempt has dᵢ = 2⁶⁴ − 1, and n of them exceed η by n parts in 10¹⁹.

/// What is left, in parts of [`RiskLeft::WHOLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RiskLeft(u64);

/// How an attempt draws on the risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Draw {
    /// It is likely to be accepted.
    Likely,
    /// It mostly measures.
    Probe,
}

impl RiskLeft {
    /// The whole error probability of a run.
    pub(super) const WHOLE: Self = Self(1 << 62);

    /// The divisor of an attempt.
    pub(super) const fn divisor(self, draw: Draw) -> u64 {
        let part = match draw {
            Draw::Likely => self.0 / 2,
            Draw::Probe => self.0 / 8,
        };
        // Rounded up: an attempt never gets more than its part.
        if part == 0 { u64::MAX } else { Self::WHOLE.0.div_ceil(part) }
    }

    /// Whether an attempt with this divisor leaves at least half.
    pub(super) const fn admits(self, divisor: u64) -> bool {
        divisor == u64::MAX || (divisor > 0 && Self::WHOLE.0.div_ceil(divisor) <= self.0.div_ceil(2))
    }

    /// What is left after an attempt with this divisor.
    #[must_use]
    pub(super) const fn after(self, divisor: u64) -> Self {
        Self(self.0.saturating_sub(Self::WHOLE.0.div_ceil(if divisor == 0 { 1 } else { divisor })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_sum_to_at_most_the_whole() {
        for pattern in 0..64_u32 {
            let (mut left, mut sum) = (RiskLeft::WHOLE, 0);
            for attempt in 0..200 {
                let draw = if pattern >> (attempt % 6) & 1 == 1 { Draw::Likely } else { Draw::Probe };
                let divisor = left.divisor(draw);
                assert!(left.admits(divisor), "attempt {attempt} of pattern {pattern}: {divisor}");
                if divisor == u64::MAX {
                    break;
                }
                left = left.after(divisor);
                // In whole parts, each rounded up.
                sum += RiskLeft::WHOLE.0.div_ceil(divisor);
            }
            assert!(sum < RiskLeft::WHOLE.0, "pattern {pattern}: {sum}");
        }
        assert!(!RiskLeft::WHOLE.admits(1) && !RiskLeft::WHOLE.admits(0));
        assert_eq!(RiskLeft::WHOLE.divisor(Draw::Likely), 2);
    }
}
