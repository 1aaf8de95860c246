//! Limits of an attempt that are decided before it is charged, from public sizes alone.

use std::time::Duration;

use super::Recipe;
use super::memory::memory_bytes;
use super::refusal::PlanRefusal;
use super::time::time_seconds;
use crate::adapt::Limit;
use crate::stream::StreamFile;

/// What one attempt may use of the machine, as the operator says; a pipeline's file may say less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptLimits {
    /// How long it may take.
    pub time: Option<Duration>,
    /// How much memory it may need, as estimated from its shape.
    pub memory_bytes: Option<u64>,
}

/// A limit that an attempt would exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OverLimit {
    /// Which.
    pub(crate) limit: Limit,
    /// The same for the author of the pipeline.
    pub(crate) refusal: PlanRefusal,
}

impl Recipe {
    /// Refuses an attempt that would need more memory or more time than it may have. The decision and its reason follow
    /// from the pipeline, the stream's file, the limits and a public number of rows, and from nothing else.
    ///
    /// # Errors
    /// With the limit, and about how much the attempt needs.
    pub(crate) fn check_limits(
        &self, file: &StreamFile, rows: Option<f64>, limits: AttemptLimits,
    ) -> Result<(), OverLimit> {
        let over = |limit, why| Err(OverLimit { limit, refusal: PlanRefusal::part("limits", why) });
        let needed = memory_bytes(self, file, rows);
        if let Some(most) = limits.memory_bytes.filter(|most| needed > *most as f64) {
            let why = format!(
                "an attempt needs about {:.0} million bytes of memory and may have {}; raise memory_megabytes in \
                 [limits] if the operator's --attempt-memory allows it, or take a shorter window, fewer categories or \
                 narrower layers",
                needed / 1e6,
                most / 1_000_000
            );
            return over(Limit::Memory, why);
        }
        let seconds = time_seconds(self, file, rows);
        if let Some(most) = limits.time.filter(|most| seconds > most.as_secs_f64()) {
            let why = format!(
                "an attempt takes up to about {:.0} seconds by its public sizes and may take {}; raise time in [limits] \
                 if the operator's --attempt-time allows it, or take fewer epochs, narrower layers or a shorter window",
                seconds.ceil(),
                most.as_secs()
            );
            return over(Limit::Time, why);
        }
        Ok(())
    }
}
