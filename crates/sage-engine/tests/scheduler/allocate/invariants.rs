//! The eight invariants hold after every event, and the allocation equals a naive model.

use proptest::prelude::*;
use sage_engine::allocate::{Allocation, Counting, Event, PipelineId, RESOURCES, Resources, Scheduler, Unlock};
use sage_engine::{BlockId, Blocks};

use crate::allocate::model::{Model, each};

/// Every resource is counted, and blocks do not retire by themselves.
const EVERY: Counting = Counting::Every { smallest: Resources::ZERO };

/// A random step; its numbers are taken modulo the existing pipelines and blocks.
type RandomStep = (u8, u8, u8, u8, u16);

pub(crate) fn steps() -> impl Strategy<Value = Vec<RandomStep>> {
    prop::collection::vec(any::<RandomStep>(), 1..60)
}

/// As [`event`], but some charges are loans, and some pipelines state what they need and read.
fn event_with_loans(step: RandomStep, allocation: &Allocation, arrived: &mut u64) -> Event {
    let (what, who, from, length, much) = step;
    match (event(step, allocation, arrived), what / 16 % 4) {
        (Event::Spend { pipeline, blocks, cost }, 0 | 1) => Event::Borrow { pipeline, blocks, cost },
        (Event::Refund { pipeline, .. }, 0 | 1) => {
            let need = u64::from(much % 30);
            Event::Need { pipeline, cost: (who % 5 != 0).then_some(Resources([need, 0, need / 2, 0])) }
        }
        (Event::Refund { pipeline, blocks, .. }, 2) => {
            Event::Restrict { pipeline, blocks: (from % 3 != 0).then_some(blocks) }
        }
        (Event::Retire { .. }, 1..) => Event::Block { capacity: Resources([100, 5, 60, u64::from(length)]) },
        (event, _) => event,
    }
}

/// A mostly valid event from a random step.
fn event(step: RandomStep, allocation: &Allocation, arrived: &mut u64) -> Event {
    let (what, who, from, length, much) = step;
    let blocks = allocation.block_count() as u32;
    // Sometimes one past the last block.
    let first = u32::from(from) % (blocks + u32::from(from == 255)).max(1);
    let last = (first + u32::from(length % 4)).min(blocks.max(1) - 1).max(first);
    let window = Blocks::range(first, last).expect("in order");
    let waiting = allocation.waiting();
    let pipeline = match who {
        255 => PipelineId(u64::MAX),
        who => waiting.get(usize::from(who) % waiting.len().max(1)).copied().unwrap_or(PipelineId(0)),
    };
    // Mostly small, so that many charges fit; sometimes all that is left, or slightly more.
    let offer = allocation.offer(pipeline, BlockId(first)).0[0];
    let all = offer.min(150) + u64::from(much % 2);
    let much = if who % 3 == 0 { all } else { u64::from(much % 40) };
    let cost = Resources([much, 0, much / 2, u64::from(length % 3) / 2]);
    match what % 16 {
        0..=3 => Event::Block { capacity: Resources([100 + much, 7, 50 + u64::from(who), u64::from(length)]) },
        4 | 5 => {
            let count = u64::from(length % 3) + 1;
            let pipelines = (*arrived + 1..=*arrived + count).map(PipelineId).collect();
            *arrived += count;
            Event::Arrive { pipelines }
        }
        6..=10 => Event::Spend { pipeline, blocks: window, cost },
        11 | 12 => Event::Refund { pipeline, blocks: window, cost: Resources([much / 2, 0, much / 4, 0]) },
        13 | 14 => Event::Leave { pipeline },
        _ => Event::Retire { block: BlockId(first) },
    }
}

/// The observable state, for comparison with the state before.
struct Seen {
    allocated: Vec<Vec<Resources>>,
    used: Vec<Vec<Resources>>,
    waiting: Vec<PipelineId>,
}

fn seen(allocation: &Allocation) -> Seen {
    let blocks = allocation.block_count() as u32;
    let table = |of: &dyn Fn(PipelineId, BlockId) -> Resources| {
        let row = |pipeline: &PipelineId| (0..blocks).map(|block| of(*pipeline, BlockId(block))).collect();
        allocation.waiting().iter().map(row).collect()
    };
    Seen {
        allocated: table(&|pipeline, block| allocation.allocated(pipeline, block)),
        used: table(&|pipeline, block| allocation.used(pipeline, block)),
        waiting: allocation.waiting().to_vec(),
    }
}

