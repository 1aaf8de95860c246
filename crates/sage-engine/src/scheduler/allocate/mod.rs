//! Allocation: which pipeline may spend how much of which block.
//!
//! Each block brings a budget. Here it is divided among the pipelines that wait, reserved for them, given back
//! when they leave, and divided again. All of this is policy and can be undone; nothing here charges. The
//! kernel's ledger decides alone what fits, so a mistake in this room is unfair and never unsafe.
//!
//! An [`Allocation`] is a fold of [`Event`]s in whole units, without a clock, and comes out the same whenever it is
//! replayed. No event depends on rows, except through what was released.
//!
//! # What holds after every event
//! For each block and each of its four resources, with capacity Q:
//! 1. what is free and what is allocated adds up to Q for ever; of a pipeline that left, what it used stays allocated;
//! 2. a pipeline has used at most what it is allocated, apart from its overdraft;
//! 3. all together have used at most Q, apart from overdrafts, and with them what the ledger was charged;
//! 4. of a new block, and of what is given back, waiting pipelines get amounts that differ by at most one unit;
//! 5. what a waiting pipeline is allocated becomes less by a loan alone, and what it used by a refund alone;
//! 6. nothing is free while somebody waits, unless the block is retired;
//! 7. a retired block is never offered again, whatever is refunded on it;
//! 8. the state follows from the events.
//!
//! Under schedulers without reservations (all but [`Scheduler::EvenSplit`]) a pipeline is allocated what it used,
//! and 4 to 6 say nothing.
//!
//! # Loans
//! A reservation that its holder cannot use does not keep others waiting: where no pipeline's own reservations cover
//! its request, one pipeline at a time borrows the rest of what it needs. The module `lend` has the rule, and the
//! argument why a pipeline that waits for its window still gets it.
//!
//! # Overdraft
//! Under Rényi the loss is counted at one order of several ([`Counting::Primary`]). Where no other waiting pipeline
//! holds anything unspent on a block, nobody is harmed if more than Q is asked there, and the ledger may have
//! another order at which it fits. What goes beyond is kept apart as overdraft. Where every number of the filter is
//! counted the ledger would refuse it for certain, and there is none.
//!
//! # What it takes
//! A new block takes the same time whatever waits and whatever blocks there are: what the pipelines have of a block is
//! a falling staircase over their order of arrival, and a division adds at most two steps to it.

mod lend;
mod offer;
mod pool;
mod queue;
mod resources;

use std::collections::BTreeMap;
use std::fmt;

use pool::Pool;
use sage_kernel::{BlockId, Blocks, Lane};

pub use queue::{Scheduler, Unlock};
pub(crate) use resources::SHARES;
pub use resources::{RESOURCES, Resources};

/// A pipeline; those that arrive later have greater numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PipelineId(pub u64);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A block came; its number is the next one.
    Block {
        /// What it brings.
        capacity: Resources,
    },
    /// Pipelines came, all at once.
    Arrive {
        /// In order; each number is greater than all before.
        pipelines: Vec<PipelineId>,
    },
    /// A pipeline asks to spend. It has one question at a time; a new one takes the place of the old.
    Ask {
        /// Who.
        pipeline: PipelineId,
        /// Where.
        blocks: Blocks,
        /// How much on each block.
        cost: Resources,
    },
    /// A pipeline no longer asks: it changed its mind, or the ledger said no.
    Withdraw {
        /// Who.
        pipeline: PipelineId,
    },
    /// What the next attempt of a pipeline will cost on each block; None if it does not wait for one.
    Need {
        /// Who.
        pipeline: PipelineId,
        /// How much on each block.
        cost: Option<Resources>,
    },
    /// A pipeline reads only these of the blocks so far; None if there is no such block yet.
    Restrict {
        /// Who.
        pipeline: PipelineId,
        /// Where.
        blocks: Option<Blocks>,
    },
    /// The ledger charged a pipeline, within what it is allowed.
    Spend {
        /// Who.
        pipeline: PipelineId,
        /// Where.
        blocks: Blocks,
        /// How much on each block.
        cost: Resources,
    },
    /// The ledger charged a pipeline more than is reserved for it: it borrowed the rest. This is always taken, because
    /// a charge is a fact.
    Borrow {
        /// Who.
        pipeline: PipelineId,
        /// Where.
        blocks: Blocks,
        /// How much on each block.
        cost: Resources,
    },
    /// A part of what was charged comes back, because it was for steps that were never done.
    Refund {
        /// Who.
        pipeline: PipelineId,
        /// Where.
        blocks: Blocks,
        /// How much on each block.
        cost: Resources,
    },
    /// A pipeline is done, for whatever reason.
    Leave {
        /// Who.
        pipeline: PipelineId,
    },
    /// A block may never be read again.
    Retire {
        /// Which.
        block: BlockId,
    },
    /// Time went on.
    Tick {
        /// The time, in the unit of [`Unlock::OverTime`].
        time: u64,
    },
}

