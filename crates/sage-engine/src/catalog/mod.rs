//! The catalog: streams, blocks, runs and releases as recorded in the log; everything except budgets.
//!
//! Like the ledger, the catalog is a pure fold of the log. It validates every note, and a log with an invalid note is
//! not opened. The catalog must never contain a row, a count of rows or a budget.

mod approval;
mod note;
mod note_collector;
mod retest;
mod run;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use note::Note;
pub(crate) use note_collector::NoteCollector;
pub(crate) use retest::{Conclusion, conclusion};
pub(crate) use run::{AttemptEnd, AttemptRecord, ReleaseRecord, Run, RunHistory, Step};
use sage_learn::count::Node;

use crate::blocks::Part;
use crate::ingest::Manifest;
use crate::query::{QueryParameters, ResultTable};
use crate::stream::{Role, StreamFile};

/// The life-cycle stage of a block. Retirement is recorded in the ledger, not here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Rows may still be added.
    #[default]
    Open,
    /// The block never changes again.
    Sealed,
    /// The block's files are deleted.
    Deleted,
}

/// A block's files and stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) stage: Stage,
    pub(crate) parts: Vec<Part>,
    /// Time of the last batch that added rows, in milliseconds since 1970; `None` if the log does not record it.
    pub(crate) last_batch: Option<u64>,
}

/// A proposed stream definition that waits for the approval of a second officer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) text: String,
    pub(crate) by: String,
}

impl Proposal {
    /// The digest that an approval must name: BLAKE3 of the proposed text, in hexadecimal.
    pub(crate) fn digest(&self) -> String {
        text_digest(&self.text)
    }
}

/// The digest by which officers refer to the text of a stream file.
pub(crate) fn text_digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// The recorded state of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) file: StreamFile,
    /// The digest of the secret that assigns users to lanes.
    pub(crate) secret: Option<String>,
    pub(crate) proposal: Option<Proposal>,
    /// Whether some definition names the proposal it approves. Older releases did not record this.
    approvals_recorded: bool,
    /// Every current and former member of a separate context, with the first such context.
    pub(crate) context_members: BTreeMap<String, String>,
    /// Members whose roles are suspended, with the reason.
    pub(crate) suspended: BTreeMap<String, String>,
    pub(crate) batches: BTreeSet<String>,
    pub(crate) blocks: BTreeMap<String, Block>,
    /// Block keys in sealing order. Each is one step of the running count.
    pub(crate) sealed: Vec<String>,
    /// Nodes of the running count: the private number of units per lane, for a range of steps.
    pub(crate) counted: BTreeMap<Node, [i64; 2]>,
    /// Results of queries by (principal, the principal's own key).
    pub(crate) answered: BTreeMap<(String, String), AnsweredQuery>,
    /// Files of quarantined rows, which belong to no block.
    pub(crate) quarantine: Vec<QuarantinedFile>,
}

/// A file of quarantined rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuarantinedFile {
    pub(crate) part: Part,
    /// The batch that the rows came in.
    pub(crate) batch: String,
    /// Ingest time in milliseconds since 1970; `None` in notes of older releases.
    pub(crate) at: Option<u64>,
}

/// A query with its recorded result.
#[derive(Clone, Debug)]
pub(crate) struct AnsweredQuery {
    pub(crate) sql: String,
    /// `None` in notes of older releases.
    pub(crate) parameters: Option<QueryParameters>,
    pub(crate) charge: u64,
    pub(crate) answer: ResultTable,
}

/// The recorded state of all streams, runs and releases, without budgets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// By name.
    streams: BTreeMap<String, Stream>,
    history: RunHistory,
}

/// A note that is not valid at its position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidNote;

impl Catalog {
    /// The stream with this name, if it is defined.
    pub(crate) fn stream(&self, name: &str) -> Option<&Stream> {
        self.streams.get(name)
    }

