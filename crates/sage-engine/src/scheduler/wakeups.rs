//! Wake-ups: which runs must be evaluated again, because their situation changed or a time has come.
//!
//! A waiting run stays waiting until it gets more blocks, more budget or another state, or its deadline passes. Each of
//! these is a note of the log, a cancelled charge or a time, and is recorded here once, so a scheduling round costs as
//! much as what changed, not as much as what waits. Nothing is decided here: an unnecessary evaluation is harmless, but
//! every change that could unblock a run must be recorded.

use std::collections::{BTreeMap, BTreeSet};

use crate::adapt::{End, Outcome, Phase};
use crate::catalog::{Catalog, Note, Run};
use crate::scheduler::queue::Gain;

/// A change on a stream that can unblock its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// New blocks, or a changed definition.
    Blocks,
    /// More budget on the existing blocks.
    Budget,
}

/// The runs to evaluate, and the times at which more become due.
#[derive(Default)]
pub(crate) struct Wakeups {
    /// Runs whose situation has changed.
    woken: BTreeSet<u64>,
    /// Runs with an attempt that is chosen or charged.
    under_way: BTreeSet<u64>,
    /// Runs between attempts, by stream.
    idle: BTreeMap<String, BTreeSet<u64>>,
    /// Idle runs that have too few blocks, whatever their budget.
    short_of_blocks: BTreeSet<u64>,
    /// Idle runs that have made a choice. More budget does not wake them: the choice is evaluated again before it is
    /// charged.
    chosen: BTreeSet<u64>,
    /// Deadlines of runs between attempts.
    deadlines: BTreeSet<(u64, u64)>,
    /// The newest run of each recurring pipeline, by name.
    newest: BTreeMap<String, u64>,
    /// When recurring pipelines are due again whose run has ended.
    due: BTreeSet<(u64, u64)>,
    /// Recurring pipelines that are due but have no new block, by stream.
    waiting_for_blocks: BTreeMap<String, BTreeSet<(u64, u64)>>,
    /// The number of changes recorded so far.
    changes: u64,
    /// The number of evaluations so far.
    evaluations: u64,
}

impl Wakeups {
    /// All runs of a catalog, each to be evaluated.
    pub(crate) fn of(catalog: &Catalog) -> Self {
        let mut wakeups = Self::default();
        for (number, run) in catalog.history().runs() {
            wakeups.schedule(number, run);
        }
        wakeups
    }

    /// Records a note that the catalog and the schedule have just applied.
    pub(crate) fn follow(&mut self, note: &Note, catalog: &Catalog, gain: Gain) {
        self.changes += 1;
        let own = match note {
            Note::RunSubmitted { .. } => catalog.history().newest(),
            Note::RunStepped { run, .. } => catalog.history().run(*run).map(|own| (*run, own)),
            Note::StreamDefined { stream, .. }
            | Note::MemberSuspended { stream, .. }
            | Note::BlocksSealed { stream, .. }
            | Note::UnitsCounted { stream, .. } => {
                self.wake(stream, Change::Blocks);
                None
            }
            _ => None,
        };
        if let Some((number, run)) = own {
            self.schedule(number, run);
            if gain == Gain::Others {
                self.wake(&run.pipeline.stream, Change::Budget);
            }
        }
    }

    /// Wakes the runs of a stream that the change can unblock.
    pub(crate) fn wake(&mut self, stream: &str, news: Change) {
        self.changes += 1;
        let idle = self.idle.get(stream).into_iter().flatten();
        match news {
            Change::Blocks => {
                self.woken.extend(idle);
                self.due.extend(self.waiting_for_blocks.remove(stream).unwrap_or_default());
            }
            Change::Budget => {
                let settled = |number: &&u64| self.short_of_blocks.contains(number) || self.chosen.contains(number);
                self.woken.extend(idle.filter(|number| !settled(number)));
            }
        }
    }

    /// Wakes every run that more budget can unblock.
    pub(crate) fn wake_all(&mut self) {
        let streams: Vec<String> = self.idle.keys().cloned().collect();
        streams.iter().for_each(|stream| self.wake(stream, Change::Budget));
    }

