//! Fault injection: a process is killed in a system call, or the call fails. Afterwards every result that the process
//! got is in the log, and after a failed call it got no more results.
//!
//! `strace` injects the faults. Without it the test is skipped.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use crate::child::{Transcript, check_recovery, has_strace, prepare, traced};
use crate::world::{Random, memory_folder, soak};

/// The calls by which a log reaches the disk.
const CALLS: [&str; 7] = ["pwrite64", "fdatasync", "fsync", "ftruncate", "rename", "unlink", "openat"];

/// The option `--seccomp-bpf` would make runs three times as fast, but it drops some injected faults.
fn strace() -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq"]);
    command
}

/// Restricts `strace` to files of the log, so that loading the program and printing results succeed. For `fdatasync`,
/// which SQLite uses, directories are excluded: SQLite ignores errors there, so the log flushes the directory itself
/// with `fsync`.
fn restrict_to(command: &mut Command, folder: &Path, call: &str) {
    let engine = crate::child::directory(folder);
    for file in ["log.db", "log.db-wal", "log.db-shm", "lock"] {
        command.arg("-P").arg(engine.join(file));
    }
    if call != "fdatasync" {
        command.arg("-P").arg(&engine).arg("-P").arg(folder);
        for file in ["head", "head.new", "head-key", "head-key.new"] {
            command.arg("-P").arg(folder.join(file));
        }
    }
}

/// How often a process makes the call.
fn count_calls(end: End, call: &str) -> u64 {
    let folder = prepare(memory_folder());
    let trace = folder.path().join("trace");
    let mut tracer = strace();
    tracer.arg("-o").arg(&trace).args(["-e", &format!("trace={call}")]);
    restrict_to(&mut tracer, folder.path(), call);
    let output = traced(&mut tracer, folder.path(), end.task()).output().expect("strace");
    let mut transcript = Transcript::default();
    transcript.read(&String::from_utf8(output.stdout).expect("text"));
    assert!(
        transcript.failed.is_empty() && transcript.granted.len() > 80,
        "without a fault all goes well: {:?}",
        transcript.failed
    );
    check_recovery(folder.path(), &transcript, "no fault");
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

/// The effect of a fault on the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    Killed,
    Failed,
    Unnoticed,
}

/// Runs a child with a fault at the n-th call, and checks the log.
fn try_fault(end: End, call: &str, number: u64, fault: &str) -> Outcome {
    let name = format!("{end:?} {call} {number} {fault}");
    let folder = prepare(memory_folder());
    let mut tracer = strace();
    tracer.args(["-o", "/dev/null", "-e", &format!("trace={call}")]);
    tracer.args(["-e", &format!("inject={call}:{fault}:when={number}")]);
    restrict_to(&mut tracer, folder.path(), call);
    let output = traced(&mut tracer, folder.path(), end.task()).output().expect("strace");
    let mut transcript = Transcript::default();
    transcript.read(&String::from_utf8(output.stdout).expect("text"));
    check_recovery(folder.path(), &transcript, &name);
    match (fault, transcript.failed.is_empty()) {
        ("signal=KILL", _) => {
            assert!(!output.status.success(), "{name}: the process was not killed");
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
    let mut random = Random::seeded();
    let mut faults = Vec::new();
    for end in [End::Close, End::Leave] {
        for call in CALLS {
            let count = count_calls(end, call);
            println!("{end:?}: {count} of {call}");
            assert!(count > 100 || !["fdatasync", "pwrite64"].contains(&call), "the work reaches the disk");
            let sampled = if soak() { count.min(1000) } else { count.min(4) };
            for sample in 0..sampled {
                let number = if sampled == count { sample + 1 } else { 1 + random.below(count) };
                for fault in ["signal=KILL", "error=EIO", "error=ENOSPC", "error=EINTR"] {
                    if soak() || random.below(2) == 0 {
                        faults.push((end, call, number, fault));
                    }
                }
            }
        }
    }
    // SQLite ignores a failed flush of the write-ahead log's directory, so an acknowledged charge could be lost with
    // the file. The log flushes the directory itself when it is opened, with its first call of `fsync`.
    assert_eq!(try_fault(End::Leave, "fsync", 1, "error=EIO"), Outcome::Failed, "the name may not be on the disk");
    let waiting = Mutex::new(faults);
    let tally = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((end, call, number, fault)) = { waiting.lock().expect("no panic").pop() } {
                    let outcome = try_fault(end, call, number, fault);
                    // A failed cleanup on close loses nothing, and an interrupted write is retried. Every other fault
                    // must be reported.
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
