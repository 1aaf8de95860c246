//! Progress of a running attempt: its stage, and whether it may continue.
//!
//! The observer gets the stages of an attempt and the share of its steps, whose number is public. It must never get the
//! number of rows or anything computed from them.

use super::AttemptFailure;

/// The stage of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The attempt is charged.
    Charged,
    /// Rows are read.
    Reading,
    /// The model is trained or the statistic computed.
    Training,
    /// The result is validated.
    Validating,
    /// The release and the report are written.
    Releasing,
}

impl Stage {
    /// The lowercase name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Charged => "charged",
            Self::Reading => "reading",
            Self::Training => "training",
            Self::Validating => "validating",
            Self::Releasing => "releasing",
        }
    }
}

/// Observes an attempt, and can stop it.
pub(crate) trait AttemptObserver {
    /// Called when a stage begins.
    ///
    /// # Errors
    /// When the attempt must stop.
    fn enter(&self, stage: Stage) -> Result<(), AttemptFailure>;

    /// Called after `done` of `of` training steps.
    ///
    /// # Errors
    /// When the attempt must stop.
    fn step(&self, done: u32, of: u32) -> Result<(), AttemptFailure>;
}
