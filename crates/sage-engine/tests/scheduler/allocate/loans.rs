//! Budget that nobody can use now is lent: nothing stands still, and nobody starves by it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sage_engine::allocate::{Allocation, Counting, Event, PipelineId, Resources, Scheduler, Unlock};
use sage_engine::{BlockId, Blocks};

use crate::allocate::model::{Model, each};

const EVERY: Counting = Counting::Every { smallest: Resources::ZERO };

/// What a block brings.
const CAPACITY: u64 = 6_400;

const fn loss(units: u64) -> Resources {
    Resources([units, 0, 0, 0])
}

fn range(first: u32, last: u32) -> Blocks {
    Blocks::range(first, last).expect("in order")
}

/// An allocation that is driven as the loop does it: whoever is covered goes first, then one borrows.
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

    /// A pipeline comes whose next attempt costs this.
    fn arrive(&mut self, cost: u64) -> PipelineId {
        self.arrived += 1;
        let pipeline = PipelineId(self.arrived);
        self.apply(Event::Arrive { pipelines: vec![pipeline] });
        self.apply(Event::Need { pipeline, cost: Some(loss(cost)) });
        pipeline
    }

    fn ask(&mut self, pipeline: PipelineId, blocks: Blocks, cost: u64) {
        self.apply(Event::Request { pipeline, blocks: blocks.clone(), cost: loss(cost) });
        self.requests.insert(pipeline, (blocks, cost));
    }

    /// Answers one request; whose it was.
    fn answer_one(&mut self) -> Option<PipelineId> {
        let covered = self.allocation.ready_first(|_| true);
        let pipeline = covered.or_else(|| self.allocation.borrower(|_| true))?;
        let (blocks, cost) = self.requests.remove(&pipeline).expect("it asked");
        let cost = loss(cost);
        self.apply(match covered {
            Some(_) => Event::Spend { pipeline, blocks, cost },
            None => Event::Borrow { pipeline, blocks, cost },
        });
        Some(pipeline)
    }

    /// Answers all requests that can be answered; each pipeline leaves with its answer.
    fn answer_all(&mut self) -> usize {
        let mut answered = 0;
        while let Some(pipeline) = self.answer_one() {
            self.apply(Event::Leave { pipeline });
            answered += 1;
        }
        answered
    }
}

/// A run that waited for twenty blocks held all of the ten there were, and one that needed a hundredth of their budget
/// waited for ever.
#[test]
fn who_waits_for_blocks_does_not_hold_those_there_are() {
    for patient_comes_first in [true, false] {
        let mut world = World::new(Scheduler::EvenSplit);
        if !patient_comes_first {
            world.blocks(10);
        }
        let patient = world.arrive(CAPACITY / 64);
        if patient_comes_first {
            world.blocks(10);
        }
        for block in 0..10 {
            assert_eq!(world.allocation.offer(patient, BlockId(block)), loss(CAPACITY), "it holds everything");
        }
        let small = world.arrive(CAPACITY / 100);
        world.ask(small, range(9, 9), CAPACITY / 100);
        assert_eq!(world.allocation.ready(), [], "nothing is reserved for it");
        assert_eq!(world.answer_all(), 1, "patient first: {patient_comes_first}");
        // And the one that waits lost no more than that.
        assert_eq!(world.allocation.offer(patient, BlockId(9)), loss(CAPACITY - CAPACITY / 100));
    }
}

/// Seventy runs at a sixty-fourth each had a seventieth reserved, and none made an attempt.
#[test]
fn a_block_that_is_enough_for_64_serves_64_of_70() {
    let mut world = World::new(Scheduler::EvenSplit);
    let all: Vec<PipelineId> = (0..70).map(|_| world.arrive(CAPACITY / 64)).collect();
    world.blocks(1);
    all.iter().for_each(|pipeline| world.ask(*pipeline, range(0, 0), CAPACITY / 64));
    assert_eq!(world.allocation.ready(), [], "nobody's reservation is enough");
    assert_eq!(world.answer_all(), 64);
    assert_eq!(world.allocation.held(BlockId(0)).expect("a block").left, Resources::ZERO);
}

/// 1,196 runs that read one block each, which nobody else read, were stuck: each held a 1,196th of all others' blocks.
#[test]
fn runs_on_separate_blocks_do_not_wait_for_each_other() {
    const RUNS: u32 = 1_196;
    for cost in [CAPACITY / 64, CAPACITY] {
        let mut world = World::new(Scheduler::EvenSplit);
        let all: Vec<PipelineId> = (0..RUNS).map(|_| world.arrive(cost)).collect();
        world.blocks(RUNS);
        for (pipeline, block) in all.into_iter().zip(0..) {
            world.apply(Event::Restrict { pipeline, blocks: Some(range(block, block)) });
            world.ask(pipeline, range(block, block), cost);
        }
        assert_eq!(world.allocation.ready(), []);
        assert_eq!(world.answer_all(), RUNS as usize, "at {cost}");
    }
}

/// A few runs that name blocks of their own are promised nothing of others' blocks, though their reservations there are
/// large enough for their attempts.
#[test]
fn nothing_is_promised_where_a_run_does_not_read() {
    let mut world = World::new(Scheduler::EvenSplit);
    let all: Vec<PipelineId> = (0..10).map(|_| world.arrive(CAPACITY / 20)).collect();
    all.iter().for_each(|pipeline| world.apply(Event::Restrict { pipeline: *pipeline, blocks: None }));
    let last = world.arrive(CAPACITY);
    world.blocks(1);
    world.ask(last, range(0, 0), CAPACITY);
    assert_eq!(world.answer_all(), 1);
}

