//! The random assignment of privacy units to lanes (train/test split). Proof: `proofs/lane.md`.
//!
//! The lane of a row is drawn from the system's randomness when the row arrives, and stored with it. The rows of a user
//! arrive at different times, so the lane of a user is a keyed hash of the user's id under a secret key. A lane must
//! never be determined by a rank, a counter, a shuffle or a hash of the content: then adding or removing one unit would
//! move other units, or equal rows would always be in the same lane.

use sha2::{Digest, Sha256};

use crate::block::Lane;
use crate::budget::Rate;
use crate::noise::{NoiseError, NoiseSource, poisson_mask, uniform_below};

/// The domain separator. With the key and a length it fills the first block of the hash.
const DOMAIN: &[u8; 24] = b"sage: lane of a unit v1 ";

/// The secret key that determines the lanes of a stream's users. It must not be printed.
pub struct LaneKey([u8; 32]);

impl LaneKey {
    /// Draws a new key.
    ///
    /// # Errors
    /// When the source of randomness fails.
    pub fn draw(noise: &mut impl NoiseSource) -> Result<Self, NoiseError> {
        let mut key = [0; 32];
        for word in key.as_chunks_mut().0 {
            *word = (uniform_below(noise, 1 << 32)? as u32).to_le_bytes();
        }
        Ok(Self(key))
    }

    /// The key with these stored bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes to store, where only the platform can read them.
    pub const fn to_bytes(&self) -> [u8; 32] {
        self.0
    }
}

/// The probability with which a unit is assigned to the test lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    test: Rate,
}

impl Split {
    /// One unit in ten is assigned to the test lane.
    pub const DEFAULT: Self = Self { test: Rate::from_units(Rate::LIMIT.units() / 10).expect("a tenth is a rate") };

    /// A split with this probability of the test lane; `None` if it is zero or one, so that a lane would stay empty.
    pub fn new(test: Rate) -> Option<Self> {
        (test > Rate::ZERO && test < Rate::LIMIT).then_some(Self { test })
    }

    /// Draws the lane of a unit.
    ///
    /// # Guarantee
    /// Independent of everything else, with exactly the probability of the split.
    ///
    /// # Errors
    /// When the source of randomness fails.
    pub fn draw(self, noise: &mut impl NoiseSource) -> Result<Lane, NoiseError> {
        let drawn = uniform_below(noise, Rate::LIMIT.units())?;
        Ok(if drawn < self.test.units() { Lane::Test } else { Lane::Train })
    }

    /// Draws the lanes of many units; true is the test lane.
    ///
    /// # Guarantee
    /// As [`Split::draw`], with a probability that can be smaller by less than 2^-64. After an error the content of `test`
    /// is meaningless.
    ///
    /// # Errors
    /// When the source of randomness fails.
    pub fn draw_many(self, noise: &mut impl NoiseSource, test: &mut [bool]) -> Result<(), NoiseError> {
        let mut mask = Vec::new();
        poisson_mask(noise, self.test.in_words(), test.len(), &mut mask)?;
        for (units, bits) in test.chunks_mut(64).zip(mask) {
            units.iter_mut().enumerate().for_each(|(index, test)| *test = bits >> index & 1 == 1);
        }
        Ok(())
    }

