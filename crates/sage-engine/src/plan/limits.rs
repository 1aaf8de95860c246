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

/// The memory of this machine in bytes; `None` where it is not known.
fn machine_memory_bytes() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024.0 * kibibytes)
}

impl Recipe {
    /// Refuses a pipeline whose shape alone needs more memory than the machine has, whatever the number of rows.
    ///
    /// # Errors
    /// With both sizes.
    pub(crate) fn check_machine(&self, file: &StreamFile) -> Result<(), PlanRefusal> {
        self.check_memory(file, machine_memory_bytes().unwrap_or(f64::INFINITY))
    }

    fn check_memory(&self, file: &StreamFile, most: f64) -> Result<(), PlanRefusal> {
        let needed = estimate_memory_bytes(self, file, None);
        if needed <= most {
            return Ok(());
        }
        let why = format!(
            "an attempt needs about {:.0} million bytes of memory without its rows, and this machine has {:.0} million; \
             use fewer categories or hash buckets, or narrower layers",
            needed / 1e6,
            most / 1e6
        );
        Err(PlanRefusal::part("limits", why))
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::TAXI;
    use crate::pipeline::Pipeline;
    use crate::plan::NoTables;

    #[test]
    fn a_shape_that_does_not_fit_into_memory_is_refused() {
        let text = "[pipeline]\nname = \"line\"\nstream = \"taxi\"\nlabel = { sql = \"duration / 3600\", bounds = [0, 2.5] }\n\
                    features = [{ column = \"distance\", scale = [0, 30] }]\n[train]\nkind = \"mlp\"\n\
                    layers = [32768, 32768]\nrows = 1000\n[validate]\nmetric = \"mse\"\ntarget = 0.1\nbound = 1.0\n";
        let file = StreamFile::parse(TAXI).expect("a file");
        let recipe = Recipe::new(Pipeline::parse(text).expect("a pipeline"), &file, &NoTables).expect("a recipe");
        // Each of the 2^30 weights takes 56 bytes.
        assert_eq!(recipe.check_memory(&file, 64e9), Ok(()));
        let refused = recipe.check_memory(&file, 32e9).expect_err("too large").to_string();
        for word in ["limits: ", "of memory without its rows", "this machine has 32000 million", "narrower layers"] {
            assert!(refused.contains(word), "{refused}");
        }
    }
}
