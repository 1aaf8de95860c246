//! Schedulers answer in the order they promise, and do for many small tasks what they were made for.

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

/// A world with two blocks of 100 and these questions: first block, last block, how much.
fn asked(scheduler: Scheduler, questions: &[(u32, u32, u64)]) -> Allocation {
    let mut allocation = Allocation::new(scheduler, EVERY);
    allocation.apply(Event::Tick { time: 0 }).expect("a clock");
    for _ in 0..2 {
        allocation.apply(Event::Block { capacity: loss(100) }).expect("a block");
    }
    for (number, (first, last, much)) in (1..).zip(questions) {
        let pipeline = PipelineId(number);
        allocation.apply(Event::Arrive { pipelines: vec![pipeline] }).expect("arrives");
        let ask = Event::Request { pipeline, blocks: blocks(*first, *last), cost: loss(*much) };
        allocation.apply(ask).expect("asks");
    }
    allocation
}

#[test]
fn questions_are_answered_in_the_order_of_the_rule() {
    let all = Unlock::ByAskers(1);
    // The first asks for most of one block, the second for a little of it, the third for a third of both.
    let questions = [(0, 0, 80), (0, 0, 25), (0, 1, 30), (1, 1, 60)];
    for (scheduler, ready) in [
        (Scheduler::FirstCome, vec![1, 4]),
        (Scheduler::DominantShare(all), vec![2, 3, 4]),
        // In all, the third asks for 60 of a hundred, as the fourth does, and came first.
        (Scheduler::Pack(all), vec![2, 3, 4]),
        // Of the first block a quarter of what comes with four askers; of the second a half with two.
        (Scheduler::DominantShare(Unlock::ByAskers(4)), vec![2, 3]),
        (Scheduler::DominantShare(Unlock::ByAskers(400)), vec![]),
        // Whoever came first, while nobody waited, has both blocks reserved.
        (Scheduler::EvenSplit, vec![1]),
    ] {
        let found: Vec<u64> = asked(scheduler, &questions).ready().iter().map(|pipeline| pipeline.0).collect();
        assert_eq!(found, ready, "{scheduler:?}");
    }
}

/// A window of many blocks is dear in total even where its share of each is small.
#[test]
fn packing_counts_every_block() {
    let questions = [(0, 1, 40), (0, 0, 70), (1, 1, 70)];
    let first = |scheduler| asked(scheduler, &questions).ready()[0].0;
    assert_eq!(first(Scheduler::DominantShare(Unlock::ByAskers(1))), 1);
    assert_eq!(first(Scheduler::Pack(Unlock::ByAskers(1))), 2);
}

#[test]
fn time_unlocks_and_a_second_question_does_not() {
    let mut allocation = asked(Scheduler::DominantShare(Unlock::OverTime(10)), &[(0, 0, 50), (0, 0, 60)]);
    assert_eq!(allocation.ready(), []);
    allocation.apply(Event::Tick { time: 5 }).expect("time goes on");
    assert_eq!(allocation.ready(), [PipelineId(1)]);
    assert!(allocation.apply(Event::Tick { time: 4 }).is_err());

    let mut allocation = asked(Scheduler::DominantShare(Unlock::ByAskers(2)), &[(0, 0, 60)]);
    for _ in 0..5 {
        let ask = Event::Request { pipeline: PipelineId(1), blocks: blocks(0, 0), cost: loss(60) };
        allocation.apply(ask).expect("asks again");
    }
    assert_eq!(allocation.ready(), [], "who asks again is still one");
}

/// Where time alone brings budget within reach, a pipeline is offered what it has brought, so that it asks for blocks
/// that have had some. Where asking does, it is offered all, or nobody would ever ask.
#[test]
fn offers_are_what_time_has_brought() {
    let mut allocation = asked(Scheduler::DominantShare(Unlock::OverTime(10)), &[(0, 0, 50)]);
    let offer = |allocation: &Allocation, block: u32| allocation.offer(PipelineId(1), BlockId(block)).0[0];
    assert_eq!(offer(&allocation, 0), 0, "a block that has just come");
    allocation.apply(Event::Tick { time: 5 }).expect("time goes on");
    allocation.apply(Event::Block { capacity: loss(100) }).expect("a block");
    allocation.apply(Event::Tick { time: 6 }).expect("time goes on");
    assert_eq!([0, 1, 2].map(|block| offer(&allocation, block)), [60, 60, 10]);
    let spend = Event::Spend { pipeline: PipelineId(1), blocks: blocks(0, 0), cost: loss(50) };
    allocation.apply(spend).expect("within reach");
    assert_eq!(offer(&allocation, 0), 10, "what is used up is gone");
    allocation.apply(Event::Tick { time: 10 }).expect("time goes on");
    assert_eq!([0, 1, 2].map(|block| offer(&allocation, block)), [50, 100, 50]);
    let by_askers = asked(Scheduler::DominantShare(Unlock::ByAskers(10)), &[(0, 0, 50)]);
    assert_eq!(offer(&by_askers, 1), 100);
    // A block that was there before anybody told the time is as old as can be.
    let mut early = Allocation::new(Scheduler::Pack(Unlock::OverTime(10)), EVERY);
    early.apply(Event::Block { capacity: loss(100) }).expect("a block");
    early.apply(Event::Arrive { pipelines: vec![PipelineId(1)] }).expect("arrives");
    early.apply(Event::Tick { time: 3 }).expect("a clock");
    assert_eq!(offer(&early, 0), 100);
}

