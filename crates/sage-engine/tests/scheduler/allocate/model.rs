//! A naive model of the even split: a number for every pipeline, block and resource, and loops over all of them.

use std::collections::{BTreeMap, BTreeSet};

use sage_engine::allocate::{Event, PipelineId, RESOURCES, Resources};
use sage_engine::{BlockId, Blocks};

type Cell = (u64, u32, usize);

/// A waiting pipeline: the number of blocks when it began to wait, the cost of its next attempt, and the blocks that it
/// names.
type Waiter = (u32, Option<Resources>, Option<Vec<u32>>);

/// A naive allocation.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) capacity: Vec<[u64; RESOURCES]>,
    pub(crate) free: Vec<[u64; RESOURCES]>,
    pub(crate) retired: BTreeSet<u32>,
    pub(crate) waiting: BTreeSet<u64>,
    pub(crate) allocated: BTreeMap<Cell, u64>,
    pub(crate) used: BTreeMap<Cell, u64>,
    pub(crate) overdraft: BTreeMap<Cell, u64>,
    /// For each waiting pipeline: the first block after it began to wait, its next cost, and the blocks it reads.
    pub(crate) waiters: BTreeMap<u64, Waiter>,
    newest: Option<u64>,
    overdrafts: bool,
}

pub(crate) fn each(blocks: &Blocks) -> Vec<u32> {
    blocks.ranges().iter().flat_map(|range| range.first().0..=range.last().0).collect()
}

impl Model {
    pub(crate) fn new(overdrafts: bool) -> Self {
        Self { overdrafts, ..Self::default() }
    }

    pub(crate) fn of(map: &BTreeMap<Cell, u64>, pipeline: u64, block: u32, resource: usize) -> u64 {
        map.get(&(pipeline, block, resource)).copied().unwrap_or(0)
    }

    fn hand_out(&mut self, block: u32, resource: usize, to: &[u64]) {
        if to.is_empty() || self.retired.contains(&block) {
            return;
        }
        let free = std::mem::take(&mut self.free[block as usize][resource]);
        let (share, mut over) = (free / to.len() as u64, free % to.len() as u64);
        for pipeline in to {
            let extra = over.min(1);
            over -= extra;
            *self.allocated.entry((*pipeline, block, resource)).or_default() += share + extra;
        }
    }

    fn may_spend(&self, pipeline: u64, block: u32, resource: usize, cost: u64) -> bool {
        let unspent =
            |of: u64| Self::of(&self.allocated, of, block, resource) - Self::of(&self.used, of, block, resource);
        let others: u64 = self.waiting.iter().filter(|other| **other != pipeline).map(|other| unspent(*other)).sum();
        !self.retired.contains(&block) && (cost <= unspent(pipeline) || (self.overdrafts && others == 0))
    }

    fn known(&self, blocks: &Blocks) -> bool {
        each(blocks).iter().all(|block| (*block as usize) < self.capacity.len())
    }

    fn arrive(&mut self, pipelines: &[PipelineId]) -> bool {
        let mut newest = self.newest;
        for pipeline in pipelines {
            if newest.is_some_and(|newest| pipeline.0 <= newest) {
                return false;
            }
            newest = Some(pipeline.0);
        }
        self.newest = newest;
        let arrived: Vec<u64> = pipelines.iter().map(|pipeline| pipeline.0).collect();
        self.waiting.extend(&arrived);
        let since = self.capacity.len() as u32;
        self.waiters.extend(arrived.iter().map(|pipeline| (*pipeline, (since, None, None))));
        for block in 0..self.capacity.len() as u32 {
            (0..RESOURCES).for_each(|resource| self.hand_out(block, resource, &arrived));
        }
        true
    }

    fn spend(&mut self, pipeline: u64, blocks: &Blocks, cost: Resources) -> bool {
        let cells: Vec<(u32, usize)> =
            each(blocks).into_iter().flat_map(|block| (0..RESOURCES).map(move |resource| (block, resource))).collect();
        let fits = |(block, resource): &(u32, usize)| self.may_spend(pipeline, *block, *resource, cost.0[*resource]);
        if !self.waiting.contains(&pipeline) || !self.known(blocks) || !cells.iter().all(fits) {
            return false;
        }
        cells.into_iter().for_each(|(block, resource)| self.use_own(pipeline, block, resource, cost.0[resource]));
        self.attempted(pipeline);
        true
    }

    fn attempted(&mut self, pipeline: u64) {
        let since = self.capacity.len() as u32;
        self.waiters.entry(pipeline).and_modify(|waiter| waiter.0 = since);
    }

    pub(crate) fn unspent(&self, pipeline: u64, block: u32, resource: usize) -> u64 {
        Self::of(&self.allocated, pipeline, block, resource) - Self::of(&self.used, pipeline, block, resource)
    }

    fn use_own(&mut self, pipeline: u64, block: u32, resource: usize, cost: u64) {
        let within = cost.min(self.unspent(pipeline, block, resource));
        *self.used.entry((pipeline, block, resource)).or_default() += within;
        *self.overdraft.entry((pipeline, block, resource)).or_default() += cost - within;
    }

    fn covers(&self, pipeline: u64, block: u32, cost: Resources) -> bool {
        (0..RESOURCES).all(|resource| cost.0[resource] <= self.unspent(pipeline, block, resource))
    }

