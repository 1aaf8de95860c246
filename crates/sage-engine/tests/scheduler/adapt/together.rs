//! Many pipelines on one stream, under a simulated clock: allocation, adaptation and the kernel's ledger fit together.

use sage_engine::adapt::{Mode, Strategy};
use sage_engine::allocate::{Scheduler, Unlock};
use sage_engine::simulate::{
    Need, Scenario, SchedulingPolicy, SimulationError, SimulationResult, Summary, run_simulation,
};
use sage_engine::{Ceiling, Delta, Epsilon, Rule};

fn ceiling() -> Ceiling {
    Ceiling { epsilon: Epsilon::ceiling("1").expect("a number"), delta: Delta::ceiling("1e-6").expect("a number") }
}

fn week(rule: Rule, rate: f64, seed: u64) -> Scenario {
    Scenario { rule, rate, seed, ..Scenario::week(ceiling()) }
}

const SCHEDULERS: [Scheduler; 5] = [
    Scheduler::EvenSplit,
    Scheduler::FirstCome,
    Scheduler::DominantShare(Unlock::ByAskers(10)),
    Scheduler::Pack(Unlock::ByAskers(10)),
    Scheduler::DominantShare(Unlock::OverTime(24)),
];

fn ways() -> impl Iterator<Item = SchedulingPolicy> {
    let strategies = [
        (Strategy::Conserve, Mode::Conserve),
        (Strategy::Frugal, Mode::Conserve),
        (Strategy::Conserve, Mode::Aggressive),
        (Strategy::Frugal, Mode::Aggressive),
    ];
    SCHEDULERS
        .into_iter()
        .flat_map(move |scheduler| strategies.map(|(strategy, mode)| SchedulingPolicy { scheduler, strategy, mode }))
}

fn lived(scenario: &Scenario, way: SchedulingPolicy) -> SimulationResult {
    run_simulation(scenario, way).unwrap_or_else(|error| panic!("{scenario:?}, {way:?}: {error}"))
}

/// What the pipelines choose fits the ledger to the unit, with many waiting for each other, by every scheduler and
/// strategy; nobody is lost, and the same seed tells the same story.
#[test]
fn what_is_chosen_fits() {
    for (rule, seed) in [(Rule::Basic, 3), (Rule::Renyi, 11)] {
        for way in ways() {
            let scenario = week(rule, 0.7, seed);
            let told = lived(&scenario, way);
            let all = Summary::new(std::slice::from_ref(&told));
            println!("{rule:?}, {way:?}, seed {seed}: {all:?}");
            assert!(all.loss <= ceiling().epsilon, "{way:?}, seed {seed}: {}", all.loss);
            assert_eq!(all.came, all.released + all.gave_up + all.waiting, "{way:?}, seed {seed}");
            // Some ways starve everybody under such a load; all of them try.
            assert!(
                all.attempts > 0 && all.waiting > 0,
                "{way:?}, seed {seed}: nothing was tried, or nobody had to wait"
            );
            assert!(told.verified_events > u64::from(all.attempts), "{way:?}, seed {seed}");
            for pair in told.moments.windows(2) {
                let [before, after] = [pair[0], pair[1]];
                assert!(before.retired <= after.retired && before.released <= after.released, "{way:?}, seed {seed}");
            }
            assert_eq!(lived(&scenario, way), told, "{way:?}, seed {seed}, and otherwise the second time");
        }
    }
}

/// The strategy that is the default releases at least as much as the paper's at every load, and under load much more.
/// The numbers are those of the decision record.
#[test]
fn the_default_strategy_wins() {
    let mut missing = Vec::new();
    let record = include_str!("../../../../../docs/internals/decisions/0043-data-before-budget.md");
    for rate in [0.1, 0.3, 0.7, 1.5] {
        let released = |strategy| {
            let way = SchedulingPolicy { strategy, ..SchedulingPolicy::default() };
            let stories: Vec<SimulationResult> =
                (1..=8).map(|seed| lived(&week(Rule::Basic, rate, seed), way)).collect();
            Summary::new(&stories)
        };
        let [conserve, frugal] = [Strategy::Conserve, Strategy::Frugal].map(released);
        let hours = |summary: &Summary| summary.release_time.map_or(f64::NAN, |[mean, ..]| mean);
        let line = format!(
            "| {rate} | {} | {}, {:.1} | {}, {:.1} |",
            conserve.came,
            conserve.released,
            hours(&conserve),
            frugal.released,
            hours(&frugal)
        );
        println!("{line}");
        assert!(frugal.released >= conserve.released, "{line}");
        if !record.contains(&line) {
            missing.push(line);
        }
    }
    assert!(missing.is_empty(), "the decision record has other numbers than\n{}", missing.join("\n"));
}

