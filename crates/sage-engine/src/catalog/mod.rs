//! The catalog: what the log says of streams, blocks, runs and releases that is no question of budget.
//!
//! Like the ledger it is a fold of the log by a pure function, which checks every note it takes: a log that
//! breaks the rules is not opened. It must never hold a row, a count of rows or a budget.

mod approval;
mod note;
mod noted;
mod run;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use note::Note;
pub(crate) use noted::Noted;
pub(crate) use run::{Ended, Released, Run, Step, Try, Works};
use sage_learn::count::Node;

use crate::blocks::Part;
use crate::ingest::Manifest;
use crate::query::{Answer, Asked};
use crate::stream::{Role, StreamFile};

/// How far a block has come, apart from being retired, which is the ledger's business.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Rows may still be added.
    #[default]
    Open,
    /// Never changes again.
    Sealed,
    /// Its files are no longer kept.
    Deleted,
}

/// A block's files and stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) stage: Stage,
    pub(crate) parts: Vec<Part>,
    /// When the last batch brought it rows, in milliseconds since 1970; `None` where the log does not say.
    pub(crate) last_batch: Option<u64>,
}

/// A policy that waits for a second principal.
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

/// The digest of a stream's file by which officers name it.
pub(crate) fn text_digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// A stream as its notes describe it.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) file: StreamFile,
    /// The digest of the secret that sends its users to lanes.
    pub(crate) secret: Option<String>,
    pub(crate) proposal: Option<Proposal>,
    /// Whether a definition of it names the proposal that it approves, as those of newer programs do.
    approvals_recorded: bool,
    /// Whoever was ever a member of a context that is apart from others, with the first such context.
    pub(crate) belonged: BTreeMap<String, String>,
    /// Members whose roles are suspended, with the reason.
    pub(crate) suspended: BTreeMap<String, String>,
    pub(crate) batches: BTreeSet<String>,
    pub(crate) blocks: BTreeMap<String, Block>,
    /// The keys of blocks in the order in which they were sealed: the steps of the running count.
    pub(crate) sealed: Vec<String>,
    /// What the running count is made of: for a run of steps, the private number of units on each lane.
    pub(crate) counted: BTreeMap<Node, [i64; 2]>,
    /// Questions that were answered, by who asked and their own name for it.
    pub(crate) answered: BTreeMap<(String, String), Answered>,
    /// Files with rows that are in no block.
    pub(crate) quarantine: Vec<Quarantined>,
}

/// A file of rows that are in no block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quarantined {
    pub(crate) part: Part,
    /// The batch that brought them.
    pub(crate) batch: String,
    /// When, in milliseconds since 1970; `None` where an older program wrote the note.
    pub(crate) at: Option<u64>,
}

/// A question that was answered.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) sql: String,
    /// Absent where an older program wrote the note.
    pub(crate) asked: Option<Asked>,
    pub(crate) charge: u64,
    pub(crate) answer: Answer,
}

/// Everything but budgets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// By name.
    streams: BTreeMap<String, Stream>,
    works: Works,
}

/// A note that the rules do not allow at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misplaced;

impl Catalog {
    /// The stream with this name, if a note has defined it.
    pub(crate) fn stream(&self, name: &str) -> Option<&Stream> {
        self.streams.get(name)
    }

