//! Loans: budget that no reservation can use now is lent, so that runs make progress, and no run starves.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sage_engine::allocate::{Allocation, Counting, Event, PipelineId, Resources, Scheduler, Unlock};
use sage_engine::{BlockId, Blocks};

use crate::allocate::model::{Model, each};

const EVERY: Counting = Counting::Every { smallest: Resources::ZERO };

/// The budget of a block.
const CAPACITY: u64 = 6_400;

const fn loss(units: u64) -> Resources {
    Resources([units, 0, 0, 0])
}

fn range(first: u32, last: u32) -> Blocks {
    Blocks::range(first, last).expect("in order")
}

/// An allocation, driven as the worker loop drives it: covered pipelines first, then one borrower.
struct World {
    allocation: Allocation,
    requests: BTreeMap<PipelineId, (Blocks, u64)>,
    arrived: u64,
}

impl World {
    fn new(scheduler: Scheduler) -> Self {
        Self { allocation: Allocation::new(scheduler, EVERY), requests: BTreeMap::new(), arrived: 0 }
    }

    fn apply(&mut self, event: Event) {
        self.allocation.apply(event.clone()).unwrap_or_else(|refused| panic!("{event:?}: {refused}"));
    }

    fn blocks(&mut self, count: u32) {
        (0..count).for_each(|_| self.apply(Event::Block { capacity: loss(CAPACITY) }));
    }

    /// A pipeline arrives whose next attempt has this cost.
    fn arrive(&mut self, cost: u64) -> PipelineId {
        self.arrived += 1;
        let pipeline = PipelineId(self.arrived);
        self.apply(Event::Arrive { pipelines: vec![pipeline] });
        self.apply(Event::Need { pipeline, cost: Some(loss(cost)) });
        pipeline
    }

    fn request(&mut self, pipeline: PipelineId, blocks: Blocks, cost: u64) {
        self.apply(Event::Request { pipeline, blocks: blocks.clone(), cost: loss(cost) });
        self.requests.insert(pipeline, (blocks, cost));
    }

    /// Serves one request and returns its pipeline.
    fn serve_one(&mut self) -> Option<PipelineId> {
        let covered = self.allocation.ready_first(|_| true);
        let pipeline = covered.or_else(|| self.allocation.borrower(|_| true))?;
        let (blocks, cost) = self.requests.remove(&pipeline).expect("a request");
        let cost = loss(cost);
        self.apply(match covered {
            Some(_) => Event::Spend { pipeline, blocks, cost },
            None => Event::Borrow { pipeline, blocks, cost },
        });
        Some(pipeline)
    }

    /// Serves all requests that can be served; each pipeline leaves when it was served.
    fn serve_all(&mut self) -> usize {
        let mut served = 0;
        while let Some(pipeline) = self.serve_one() {
            self.apply(Event::Leave { pipeline });
            served += 1;
        }
        served
    }
}

/// Regression: a run that waited for twenty blocks held all ten existing ones, and a run that needed a hundredth of
/// their budget waited forever.
#[test]
fn a_run_that_waits_for_blocks_does_not_hold_existing_ones() {
    for waits_first in [true, false] {
        let mut world = World::new(Scheduler::EvenSplit);
        if !waits_first {
            world.blocks(10);
        }
        let waiting_run = world.arrive(CAPACITY / 64);
        if waits_first {
            world.blocks(10);
        }
        for block in 0..10 {
            assert_eq!(world.allocation.offer(waiting_run, BlockId(block)), loss(CAPACITY), "it holds everything");
        }
        let small = world.arrive(CAPACITY / 100);
        world.request(small, range(9, 9), CAPACITY / 100);
        assert_eq!(world.allocation.ready(), [], "nothing is reserved for it");
        assert_eq!(world.serve_all(), 1, "waits first: {waits_first}");
        // The waiting run lost no more than that.
        assert_eq!(world.allocation.offer(waiting_run, BlockId(9)), loss(CAPACITY - CAPACITY / 100));
    }
}

/// Regression: seventy runs with a cost of 1/64 each had 1/70 reserved, and none made an attempt.
#[test]
fn a_block_that_is_enough_for_64_serves_64_of_70() {
    let mut world = World::new(Scheduler::EvenSplit);
    let all: Vec<PipelineId> = (0..70).map(|_| world.arrive(CAPACITY / 64)).collect();
    world.blocks(1);
    all.iter().for_each(|pipeline| world.request(*pipeline, range(0, 0), CAPACITY / 64));
    assert_eq!(world.allocation.ready(), [], "no reservation is enough");
    assert_eq!(world.serve_all(), 64);
    assert_eq!(world.allocation.held(BlockId(0)).expect("a block").left, Resources::ZERO);
}

