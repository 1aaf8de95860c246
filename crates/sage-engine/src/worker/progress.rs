//! Progress events of attempts in progress. They are published but not stored in the log.
//!
//! They have their own sequence numbers, which restart whenever the directory is opened. An event names the stage of an
//! attempt and, in steps of ten percent, how many of its planned steps are done. Its content does not depend on rows,
//! but its timing does, as for every event of a run, so it is shown only to principals who may see the run. The watcher
//! also ends attempts that exceed their time limit.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::api::{AttemptLimits, Engine, lock, now};
use crate::pipeline::Pipeline;
use crate::run::{AttemptFailure, AttemptObserver, Stage};
use crate::worker::run_loop::Job;

/// A progress event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressView {
    /// Its sequence number since the directory was opened.
    pub number: u64,
    /// The time in milliseconds since 1970.
    pub time: u64,
    /// The stream.
    pub stream: String,
    /// The run.
    pub run: u64,
    /// The serial number of the attempt.
    pub attempt: u32,
    /// The stage of the attempt.
    pub stage: Stage,
    /// The percentage of its steps that are done, in multiples of ten; `None` for stages without steps.
    pub percent: Option<u8>,
}

/// The most recent progress events.
#[derive(Default)]
pub(crate) struct Progress {
    next: u64,
    kept: VecDeque<ProgressView>,
}

/// The number of events kept for clients that poll late.
const KEPT: usize = 4096;
/// The number of progress reports per stage.
const PARTS: u32 = 10;

impl Engine {
    /// At most `most` progress events, starting with sequence number `from`, as far as they are kept.
    pub fn progress(&self, from: u64, most: usize) -> Vec<ProgressView> {
        let progress = lock(&self.progress);
        let first = progress.kept.partition_point(|one| one.number < from);
        progress.kept.range(first..).take(most).cloned().collect()
    }

    /// The sequence number of the next progress event.
    pub fn progress_length(&self) -> u64 {
        lock(&self.progress).next
    }
}

/// Reports the progress of an attempt and enforces its time limit.
pub(crate) struct Watcher<'engine> {
    engine: &'engine Engine,
    run: u64,
    attempt: u32,
    stream: String,
    started: Instant,
    time: Option<Duration>,
    /// The last part of the steps that was reported.
    part: AtomicU32,
    /// The last stage.
    stage: Mutex<Stage>,
}

impl<'engine> Watcher<'engine> {
    pub(crate) fn new(engine: &'engine Engine, job: &Job) -> Self {
        Self {
            engine,
            run: job.run,
            attempt: job.attempt.index,
            stream: job.recipe.pipeline().stream.clone(),
            started: Instant::now(),
            time: engine.attempt_limits(job.recipe.pipeline()).time,
            part: AtomicU32::new(u32::MAX),
            stage: Mutex::new(Stage::Charged),
        }
    }

    /// Whether the attempt is, or has ended, in training or validation: no file is read or written there.
    pub(crate) fn is_computing(&self) -> bool {
        matches!(*lock(&self.stage), Stage::Training | Stage::Validating)
    }

    fn tell(&self, stage: Stage, percent: Option<u8>) {
        // When an attempt enters a stage depends on rows.
        if self.engine.answer_interval(&self.stream).is_some() {
            return;
        }
        let mut progress = lock(&self.engine.progress);
        let number = progress.next;
        progress.next += 1;
        if progress.kept.len() == KEPT {
            progress.kept.pop_front();
        }
        let (run, attempt, stream) = (self.run, self.attempt, self.stream.clone());
        progress.kept.push_back(ProgressView { number, time: now(), stream, run, attempt, stage, percent });
    }

    /// Ends an attempt that has exceeded its time limit. Its duration depends on rows, so the reason is the same as for
    /// every attempt without a result.
    fn in_time(&self) -> Result<(), AttemptFailure> {
        match self.time {
            Some(limit) if self.started.elapsed() >= limit => Err(AttemptFailure::without_result()),
            _ => Ok(()),
        }
    }
}

impl AttemptObserver for Watcher<'_> {
    fn enter(&self, stage: Stage) -> Result<(), AttemptFailure> {
        *lock(&self.stage) = stage;
        self.tell(stage, None);
        match stage {
            // Before the first row there is nothing to stop, and after the verdict nothing to gain by it.
            Stage::Charged | Stage::Reading | Stage::Releasing => Ok(()),
            Stage::Training | Stage::Validating => self.in_time(),
        }
    }

    fn step(&self, done: u32, of: u32) -> Result<(), AttemptFailure> {
        let part = u64::from(done) * u64::from(PARTS) / u64::from(of.max(1));
        let part = u32::try_from(part).unwrap_or(PARTS);
        if self.part.swap(part, Ordering::Relaxed) != part {
            let percent = u8::try_from(part * 100 / PARTS).ok();
            self.tell(Stage::Training, percent);
            if !self.engine.is_running(self.run) {
                return Err(AttemptFailure("the run was stopped".to_owned()));
            }
        }
        self.in_time()
    }
}

impl Engine {
    /// The limits of an attempt: the lower of those in the pipeline file and those of the operator.
    pub(crate) fn attempt_limits(&self, pipeline: &Pipeline) -> AttemptLimits {
        let time = pipeline.limits.time.map(|width| Duration::from_micros(width.microseconds().unsigned_abs()));
        let memory_bytes = pipeline.limits.memory_megabytes.map(|megabytes| u64::from(megabytes) * 1_000_000);
        let operator = self.options.limits;
        AttemptLimits {
            time: time.into_iter().chain(operator.time).min(),
            memory_bytes: memory_bytes.into_iter().chain(operator.memory_bytes).min(),
        }
    }
}
