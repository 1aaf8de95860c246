//! Looking on while an attempt is performed: where it is, and whether it may go on.
//!
//! What is told are the stages of an attempt and the share of its steps, whose number was public before it began. It
//! must never be told how many rows there are, nor anything that was computed from them.

use super::Lost;

/// Where an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It is paid for.
    Charged,
    /// Its rows are read.
    Reading,
    /// Something is learned or computed from them.
    Training,
    /// What was learned is tested.
    Validating,
    /// What was accepted is made ready to leave, and the report is written.
    Releasing,
}

impl Stage {
    /// In a word.
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

/// Whoever looks on.
pub(crate) trait Watch {
    /// A stage begins.
    ///
    /// # Errors
    /// When the attempt is to end here.
    fn enter(&self, stage: Stage) -> Result<(), Lost>;

    /// So many steps of so many are done.
    ///
    /// # Errors
    /// When the attempt is to end here.
    fn step(&self, done: u32, of: u32) -> Result<(), Lost>;
}