/// Why an event was not taken. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// No such pipeline waits.
    NotWaiting(PipelineId),
    /// The number of an arriving pipeline is not greater than all before.
    OutOfOrder(PipelineId),
    /// There is no such block.
    NoBlock(BlockId),
    /// The block is retired.
    Retired(BlockId),
    /// The pipeline may not spend as much on this block now.
    NotAllowed(BlockId),
    /// More is to be refunded than was used on this block.
    NotUsed(BlockId),
    /// There are as many blocks as there can be.
    TooManyBlocks,
    /// Time went backwards.
    Backwards,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWaiting(PipelineId(id)) => write!(out, "no pipeline {id} waits"),
            Self::OutOfOrder(PipelineId(id)) => {
                write!(out, "pipeline {id} has a number that is not the greatest so far")
            }
            Self::NoBlock(BlockId(id)) => write!(out, "there is no block {id}"),
            Self::Retired(BlockId(id)) => write!(out, "block {id} is retired"),
            Self::NotAllowed(BlockId(id)) => write!(out, "not as much may be spent on block {id} now"),
            Self::NotUsed(BlockId(id)) => write!(out, "less than that was used on block {id}"),
            Self::TooManyBlocks => out.write_str("there are as many blocks as there can be"),
            Self::Backwards => out.write_str("time went backwards"),
        }
    }
}

impl std::error::Error for Refused {}

/// How resources stand to the numbers of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// They are its numbers. A block on which less than the smallest cost is left of some resource retires by itself.
    Every {
        /// The smallest cost that anybody has a use for.
        smallest: Resources,
    },
    /// The loss is that at the primary order, and a cost may fit at another. Blocks retire when the ledger says so.
    Primary,
}

/// A block as the allocation sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    pools: [Pool; RESOURCES],
    retired: bool,
    /// When it came; nothing if time had not been told yet.
    born: Option<u64>,
    /// Pipelines that ever asked for it, as far as unlocking counts them.
    ever_asked: u64,
    /// Those of them that have left.
    askers_gone: u64,
    /// Pipelines that ask for it now.
    asking: u32,
    /// How often a loan divided it anew.
    epoch: u32,
}

/// What a waiting pipeline has to do with a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    used: Resources,
    /// How much of that came out of what was reserved for it since the block was last divided,
    drawn: Resources,
    /// which was then.
    epoch: u32,
    overdraft: Resources,
    asked: bool,
}

/// What is known of a waiting pipeline beside its request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiter {
    /// The first block that came after it began to wait.
    since: u32,
    /// What its next attempt will cost on each block.
    need: Option<Resources>,
    /// Which blocks it reads.
    reads: Reads,
}

/// Which blocks a pipeline reads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reads {
    /// Any.
    Any,
    /// These; None where none of them has come.
    Only(Option<Blocks>),
}

/// A question that waits for its turn. What most questions fail at is looked at first, and lies side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    cost: Resources,
    /// The first of its blocks.
    first: BlockId,
}

/// The rest of a question, looked at when the first block allows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ask {
    blocks: Blocks,
    /// The largest share of any block's capacity, as numerator and denominator.
    dominant: (u64, u64),
}

/// What is left of a block, and how much of that is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Reserved for pipelines that wait, and not used.
    pub held: Resources,
    /// What nobody has used.
    pub left: Resources,
}

impl Held {
    /// The loss of a lane: what is reserved of it, and what is left.
    pub const fn of(self, lane: Lane) -> (u64, u64) {
        (self.held.loss(lane), self.left.loss(lane))
    }
}

/// Who may spend what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    scheduler: Scheduler,
    counting: Counting,
    blocks: Vec<Block>,
    /// In order of arrival.
    waiting: Vec<PipelineId>,
    newest: Option<PipelineId>,
    entries: BTreeMap<(PipelineId, u32), Entry>,
    /// One place for each that waits, in the same order.
    asked: Vec<Option<Asked>>,
    /// Likewise.
    asks: Vec<Option<Ask>>,
    /// Likewise.
    waiters: Vec<Waiter>,
    time: Option<u64>,
}

impl Allocation {
    /// Nothing yet.
    pub const fn new(scheduler: Scheduler, counting: Counting) -> Self {
        Self {
            scheduler,
            counting,
            blocks: Vec::new(),
            waiting: Vec::new(),
            newest: None,
            entries: BTreeMap::new(),
            asked: Vec::new(),
            asks: Vec::new(),
            waiters: Vec::new(),
            time: None,
        }
    }

