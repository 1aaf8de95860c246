//! What is to be looked at: runs whose situation changed since somebody looked, and times that have come.
//!
//! A run that waits goes on waiting until it has more blocks, more budget or another state, or its time is over. All
//! of these are notes of the log, charges taken back, or times, and each is taken in here once. So a turn of the loop
//! costs what changed, not what waits. Nothing here decides: a run that is looked at once too often is told to wait
//! again, and whatever can let a run go on must be taken in.

use std::collections::{BTreeMap, BTreeSet};

use crate::adapt::{End, Outcome, Phase};
use crate::catalog::{Catalog, Note, Run};
use crate::schedule::Gain;

/// What came to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Blocks, or other rules for them.
    Blocks,
    /// Budget on the blocks that were there.
    Budget,
}

/// What is to be looked at.
#[derive(Default)]
pub(super) struct Agenda {
    /// Runs whose situation changed.
    stirred: BTreeSet<u64>,
    /// Runs with an attempt that is chosen or charged.
    under_way: BTreeSet<u64>,
    /// Runs between attempts, by stream.
    idle: BTreeMap<String, BTreeSet<u64>>,
    /// Those of them that have too few blocks, whatever may be spent there.
    short_of_blocks: BTreeSet<u64>,
    /// Those of them that have made a choice. More budget is no news for them: the choice is made anew at its turn.
    chosen: BTreeSet<u64>,
    /// When runs between attempts give up.
    deadlines: BTreeSet<(u64, u64)>,
    /// The newest run of each pipeline that is run again and again, by name.
    newest: BTreeMap<String, u64>,
    /// When those that are over are due again.
    due: BTreeSet<(u64, u64)>,
    /// Due, and without a block that they have not seen, by stream.
    hungry: BTreeMap<String, BTreeSet<(u64, u64)>>,
    /// How much was taken in so far.
    changes: u64,
    /// How many runs were looked at so far.
    looks: u64,
}

impl Agenda {
    /// Everything is new.
    pub(super) fn of(catalog: &Catalog) -> Self {
        let mut agenda = Self::default();
        for (number, run) in catalog.history().runs() {
            agenda.place(number, run);
        }
        agenda
    }

    /// Takes in a note that the catalog and the schedule have just taken.
    pub(super) fn follow(&mut self, note: &Note, catalog: &Catalog, gain: Gain) {
        self.changes += 1;
        let own = match note {
            Note::RunSubmitted { .. } => catalog.history().newest(),
            Note::RunStepped { run, .. } => catalog.history().run(*run).map(|own| (*run, own)),
            Note::StreamDefined { stream, .. }
            | Note::MemberSuspended { stream, .. }
            | Note::BlocksSealed { stream, .. }
            | Note::UnitsCounted { stream, .. } => {
                self.stir(stream, News::Blocks);
                None
            }
            _ => None,
        };
        if let Some((number, run)) = own {
            self.place(number, run);
            if gain == Gain::Others {
                self.stir(&run.pipeline.stream, News::Budget);
            }
        }
    }

    /// Those that wait on a stream may have more now.
    pub(super) fn stir(&mut self, stream: &str, news: News) {
        self.changes += 1;
        let idle = self.idle.get(stream).into_iter().flatten();
        match news {
            News::Blocks => {
                self.stirred.extend(idle);
                self.due.extend(self.hungry.remove(stream).unwrap_or_default());
            }
            News::Budget => {
                let settled = |number: &&u64| self.short_of_blocks.contains(number) || self.chosen.contains(number);
                self.stirred.extend(idle.filter(|number| !settled(number)));
            }
        }
    }

    /// Everybody may have more budget now.
    pub(super) fn stir_all(&mut self) {
        let streams: Vec<String> = self.idle.keys().cloned().collect();
        streams.iter().for_each(|stream| self.stir(stream, News::Budget));
    }

    /// No budget helps this run, only blocks.
    pub(super) fn waits_for_blocks(&mut self, number: u64) {
        self.short_of_blocks.insert(number);
    }

    /// This run has made a choice.
    pub(super) fn settle(&mut self, number: u64) {
        self.chosen.insert(number);
    }

    /// This run has none, or it is made anew.
    pub(super) fn unsettle(&mut self, number: u64) {
        self.chosen.remove(&number);
    }

    /// Runs with an attempt that is chosen or charged.
    pub(super) fn under_way(&self) -> Vec<u64> {
        self.under_way.iter().copied().collect()
    }

    /// Where a run belongs as it is now.
    fn place(&mut self, number: u64, run: &Run) {
        let stream = &run.pipeline.stream;
        let deadline = run.state.plan().limits().deadline.map(|deadline| (deadline, number));
        self.stirred.remove(&number);
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
            self.stirred.insert(number);
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

    /// Runs with an attempt that nobody is busy with.
    pub(super) fn left_lying(&self, busy: &BTreeSet<u64>) -> Vec<u64> {
        self.under_way.difference(busy).copied().collect()
    }

    /// Takes the runs to look at now: what changed, and whose time is over.
    pub(super) fn take(&mut self, time: u64) -> BTreeSet<u64> {
        let mut taken = std::mem::take(&mut self.stirred);
        taken.extend(self.deadlines.range(..=(time, u64::MAX)).map(|(_, number)| *number));
        self.looks += taken.len() as u64;
        taken.iter().for_each(|number| {
            self.short_of_blocks.remove(number);
            self.chosen.remove(number);
        });
        taken
    }

    /// Gives back what was taken and not looked at.
    pub(super) fn put_back(&mut self, numbers: BTreeSet<u64>) {
        self.stirred.extend(numbers);
    }

    /// Takes the runs whose pipelines are due again, as far as they are the newest of their name.
    pub(super) fn take_due(&mut self, time: u64, catalog: &Catalog) -> Vec<u64> {
        let later = self.due.split_off(&(time, u64::MAX));
        let due = std::mem::replace(&mut self.due, later);
        let mut ready = Vec::new();
        for (at, number) in due {
            let Some(run) = catalog.history().run(number) else { continue };
            if self.newest.get(&run.pipeline.name) != Some(&number) || !catalog.history().recurs(number) {
                continue;
            }
            self.looks += 1;
            let seen = run.attempts.iter().flat_map(|one| &one.blocks).map(|(_, last)| *last as usize + 1).max();
            let sealed = catalog.stream(&run.pipeline.stream).map_or(0, |stream| stream.sealed.len());
            if sealed > seen.unwrap_or(0) {
                ready.push(number);
            } else {
                self.hungry.entry(run.pipeline.stream.clone()).or_default().insert((at, number));
            }
        }
        ready
    }

    /// Counts a run that is looked at once more.
    pub(super) const fn look(&mut self) {
        self.looks += 1;
    }

    /// How many runs were looked at so far.
    pub(super) const fn looks(&self) -> u64 {
        self.looks
    }

    /// How much was taken in so far: as long as this stays, nobody's situation has changed.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }
}