/// Regression: 1,196 runs that each read a block of their own were stuck, because each held 1/1,196 of every block.
#[test]
fn runs_on_separate_blocks_do_not_wait_for_each_other() {
    const RUNS: u32 = 1_196;
    for cost in [CAPACITY / 64, CAPACITY] {
        let mut world = World::new(Scheduler::EvenSplit);
        let all: Vec<PipelineId> = (0..RUNS).map(|_| world.arrive(cost)).collect();
        world.blocks(RUNS);
        for (pipeline, block) in all.into_iter().zip(0..) {
            world.apply(Event::Restrict { pipeline, blocks: Some(range(block, block)) });
            world.request(pipeline, range(block, block), cost);
        }
        assert_eq!(world.allocation.ready(), []);
        assert_eq!(world.serve_all(), RUNS as usize, "at {cost}");
    }
}

/// Runs that read only the blocks they name are promised nothing on other blocks, even if their reservations there
/// would cover their attempts.
#[test]
fn nothing_is_promised_where_a_run_does_not_read() {
    let mut world = World::new(Scheduler::EvenSplit);
    let all: Vec<PipelineId> = (0..10).map(|_| world.arrive(CAPACITY / 20)).collect();
    all.iter().for_each(|pipeline| world.apply(Event::Restrict { pipeline: *pipeline, blocks: None }));
    let last = world.arrive(CAPACITY);
    world.blocks(1);
    world.request(last, range(0, 0), CAPACITY);
    assert_eq!(world.serve_all(), 1);
}

/// Small requests are served before an earlier run that requests more than any even share.
#[test]
fn large_requests_do_not_borrow_before_small_ones() {
    let mut world = World::new(Scheduler::EvenSplit);
    let greedy = world.arrive(CAPACITY);
    let all: Vec<PipelineId> = (0..69).map(|_| world.arrive(CAPACITY / 64)).collect();
    world.blocks(1);
    world.request(greedy, range(0, 0), CAPACITY);
    all.iter().for_each(|pipeline| world.request(*pipeline, range(0, 0), CAPACITY / 64));
    assert_eq!(world.serve_all(), 64);
    assert!(world.allocation.waiting().contains(&greedy));
}

/// Two covered runs get even shares whatever other runs hold: neither borrows from the other.
#[test]
fn the_split_is_even_among_covered_runs() {
    let mut world = World::new(Scheduler::EvenSplit);
    let (one, two) = (world.arrive(CAPACITY / 2), world.arrive(CAPACITY / 2));
    world.blocks(1);
    let late = world.arrive(CAPACITY / 4);
    world.request(late, range(0, 0), CAPACITY / 4);
    world.request(one, range(0, 0), CAPACITY / 2);
    world.request(two, range(0, 0), CAPACITY / 2);
    // The runs that arrived before the block have half of it each. The later one may borrow after them, but nothing is
    // left.
    assert_eq!(world.serve_one(), Some(one));
    assert_eq!(world.serve_one(), Some(two));
    assert_eq!(world.serve_one(), None);
}

/// Regression: a single run waited for nine other requests for its block, which never came.
#[test]
fn a_single_run_does_not_wait_for_requests_that_never_come() {
    for scheduler in [Scheduler::DominantShare(Unlock::ByAskers(10)), Scheduler::Pack(Unlock::ByAskers(10))] {
        let mut world = World::new(scheduler);
        world.blocks(1);
        let lone = world.arrive(CAPACITY);
        world.request(lone, range(0, 0), CAPACITY / 2);
        assert_eq!(world.allocation.ready(), [], "a tenth is unlocked");
        assert_eq!(world.serve_all(), 1, "{scheduler:?}");
        // With two requests, each unlocks half, so the smaller is served first; then the rest is lent.
        let (large, small) = (world.arrive(CAPACITY / 4), world.arrive(CAPACITY / 8));
        world.blocks(1);
        world.request(large, range(1, 1), CAPACITY * 3 / 4);
        world.request(small, range(1, 1), CAPACITY / 4);
        assert_eq!(world.serve_one(), Some(small), "{scheduler:?}");
        assert_eq!(world.serve_one(), Some(large), "{scheduler:?}");
    }
    // Budget that is unlocked over time is not lent before.
    let mut world = World::new(Scheduler::DominantShare(Unlock::OverTime(10)));
    world.apply(Event::AdvanceClock { time: 0 });
    world.blocks(1);
    let lone = world.arrive(CAPACITY);
    world.request(lone, range(0, 0), CAPACITY / 2);
    assert_eq!(world.serve_all(), 0);
}