#[test]
fn a_question_is_withdrawn_by_spending_by_leaving_and_by_choice() {
    let one = PipelineId(1);
    let spend = Event::Spend { pipeline: one, blocks: blocks(0, 0), cost: loss(10) };
    for event in [spend, Event::Leave { pipeline: one }, Event::Withdraw { pipeline: one }] {
        let mut allocation = asked(Scheduler::FirstCome, &[(0, 0, 10)]);
        assert_eq!(allocation.ready(), [one]);
        allocation.apply(event.clone()).expect("it can");
        assert_eq!(allocation.ready(), [], "{event:?}");
    }
    let mut allocation = asked(Scheduler::FirstCome, &[(0, 0, 10)]);
    allocation.apply(Event::Retire { block: BlockId(0) }).expect("retires");
    assert_eq!(allocation.ready(), []);
    let ask = Event::Request { pipeline: one, blocks: blocks(0, 0), cost: loss(1) };
    assert!(allocation.apply(ask).is_err());
}

/// Numbers that look random and are the same everywhere.
struct Dice(u64);

impl Dice {
    /// From zero to below one.
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        for factor in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb] {
            mixed = (mixed ^ (mixed >> 29)).wrapping_mul(factor);
        }
        ((mixed ^ (mixed >> 32)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Answers everything that is ready; gives how many were.
fn answer(allocation: &mut Allocation, tasks: &BTreeMap<PipelineId, (Blocks, u64)>) -> Vec<PipelineId> {
    let ready = allocation.ready();
    for pipeline in &ready {
        let (blocks, much) = tasks[pipeline].clone();
        allocation.apply(Event::Spend { pipeline: *pipeline, blocks, cost: loss(much) }).expect("it was ready");
        allocation.apply(Event::Leave { pipeline: *pipeline }).expect("it waited");
    }
    ready
}

/// Tasks arrive for 300 seconds, three quarters of them small, three quarters of them for one block; a block of
/// budget 1 comes every ten seconds. Gives how many tasks were answered within the time they wait.
fn many_tasks(scheduler: Scheduler, first_blocks: u32, every: f64, seed: u64) -> usize {
    let mut dice = Dice(seed);
    let mut allocation = Allocation::new(scheduler, EVERY);
    let mut tasks: BTreeMap<PipelineId, (Blocks, u64)> = BTreeMap::new();
    let mut leaves: Vec<(f64, PipelineId)> = Vec::new();
    for _ in 0..first_blocks {
        allocation.apply(Event::Block { capacity: loss(1000) }).expect("a block");
    }
    let (mut time, mut next_block, mut answered, mut number) = (0.0, every, 0, 0);
    loop {
        time -= (1.0 - dice.roll()).ln() * 0.078_125 * if first_blocks == 1 { 16.3 } else { 1.0 };
        if time > 300.0 {
            return answered;
        }
        while next_block < time {
            allocation.apply(Event::Block { capacity: loss(1000) }).expect("a block");
            answered += answer(&mut allocation, &tasks).len();
            next_block += every;
        }
        let gone = leaves.iter().take_while(|(until, _)| *until < time).count();
        for (_, pipeline) in leaves.drain(..gone) {
            // Who was answered has left already.
            let _either = allocation.apply(Event::Leave { pipeline });
        }
        number += 1;
        let pipeline = PipelineId(number);
        let much = if dice.roll() < 0.75 { 10 } else { 100 };
        let newest = u32::try_from(allocation.block_count()).expect("few blocks") - 1;
        let window = if dice.roll() < 0.75 || first_blocks == 1 { 1 } else { 10 };
        let blocks = blocks(newest + 1 - window, newest);
        allocation.apply(Event::Arrive { pipelines: vec![pipeline] }).expect("arrives");
        allocation.apply(Event::Request { pipeline, blocks: blocks.clone(), cost: loss(much) }).expect("asks");
        tasks.insert(pipeline, (blocks, much));
        leaves.push((time + 117.2, pipeline));
        answered += answer(&mut allocation, &tasks).len();
    }
}

/// The small setting of the paper on dominant shares: one block, a hundred of the small tasks fit. First come
/// gives a good part of the block to large ones; by dominant share the small ones have it all.
#[test]
fn small_tasks_are_not_starved_by_large_ones() {
    let mut first_come: Vec<usize> = (0..20).map(|seed| many_tasks(Scheduler::FirstCome, 1, 1e9, seed)).collect();
    first_come.sort_unstable();
    let fair = Scheduler::DominantShare(Unlock::ByAskers(175));
    for seed in 0..20 {
        let answered = many_tasks(fair, 1, 1e9, seed);
        assert!((99..=100).contains(&answered), "seed {seed}: {answered} by dominant share");
    }
    println!("first come: {first_come:?}");
    assert!((30..=45).contains(&first_come[10]), "{first_come:?}");
}

/// The large setting: some 3,840 tasks over 41 blocks.
#[test]
fn fairness_answers_twice_as_many() {
    let of = |scheduler| many_tasks(scheduler, 11, 10.0, 7);
    let unlock = Unlock::ByAskers(175);
    let (first, fair) = (of(Scheduler::FirstCome), of(Scheduler::DominantShare(unlock)));
    let packed = of(Scheduler::Pack(unlock));
    println!("first come {first}, by dominant share {fair}, packed {packed}");
    assert!((1_000..1_350).contains(&first), "{first}");
    assert!((2_100..2_700).contains(&fair), "{fair}");
    assert!(packed >= fair, "{packed} packed, {fair} by dominant share");
}