    /// All streams, by name.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (&str, &Stream)> {
        self.streams.iter().map(|(name, stream)| (name.as_str(), stream))
    }

    /// All runs and what they released.
    pub(crate) const fn works(&self) -> &Works {
        &self.works
    }

    /// Whether the note is allowed at this point.
    pub(crate) fn allows(&self, note: &Note) -> bool {
        if let Note::StreamDefined { stream, text, by, approves, .. } = note {
            let Some(file) = StreamFile::parse(text).ok().filter(|file| file.name == *stream) else { return false };
            let definition = approval::Definition { file: &file, by, approves: approves.as_deref() };
            return self.streams.get(stream).map_or(approves.is_none(), |known| known.is_approved(&definition));
        }
        let stream = note.stream().and_then(|name| self.streams.get(name));
        if note.is_of_works() {
            return self.works.allows(note, stream);
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

    /// Takes in one note of the log.
    ///
    /// # Errors
    /// When the note is not allowed here; the catalog is then unchanged.
    pub(crate) fn apply(&mut self, note: Note) -> Result<(), Misplaced> {
        if !self.allows(&note) {
            return Err(Misplaced);
        }
        if let Note::StreamDefined { stream, text, secret, approves, .. } = note {
            return self.define(stream, &text, secret, approves.is_some());
        }
        if note.is_of_works() {
            return self.works.apply(note);
        }
        let stream = note.stream().and_then(|name| self.streams.get_mut(name)).ok_or(Misplaced)?;
        match note {
            Note::PolicyProposed { text, by, .. } => stream.proposal = Some(Proposal { text, by }),
            Note::RowsIngested { manifest, at, .. } => {
                let manifest = Manifest::from_bytes(&manifest).map_err(|_| Misplaced)?;
                let aside = manifest.quarantine.into_iter();
                stream.quarantine.extend(aside.map(|part| Quarantined { part, batch: manifest.batch.clone(), at }));
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
            Note::QueryAnswered { by, key, sql, charge, answer, asked, .. } => {
                stream.answered.insert((by, key), Answered { sql, asked, charge, answer });
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
            _ => return Err(Misplaced),
        }
        Ok(())
    }

    fn define(&mut self, name: String, text: &str, secret: Option<String>, approved: bool) -> Result<(), Misplaced> {
        let file = StreamFile::parse(text).map_err(|_| Misplaced)?;
        let stream = match self.streams.entry(name) {
            Entry::Occupied(known) => {
                let stream = known.into_mut();
                stream.file = file;
                stream.secret = secret;
                stream.proposal = None;
                stream.approvals_recorded |= approved;
                stream
            }
            Entry::Vacant(place) => {
                let (belonged, suspended) = Default::default();
                let (batches, blocks, sealed, counted, answered, quarantine) = Default::default();
                place.insert(Stream {
                    file,
                    secret,
                    proposal: None,
                    approvals_recorded: approved,
                    belonged,
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
            stream.belonged.entry(member.to_owned()).or_insert_with(|| context.to_owned());
        }
        Ok(())
    }
}

impl Stream {
    /// Whether the file gives a principal this role and it is not suspended.
    pub(crate) fn has_role(&self, principal: &str, role: Role) -> bool {
        has_role(&self.file, &self.suspended, principal, role)
    }

    /// Whether the submitter of a run may still spend for it.
    pub(crate) fn may_spend(&self, run: &Run) -> bool {
        may_spend(&self.file, &self.suspended, run)
    }

    /// When a block ends, in microseconds since 1970: with its time or, where its key has none (blocks of users, of an
    /// attribute), with the last batch that brought it rows. `None` where the log does not say.
    pub(crate) fn end_of(&self, key: &str) -> Option<i64> {
        let span = self.file.blocks.parse(key).and_then(|levels| levels.span);
        let last_batch = || i64::try_from(self.blocks.get(key)?.last_batch?).ok()?.checked_mul(1000);
        span.map(|span| span.end).or_else(last_batch)
    }

    /// The stage of a block; one that no note has named is open.
    pub(crate) fn stage(&self, key: &str) -> Stage {
        self.blocks.get(key).map_or(Stage::Open, |block| block.stage)
    }
}

fn has_role(file: &StreamFile, suspended: &BTreeMap<String, String>, principal: &str, role: Role) -> bool {
    let given = file.access.get(&role).is_some_and(|names| names.iter().any(|name| name == principal));
    given && !suspended.contains_key(principal)
}

/// Whether the submitter of a run may spend for it under this file: an ML engineer who is not suspended and, where
/// contexts have members, a member of the context that pays.
pub(crate) fn may_spend(file: &StreamFile, suspended: &BTreeMap<String, String>, run: &Run) -> bool {
    has_role(file, suspended, &run.by, Role::MlEngineer)
        && file.policy.can_still_spend(&run.by, run.pipeline.context.as_deref())
}
