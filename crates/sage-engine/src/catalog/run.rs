//! The history of runs and releases, as a fold of their notes.
//!
//! A run is one submission of a pipeline and everything that happens to it. The state machine of `adapt` checks the
//! order of its steps. A release is the accepted attempt of a run, under the pipeline's name and the next version
//! number. It has no note of its own, so that neither exists without the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{InvalidNote, Note, Stream};
use crate::adapt::{self, Attempt, End, Event, Verdict};
use crate::pipeline::{Pipeline, Train};
use crate::release::Kind;
use crate::run::Report;

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Step {
    /// An attempt was chosen on these blocks: (first, last) of each range, in sealing order.
    Chosen {
        attempt: Attempt,
        blocks: Vec<(u32, u32)>,
        /// What it takes from each block, in the units of the allocation.
        resources: [u64; 4],
    },
    /// The ledger refused the attempt.
    Refused,
    /// The attempt was charged.
    Charged,
    /// The charge was withdrawn before any row was read.
    Withdrawn,
    /// The attempt failed after it may have read rows.
    Lost { reason: String },
    /// The attempt was validated.
    Judged { report: Report },
    /// The run ended without a verdict.
    Ended {
        end: End,
        /// The principal who stopped it; absent if the engine did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

impl Step {
    /// A run that the engine ends, not a principal.
    pub(crate) const fn ended(end: End) -> Self {
        Self::Ended { end, by: None }
    }

    /// The event of the run's state machine.
    pub(crate) fn event(&self) -> Event {
        match self {
            Self::Chosen { attempt, .. } => Event::Chosen(*attempt),
            Self::Refused => Event::Refused,
            Self::Charged => Event::Charged,
            Self::Withdrawn => Event::Withdrawn,
            Self::Lost { .. } => Event::Burnt,
            Self::Judged { report } => Event::Judged(report.verdict),
            Self::Ended { end, .. } => Event::Ended(*end),
        }
    }
}

/// An attempt of a run, with how it ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttemptRecord {
    pub(crate) attempt: Attempt,
    pub(crate) blocks: Vec<(u32, u32)>,
    pub(crate) resources: [u64; 4],
    pub(crate) end: Option<AttemptEnd>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AttemptEnd {
    Refused,
    Withdrawn,
    Lost(String),
    Judged(Report),
}

/// One submission of a pipeline.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) pipeline: Pipeline,
    pub(crate) by: String,
    pub(crate) submitted: u64,
    /// How many blocks of its stream were sealed before.
    pub(crate) sealed_before: u32,
    /// The digest of the code submitted with it.
    pub(crate) code: Option<String>,
    pub(crate) terms: crate::plan::Terms,
    pub(crate) state: adapt::State,
    pub(crate) attempts: Vec<AttemptRecord>,
    /// The name and the version of the release that its last judged attempt tested.
    pub(crate) tested: Option<(String, u32)>,
}

/// One version of a release.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReleaseRecord {
    pub(crate) kind: Kind,
    pub(crate) run: u64,
    pub(crate) digest: String,
    pub(crate) withdrawn: Option<String>,
    /// The run with which its alarm began: it tested the release again, which did not pass, and none passed since.
    pub(crate) failing: Option<u64>,
}

/// All runs and releases.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunHistory {
    /// Indexed by run number minus one.
    runs: Vec<Arc<Run>>,
    /// The versions of each name, indexed by version minus one.
    pub(super) releases: BTreeMap<String, Vec<ReleaseRecord>>,
    aliases: BTreeMap<(String, String), u32>,
    /// All versions that each alias has pointed to, newest last.
    moves: BTreeMap<(String, String), Vec<u32>>,
    /// The stream that owns each pipeline name: the stream of the first run submitted under it.
    owners: BTreeMap<String, String>,
    /// Stopped recurring pipelines, with the number of runs at that time. Later submissions recur again.
    stopped: BTreeMap<String, u64>,
}

impl RunHistory {
    /// The run with this number.
    pub(crate) fn run(&self, run: u64) -> Option<&Arc<Run>> {
        self.runs.get(usize::try_from(run).ok()?.checked_sub(1)?)
    }

