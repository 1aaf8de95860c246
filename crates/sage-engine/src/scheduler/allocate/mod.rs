//! Allocation: how much each pipeline may spend on each block.
//!
//! Each block brings a budget. It is divided among the waiting pipelines, reserved for them, returned when they leave,
//! and divided again. All of this is policy and can be undone; nothing here charges. The kernel's ledger alone decides
//! what fits, so a mistake here is unfair but never unsafe.
//!
//! An [`Allocation`] is a fold of [`Event`]s in integer units, without a clock, and gives the same state on every
//! replay. No event depends on rows, except through released results.
//!
//! # Invariants
//! For each block and each of its four resources, with capacity Q:
//! 1. free and allocated budget add up to Q; what a departed pipeline used stays allocated;
//! 2. a pipeline has used at most its allocation, apart from its overdraft;
//! 3. all pipelines together have used at most Q, apart from overdrafts, and with them what the ledger was charged;
//! 4. of a new block, and of returned budget, waiting pipelines get amounts that differ by at most one unit;
//! 5. only a loan reduces the allocation of a waiting pipeline, and only a refund reduces what it used;
//! 6. nothing is free while a pipeline waits, unless the block is retired;
//! 7. a retired block is never offered again, whatever is refunded on it;
//! 8. the state is a function of the events.
//!
//! Under schedulers without reservations (all except [`Scheduler::EvenSplit`]) a pipeline is allocated what it used,
//! and 4 to 6 do not apply.
//!
//! # Loans
//! A reservation that its owner cannot use does not block others: if no pipeline's own reservations cover its request,
//! one pipeline at a time borrows the rest. The module `lend` has the rule, and the argument why a pipeline that waits
//! for its window still gets it.
//!
//! # Overdraft
//! Under Rényi the loss is counted at one of several orders ([`Counting::Primary`]). If no other waiting pipeline holds
//! unspent budget on a block, a request beyond Q harms no one, and the ledger may admit it at another order. The excess
//! is recorded as overdraft. If every component of the filter is counted, the ledger would certainly refuse it, so
//! there is no overdraft.
//!
//! # Complexity
//! Adding a block takes constant time, whatever the number of pipelines and blocks: the reservations on a block are a
//! decreasing step function of the order of arrival, and a division adds at most two steps.

mod event;
mod lend;
mod offer;
mod pool;
mod queue;
mod resources;

use std::collections::BTreeMap;

use pool::Pool;
use sage_kernel::{BlockId, Blocks, Lane};

pub use event::{Event, PipelineId, Refused};
pub use queue::{Scheduler, Unlock};
pub(crate) use resources::SHARES;
pub use resources::{RESOURCES, Resources};

/// How resources relate to the components of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// They are its components. A block with less than the smallest cost left of some resource is retired
    /// automatically.
    Every {
        /// The smallest cost that any pipeline can use.
        smallest: Resources,
    },
    /// The loss is that at the primary order, and a cost may fit at another. Only the ledger retires blocks.
    Primary,
}

/// A block of the allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    pools: [Pool; RESOURCES],
    retired: bool,
    /// The time of its arrival; `None` if no time was known yet.
    born: Option<u64>,
    /// The pipelines that ever requested it, as far as unlocking counts them.
    ever_requested: u64,
    /// How many of them have left.
    requesters_gone: u64,
    /// The pipelines that request it now.
    requesting: u32,
    /// How many times a loan divided it again.
    epoch: u32,
}

/// The account of a waiting pipeline on a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    used: Resources,
    /// How much of that came from the reservation since the block was last divided.
    drawn: Resources,
    /// The division at that time.
    epoch: u32,
    overdraft: Resources,
    requested: bool,
}

/// What is known of a waiting pipeline besides its request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiter {
    /// The first block that arrived after it began to wait.
    since: u32,
    /// The cost of its next attempt on each block.
    need: Option<Resources>,
    /// The blocks it reads.
    reads: Reads,
}

