//! Progress: a run that can use budget that no other run can use now, runs.

use sage_engine::adapt::{End, Outcome};
use sage_engine::allocate::{Scheduler, Unlock};
use sage_engine::{Engine, EngineOptions};

use crate::city::{COUNT, City, SPEED, frugal, principal};
use crate::loops::{HOUR, describe};

fn outcome(engine: &Engine, run: u64) -> Option<Outcome> {
    engine.run(run).expect("a run").outcome()
}

fn accepted(engine: &Engine) -> usize {
    engine.runs().iter().filter(|run| run.outcome() == Some(Outcome::Accepted)).count()
}

/// A count with this name and these additional keys.
fn count(name: &str, of_pipeline: &str, rest: &str) -> String {
    let text = COUNT.replace("name = \"rides\"", &format!("name = \"{name}\""));
    format!("{}{rest}", text.replace("stream = \"taxi\"", &format!("stream = \"taxi\"\n{of_pipeline}")))
}

/// Regression: it reserved all ten blocks, and no other run could spend on them until it was stopped.
#[test]
fn a_run_that_waits_for_twenty_blocks_does_not_hold_ten() {
    for waits_first in [true, false] {
        let city = City::new(60_000);
        let engine = city.with_rides("1");
        let mia = principal("mia");
        let patient = SPEED.replace("min = 2", "min = 20");
        if !waits_first {
            city.seal_before(&engine, "2026-01-01T10:00");
        }
        let patient = engine.submit_at(&mia, &frugal(&patient), 0).expect("submitted");
        engine.work(1).expect("no error");
        city.seal_before(&engine, "2026-01-01T10:00");
        engine.work(2).expect("no error");
        let small = count("small", "", "[budget]\nepsilon0 = \"0.01\"\n");
        let small = engine.submit_at(&mia, &frugal(&small), 0).expect("submitted");
        engine.work(3).expect("no error");
        assert_eq!(
            outcome(&engine, small),
            Some(Outcome::Accepted),
            "{}",
            describe(&engine.run(small).expect("a run"))
        );
        assert_eq!(outcome(&engine, patient), None);
    }
}

/// Regression: each run had a seventieth of the block reserved and needed a sixty-fourth.
#[test]
fn seventy_runs_on_a_block_for_sixty_four() {
    let city = City::new(20_000);
    let engine = city.with_rides("4");
    for number in 0..70 {
        let text = count(&format!("rides-{number}"), "", "");
        engine.submit_at(&principal("mia"), &frugal(&text), 0).expect("submitted");
    }
    city.seal_before(&engine, "2026-01-01T01:00");
    assert!(engine.work(1).expect("no error") >= 60);
    assert!(accepted(&engine) >= 60, "{}", accepted(&engine));
    // Loans are recorded: after a restart the waiting runs have the same reservations.
    let aside = engine.set_aside("taxi").expect("a stream");
    engine.close().expect("closed");
    assert_eq!(city.open().set_aside("taxi").expect("a stream"), aside);
}

/// Regression: runs on disjoint blocks waited for each other.
#[test]
fn runs_on_blocks_of_their_own_do_not_wait_for_each_other() {
    let city = City::new(60_000);
    let engine = city.with_rides("4");
    city.seal_before(&engine, "2026-01-01T12:00");
    for hour in 0..12 {
        let named = format!("blocks = [\"hour=2026-01-01T{hour:02}\"]");
        let text = count(&format!("hour-{hour}"), &named, "[budget]\nepsilon0 = \"3\"\n");
        engine.submit_at(&principal("mia"), &frugal(&text), 0).expect("submitted");
    }
    assert_eq!(engine.work(1).expect("no error"), 12);
    assert_eq!(accepted(&engine), 12);
}

