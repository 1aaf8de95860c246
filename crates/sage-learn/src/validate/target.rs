//! The targets of validators. A target that cannot be tested, or that every model meets, cannot be constructed.

use std::fmt;

use sage_kernel::Range;

/// A parameter out of its range; the text names it and says what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange(pub(super) &'static str);

impl fmt::Display for OutOfRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.0)
    }
}

impl std::error::Error for OutOfRange {}

/// A mean loss to stay below, for losses clipped to a range from zero to a bound.
///
/// # Guarantee
/// The target over the bound is strictly between zero and one, and the range exists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossTarget {
    pub(super) target: f64,
    pub(super) bound: f64,
    pub(super) range: Range,
}

impl LossTarget {
    /// The mean of losses clipped to `bound` must be below `target`.
    ///
    /// # Errors
    /// Unless both are finite and 0 < target < bound. A target at the bound is met by every model.
    pub fn new(target: f64, bound: f64) -> Result<Self, OutOfRange> {
        let bad = OutOfRange("a loss target is above zero and below the largest loss, and both are finite");
        let share = target / bound;
        let fine = target > 0.0 && bound.is_finite() && (f64::MIN_POSITIVE..1.0).contains(&share);
        let range = Range::new(0.0, bound).ok_or(bad)?;
        fine.then_some(Self { target, bound, range }).ok_or(bad)
    }

    /// The target as a share of the bound.
    pub fn share(self) -> f64 {
        self.target / self.bound
    }

    /// The mean loss to stay below.
    pub const fn target(self) -> f64 {
        self.target
    }

    /// The bound that losses are clipped to.
    pub const fn bound(self) -> f64 {
        self.bound
    }
}

/// An accuracy to exceed.
///
/// # Guarantee
/// Strictly between zero and one.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct AccuracyTarget(f64);

impl AccuracyTarget {
    /// This share.
    ///
    /// # Errors
    /// Unless it is strictly between zero and one.
    pub fn new(share: f64) -> Result<Self, OutOfRange> {
        let fine = (f64::MIN_POSITIVE..1.0).contains(&share);
        fine.then_some(Self(share)).ok_or(OutOfRange("an accuracy target is strictly between zero and one"))
    }

    /// The share.
    pub const fn share(self) -> f64 {
        self.0
    }
}

/// An area under the ROC curve to exceed.
///
/// # Guarantee
/// Strictly between one half, which every constant reaches, and one.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct AucTarget(f64);

impl AucTarget {
    /// This area.
    ///
    /// # Errors
    /// Unless it is strictly between one half and one.
    pub fn new(area: f64) -> Result<Self, OutOfRange> {
        let fine = area > 0.5 && area < 1.0;
        fine.then_some(Self(area)).ok_or(OutOfRange("an area under the ROC curve to exceed is above 0.5 and below 1"))
    }

    /// The area.
    pub const fn area(self) -> f64 {
        self.0
    }
}

/// The margin by which a new model's mean loss must be below that of a released one, on the same rows.
///
/// # Guarantee
/// The margin is at least zero and below the bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparisonTarget {
    pub(super) margin: f64,
    pub(super) bound: f64,
}

impl ComparisonTarget {
    /// Both models' losses are clipped to `bound`; the new one's mean must be lower by more than `margin`.
    ///
    /// # Errors
    /// Unless both are finite and 0 ≤ margin < bound.
    pub fn new(margin: f64, bound: f64) -> Result<Self, OutOfRange> {
        let fine = bound.is_finite() && bound >= f64::MIN_POSITIVE && margin >= 0.0 && 0.5 - margin / bound / 2.0 > 0.0;
        fine.then_some(Self { margin, bound }).ok_or(OutOfRange("a margin is from zero to below the largest loss"))
    }

    /// The target for the share (new − old) / (2 bound) + 1/2.
    pub fn share(self) -> f64 {
        0.5 - self.margin / self.bound / 2.0
    }

    /// A row's normalised difference. NaN counts as the largest loss of the new model and as no loss of the old one,
    /// so that the new model never looks better than it is.
    pub fn of_row(self, new: f64, old: f64) -> f64 {
        let new = if new.is_nan() { self.bound } else { new.clamp(0.0, self.bound) };
        let old = if old.is_nan() { 0.0 } else { old.clamp(0.0, self.bound) };
        (new / self.bound - old / self.bound) / 2.0 + 0.5
    }
}

/// How close a released mean must be to the true one.
///
/// # Guarantee
/// Finite and above zero.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct PrecisionTarget(f64);

impl PrecisionTarget {
    /// The largest distance, to either side.
    ///
    /// # Errors
    /// Unless it is finite and above zero.
    pub fn new(distance: f64) -> Result<Self, OutOfRange> {
        let fine = distance.is_finite() && distance > 0.0;
        fine.then_some(Self(distance)).ok_or(OutOfRange("a precision is a finite number above zero"))
    }

    /// The distance.
    pub const fn distance(self) -> f64 {
        self.0
    }
}
