//! Loans: budget that no owner can use now is lent to a pipeline that can.
//!
//! Reservations alone can cause a standstill. A pipeline that waits for twenty blocks holds all of the ten that exist;
//! of seventy pipelines that share a block, each holds less than it needs; a thousand pipelines that read one block
//! each hold a thousandth of every other block. So if no request is covered by its pipeline's own reservations, and no
//! attempt is in progress, one pipeline *borrows*: it spends what it requests, and the remainder of each block on which
//! it had too little is divided again, evenly, among the other waiting pipelines.
//!
//! # What is promised
//! A loan leaves a waiting pipeline q the cost of its next attempt on each block b for which three conditions hold:
//! - b arrived after q began to wait (since its arrival, or since its last attempt was charged), and q reads b;
//! - q's reservation on b covers that cost, so it is useful to q as it is;
//! - q arrived before the borrower.
//!
//! Everything else that is left of b is *spare* for the borrower. If several pipelines can borrow, those come first
//! that touch no promise at all, not even one to a later pipeline; among them the one that requests the smallest share
//! of a block, as in dominant-share fairness. Otherwise the longest-waiting pipeline borrows.
//!
//! # Progress
//! If nothing is covered or in progress, and a request fits the spare budget of its blocks, then some pipeline borrows.
//! On blocks that arrived before all waiting pipelines, everything that is left is spare.
//!
//! # No starvation
//! Let q wait for w blocks at a cost of at most its even share of each of the next w blocks. Each of these covers the
//! cost when it arrives. Arrivals take nothing, charges of others use only their own reservations, departures add, and
//! loans of later pipelines preserve the cost. So after w blocks q's own reservations cover its window, unless
//! pipelines that arrived before q borrowed there. Those make finitely many attempts before they end, by their limits
//! or their deadline; by induction over the order of arrival q gets its window. A pipeline that requests more than its
//! even share has no such guarantee: it borrows when others leave enough.
//!
//! So the bound holds for `frugal`, whose cost falls to its first one while the window grows, where the first cost is
//! within the even share; for `informed` while its next attempt is within it; and not for `conserve`, which never
//! lowers its cost. An informed run borrows at small costs only, so it does not delay others by a single wide attempt.
//!
//! # Where budget is unlocked by requests
//! A block whose budget is unlocked by the N-th requester could keep a pipeline waiting for requesters that never come.
//! So if nothing is ready, only existing requesters are counted: those that wait, and those that requested and left. If
//! that is not enough either, what is left is lent in the order of the scheduler.
//!
//! What a loan leaves to which pipeline follows from events in the log: arrivals, blocks, next costs, charges and
//! departures. Requests, which are not in the log, only decide who borrows.

use std::collections::BTreeMap;

use sage_kernel::{BlockId, Blocks};

use super::queue::by_share;
use super::{
    Allocation, Block, Counting, PipelineId, RESOURCES, Reads, Refused, RequestCost, Resources, Scheduler, Unlock, each,
};

/// The promises on a block, in order of arrival.
#[derive(Default)]
struct Promises {
    needs: Vec<(PipelineId, Resources)>,
    /// Prefix sums.
    sums: Vec<Resources>,
}

/// The promises that a loan respects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Respect {
    /// Those to all waiting pipelines.
    All,
    /// Those to pipelines that arrived before the borrower.
    Earlier,
}

impl Allocation {
    /// The next borrower among the eligible pipelines, if none is covered and no attempt is in progress.
    pub fn borrower(&self, eligible: impl Fn(PipelineId) -> bool) -> Option<PipelineId> {
        match self.scheduler {
            Scheduler::EvenSplit => self.borrower_of_reserved(eligible),
            Scheduler::DominantShare(Unlock::ByAskers(whole)) | Scheduler::Pack(Unlock::ByAskers(whole)) => {
                self.borrower_of_locked(whole, eligible)
            }
            // Nothing is reserved, or time unlocks it.
            Scheduler::FirstCome | Scheduler::DominantShare(_) | Scheduler::Pack(_) => None,
        }
    }

