//! Schedulers: the order in which requests are served, and how much of a block is unlocked.
//!
//! - *Even split*: the budget of a block is reserved in even parts for the waiting pipelines. A request is served when
//!   its pipeline's own reservations cover it; if there is none such, one pipeline borrows (`lend`).
//! - *First come*: nothing is reserved; requests are served in the order of arrival of their pipelines.
//! - *Dominant private block fairness* (Luo and others, 2021): a block's budget is unlocked gradually, one N-th for
//!   each pipeline that requests it for the first time, or evenly over a time; if nothing fits that, only existing
//!   pipelines are counted (`lend`). Requests are served in the order of the largest share of a block's whole budget
//!   that they need, smallest first.
//! - *DPack* (Tholoniat and others, 2022): the same unlocking, but requests are served in the order of their total
//!   need, with each block's part as a share of what is left of that block, smallest first. Only the primary order is
//!   counted, where the paper searches for the best order of each block.
//!
//! Under all of them a request is served completely or not at all, one that is too large does not block later ones, and
//! ties go to the earlier pipeline.

use std::cmp::Ordering;

use sage_kernel::{BlockId, Blocks};

use super::{Allocation, Block, Counting, PipelineId, RESOURCES, Refused, RequestBlocks, RequestCost, Resources, each};

/// How the budget of a block is unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlock {
    /// One part of this many for each pipeline that requests the block for the first time.
    ByAskers(u64),
    /// Evenly until the block has this age. In the engine the unit is milliseconds, and a block that was sealed before
    /// the process started is fully unlocked.
    OverTime(u64),
}

/// The order in which requests are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// Every pipeline gets the same part of every block.
    #[default]
    EvenSplit,
    /// By arrival.
    FirstCome,
    /// By the largest share of any block, smallest first.
    DominantShare(Unlock),
    /// By the total need, smallest first.
    Pack(Unlock),
}

impl Scheduler {
    /// Whether budget is unlocked over time, without requests.
    pub(crate) const fn unlocks_over_time(self) -> bool {
        matches!(self, Self::DominantShare(Unlock::OverTime(_)) | Self::Pack(Unlock::OverTime(_)))
    }

    /// The unlocked part of a capacity.
    pub(super) fn unlocked(self, capacity: u64, block: &Block, time: Option<u64>) -> u64 {
        let (part, whole) = match self {
            Self::EvenSplit | Self::FirstCome => return capacity,
            Self::DominantShare(Unlock::ByAskers(whole)) | Self::Pack(Unlock::ByAskers(whole)) => {
                (block.ever_requested, whole)
            }
            Self::DominantShare(Unlock::OverTime(whole)) | Self::Pack(Unlock::OverTime(whole)) => {
                // A block that existed before the first time was known has any age.
                let (Some(now), Some(born)) = (time, block.born) else { return capacity };
                (now - born, whole)
            }
        };
        part_of(capacity, part, whole)
    }
}

/// The fraction `parts` / `whole` of a capacity, at most all of it.
pub(super) fn part_of(capacity: u64, part: u64, whole: u64) -> u64 {
    if part >= whole {
        return capacity;
    }
    let unlocked = u128::from(capacity) * u128::from(part) / u128::from(whole);
    // At most the capacity, since the fraction is less than one.
    u64::try_from(unlocked).unwrap_or(capacity)
}

/// The resolution of total shares.
const SHARE_BITS: u32 = 40;

impl Allocation {
    pub(super) fn request(&mut self, pipeline: PipelineId, blocks: Blocks, cost: Resources) -> Result<(), Refused> {
        let index = self.index_of(pipeline)?;
        self.known(&blocks)?;
        let Some(first) = each(&blocks).next() else { return Ok(()) };
        if let Some(block) = each(&blocks).find(|block| self.blocks[block.0 as usize].retired) {
            return Err(Refused::Retired(block));
        }
        self.forget_ask(pipeline);
        let mut dominant = (0, 1);
        // Past requests for a block count only if they unlock its budget.
        let counted = !self.reserves();
        for block in each(&blocks) {
            let own = &mut self.blocks[block.0 as usize];
            own.requesting += 1;
            if counted {
                let entry = self.entries.entry((pipeline, block.0)).or_default();
                own.ever_requested += u64::from(!entry.requested);
                entry.requested = true;
            }
            for (requested, pool) in cost.0.into_iter().zip(&own.pools) {
                let share = (requested, pool.capacity().max(1));
                if by_share(share, dominant) == Ordering::Greater {
                    dominant = share;
                }
            }
        }
        self.request_costs[index] = Some(RequestCost { cost, first });
        self.request_blocks[index] = Some(RequestBlocks { blocks, dominant });
        Ok(())
    }

    /// The request of a pipeline, if it waits and has one.
    fn request_of(&self, pipeline: PipelineId) -> Option<&RequestBlocks> {
        self.request_blocks[self.index_of(pipeline).ok()?].as_ref()
    }

    pub(super) fn forget_ask(&mut self, pipeline: PipelineId) {
        let Ok(index) = self.index_of(pipeline) else { return };
        self.request_costs[index] = None;
        if let Some(request) = self.request_blocks[index].take() {
            each(&request.blocks).for_each(|block| self.blocks[block.0 as usize].requesting -= 1);
        }
    }

    pub(super) fn requested_by_no_other(&self, pipeline: PipelineId, block: BlockId, own: &Block) -> bool {
        let requests = self.request_of(pipeline).is_some_and(|request| request.blocks.contains(block));
        own.requesting == u32::from(requests)
    }

