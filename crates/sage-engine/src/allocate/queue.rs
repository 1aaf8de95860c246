//! Schedulers: in which order questions are answered, and how much of a block is within reach.
//!
//! - *Even split*: what a block brings is reserved in even parts for those that wait. A question is answered when
//!   its asker's own reservations cover it.
//! - *First come*: nothing is reserved; questions are answered in the order in which their askers came.
//! - *Dominant private block fairness* (Luo and others, 2021): a block's budget comes within reach bit by bit, one N-th
//!   for each pipeline that asks for it for the first time, or evenly over a time. Questions are looked at in the
//!   order of the largest share of a block's whole budget that they ask for, smallest first.
//! - *DPack* (Tholoniat and others, 2022): the same reach, but questions are looked at in the order of what they ask
//!   for in total, each block's part counted as a share of what is left of that block, smallest first. We count one
//!   order, the primary one, where the paper looks for the best order of each block.
//!
//! Under all of them a question is answered whole or not at all, one that is too large does not stop those after it,
//! and ties go to whoever came first.

use std::cmp::Ordering;

use sage_kernel::{BlockId, Blocks};

use super::{Allocation, Ask, Block, Counting, PipelineId, RESOURCES, Refused, Resources, each};

/// How much of a block is within reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlock {
    /// One part of so many for each pipeline that asks for the block for the first time.
    ByAskers(u64),
    /// Evenly until the block is this old.
    OverTime(u64),
}

/// Who comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// Everybody gets the same part of every block.
    #[default]
    EvenSplit,
    /// Whoever came first.
    FirstCome,
    /// Whoever asks for the smallest share of a block.
    DominantShare(Unlock),
    /// Whoever asks for least in all.
    Pack(Unlock),
}

impl Scheduler {
    /// What of a capacity is within reach.
    fn unlocked(self, capacity: u64, block: &Block, time: u64) -> u64 {
        let (part, whole) = match self {
            Self::EvenSplit | Self::FirstCome => return capacity,
            Self::DominantShare(Unlock::ByAskers(whole)) | Self::Pack(Unlock::ByAskers(whole)) => {
                (block.ever_asked, whole)
            }
            Self::DominantShare(Unlock::OverTime(whole)) | Self::Pack(Unlock::OverTime(whole)) => {
                (time - block.born, whole)
            }
        };
        if part >= whole {
            return capacity;
        }
        let unlocked = u128::from(capacity) * u128::from(part) / u128::from(whole);
        // At most the capacity, since the part is less than the whole.
        u64::try_from(unlocked).unwrap_or(capacity)
    }
}

/// Parts of one in which total shares are counted.
const SHARE_BITS: u32 = 40;

impl Allocation {
    pub(super) fn ask(&mut self, pipeline: PipelineId, blocks: Blocks, cost: Resources) -> Result<(), Refused> {
        self.place(pipeline)?;
        self.known(&blocks)?;
        if let Some(block) = each(&blocks).find(|block| self.blocks[block.0 as usize].retired) {
            return Err(Refused::Retired(block));
        }
        self.forget_ask(pipeline);
        let mut dominant = (0, 1);
        // Who ever asked for a block counts only where that brings its budget within reach.
        let counted = !self.reserves();
        for block in each(&blocks) {
            let own = &mut self.blocks[block.0 as usize];
            own.asking += 1;
            if counted {
                let entry = self.entries.entry((pipeline, block.0)).or_default();
                own.ever_asked += u64::from(!entry.asked);
                entry.asked = true;
            }
            for (asked, pool) in cost.0.into_iter().zip(&own.pools) {
                let share = (asked, pool.capacity().max(1));
                if by_share(share, dominant) == Ordering::Greater {
                    dominant = share;
                }
            }
        }
        self.asks.insert(pipeline, Ask { blocks, cost, dominant });
        Ok(())
    }

    pub(super) fn forget_ask(&mut self, pipeline: PipelineId) {
        if let Some(ask) = self.asks.remove(&pipeline) {
            each(&ask.blocks).for_each(|block| self.blocks[block.0 as usize].asking -= 1);
        }
    }

