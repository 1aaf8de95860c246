//! Deterministic pseudo-random numbers for simulated traffic, never for noise.

/// A linear congruential generator.
pub(super) struct TrafficRandom(u64);

impl TrafficRandom {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A uniform number in (0, 1].
    pub(super) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) + 1) as f64 / (1_u64 << 31) as f64
    }

    /// The exponential time to the next arrival, at `rate` arrivals per unit of time.
    pub(super) fn next_gap(&mut self, rate: f64) -> f64 {
        -self.uniform().ln() / rate
    }

    /// A difficulty of at least 1; most are small, a few up to 100.
    pub(super) fn difficulty(&mut self) -> f64 {
        self.uniform().powf(-0.8).min(100.0)
    }

    /// The probability that a difficulty is at most this.
    pub(super) fn share_of_difficulties_below(most: f64) -> f64 {
        if most >= 100.0 { 1.0 } else { 1.0 - most.max(1.0).powf(-1.25) }
    }
}