    /// The state after these events.
    ///
    /// # Errors
    /// At the first that is not taken.
    pub fn replay(
        scheduler: Scheduler, counting: Counting, events: impl IntoIterator<Item = Event>,
    ) -> Result<Self, Refused> {
        let mut allocation = Self::new(scheduler, counting);
        events.into_iter().try_for_each(|event| allocation.apply(event))?;
        Ok(allocation)
    }

    /// Takes one event in.
    ///
    /// # Errors
    /// When it cannot follow from the state; then nothing has changed.
    pub fn apply(&mut self, event: Event) -> Result<(), Refused> {
        match event {
            Event::Block { capacity } => self.add_block(capacity),
            Event::Arrive { pipelines } => self.arrive(&pipelines),
            Event::Ask { pipeline, blocks, cost } => self.ask(pipeline, blocks, cost),
            Event::Withdraw { pipeline } => {
                self.place(pipeline)?;
                self.forget_ask(pipeline);
                Ok(())
            }
            Event::Need { pipeline, cost } => {
                let place = self.place(pipeline)?;
                self.waiters[place].need = cost;
                Ok(())
            }
            Event::Restrict { pipeline, blocks } => {
                let place = self.place(pipeline)?;
                self.waiters[place].reads = Reads::Only(blocks);
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
            Event::Tick { time } if self.time.is_some_and(|now| time < now) => Err(Refused::Backwards),
            Event::Tick { time } => {
                self.time = Some(time);
                Ok(())
            }
        }
    }

    fn reserves(&self) -> bool {
        self.scheduler == Scheduler::EvenSplit
    }

    /// The place of a waiting pipeline in the order of arrival.
    fn place(&self, pipeline: PipelineId) -> Result<usize, Refused> {
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
        self.blocks.push(Block { pools, retired: false, born, ever_asked: 0, askers_gone: 0, asking: 0, epoch: 0 });
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
        self.asked.resize(self.waiting.len(), None);
        self.asks.resize(self.waiting.len(), None);
        let waiter = Waiter { since: self.next_block(), need: None, reads: Reads::Any };
        self.waiters.resize(self.waiting.len(), waiter);
        // Where somebody waited nothing is free, and what is reserved stays so.
        if self.reserves() && nobody_waited {
            let offered = self.blocks.iter_mut().filter(|block| !block.retired);
            for pool in offered.flat_map(|block| &mut block.pools) {
                pool.hand_out(&self.waiting);
            }
        }
        Ok(())
    }

    fn spend(&mut self, pipeline: PipelineId, blocks: &Blocks, cost: Resources) -> Result<(), Refused> {
        self.place(pipeline)?;
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

    /// Charges a pipeline's own reservation on a block, and beyond that its overdraft.
    fn use_own(&mut self, pipeline: PipelineId, block: BlockId, cost: Resources) {
        let reserves = self.reserves();
        let own = &mut self.blocks[block.0 as usize];
        let entry = self.entries.entry((pipeline, block.0)).or_default();
        entry.enter(own.epoch);
        for resource in 0..RESOURCES {
            let pool = &mut own.pools[resource];
            let room = if reserves { pool.reserved_for(pipeline) - entry.drawn.0[resource] } else { pool.free() };
            let within = cost.0[resource].min(room);
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

    /// A pipeline was charged: its request is answered, and it begins to wait for its next attempt.
    fn attempted(&mut self, pipeline: PipelineId) {
        self.forget_ask(pipeline);
        let since = self.next_block();
        if let Ok(place) = self.place(pipeline) {
            self.waiters[place].since = since;
        }
    }

    /// The number of the block that comes next.
    fn next_block(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    fn refund(&mut self, pipeline: PipelineId, blocks: &Blocks, cost: Resources) -> Result<(), Refused> {
        self.place(pipeline)?;
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
        let place = self.place(pipeline)?;
        self.forget_ask(pipeline);
        self.waiting.remove(place);
        self.asked.remove(place);
        self.asks.remove(place);
        self.waiters.remove(place);
        let before = place.checked_sub(1).map(|place| self.waiting[place]);
        let reserves = self.reserves();
        let own = self.entries.extract_if((pipeline, 0)..=(pipeline, u32::MAX), |_, _| true);
        let mut own = own.map(|((_, block), entry)| (block, entry)).peekable();
        for (number, block) in (0_u32..).zip(&mut self.blocks) {
            let mut entry = own.next_if(|(block, _)| *block == number).map_or_else(Entry::default, |(_, entry)| entry);
            entry.enter(block.epoch);
            block.askers_gone += u64::from(entry.asked);
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
    /// What was drawn before the block was divided anew no longer counts.
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
