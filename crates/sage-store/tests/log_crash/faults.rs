//! One system call of a working process goes wrong: the process is killed in it, or the call fails. Afterwards
//! everything the process was told is true, and after a failure it was told nothing more.
//!
//! The faults come from `strace`; without it the test says so and is left out.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use crate::child::{Said, furnished, has_strace, judge, traced};
use crate::world::{Dice, quick_place, soak};

/// The calls by which a log reaches the disk.
const CALLS: [&str; 7] = ["pwrite64", "fdatasync", "fsync", "ftruncate", "rename", "unlink", "openat"];

/// With `--seccomp-bpf` a run would be three times as short, but then faults are left out.
fn strace() -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq"]);
    command
}

/// Lets `strace` see only what touches the place, so that loading the program and talking to us go well. Of what
/// SQLite flushes only the files: whether it could flush a directory it does not look, which is why the log does
/// that itself, by `fsync`.
fn only(command: &mut Command, place: &Path, call: &str) {
    let engine = crate::child::directory(place);
    for file in ["log.db", "log.db-wal", "log.db-shm", "lock"] {
        command.arg("-P").arg(engine.join(file));
    }
    if call != "fdatasync" {
        command.arg("-P").arg(&engine).arg("-P").arg(place);
        for file in ["head", "head.new", "head-key", "head-key.new"] {
            command.arg("-P").arg(place.join(file));
        }
    }
}

/// How often a working process makes the call if it ends like this.
fn count(end: End, call: &str) -> u64 {
    let place = furnished(quick_place());
    let trace = place.path().join("trace");
    let mut tracer = strace();
    tracer.arg("-o").arg(&trace).args(["-e", &format!("trace={call}")]);
    only(&mut tracer, place.path(), call);
    let output = traced(&mut tracer, place.path(), end.task()).output().expect("strace");
    let mut said = Said::default();
    said.hear(&String::from_utf8(output.stdout).expect("text"));
    assert!(said.failed.is_empty() && said.granted.len() > 80, "without a fault all goes well: {:?}", said.failed);
    judge(place.path(), &said, "no fault");
    std::fs::read_to_string(trace).expect("a trace").matches(&format!(" {call}(")).count() as u64
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
    only(&mut tracer, place.path(), call);
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
    let mut dice = Dice::thrown();
    let mut faults = Vec::new();
    for end in [End::Close, End::Leave] {
        for call in CALLS {
            let count = count(end, call);
            println!("{end:?}: {count} of {call}");
            assert!(count > 100 || !["fdatasync", "pwrite64"].contains(&call), "the work reaches the disk");
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
    // SQLite lets a failed flush of the write-ahead log's name pass, so an acknowledged charge could vanish with
    // the file. The log flushes the name itself when it is opened, before all else that it flushes by this call.
    assert_eq!(try_fault(End::Leave, "fsync", 1, "error=EIO"), Outcome::Failed, "the name may not be on the disk");
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
