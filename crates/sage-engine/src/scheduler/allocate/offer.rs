//! Queries of an allocation: who is allocated what, has used what and may spend what. Nothing here changes it.

use sage_kernel::{BlockId, Blocks};

use super::pool::Pool;
use super::{Allocation, Block, Counting, Held, PipelineId, Resources, each};

/// Read-only queries.
impl Allocation {
    /// The number of blocks.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// The waiting pipelines, longest-waiting first.
    pub fn waiting(&self) -> &[PipelineId] {
        &self.waiting
    }

    /// Whether a block is retired; `None` if it does not exist.
    pub fn is_retired(&self, block: BlockId) -> Option<bool> {
        self.blocks.get(block.0 as usize).map(|block| block.retired)
    }

    /// What of a block is neither reserved nor used; `None` if it does not exist.
    pub fn free(&self, block: BlockId) -> Option<Resources> {
        let block = self.blocks.get(block.0 as usize)?;
        Some(Resources(block.pools.each_ref().map(Pool::free)))
    }

    /// What is left of a block and how much of that is reserved for waiting pipelines; `None` if it does not exist.
    pub fn held(&self, block: BlockId) -> Option<Held> {
        let block = self.blocks.get(block.0 as usize)?;
        let of = |part: fn(&Pool) -> u64| Resources(block.pools.each_ref().map(part));
        Some(Held { held: of(Pool::held), left: of(Pool::left) })
    }

    /// What pipelines that left have used of a block; `None` if it does not exist.
    pub fn departed(&self, block: BlockId) -> Option<Resources> {
        let block = self.blocks.get(block.0 as usize)?;
        Some(Resources(block.pools.each_ref().map(Pool::departed)))
    }

    /// The allocation of a waiting pipeline on a block, used or not.
    pub fn allocated(&self, pipeline: PipelineId, block: BlockId) -> Resources {
        match (self.index_of(pipeline), self.blocks.get(block.0 as usize)) {
            (Ok(_), Some(own)) if self.reserves() => self.used(pipeline, block).with(self.claim(pipeline, block, own)),
            _ => self.used(pipeline, block),
        }
    }

    /// How much of its reservation a waiting pipeline has drawn since the block was last divided.
    pub(super) fn drawn(&self, pipeline: PipelineId, block: BlockId, own: &Block) -> Resources {
        let entry = self.entries.get(&(pipeline, block.0)).filter(|entry| entry.epoch == own.epoch);
        entry.map_or(Resources::ZERO, |entry| entry.drawn)
    }

    /// The unused reservation of a waiting pipeline.
    pub(super) fn claim(&self, pipeline: PipelineId, block: BlockId, own: &Block) -> Resources {
        let reserved = Resources(own.pools.each_ref().map(|pool| pool.reserved_for(pipeline)));
        reserved.without(self.drawn(pipeline, block, own))
    }

    /// What a waiting pipeline has used of its allocation.
    pub fn used(&self, pipeline: PipelineId, block: BlockId) -> Resources {
        self.entries.get(&(pipeline, block.0)).map_or(Resources::ZERO, |entry| entry.used)
    }

    /// What a waiting pipeline has used beyond its allocation.
    pub fn overdraft(&self, pipeline: PipelineId, block: BlockId) -> Resources {
        self.entries.get(&(pipeline, block.0)).map_or(Resources::ZERO, |entry| entry.overdraft)
    }

    /// The most that a pipeline can expect to spend on a block: its reservation or, without reservations, what is left.
    /// If requests unlock budget, this is all that is left; if only time does, what is unlocked so far, since otherwise
    /// pipelines would always request the newest block. The maximum value means that the ledger decides.
    pub fn offer(&self, pipeline: PipelineId, block: BlockId) -> Resources {
        match (self.index_of(pipeline), self.blocks.get(block.0 as usize)) {
            (Ok(_), Some(own)) => self.offer_of(pipeline, block, own),
            _ => Resources::ZERO,
        }
    }

    /// As [`Self::offer`], for a pipeline that is known to wait and a block that is known to exist.
    fn offer_of(&self, pipeline: PipelineId, block: BlockId, own: &Block) -> Resources {
        if own.retired {
            return Resources::ZERO;
        }
        let drawn = self.drawn(pipeline, block, own);
        let overdrafts = self.counting == Counting::Primary;
        let alone = overdrafts && self.requested_by_no_other(pipeline, block, own);
        let mut offer = Resources::ZERO;
        for (resource, pool) in own.pools.iter().enumerate() {
            offer.0[resource] = match self.reserves() {
                true => {
                    let claim = pool.reserved_for(pipeline) - drawn.0[resource];
                    if overdrafts && pool.held() == claim { u64::MAX } else { claim }
                }
                false => {
                    let waits = self.scheduler.unlocks_over_time();
                    let reach = self.scheduler.unlocked(pool.capacity(), own, self.time);
                    match reach < pool.capacity() && waits {
                        true => reach.saturating_sub(pool.capacity() - pool.free()),
                        false if alone => u64::MAX,
                        false => pool.free(),
                    }
                }
            };
        }
        offer
    }

    /// Whether a cost is within [`Self::offer`] under reservations, for a waiting pipeline and a block that is not
    /// retired. Stops at the first resource that does not fit.
    pub(super) fn is_offered(&self, pipeline: PipelineId, block: BlockId, own: &Block, cost: Resources) -> bool {
        let drawn = self.drawn(pipeline, block, own);
        let overdrafts = self.counting == Counting::Primary;
        own.pools.iter().zip(cost.0).zip(drawn.0).all(|((pool, cost), drawn)| {
            let claim = pool.reserved_for(pipeline) - drawn;
            cost <= claim || (overdrafts && pool.held() == claim)
        })
    }

    /// Whether on one of these blocks a single pipeline may hold all unused reservations, so that it may overdraw. The
    /// earliest pipeline holds the most.
    pub(crate) fn may_leave_one(&self, blocks: &Blocks) -> bool {
        let Some(first) = self.waiting.first().filter(|_| self.counting == Counting::Primary) else { return false };
        let alone = |block: BlockId| {
            let own = self.blocks.get(block.0 as usize);
            own.is_some_and(|own| {
                own.pools.iter().any(|pool| pool.capacity() > 0 && pool.held() <= pool.reserved_for(*first))
            })
        };
        each(blocks).any(alone)
    }

    /// [`Self::offer`] on every block that is not retired, oldest first.
    pub fn offers(&self, pipeline: PipelineId) -> impl Iterator<Item = (BlockId, Resources)> {
        let blocks = (0_u32..).zip(&self.blocks).filter(|(_, block)| !block.retired);
        blocks.map(move |(number, _)| (BlockId(number), self.offer(pipeline, BlockId(number))))
    }
}
