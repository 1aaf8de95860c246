//! The time of a new block does not depend on the number of waiting pipelines; other operations scale as documented.

use std::time::Duration;

use sage_engine::allocate::{Allocation, Counting, Event, PipelineId, Resources, Scheduler, Unlock};
use sage_engine::{BlockId, Blocks};

const CAPACITY: Resources = Resources([1_000_000_000, 1_000_000, 1_000_000_000, 1_000_000]);

/// An allocation with this many waiting pipelines and blocks, and a history of arrivals and departures.
fn world(scheduler: Scheduler, pipelines: u64, blocks: u32) -> Allocation {
    let mut allocation = Allocation::new(scheduler, Counting::Primary);
    let half = blocks / 2;
    let add = |allocation: &mut Allocation, count: u32| {
        (0..count).for_each(|_| allocation.apply(Event::Block { capacity: CAPACITY }).expect("a block"));
    };
    add(&mut allocation, half);
    allocation.apply(Event::Arrive { pipelines: (1..=pipelines).map(PipelineId).collect() }).expect("arrive");
    add(&mut allocation, blocks - half);
    for number in 1..=20 {
        let newcomer = PipelineId(pipelines + number);
        allocation.apply(Event::Arrive { pipelines: vec![newcomer] }).expect("arrives");
        allocation.apply(Event::Leave { pipeline: PipelineId(number * 3) }).expect("leaves");
    }
    allocation
}

/// The processor time of some work, which other programs on the machine do not change; elsewhere than on Linux, where
/// it is not known, zero.
fn timed(work: impl FnOnce()) -> Duration {
    let used = || {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        Duration::from_nanos(stat.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or(0))
    };
    let before = used();
    work();
    used() - before
}

/// The fastest of several, since other programs use the machine as well.
fn new_block(pipelines: u64, blocks: u32) -> Duration {
    let mut allocation = world(Scheduler::EvenSplit, pipelines, blocks);
    let times = (0..9).map(|_| timed(|| allocation.apply(Event::Block { capacity: CAPACITY }).expect("a block")));
    times.min().unwrap_or(Duration::MAX)
}

#[test]
fn a_new_block_with_ten_thousand_waiting_takes_no_time() {
    let took = new_block(10_000, 10_000);
    println!("new block, 10,000 pipelines, 10,000 blocks: {took:?}");
    assert!(took < Duration::from_millis(50), "{took:?}");
}

#[test]
fn leaving_touches_each_block_once() {
    let mut last = Duration::MAX;
    for _ in 0..3 {
        let mut allocation = world(Scheduler::EvenSplit, 10_000, 10_000);
        let took = timed(|| allocation.apply(Event::Leave { pipeline: PipelineId(5_000) }).expect("leaves"));
        last = last.min(took);
    }
    println!("leaving, 10,000 pipelines, 10,000 blocks: {last:?}");
    assert!(last < Duration::from_millis(500), "{last:?}");
}

/// Ten thousand requests for a hundred blocks each, after a new block.
#[test]
fn ten_thousand_requests_are_evaluated_quickly() {
    for scheduler in [
        Scheduler::EvenSplit,
        Scheduler::FirstCome,
        Scheduler::DominantShare(Unlock::ByAskers(1000)),
        Scheduler::Pack(Unlock::ByAskers(1000)),
    ] {
        let mut allocation = world(scheduler, 10_000, 10_000);
        let waiting = allocation.waiting().to_vec();
        for (index, pipeline) in waiting.into_iter().enumerate() {
            let first = u32::try_from(index).expect("few") % 9_900;
            let blocks = Blocks::range(first, first + 99).expect("in order");
            let cost = Resources([50_000_000, 10, 50_000_000, 10]);
            allocation.apply(Event::Request { pipeline, blocks, cost }).expect("a request");
        }
        let mut ready = Vec::new();
        let took = timed(|| {
            allocation.apply(Event::Block { capacity: CAPACITY }).expect("a block");
            ready = allocation.ready();
        });
        println!("new block and the next pipeline, {scheduler:?}: {took:?}, {} ready", ready.len());
        assert!(took < Duration::from_secs(2), "{scheduler:?}: {took:?}");
        assert_eq!(allocation.is_retired(BlockId(10_000)), Some(false));
    }
}

/// If no reservation is enough, the borrower is found about as quickly, even with many promises.
#[test]
fn the_borrower_is_found_quickly() {
    let mut allocation = world(Scheduler::EvenSplit, 10_000, 10_000);
    let waiting = allocation.waiting().to_vec();
    let newest = Blocks::range(9_980, 9_999).expect("in order");
    for (index, pipeline) in waiting.into_iter().enumerate() {
        let small = Resources([90_000, 10, 90_000, 10]);
        allocation.apply(Event::Need { pipeline, cost: (index % 2 == 0).then_some(small) }).expect("it waits");
        if index % 2 == 1 {
            let cost = Resources([600_000_000, 10, 600_000_000, 10]);
            allocation.apply(Event::Request { pipeline, blocks: newest.clone(), cost }).expect("a request");
        }
    }
    let mut found = None;
    let took = (0..3).map(|_| timed(|| found = allocation.borrower(|_| true))).min().unwrap_or(Duration::MAX);
    println!("borrower, 10,000 pipelines, twenty blocks each: {took:?}, {found:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(found.is_some(), "{found:?}");
}
