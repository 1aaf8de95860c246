//! The ledger: the amounts spent on every lane of every block, as a fold of the log.
//!
//! A deterministic state machine over integers. [`Ledger::apply`] checks every event that is read from a log, so a log
//! that breaks the rules cannot be replayed into a state that admits more. Only the gate enters a charge without this
//! check, right after deciding it on the same state, and withdraws it if the append fails. The ledger must never read a
//! clock, a random number, a float or a row. Proof that a filter on each lane of each block bounds the stream:
//! `proofs/block.md`.

mod snapshot;

use std::collections::{BTreeMap, BTreeSet};

use crate::block::{BlockId, Blocks, ContextId, Lane, StreamId};
use crate::cost::Amounts;
use crate::event::{Charge, Event, GrantId, Request, RequestKey};
use crate::message::display;
use crate::policy::Policy;
use sage_numerics::KeyIndex;

/// The state of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantState {
    /// Charged, nothing read yet. It can be cancelled, and started unless one of its blocks is retired.
    Charged,
    /// Rows can have been read; the charge is final.
    Started,
    /// Cancelled before it started; the charge was undone.
    Cancelled,
    /// A result with this SHA-256 digest was released.
    Released([u8; 32]),
    /// Ended without a release; the charge stands.
    Burnt,
}

/// An event of the log violates the rules of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InconsistentLog {
    /// The event's number.
    pub number: u64,
}

display!(error InconsistentLog {
    Self { number } => format!("event {number} of the log breaks the rules of the ledger; nothing is granted on this log"),
});

/// The state of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    name: String,
    policy: Policy,
    keys: Vec<String>,
    /// The same keys, for lookup: a key identifies one block for ever.
    known: BTreeSet<String>,
    retired: Option<Blocks>,
    /// For each book and lane, the amounts spent on each block, one block after the other.
    spent: Vec<[Vec<u128>; 2]>,
}

impl Stream {
    fn new(name: String, policy: Policy) -> Self {
        let spent = policy.filters().map(|_| [Vec::new(), Vec::new()]).collect();
        Self { name, policy, keys: Vec::new(), known: BTreeSet::new(), retired: None, spent }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The public keys of its blocks, in order of arrival.
    pub fn block_keys(&self) -> &[String] {
        &self.keys
    }

    /// Whether the block is retired: it can never be read again.
    pub fn is_retired(&self, block: BlockId) -> bool {
        self.retired.as_ref().is_some_and(|retired| retired.contains(block))
    }

    /// The amounts spent on a lane of a block in a context, one for each component of the context's filter.
    pub fn spent(&self, context: ContextId, block: BlockId, lane: Lane) -> Option<&[u128]> {
        let own = context.0 as usize;
        self.policy.contexts().get(own).and_then(|_| self.cell(own, block, lane))
    }

    /// The amounts spent on a lane of a block in all contexts together; `None` without a joint ceiling.
    pub fn spent_jointly(&self, block: BlockId, lane: Lane) -> Option<&[u128]> {
        self.cell(self.policy.contexts().len(), block, lane)
    }

    fn cell(&self, book: usize, block: BlockId, lane: Lane) -> Option<&[u128]> {
        let width = self.policy.filters().nth(book)?.caps().len();
        let start = (block.0 as usize).checked_mul(width)?;
        self.spent[book][lane.index()].get(start..start + width)
    }

    /// The amounts spent on a range of blocks, one block after the other.
    pub(crate) fn cells(&self, book: usize, lane: Lane, width: usize, indices: std::ops::Range<usize>) -> &[u128] {
        &self.spent[book][lane.index()][indices.start * width..indices.end * width]
    }

    /// The first block of the set that does not exist.
    pub(crate) fn first_unknown(&self, blocks: &Blocks) -> Option<BlockId> {
        let known = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        let range = blocks.ranges().iter().find(|range| range.last().0 >= known)?;
        Some(BlockId(range.first().0.max(known)))
    }

    /// The first block of the set that is retired.
    pub(crate) fn first_retired(&self, blocks: &Blocks) -> Option<BlockId> {
        blocks.first_common(self.retired.as_ref()?)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: GrantId,
    pub(crate) key: RequestKey,
    pub(crate) state: GrantState,
}

/// The state of all budgets after the events of a log.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    streams: Vec<Stream>,
    /// In order of their numbers, which is the order of the log.
    grants: Vec<Entry>,
    /// Index of `grants` by request key.
    keys: KeyIndex,
    /// Charges of grants that have not started. They are needed to start or cancel the grant; afterwards only the log
    /// keeps them.
    waiting: BTreeMap<GrantId, Box<Charge>>,
}

impl PartialEq for Ledger {
    fn eq(&self, other: &Self) -> bool {
        (&self.streams, &self.grants, &self.waiting) == (&other.streams, &other.grants, &other.waiting)
    }
}

impl Ledger {
    /// The stream with this number.
    pub fn stream(&self, stream: StreamId) -> Option<&Stream> {
        self.streams.get(stream.0 as usize)
    }