/// I1 to I3, I6, I7.
fn check_state(allocation: &Allocation, model: &Model) {
    for block in 0..allocation.block_count() as u32 {
        let id = BlockId(block);
        let (free, departed) = (allocation.free(id).expect("a block"), allocation.departed(id).expect("a block"));
        let retired = allocation.is_retired(id) == Some(true);
        for resource in 0..RESOURCES {
            let capacity = model.capacity[block as usize][resource];
            let (mut allocated, mut used) = (departed.0[resource], departed.0[resource]);
            for pipeline in allocation.waiting() {
                let own = allocation.allocated(*pipeline, id).0[resource];
                let spent = allocation.used(*pipeline, id).0[resource];
                assert!(spent <= own, "I2: pipeline {pipeline:?} has used more than its own on block {block}");
                allocated += own;
                used += spent;
            }
            assert_eq!(free.0[resource] + allocated, capacity, "I1: block {block}, resource {resource}");
            assert!(used <= capacity, "I3: block {block}, resource {resource}");
            let idle = allocation.waiting().is_empty() || retired;
            assert!(idle || free.0[resource] == 0, "I6: block {block}, resource {resource}");
        }
        for pipeline in allocation.waiting().iter().filter(|_| retired) {
            assert_eq!(allocation.offer(*pipeline, id), Resources::ZERO, "I7: block {block}");
        }
    }
}

/// I4 and I5.
fn check_change(event: &Event, before: &Seen, after: &Seen) {
    let new_index = |pipeline: &PipelineId| after.waiting.iter().position(|other| other == pipeline);
    let remaining: Vec<(usize, usize)> =
        (0..before.waiting.len()).filter_map(|old| Some((old, new_index(&before.waiting[old])?))).collect();
    let blocks = before.allocated.first().map_or(0, Vec::len);
    for resource in 0..RESOURCES {
        for block in 0..blocks {
            let mut gains = Vec::new();
            for (old, new) in &remaining {
                let was = before.allocated[*old][block].0[resource];
                let is = after.allocated[*new][block].0[resource];
                assert!(is >= was, "I5: a reservation on block {block} shrank");
                gains.push(is - was);
                let refunded = matches!(event, Event::Refund { .. });
                let (had, has) = (before.used[*old][block].0[resource], after.used[*new][block].0[resource]);
                assert!(has >= had || refunded, "I5: use of block {block} shrank");
            }
            let uneven = gains.iter().max().zip(gains.iter().min()).is_some_and(|(most, least)| most - least > 1);
            assert!(!uneven, "I4: {gains:?} on block {block}");
        }
        if let Event::Block { .. } = event {
            let shares: Vec<u64> = after.allocated.iter().map(|row| row[row.len() - 1].0[resource]).collect();
            let uneven = shares.iter().max().zip(shares.iter().min()).is_some_and(|(most, least)| most - least > 1);
            assert!(!uneven, "I4: {shares:?} of a new block");
            assert!(shares.is_sorted_by(|one, two| one >= two), "the longest waiting get what is left over");
        }
    }
}

fn check_against(model: &Model, allocation: &Allocation) {
    for block in 0..model.capacity.len() as u32 {
        let id = BlockId(block);
        let free = Resources(model.free[block as usize]);
        assert_eq!(allocation.free(id), Some(free), "free of block {block}");
        for pipeline in &model.waiting {
            for resource in 0..RESOURCES {
                let expected = [&model.allocated, &model.used, &model.overdraft]
                    .map(|map| Model::of(map, *pipeline, block, resource));
                let pipeline = PipelineId(*pipeline);
                let found = [
                    allocation.allocated(pipeline, id),
                    allocation.used(pipeline, id),
                    allocation.overdraft(pipeline, id),
                ]
                .map(|amounts| amounts.0[resource]);
                assert_eq!(found, expected, "{pipeline:?} on block {block}, resource {resource}");
            }
        }
    }
}