    /// Whether a pipeline may spend this on a block now, regardless of the order among pipelines.
    pub fn may_spend(&self, pipeline: PipelineId, block: BlockId, cost: Resources) -> bool {
        match self.blocks.get(block.0 as usize) {
            Some(own) if self.reserves() => {
                !own.retired && self.index_of(pipeline).is_ok() && self.is_offered(pipeline, block, own, cost)
            }
            Some(own) => self.reaches(pipeline, block, own, cost, Resources::ZERO),
            None => false,
        }
    }

    /// The same without reservations, when this much is promised to others.
    fn reaches(&self, pipeline: PipelineId, block: BlockId, own: &Block, cost: Resources, promised: Resources) -> bool {
        let overdrafts = self.counting == Counting::Primary;
        let fits = |resource: usize| {
            let pool = &own.pools[resource];
            let unlocked = self.scheduler.unlocked(pool.capacity(), own, self.time);
            let used = (pool.capacity() - pool.free()).saturating_add(promised.0[resource]);
            cost.0[resource] <= unlocked.saturating_sub(used)
                || (overdrafts && unlocked == pool.capacity() && self.requested_by_no_other(pipeline, block, own))
        };
        !own.retired && (0..RESOURCES).all(fits)
    }

    /// The pipelines whose requests can be served now, in the order in which they are served.
    pub fn ready(&self) -> Vec<PipelineId> {
        if self.reserves() { self.covered().collect() } else { self.in_service_order() }
    }

    /// The first of them that is eligible. With reservations, the search stops there.
    pub fn ready_first(&self, eligible: impl Fn(PipelineId) -> bool) -> Option<PipelineId> {
        match self.reserves() {
            true => self.covered().find(|pipeline| eligible(*pipeline)),
            false => self.in_service_order().into_iter().find(|pipeline| eligible(*pipeline)),
        }
    }

    /// Pipelines whose own reservations cover their request, longest-waiting first.
    fn covered(&self) -> impl Iterator<Item = PipelineId> {
        let all = self.waiting.iter().zip(&self.request_costs).zip(&self.request_blocks);
        let fits = |pipeline: PipelineId, cost: Resources, block: BlockId| {
            let own = self.blocks.get(block.0 as usize);
            own.is_some_and(|own| !own.retired && self.is_offered(pipeline, block, own, cost))
        };
        all.filter_map(move |((pipeline, requested), request)| {
            // One block suffices to reject, and the data for it is in the dense part.
            let RequestCost { cost, first } =
                requested.filter(|requested| fits(*pipeline, requested.cost, requested.first))?;
            let rest = each(&request.as_ref()?.blocks).filter(|block| *block != first);
            rest.into_iter().all(|block| fits(*pipeline, cost, block)).then_some(*pipeline)
        })
    }

    /// All requests in the order of the scheduler.
    pub(super) fn queue(&self) -> Vec<(PipelineId, Resources, &RequestBlocks)> {
        let all = self.waiting.iter().zip(&self.request_costs).zip(&self.request_blocks);
        let requesting = all.filter_map(|((pipeline, requested), request)| {
            Some((*pipeline, requested.as_ref()?.cost, request.as_ref()?))
        });
        let mut queue: Vec<(PipelineId, Resources, &RequestBlocks)> = requesting.collect();
        match self.scheduler {
            Scheduler::EvenSplit | Scheduler::FirstCome => {}
            // A stable sort keeps the order of arrival among equals.
            Scheduler::DominantShare(_) => queue.sort_by(|one, two| by_share(one.2.dominant, two.2.dominant)),
            Scheduler::Pack(_) => queue.sort_by_cached_key(|(_, cost, request)| self.total_share(*cost, request)),
        }
        queue
    }

    /// The requests to serve when nothing is reserved.
    fn in_service_order(&self) -> Vec<PipelineId> {
        let mut promised = vec![Resources::ZERO; self.blocks.len()];
        let mut ready = Vec::new();
        for (pipeline, cost, request) in self.queue() {
            let fits = |block: BlockId| {
                let own = &self.blocks[block.0 as usize];
                self.reaches(pipeline, block, own, cost, promised[block.0 as usize])
            };
            if !each(&request.blocks).all(fits) {
                continue;
            }
            ready.push(pipeline);
            for block in each(&request.blocks) {
                let promised = &mut promised[block.0 as usize];
                for (promised, cost) in promised.0.iter_mut().zip(cost.0) {
                    *promised = promised.saturating_add(cost);
                }
            }
        }
        ready
    }

    /// The total of a request, with each block's part as a share of what is left there.
    fn total_share(&self, cost: Resources, request: &RequestBlocks) -> u128 {
        let of_block = |block: BlockId| {
            let pools = &self.blocks[block.0 as usize].pools;
            let shares = cost.0.into_iter().zip(pools).map(|(requested, pool)| match (requested, pool.free()) {
                (0, _) => 0,
                (_, 0) => u128::MAX,
                (requested, left) => (u128::from(requested) << SHARE_BITS).div_ceil(u128::from(left)),
            });
            shares.fold(0, u128::saturating_add)
        };
        each(&request.blocks).map(of_block).fold(0, u128::saturating_add)
    }
}

/// Compares two fractions.
pub(super) fn by_share(one: (u64, u64), two: (u64, u64)) -> Ordering {
    let product = |above: u64, below: u64| u128::from(above) * u128::from(below);
    product(one.0, two.1).cmp(&product(two.0, one.1))
}
