//! A consistent view of all streams at one moment, for front ends.
//!
//! Everything here is public: keys of blocks, what was charged, what is left. It must never contain a row, a count of
//! rows or the size of a file.

use std::fmt;
use std::sync::Arc;

use sage_kernel::{BlockId, ContextId, Epsilon, Filter, Head, Lane, Policy, Stream as Ledgered};

use sage_learn::plan::odometer;

use crate::api::{Engine, EngineError};
use crate::catalog::{Catalog, Stage, Stream};

/// The state of all streams at one moment.
pub struct Snapshot {
    head: Head,
    catalog: Arc<Catalog>,
    streams: Vec<Ledgered>,
}

/// A stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamView {
    /// Its name.
    pub name: String,
    /// Its file, in canonical form.
    pub file: String,
    /// The privacy unit.
    pub unit: &'static str,
    /// The privacy guarantee in one sentence.
    pub promise: String,
    /// The proposer of a change that waits for a second officer, if there is one.
    pub proposed_by: Option<String>,
    /// The waiting proposal.
    pub proposal: Option<ProposalView>,
    /// Members whose roles are suspended, with the reason.
    pub suspended: Vec<(String, String)>,
    /// The largest loss of any block, which is that of the stream.
    pub spent: Epsilon,
    /// The number of blocks in each state.
    pub blocks: [(State, usize); 4],
}

/// A change of a stream file that waits for a second officer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalView {
    /// The proposer.
    pub by: String,
    /// The proposed file.
    pub text: String,
    /// The digest that an approval must name.
    pub digest: String,
}

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Rows can be added; it cannot be charged yet.
    Open,
    /// It can be charged.
    Sealed,
    /// Retired: it can never be read again.
    Retired,
    /// Retired, and its files are deleted.
    Deleted,
}

impl State {
    const ALL: [Self; 4] = [Self::Open, Self::Sealed, Self::Retired, Self::Deleted];
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Open => "open",
            Self::Sealed => "sealed",
            Self::Retired => "retired",
            Self::Deleted => "deleted",
        })
    }
}

/// A block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockView {
    /// Its public key.
    pub key: String,
    /// Its state.
    pub state: State,
    /// Its lanes: train, then test.
    pub lanes: [LaneView; 2],
}

/// The loss of a lane of a block so far, as ε at the ceiling's δ, in the context with the largest loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneView {
    /// The lane.
    pub lane: Lane,
    /// The loss of all charges.
    pub spent: Epsilon,
    /// What is left below the ceiling by the same count.
    pub left: Epsilon,
}

impl Engine {
    /// A snapshot of the present state.
    ///
    /// # Errors
    /// When the log has failed.
    pub fn snapshot(&self) -> Result<Snapshot, EngineError> {
        self.with(|gate, catalog| {
            let ledger = gate.ledger();
            let streams = (0..).map_while(|index| ledger.stream(sage_kernel::StreamId(index)).cloned()).collect();
            Ok(Snapshot { head: gate.head(), catalog: Arc::clone(catalog), streams })
        })
    }
}

impl Snapshot {
    /// The head of the log.
    pub const fn head(&self) -> Head {
        self.head
    }

    /// All streams.
    pub fn streams(&self) -> Vec<StreamView> {
        self.both().map(|(stream, ledgered)| view(stream, ledgered)).collect()
    }

    /// One stream.
    pub fn stream(&self, name: &str) -> Option<StreamView> {
        self.both().find(|(_, ledgered)| ledgered.name() == name).map(|(stream, ledgered)| view(stream, ledgered))
    }

    /// The blocks of a stream, in order of arrival.
    pub fn blocks(&self, name: &str) -> Option<Vec<BlockView>> {
        let (stream, ledgered) = self.both().find(|(_, ledgered)| ledgered.name() == name)?;
        Some(block_views(stream, ledgered))
    }

    /// A stream and its blocks, computed together.
    pub fn stream_with_blocks(&self, name: &str) -> Option<(StreamView, Vec<BlockView>)> {
        let (stream, ledgered) = self.both().find(|(_, ledgered)| ledgered.name() == name)?;
        let blocks = block_views(stream, ledgered);
        Some((view_of(stream, ledgered, &blocks), blocks))
    }

    /// The catalog's entry of a stream.
    pub(crate) fn known(&self, name: &str) -> Option<&Stream> {
        self.catalog.stream(name)
    }