proptest! {
    #[test]
    fn all_eight_hold_after_every_event(steps in steps(), overdrafts in any::<bool>()) {
        let counting = if overdrafts { Counting::Primary } else { EVERY };
        let mut allocation = Allocation::new(Scheduler::EvenSplit, counting);
        let (mut model, mut history, mut arrived) = (Model::new(overdrafts), Vec::new(), 0);
        for step in steps {
            let event = event(step, &allocation, &mut arrived);
            let before = seen(&allocation);
            let applied = allocation.apply(event.clone()).is_ok();
            prop_assert_eq!(applied, model.apply(&event), "{:?}", event);
            check_state(&allocation, &model);
            check_change(&event, &before, &seen(&allocation));
            check_against(&model, &allocation);
            if applied {
                history.push(event);
            }
        }
        // I8: refused events had no effect.
        prop_assert_eq!(Allocation::replay(Scheduler::EvenSplit, counting, history), Ok(allocation));
    }

    /// A loan takes only what was not promised to others: the state is that of the naive model, the sums are right, and
    /// promises are kept if there was enough.
    #[test]
    fn loans_keep_sums_and_promises(steps in steps(), overdrafts in any::<bool>()) {
        let counting = if overdrafts { Counting::Primary } else { EVERY };
        let mut allocation = Allocation::new(Scheduler::EvenSplit, counting);
        let (mut model, mut history, mut arrived) = (Model::new(overdrafts), Vec::new(), 0);
        for step in steps {
            let event = event_with_loans(step, &allocation, &mut arrived);
            let promised: Vec<Vec<(u64, Resources)>> =
                (0..allocation.block_count() as u32).map(|block| model.promises(block)).collect();
            let applied = allocation.apply(event.clone()).is_ok();
            prop_assert_eq!(applied, model.apply(&event), "{:?}", event);
            check_state(&allocation, &model);
            check_against(&model, &allocation);
            if let (true, Event::Borrow { pipeline, blocks, .. }) = (applied, &event) {
                for block in each(blocks) {
                    let promises = &promised[block as usize];
                    for resource in 0..RESOURCES {
                        let others = promises.iter().filter(|(other, _)| *other != pipeline.0);
                        let needed: u64 = others.map(|(_, need)| need.0[resource]).sum();
                        let enough = needed <= model.left(block, resource);
                        for (other, need) in promises.iter().filter(|(other, _)| enough && *other != pipeline.0) {
                            let claim = model.unspent(*other, block, resource);
                            prop_assert!(claim >= need.0[resource], "{:?} broke a promise to {}", event, other);
                        }
                    }
                }
            }
            if applied {
                history.push(event);
            }
        }
        prop_assert_eq!(Allocation::replay(Scheduler::EvenSplit, counting, history), Ok(allocation));
    }

    #[test]
    fn other_schedulers_lose_nothing_either(steps in steps(), which in 0_usize..5, overdrafts in any::<bool>()) {
        let scheduler = [
            Scheduler::FirstCome,
            Scheduler::DominantShare(Unlock::ByAskers(3)),
            Scheduler::DominantShare(Unlock::OverTime(10)),
            Scheduler::Pack(Unlock::ByAskers(3)),
            Scheduler::Pack(Unlock::OverTime(10)),
        ][which];
        let mut allocation = Allocation::new(scheduler, if overdrafts { Counting::Primary } else { EVERY });
        let (mut model, mut arrived, mut time) = (Model::new(overdrafts), 0, 0);
        for step in steps {
            let mut events = vec![event(step, &allocation, &mut arrived)];
            if let Event::Spend { pipeline, blocks, cost } = events[0].clone() {
                events.insert(0, Event::Request { pipeline, blocks, cost });
            }
            time += u64::from(step.4 % 3);
            events.insert(0, Event::AdvanceClock { time });
            let mut requested = false;
            for event in events {
                if matches!(event, Event::Block { .. }) {
                    model.apply(&event);
                }
                let ready = allocation.ready();
                let applied = allocation.apply(event.clone()).is_ok();
                match event {
                    Event::Request { .. } => requested = applied,
                    Event::Spend { pipeline, .. } if requested && ready.contains(&pipeline) => {
                        prop_assert!(applied, "{:?} was ready and could not spend", pipeline);
                    }
                    _ => {}
                }
                for block in 0..allocation.block_count() as u32 {
                    let id = BlockId(block);
                    let mut sum = allocation.free(id).expect("a block").0;
                    let parts = allocation.waiting().iter().map(|pipeline| allocation.allocated(*pipeline, id));
                    for part in parts.chain(allocation.departed(id)) {
                        (0..RESOURCES).for_each(|one| sum[one] += part.0[one]);
                    }
                    prop_assert_eq!(sum, model.capacity[block as usize], "I1: block {}", block);
                }
            }
        }
    }
}