    /// All streams with their names, in alphabetical order.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (&str, &Stream)> {
        self.streams.iter().map(|(name, stream)| (name.as_str(), stream))
    }

    /// All runs and releases.
    pub(crate) const fn history(&self) -> &RunHistory {
        &self.history
    }

    /// Whether the note is valid as the next one.
    pub(crate) fn allows(&self, note: &Note) -> bool {
        if let Note::StreamDefined { stream, text, by, approves, .. } = note {
            let Some(file) = StreamFile::parse(text).ok().filter(|file| file.name == *stream) else { return false };
            let definition = approval::Definition { file: &file, by, approves: approves.as_deref() };
            return self.streams.get(stream).map_or(approves.is_none(), |known| known.is_approved(&definition));
        }
        let stream = note.stream().and_then(|name| self.streams.get(name));
        if note.concerns_runs() {
            return self.history.allows(note, stream);
        }
        let Some(stream) = stream else { return false };
        match note {
            Note::StreamDefined { .. } | Note::PolicyProposed { .. } => true,
            Note::RowsIngested { manifest, .. } => Manifest::from_bytes(manifest).is_ok_and(|manifest| {
                !stream.batches.contains(&manifest.batch)
                    && manifest.parts.iter().all(|part| stream.stage(&part.block) == Stage::Open)
            }),
            Note::BlocksSealed { blocks, .. } => {
                let mut once = BTreeSet::new();
                blocks.iter().all(|key| stream.stage(key) == Stage::Open && once.insert(key))
            }
            Note::UnitsCounted { level, first, .. } => {
                let node = Node { level: *level, first: *first };
                *level < 32 && !stream.counted.contains_key(&node) && node.steps().end <= stream.sealed.len() as u64
            }
            Note::QueryAnswered { by, key, .. } => !stream.answered.contains_key(&(by.clone(), key.clone())),
            Note::QuarantineErased { files, .. } => {
                let kept = |file: &String| stream.quarantine.iter().any(|own| own.part.file == *file);
                files.iter().all(kept)
            }
            Note::MemberSuspended { member, .. } => !stream.suspended.contains_key(member),
            Note::MemberReinstated { member, .. } => stream.suspended.contains_key(member),
            Note::BlocksDeleted { blocks, .. } => blocks.iter().all(|key| stream.stage(key) != Stage::Deleted),
            _ => false,
        }
    }

    /// Applies the next note of the log.
    ///
    /// # Errors
    /// When the note is not valid here; the catalog is then unchanged.
    pub(crate) fn apply(&mut self, note: Note) -> Result<(), InvalidNote> {
        if !self.allows(&note) {
            return Err(InvalidNote);
        }
        if let Note::StreamDefined { stream, text, secret, approves, .. } = note {
            return self.define(stream, &text, secret, approves.is_some());
        }
        if note.concerns_runs() {
            let stream = note.stream().and_then(|name| self.streams.get(name));
            let sealed = stream.map_or(0, |stream| u32::try_from(stream.sealed.len()).unwrap_or(u32::MAX));
            return self.history.apply(note, sealed);
        }
        let stream = note.stream().and_then(|name| self.streams.get_mut(name)).ok_or(InvalidNote)?;
        match note {
            Note::PolicyProposed { text, by, .. } => stream.proposal = Some(Proposal { text, by }),
            Note::RowsIngested { manifest, at, .. } => {
                let manifest = Manifest::from_bytes(&manifest).map_err(|_| InvalidNote)?;
                let quarantined = manifest.quarantine.into_iter();
                stream.quarantine.extend(quarantined.map(|part| QuarantinedFile {
                    part,
                    batch: manifest.batch.clone(),
                    at,
                }));
                stream.batches.insert(manifest.batch);
                for part in manifest.parts {
                    let block = stream.blocks.entry(part.block.clone()).or_default();
                    block.last_batch = block.last_batch.max(at);
                    block.parts.push(part);
                }
            }
            Note::BlocksSealed { blocks, .. } => {
                for key in blocks {
                    stream.blocks.entry(key.clone()).or_default().stage = Stage::Sealed;
                    stream.sealed.push(key);
                }
            }
            Note::UnitsCounted { level, first, train, test, .. } => {
                stream.counted.insert(Node { level, first }, [train, test]);
            }
            Note::QueryAnswered { by, key, sql, charge, answer, parameters, .. } => {
                stream.answered.insert((by, key), AnsweredQuery { sql, parameters, charge, answer });
            }
            Note::QuarantineErased { files, .. } => {
                stream.quarantine.retain(|own| !files.contains(&own.part.file));
            }
            Note::MemberSuspended { member, reason, .. } => {
                stream.suspended.insert(member, reason);
            }
            Note::MemberReinstated { member, .. } => {
                stream.suspended.remove(&member);
            }
            Note::BlocksDeleted { blocks, .. } => {
                let deleted = || Block { stage: Stage::Deleted, parts: Vec::new(), last_batch: None };
                stream.blocks.extend(blocks.into_iter().map(|key| (key, deleted())));
            }
            _ => return Err(InvalidNote),
        }
        Ok(())
    }

    fn define(&mut self, name: String, text: &str, secret: Option<String>, approved: bool) -> Result<(), InvalidNote> {
        let file = StreamFile::parse(text).map_err(|_| InvalidNote)?;
        let stream = match self.streams.entry(name) {
            Entry::Occupied(known) => {
                let stream = known.into_mut();
                stream.file = file;
                stream.secret = secret;
                stream.proposal = None;
                stream.approvals_recorded |= approved;
                stream
            }
            Entry::Vacant(entry) => {
                let (context_members, suspended) = Default::default();
                let (batches, blocks, sealed, counted, answered, quarantine) = Default::default();
                entry.insert(Stream {
                    file,
                    secret,
                    proposal: None,
                    approvals_recorded: approved,
                    context_members,
                    suspended,
                    batches,
                    blocks,
                    sealed,
                    counted,
                    answered,
                    quarantine,
                })
            }
        };
        for (member, context) in stream.file.policy.separate_members() {
            stream.context_members.entry(member.to_owned()).or_insert_with(|| context.to_owned());
        }
        Ok(())
    }
}