    fn both(&self) -> impl Iterator<Item = (&Stream, &Ledgered)> {
        self.streams.iter().filter_map(|ledgered| Some((self.catalog.stream(ledgered.name())?, ledgered)))
    }
}

fn view(stream: &Stream, ledgered: &Ledgered) -> StreamView {
    view_of(stream, ledgered, &block_views(stream, ledgered))
}

fn view_of(stream: &Stream, ledgered: &Ledgered, blocks: &[BlockView]) -> StreamView {
    let lost = blocks.iter().flat_map(|block| block.lanes).map(|lane| lane.spent).max();
    StreamView {
        name: ledgered.name().to_owned(),
        file: stream.file.to_text(),
        unit: stream.file.unit_text(),
        promise: promise(stream.file.unit_text(), ledgered.policy()),
        proposed_by: stream.proposal.as_ref().map(|proposal| proposal.by.clone()),
        proposal: stream.proposal.as_ref().map(|proposal| ProposalView {
            by: proposal.by.clone(),
            text: proposal.text.clone(),
            digest: proposal.digest(),
        }),
        suspended: stream.suspended.iter().map(|(member, reason)| (member.clone(), reason.clone())).collect(),
        spent: lost.unwrap_or(Epsilon::ZERO),
        blocks: State::ALL.map(|state| (state, blocks.iter().filter(|block| block.state == state).count())),
    }
}

fn promise(unit: &str, policy: &Policy) -> String {
    let ceiling = policy.joint().unwrap_or(&policy.contexts()[0].filter).ceiling();
    let together = match (policy.contexts().len(), policy.joint()) {
        (1, _) | (_, Some(_)) => "everything ever released",
        _ => "everything ever released in one context",
    };
    format!(
        "{unit} more or less changes the probability of any outcome of {together} by at most a factor of e^{}, plus {}",
        ceiling.epsilon, ceiling.delta
    )
}

fn block_views(stream: &Stream, ledgered: &Ledgered) -> Vec<BlockView> {
    let mut readers = [Reader::default(), Reader::default()];
    let keys = ledgered.block_keys().iter();
    keys.zip(0..).map(|(key, index)| block_view(stream, ledgered, key, BlockId(index), &mut readers)).collect()
}

fn block_view(stream: &Stream, ledgered: &Ledgered, key: &str, block: BlockId, readers: &mut [Reader; 2]) -> BlockView {
    let state = match stream.stage(key) {
        Stage::Deleted => State::Deleted,
        _ if ledgered.is_retired(block) => State::Retired,
        Stage::Sealed => State::Sealed,
        Stage::Open => State::Open,
    };
    let [train, test] = readers;
    let lanes = [lane_view(ledgered, block, Lane::Train, train), lane_view(ledgered, block, Lane::Test, test)];
    BlockView { key: key.to_owned(), state, lanes }
}

/// Reads the losses of a lane, block after block. Neighbouring blocks often have equal losses, and a reading takes a
/// logarithm per order.
#[derive(Default)]
struct Reader {
    /// For each book, the amounts of the previous block and their reading.
    last: Vec<(Vec<u128>, Epsilon)>,
}

impl Reader {
    fn read(&mut self, book: usize, filter: &Filter, spent: &[u128]) -> Epsilon {
        match self.last.get_mut(book) {
            Some((known, read)) if known == spent => *read,
            Some(last) => {
                *last = (spent.to_vec(), odometer(filter, spent));
                last.1
            }
            None => {
                let read = odometer(filter, spent);
                self.last.push((spent.to_vec(), read));
                read
            }
        }
    }
}

/// The lane according to the book with the least left.
fn lane_view(ledgered: &Ledgered, block: BlockId, lane: Lane, reader: &mut Reader) -> LaneView {
    let policy = ledgered.policy();
    let contexts = (0..)
        .zip(policy.contexts())
        .map(|(index, context)| (&context.filter, ledgered.spent(ContextId(index), block, lane).unwrap_or_default()));
    let joint = policy.joint().map(|filter| (filter, ledgered.spent_jointly(block, lane).unwrap_or_default()));
    let books = contexts.chain(joint).enumerate().map(|(book, (filter, spent))| {
        let (spent, ceiling) = (reader.read(book, filter, spent), filter.ceiling().epsilon);
        let left = Epsilon::from_units(ceiling.units().saturating_sub(spent.units())).unwrap_or(Epsilon::ZERO);
        LaneView { lane, spent, left }
    });
    books.min_by_key(|view| view.left).unwrap_or(LaneView { lane, spent: Epsilon::ZERO, left: Epsilon::ZERO })
}
