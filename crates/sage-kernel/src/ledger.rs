//! The ledger: what every lane of every block has spent, as a fold of the log.
//!
//! A pure, deterministic state machine over integers. [`Ledger::apply`] takes in what is read from a log and
//! checks every event, so a log that was not written by these rules cannot be replayed into a state that
//! admits more. The gate alone enters a charge without that check, right after deciding it on the same
//! state, and withdraws it if its append did not happen. It must never read a clock, a random number, a float or a row.
//! Proof that a filter on each lane of each block bounds the stream: `proofs/block.md`.

mod snapshot;

use std::collections::{BTreeMap, BTreeSet};

use crate::block::{BlockId, Blocks, ContextId, Lane, StreamId};
use crate::cost::Amounts;
use crate::event::{Charge, Event, GrantId, Request, RequestKey};
use crate::message::says;
use crate::policy::Policy;
use sage_numerics::KeyIndex;

/// How far a grant has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantState {
    /// Charged; not a byte was read; may be cancelled, and started unless a block of it is retired.
    Charged,
    /// Rows may have been read; the charge is final.
    Started,
    /// Taken back before it started.
    Cancelled,
    /// Something left under it.
    Released([u8; 32]),
    /// Nothing left under it, and nothing will.
    Burnt,
}

/// The log holds an event that the rules do not allow at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inconsistent {
    /// The event's number.
    pub number: u64,
}

says!(error Inconsistent {
    Self { number } => format!("event {number} of the log breaks the rules of the ledger; nothing is granted on this log"),
});

