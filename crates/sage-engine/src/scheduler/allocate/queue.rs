//! Schedulers: in which order questions are answered, and how much of a block is within reach.
//!
//! - *Even split*: what a block brings is reserved in even parts for those that wait. A question is answered when
//!   its asker's own reservations cover it; where there is none such, one asker borrows (`lend`).
//! - *First come*: nothing is reserved; questions are answered in the order in which their askers came.
//! - *Dominant private block fairness* (Luo and others, 2021): a block's budget comes within reach bit by bit, one N-th
//!   for each pipeline that asks for it for the first time, or evenly over a time; where nothing fits that, only
//!   pipelines are counted that exist (`lend`). Questions are looked at in the
//!   order of the largest share of a block's whole budget that they ask for, smallest first.
//! - *DPack* (Tholoniat and others, 2022): the same reach, but questions are looked at in the order of what they ask
//!   for in total, each block's part counted as a share of what is left of that block, smallest first. We count one
//!   order, the primary one, where the paper looks for the best order of each block.
//!
//! Under all of them a question is answered whole or not at all, one that is too large does not stop those after it,
//! and ties go to whoever came first.

use std::cmp::Ordering;

use sage_kernel::{BlockId, Blocks};

use super::{Allocation, Ask, Asked, Block, Counting, PipelineId, RESOURCES, Refused, Resources, each};

/// How much of a block is within reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlock {
    /// One part of so many for each pipeline that asks for the block for the first time.
    ByAskers(u64),
    /// Evenly until the block is this old, from the time at which it came; in the engine in milliseconds, and a block
    /// that was sealed before the process started is whole within reach.
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
    /// Whether budget comes within reach by itself, whoever asks.
    pub(crate) const fn unlocks_over_time(self) -> bool {
        matches!(self, Self::DominantShare(Unlock::OverTime(_)) | Self::Pack(Unlock::OverTime(_)))
    }

    /// What of a capacity is within reach.
    pub(super) fn unlocked(self, capacity: u64, block: &Block, time: Option<u64>) -> u64 {
        let (part, whole) = match self {
            Self::EvenSplit | Self::FirstCome => return capacity,
            Self::DominantShare(Unlock::ByAskers(whole)) | Self::Pack(Unlock::ByAskers(whole)) => {
                (block.ever_asked, whole)
            }
            Self::DominantShare(Unlock::OverTime(whole)) | Self::Pack(Unlock::OverTime(whole)) => {
                // A block that was there before the clock was looked at is as old as can be.
                let (Some(now), Some(born)) = (time, block.born) else { return capacity };
                (now - born, whole)
            }
        };
        part_of(capacity, part, whole)
    }
}

/// So many parts of a whole of a capacity; all of it if there are as many.
pub(super) fn part_of(capacity: u64, part: u64, whole: u64) -> u64 {
    if part >= whole {
        return capacity;
    }
    let unlocked = u128::from(capacity) * u128::from(part) / u128::from(whole);
    // At most the capacity, since the part is less than the whole.
    u64::try_from(unlocked).unwrap_or(capacity)
}

/// Parts of one in which total shares are counted.
const SHARE_BITS: u32 = 40;

impl Allocation {
    pub(super) fn ask(&mut self, pipeline: PipelineId, blocks: Blocks, cost: Resources) -> Result<(), Refused> {
        let place = self.place(pipeline)?;
        self.known(&blocks)?;
        let Some(first) = each(&blocks).next() else { return Ok(()) };
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
        self.asked[place] = Some(Asked { cost, first });
        self.asks[place] = Some(Ask { blocks, dominant });
        Ok(())
    }

    /// The question of a pipeline, if it waits and has one.
    fn ask_of(&self, pipeline: PipelineId) -> Option<&Ask> {
        self.asks[self.place(pipeline).ok()?].as_ref()
    }

    pub(super) fn forget_ask(&mut self, pipeline: PipelineId) {
        let Ok(place) = self.place(pipeline) else { return };
        self.asked[place] = None;
        if let Some(ask) = self.asks[place].take() {
            each(&ask.blocks).for_each(|block| self.blocks[block.0 as usize].asking -= 1);
        }
    }