/// What departing pipelines leave is divided again, and nothing is lost.
#[test]
fn odd_units_go_to_the_longest_waiting() {
    let mut allocation = Allocation::new(Scheduler::EvenSplit, EVERY);
    let id = PipelineId;
    allocation.apply(Event::Arrive { pipelines: vec![id(1), id(2), id(3)] }).expect("arrive");
    allocation.apply(Event::Block { capacity: Resources([11, 2, 0, 1]) }).expect("a block");
    let of = |allocation: &Allocation, pipeline: u64| allocation.allocated(id(pipeline), BlockId(0)).0;
    assert_eq!([1, 2, 3].map(|pipeline| of(&allocation, pipeline)), [[4, 1, 0, 1], [4, 1, 0, 0], [3, 0, 0, 0]]);
    allocation.apply(Event::Leave { pipeline: id(1) }).expect("leaves");
    assert_eq!([2, 3].map(|pipeline| of(&allocation, pipeline)), [[6, 2, 0, 1], [5, 0, 0, 0]]);
    // A new arrival takes nothing from them.
    allocation.apply(Event::Arrive { pipelines: vec![id(9)] }).expect("arrives");
    assert_eq!(of(&allocation, 9), [0; RESOURCES]);
    allocation.apply(Event::Leave { pipeline: id(2) }).expect("leaves");
    assert_eq!([3, 9].map(|pipeline| of(&allocation, pipeline)), [[8, 1, 0, 1], [3, 1, 0, 0]]);
}

/// Counting one primary order would retire a block at seven queries where the filter admits ten. So if no other pipeline
/// holds anything there, only the ledger decides.
#[test]
fn an_overdraft_is_allowed_only_if_no_other_pipeline_holds_budget() {
    let blocks = Blocks::range(0, 0).expect("a block");
    let (one, two) = (PipelineId(1), PipelineId(2));
    let cost = |units: u64| Resources([units, 0, 0, 0]);
    let mut allocation = Allocation::new(Scheduler::EvenSplit, Counting::Primary);
    allocation.apply(Event::Arrive { pipelines: vec![one, two] }).expect("arrive");
    allocation.apply(Event::Block { capacity: cost(10) }).expect("a block");
    let spend = |pipeline, units| Event::Spend { pipeline, blocks: blocks.clone(), cost: cost(units) };
    assert!(allocation.apply(spend(one, 6)).is_err(), "the other still holds five");
    allocation.apply(spend(two, 5)).expect("its own");
    allocation.apply(spend(one, 6)).expect("no other pipeline holds anything");
    assert_eq!(allocation.used(one, BlockId(0)), cost(5));
    assert_eq!(allocation.overdraft(one, BlockId(0)), cost(1));
    // A refund reduces the overdraft first.
    let refund = Event::Refund { pipeline: one, blocks: blocks.clone(), cost: cost(2) };
    allocation.apply(refund).expect("it was used");
    assert_eq!((allocation.used(one, BlockId(0)), allocation.overdraft(one, BlockId(0))), (cost(4), cost(0)));
}

#[test]
fn a_spent_block_retires_for_good() {
    let blocks = Blocks::range(0, 0).expect("a block");
    let one = PipelineId(1);
    let mut allocation = Allocation::new(Scheduler::EvenSplit, Counting::Every { smallest: Resources([3, 0, 0, 0]) });
    allocation.apply(Event::Arrive { pipelines: vec![one] }).expect("arrives");
    allocation.apply(Event::Block { capacity: Resources([10, 1, 1, 1]) }).expect("a block");
    let cost = Resources([8, 0, 0, 0]);
    allocation.apply(Event::Spend { pipeline: one, blocks: blocks.clone(), cost }).expect("fits");
    assert_eq!(allocation.is_retired(BlockId(0)), Some(true), "two are left, three would be the least");
    allocation.apply(Event::Refund { pipeline: one, blocks: blocks.clone(), cost }).expect("was used");
    assert_eq!(allocation.offer(one, BlockId(0)), Resources::ZERO, "and stays retired");
    allocation.apply(Event::Leave { pipeline: one }).expect("leaves");
    allocation.apply(Event::Arrive { pipelines: vec![PipelineId(2)] }).expect("arrives");
    assert_eq!(allocation.allocated(PipelineId(2), BlockId(0)), Resources::ZERO);
    assert_eq!(each(&blocks), [0]);
}
