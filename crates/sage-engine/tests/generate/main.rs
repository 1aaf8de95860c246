//! The made-up taxi rides: always the same from a seed, in rhythm, dirty as documented, and worth learning.

mod learn;
mod rides;