    pub(super) fn asked_by_no_other(&self, pipeline: PipelineId, block: BlockId, own: &Block) -> bool {
        let asks = self.asks.get(&pipeline).is_some_and(|ask| ask.blocks.contains(block));
        own.asking == u32::from(asks)
    }

    /// Whether a pipeline may spend this on a block now. The order among pipelines is not looked at.
    pub fn may_spend(&self, pipeline: PipelineId, block: BlockId, cost: Resources) -> bool {
        match self.blocks.get(block.0 as usize) {
            Some(own) if self.reserves() => !own.retired && cost.within(self.offer(pipeline, block)),
            Some(own) => self.reaches(pipeline, block, own, cost, Resources::ZERO),
            None => false,
        }
    }

    /// The same without reservations, if so much was promised to others.
    fn reaches(&self, pipeline: PipelineId, block: BlockId, own: &Block, cost: Resources, promised: Resources) -> bool {
        let overdrafts = self.counting == Counting::Primary;
        let fits = |resource: usize| {
            let pool = &own.pools[resource];
            let unlocked = self.scheduler.unlocked(pool.capacity(), own, self.time);
            let used = (pool.capacity() - pool.free()).saturating_add(promised.0[resource]);
            cost.0[resource] <= unlocked.saturating_sub(used)
                || (overdrafts && unlocked == pool.capacity() && self.asked_by_no_other(pipeline, block, own))
        };
        !own.retired && (0..RESOURCES).all(fits)
    }

    /// The pipelines whose questions may be answered now, one after the other in this order.
    pub fn ready(&self) -> Vec<PipelineId> {
        if self.reserves() {
            // Who asks waits, so there is nothing to look up but what is offered.
            let fits = |(pipeline, ask): &(&PipelineId, &Ask)| {
                each(&ask.blocks).all(|block| match self.blocks.get(block.0 as usize) {
                    Some(own) => !own.retired && ask.cost.within(self.offer_of(**pipeline, block, own)),
                    None => false,
                })
            };
            return self.asks.iter().filter(fits).map(|(pipeline, _)| *pipeline).collect();
        }
        let mut queue: Vec<(PipelineId, &Ask)> = self.asks.iter().map(|(pipeline, ask)| (*pipeline, ask)).collect();
        match self.scheduler {
            Scheduler::EvenSplit | Scheduler::FirstCome => {}
            // Sorting keeps the order of arrival among equals.
            Scheduler::DominantShare(_) => queue.sort_by(|(_, one), (_, two)| by_share(one.dominant, two.dominant)),
            Scheduler::Pack(_) => queue.sort_by_cached_key(|(_, ask)| self.total_share(ask)),
        }
        let mut promised = vec![Resources::ZERO; self.blocks.len()];
        let mut ready = Vec::new();
        for (pipeline, ask) in queue {
            let fits = |block: BlockId| {
                let own = &self.blocks[block.0 as usize];
                self.reaches(pipeline, block, own, ask.cost, promised[block.0 as usize])
            };
            if !each(&ask.blocks).all(fits) {
                continue;
            }
            ready.push(pipeline);
            for block in each(&ask.blocks) {
                let promised = &mut promised[block.0 as usize];
                for (promised, cost) in promised.0.iter_mut().zip(ask.cost.0) {
                    *promised = promised.saturating_add(cost);
                }
            }
        }
        ready
    }

    /// What a question comes to, each block's part as a share of what is left there.
    fn total_share(&self, ask: &Ask) -> u128 {
        let of_block = |block: BlockId| {
            let pools = &self.blocks[block.0 as usize].pools;
            let shares = ask.cost.0.into_iter().zip(pools).map(|(asked, pool)| match (asked, pool.free()) {
                (0, _) => 0,
                (_, 0) => u128::MAX,
                (asked, left) => (u128::from(asked) << SHARE_BITS).div_ceil(u128::from(left)),
            });
            shares.fold(0, u128::saturating_add)
        };
        each(&ask.blocks).map(of_block).fold(0, u128::saturating_add)
    }
}

/// Which of two fractions is greater.
fn by_share(one: (u64, u64), two: (u64, u64)) -> Ordering {
    let product = |above: u64, below: u64| u128::from(above) * u128::from(below);
    product(one.0, two.1).cmp(&product(two.0, one.1))
}
