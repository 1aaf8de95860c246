//! What an allocation says: who is allocated, has used and may spend what, and what is left. Nothing here changes it.

use sage_kernel::{BlockId, Blocks};

use super::pool::Pool;
use super::{Allocation, Block, Counting, Held, PipelineId, Resources, each};

/// What a pipeline or a page may want to know.
impl Allocation {
    /// How many blocks there are.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// The pipelines that wait, the longest waiting first.
    pub fn waiting(&self) -> &[PipelineId] {
        &self.waiting
    }

    /// Whether a block is retired; nothing if there is none.
    pub fn is_retired(&self, block: BlockId) -> Option<bool> {
        self.blocks.get(block.0 as usize).map(|block| block.retired)
    }

    /// What of a block is neither reserved nor used; nothing if there is none.
    pub fn free(&self, block: BlockId) -> Option<Resources> {
        let block = self.blocks.get(block.0 as usize)?;
        Some(Resources(block.pools.each_ref().map(Pool::free)))
    }

    /// What is left of a block and how much of that is reserved for those that wait; nothing if there is none.
    pub fn held(&self, block: BlockId) -> Option<Held> {
        let block = self.blocks.get(block.0 as usize)?;
        let of = |part: fn(&Pool) -> u64| Resources(block.pools.each_ref().map(part));
        Some(Held { held: of(Pool::held), left: of(Pool::left) })
    }

    /// What pipelines that left have used of a block; nothing if there is none.
    pub fn departed(&self, block: BlockId) -> Option<Resources> {
        let block = self.blocks.get(block.0 as usize)?;
        Some(Resources(block.pools.each_ref().map(Pool::departed)))
    }

    /// What a waiting pipeline is allocated of a block, used or not.
    pub fn allocated(&self, pipeline: PipelineId, block: BlockId) -> Resources {
        match (self.place(pipeline), self.blocks.get(block.0 as usize)) {
            (Ok(_), Some(own)) if self.reserves() => self.used(pipeline, block).with(self.claim(pipeline, block, own)),
            _ => self.used(pipeline, block),
        }
    }

    /// What a waiting pipeline has drawn of what was reserved for it since the block was last divided.
    pub(super) fn drawn(&self, pipeline: PipelineId, block: BlockId, own: &Block) -> Resources {
        let entry = self.entries.get(&(pipeline, block.0)).filter(|entry| entry.epoch == own.epoch);
        entry.map_or(Resources::ZERO, |entry| entry.drawn)
    }

    /// What is reserved for a waiting pipeline and unused.
    pub(super) fn claim(&self, pipeline: PipelineId, block: BlockId, own: &Block) -> Resources {
        let reserved = Resources(own.pools.each_ref().map(|pool| pool.reserved_for(pipeline)));
        reserved.without(self.drawn(pipeline, block, own))
    }

    /// What a waiting pipeline has used of what it is allocated.
    pub fn used(&self, pipeline: PipelineId, block: BlockId) -> Resources {
        self.entries.get(&(pipeline, block.0)).map_or(Resources::ZERO, |entry| entry.used)
    }

    /// What a waiting pipeline has used beyond that.
    pub fn overdraft(&self, pipeline: PipelineId, block: BlockId) -> Resources {
        self.entries.get(&(pipeline, block.0)).map_or(Resources::ZERO, |entry| entry.overdraft)
    }

    /// The most that a pipeline can hope to spend on a block as things are: what is reserved for it, or, without
    /// reservations, what is left. Where asking brings budget within reach, all that is left can be hoped for; where
    /// only time does, no more than it has brought so far, or pipelines would ask for the newest block for ever, which
    /// has had no time. The largest number there is stands for "whatever the ledger admits".
    pub fn offer(&self, pipeline: PipelineId, block: BlockId) -> Resources {
        match (self.place(pipeline), self.blocks.get(block.0 as usize)) {
            (Ok(_), Some(own)) => self.offer_of(pipeline, block, own),
            _ => Resources::ZERO,
        }
    }

    /// The same for a pipeline that is known to wait, on a block that is known.
    fn offer_of(&self, pipeline: PipelineId, block: BlockId, own: &Block) -> Resources {
        if own.retired {
            return Resources::ZERO;
        }
        let drawn = self.drawn(pipeline, block, own);
        let overdrafts = self.counting == Counting::Primary;
        let alone = overdrafts && self.asked_by_no_other(pipeline, block, own);
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

    /// Whether a cost is within [`Self::offer`] under reservations, of a pipeline that waits on a block that is not
    /// retired: looked at only as far as it takes to say no.
    pub(super) fn is_offered(&self, pipeline: PipelineId, block: BlockId, own: &Block, cost: Resources) -> bool {
        let drawn = self.drawn(pipeline, block, own);
        let overdrafts = self.counting == Counting::Primary;
        own.pools.iter().zip(cost.0).zip(drawn.0).all(|((pool, cost), drawn)| {
            let claim = pool.reserved_for(pipeline) - drawn;
            cost <= claim || (overdrafts && pool.held() == claim)
        })
    }

    /// Whether, on one of these blocks, all that is reserved and not used may be one pipeline's: then it may overdraw.
    /// Who came first has most.
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