    /// The stream with this name.
    pub fn stream_named(&self, name: &str) -> Option<StreamId> {
        let index = self.streams.iter().position(|stream| stream.name == name)?;
        u32::try_from(index).ok().map(StreamId)
    }

    /// The state of the grant.
    pub fn grant_state(&self, grant: GrantId) -> Option<GrantState> {
        self.entry(grant).map(|entry| entry.state)
    }

    /// The charge of a grant that has not started.
    pub fn charge(&self, grant: GrantId) -> Option<&Charge> {
        self.waiting.get(&grant).map(|charge| &**charge)
    }

    /// The grant that was charged under the key.
    pub fn grant_for(&self, key: RequestKey) -> Option<GrantId> {
        let is = |index: usize| self.grants.get(index).is_some_and(|entry| entry.key == key);
        self.keys.find(&key.bytes(), is).map(|index| self.grants[index].id)
    }

    fn entry(&self, grant: GrantId) -> Option<&Entry> {
        let index = self.grants.binary_search_by_key(&grant, |entry| entry.id).ok()?;
        self.grants.get(index)
    }

    /// Grants that have not started, oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = GrantId> + '_ {
        self.waiting.keys().copied()
    }

    /// Grants that have started and not ended, oldest first. Scans all grants; it is used after a crash, to burn them.
    pub fn running(&self) -> impl Iterator<Item = GrantId> + '_ {
        self.grants.iter().filter(|entry| entry.state == GrantState::Started).map(|entry| entry.id)
    }

    /// Whether the rules allow the event in this state.
    pub(crate) fn allows(&self, event: &Event) -> bool {
        let in_state = |grant: &GrantId, state| self.grant_state(*grant) == Some(state);
        match event {
            Event::StreamCreated { name, .. } => {
                self.stream_named(name).is_none() && self.streams.len() < u32::MAX as usize
            }
            Event::BlocksAdded { stream, keys } => self.stream(*stream).is_some_and(|stream| {
                let mut added = BTreeSet::new();
                keys.iter().all(|key| !stream.known.contains(key) && added.insert(key))
                    && stream.keys.len().checked_add(keys.len()).is_some_and(|count| count < u32::MAX as usize)
            }),
            Event::Charged(charge) => {
                self.grants.len() < u32::MAX as usize - 1
                    && self.grant_for(charge.request.key).is_none()
                    && self.is_admissible(charge)
            }
            Event::Started { grant } => in_state(grant, GrantState::Charged) && self.may_be_read(*grant),
            Event::Cancelled { grant } => in_state(grant, GrantState::Charged),
            Event::Released { grant, .. } | Event::Burnt { grant } => in_state(grant, GrantState::Started),
            Event::Retired { stream, blocks } => {
                self.stream(*stream).is_some_and(|stream| stream.first_unknown(blocks).is_none())
            }
            Event::PolicyChanged { stream, policy, approvals } => {
                let different: BTreeSet<&String> = approvals.iter().collect();
                let needed = self.stream(*stream).and_then(|stream| stream.policy.approvals_to_become(policy));
                needed.is_some_and(|needed| different.len() >= needed)
            }
            Event::Note { .. } | Event::Snapshot { .. } => true,
        }
    }

    /// Whether no block of the grant has been retired and its access mode is still admitted.
    ///
    /// Lower caps do not stop it: its charge is already counted, and the guarantee is that of the loosest policy ever in
    /// force (`proofs/block.md`). Retiring blocks and withdrawing an access mode restrict who reads from now on.
    fn may_be_read(&self, grant: GrantId) -> bool {
        let Some(Charge { request, .. }) = self.charge(grant) else { return false };
        self.stream(request.stream).is_some_and(|stream| {
            stream.first_retired(&request.blocks).is_none() && stream.policy.admits(&request.access)
        })
    }

    /// Applies one event and returns the charge of the grant that it started or cancelled.
    ///
    /// # Guarantee
    /// Either the rules allow the event and the state includes it, or the state is unchanged.
    ///
    /// # Errors
    /// When the rules do not allow the event.
    pub fn apply(&mut self, number: u64, event: Event) -> Result<Option<Box<Charge>>, InconsistentLog> {
        let follows = self.grants.last().is_none_or(|last| last.id < GrantId(number));
        if !follows || !self.allows(&event) {
            return Err(InconsistentLog { number });
        }
        match event {
            Event::StreamCreated { name, policy } => self.streams.push(Stream::new(name, policy)),
            Event::BlocksAdded { stream, keys } => self.add_blocks(stream, keys),
            Event::Charged(_) => self.enter(GrantId(number), event),
            Event::Started { grant } => return Ok(self.move_to(grant, GrantState::Started)),
            Event::Cancelled { grant } => {
                let charge = self.move_to(grant, GrantState::Cancelled);
                charge.iter().for_each(|charge| book(&mut self.streams, charge, |spent, amount| *spent -= amount));
                return Ok(charge);
            }
            Event::Released { grant, digest } => return Ok(self.move_to(grant, GrantState::Released(digest))),
            Event::Burnt { grant } => return Ok(self.move_to(grant, GrantState::Burnt)),
            Event::Retired { stream, blocks } => self.retire(stream, &blocks),
            Event::PolicyChanged { stream, policy, .. } => self.streams[stream.0 as usize].policy = policy,
            Event::Note { .. } | Event::Snapshot { .. } => {}
        }
        Ok(None)
    }

    fn add_blocks(&mut self, stream: StreamId, keys: Vec<String>) {
        let stream = &mut self.streams[stream.0 as usize];
        stream.known.extend(keys.iter().cloned());
        stream.keys.extend(keys);
        let count = stream.keys.len();
        for (book, filter) in stream.spent.iter_mut().zip(stream.policy.filters()) {
            let width = filter.caps().len();
            book.iter_mut().for_each(|lane| lane.resize(count * width, 0));
        }
    }

    /// Enters a charge that was decided on this same state.
    pub(crate) fn enter(&mut self, id: GrantId, event: Event) {
        let Event::Charged(charge) = event else { return };
        book(&mut self.streams, &charge, |spent, amount| *spent += amount);
        self.keys.insert(&charge.request.key.bytes(), self.grants.len());
        self.grants.push(Entry { id, key: charge.request.key, state: GrantState::Charged });
        self.waiting.insert(id, charge);
    }

    /// Removes the newest charge, whose append failed, and returns its request.
    pub(crate) fn withdraw_last(&mut self) -> Option<Request> {
        let charge = self.waiting.remove(&self.grants.pop()?.id)?;
        book(&mut self.streams, &charge, |spent, amount| *spent -= amount);
        Some(charge.request)
    }

    fn move_to(&mut self, grant: GrantId, state: GrantState) -> Option<Box<Charge>> {
        if let Ok(index) = self.grants.binary_search_by_key(&grant, |entry| entry.id) {
            self.grants[index].state = state;
        }
        self.waiting.remove(&grant)
    }

    fn retire(&mut self, stream: StreamId, blocks: &Blocks) {
        let retired = &mut self.streams[stream.0 as usize].retired;
        *retired = Some(retired.as_ref().map_or_else(|| blocks.clone(), |before| before.union(blocks)));
    }
}

/// Changes the spent amounts by those of the charge, on every lane, book and block it names.
fn book(streams: &mut [Stream], charge: &Charge, change: impl Fn(&mut u128, u128)) {
    let request = &charge.request;
    let Some(stream) = streams.get_mut(request.stream.0 as usize) else { return };
    let Some(books) = stream.policy.books(request.context) else { return };
    for (lane, amounts) in charge.amounts.iter().enumerate() {
        for ((book, _), Amounts(amounts)) in books.clone().zip(amounts) {
            let width = amounts.len();
            for range in request.blocks.ranges() {
                let indices = range.indices();
                let cells = &mut stream.spent[book][lane][indices.start * width..indices.end * width];
                // Two components are the common case; written so that memory bandwidth is the limit.
                if let &[one, two] = amounts.as_slice() {
                    cells.as_chunks_mut().0.iter_mut().for_each(|[first, second]| {
                        change(first, u128::from(one));
                        change(second, u128::from(two));
                    });
                    continue;
                }
                for cell in cells.chunks_exact_mut(width) {
                    cell.iter_mut().zip(amounts).for_each(|(spent, &amount)| change(spent, u128::from(amount)));
                }
            }
        }
    }
}