/// Loans follow from the log: a directory that is closed and opened between any two attempts continues as one that is
/// not.
#[test]
fn loans_come_out_the_same_after_a_restart() {
    let lived = |restarts: bool| {
        let city = City::new(60_000);
        let mut engine = city.with_rides("1");
        let mia = principal("mia");
        let patient = SPEED.replace("min = 2", "min = 5");
        engine.submit_at(&mia, &frugal(&patient), 0).expect("submitted");
        let mut seen = Vec::new();
        for hour in 1..8_u64 {
            city.seal_before(&engine, &format!("2026-01-01T{hour:02}:00"));
            for number in 0..3 {
                let text = count(&format!("count-{hour}-{number}"), "", "[budget]\nepsilon0 = \"0.3\"\n");
                engine.submit_at(&mia, &frugal(&text), 0).expect("submitted");
            }
            while let Some(job) = engine.next_job(hour * HOUR).expect("no error") {
                seen.push((job.run(), job.attempt().cost));
                // Precision depends on the noise; counts are always accepted.
                engine.perform(job).expect("no error");
                if restarts {
                    engine.close().expect("closed");
                    engine = city.open();
                }
                if seen.iter().filter(|(run, _)| *run == 1).count() > 0 {
                    return (seen, engine.set_aside("taxi").expect("a stream"));
                }
            }
        }
        (seen, engine.set_aside("taxi").expect("a stream"))
    };
    let (at_once, again) = (lived(false), lived(true));
    assert!(at_once.0.len() > 5, "{:?}", at_once.0);
    assert_eq!(at_once, again);
}

/// Regression: one context used up the joint ceiling on the newest block; the other context still chose that block, was
/// refused, and waited.
#[test]
fn the_loop_knows_the_ceiling_over_all_contexts() {
    for filter in ["basic", "strong", "renyi"] {
        let city = City::new(30_000);
        let limit = |epsilon: &str| format!("epsilon = \"{epsilon}\"\ndelta = \"1e-6\"\nfilter = \"{filter}\"\n");
        let context = |name: &str| format!("\n[[policy.contexts]]\nname = \"{name}\"\n{}", limit("2"));
        let contexts = format!(
            "\naccess_modes = [\"enforced\"]\n{}{}\n[policy.joint]\n{}",
            context("one"),
            context("two"),
            limit("2")
        );
        let engine = city.with_policy(&contexts);
        let mia = principal("mia");
        city.seal_before(&engine, "2026-01-01T05:00");
        let of = |context: &str, number: u32| {
            let text = count(
                &format!("{context}-{number}"),
                &format!("context = \"{context}\""),
                "[budget]\nepsilon0 = \"1.5\"\n",
            );
            engine.submit_at(&mia, &frugal(&text), 0).expect("submitted")
        };
        for number in 0..2 {
            for context in ["one", "two"] {
                let run = of(context, number);
                engine.work(1).expect("no error");
                let run = engine.run(run).expect("a run");
                assert_eq!(run.outcome(), Some(Outcome::Accepted), "{filter}: {}", describe(&run));
            }
        }
    }
}

/// Regression: the only run unlocked a tenth of a block's budget, and waited for nine others that never came.
#[test]
fn a_lone_run_does_not_wait_for_other_askers() {
    for scheduler in [Scheduler::DominantShare(Unlock::ByAskers(10)), Scheduler::Pack(Unlock::ByAskers(10))] {
        let mut city = City::new(20_000);
        city.options = EngineOptions { scheduler, ..EngineOptions::default() };
        let engine = city.with_rides("4");
        city.seal_before(&engine, "2026-01-01T02:00");
        let text = count("lone", "", "[budget]\nepsilon0 = \"3\"\n");
        let run = engine.submit_at(&principal("mia"), &frugal(&text), 0).expect("submitted");
        engine.work(1).expect("no error");
        assert_eq!(outcome(&engine, run), Some(Outcome::Accepted), "{scheduler:?}");
    }
}

/// Regression: a run without a timeout waited forever and kept its reservations.
#[test]
fn a_run_gives_up_after_four_weeks_or_twice_its_window() {
    let city = City::new(20_000);
    let engine = city.with_rides("4");
    let mia = principal("mia");
    let wide = |name: &str, window: &str, rest: &str| {
        let text = SPEED.replace("speed-by-vendor", name).replace("min = 2", &format!("min = {window}"));
        engine.submit_at(&mia, &frugal(&format!("{text}{rest}")), 0).expect("submitted")
    };
    let usual = wide("usual", "20", "");
    let long = wide("long", "\"5w\"", "");
    let own = wide("own", "20", "\n[adapt]\ntimeout = \"99w\"\n");
    let week = 7 * 24 * HOUR;
    for (run, weeks) in [(usual, 4), (long, 10), (own, 99)] {
        engine.work(weeks * week - 1).expect("no error");
        assert_eq!(outcome(&engine, run), None, "run {run}");
        engine.work(weeks * week).expect("no error");
        assert_eq!(outcome(&engine, run), Some(Outcome::Stopped(End::TimedOut)), "run {run}");
    }
}