    /// All runs with their numbers.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, &Arc<Run>)> {
        (1..).zip(&self.runs)
    }

    /// The run submitted last.
    pub(crate) fn newest(&self) -> Option<(u64, &Arc<Run>)> {
        Some((self.runs.len() as u64, self.runs.last()?))
    }

    /// The stream that owns a pipeline name and its releases and aliases, if a run was ever submitted under the name.
    /// The first submission decides, not the first release, so that ownership does not depend on rows.
    pub(crate) fn owner(&self, name: &str) -> Option<&str> {
        self.owners.get(name).map(String::as_str)
    }

    /// Whether the pipeline of this run is resubmitted when it is due.
    pub(crate) fn recurs(&self, run: u64) -> bool {
        let recurring = self.run(run).filter(|own| own.pipeline.every.is_some());
        recurring.is_some_and(|own| self.stopped.get(&own.pipeline.name).is_none_or(|last| run > *last))
    }

    /// The newest run under a pipeline name.
    pub(crate) fn newest_run(&self, name: &str) -> Option<u64> {
        self.runs().filter(|(_, run)| run.pipeline.name == name).map(|(number, _)| number).last()
    }

    /// All releases as (name, version, record).
    pub(crate) fn releases(&self) -> impl Iterator<Item = (&str, u32, &ReleaseRecord)> {
        self.releases
            .iter()
            .flat_map(|(name, versions)| (1..).zip(versions).map(move |(v, one)| (name.as_str(), v, one)))
    }

    /// A version of a release.
    pub(crate) fn release(&self, name: &str, version: u32) -> Option<&ReleaseRecord> {
        self.releases.get(name)?.get((version as usize).checked_sub(1)?)
    }

    /// The version that an alias points to. `latest` is the newest version that is not withdrawn.
    pub(crate) fn alias(&self, name: &str, alias: &str) -> Option<u32> {
        if alias == "latest" {
            let newest = self.releases.get(name)?.iter().rposition(|release| release.withdrawn.is_none())?;
            return u32::try_from(newest + 1).ok();
        }
        self.aliases.get(&(name.to_owned(), alias.to_owned())).copied()
    }

    /// The version that an alias points to for a caller who sees only some versions: among those, the one it was moved
    /// to last. `latest` is the newest visible version that is not withdrawn.
    pub(crate) fn alias_among(&self, name: &str, alias: &str, visible: &dyn Fn(u32) -> bool) -> Option<u32> {
        let offered = |version: &u32| self.release(name, *version).is_some_and(|one| one.withdrawn.is_none());
        if alias == "latest" {
            let newest = u32::try_from(self.releases.get(name)?.len()).ok()?;
            return (1..=newest).rev().find(|version| offered(version) && visible(*version));
        }
        let moves = self.moves.get(&(name.to_owned(), alias.to_owned()))?;
        moves.iter().rev().copied().find(|version| visible(*version)).filter(offered)
    }

    /// The aliases of a version for a caller who sees only some versions.
    pub(crate) fn aliases_among(&self, name: &str, version: u32, visible: &dyn Fn(u32) -> bool) -> Vec<String> {
        let own = self.moves.range((name.to_owned(), String::new())..).take_while(|((of, _), _)| of == name);
        let named = own.filter(|((_, alias), _)| self.alias_among(name, alias, visible) == Some(version));
        named.map(|((_, alias), _)| alias.clone()).collect()
    }

    /// The aliases of a version.
    pub(crate) fn aliases(&self, name: &str, version: u32) -> Vec<String> {
        let own = self.aliases.iter().filter(|((of, _), at)| of == name && **at == version);
        own.map(|((_, alias), _)| alias.clone()).collect()
    }

    /// Whether the note is valid as the next one. `stream` is the stream it names, if any.
    pub(super) fn allows(&self, note: &Note, stream: Option<&Stream>) -> bool {
        match note {
            Note::RunSubmitted { stream: name, text, at, terms, .. } => {
                let parsed = Pipeline::parse(text).ok().filter(|pipeline| pipeline.stream == *name);
                stream.is_some() && parsed.is_some_and(|pipeline| terms.plan(&pipeline, *at).is_ok())
            }
            Note::RecurrenceStopped { stream, pipeline, .. } => self.owner(pipeline) == Some(stream.as_str()),
            Note::RunStepped { run, step } => self.run(*run).is_some_and(|own| is_valid_next_step(*run, own, step)),
            Note::AliasMoved { release, alias, version, .. } => {
                alias != "latest" && self.release(release, *version).is_some_and(|one| one.withdrawn.is_none())
            }
            Note::ReleaseWithdrawn { release, version, .. } => {
                self.release(release, *version).is_some_and(|one| one.withdrawn.is_none())
            }
            _ => false,
        }
    }

    /// Applies a note for which `allows` is true, when so many blocks of its stream are sealed.
    pub(super) fn apply(&mut self, note: Note, sealed: u32) -> Result<(), InvalidNote> {
        match note {
            Note::RunSubmitted { text, by, at: submitted, terms, code, .. } => {
                let pipeline = Pipeline::parse(&text).map_err(|_| InvalidNote)?;
                let plan = terms.plan(&pipeline, submitted).map_err(|_| InvalidNote)?;
                let state = adapt::State::new(plan);
                self.owners.entry(pipeline.name.clone()).or_insert_with(|| pipeline.stream.clone());
                let (sealed_before, attempts, tested) = (sealed, Vec::new(), None);
                let run = Run { pipeline, by, submitted, sealed_before, code, terms, state, attempts, tested };
                self.runs.push(Arc::new(run));
            }
            Note::RecurrenceStopped { pipeline, .. } => {
                self.stopped.insert(pipeline, self.runs.len() as u64);
            }
            Note::RunStepped { run, step } => {
                let index = usize::try_from(run).ok().and_then(|run| run.checked_sub(1)).ok_or(InvalidNote)?;
                let judged = matches!(step, Step::Judged { .. });
                let tested = self.run(run).filter(|_| judged).and_then(|own| self.tested_release(&own.pipeline));
                let own = Arc::make_mut(self.runs.get_mut(index).ok_or(InvalidNote)?);
                own.state = own.state.clone().step(step.event()).map_err(|_| InvalidNote)?;
                if let Step::Judged { report: Report { release: Some(digest), .. } } = &step {
                    let kind = match own.pipeline.train {
                        Train::Statistic(_) => Kind::Statistic,
                        _ => Kind::Model,
                    };
                    let release = ReleaseRecord { kind, run, digest: digest.clone(), withdrawn: None, failing: None };
                    self.releases.entry(own.pipeline.name.clone()).or_default().push(release);
                }
                own.record_step(step);
                own.tested = tested.or(own.tested.take());
                self.record_conclusion(run);
            }
            Note::AliasMoved { release, alias, version, .. } => {
                self.moves.entry((release.clone(), alias.clone())).or_default().push(version);
                self.aliases.insert((release, alias), version);
            }
            Note::ReleaseWithdrawn { release, version, reason, .. } => {
                let versions = self.releases.get_mut(&release).ok_or(InvalidNote)?;
                let index = (version as usize).checked_sub(1).ok_or(InvalidNote)?;
                versions.get_mut(index).ok_or(InvalidNote)?.withdrawn = Some(reason);
                self.aliases.retain(|(of, _), at| *of != release || *at != version);
            }
            _ => return Err(InvalidNote),
        }
        Ok(())
    }
}

