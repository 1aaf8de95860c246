//! Numbers that look random and are the same everywhere: for traffic, never for noise.

/// A row of such numbers.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Above zero and up to one.
    pub(super) fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) + 1) as f64 / (1_u64 << 31) as f64
    }

    /// A time until the next arrival where so many come in each unit of time.
    pub(super) fn gap(&mut self, rate: f64) -> f64 {
        -self.roll().ln() / rate
    }

    /// At least one; most are small and a few up to a hundred.
    pub(super) fn difficulty(&mut self) -> f64 {
        self.roll().powf(-0.8).min(100.0)
    }
}
