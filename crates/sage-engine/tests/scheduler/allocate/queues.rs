//! Schedulers serve requests in their documented order, and dominant shares serve more small tasks.

use std::collections::BTreeMap;

use sage_engine::allocate::{Allocation, Counting, Event, PipelineId, Resources, Scheduler, Unlock};
use sage_engine::{BlockId, Blocks};

const EVERY: Counting = Counting::Every { smallest: Resources::ZERO };

const fn loss(units: u64) -> Resources {
    Resources([units, 0, 0, 0])
}

fn blocks(first: u32, last: u32) -> Blocks {
    Blocks::range(first, last).expect("in order")
}

/// An allocation with two blocks of 100 and these requests: first block, last block, cost.
fn allocation_with(scheduler: Scheduler, requests: &[(u32, u32, u64)]) -> Allocation {
    let mut allocation = Allocation::new(scheduler, EVERY);
    allocation.apply(Event::AdvanceClock { time: 0 }).expect("a clock");
    for _ in 0..2 {
        allocation.apply(Event::Block { capacity: loss(100) }).expect("a block");
    }
    for (number, (first, last, cost)) in (1..).zip(requests) {
        let pipeline = PipelineId(number);
        allocation.apply(Event::Arrive { pipelines: vec![pipeline] }).expect("arrives");
        let request = Event::Request { pipeline, blocks: blocks(*first, *last), cost: loss(*cost) };
        allocation.apply(request).expect("a request");
    }
    allocation
}

#[test]
fn requests_are_served_in_the_order_of_the_scheduler() {
    let all = Unlock::ByAskers(1);
    // The first requests most of one block, the second a little of it, the third a third of both.
    let requests = [(0, 0, 80), (0, 0, 25), (0, 1, 30), (1, 1, 60)];
    for (scheduler, ready) in [
        (Scheduler::FirstCome, vec![1, 4]),
        (Scheduler::DominantShare(all), vec![2, 3, 4]),
        // The third requests 60 in total, like the fourth, and arrived first.
        (Scheduler::Pack(all), vec![2, 3, 4]),
        // Each request unlocks a quarter: three of them on the first block, two on the second.
        (Scheduler::DominantShare(Unlock::ByAskers(4)), vec![2, 3]),
        (Scheduler::DominantShare(Unlock::ByAskers(400)), vec![]),
        // The first pipeline, which arrived when no other waited, has both blocks reserved.
        (Scheduler::EvenSplit, vec![1]),
    ] {
        let found: Vec<u64> = allocation_with(scheduler, &requests).ready().iter().map(|pipeline| pipeline.0).collect();
        assert_eq!(found, ready, "{scheduler:?}");
    }
}

/// The total cost of a window of many blocks is large even if its share of each block is small.
#[test]
fn packing_counts_every_block() {
    let requests = [(0, 1, 40), (0, 0, 70), (1, 1, 70)];
    let first = |scheduler| allocation_with(scheduler, &requests).ready()[0].0;
    assert_eq!(first(Scheduler::DominantShare(Unlock::ByAskers(1))), 1);
    assert_eq!(first(Scheduler::Pack(Unlock::ByAskers(1))), 2);
}

#[test]
fn time_unlocks_and_a_repeated_request_does_not() {
    let mut allocation = allocation_with(Scheduler::DominantShare(Unlock::OverTime(10)), &[(0, 0, 50), (0, 0, 60)]);
    assert_eq!(allocation.ready(), []);
    allocation.apply(Event::AdvanceClock { time: 5 }).expect("time advances");
    assert_eq!(allocation.ready(), [PipelineId(1)]);
    assert!(allocation.apply(Event::AdvanceClock { time: 4 }).is_err());

    let mut allocation = allocation_with(Scheduler::DominantShare(Unlock::ByAskers(2)), &[(0, 0, 60)]);
    for _ in 0..5 {
        let request = Event::Request { pipeline: PipelineId(1), blocks: blocks(0, 0), cost: loss(60) };
        allocation.apply(request).expect("a repeated request");
    }
    assert_eq!(allocation.ready(), [], "a repeated request counts once");
}

