//! How far attempts are, while they are performed: events that are told and not kept.
//!
//! They stand beside the events of the log, with numbers of their own that begin anew with each opening of the
//! directory. They say which stage an attempt is in and, in tenths, how many of its planned steps are done; nothing
//! in them was computed from rows. When they come depends on rows, as with every event of a run, so they are for those
//! who may see the run. Whoever looks on here also ends attempts whose time is over.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::drive::Job;
use super::{AttemptLimits, Engine, lock, now};
use crate::pipeline::Pipeline;
use crate::run::{AttemptFailure, AttemptObserver, Stage};

/// How far an attempt is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressView {
    /// Its number among those of this opening.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub time: u64,
    /// The stream.
    pub stream: String,
    /// The run.
    pub run: u64,
    /// Which attempt of the run.
    pub attempt: u32,
    /// Where the attempt is.
    pub stage: Stage,
    /// How many of its steps are done, in whole tens of a hundred; nothing where there are no steps.
    pub percent: Option<u8>,
}

/// What was told last.
#[derive(Default)]
pub(super) struct Progress {
    next: u64,
    kept: VecDeque<ProgressView>,
}

/// How many are kept for those who ask late.
const KEPT: usize = 4096;
/// In how many parts the steps of an attempt are told.
const PARTS: u32 = 10;

impl Engine {
    /// At most so many events of progress from this number on, as far as they are kept.
    pub fn progress(&self, from: u64, most: usize) -> Vec<ProgressView> {
        let progress = lock(&self.progress);
        let first = progress.kept.partition_point(|one| one.number < from);
        progress.kept.range(first..).take(most).cloned().collect()
    }

    /// The number of the next event of progress.
    pub fn progress_length(&self) -> u64 {
        lock(&self.progress).next
    }
}

/// Looks on while an attempt is performed.
pub(super) struct Watcher<'engine> {
    engine: &'engine Engine,
    run: u64,
    attempt: u32,
    stream: String,
    started: Instant,
    time: Option<Duration>,
    /// The last part of the steps that was told.
    part: AtomicU32,
}

impl<'engine> Watcher<'engine> {
    pub(super) fn new(engine: &'engine Engine, job: &Job) -> Self {
        Self {
            engine,
            run: job.run,
            attempt: job.attempt.index,
            stream: job.recipe.pipeline().stream.clone(),
            started: Instant::now(),
            time: engine.attempt_limits(job.recipe.pipeline()).time,
            part: AtomicU32::new(u32::MAX),
        }
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

    /// Ends an attempt whose time is over. How long it takes depends on rows, so the reason is that of every attempt
    /// without a result.
    fn in_time(&self) -> Result<(), AttemptFailure> {
        match self.time {
            Some(limit) if self.started.elapsed() >= limit => Err(AttemptFailure::without_result()),
            _ => Ok(()),
        }
    }
}

impl AttemptObserver for Watcher<'_> {
    fn enter(&self, stage: Stage) -> Result<(), AttemptFailure> {
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
    /// What an attempt may use: the lesser of what its file and the operator say.
    pub(super) fn attempt_limits(&self, pipeline: &Pipeline) -> AttemptLimits {
        let time = pipeline.limits.time.map(|width| Duration::from_micros(width.microseconds().unsigned_abs()));
        let memory_bytes = pipeline.limits.memory_megabytes.map(|megabytes| u64::from(megabytes) * 1_000_000);
        let operator = self.places.limits;
        AttemptLimits {
            time: time.into_iter().chain(operator.time).min(),
            memory_bytes: memory_bytes.into_iter().chain(operator.memory_bytes).min(),
        }
    }
}