    pub(super) fn asked_by_no_other(&self, pipeline: PipelineId, block: BlockId, own: &Block) -> bool {
        let asks = self.ask_of(pipeline).is_some_and(|ask| ask.blocks.contains(block));
        own.asking == u32::from(asks)
    }

    /// Whether a pipeline may spend this on a block now. The order among pipelines is not looked at.
    pub fn may_spend(&self, pipeline: PipelineId, block: BlockId, cost: Resources) -> bool {
        match self.blocks.get(block.0 as usize) {
            Some(own) if self.reserves() => {
                !own.retired && self.place(pipeline).is_ok() && self.is_offered(pipeline, block, own, cost)
            }
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
        if self.reserves() { self.covered().collect() } else { self.in_turn() }
    }

    /// The first of them that is wanted. With reservations nobody is looked at beyond it.
    pub fn ready_first(&self, wanted: impl Fn(PipelineId) -> bool) -> Option<PipelineId> {
        match self.reserves() {
            true => self.covered().find(|pipeline| wanted(*pipeline)),
            false => self.in_turn().into_iter().find(|pipeline| wanted(*pipeline)),
        }
    }

    /// Those whose own reservations cover what they ask, the longest waiting first.
    fn covered(&self) -> impl Iterator<Item = PipelineId> {
        let all = self.waiting.iter().zip(&self.asked).zip(&self.asks);
        let fits = |pipeline: PipelineId, cost: Resources, block: BlockId| {
            let own = self.blocks.get(block.0 as usize);
            own.is_some_and(|own| !own.retired && self.is_offered(pipeline, block, own, cost))
        };
        all.filter_map(move |((pipeline, asked), ask)| {
            // One block is enough to say no, and what it takes to see that is in the dense part.
            let Asked { cost, first } = asked.filter(|asked| fits(*pipeline, asked.cost, asked.first))?;
            let rest = each(&ask.as_ref()?.blocks).filter(|block| *block != first);
            rest.into_iter().all(|block| fits(*pipeline, cost, block)).then_some(*pipeline)
        })
    }

    /// All requests in the order of the scheduler.
    pub(super) fn queue(&self) -> Vec<(PipelineId, Resources, &Ask)> {
        let all = self.waiting.iter().zip(&self.asked).zip(&self.asks);
        let asking = all.filter_map(|((pipeline, asked), ask)| Some((*pipeline, asked.as_ref()?.cost, ask.as_ref()?)));
        let mut queue: Vec<(PipelineId, Resources, &Ask)> = asking.collect();
        match self.scheduler {
            Scheduler::EvenSplit | Scheduler::FirstCome => {}
            // Sorting keeps the order of arrival among equals.
            Scheduler::DominantShare(_) => queue.sort_by(|one, two| by_share(one.2.dominant, two.2.dominant)),
            Scheduler::Pack(_) => queue.sort_by_cached_key(|(_, cost, ask)| self.total_share(*cost, ask)),
        }
        queue
    }

    /// Those whose turn it is where nothing is reserved.
    fn in_turn(&self) -> Vec<PipelineId> {
        let mut promised = vec![Resources::ZERO; self.blocks.len()];
        let mut ready = Vec::new();
        for (pipeline, cost, ask) in self.queue() {
            let fits = |block: BlockId| {
                let own = &self.blocks[block.0 as usize];
                self.reaches(pipeline, block, own, cost, promised[block.0 as usize])
            };
            if !each(&ask.blocks).all(fits) {
                continue;
            }
            ready.push(pipeline);
            for block in each(&ask.blocks) {
                let promised = &mut promised[block.0 as usize];
                for (promised, cost) in promised.0.iter_mut().zip(cost.0) {
                    *promised = promised.saturating_add(cost);
                }
            }
        }
        ready
    }

    /// What a question comes to, each block's part as a share of what is left there.
    fn total_share(&self, cost: Resources, ask: &Ask) -> u128 {
        let of_block = |block: BlockId| {
            let pools = &self.blocks[block.0 as usize].pools;
            let shares = cost.0.into_iter().zip(pools).map(|(asked, pool)| match (asked, pool.free()) {
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
pub(super) fn by_share(one: (u64, u64), two: (u64, u64)) -> Ordering {
    let product = |above: u64, below: u64| u128::from(above) * u128::from(below);
    product(one.0, two.1).cmp(&product(two.0, one.1))
}