/// One stream as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    name: String,
    policy: Policy,
    keys: Vec<String>,
    /// The same, to find one: a key names one block for ever.
    known: BTreeSet<String>,
    retired: Option<Blocks>,
    /// For each book and lane, the numbers of each block, one block after the other.
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

    /// Whether the block may never be read again.
    pub fn is_retired(&self, block: BlockId) -> bool {
        self.retired.as_ref().is_some_and(|retired| retired.contains(block))
    }

    /// What a lane of a block has spent in a context, number by number as the context's filter has them.
    pub fn spent(&self, context: ContextId, block: BlockId, lane: Lane) -> Option<&[u128]> {
        let own = context.0 as usize;
        self.policy.contexts().get(own).and_then(|_| self.cell(own, block, lane))
    }

    /// What a lane of a block has spent in all contexts together, where the policy caps that.
    pub fn spent_jointly(&self, block: BlockId, lane: Lane) -> Option<&[u128]> {
        self.cell(self.policy.contexts().len(), block, lane)
    }

    fn cell(&self, book: usize, block: BlockId, lane: Lane) -> Option<&[u128]> {
        let width = self.policy.filters().nth(book)?.caps().len();
        let start = (block.0 as usize).checked_mul(width)?;
        self.spent[book][lane.index()].get(start..start + width)
    }

    /// The cells of a range of blocks.
    pub(crate) fn cells(&self, book: usize, lane: Lane, width: usize, places: std::ops::Range<usize>) -> &[u128] {
        &self.spent[book][lane.index()][places.start * width..places.end * width]
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

/// Everything the log says about budgets.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    streams: Vec<Stream>,
    /// In the order of their numbers, which is the order of the log.
    grants: Vec<Entry>,
    /// By the key of its charge; says nothing that `grants` does not.
    keys: KeyIndex,
    /// Charged and not started, with what was charged: it is needed for the start or to be given back, and
    /// from then on the log alone keeps it.
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
        let place = self.streams.iter().position(|stream| stream.name == name)?;
        u32::try_from(place).ok().map(StreamId)
    }

    /// How far the grant has come.
    pub fn grant_state(&self, grant: GrantId) -> Option<GrantState> {
        self.entry(grant).map(|entry| entry.state)
    }

    /// What was charged for a grant that has not started.
    pub fn charge(&self, grant: GrantId) -> Option<&Charge> {
        self.waiting.get(&grant).map(|charge| &**charge)
    }

    /// The grant that was charged for the key.
    pub fn grant_for(&self, key: RequestKey) -> Option<GrantId> {
        let is = |place: usize| self.grants.get(place).is_some_and(|entry| entry.key == key);
        self.keys.find(&key.bytes(), is).map(|place| self.grants[place].id)
    }

    fn entry(&self, grant: GrantId) -> Option<&Entry> {
        let place = self.grants.binary_search_by_key(&grant, |entry| entry.id).ok()?;
        self.grants.get(place)
    }

    /// Grants that are charged and not started, oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = GrantId> + '_ {
        self.waiting.keys().copied()
    }

    /// Grants that are started and not ended, oldest first. Looks at every grant: it is asked for after a
    /// crash, to burn them.
    pub fn running(&self) -> impl Iterator<Item = GrantId> + '_ {
        self.grants.iter().filter(|entry| entry.state == GrantState::Started).map(|entry| entry.id)
    }

    /// Whether the event is allowed at this point.
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
                    && self.stands(charge)
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

    /// Whether no block of the grant has been retired, and its door not closed, since it was charged.
    ///
    /// Lower caps do not stop it: its charge is counted already, and the promise is that of the loosest
    /// policy there was (`proofs/block.md`). Retiring and closing a door are about who reads from now on.
    fn may_be_read(&self, grant: GrantId) -> bool {
        let Some(Charge { request, .. }) = self.charge(grant) else { return false };
        self.stream(request.stream)
            .is_some_and(|stream| stream.first_retired(&request.blocks).is_none() && stream.policy.opens(&request.door))
    }

    /// Adds one event to the state, and gives out the charge of a grant that waits no longer.
    ///
    /// # Guarantee
    /// Either the event is allowed at its place and the state includes it, or the state is unchanged.
    ///
    /// # Errors
    /// When the event is not allowed at its place.
    pub fn apply(&mut self, number: u64, event: Event) -> Result<Option<Box<Charge>>, Inconsistent> {
        let follows = self.grants.last().is_none_or(|last| last.id < GrantId(number));
        if !follows || !self.allows(&event) {
            return Err(Inconsistent { number });
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

    /// Enters a charge that was decided on this very state.
    pub(crate) fn enter(&mut self, id: GrantId, event: Event) {
        let Event::Charged(charge) = event else { return };
        book(&mut self.streams, &charge, |spent, amount| *spent += amount);
        self.keys.insert(&charge.request.key.bytes(), self.grants.len());
        self.grants.push(Entry { id, key: charge.request.key, state: GrantState::Charged });
        self.waiting.insert(id, charge);
    }

    /// Forgets the newest charge, whose append did not happen, and returns what was asked.
    pub(crate) fn withdraw_last(&mut self) -> Option<Request> {
        let charge = self.waiting.remove(&self.grants.pop()?.id)?;
        book(&mut self.streams, &charge, |spent, amount| *spent -= amount);
        Some(charge.request)
    }

    fn move_to(&mut self, grant: GrantId, state: GrantState) -> Option<Box<Charge>> {
        if let Ok(place) = self.grants.binary_search_by_key(&grant, |entry| entry.id) {
            self.grants[place].state = state;
        }
        self.waiting.remove(&grant)
    }

    fn retire(&mut self, stream: StreamId, blocks: &Blocks) {
        let retired = &mut self.streams[stream.0 as usize].retired;
        *retired = Some(retired.as_ref().map_or_else(|| blocks.clone(), |before| before.union(blocks)));
    }
}

/// Adds or takes the charge's amounts on every lane, book and block it names.
fn book(streams: &mut [Stream], charge: &Charge, change: impl Fn(&mut u128, u128)) {
    let request = &charge.request;
    let Some(stream) = streams.get_mut(request.stream.0 as usize) else { return };
    let Some(books) = stream.policy.books(request.context) else { return };
    for (lane, amounts) in charge.amounts.iter().enumerate() {
        for ((book, _), Amounts(amounts)) in books.clone().zip(amounts) {
            let width = amounts.len();
            for range in request.blocks.ranges() {
                let places = range.places();
                let cells = &mut stream.spent[book][lane][places.start * width..places.end * width];
                // Two numbers are the common case, written so that it runs at the speed of memory.
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