/// A run that waits for its window gets it, although with every block more small runs arrive than the budget can
/// serve. Without promises they would always borrow what it cannot use yet.
#[test]
fn a_run_that_waits_for_its_window_gets_it() {
    const WINDOW: u32 = 20;
    // With one more run from the start and four at each block, an even share of a block is a sixth.
    let cost = CAPACITY / 6;
    let mut world = World::new(Scheduler::EvenSplit);
    let waiting_run = world.arrive(cost);
    world.arrive(cost);
    for block in 0..WINDOW {
        world.blocks(1);
        let crowd: Vec<PipelineId> = (0..4).map(|_| world.arrive(CAPACITY / 3)).collect();
        crowd.iter().for_each(|pipeline| world.request(*pipeline, range(block, block), CAPACITY / 3));
        // They spend what they can and stay, because by leaving they would free what they hold.
        while world.serve_one().is_some() {}
        let left = world.allocation.held(BlockId(block)).expect("a block").left.0[0];
        assert!((2 * cost..CAPACITY).contains(&left), "block {block}: {left} is left, and others borrowed");
        for pipeline in crowd {
            world.requests.remove(&pipeline);
            world.apply(Event::Leave { pipeline });
        }
        if block + 1 < WINDOW {
            assert!(!world.allocation.waiting().is_empty());
        }
    }
    world.request(waiting_run, range(0, WINDOW - 1), cost);
    assert_eq!(world.allocation.ready(), [waiting_run], "its own reservations cover the window");
}

/// Serves all requests that can be served, then checks that every other request exceeds what is spare.
fn serve_all_and_check_the_rest(world: &mut World, model: &mut Model) {
    loop {
        let covered = world.allocation.ready_first(|_| true);
        let Some(pipeline) = covered.or_else(|| world.allocation.borrower(|_| true)) else { break };
        let (blocks, cost) = world.requests[&pipeline].clone();
        let cost = loss(cost);
        let event = match covered {
            Some(_) => Event::Spend { pipeline, blocks, cost },
            None => Event::Borrow { pipeline, blocks, cost },
        };
        assert!(model.apply(&event), "{event:?}");
        world.apply(event);
        world.requests.remove(&pipeline);
    }
    for (pipeline, (blocks, cost)) in &world.requests {
        let fits = |block: &u32| {
            let promised = model.promises(*block);
            let earlier: u64 =
                promised.iter().filter(|(other, _)| *other < pipeline.0).map(|(_, need)| need.0[0]).sum();
            *cost + earlier <= model.left(*block, 0)
        };
        assert!(!each(blocks).iter().all(fits), "{pipeline:?} waits, and {cost} is spare on each of {blocks:?}");
    }
}

proptest! {
    /// While nothing is in progress, no run waits whose request fits the free budget, in any order of events. Free is
    /// what is unused and not promised to earlier runs.
    #[test]
    fn whatever_fits_runs(words in prop::collection::vec(any::<(u8, u8, u8, u16)>(), 1..80)) {
        let (mut world, mut model) = (World::new(Scheduler::EvenSplit), Model::new(false));
        for (what, who, from, much) in words {
            let waiting = world.allocation.waiting().to_vec();
            let blocks = world.allocation.block_count() as u32;
            let cost = match who % 4 {
                0 => CAPACITY,
                1 => CAPACITY / 64,
                _ => u64::from(much) % CAPACITY + 1,
            };
            match what % 8 {
                0 | 1 => {
                    world.blocks(1);
                    model.apply(&Event::Block { capacity: loss(CAPACITY) });
                }
                2..=4 => {
                    let pipeline = world.arrive(cost);
                    model.apply(&Event::Arrive { pipelines: vec![pipeline] });
                    model.apply(&Event::Need { pipeline, cost: Some(loss(cost)) });
                }
                5 | 6 if blocks > 0 && !waiting.is_empty() => {
                    let pipeline = waiting[usize::from(who) % waiting.len()];
                    let first = u32::from(from) % blocks;
                    world.request(pipeline, range(first, (first + u32::from(who % 3)).min(blocks - 1)), cost);
                }
                _ if !waiting.is_empty() => {
                    let pipeline = waiting[usize::from(who) % waiting.len()];
                    world.requests.remove(&pipeline);
                    world.apply(Event::Leave { pipeline });
                    model.apply(&Event::Leave { pipeline });
                }
                _ => {}
            }
            serve_all_and_check_the_rest(&mut world, &mut model);
        }
    }

    /// On blocks that are older than all waiting runs nothing is withheld: every request that fits what is left is served.
    #[test]
    fn at_rest_everything_left_is_lent(
        requests in prop::collection::vec((0_u32..6, 0_u32..3, 1..=CAPACITY), 1..30), scheduler in 0_usize..4,
    ) {
        let scheduler = [
            Scheduler::EvenSplit,
            Scheduler::FirstCome,
            Scheduler::DominantShare(Unlock::ByAskers(10)),
            Scheduler::Pack(Unlock::ByAskers(10)),
        ][scheduler];
        let mut world = World::new(scheduler);
        world.blocks(6);
        for (first, length, cost) in requests {
            let pipeline = world.arrive(cost);
            world.request(pipeline, range(first, (first + length).min(5)), cost);
        }
        while world.serve_one().is_some() {}
        for (blocks, cost) in world.requests.values() {
            let left = |block: &u32| world.allocation.held(BlockId(*block)).expect("a block").left.0[0];
            prop_assert!(each(blocks).iter().any(|block| left(block) < *cost), "{cost} is left on each of {blocks:?}");
        }
    }
}
