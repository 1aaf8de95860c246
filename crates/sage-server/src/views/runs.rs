//! Runs: their attempts, the reasons of their status, and hints.
//!
//! Everything here was released or is public: verdicts, private estimates, keys of blocks, costs.

use sage_engine::adapt::Verdict;
use sage_engine::pipeline::{Goal, Pipeline, Train, Validate};
use sage_engine::run::Report;
use sage_engine::{AttemptOutcome, AttemptView, Engine, EngineError, Epsilon, Hint as EngineHint, RunView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::releases::ReleaseKind;
use super::{Decimal, Interval};
use crate::conclusion::conclusion;
use crate::format::{blocks, rounded_up, timestamp};

/// A run without its attempts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunSummary {
    /// Its number.
    pub run: u64,
    /// The pipeline.
    pub pipeline: String,
    /// The stream.
    pub stream: String,
    /// Who submitted it.
    pub by: String,
    /// When it was submitted.
    pub submitted: String,
    /// Its status in words.
    pub status: String,
    /// Whether it has ended.
    pub over: bool,
    /// How many attempts it made.
    pub attempts: u64,
    /// What it released, as `name@version`.
    pub release: Option<String>,
}

/// A page of runs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Runs")]
pub struct RunsPage {
    /// The runs, the oldest first.
    pub runs: Vec<RunSummary>,
    /// Where the next page starts.
    pub next: Option<u64>,
}

/// A run with its attempts and what would unblock it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Its number.
    pub run: u64,
    /// The pipeline.
    pub pipeline: String,
    /// What the pipeline releases; `null` where this release of Sage cannot read its file.
    #[serde(default)]
    pub kind: Option<ReleaseKind>,
    /// The stream.
    pub stream: String,
    /// Who submitted it.
    pub by: String,
    /// When it was submitted.
    pub submitted: String,
    /// Its status in words.
    pub status: String,
    /// Whether it has ended.
    pub over: bool,
    /// Its attempts.
    pub attempts: Vec<Attempt>,
    /// What it released, as `name@version`.
    pub release: Option<String>,
    /// The target, in words.
    pub target: Option<String>,
    /// The target of each metric, in words. The first estimates of an attempt are theirs, in this order.
    #[serde(default)]
    pub targets: Vec<String>,
    /// What it waits for.
    pub waits_for: Option<Waiting>,
    /// What would unblock it.
    pub options: Vec<Hint>,
    /// The reason of its status.
    pub why: String,
    /// What to do next.
    pub help: String,
}

/// One attempt of a run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// What it costs each block.
    pub epsilon: Option<Decimal>,
    /// How many blocks it reads.
    pub blocks: u32,
    /// The first and the last key of each range of its blocks.
    pub block_ranges: Vec<[String; 2]>,
    /// How it ended; `null` while it is in progress.
    pub verdict: Option<String>,
    /// What its test found.
    pub estimates: Option<Vec<Interval>>,
    /// The confidence with which the limits of the estimates hold.
    pub confidence: Option<f64>,
    /// Why its first estimate is uncertain.
    #[serde(default)]
    pub uncertainty: Option<Uncertainty>,
    /// The same metric of the best constant prediction, where it is known.
    #[serde(default)]
    pub best_constant: Option<Interval>,
    /// The reason of the verdict.
    pub reason: Option<String>,
}

/// Why an estimate is uncertain, in its own units: how far its limit on the side of the target is from it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Uncertainty {
    /// The part that more rows reduce.
    pub sampling: f64,
    /// The part that more rows or a larger epsilon reduce.
    pub noise: f64,
    /// By how much the estimate itself misses the target; negative if it meets the target.
    pub missed_by: f64,
}

/// What a run waits for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// The number of blocks that it needs.
    pub blocks: u32,
    /// What the attempt costs each of them.
    pub epsilon_on_each: Decimal,
    /// Blocks whose budget admits the attempt.
    pub blocks_that_admit_it: u32,
    /// Those of them on which the run may spend that much now.
    pub blocks_free_now: u32,
    /// Sealed blocks.
    pub sealed_blocks: u32,
    /// When the run gives up.
    pub until: Option<String>,
}

/// One thing that would unblock a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Hint {
    /// More sealed blocks that admit the attempt.
    WaitForBlocks {
        /// How many more.
        more: u32,
    },
    /// A larger share of the existing blocks.
    LargerShare,
    /// A larger window.
    LargerWindow {
        /// The limit in the pipeline's file.
        now_at_most: u32,
    },
    /// More doublings of the window.
    MoreDataDoublings {
        /// The limit in the pipeline's file.
        now_at_most: u32,
    },
    /// A larger cost of an attempt.
    MoreBudget,
    /// More attempts.
    MoreAttempts {
        /// The limit in the pipeline's file.
        now_at_most: u32,
    },
    /// A looser target.
    LooserTarget {
        /// A target that the last test would have met.
        met_by_the_last_test: f64,
    },
    /// A hint that this release of Sage does not know.
    Other,
}