/// What can be seen in a scenario where the answer is known.
#[test]
fn plain_scenarios_come_out_as_they_must() {
    let easy = Need { rows: 1.0, noisy_rows: 1e-6 };
    let hopeless = Need { rows: 1e12, noisy_rows: 1.0 };
    // Others keep a block's budget back until more pipelines have asked for it.
    let plain = |way: &SchedulingPolicy| matches!(way.scheduler, Scheduler::EvenSplit | Scheduler::FirstCome);
    for way in ways().filter(plain).filter(|way| way.mode == Mode::Conserve) {
        let all = |scenario: Scenario| Summary::new(&[lived(&scenario, way)]);
        let quick = all(Scenario { need: easy, rate: 0.2, ..week(Rule::Renyi, 0.2, 5) });
        assert_eq!((quick.waiting, quick.gave_up), (0, 0), "{way:?}: {quick:?}");
        assert_eq!(quick.released, quick.attempts, "{way:?}: one attempt each");
        let patience = Some(24);
        let late = all(Scenario { need: hopeless, rate: 0.2, patience, ..week(Rule::Renyi, 0.2, 5) });
        assert_eq!(late.released, 0, "{way:?}");
        assert!(late.gave_up > late.waiting, "{way:?}: {late:?}");
    }
}

/// Pipelines used to ask for the newest block whatever was within reach there, and where time brings that, the newest
/// has had none: one that reads a single block never began.
#[test]
fn where_time_unlocks_pipelines_take_blocks_that_have_had_some() {
    let easy = Need { rows: 1.0, noisy_rows: 1e-6 };
    for (unlock, rule) in [(24, Rule::Renyi), (24, Rule::Basic), (1, Rule::Renyi)] {
        for scheduler in [Scheduler::DominantShare(Unlock::OverTime(unlock)), Scheduler::Pack(Unlock::OverTime(unlock))]
        {
            let way = SchedulingPolicy { scheduler, ..SchedulingPolicy::default() };
            let told = lived(&Scenario { need: easy, ..week(rule, 0.2, 5) }, way);
            let all = Summary::new(std::slice::from_ref(&told));
            assert_eq!(all.gave_up, 0, "{way:?}: {all:?}");
            assert!(all.released >= 10 && all.waiting <= 1, "{way:?}: {all:?}");
            // A block of this age has a first attempt's part within reach.
            let age = unlock.div_ceil(64);
            for release in &told.releases {
                assert!(u64::from(release.at - release.came) <= age + 1, "{way:?}: {release:?}");
            }
        }
    }
}

#[test]
fn scenarios_that_cannot_be_are_refused() {
    let good = Scenario::week(ceiling());
    for (scenario, part) in [
        (Scenario { blocks: 0, ..good }, "blocks"),
        (Scenario { blocks: 1_000_000, ..good }, "blocks"),
        (Scenario { rate: 0.0, ..good }, "rate"),
        (Scenario { rate: f64::NAN, ..good }, "rate"),
        (Scenario { rate: 1e9, ..good }, "rate"),
        (Scenario { rows: -1.0, ..good }, "rows"),
        (Scenario { need: Need { rows: 1.0, noisy_rows: f64::INFINITY }, ..good }, "rows"),
    ] {
        let refused = run_simulation(&scenario, SchedulingPolicy::default()).expect_err("it cannot be");
        assert!(matches!(&refused, SimulationError::Scenario { part: named, .. } if *named == part), "{refused}");
    }
}
