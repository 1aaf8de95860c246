//! Audits of the learners: tight on correct ones, and every planted bug is detected.

#![allow(clippy::unwrap_used, reason = "a test that cannot get its number has failed")]

mod learners;
mod planted;

use sage_kernel::noise::{NoiseError, SeededNoise};
use sage_kernel::{Ceiling, Delta, Epsilon};

/// The seed of this run: from `SAGE_SEED` if it is set, and printed so that a run can be repeated.
fn run_seed(test: &str) -> u64 {
    let given = std::env::var("SAGE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(0x5a6e_0001);
    println!("{test}: SAGE_SEED={seed}");
    seed
}

/// The size of a run: the first in CI, the second with `SAGE_SOAK=1`.
fn size(ci: u32, soak: u32) -> u32 {
    if std::env::var("SAGE_SOAK").is_ok_and(|text| text == "1") { soak } else { ci }
}

/// A sequence of noise sources from one seed.
fn sources(seed: u64) -> impl FnMut() -> Result<SeededNoise, NoiseError> {
    let mut next = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    move || {
        next = next.wrapping_add(1);
        Ok(SeededNoise::new(next))
    }
}

fn ceiling(epsilon: &str, delta: &str) -> Ceiling {
    Ceiling { epsilon: Epsilon::ceiling(epsilon).unwrap(), delta: Delta::ceiling(delta).unwrap() }
}