/// Those who fit go first even though a greedy run came before them: it asks for more than anybody's part.
#[test]
fn the_greedy_do_not_borrow_before_the_modest() {
    let mut world = World::new(Scheduler::EvenSplit);
    let greedy = world.arrive(CAPACITY);
    let all: Vec<PipelineId> = (0..69).map(|_| world.arrive(CAPACITY / 64)).collect();
    world.blocks(1);
    world.ask(greedy, range(0, 0), CAPACITY);
    all.iter().for_each(|pipeline| world.ask(*pipeline, range(0, 0), CAPACITY / 64));
    assert_eq!(world.answer_all(), 64);
    assert!(world.allocation.waiting().contains(&greedy));
}

/// Two that can run have even parts whatever others hold: the one that asks for more borrows nothing of the other's.
#[test]
fn the_split_is_even_among_those_who_can_run() {
    let mut world = World::new(Scheduler::EvenSplit);
    let (one, two) = (world.arrive(CAPACITY / 2), world.arrive(CAPACITY / 2));
    world.blocks(1);
    let late = world.arrive(CAPACITY / 4);
    world.ask(late, range(0, 0), CAPACITY / 4);
    world.ask(one, range(0, 0), CAPACITY / 2);
    world.ask(two, range(0, 0), CAPACITY / 2);
    // Who came before the block has a half of it each; who came later borrows when they are done, and there is nothing.
    assert_eq!(world.answer_one(), Some(one));
    assert_eq!(world.answer_one(), Some(two));
    assert_eq!(world.answer_one(), None);
}

/// A lone run waited for nine others to ask for its block, which there were not.
#[test]
fn a_lone_run_does_not_wait_for_askers_that_do_not_exist() {
    for scheduler in [Scheduler::DominantShare(Unlock::ByAskers(10)), Scheduler::Pack(Unlock::ByAskers(10))] {
        let mut world = World::new(scheduler);
        world.blocks(1);
        let lone = world.arrive(CAPACITY);
        world.ask(lone, range(0, 0), CAPACITY / 2);
        assert_eq!(world.allocation.ready(), [], "a tenth is unlocked");
        assert_eq!(world.answer_all(), 1, "{scheduler:?}");
        // Of two, each unlocks a half, so the smaller of them goes first; then the rest is lent.
        let (large, small) = (world.arrive(CAPACITY / 4), world.arrive(CAPACITY / 8));
        world.blocks(1);
        world.ask(large, range(1, 1), CAPACITY * 3 / 4);
        world.ask(small, range(1, 1), CAPACITY / 4);
        assert_eq!(world.answer_one(), Some(small), "{scheduler:?}");
        assert_eq!(world.answer_one(), Some(large), "{scheduler:?}");
    }
    // Where time unlocks, time will.
    let mut world = World::new(Scheduler::DominantShare(Unlock::OverTime(10)));
    world.apply(Event::Tick { time: 0 });
    world.blocks(1);
    let lone = world.arrive(CAPACITY);
    world.ask(lone, range(0, 0), CAPACITY / 2);
    assert_eq!(world.answer_all(), 0);
}

/// A run that waits for a window gets it, though with every block more small runs come than all budget is enough for.
/// Without promises they would borrow whatever it cannot use yet, for ever.
#[test]
fn a_run_that_waits_for_its_window_gets_it() {
    const WINDOW: u32 = 20;
    // With one that came with it and four more at each block, an even part of a block is a sixth.
    let cost = CAPACITY / 6;
    let mut world = World::new(Scheduler::EvenSplit);
    let patient = world.arrive(cost);
    world.arrive(cost);
    for block in 0..WINDOW {
        world.blocks(1);
        let crowd: Vec<PipelineId> = (0..4).map(|_| world.arrive(CAPACITY / 3)).collect();
        crowd.iter().for_each(|pipeline| world.ask(*pipeline, range(block, block), CAPACITY / 3));
        // They take what they can and stay, or else they would leave what they hold.
        while world.answer_one().is_some() {}
        let left = world.allocation.held(BlockId(block)).expect("a block").left.0[0];
        assert!((2 * cost..CAPACITY).contains(&left), "block {block}: {left} is left, and others did borrow");
        for pipeline in crowd {
            world.requests.remove(&pipeline);
            world.apply(Event::Leave { pipeline });
        }
        if block + 1 < WINDOW {
            assert!(!world.allocation.waiting().is_empty());
        }
    }
    world.ask(patient, range(0, WINDOW - 1), cost);
    assert_eq!(world.allocation.ready(), [patient], "its own reservations cover the window");
}

/// Answers everything, then checks that whoever still asks asks for more than is spare.
fn nothing_stands_still(world: &mut World, model: &mut Model) {
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
    /// No run that fits what is free waits while nothing is under way, whatever comes in whatever order. Free is what
    /// nobody has used, without what is promised to runs that came before.
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
                    world.ask(pipeline, range(first, (first + u32::from(who % 3)).min(blocks - 1)), cost);
                }
                _ if !waiting.is_empty() => {
                    let pipeline = waiting[usize::from(who) % waiting.len()];
                    world.requests.remove(&pipeline);
                    world.apply(Event::Leave { pipeline });
                    model.apply(&Event::Leave { pipeline });
                }
                _ => {}
            }
            nothing_stands_still(&mut world, &mut model);
        }
    }

    /// On blocks that were there before everybody who waits, nothing is withheld: whatever fits what is left runs.
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
            world.ask(pipeline, range(first, (first + length).min(5)), cost);
        }
        while world.answer_one().is_some() {}
        for (blocks, cost) in world.requests.values() {
            let left = |block: &u32| world.allocation.held(BlockId(*block)).expect("a block").left.0[0];
            prop_assert!(each(blocks).iter().any(|block| left(block) < *cost), "{cost} is left on each of {blocks:?}");
        }
    }
}
