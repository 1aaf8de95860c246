//! Numbers rescaled from public bounds to a public span.

use serde::{Deserialize, Serialize};

use super::encoding::EncodingError;

/// The span that bounds are rescaled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// From −1 to 1.
    Signed,
    /// From 0 to 1.
    Unit,
}

/// Clips a number to its bounds and scales it to the span.
///
/// Computed in double precision and then rounded to single.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// The lower bound; everything below it is clipped.
    pub low: f64,
    /// The upper bound; everything above it is clipped.
    pub high: f64,
    /// The span that bounds are rescaled to.
    pub span: Span,
    /// What a missing number becomes, in the span; `None` leaves the row out.
    pub missing: Option<f32>,
}

/// The number, if it is present: NaN and infinities are missing, as a null is.
#[inline]
pub fn present(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

impl Scale {
    pub(super) fn check(&self) -> Result<(), EncodingError> {
        let wide = self.low.is_finite() && self.high.is_finite() && self.low < self.high;
        if !(wide && (self.high - self.low).is_finite()) {
            return Err(EncodingError::Bounds);
        }
        let lowest = match self.span {
            Span::Signed => -1.0,
            Span::Unit => 0.0,
        };
        let spanned = self.missing.is_none_or(|missing| (lowest..=1.0).contains(&missing));
        if spanned { Ok(()) } else { Err(EncodingError::Missing) }
    }

    /// The number in the span, within it for every bit pattern. A number that is missing (null, NaN or infinite) becomes
    /// [`Scale::missing`]; `None` if there is no such number.
    pub fn apply(&self, value: Option<f64>) -> Option<f32> {
        let Some(value) = value.and_then(present) else { return self.missing };
        let share = ((value.clamp(self.low, self.high) - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        Some(match self.span {
            Span::Signed => (2.0 * share - 1.0) as f32,
            Span::Unit => share as f32,
        })
    }
}