/// If budget is unlocked over time, a pipeline is offered the unlocked part, so that it requests blocks that have some.
/// If requests unlock it, a pipeline is offered everything, or no request would ever be made.
#[test]
fn offers_are_what_time_has_unlocked() {
    let mut allocation = allocation_with(Scheduler::DominantShare(Unlock::OverTime(10)), &[(0, 0, 50)]);
    let offer = |allocation: &Allocation, block: u32| allocation.offer(PipelineId(1), BlockId(block)).0[0];
    assert_eq!(offer(&allocation, 0), 0, "a new block");
    allocation.apply(Event::AdvanceClock { time: 5 }).expect("time advances");
    allocation.apply(Event::Block { capacity: loss(100) }).expect("a block");
    allocation.apply(Event::AdvanceClock { time: 6 }).expect("time advances");
    assert_eq!([0, 1, 2].map(|block| offer(&allocation, block)), [60, 60, 10]);
    let spend = Event::Spend { pipeline: PipelineId(1), blocks: blocks(0, 0), cost: loss(50) };
    allocation.apply(spend).expect("within reach");
    assert_eq!(offer(&allocation, 0), 10, "spent budget is not offered");
    allocation.apply(Event::AdvanceClock { time: 10 }).expect("time advances");
    assert_eq!([0, 1, 2].map(|block| offer(&allocation, block)), [50, 100, 50]);
    let by_askers = allocation_with(Scheduler::DominantShare(Unlock::ByAskers(10)), &[(0, 0, 50)]);
    assert_eq!(offer(&by_askers, 1), 100);
    // A block from before the first known time counts as fully unlocked.
    let mut early = Allocation::new(Scheduler::Pack(Unlock::OverTime(10)), EVERY);
    early.apply(Event::Block { capacity: loss(100) }).expect("a block");
    early.apply(Event::Arrive { pipelines: vec![PipelineId(1)] }).expect("arrives");
    early.apply(Event::AdvanceClock { time: 3 }).expect("a clock");
    assert_eq!(offer(&early, 0), 100);
}

#[test]
fn a_request_ends_by_spending_leaving_or_withdrawing() {
    let one = PipelineId(1);
    let spend = Event::Spend { pipeline: one, blocks: blocks(0, 0), cost: loss(10) };
    for event in [spend, Event::Leave { pipeline: one }, Event::Withdraw { pipeline: one }] {
        let mut allocation = allocation_with(Scheduler::FirstCome, &[(0, 0, 10)]);
        assert_eq!(allocation.ready(), [one]);
        allocation.apply(event.clone()).expect("it can");
        assert_eq!(allocation.ready(), [], "{event:?}");
    }
    let mut allocation = allocation_with(Scheduler::FirstCome, &[(0, 0, 10)]);
    allocation.apply(Event::Retire { block: BlockId(0) }).expect("retires");
    assert_eq!(allocation.ready(), []);
    let request = Event::Request { pipeline: one, blocks: blocks(0, 0), cost: loss(1) };
    assert!(allocation.apply(request).is_err());
}

/// A deterministic pseudorandom generator.
struct Generator(u64);

