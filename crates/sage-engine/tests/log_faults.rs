//! One system call of a working process goes wrong: the process is killed in it, or the call fails. Afterwards
//! everything the process was told is true, and after a failure it was told nothing more.
//!
//! The faults come from `strace`; without it the test says so and is left out.

mod log_child;
mod log_world;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use log_child::{Said, furnished, has_strace, judge, traced};
use log_world::{Dice, quick_place, soak};

/// The calls by which a log reaches the disk.
const CALLS: [&str; 7] = ["pwrite64", "fdatasync", "fsync", "ftruncate", "rename", "unlink", "openat"];

/// Not a test by itself: what the children of this program do.
#[test]
fn act_as_child() {
    log_child::act();
}

fn strace() -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq"]);
    command
}

/// Lets `strace` see only what touches the place, so that loading the program and talking to us go well.
fn only(command: &mut Command, place: &Path) {
    let engine = log_child::directory(place);
    for file in ["", "log.db", "log.db-wal", "log.db-shm", "lock"] {
        command.arg("-P").arg(if file.is_empty() { engine.clone() } else { engine.join(file) });
    }
    for file in ["head", "head.new", ""] {
        command.arg("-P").arg(if file.is_empty() { place.to_owned() } else { place.join(file) });
    }
}

/// How often a working process makes each of the calls if it ends like this.
fn count_calls(end: End) -> BTreeMap<&'static str, u64> {
    let place = furnished(quick_place());
    let trace = place.path().join("trace");
    let mut tracer = strace();
    tracer.arg("-o").arg(&trace).args(["-e", &format!("trace={}", CALLS.join(","))]);
    only(&mut tracer, place.path());
    let output = traced(&mut tracer, place.path(), end.task()).output().expect("strace");
    let mut said = Said::default();
    said.hear(&String::from_utf8(output.stdout).expect("text"));
    assert!(said.failed.is_empty() && said.granted.len() > 80, "without a fault all goes well: {:?}", said.failed);
    judge(place.path(), &said, "no fault");
    let trace = std::fs::read_to_string(trace).expect("a trace");
    CALLS.map(|call| (call, trace.lines().filter(|line| line.contains(&format!(" {call}("))).count() as u64)).into()
}

/// Whether the process closes the log before it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Close,
    Leave,
}

impl End {
    const fn task(self) -> &'static str {
        match self {
            Self::Close => "work 0",
            Self::Leave => "leave 0",
        }
    }
}

/// What a fault came to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    Killed,
    Failed,
    Unnoticed,
}

/// Works with the fault at the n-th call, and judges.
fn try_fault(end: End, call: &str, number: u64, fault: &str) -> Outcome {
    let name = format!("{end:?} {call} {number} {fault}");
    let place = furnished(quick_place());
    let mut tracer = strace();
    tracer.args(["-o", "/dev/null", "-e", &format!("trace={call}")]);
    tracer.args(["-e", &format!("inject={call}:{fault}:when={number}")]);
    only(&mut tracer, place.path());
    let output = traced(&mut tracer, place.path(), end.task()).output().expect("strace");
    let mut said = Said::default();
    said.hear(&String::from_utf8(output.stdout).expect("text"));
    judge(place.path(), &said, &name);
    match (fault, said.failed.is_empty()) {
        ("signal=KILL", _) => {
            assert!(!output.status.success(), "{name}: the process lived on");
            Outcome::Killed
        }
        (_, false) => Outcome::Failed,
        (_, true) => Outcome::Unnoticed,
    }
}

#[test]
fn any_call_may_kill_the_process_or_fail() {
    if !has_strace() {
        return;
    }
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut dice = Dice(seed);
    let mut faults = Vec::new();
    for end in [End::Close, End::Leave] {
        let counts = count_calls(end);
        println!("{end:?} {counts:?}");
        assert!(counts["fdatasync"] > 100 && counts["pwrite64"] > 1000, "the work reaches the disk");
        for (call, count) in counts {
            let sampled = if soak() { count.min(1000) } else { count.min(4) };
            for sample in 0..sampled {
                let number = if sampled == count { sample + 1 } else { 1 + dice.below(count) };
                for fault in ["signal=KILL", "error=EIO", "error=ENOSPC", "error=EINTR"] {
                    if soak() || dice.below(2) == 0 {
                        faults.push((end, call, number, fault));
                    }
                }
            }
        }
    }
    let waiting = Mutex::new(faults);
    let tally = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((end, call, number, fault)) = { waiting.lock().expect("no panic").pop() } {
                    let outcome = try_fault(end, call, number, fault);
                    // What an orderly end fails to tidy up is no loss, and an interrupted write is made again.
                    // All else that hinders the log is noticed.
                    let must =
                        end == End::Leave && (call == "fdatasync" || (call == "pwrite64" && fault != "error=EINTR"));
                    assert!(outcome != Outcome::Unnoticed || !must, "{call} {number} {fault} went unnoticed");
                    *tally.lock().expect("no panic").entry((call, outcome)).or_insert(0) += 1;
                }
            });
        }
    });
    println!("{:?}", tally.into_inner().expect("no panic"));
}
