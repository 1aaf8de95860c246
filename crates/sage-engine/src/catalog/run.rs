//! Runs and releases, as a fold of their notes.
//!
//! A run is one submission of a pipeline with everything that happened to it. That its steps follow each other is
//! checked by the state machine of `adapt`. A release is a run's accepted attempt, under the pipeline's name and the
//! next version; it has no note of its own, so that there is never one without the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Misplaced, Note, Stream};
use crate::adapt::{self, Attempt, End, Event, Verdict};
use crate::pipeline::{Pipeline, Train};
use crate::release::Kind;
use crate::run::Report;

/// Something that happened to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Step {
    /// An attempt was chosen, on these blocks: first and last of each run of them, in the order of sealing.
    Chosen {
        attempt: Attempt,
        blocks: Vec<(u32, u32)>,
        /// What it will take of each block, as the allocation counts.
        resources: [u64; 4],
    },
    /// The ledger refused it.
    Refused,
    /// It was charged.
    Charged,
    /// Its charge was taken back.
    Withdrawn,
    /// It was lost after it may have read rows.
    Lost { reason: String },
    /// It was tested.
    Judged { report: Report },
    /// The run stopped without a verdict.
    Ended {
        end: End,
        /// Who stopped it, where a person did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

impl Step {
    /// The run ends by itself, not by a person's request.
    pub(crate) const fn ended(end: End) -> Self {
        Self::Ended { end, by: None }
    }

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

/// An attempt of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Try {
    pub(crate) attempt: Attempt,
    pub(crate) blocks: Vec<(u32, u32)>,
    pub(crate) resources: [u64; 4],
    pub(crate) ended: Option<Ended>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ended {
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
    /// The digest of the code that was submitted with it.
    pub(crate) code: Option<String>,
    pub(crate) terms: crate::plan::Terms,
    pub(crate) state: adapt::State,
    pub(crate) tries: Vec<Try>,
}

/// A version of a release.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Released {
    pub(crate) kind: Kind,
    pub(crate) run: u64,
    pub(crate) digest: String,
    pub(crate) withdrawn: Option<String>,
}

/// All runs and what they released.
#[derive(Clone, Debug, Default)]
pub(crate) struct Works {
    /// By their numbers, the first of which is one.
    runs: Vec<Arc<Run>>,
    /// By name, the versions in order, the first of which is one.
    releases: BTreeMap<String, Vec<Released>>,
    aliases: BTreeMap<(String, String), u32>,
    /// All versions that each alias has stood for, the newest last.
    moves: BTreeMap<(String, String), Vec<u32>>,
    /// The stream that each pipeline name belongs to: that of the first run submitted under it.
    owners: BTreeMap<String, String>,
    /// Recurring pipelines that were stopped, with the number of runs at that time: later submissions recur again.
    stopped: BTreeMap<String, u64>,
}

impl Works {
    /// The run of this number.
    pub(crate) fn run(&self, run: u64) -> Option<&Arc<Run>> {
        self.runs.get(usize::try_from(run).ok()?.checked_sub(1)?)
    }

    /// All runs with their numbers.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, &Arc<Run>)> {
        (1..).zip(&self.runs)
    }

    /// The run that was submitted last.
    pub(crate) fn newest(&self) -> Option<(u64, &Arc<Run>)> {
        Some((self.runs.len() as u64, self.runs.last()?))
    }

    /// The stream that a pipeline name belongs to, if a run was ever submitted under it. Releases and aliases of the
    /// name belong to that stream too. Submission decides, not release: it does not depend on rows.
    pub(crate) fn owner(&self, name: &str) -> Option<&str> {
        self.owners.get(name).map(String::as_str)
    }

    /// Whether the pipeline of this run is still submitted again when it is due.
    pub(crate) fn recurs(&self, run: u64) -> bool {
        let recurring = self.run(run).filter(|own| own.pipeline.every.is_some());
        recurring.is_some_and(|own| self.stopped.get(&own.pipeline.name).is_none_or(|last| run > *last))
    }

    /// The newest run of a pipeline name.
    pub(crate) fn newest_of(&self, name: &str) -> Option<u64> {
        self.runs().filter(|(_, run)| run.pipeline.name == name).map(|(number, _)| number).last()
    }

    /// All releases: name, version, and what is known of it.
    pub(crate) fn releases(&self) -> impl Iterator<Item = (&str, u32, &Released)> {
        self.releases
            .iter()
            .flat_map(|(name, versions)| (1..).zip(versions).map(move |(v, one)| (name.as_str(), v, one)))
    }

    /// A version of a release.
    pub(crate) fn release(&self, name: &str, version: u32) -> Option<&Released> {
        self.releases.get(name)?.get((version as usize).checked_sub(1)?)
    }

    /// The version that an alias stands for. `latest` is the newest that is not withdrawn.
    pub(crate) fn alias(&self, name: &str, alias: &str) -> Option<u32> {
        if alias == "latest" {
            let newest = self.releases.get(name)?.iter().rposition(|release| release.withdrawn.is_none())?;
            return u32::try_from(newest + 1).ok();
        }
        self.aliases.get(&(name.to_owned(), alias.to_owned())).copied()
    }

    /// The version that an alias stands for where only some versions may be seen: the one it was moved to last among
    /// those. `latest` is the newest of them that is not withdrawn.
    pub(crate) fn alias_among(&self, name: &str, alias: &str, shown: &dyn Fn(u32) -> bool) -> Option<u32> {
        let offered = |version: &u32| self.release(name, *version).is_some_and(|one| one.withdrawn.is_none());
        if alias == "latest" {
            let newest = u32::try_from(self.releases.get(name)?.len()).ok()?;
            return (1..=newest).rev().find(|version| offered(version) && shown(*version));
        }
        let moves = self.moves.get(&(name.to_owned(), alias.to_owned()))?;
        moves.iter().rev().copied().find(|version| shown(*version)).filter(offered)
    }

    /// The aliases that a version has where only some versions may be seen.
    pub(crate) fn aliases_among(&self, name: &str, version: u32, shown: &dyn Fn(u32) -> bool) -> Vec<String> {
        let own = self.moves.range((name.to_owned(), String::new())..).take_while(|((of, _), _)| of == name);
        let named = own.filter(|((_, alias), _)| self.alias_among(name, alias, shown) == Some(version));
        named.map(|((_, alias), _)| alias.clone()).collect()
    }

    /// The aliases of a version.
    pub(crate) fn aliases(&self, name: &str, version: u32) -> Vec<String> {
        let own = self.aliases.iter().filter(|((of, _), at)| of == name && **at == version);
        own.map(|((_, alias), _)| alias.clone()).collect()
    }

    /// Whether the note is allowed at this point, on a stream if it names one.
    pub(super) fn allows(&self, note: &Note, stream: Option<&Stream>) -> bool {
        match note {
            Note::RunSubmitted { stream: name, text, at, terms, .. } => {
                let parsed = Pipeline::parse(text).ok().filter(|pipeline| pipeline.stream == *name);
                stream.is_some() && parsed.is_some_and(|pipeline| terms.plan(&pipeline, *at).is_ok())
            }
            Note::RecurrenceStopped { stream, pipeline, .. } => self.owner(pipeline) == Some(stream.as_str()),
            Note::RunStepped { run, step } => self.run(*run).is_some_and(|own| follows(*run, own, step)),
            Note::AliasMoved { release, alias, version, .. } => {
                alias != "latest" && self.release(release, *version).is_some_and(|one| one.withdrawn.is_none())
            }
            Note::ReleaseWithdrawn { release, version, .. } => {
                self.release(release, *version).is_some_and(|one| one.withdrawn.is_none())
            }
            _ => false,
        }
    }

    /// Takes in a note that is allowed.
    pub(super) fn apply(&mut self, note: Note) -> Result<(), Misplaced> {
        match note {
            Note::RunSubmitted { text, by, at: submitted, terms, code, .. } => {
                let pipeline = Pipeline::parse(&text).map_err(|_| Misplaced)?;
                let plan = terms.plan(&pipeline, submitted).map_err(|_| Misplaced)?;
                let state = adapt::State::new(plan);
                self.owners.entry(pipeline.name.clone()).or_insert_with(|| pipeline.stream.clone());
                self.runs.push(Arc::new(Run { pipeline, by, submitted, code, terms, state, tries: Vec::new() }));
            }
            Note::RecurrenceStopped { pipeline, .. } => {
                self.stopped.insert(pipeline, self.runs.len() as u64);
            }
            Note::RunStepped { run, step } => {
                let place = usize::try_from(run).ok().and_then(|run| run.checked_sub(1)).ok_or(Misplaced)?;
                let own = Arc::make_mut(self.runs.get_mut(place).ok_or(Misplaced)?);
                own.state = own.state.clone().step(step.event()).map_err(|_| Misplaced)?;
                if let Step::Judged { report: Report { release: Some(digest), .. } } = &step {
                    let kind = match own.pipeline.train {
                        Train::Statistic(_) => Kind::Statistic,
                        _ => Kind::Model,
                    };
                    let release = Released { kind, run, digest: digest.clone(), withdrawn: None };
                    self.releases.entry(own.pipeline.name.clone()).or_default().push(release);
                }
                own.take(step);
            }
            Note::AliasMoved { release, alias, version, .. } => {
                self.moves.entry((release.clone(), alias.clone())).or_default().push(version);
                self.aliases.insert((release, alias), version);
            }
            Note::ReleaseWithdrawn { release, version, reason, .. } => {
                let versions = self.releases.get_mut(&release).ok_or(Misplaced)?;
                let place = (version as usize).checked_sub(1).ok_or(Misplaced)?;
                versions.get_mut(place).ok_or(Misplaced)?.withdrawn = Some(reason);
                self.aliases.retain(|(of, _), at| *of != release || *at != version);
            }
            _ => return Err(Misplaced),
        }
        Ok(())
    }
}

impl Run {
    /// The attempt that is under way, or was last.
    pub(crate) fn last(&self) -> Option<&Try> {
        self.tries.last()
    }

    fn take(&mut self, step: Step) {
        let ended = match step {
            Step::Chosen { attempt, blocks, resources } => {
                self.tries.push(Try { attempt, blocks, resources, ended: None });
                return;
            }
            Step::Refused => Ended::Refused,
            Step::Withdrawn => Ended::Withdrawn,
            Step::Lost { reason } => Ended::Lost(reason),
            Step::Judged { report } => Ended::Judged(report),
            Step::Charged | Step::Ended { .. } => return,
        };
        if let Some(last) = self.tries.last_mut() {
            last.ended = Some(ended);
        }
    }
}

/// Whether a step can be the next one of a run.
fn follows(run: u64, own: &Run, step: &Step) -> bool {
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