    /// Marks a run that more budget cannot unblock, only more blocks.
    pub(crate) fn waits_for_blocks(&mut self, number: u64) {
        self.short_of_blocks.insert(number);
    }

    /// Marks a run that has made a choice.
    pub(crate) fn mark_chosen(&mut self, number: u64) {
        self.chosen.insert(number);
    }

    /// Removes that mark.
    pub(crate) fn unmark_chosen(&mut self, number: u64) {
        self.chosen.remove(&number);
    }

    /// Runs with an attempt that is chosen or charged.
    pub(crate) fn under_way(&self) -> Vec<u64> {
        self.under_way.iter().copied().collect()
    }

    /// Files a run under its present state.
    fn schedule(&mut self, number: u64, run: &Run) {
        let stream = &run.pipeline.stream;
        let deadline = run.state.plan().limits().deadline.map(|deadline| (deadline, number));
        self.woken.remove(&number);
        self.under_way.remove(&number);
        self.short_of_blocks.remove(&number);
        self.chosen.remove(&number);
        let again = run.pipeline.every.map(|every| {
            let due = run.submitted.saturating_add(every.microseconds().unsigned_abs() / 1000);
            (due, number)
        });
        if again.is_some() {
            self.newest.entry(run.pipeline.name.clone()).and_modify(|own| *own = number.max(*own)).or_insert(number);
        }
        let idle = self.idle.entry(stream.clone()).or_default();
        if run.state.phase() == Phase::Idle {
            idle.insert(number);
            self.woken.insert(number);
            self.deadlines.extend(deadline);
            return;
        }
        idle.remove(&number);
        if let Some(deadline) = deadline {
            self.deadlines.remove(&deadline);
        }
        match run.state.phase() {
            Phase::Over(Outcome::Stopped(End::Cancelled | End::NotMember | End::Crashed | End::NameTaken)) => {}
            Phase::Over(_) => self.due.extend(again),
            _ => {
                self.under_way.insert(number);
            }
        }
    }

    /// Runs with an attempt in progress that no worker is performing.
    pub(crate) fn unattended(&self, busy: &BTreeSet<u64>) -> Vec<u64> {
        self.under_way.difference(busy).copied().collect()
    }

    /// Removes and returns the runs to evaluate now: those that changed, and those past their deadline.
    pub(crate) fn take(&mut self, time: u64) -> BTreeSet<u64> {
        let mut taken = std::mem::take(&mut self.woken);
        taken.extend(self.deadlines.range(..=(time, u64::MAX)).map(|(_, number)| *number));
        self.evaluations += taken.len() as u64;
        taken.iter().for_each(|number| {
            self.short_of_blocks.remove(number);
            self.chosen.remove(number);
        });
        taken
    }

    /// Returns runs that were taken and not evaluated.
    pub(crate) fn restore(&mut self, numbers: BTreeSet<u64>) {
        self.woken.extend(numbers);
    }

    /// Removes and returns the runs whose pipelines are due again, if they are the newest of their name and have new
    /// blocks.
    pub(crate) fn take_due(&mut self, time: u64, catalog: &Catalog) -> Vec<u64> {
        let later = self.due.split_off(&(time, u64::MAX));
        let due = std::mem::replace(&mut self.due, later);
        let mut ready = Vec::new();
        for (at, number) in due {
            let Some(run) = catalog.history().run(number) else { continue };
            if self.newest.get(&run.pipeline.name) != Some(&number) || !catalog.history().recurs(number) {
                continue;
            }
            self.evaluations += 1;
            let seen = run.attempts.iter().flat_map(|one| &one.blocks).map(|(_, last)| *last as usize + 1).max();
            let sealed = catalog.stream(&run.pipeline.stream).map_or(0, |stream| stream.sealed.len());
            if sealed > seen.unwrap_or(0) {
                ready.push(number);
            } else {
                self.waiting_for_blocks.entry(run.pipeline.stream.clone()).or_default().insert((at, number));
            }
        }
        ready
    }

    /// Counts one more evaluation.
    pub(crate) const fn count_evaluation(&mut self) {
        self.evaluations += 1;
    }

    /// The number of evaluations so far.
    pub(crate) const fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// The number of changes so far. While it stays the same, no run's situation has changed.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }
}