impl Generator {
    /// A number in [0, 1).
    fn next_share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        for factor in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb] {
            mixed = (mixed ^ (mixed >> 29)).wrapping_mul(factor);
        }
        ((mixed ^ (mixed >> 32)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Serves every request that is ready, and returns their pipelines.
fn serve_ready(allocation: &mut Allocation, tasks: &BTreeMap<PipelineId, (Blocks, u64)>) -> Vec<PipelineId> {
    let ready = allocation.ready();
    for pipeline in &ready {
        let (blocks, cost) = tasks[pipeline].clone();
        allocation.apply(Event::Spend { pipeline: *pipeline, blocks, cost: loss(cost) }).expect("it was ready");
        allocation.apply(Event::Leave { pipeline: *pipeline }).expect("it waited");
    }
    ready
}

/// Tasks arrive for 300 seconds, three quarters of them small, three quarters of them for one block; a block of
/// budget 1 arrives every ten seconds. Returns the number of tasks that were served before their timeout.
fn many_tasks(scheduler: Scheduler, first_blocks: u32, every: f64, seed: u64) -> usize {
    let mut generator = Generator(seed);
    let mut allocation = Allocation::new(scheduler, EVERY);
    let mut tasks: BTreeMap<PipelineId, (Blocks, u64)> = BTreeMap::new();
    let mut leaves: Vec<(f64, PipelineId)> = Vec::new();
    for _ in 0..first_blocks {
        allocation.apply(Event::Block { capacity: loss(1000) }).expect("a block");
    }
    let (mut time, mut next_block, mut served, mut number) = (0.0, every, 0, 0);
    loop {
        time -= (1.0 - generator.next_share()).ln() * 0.078_125 * if first_blocks == 1 { 16.3 } else { 1.0 };
        if time > 300.0 {
            return served;
        }
        while next_block < time {
            allocation.apply(Event::Block { capacity: loss(1000) }).expect("a block");
            served += serve_ready(&mut allocation, &tasks).len();
            next_block += every;
        }
        let expired = leaves.iter().take_while(|(until, _)| *until < time).count();
        for (_, pipeline) in leaves.drain(..expired) {
            // Pipelines that were served have left already.
            let _either = allocation.apply(Event::Leave { pipeline });
        }
        number += 1;
        let pipeline = PipelineId(number);
        let cost = if generator.next_share() < 0.75 { 10 } else { 100 };
        let newest = u32::try_from(allocation.block_count()).expect("few blocks") - 1;
        let window = if generator.next_share() < 0.75 || first_blocks == 1 { 1 } else { 10 };
        let blocks = blocks(newest + 1 - window, newest);
        allocation.apply(Event::Arrive { pipelines: vec![pipeline] }).expect("arrives");
        allocation.apply(Event::Request { pipeline, blocks: blocks.clone(), cost: loss(cost) }).expect("a request");
        tasks.insert(pipeline, (blocks, cost));
        leaves.push((time + 117.2, pipeline));
        served += serve_ready(&mut allocation, &tasks).len();
    }
}

/// The small setting of the paper on dominant shares: one block, in which a hundred small tasks fit. First come, first
/// served spends much of the block on large tasks; by dominant share the small tasks get all of it.
#[test]
fn small_tasks_are_not_starved_by_large_ones() {
    let mut first_come: Vec<usize> = (0..20).map(|seed| many_tasks(Scheduler::FirstCome, 1, 1e9, seed)).collect();
    first_come.sort_unstable();
    let fair = Scheduler::DominantShare(Unlock::ByAskers(175));
    for seed in 0..20 {
        let served = many_tasks(fair, 1, 1e9, seed);
        assert!((99..=100).contains(&served), "seed {seed}: {served} by dominant share");
    }
    println!("first come: {first_come:?}");
    assert!((30..=45).contains(&first_come[10]), "{first_come:?}");
}

/// The large setting: some 3,840 tasks over 41 blocks.
#[test]
fn dominant_shares_serve_twice_as_many() {
    let of = |scheduler| many_tasks(scheduler, 11, 10.0, 7);
    let unlock = Unlock::ByAskers(175);
    let (first, fair) = (of(Scheduler::FirstCome), of(Scheduler::DominantShare(unlock)));
    let packed = of(Scheduler::Pack(unlock));
    println!("first come {first}, by dominant share {fair}, packed {packed}");
    assert!((1_000..1_350).contains(&first), "{first}");
    assert!((2_100..2_700).contains(&fair), "{fair}");
    assert!(packed >= fair, "{packed} packed, {fair} by dominant share");
}