    /// The most that a pipeline can borrow on a block now: what is left minus what is promised to earlier pipelines.
    /// The maximum value means that the ledger decides.
    pub fn spare(&self, pipeline: PipelineId, block: BlockId) -> Resources {
        match self.blocks.get(block.0 as usize) {
            Some(own) if self.reserves() && !own.retired => {
                self.beside(own, self.promises(block, own).left_to_others(pipeline, Respect::Earlier))
            }
            _ => self.offer(pipeline, block),
        }
    }

    /// The most that any pipeline could spend on a block if nothing were reserved or promised there.
    pub fn unspent(&self, block: BlockId) -> Resources {
        match self.blocks.get(block.0 as usize) {
            Some(own) if !own.retired => self.beside(own, None),
            _ => Resources::ZERO,
        }
    }

    /// What is left of a block minus what is promised. If nothing is promised and not every component is counted, the
    /// ledger decides.
    fn beside(&self, own: &Block, promised: Option<Resources>) -> Resources {
        let left = own.pools.each_ref().map(super::Pool::left);
        match promised {
            None if self.counting == Counting::Primary => Resources([u64::MAX; RESOURCES]),
            None => Resources(left),
            Some(promised) => Resources(left).without(promised),
        }
    }

    /// The promises on a block.
    fn promises(&self, block: BlockId, own: &Block) -> Promises {
        let mut promises = Promises::default();
        let mut walks = own.pools.each_ref().map(super::Pool::walk);
        for (pipeline, waiter) in self.waiting.iter().zip(&self.waiters) {
            let Some(need) = waiter.need.filter(|_| waiter.since <= block.0) else { continue };
            // Most requests are rejected here, before any lookup.
            let reserved = Resources(walks.each_mut().map(|walk| walk.reserved_for(*pipeline)));
            let reads = || match &waiter.reads {
                Reads::Any => true,
                Reads::Only(blocks) => blocks.as_ref().is_some_and(|blocks| blocks.contains(block)),
            };
            if need.within(reserved) && reads() && need.within(reserved.without(self.drawn(*pipeline, block, own))) {
                promises.push(*pipeline, need);
            }
        }
        promises
    }

    fn borrower_of_reserved(&self, eligible: impl Fn(PipelineId) -> bool) -> Option<PipelineId> {
        let all = (0..self.waiting.len())
            .filter(|index| self.request_blocks[*index].is_some() && eligible(self.waiting[*index]));
        let in_order: Vec<usize> = all.collect();
        let mut smallest_first = in_order.clone();
        let dominant = |index: usize| self.request_blocks[index].as_ref().map_or((0, 1), |request| request.dominant);
        // A stable sort keeps the order of arrival among equals.
        smallest_first.sort_by(|one, two| by_share(dominant(*one), dominant(*two)));
        let mut known = BTreeMap::new();
        let found = smallest_first.into_iter().find(|index| self.can_borrow(*index, Respect::All, &mut known));
        let found =
            found.or_else(|| in_order.into_iter().find(|index| self.can_borrow(*index, Respect::Earlier, &mut known)));
        found.map(|index| self.waiting[index])
    }

    /// Whether the request of a waiting pipeline fits what can be lent on each of its blocks.
    fn can_borrow(&self, index: usize, respect: Respect, known: &mut BTreeMap<u32, Promises>) -> bool {
        let (Some(RequestCost { cost, .. }), Some(request)) = (self.request_costs[index], &self.request_blocks[index])
        else {
            return false;
        };
        let pipeline = self.waiting[index];
        each(&request.blocks).all(|block| {
            let own = &self.blocks[block.0 as usize];
            let left = Resources(own.pools.each_ref().map(super::Pool::left));
            let overdrafts = self.counting == Counting::Primary;
            if own.retired || (!overdrafts && !cost.within(left)) {
                return false;
            }
            let promises = known.entry(block.0).or_insert_with(|| self.promises(block, own));
            cost.within(self.beside(own, promises.left_to_others(pipeline, respect)))
        })
    }