    /// The lane of the unit with this id. The id must be unique to the unit, public, and never change.
    ///
    /// # Guarantee
    /// A function of key, split and id only. Without the key, the lanes of different ids are indistinguishable from
    /// independent draws with the probability of the split, smaller by less than 2^-64.
    pub fn lane_of_unit(self, key: &LaneKey, unit: &[u8]) -> Lane {
        let length = (unit.len() as u64).to_le_bytes();
        let hash = Sha256::new().chain_update(key.0).chain_update(DOMAIN).chain_update(length).chain_update(unit);
        let hash: [u8; 32] = hash.finalize().into();
        // The first eight bytes, big-endian, as a fraction of one.
        let drawn = hash[..8].iter().fold(0u128, |number, &byte| number << 8 | u128::from(byte));
        if drawn < self.test.in_words() { Lane::Test } else { Lane::Train }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::SeededNoise;

    const UNITS: u32 = 400_000;

    fn split(units: u64) -> Split {
        Split::new(Rate::from_units(units).expect("a rate")).expect("a split")
    }

    /// The observed probability fits the split's, and does not fit one that differs by a twentieth.
    fn check(what: &str, split: Split, tests: usize) {
        let fits = |chance: f64| {
            let deviation = (f64::from(UNITS) * chance * (1.0 - chance)).sqrt();
            (tests as f64 - f64::from(UNITS) * chance).abs() < 5.5 * deviation
        };
        let chance = split.test.units() as f64 / 1e12;
        assert!(fits(chance), "{what}, {chance}: {tests}");
        assert!(!fits(chance * 0.95) && !fits(1.0 - (1.0 - chance) * 0.95), "{what}, {chance}: {tests}");
    }

    #[test]
    fn lanes_have_the_chance_of_the_split() {
        let mut noise = SeededNoise::new(11);
        for units in [100_000_000_000, 500_000_000_000, 50_000_000_000, 900_000_000_000] {
            let split = split(units);
            let mut test = vec![false; UNITS as usize];
            split.draw_many(&mut noise, &mut test).expect("seeded words");
            check("drawn", split, test.iter().filter(|&&test| test).count());
            // Consecutive units share a lane as often as independent draws do.
            let chance = units as f64 / 1e12;
            let both = test.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64;
            let expected = f64::from(UNITS) * chance * chance;
            assert!((both - expected).abs() < 6.0 * (2.0 * expected).sqrt(), "{units}: {both}");
            let key = LaneKey::draw(&mut noise).expect("seeded words");
            let lanes = (0..UNITS).filter(|unit| split.lane_of_unit(&key, &unit.to_le_bytes()) == Lane::Test);
            check("by key", split, lanes.count());
        }
    }

    /// Every unit is drawn, also in a last word that is not full.
    #[test]
    fn every_unit_of_a_batch_is_drawn() {
        let mut noise = SeededNoise::new(12);
        let most = split(Rate::LIMIT.units() - 1);
        for count in [0, 1, 63, 64, 65, 130] {
            let (mut ones, mut zeros) = (vec![false; count], vec![true; count]);
            most.draw_many(&mut noise, &mut ones).expect("seeded words");
            split(1).draw_many(&mut noise, &mut zeros).expect("seeded words");
            assert!(ones.iter().all(|&test| test) && !zeros.contains(&true), "{count}");
        }
    }

    /// The same id has the same lane in every process that has the key; another key or split gives an independent lane.
    #[test]
    fn a_unit_keeps_its_lane() {
        let mut noise = SeededNoise::new(13);
        let key = LaneKey::draw(&mut noise).expect("seeded words");
        let again = LaneKey::from_bytes(key.to_bytes());
        let other = LaneKey::draw(&mut noise).expect("seeded words");
        let (half, tenth) = (split(500_000_000_000), Split::DEFAULT);
        let mut moved = 0;
        for unit in 0..4_000u32 {
            let id = format!("user {unit}");
            let lane = half.lane_of_unit(&key, id.as_bytes());
            assert_eq!(lane, half.lane_of_unit(&again, id.as_bytes()));
            moved += u32::from(lane != half.lane_of_unit(&other, id.as_bytes()));
            // A unit in the test lane at a smaller probability is in it at a larger one too.
            assert!(tenth.lane_of_unit(&key, id.as_bytes()) == Lane::Train || lane == Lane::Test);
        }
        assert!((1_800..2_200).contains(&moved), "{moved}");
    }

    /// Computed independently: SHA-256 of key, domain, length and id; its first eight bytes as a fraction.
    #[test]
    fn lanes_are_those_of_the_documented_function() {
        let key = LaneKey::from_bytes(std::array::from_fn(|index| index as u8));
        for (unit, fraction) in FRACTIONS {
            let units = (fraction * 1e12) as u64;
            assert_eq!(split(units + 1000).lane_of_unit(&key, unit.as_bytes()), Lane::Test, "{unit}");
            assert_eq!(split(units - 1000).lane_of_unit(&key, unit.as_bytes()), Lane::Train, "{unit}");
        }
    }

    const FRACTIONS: [(&str, f64); 3] = [
        ("", 0.3969045941319),
        ("user 1", 0.7290512277020),
        ("a longer name, of more than one block of the hash function's sixty-four", 0.8680333899080),
    ];
}
