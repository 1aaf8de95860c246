//! The synthetic taxi rides: deterministic from a seed, with daily patterns, dirty as documented, and learnable.

mod learn;
mod rides;