impl From<&EngineHint> for Hint {
    fn from(hint: &EngineHint) -> Self {
        match *hint {
            EngineHint::Blocks(more) => Self::WaitForBlocks { more },
            EngineHint::Share => Self::LargerShare,
            EngineHint::Window(most) => Self::LargerWindow { now_at_most: most },
            EngineHint::Doublings(most) => Self::MoreDataDoublings { now_at_most: most },
            EngineHint::Budget => Self::MoreBudget,
            EngineHint::Attempts(most) => Self::MoreAttempts { now_at_most: most },
            EngineHint::Target(target) => Self::LooserTarget { met_by_the_last_test: target },
            _ => Self::Other,
        }
    }
}

impl Hint {
    /// The hint in words.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        Some(match *self {
            Self::WaitForBlocks { more } => format!("wait for {} more that admit the attempt", blocks(more)),
            Self::LargerShare => {
                "wait until runs that came earlier have made their next attempts or end, or cancel one that is yours"
                    .to_owned()
            }
            Self::LargerWindow { now_at_most } => {
                format!("a larger window: raise window.max in [pipeline], now {}", blocks(now_at_most))
            }
            Self::MoreDataDoublings { now_at_most } => {
                format!("a larger window: raise data_doublings in [adapt], now {now_at_most}")
            }
            Self::MoreBudget => "a larger share of the budget: raise epsilon_max in [budget]".to_owned(),
            Self::MoreAttempts { now_at_most } => format!("more tries: raise attempts in [adapt], now {now_at_most}"),
            Self::LooserTarget { met_by_the_last_test } => {
                format!("a looser target: the last test would have met {met_by_the_last_test:.6}")
            }
            Self::Other => return None,
        })
    }
}

impl RunSummary {
    /// The summary of a run.
    #[must_use]
    pub fn new(engine: &Engine, run: &RunView) -> Self {
        Self {
            run: run.number,
            pipeline: run.pipeline.clone(),
            stream: run.stream.clone(),
            by: run.by.clone(),
            submitted: timestamp(run.submitted),
            status: run.status().to_owned(),
            over: run.outcome().is_some(),
            attempts: run.attempts.len() as u64,
            release: released_by(engine, run),
        }
    }
}

impl Run {
    /// Everything about a run.
    ///
    /// # Errors
    /// When there is no run of this number, or the log cannot be read.
    pub fn read(engine: &Engine, number: u64) -> Result<Self, EngineError> {
        let run = engine.run(number).ok_or(EngineError::NoRun(number))?;
        let losses = engine.attempt_losses(number)?;
        let waiting = engine.waiting(number)?;
        let (why, help) = conclusion(engine, &run, waiting.as_ref());
        let summary = RunSummary::new(engine, &run);
        Ok(Self {
            run: summary.run,
            pipeline: summary.pipeline,
            kind: kind(&run),
            stream: summary.stream,
            by: summary.by,
            submitted: summary.submitted,
            status: summary.status,
            over: summary.over,
            attempts: run.attempts.iter().zip(losses).map(|(one, lost)| Attempt::new(one, lost)).collect(),
            release: summary.release,
            target: Some(targets(&run).join(" and ")).filter(|target| !target.is_empty()),
            targets: targets(&run),
            waits_for: waiting.map(|waiting| Waiting {
                blocks: waiting.blocks,
                epsilon_on_each: Decimal::from_exact(waiting.epsilon),
                blocks_that_admit_it: waiting.admit,
                blocks_free_now: waiting.free,
                sealed_blocks: waiting.sealed,
                until: waiting.deadline.map(timestamp),
            }),
            options: engine.hints(number)?.iter().map(Hint::from).collect(),
            why,
            help,
        })
    }

    /// The run in words.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "run {}: {} on stream {}, submitted by {} at {}: {}\n",
            self.run, self.pipeline, self.stream, self.by, self.submitted, self.status
        );
        for attempt in &self.attempts {
            text += &format!("\n{}\n  {}\n", attempt.text(), attempt.verdict_text());
            // The reason of a statistic covers all its lines; the loss of a model is its first estimate.
            let estimates = attempt.estimates.as_deref().unwrap_or_default();
            let shown = estimates.len() == 1 || self.kind != Some(ReleaseKind::Statistic);
            let shown = estimates.iter().filter(|_| shown).zip(&self.targets);
            for (found, target) in shown {
                let found = interval_text(found, attempt.confidence.unwrap_or_default());
                text += &format!("  {found} against a target of {target}\n");
            }
        }
        let others = self.options.iter().filter_map(Hint::text).map(|other| format!("  or    {other}\n"));
        format!("{text}\n{}\n  help  {}\n{}", self.why, self.help, others.collect::<String>())
    }
}