/// The blocks that a pipeline reads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reads {
    /// Any block.
    Any,
    /// These blocks; `None` if none of them has arrived.
    Only(Option<Blocks>),
}

/// A waiting request. The values that reject most requests are stored together and checked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequestCost {
    cost: Resources,
    /// The first of its blocks.
    first: BlockId,
}

/// The rest of a request, read when the first block admits it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestBlocks {
    blocks: Blocks,
    /// The largest share of any block's capacity, as numerator and denominator.
    dominant: (u64, u64),
}

/// What is left of a block, and how much of that is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Reserved for waiting pipelines and not used.
    pub held: Resources,
    /// Not used by any pipeline.
    pub left: Resources,
}

impl Held {
    /// The loss of a lane: what is reserved of it, and what is left.
    pub const fn of(self, lane: Lane) -> (u64, u64) {
        (self.held.loss(lane), self.left.loss(lane))
    }
}

/// The allocation of one context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    scheduler: Scheduler,
    counting: Counting,
    blocks: Vec<Block>,
    /// In order of arrival.
    waiting: Vec<PipelineId>,
    newest: Option<PipelineId>,
    entries: BTreeMap<(PipelineId, u32), Entry>,
    /// One entry per waiting pipeline, in the same order.
    request_costs: Vec<Option<RequestCost>>,
    /// As above.
    request_blocks: Vec<Option<RequestBlocks>>,
    /// As above.
    waiters: Vec<Waiter>,
    time: Option<u64>,
}

impl Allocation {
    /// An allocation without blocks and pipelines.
    pub const fn new(scheduler: Scheduler, counting: Counting) -> Self {
        Self {
            scheduler,
            counting,
            blocks: Vec::new(),
            waiting: Vec::new(),
            newest: None,
            entries: BTreeMap::new(),
            request_costs: Vec::new(),
            request_blocks: Vec::new(),
            waiters: Vec::new(),
            time: None,
        }
    }

    /// The state after these events.
    ///
    /// # Errors
    /// At the first event that is rejected.
    pub fn replay(
        scheduler: Scheduler, counting: Counting, events: impl IntoIterator<Item = Event>,
    ) -> Result<Self, Refused> {
        let mut allocation = Self::new(scheduler, counting);
        events.into_iter().try_for_each(|event| allocation.apply(event))?;
        Ok(allocation)
    }

    /// Applies one event.
    ///
    /// # Errors
    /// When the event is rejected; the state is then unchanged.
    pub fn apply(&mut self, event: Event) -> Result<(), Refused> {
        match event {
            Event::Block { capacity } => self.add_block(capacity),
            Event::Arrive { pipelines } => self.arrive(&pipelines),
            Event::Request { pipeline, blocks, cost } => self.request(pipeline, blocks, cost),
            Event::Withdraw { pipeline } => {
                self.index_of(pipeline)?;
                self.forget_ask(pipeline);
                Ok(())
            }
            Event::Need { pipeline, cost } => {
                let index = self.index_of(pipeline)?;
                self.waiters[index].need = cost;
                Ok(())
            }
            Event::Restrict { pipeline, blocks } => {
                let index = self.index_of(pipeline)?;
                self.waiters[index].reads = Reads::Only(blocks);
                Ok(())
            }
            Event::Spend { pipeline, blocks, cost } => self.spend(pipeline, &blocks, cost),
            Event::Borrow { pipeline, blocks, cost } => self.borrow(pipeline, &blocks, cost),
            Event::Refund { pipeline, blocks, cost } => self.refund(pipeline, &blocks, cost),
            Event::Leave { pipeline } => self.leave(pipeline),
            Event::Retire { block } => {
                self.blocks.get_mut(block.0 as usize).ok_or(Refused::NoBlock(block))?.retired = true;
                Ok(())
            }
            Event::AdvanceClock { time } if self.time.is_some_and(|now| time < now) => Err(Refused::Backwards),
            Event::AdvanceClock { time } => {
                self.time = Some(time);
                Ok(())
            }
        }
    }

