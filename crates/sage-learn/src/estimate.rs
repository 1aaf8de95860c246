//! A private estimate with its confidence limits, as statistics release it and validators report it.

/// An estimate with its confidence limits, in its own units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate; `None` if the noise hides all rows.
    pub value: Option<f64>,
    /// The lower limit.
    pub low: f64,
    /// The upper limit.
    pub high: f64,
}

impl Estimate {
    /// The larger of the two distances to the limits; infinite where there is no estimate.
    pub fn half_width(&self) -> f64 {
        self.value.map_or(f64::INFINITY, |value| (self.high - value).max(value - self.low))
    }

    /// The estimate with symmetric limits, `reach` to either side.
    pub fn around(value: f64, reach: f64) -> Self {
        Self { value: Some(value), low: value - reach, high: value + reach }
    }
}
