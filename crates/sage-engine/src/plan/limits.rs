//! Resource limits of an attempt, checked before it is charged, from public sizes only.

use std::time::Duration;

use super::Recipe;
use super::memory::estimate_memory_bytes;
use super::refusal::PlanRefusal;
use super::time::estimate_seconds;
use crate::adapt::Limit;
use crate::stream::StreamFile;

/// The operator's resource limits of one attempt. A pipeline file may set lower ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptLimits {
    /// The time limit.
    pub time: Option<Duration>,
    /// The memory limit, compared with an estimate.
    pub memory_bytes: Option<u64>,
}

/// A limit that an attempt would exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExceededLimit {
    /// The limit.
    pub(crate) limit: Limit,
    /// The message for the author of the pipeline.
    pub(crate) refusal: PlanRefusal,
}

impl Recipe {
    /// Refuses an attempt whose estimated memory or time exceeds the limits. The decision and the message depend only
    /// on the pipeline, the stream file, the limits and a public number of rows.
    ///
    /// # Errors
    /// With the exceeded limit and the estimate.
    pub(crate) fn check_limits(
        &self, file: &StreamFile, rows: Option<f64>, limits: AttemptLimits,
    ) -> Result<(), ExceededLimit> {
        let over = |limit, why| Err(ExceededLimit { limit, refusal: PlanRefusal::part("limits", why) });
        let needed = estimate_memory_bytes(self, file, rows);
        if let Some(most) = limits.memory_bytes.filter(|most| needed > *most as f64) {
            let why = format!(
                "an attempt needs about {:.0} million bytes of memory and the limit is {}; raise memory_megabytes in \
                 [limits] if the operator's --attempt-memory allows it, or take a shorter window, fewer categories or \
                 narrower layers",
                needed / 1e6,
                most / 1_000_000
            );
            return over(Limit::Memory, why);
        }
        let seconds = estimate_seconds(self, file, rows);
        if let Some(most) = limits.time.filter(|most| seconds > most.as_secs_f64()) {
            let why = format!(
                "an attempt takes up to about {:.0} seconds by its public sizes and the limit is {}; raise time in \
                 [limits] if the operator's --attempt-time allows it, or take fewer epochs, narrower layers or a shorter window",
                seconds.ceil(),
                most.as_secs()
            );
            return over(Limit::Time, why);
        }
        Ok(())
    }
}
