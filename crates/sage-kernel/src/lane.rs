//! The coin that sends a privacy unit to its lane. Proof: `proofs/lane.md`.
//!
//! Drawn once, when the unit (the row, or at user level the user) arrives, from the system's randomness,
//! and stored with it. It must never be a rank, a counter, a shuffle or a hash of contents: then one unit
//! more or less would move others.

use crate::block::Lane;
use crate::budget::Rate;
use crate::noise::{NoiseError, NoiseSource, uniform_below};

/// How many of the units go to the test lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    test: Rate,
}

impl Split {
    /// One unit in ten is for testing.
    pub const DEFAULT: Self = Self { test: Rate::from_units(Rate::LIMIT.units() / 10).expect("a tenth is a rate") };

    /// A split with this chance of the test lane; nothing if one of the lanes would stay empty.
    pub fn new(test: Rate) -> Option<Self> {
        (test > Rate::ZERO && test < Rate::LIMIT).then_some(Self { test })
    }

    /// Draws a unit's lane.
    ///
    /// # Guarantee
    /// Independent of everything else, with exactly the chance of the split.
    ///
    /// # Errors
    /// When there is no randomness to be had.
    pub fn draw(self, noise: &mut impl NoiseSource) -> Result<Lane, NoiseError> {
        let drawn = uniform_below(noise, Rate::LIMIT.units())?;
        Ok(if drawn < self.test.units() { Lane::Test } else { Lane::Train })
    }
}
