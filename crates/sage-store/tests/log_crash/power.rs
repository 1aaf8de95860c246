//! Power failures at any moment of a run, and again during recovery: every possible disk state opens and contains all
//! acknowledged charges.
//!
//! `strace` records the run. Without it the tests are skipped.

use std::path::Path;
use std::process::Command;
use std::thread;

use crate::child::{Transcript, check_recovery, directory, has_strace, prepare, traced};
use crate::disk::{Call, Disk, TRACE, parse};
use crate::world::{Random, gate, memory_folder, soak};

/// Runs a child in the folder, and returns its system calls.
fn record(folder: &Path, task: &str) -> Vec<Call> {
    let trace = tempfile::NamedTempFile::new().expect("a file");
    let mut tracer = Command::new("strace");
    tracer.args(TRACE).arg("-o").arg(trace.path());
    let output = traced(&mut tracer, folder, task).output().expect("strace");
    assert!(output.status.success(), "without a fault all goes well");
    parse(&std::fs::read_to_string(trace.path()).expect("a trace"), folder)
}

/// How many disk states to check: at how many moments of a run, for how many of them the recovery is recorded and
/// interrupted too, and how deep.
#[derive(Clone, Copy)]
struct Plan {
    moments: u64,
    recoveries: u64,
    depth: u32,
}

/// Checks disk states that a power failure at random moments of a run can leave. Returns their number.
fn explore(mut disk: Disk, calls: &[Call], mut transcript: Transcript, plan: Plan, random: &mut Random) -> u64 {
    let flushes: Vec<usize> =
        calls.iter().enumerate().filter(|(_, call)| matches!(call, Call::Flush(_))).map(|(at, _)| at).collect();
    // Half of the moments are random, half are right before or after a flush.
    let mut moments: Vec<usize> = (0..plan.moments)
        .map(|number| match number % 2 {
            0 => random.below(calls.len() as u64 + 1) as usize,
            _ if flushes.is_empty() => calls.len(),
            _ => flushes[random.below(flushes.len() as u64) as usize] + random.below(2) as usize,
        })
        .collect();
    moments.sort_unstable();
    let (mut checked, mut images) = (0, Vec::new());
    let mut moments = moments.into_iter().peekable();
    for at in 0..=calls.len() {
        while moments.next_if_eq(&at).is_some() {
            checked += 1;
            let image = disk.crash(random);
            if plan.depth > 0 && checked % plan.moments.div_ceil(plan.recoveries) == 0 {
                checked += interrupt_recovery(&image, &transcript, plan, random);
            }
            let name = format!("depth {}, call {at} of {}", plan.depth, calls.len());
            images.push(CrashImage { image, transcript: transcript.clone(), name });
            if images.len() == AT_ONCE {
                check_images(&mut images);
            }
        }
        if let Some(call) = calls.get(at) {
            disk.apply(call);
            if let Call::Print(text) = call {
                transcript.read(text);
            }
        }
    }
    check_images(&mut images);
    checked
}

/// A possible disk state, and the results that were printed before.
struct CrashImage {
    image: Disk,
    transcript: Transcript,
    name: String,
}

/// How many disk states are in memory at the same time, and how many threads check them.
const AT_ONCE: usize = 8;
const THREADS: usize = 2;

fn check_images(images: &mut Vec<CrashImage>) {
    thread::scope(|scope| {
        for some in images.chunks(AT_ONCE / THREADS) {
            scope.spawn(move || {
                some.iter().for_each(|crashed| check_image(&crashed.image, &crashed.transcript, &crashed.name))
            });
        }
    });
    images.clear();
}

fn check_image(image: &Disk, transcript: &Transcript, name: &str) {
    let folder = memory_folder();
    image.write_to(folder.path());
    check_recovery(folder.path(), transcript, name);
}

/// Recovers a disk state, and checks the states that a power failure during recovery can leave.
fn interrupt_recovery(image: &Disk, transcript: &Transcript, plan: Plan, random: &mut Random) -> u64 {
    let folder = memory_folder();
    image.write_to(folder.path());
    let calls = record(folder.path(), "recover 0");
    let plan = Plan { moments: 6, recoveries: 1, depth: plan.depth - 1 };
    explore(image.clone(), &calls, transcript.clone(), plan, random)
}

#[test]
fn acknowledged_charges_survive_every_power_failure() {
    if !has_strace() {
        return;
    }
    let mut random = Random::seeded();
    let folder = prepare(memory_folder());
    let disk = Disk::read_from(folder.path());
    let calls = record(folder.path(), "work 0");
    assert!(calls.len() > 5000, "{} calls were recorded", calls.len());
    let plan = match soak() {
        true => Plan { moments: 20_000, recoveries: 500, depth: 3 },
        false => Plan { moments: 120, recoveries: 6, depth: 2 },
    };
    let checked = explore(disk, &calls, Transcript::default(), plan, &mut random);
    println!("{checked} disks");
}

/// After a power failure while the directory is created, the next process finds an empty log or creates one.
#[test]
fn an_interrupted_creation_is_completed() {
    if !has_strace() {
        return;
    }
    let mut random = Random::seeded();
    let folder = memory_folder();
    let calls = record(folder.path(), "recover 0");
    assert!(calls.len() > 30, "{} calls were recorded", calls.len());
    let mut disk = Disk::default();
    for call in &calls {
        disk.apply(call);
        for _ in 0..if soak() { 100 } else { 4 } {
            let left = memory_folder();
            disk.crash(&mut random).write_to(left.path());
            assert_eq!(gate(&directory(left.path())).head().length, 0, "after {call:?}");
        }
    }
}

/// The simulation must be able to fail: a run without its flushes loses acknowledged charges.
#[test]
fn a_run_without_flushes_loses_charges() {
    if !has_strace() {
        return;
    }
    let folder = prepare(memory_folder());
    let mut disk = Disk::read_from(folder.path());
    let mut transcript = Transcript::default();
    let flushes_log = |call: &Call| matches!(call, Call::Flush(path) if path.starts_with("engine"));
    for call in record(folder.path(), "work 0").iter().filter(|call| !flushes_log(call)) {
        disk.apply(call);
        if let Call::Print(text) = call {
            transcript.read(text);
        }
    }
    // The state with only the flushed data is among the first few.
    let mut random = Random(1);
    let lost = (0..20).any(|_| {
        let image = disk.crash(&mut random);
        std::panic::catch_unwind(|| check_image(&image, &transcript, "no flush")).is_err()
    });
    assert!(lost, "a run without flushes lost nothing");
}
