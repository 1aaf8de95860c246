//! The census: private sizes of sealed blocks, and a running count of the stream's privacy units.
//!
//! Steps are blocks in sealing order. The number of units in a range of steps is released as a node of a binary tree
//! (`sage_learn::count`), each under its own charge: with L levels a unit is in L nodes, and each node costs a share
//! 1/L of the census's ε on both lanes. With a horizon of one step there is one level, and the nodes are the sizes of
//! the blocks. In a stream of users the units are users. Units must be counted by the kernel's histogram only.

use sage_kernel::{AccessMode, Contribution, Cost, Epsilon, Lane, Mechanism, TableNoise};
use sage_learn::count::{Node, Tree, laplace_sum_quantile};
use sage_learn::statistics::Histogram;

use crate::api::policy::found;
use crate::api::snapshot::Snapshot;
use crate::api::{Engine, EngineError, note};
use crate::catalog::{Note, Stream};
use crate::read::{Batch, Query, SummaryFunction};
use crate::stream::Census;
use crate::worker::ChargeRequest;

/// How many times a node is requested again after a crash burnt its charge.
const TRIES: u32 = 3;

/// A private count of the units in all sealed blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitCount {
    /// The estimate.
    pub estimate: i64,
    /// A lower bound, with the error probability below.
    pub at_least: i64,
    /// The probability that any lower bound of this census was too high.
    pub chance: f64,
}

/// The released results of a stream's census.
#[derive(Clone, Debug, PartialEq)]
pub struct CensusView {
    /// The privacy unit that is counted.
    pub unit: &'static str,
    /// The total ε of the census on each lane of a block.
    pub epsilon: Epsilon,
    /// The number of blocks for which the running count is most accurate.
    pub horizon: u32,
    /// The units in all counted sealed blocks; `None` before the first count.
    pub total: Option<UnitCount>,
    /// Every released count, by its blocks.
    pub counts: Vec<RangeCount>,
}

/// A released count of the units in a range of blocks, in sealing order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeCount {
    /// The first block.
    pub first: String,
    /// The last block.
    pub last: String,
    /// The private number of units on the train and on the test lane.
    pub lanes: [i64; 2],
}

/// The probability that any lower bound of a census within its horizon is too high.
const CHANCE: f64 = 0.05;

impl Engine {
    /// Releases the counts that are due: those of every range of steps that sealing has completed. Does nothing if the
    /// stream file has no census.
    ///
    /// # Errors
    /// When a charge is refused or a block cannot be read. Counts that were released stay.
    pub fn count_sealed(&self, stream: &str) -> Result<(), EngineError> {
        let catalog = self.catalog();
        let known = catalog.stream(stream).ok_or_else(|| EngineError::NoStream(stream.to_owned()))?;
        let Some(census) = &known.file.census else { return Ok(()) };
        let tree = Tree::for_steps(census.horizon);
        let share = share(census, tree);
        let done = known.sealed.len() as u64;
        let retired = self.retired_steps(stream, known)?;
        for node in (1..=done).flat_map(|steps| tree.completed(steps)) {
            // Retired blocks can no longer be counted, but the ranges beside them can.
            let readable = !node.steps().any(|step| retired.get(step as usize).copied().unwrap_or(false));
            if readable && !known.counted.contains_key(&node) {
                self.count_node(stream, known, node, share)?;
            }
        }
        Ok(())
    }

    /// For each sealed block, whether it is retired.
    fn retired_steps(&self, stream: &str, known: &Stream) -> Result<Vec<bool>, EngineError> {
        self.with(|gate, catalog| {
            let (id, _) = found(gate, catalog, stream)?;
            let numbers = crate::api::blocks::numbers(gate, id, &known.sealed)?;
            let ledgered = gate.ledger().stream(id);
            Ok(numbers.into_iter().map(|block| ledgered.is_some_and(|own| own.is_retired(block))).collect())
        })
    }