impl Stream {
    /// Whether the stream file gives the principal this role and the principal is not suspended.
    pub(crate) fn has_role(&self, principal: &str, role: Role) -> bool {
        has_role(&self.file, &self.suspended, principal, role)
    }

    /// Whether the submitter of a run may still spend budget for it.
    pub(crate) fn may_spend(&self, run: &Run) -> bool {
        may_spend(&self.file, &self.suspended, run)
    }

    /// The end of a block in microseconds since 1970: the end of its time span or, for keys without a time (blocks of
    /// users or of an attribute), the time of the last batch. `None` if the log records neither.
    pub(crate) fn block_end(&self, key: &str) -> Option<i64> {
        let span = self.file.blocks.parse(key).and_then(|levels| levels.span);
        let last_batch = || i64::try_from(self.blocks.get(key)?.last_batch?).ok()?.checked_mul(1000);
        span.map(|span| span.end).or_else(last_batch)
    }

    /// The stage of a block. A block that no note names is open.
    pub(crate) fn stage(&self, key: &str) -> Stage {
        self.blocks.get(key).map_or(Stage::Open, |block| block.stage)
    }
}

fn has_role(file: &StreamFile, suspended: &BTreeMap<String, String>, principal: &str, role: Role) -> bool {
    let given = file.access.get(&role).is_some_and(|names| names.iter().any(|name| name == principal));
    given && !suspended.contains_key(principal)
}

/// Whether the submitter of a run may spend budget for it under this file: an ML engineer who is not suspended and,
/// where contexts have members, is a member of the paying context.
pub(crate) fn may_spend(file: &StreamFile, suspended: &BTreeMap<String, String>, run: &Run) -> bool {
    has_role(file, suspended, &run.by, Role::MlEngineer)
        && file.policy.can_still_spend(&run.by, run.pipeline.context.as_deref())
}