impl Attempt {
    /// An attempt and what it costs each block.
    #[must_use]
    pub fn new(one: &AttemptView, lost: Option<Epsilon>) -> Self {
        let report = match &one.outcome {
            Some(AttemptOutcome::Judged(report)) => Some(report),
            _ => None,
        };
        Self {
            attempt: one.attempt.index,
            epsilon: lost.map(Decimal::from_exact),
            blocks: one.attempt.window,
            block_ranges: one.blocks.iter().map(|(first, last)| [first.clone(), last.clone()]).collect(),
            verdict: one.outcome.as_ref().map(|outcome| verdict_word(outcome).to_owned()),
            estimates: report.map(|report| report.estimates.iter().map(Interval::from).collect()),
            confidence: report.map(|report| report.confidence),
            uncertainty: report.and_then(|report| report.uncertainty).map(|parts| Uncertainty {
                sampling: parts.sampling,
                noise: parts.noise,
                missed_by: parts.missed_by,
            }),
            best_constant: report.and_then(|report| report.best_constant.as_ref()).map(Interval::from),
            reason: reason(one).map(str::to_owned),
        }
    }

    /// What the attempt reads and costs.
    #[must_use]
    pub fn text(&self) -> String {
        /// How many ranges of blocks are listed.
        const SHOWN: usize = 3;
        let range = |[first, last]: &[String; 2]| match first == last {
            true => first.clone(),
            false => format!("{first} to {last}"),
        };
        let mut ranges: Vec<String> = self.block_ranges.iter().take(SHOWN).map(range).collect();
        if self.block_ranges.len() > SHOWN {
            ranges.push("and others".to_owned());
        }
        let cost = self
            .epsilon
            .as_ref()
            .map_or_else(String::new, |epsilon| format!("epsilon {} on each of ", rounded_up(epsilon.to_f64())));
        format!("attempt {}: {cost}{}: {}", self.attempt, blocks(self.blocks), ranges.join(", "))
    }

    /// How the attempt ended and why.
    #[must_use]
    pub fn verdict_text(&self) -> String {
        match (&self.verdict, &self.reason) {
            (Some(verdict), Some(reason)) => format!("{verdict}: {reason}"),
            (Some(verdict), None) => verdict.clone(),
            (None, _) => "not over".to_owned(),
        }
    }
}

/// What an attempt reads and costs.
#[must_use]
pub fn attempt_text(one: &AttemptView, lost: Option<Epsilon>) -> String {
    Attempt::new(one, lost).text()
}

/// How an attempt ended and why.
#[must_use]
pub fn verdict_text(one: &AttemptView) -> String {
    Attempt::new(one, None).verdict_text()
}

/// How an attempt ended, in a word.
#[must_use]
pub const fn verdict_word(outcome: &AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Refused => "refused",
        AttemptOutcome::Withdrawn => "withdrawn",
        AttemptOutcome::Lost(_) => "lost",
        AttemptOutcome::Judged(Report { verdict: Verdict::Accept, .. }) => "accept",
        AttemptOutcome::Judged(Report { verdict: Verdict::Reject, .. }) => "reject",
        AttemptOutcome::Judged(Report { verdict: Verdict::Retry, .. }) => "retry",
    }
}

/// What a run released, as `name@version`.
#[must_use]
pub fn released_by(engine: &Engine, run: &RunView) -> Option<String> {
    let own = engine.releases().into_iter().find(|release| release.run == run.number)?;
    Some(format!("{}@{}", own.name, own.version))
}

fn reason(one: &AttemptView) -> Option<&str> {
    match one.outcome.as_ref()? {
        AttemptOutcome::Refused => Some("the ledger refused it; nothing was spent"),
        AttemptOutcome::Withdrawn => Some("its charge was taken back; nothing was spent"),
        AttemptOutcome::Lost(reason) => Some(reason),
        AttemptOutcome::Judged(report) => Some(&report.explanation),
    }
}

fn interval_text(found: &Interval, confidence: f64) -> String {
    let short = |number: f64| format!("{number:.6}").trim_end_matches('0').trim_end_matches('.').to_owned();
    let number = |number: Option<f64>, none: &str| number.map_or_else(|| none.to_owned(), short);
    format!(
        "{} (from {} to {}, confidence {} %)",
        number(found.value, "nothing that stands out from the noise"),
        number(found.low, "no limit"),
        number(found.high, "no limit"),
        short(100.0 * confidence),
    )
}

fn kind(run: &RunView) -> Option<ReleaseKind> {
    Pipeline::parse(&run.text).ok().map(|own| match own.train {
        Train::Statistic(_) => ReleaseKind::Statistic,
        _ => ReleaseKind::Model,
    })
}

/// What each metric of the pipeline has to reach.
fn targets(run: &RunView) -> Vec<String> {
    let Some(validate) = Pipeline::parse(&run.text).ok().and_then(|own| own.validate) else { return Vec::new() };
    let target = |one: &Validate| {
        let (metric, direction) = (one.metric.kind().heading, one.metric.test().direction());
        match &one.goal {
            Goal::Target(target) => format!("{metric} of {direction} {target}"),
            Goal::BetterThan { alias, margin } => format!("{metric} better by {margin} than that of {alias}"),
        }
    };
    validate.all().map(target).collect()
}