    fn count_node(&self, stream: &str, known: &Stream, node: Node, share: Epsilon) -> Result<(), EngineError> {
        let steps = node.steps();
        let blocks = known.sealed[steps.start as usize..steps.end as usize].to_vec();
        let cost = || Cost::new(vec![Mechanism::Laplace { epsilon: share, count: 1 }]).map_err(EngineError::Cost);
        let mut outcome = Err(EngineError::NoStream(stream.to_owned()));
        for attempt in 0..TRIES {
            let request = ChargeRequest {
                key: format!("census {stream} {} {} {attempt}", node.level, node.first),
                stream: stream.to_owned(),
                context: None,
                blocks: blocks.clone(),
                costs: [Some(cost()?), Some(cost()?)],
                access: AccessMode::Enforced,
                purpose: "census".to_owned(),
            };
            outcome = self.charge_for_engine(request);
            if !matches!(outcome, Err(EngineError::Served(_))) {
                break;
            }
        }
        // A block is counted again in every node above it, from its cached summary instead of its rows.
        let query = Query { filter: None, columns: Vec::new() };
        let histogram = Histogram { keys: 1, noise: TableNoise::Laplace(share) };
        let sum = |permit: &_, part, rows: &[Batch]| {
            Ok(histogram.summarise(Contribution::ONE, permit, part, rows, |_| Some(0))?.into_iter().collect())
        };
        let sums = (&Lane::BOTH[..], &sum as &SummaryFunction<'_, Batch>);
        let mut session = self.open_summed(outcome?, &query, "census", &|batch| batch, sums)?;
        let mut count = |lane| {
            let counted = session.histogram(lane, 1, TableNoise::Laplace(share), |_| Some(0));
            counted.map(|counts| counts[0].round() as i64).map_err(EngineError::Session)
        };
        let (train, test) = (count(Lane::Train)?, count(Lane::Test)?);
        let counted =
            Note::UnitsCounted { stream: stream.to_owned(), level: node.level, first: node.first, train, test };
        self.release(session.finish(), *blake3::hash(&counted.to_bytes()).as_bytes())?;
        self.with(|gate, catalog| Ok(note(gate, catalog, &counted)?))
    }
}

/// The cost of one node on each lane.
pub(crate) fn share(census: &Census, tree: Tree) -> Epsilon {
    Epsilon::from_units(census.epsilon.units() / u64::from(tree.levels())).unwrap_or(Epsilon::ZERO)
}

impl Snapshot {
    /// The released results of a stream's census; `None` if there is no such stream or its file has no census. All of
    /// it is public, since each number was paid for.
    pub fn census(&self, stream: &str) -> Option<CensusView> {
        let known = self.known(stream)?;
        let census = known.file.census.as_ref()?;
        let block = |step: u64| usize::try_from(step).ok().and_then(|step| known.sealed.get(step)).cloned();
        let count = |(node, lanes): (&Node, &[i64; 2])| {
            let steps = node.steps();
            Some(RangeCount { first: block(steps.start)?, last: block(steps.end.checked_sub(1)?)?, lanes: *lanes })
        };
        Some(CensusView {
            unit: known.file.unit_text(),
            epsilon: census.epsilon,
            horizon: census.horizon,
            total: self.units(stream),
            counts: known.counted.iter().filter_map(count).collect(),
        })
    }

    /// The private number of units in the sealed blocks of a stream; `None` without a census, or before its first
    /// release.
    pub fn units(&self, stream: &str) -> Option<UnitCount> {
        let known = self.known(stream)?;
        let census = known.file.census.as_ref()?;
        let tree = Tree::for_steps(census.horizon);
        let epsilon = share(census, tree).units() as f64 / 1e12;
        let beta = CHANCE / f64::from(census.horizon.max(1));
        let mut last = None;
        let mut at_least = 0;
        for steps in 1..=known.sealed.len() as u64 {
            let nodes: Option<Vec<[i64; 2]>> =
                tree.prefix(steps).map(|node| known.counted.get(&node).copied()).collect();
            let Some(nodes) = nodes else { break };
            let estimate: i64 = nodes.iter().flatten().sum();
            let terms = u32::try_from(2 * nodes.len()).unwrap_or(u32::MAX);
            let off = laplace_sum_quantile(terms, epsilon, beta).unwrap_or(f64::INFINITY);
            at_least = at_least.max(estimate - off.ceil().min(9e18) as i64);
            last = Some(UnitCount { estimate, at_least, chance: CHANCE });
        }
        last
    }
}