    /// Applies a charge that exceeds the reservation.
    pub(super) fn borrow(&mut self, pipeline: PipelineId, blocks: &Blocks, cost: Resources) -> Result<(), Refused> {
        let index = self.index_of(pipeline)?;
        self.known(blocks)?;
        for block in each(blocks) {
            let own = &self.blocks[block.0 as usize];
            let covered = || cost.within(self.claim(pipeline, block, own));
            match !self.reserves() || own.retired || self.waiting.len() == 1 || covered() {
                true => self.use_own(pipeline, block, cost),
                false => self.lend(index, block, cost),
            }
        }
        self.attempted(pipeline);
        Ok(())
    }

    /// Charges a pipeline on a block regardless of reservations, and divides the rest among the others.
    fn lend(&mut self, index: usize, block: BlockId, cost: Resources) {
        let pipeline = self.waiting[index];
        let promises = self.promises(block, &self.blocks[block.0 as usize]).needs;
        let own = &mut self.blocks[block.0 as usize];
        own.epoch = own.epoch.wrapping_add(1);
        let entry = self.entries.entry((pipeline, block.0)).or_default();
        entry.epoch = own.epoch;
        for (resource, pool) in own.pools.iter_mut().enumerate() {
            let within = cost.0[resource].min(pool.left());
            pool.use_up(within);
            entry.used.0[resource] += within;
            // An overdraft is bounded by the ledger, whose numbers are smaller than this.
            entry.overdraft.0[resource] = entry.overdraft.0[resource].saturating_add(cost.0[resource] - within);
            let others = promises.iter().filter(|(other, _)| *other != pipeline);
            let promised = others.map(|(other, need)| (*other, need.0[resource]));
            entry.drawn.0[resource] = pool.divide_anew(&self.waiting, index, promised);
        }
        self.retire_if_spent(block);
    }

    /// The borrower if a block's budget is unlocked by its requesters, `parts` of them for the whole budget.
    fn borrower_of_locked(&self, whole: u64, eligible: impl Fn(PipelineId) -> bool) -> Option<PipelineId> {
        let queue = self.queue();
        let first = |reach: &dyn Fn(&Block, u64) -> u64| {
            let fits = |cost: Resources, block: BlockId| {
                let own = &self.blocks[block.0 as usize];
                let pools = own.pools.iter().zip(cost.0);
                !own.retired
                    && pools.into_iter().all(|(pool, cost)| {
                        let used = pool.capacity() - pool.free();
                        cost <= reach(own, pool.capacity()).saturating_sub(used)
                    })
            };
            let mut eligible = queue.iter().filter(|(pipeline, ..)| eligible(*pipeline));
            let able = eligible.find(|(_, cost, request)| each(&request.blocks).all(|block| fits(*cost, block)));
            able.map(|(pipeline, ..)| *pipeline)
        };
        let waiting = self.waiting.len() as u64;
        let by_existing = |own: &Block, capacity: u64| {
            super::queue::part_of(capacity, own.ever_requested, whole.min(waiting.saturating_add(own.requesters_gone)))
        };
        first(&by_existing).or_else(|| first(&|_, capacity| capacity))
    }
}

impl Promises {
    fn push(&mut self, pipeline: PipelineId, need: Resources) {
        let before = self.sums.last().copied().unwrap_or(Resources::ZERO);
        self.needs.push((pipeline, need));
        self.sums.push(before.with(need));
    }

    /// The sum that a loan to this pipeline leaves to others; `None` if nothing is promised to them.
    fn left_to_others(&self, pipeline: PipelineId, respect: Respect) -> Option<Resources> {
        let found = self.needs.binary_search_by_key(&pipeline, |(other, _)| *other);
        let (Ok(before) | Err(before)) = found;
        let own = found.map_or(Resources::ZERO, |index| self.needs[index].1);
        let others = self.needs.len() - usize::from(found.is_ok());
        match respect {
            Respect::All if others > 0 => self.sums.last().map(|sum| sum.without(own)),
            Respect::Earlier => before.checked_sub(1).map(|last| self.sums[last]),
            Respect::All => None,
        }
    }
}
