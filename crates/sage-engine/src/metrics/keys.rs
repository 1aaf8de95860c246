//! The keys of `[validate]`, as a metric parses them.

use crate::document::Section;
use crate::pipeline::{PipelineFileError, read_number};

/// The keys of `[validate]`. Errors name the line, the key and the allowed values.
pub struct MetricKeys<'file>(Section<'file>);

impl<'file> MetricKeys<'file> {
    pub(crate) const fn new(section: Section<'file>) -> Self {
        Self(section)
    }

    /// A finite number that satisfies `fits`, or the default if the key is absent.
    ///
    /// # Errors
    /// If the value is not such a number, or the key is absent and has no default.
    pub fn number(
        &self, key: &str, allowed: &str, default: Option<f64>, fits: impl Fn(f64) -> bool,
    ) -> Result<f64, PipelineFileError> {
        read_number(&self.0, key, allowed, default, fits)
    }

    /// The key `bound`: the clipping bound of one row's loss.
    ///
    /// # Errors
    /// If it is absent or out of range.
    pub fn bound(&self) -> Result<f64, PipelineFileError> {
        const BOUND: &str = "a number above 0 and at most 1000000000: the clipping bound of one row's loss";
        self.number("bound", BOUND, None, |bound| bound > 0.0 && bound <= 1e9)
    }
}