    /// What a loan on a block must leave to each pipeline.
    pub(crate) fn promises(&self, block: u32) -> Vec<(u64, Resources)> {
        let mut promises = Vec::new();
        for (pipeline, (since, need, reads)) in &self.waiters {
            let reads = reads.as_ref().is_none_or(|reads| reads.contains(&block));
            if let Some(need) = need.filter(|need| reads && *since <= block && self.covers(*pipeline, block, *need)) {
                promises.push((*pipeline, need));
            }
        }
        promises
    }

    /// The unused budget.
    pub(crate) fn left(&self, block: u32, resource: usize) -> u64 {
        let used = self.used.iter().filter(|((_, of, what), _)| *of == block && *what == resource);
        self.capacity[block as usize][resource] - used.map(|(_, used)| used).sum::<u64>()
    }

    fn borrow(&mut self, pipeline: u64, blocks: &Blocks, cost: Resources) -> bool {
        if !self.waiting.contains(&pipeline) || !self.known(blocks) {
            return false;
        }
        let others: Vec<u64> = self.waiting.iter().copied().filter(|other| *other != pipeline).collect();
        for block in each(blocks) {
            if self.retired.contains(&block) || others.is_empty() || self.covers(pipeline, block, cost) {
                (0..RESOURCES).for_each(|resource| self.use_own(pipeline, block, resource, cost.0[resource]));
                continue;
            }
            let promises = self.promises(block);
            for (resource, cost) in cost.0.into_iter().enumerate() {
                let left = self.left(block, resource);
                let within = cost.min(left);
                *self.used.entry((pipeline, block, resource)).or_default() += within;
                *self.overdraft.entry((pipeline, block, resource)).or_default() += cost - within;
                for waiting in &self.waiting {
                    let used = Self::of(&self.used, *waiting, block, resource);
                    self.allocated.insert((*waiting, block, resource), used);
                }
                let mut rest = left - within;
                for (other, need) in promises.iter().filter(|(other, _)| *other != pipeline) {
                    let share = need.0[resource].min(rest);
                    rest -= share;
                    *self.allocated.entry((*other, block, resource)).or_default() += share;
                }
                self.free[block as usize][resource] = rest;
                self.hand_out(block, resource, &others);
            }
        }
        self.attempted(pipeline);
        true
    }

    fn refund(&mut self, pipeline: u64, blocks: &Blocks, cost: Resources) -> bool {
        let covered = |block: &u32| {
            (0..RESOURCES).all(|resource| {
                let used = Self::of(&self.used, pipeline, *block, resource);
                used + Self::of(&self.overdraft, pipeline, *block, resource) >= cost.0[resource]
            })
        };
        if !self.waiting.contains(&pipeline) || !self.known(blocks) || !each(blocks).iter().all(covered) {
            return false;
        }
        for block in each(blocks) {
            for resource in 0..RESOURCES {
                let cell = (pipeline, block, resource);
                let overdraft = self.overdraft.entry(cell).or_default();
                let beyond = cost.0[resource].min(*overdraft);
                *overdraft -= beyond;
                *self.used.entry(cell).or_default() -= cost.0[resource] - beyond;
            }
        }
        true
    }

    fn leave(&mut self, pipeline: u64) -> bool {
        if !self.waiting.remove(&pipeline) {
            return false;
        }
        self.waiters.remove(&pipeline);
        let rest: Vec<u64> = self.waiting.iter().copied().collect();
        for block in 0..self.capacity.len() as u32 {
            for resource in 0..RESOURCES {
                let used = Self::of(&self.used, pipeline, block, resource);
                let allocated = self.allocated.insert((pipeline, block, resource), used).unwrap_or(0);
                self.free[block as usize][resource] += allocated - used;
                self.hand_out(block, resource, &rest);
            }
        }
        true
    }

    /// Applies an event. Returns false if it is refused.
    pub(crate) fn apply(&mut self, event: &Event) -> bool {
        match event {
            Event::Block { capacity } => {
                self.capacity.push(capacity.0);
                self.free.push(capacity.0);
                let all: Vec<u64> = self.waiting.iter().copied().collect();
                let block = self.capacity.len() as u32 - 1;
                (0..RESOURCES).for_each(|resource| self.hand_out(block, resource, &all));
                true
            }
            Event::Arrive { pipelines } => self.arrive(pipelines),
            Event::Spend { pipeline, blocks, cost } => self.spend(pipeline.0, blocks, *cost),
            Event::Borrow { pipeline, blocks, cost } => self.borrow(pipeline.0, blocks, *cost),
            Event::Need { pipeline, cost } => {
                self.waiters.get_mut(&pipeline.0).map(|waiter| waiter.1 = *cost).is_some()
            }
            Event::Restrict { pipeline, blocks } => {
                let blocks = blocks.as_ref().map_or_else(Vec::new, each);
                self.waiters.get_mut(&pipeline.0).map(|waiter| waiter.2 = Some(blocks)).is_some()
            }
            Event::Refund { pipeline, blocks, cost } => self.refund(pipeline.0, blocks, *cost),
            Event::Leave { pipeline } => self.leave(pipeline.0),
            Event::Retire { block: BlockId(block) } => {
                let known = (*block as usize) < self.capacity.len();
                if known {
                    self.retired.insert(*block);
                }
                known
            }
            Event::Request { .. } | Event::Withdraw { .. } | Event::AdvanceClock { .. } => true,
        }
    }
}