    fn reserves(&self) -> bool {
        self.scheduler == Scheduler::EvenSplit
    }

    /// The index of a waiting pipeline in order of arrival.
    fn index_of(&self, pipeline: PipelineId) -> Result<usize, Refused> {
        self.waiting.binary_search(&pipeline).map_err(|_| Refused::NotWaiting(pipeline))
    }

    fn known(&self, blocks: &Blocks) -> Result<(), Refused> {
        match blocks.ranges().last() {
            Some(range) if range.last().0 as usize >= self.blocks.len() => Err(Refused::NoBlock(range.last())),
            _ => Ok(()),
        }
    }

    fn add_block(&mut self, capacity: Resources) -> Result<(), Refused> {
        if u32::try_from(self.blocks.len() + 1).is_err() {
            return Err(Refused::TooManyBlocks);
        }
        let mut pools = capacity.0.map(Pool::new);
        if self.reserves() {
            pools.iter_mut().for_each(|pool| pool.hand_out(&self.waiting));
        }
        let born = self.time;
        self.blocks.push(Block {
            pools,
            retired: false,
            born,
            ever_requested: 0,
            requesters_gone: 0,
            requesting: 0,
            epoch: 0,
        });
        Ok(())
    }

    fn arrive(&mut self, pipelines: &[PipelineId]) -> Result<(), Refused> {
        let mut newest = self.newest;
        for &pipeline in pipelines {
            if newest.is_some_and(|newest| pipeline <= newest) {
                return Err(Refused::OutOfOrder(pipeline));
            }
            newest = Some(pipeline);
        }
        self.newest = newest;
        let nobody_waited = self.waiting.is_empty();
        self.waiting.extend(pipelines);
        self.request_costs.resize(self.waiting.len(), None);
        self.request_blocks.resize(self.waiting.len(), None);
        let waiter = Waiter { since: self.next_block(), need: None, reads: Reads::Any };
        self.waiters.resize(self.waiting.len(), waiter);
        // If pipelines were waiting, nothing is free, and reservations stay as they are.
        if self.reserves() && nobody_waited {
            let offered = self.blocks.iter_mut().filter(|block| !block.retired);
            for pool in offered.flat_map(|block| &mut block.pools) {
                pool.hand_out(&self.waiting);
            }
        }
        Ok(())
    }

    fn spend(&mut self, pipeline: PipelineId, blocks: &Blocks, cost: Resources) -> Result<(), Refused> {
        self.index_of(pipeline)?;
        self.known(blocks)?;
        match each(blocks).find(|block| !self.may_spend(pipeline, *block, cost)) {
            Some(block) if self.blocks[block.0 as usize].retired => return Err(Refused::Retired(block)),
            Some(block) => return Err(Refused::NotAllowed(block)),
            None => {}
        }
        each(blocks).for_each(|block| self.use_own(pipeline, block, cost));
        self.attempted(pipeline);
        Ok(())
    }

    /// Charges a pipeline's own reservation on a block, and the excess to its overdraft.
    fn use_own(&mut self, pipeline: PipelineId, block: BlockId, cost: Resources) {
        let reserves = self.reserves();
        let own = &mut self.blocks[block.0 as usize];
        let entry = self.entries.entry((pipeline, block.0)).or_default();
        entry.enter(own.epoch);
        for resource in 0..RESOURCES {
            let pool = &mut own.pools[resource];
            let limit = if reserves { pool.reserved_for(pipeline) - entry.drawn.0[resource] } else { pool.free() };
            let within = cost.0[resource].min(limit);
            if !reserves {
                pool.take(within);
            }
            pool.use_up(within);
            entry.used.0[resource] += within;
            entry.drawn.0[resource] += within;
            // An overdraft is bounded by the ledger, whose numbers are smaller than this.
            entry.overdraft.0[resource] = entry.overdraft.0[resource].saturating_add(cost.0[resource] - within);
        }
        self.retire_if_spent(block);
    }