impl Run {
    /// Whether another run is of the same pipeline, on the same terms.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.pipeline == other.pipeline && self.terms == other.terms
    }

    /// The current attempt, or else the last one.
    pub(crate) fn last(&self) -> Option<&AttemptRecord> {
        self.attempts.last()
    }

    fn record_step(&mut self, step: Step) {
        let end = match step {
            Step::Chosen { attempt, blocks, resources } => {
                self.attempts.push(AttemptRecord { attempt, blocks, resources, end: None });
                return;
            }
            Step::Refused => AttemptEnd::Refused,
            Step::Withdrawn => AttemptEnd::Withdrawn,
            Step::Lost { reason } => AttemptEnd::Lost(reason),
            Step::Judged { report } => AttemptEnd::Judged(report),
            Step::Charged | Step::Ended { .. } => return,
        };
        if let Some(last) = self.attempts.last_mut() {
            last.end = Some(end);
        }
    }
}

/// Whether a step is valid as the next one of a run.
fn is_valid_next_step(run: u64, own: &Run, step: &Step) -> bool {
    let sound = match step {
        Step::Chosen { blocks, attempt, .. } => {
            let rising = blocks.windows(2).all(|pair| pair[0].1 < pair[1].0);
            let count: u64 = blocks.iter().map(|(first, last)| u64::from(last.saturating_sub(*first)) + 1).sum();
            let ordered = blocks.iter().all(|(first, last)| first <= last);
            rising && ordered && count == u64::from(attempt.window)
        }
        Step::Judged { report } => {
            let last = own.last().map(|last| last.attempt.serial);
            let new = !matches!(own.pipeline.train, Train::Released { .. });
            let released = report.verdict == Verdict::Accept && new;
            report.run == run && Some(report.serial) == last && report.release.is_some() == released
        }
        _ => true,
    };
    sound && own.state.clone().step(step.event()).is_ok()
}
