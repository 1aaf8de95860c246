//! The operator's settings for this machine: limits of attempts, for all pipelines, and the number of threads.
//!
//! Every command that performs or previews attempts has the limits, and every command that computes has the threads.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use sage_engine::stream::Width;
use sage_engine::{AttemptLimits, EngineOptions};

use crate::commands::simulate::SchedulerName;

/// The largest number of threads that `--threads` accepts. The operating system may refuse to start many more.
const MAX_THREADS: usize = 1024;

/// The limits of one attempt, how programs are run, and the scheduler.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OperatorArgs {
    /// The longest time that an attempt may take, such as 90s, 30m or 2h; a pipeline file can only lower it [default: no limit]
    #[arg(long, value_name = "TIME", env = "SAGE_ATTEMPT_TIME", value_parser = time)]
    attempt_time: Option<Duration>,

    /// The most memory that an attempt may use, in megabytes; a pipeline file can only lower it [default: no limit]
    #[arg(long, value_name = "MEGABYTES", env = "SAGE_ATTEMPT_MEMORY", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    attempt_memory: Option<u64>,

    /// The scheduler that decides which waiting pipeline comes first
    #[arg(long, value_name = "NAME", env = "SAGE_SCHEDULER", value_enum, default_value = "even-split")]
    scheduler: SchedulerName,

    /// Run programs of pipelines without a sandbox; the value names the person who accepts the risk [default: sandbox only]
    #[arg(long, value_name = "NAME", env = "SAGE_UNCONTAINED", value_parser = NonEmptyStringValueParser::new())]
    uncontained: Option<String>,

    /// A folder that programs of pipelines can read, such as one with Python packages; can be repeated
    #[arg(long, value_name = "FOLDER", env = "SAGE_SHOW", value_delimiter = ',')]
    show: Vec<PathBuf>,
}

impl OperatorArgs {
    /// The options of a directory with the limits of the operator.
    pub(crate) fn apply(&self, options: EngineOptions) -> EngineOptions {
        let memory_bytes = self.attempt_memory.map(|megabytes| megabytes * 1_000_000);
        EngineOptions {
            scheduler: sage_server::views::simulation::SchedulerName::from(self.scheduler).scheduler(),
            uncontained: self.uncontained.clone(),
            shown: self.show.clone(),
            limits: AttemptLimits { time: self.attempt_time, memory_bytes },
            ..options
        }
    }
}

/// The number of threads of a command that computes.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ThreadArgs {
    /// The number of threads; results do not depend on it [default: the available processors]
    #[arg(long, value_name = "NUMBER", env = "SAGE_THREADS", value_parser = thread_count)]
    threads: Option<NonZeroUsize>,
}

impl ThreadArgs {
    /// Sets the number of threads of this process. Call it before the directory is opened.
    pub(crate) fn apply(self) {
        if let Some(count) = self.threads {
            sage_engine::set_threads(count);
        }
    }
}

/// Parses a number of threads, from 1 to [`MAX_THREADS`].
fn thread_count(text: &str) -> Result<NonZeroUsize, String> {
    let count = text.parse().ok().filter(|count: &NonZeroUsize| count.get() <= MAX_THREADS);
    count.ok_or_else(|| format!("expected a whole number from 1 to {MAX_THREADS}"))
}

/// Parses a duration. Streams and pipelines count in minutes; an operator can also set seconds.
fn time(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').and_then(|digits| digits.parse::<u32>().ok()).filter(|seconds| *seconds > 0);
    let longer = || Width::parse(text).map(|width| Duration::from_micros(width.microseconds().unsigned_abs()));
    let time = seconds.map(|seconds| Duration::from_secs(u64::from(seconds))).or_else(longer);
    time.ok_or_else(|| "a length of time such as 90s, 30m, 2h or 1d is wanted".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn thread_counts_are_small_positive_integers() {
        for (text, count) in [("1", 1), ("8", 8), ("1024", MAX_THREADS)] {
            assert_eq!(thread_count(text).map(NonZeroUsize::get), Ok(count), "{text}");
        }
        for text in ["", "0", "-1", "1.5", "two", "1025", "99999999999999999999"] {
            assert!(thread_count(text).is_err(), "{text}");
        }
    }

    /// The flag of every command that computes reaches the engine.
    #[test]
    fn commands_that_compute_take_threads() {
        for line in [
            "serve",
            "work",
            "submit -",
            "ingest taxi -",
            "query taxi SELECT",
            "demo",
            "generate taxi --rows 1 --start 2026-01-01 --out rides",
        ] {
            let words = |count| ["sage"].into_iter().chain(line.split(' ')).chain(["--threads", count]);
            assert!(Cli::try_parse_from(words("3")).is_ok(), "{line}");
            let error = Cli::try_parse_from(words("0")).expect_err(line).to_string();
            assert!(error.contains("a whole number from 1 to 1024"), "{line}: {error}");
        }
        ThreadArgs { threads: NonZeroUsize::new(3) }.apply();
        assert_eq!(sage_engine::threads(), 3);
    }

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
