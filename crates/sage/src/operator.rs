//! The operator's limits of attempts on this machine, for all pipelines.
//!
//! Every command that performs or previews attempts has these flags.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use sage_engine::stream::Width;
use sage_engine::{AttemptLimits, Places};

use crate::commands::simulate::SchedulerName;

/// What one attempt may use, how programs are run, and the scheduler.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OperatorArgs {
    /// The longest that an attempt may take, such as 90s, 30m or 2h; a pipeline's file may say less [default: no limit]
    #[arg(long, value_name = "TIME", env = "SAGE_ATTEMPT_TIME", value_parser = time)]
    attempt_time: Option<Duration>,

    /// The most megabytes of memory that an attempt may need; a pipeline's file may say less [default: no limit]
    #[arg(long, value_name = "MEGABYTES", env = "SAGE_ATTEMPT_MEMORY", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    attempt_memory: Option<u64>,

    /// BlockSelection waiting pipeline comes first
    #[arg(long, value_name = "NAME", env = "SAGE_SCHEDULER", value_enum, default_value = "even-split")]
    scheduler: SchedulerName,

    /// Run programs of pipelines without a sandbox; the value names the person who accepts the risk [default: sandbox only]
    #[arg(long, value_name = "NAME", env = "SAGE_UNCONTAINED", value_parser = NonEmptyStringValueParser::new())]
    uncontained: Option<String>,

    /// A folder that programs of pipelines are shown, read-only, such as one with Python packages; repeats
    #[arg(long, value_name = "FOLDER", env = "SAGE_SHOW", value_delimiter = ',')]
    show: Vec<PathBuf>,
}

impl OperatorArgs {
    /// The options of a directory with the limits of the operator.
    pub(crate) fn apply(&self, places: Places) -> Places {
        let memory_bytes = self.attempt_memory.map(|megabytes| megabytes * 1_000_000);
        Places {
            scheduler: sage_server::views::simulation::SchedulerName::from(self.scheduler).scheduler(),
            uncontained: self.uncontained.clone(),
            shown: self.show.clone(),
            limits: AttemptLimits { time: self.attempt_time, memory_bytes },
            ..places
        }
    }
}

/// A length of time. Streams and pipelines count in minutes; an operator may be stricter.
fn time(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').and_then(|digits| digits.parse::<u32>().ok()).filter(|seconds| *seconds > 0);
    let longer = || Width::parse(text).map(|width| Duration::from_micros(width.microseconds().unsigned_abs()));
    let time = seconds.map(|seconds| Duration::from_secs(u64::from(seconds))).or_else(longer);
    time.ok_or_else(|| "a length of time such as 90s, 30m, 2h or 1d is wanted".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("1s", 1), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86_400)] {
            assert_eq!(time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "0s", "-1s", "1.5h", "90", "1y", "+1s s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