    fn retire_if_spent(&mut self, block: BlockId) {
        let own = &mut self.blocks[block.0 as usize];
        if let Counting::Every { smallest } = self.counting {
            own.retired |= own.pools.iter().zip(smallest.0).any(|(pool, smallest)| pool.left() < smallest);
        }
    }

    /// A pipeline was charged: its request is served, and it starts to wait for its next attempt.
    fn attempted(&mut self, pipeline: PipelineId) {
        self.forget_ask(pipeline);
        let since = self.next_block();
        if let Ok(index) = self.index_of(pipeline) {
            self.waiters[index].since = since;
        }
    }

    /// The number of the next block.
    fn next_block(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    fn refund(&mut self, pipeline: PipelineId, blocks: &Blocks, cost: Resources) -> Result<(), Refused> {
        self.index_of(pipeline)?;
        self.known(blocks)?;
        let covered = |block: &BlockId| {
            let entry = self.entries.get(&(pipeline, block.0)).copied().unwrap_or_default();
            (0..RESOURCES).all(|one| entry.used.0[one].saturating_add(entry.overdraft.0[one]) >= cost.0[one])
        };
        if let Some(block) = each(blocks).find(|block| !covered(block)) {
            return Err(Refused::NotUsed(block));
        }
        let reserves = self.reserves();
        for block in each(blocks) {
            let Some(entry) = self.entries.get_mut(&(pipeline, block.0)) else { continue };
            entry.enter(self.blocks[block.0 as usize].epoch);
            for resource in 0..RESOURCES {
                let beyond = cost.0[resource].min(entry.overdraft.0[resource]);
                let within = cost.0[resource] - beyond;
                entry.overdraft.0[resource] -= beyond;
                entry.used.0[resource] -= within;
                let drawn = within.min(entry.drawn.0[resource]);
                entry.drawn.0[resource] -= drawn;
                let pool = &mut self.blocks[block.0 as usize].pools[resource];
                pool.put_back(within);
                match reserves {
                    true => pool.add_extra(pipeline, within - drawn),
                    false => pool.give_up(within),
                }
            }
        }
        Ok(())
    }

    fn leave(&mut self, pipeline: PipelineId) -> Result<(), Refused> {
        let index = self.index_of(pipeline)?;
        self.forget_ask(pipeline);
        self.waiting.remove(index);
        self.request_costs.remove(index);
        self.request_blocks.remove(index);
        self.waiters.remove(index);
        let before = index.checked_sub(1).map(|index| self.waiting[index]);
        let reserves = self.reserves();
        let own = self.entries.extract_if((pipeline, 0)..=(pipeline, u32::MAX), |_, _| true);
        let mut own = own.map(|((_, block), entry)| (block, entry)).peekable();
        for (number, block) in (0_u32..).zip(&mut self.blocks) {
            let mut entry = own.next_if(|(block, _)| *block == number).map_or_else(Entry::default, |(_, entry)| entry);
            entry.enter(block.epoch);
            block.requesters_gone += u64::from(entry.requested);
            for ((pool, used), drawn) in block.pools.iter_mut().zip(entry.used.0).zip(entry.drawn.0) {
                let allocated = if reserves { used + pool.reserved_for(pipeline) - drawn } else { used };
                pool.depart(pipeline, before, allocated, used);
                if reserves && !block.retired {
                    pool.hand_out(&self.waiting);
                }
            }
        }
        Ok(())
    }
}

impl Entry {
    /// Amounts drawn before the block was last divided no longer count.
    fn enter(&mut self, epoch: u32) {
        if self.epoch != epoch {
            (self.epoch, self.drawn) = (epoch, Resources::ZERO);
        }
    }
}

/// The blocks of a set, one by one.
fn each(blocks: &Blocks) -> impl Iterator<Item = BlockId> {
    blocks.ranges().iter().flat_map(|range| (range.first().0..=range.last().0).map(BlockId))
}
