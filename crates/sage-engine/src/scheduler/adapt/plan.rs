//! The parameters of a pipeline's attempts: strategy, first cost, limits.

use std::fmt;

/// What grows after an attempt that was not sufficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// What a forecast from released values recommends, within four times the optimum: the attempt with the least
    /// expected mass (cost times blocks) of itself and all that follow.
    Informed,
    /// The cost, if the allocation admits twice as much on as many blocks; otherwise the window, at the same cost.
    Conserve,
    /// The window, if there are twice as many blocks, at half the cost but never below the first; otherwise the cost.
    Frugal,
}

/// How much of its available budget an attempt uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The minimum that the strategy requires.
    Conserve,
    /// Everything that is available on its blocks.
    Aggressive,
}

/// How the error probability is divided over attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RiskSchedule {
    /// Attempt i gets 1 / (i (i + 1)) of it, which sums to the whole over any number of attempts.
    Falling,
    /// Each of a limited number of attempts gets an equal part.
    Even,
    /// For [`Strategy::Informed`]: a likely attempt gets half of what is left, one that mostly measures an eighth. What
    /// an attempt gets is decided before it, from released values, and never more than is left.
    Probing,
}

/// The unit of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Units {
    /// A share of ε. Half the cost on twice the rows leaves the signal-to-noise ratio unchanged.
    Epsilon,
    /// A share of the cap at the primary order, which grows with the square of ε. Half the cost on twice the rows has
    /// less noise.
    Share,
}

/// Limits on the attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest cost of an attempt.
    pub cost: u64,
    /// The largest window, in blocks.
    pub window: u32,
    /// The largest number of attempts.
    pub attempts: Option<u32>,
    /// How often the window may grow.
    pub data_doublings: u32,
    /// No attempt starts at or after this time.
    pub deadline: Option<u64>,
}

/// The plan of a pipeline's attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    strategy: Strategy,
    mode: Mode,
    units: Units,
    risk: RiskSchedule,
    first_cost: u64,
    first_window: u32,
    limits: Limits,
}

/// Why a plan is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The first cost is zero.
    FreeAttempt,
    /// The first window is empty.
    EmptyWindow,
    /// The first attempt exceeds a limit.
    BeyondLimit,
    /// An even risk schedule needs a limit on the number of attempts.
    EvenWithoutAttempts,
}

impl fmt::Display for PlanError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::FreeAttempt => "the first attempt must cost something",
            Self::EmptyWindow => "the first window must have a block",
            Self::BeyondLimit => "the first attempt is beyond the limits of cost, window or attempts",
            Self::EvenWithoutAttempts => "an even risk needs a limit of attempts to be divided by",
        })
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// A plan that starts with this cost on this many blocks.
    ///
    /// # Errors
    /// When a number is zero, or the first attempt exceeds the limits.
    pub fn new(first: (u64, u32), limits: Limits, units: Units) -> Result<Self, PlanError> {
        let (first_cost, first_window) = first;
        if first_cost == 0 {
            return Err(PlanError::FreeAttempt);
        }
        if first_window == 0 {
            return Err(PlanError::EmptyWindow);
        }
        if first_cost > limits.cost || first_window > limits.window || limits.attempts == Some(0) {
            return Err(PlanError::BeyondLimit);
        }
        Ok(Self {
            strategy: Strategy::Frugal,
            mode: Mode::Conserve,
            units,
            risk: RiskSchedule::Falling,
            first_cost,
            first_window,
            limits,
        })
    }

    /// The same plan with another strategy and mode.
    #[must_use]
    pub const fn by(self, strategy: Strategy, mode: Mode) -> Self {
        Self { strategy, mode, ..self }
    }

    /// The same plan with another risk schedule.
    ///
    /// # Errors
    /// When an even risk schedule has no limit on the number of attempts.
    pub const fn with_risk(self, risk: RiskSchedule) -> Result<Self, PlanError> {
        match (risk, self.limits.attempts) {
            (RiskSchedule::Even, None) => Err(PlanError::EvenWithoutAttempts),
            _ => Ok(Self { risk, ..self }),
        }
    }

    /// The strategy.
    pub const fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// The mode.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// The unit of costs.
    pub const fn units(&self) -> Units {
        self.units
    }

    /// The first cost, which is also the minimum.
    pub const fn first_cost(&self) -> u64 {
        self.first_cost
    }

    /// The first window, in blocks.
    pub const fn first_window(&self) -> u32 {
        self.first_window
    }

    /// The limits.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The risk schedule.
    pub const fn risk(&self) -> RiskSchedule {
        self.risk
    }

    /// The divisor of the pipeline's error probability for attempt `index`, counted from one. A probing schedule divides
    /// what earlier attempts left, so its divisors do not follow from the index.
    pub const fn risk_divisor(&self, index: u32) -> u64 {
        match (self.risk, self.limits.attempts) {
            (RiskSchedule::Even, Some(attempts)) => attempts as u64,
            _ => index as u64 * (index as u64 + 1),
        }
    }
}
