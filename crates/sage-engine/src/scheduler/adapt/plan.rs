//! What a pipeline's attempts have in common: the strategy, the first cost, the limits.

use std::fmt;

/// What is made larger after an attempt that was not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The cost, if the allocation allows twice as much on as many blocks; otherwise the window, at the same cost.
    Conserve,
    /// The window, if there are twice as many blocks, at half the cost but never below the first; otherwise the
    /// cost.
    Frugal,
}

/// How much of what it may spend an attempt takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As little as the strategy says.
    Conserve,
    /// All that it may spend on the blocks it reads.
    Aggressive,
}

/// How the chance of a wrong verdict is spent over attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RiskSchedule {
    /// Attempt i has 1 / (i (i + 1)) of it, which adds up to all of it over any number of attempts.
    Falling,
    /// Each of a limited number of attempts has an equal part.
    Even,
}

/// What one unit of cost is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Units {
    /// A part of ε. Half of it on twice the rows leaves noise to signal as it was.
    Epsilon,
    /// A part of the cap at the primary order, which grows with the square of ε. Half of it on twice the rows
    /// has less noise.
    Share,
}

/// How far attempts may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest cost of an attempt.
    pub cost: u64,
    /// The most blocks of a window.
    pub window: u32,
    /// The most attempts.
    pub attempts: Option<u32>,
    /// The most times that the window may grow.
    pub data_doublings: u32,
    /// From this time on no attempt is begun.
    pub deadline: Option<u64>,
}

/// How a pipeline tries.
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

/// Why a plan makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The first attempt would cost nothing.
    FreeAttempt,
    /// The first window would be empty.
    EmptyWindow,
    /// The first attempt is beyond a limit.
    BeyondLimit,
    /// An even risk needs a number of attempts to be divided by.
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
    /// When a number is zero, or the first attempt is already beyond the limits.
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

    /// The same by another strategy and mode.
    #[must_use]
    pub const fn by(self, strategy: Strategy, mode: Mode) -> Self {
        Self { strategy, mode, ..self }
    }

    /// The same with another way of spending risk.
    ///
    /// # Errors
    /// When an even risk has no number of attempts to be divided by.
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

    /// What costs are in.
    pub const fn units(&self) -> Units {
        self.units
    }

    /// The first cost, below which none falls.
    pub const fn first_cost(&self) -> u64 {
        self.first_cost
    }

    /// The first window.
    pub const fn first_window(&self) -> u32 {
        self.first_window
    }

    /// The limits.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Into how many parts the pipeline's risk is divided, of which attempt `index` (from one) has one.
    pub const fn risk_divisor(&self, index: u32) -> u64 {
        match (self.risk, self.limits.attempts) {
            (RiskSchedule::Even, Some(attempts)) => attempts as u64,
            _ => index as u64 * (index as u64 + 1),
        }
    }
}
