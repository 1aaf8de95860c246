//! The power goes at any moment of a run, and again while the log is being recovered: every disk that could be
//! left opens, and holds what was acknowledged.
//!
//! The run is recorded by `strace`; without it the test says so and is left out.

use std::path::Path;
use std::process::Command;
use std::thread;

use crate::child::{Said, directory, furnished, has_strace, judge, traced};
use crate::disk::{Call, Disk, TRACE, parse};
use crate::world::{Dice, gate, quick_place, soak};

/// Runs a child in the place, and returns what it did.
fn record(place: &Path, task: &str) -> Vec<Call> {
    let trace = tempfile::NamedTempFile::new().expect("a file");
    let mut tracer = Command::new("strace");
    tracer.args(TRACE).arg("-o").arg(trace.path());
    let output = traced(&mut tracer, place, task).output().expect("strace");
    assert!(output.status.success(), "without a fault all goes well");
    parse(&std::fs::read_to_string(trace.path()).expect("a trace"), place)
}

/// How many disks to look at: after how many moments of each run, and of how many of them the recovery is
/// recorded and cut short in its turn.
#[derive(Clone, Copy)]
struct Plan {
    moments: u64,
    recoveries: u64,
    depth: u32,
}

/// Looks at the disks that a run could have left at some of its moments; returns how many.
fn explore(mut disk: Disk, calls: &[Call], mut said: Said, plan: Plan, dice: &mut Dice) -> u64 {
    let flushes: Vec<usize> =
        calls.iter().enumerate().filter(|(_, call)| matches!(call, Call::Flush(_))).map(|(at, _)| at).collect();
    // Half of the moments anywhere, half right before and after a flush.
    let mut moments: Vec<usize> = (0..plan.moments)
        .map(|number| match number % 2 {
            0 => dice.below(calls.len() as u64 + 1) as usize,
            _ if flushes.is_empty() => calls.len(),
            _ => flushes[dice.below(flushes.len() as u64) as usize] + dice.below(2) as usize,
        })
        .collect();
    moments.sort_unstable();
    let (mut looked, mut left) = (0, Vec::new());
    let mut moments = moments.into_iter().peekable();
    for at in 0..=calls.len() {
        while moments.next_if_eq(&at).is_some() {
            looked += 1;
            let image = disk.crash(dice);
            if plan.depth > 0 && looked % plan.moments.div_ceil(plan.recoveries) == 0 {
                looked += cut_recovery(&image, &said, plan, dice);
            }
            let name = format!("depth {}, call {at} of {}", plan.depth, calls.len());
            left.push(Left { image, said: said.clone(), name });
            if left.len() == AT_ONCE {
                look_at(&mut left);
            }
        }
        if let Some(call) = calls.get(at) {
            disk.take(call);
            if let Call::Say(text) = call {
                said.hear(text);
            }
        }
    }
    look_at(&mut left);
    looked
}

/// A disk that could be left, and what was said before.
struct Left {
    image: Disk,
    said: Said,
    name: String,
}

/// Disks that are held at the same time, and how many are looked at at the same time.
const AT_ONCE: usize = 8;
const THREADS: usize = 2;

fn look_at(left: &mut Vec<Left>) {
    thread::scope(|scope| {
        for some in left.chunks(AT_ONCE / THREADS) {
            scope.spawn(move || some.iter().for_each(|left| look(&left.image, &left.said, &left.name)));
        }
    });
    left.clear();
}

fn look(image: &Disk, said: &Said, name: &str) {
    let place = quick_place();
    image.write_to(place.path());
    judge(place.path(), said, name);
}

/// Recovers a disk, and looks at what could be left if the power goes during that.
fn cut_recovery(image: &Disk, said: &Said, plan: Plan, dice: &mut Dice) -> u64 {
    let place = quick_place();
    image.write_to(place.path());
    let calls = record(place.path(), "recover 0");
    let plan = Plan { moments: 6, recoveries: 1, depth: plan.depth - 1 };
    explore(image.clone(), &calls, said.clone(), plan, dice)
}

#[test]
fn every_disk_that_a_power_cut_can_leave_opens_and_holds_what_was_acknowledged() {
    if !has_strace() {
        return;
    }
    let mut dice = Dice::thrown();
    let place = furnished(quick_place());
    let disk = Disk::of(place.path());
    let calls = record(place.path(), "work 0");
    assert!(calls.len() > 5000, "{} calls were recorded", calls.len());
    let plan = match soak() {
        true => Plan { moments: 20_000, recoveries: 500, depth: 3 },
        false => Plan { moments: 120, recoveries: 6, depth: 2 },
    };
    let looked = explore(disk, &calls, Said::default(), plan, &mut dice);
    println!("{looked} disks");
}

/// The power goes while the directory is being made: whoever comes next finds an empty log or makes one.
#[test]
fn a_directory_that_was_being_made_is_made_whole() {
    if !has_strace() {
        return;
    }
    let mut dice = Dice::thrown();
    let place = quick_place();
    let calls = record(place.path(), "recover 0");
    assert!(calls.len() > 30, "{} calls were recorded", calls.len());
    let mut disk = Disk::default();
    for call in &calls {
        disk.take(call);
        for _ in 0..if soak() { 100 } else { 4 } {
            let left = quick_place();
            disk.crash(&mut dice).write_to(left.path());
            assert_eq!(gate(&directory(left.path())).head().length, 0, "after {call:?}");
        }
    }
}

/// The simulation must be able to fail: a run whose flushes are left out loses what it acknowledged.
#[test]
fn a_run_that_does_not_flush_is_found_out() {
    if !has_strace() {
        return;
    }
    let place = furnished(quick_place());
    let mut disk = Disk::of(place.path());
    let mut said = Said::default();
    let flushes_log = |call: &Call| matches!(call, Call::Flush(path) if path.starts_with("engine"));
    for call in record(place.path(), "work 0").iter().filter(|call| !flushes_log(call)) {
        disk.take(call);
        if let Call::Say(text) = call {
            said.hear(text);
        }
    }
    // The image with nothing but what was flushed is among the first few.
    let mut dice = Dice(1);
    let lost = (0..20).any(|_| {
        let image = disk.crash(&mut dice);
        std::panic::catch_unwind(|| look(&image, &said, "no flush")).is_err()
    });
    assert!(lost, "a disk without a flush kept everything");
}
