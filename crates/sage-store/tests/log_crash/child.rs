//! A child process that uses a log and prints every result, and the check of the log after the child was killed or
//! one of its system calls failed.

#![allow(dead_code, reason = "every test program uses a part of it")]

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sage_kernel::{
    BlockId, ChargeOutcome, ContextId, Event, Gate, GateError, Grant, GrantId, GrantState, Head, Lane, Log, StreamId,
};
use sage_store::log::{BoxedLog, Directory, GroupCommit, Heads, SoundGate};

use crate::world::{BLOCKS, FITTING, create_stream, request};

/// Environment variables that make a test program act as the child: its root folder and its task.
const ROOT: &str = "SAGE_CHILD_ROOT";
const TASK: &str = "SAGE_CHILD_TASK";

/// The engine's directory below the root.
pub(crate) fn directory(root: &Path) -> PathBuf {
    root.join("engine")
}

/// The exported head below the root.
pub(crate) fn heads(root: &Path) -> Heads {
    Heads::new(vec![root.join("head")], NonZeroU64::new(10).expect("not zero"), root)
}

/// Creates a log with a stream below the root and closes it.
pub(crate) fn prepare(root: tempfile::TempDir) -> tempfile::TempDir {
    create_stream(&mut crate::world::gate(&directory(root.path())), FITTING);
    root
}

/// The command that runs this test program again, as the child with this task.
pub(crate) fn child(root: &Path, task: &str) -> Command {
    with_task(Command::new(std::env::current_exe().expect("this program")), root, task)
}

/// Whether `strace` is installed. If not, prints that the test is skipped.
pub(crate) fn has_strace() -> bool {
    let found = Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: strace is not installed");
    }
    found
}

/// As [`child`], under a tracer.
pub(crate) fn traced(tracer: &mut Command, root: &Path, task: &str) -> Command {
    tracer.arg(std::env::current_exe().expect("this program"));
    let mut whole = Command::new(tracer.get_program());
    whole.args(tracer.get_args());
    with_task(whole, root, task)
}

fn with_task(mut command: Command, root: &Path, task: &str) -> Command {
    command.args(["act_as_child", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROOT, root).env(TASK, task).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Runs the task in a child and does nothing in the parent. Every test program with children calls it from a test named
/// `act_as_child`.
pub(crate) fn run_child() {
    let Some(root) = std::env::var_os(ROOT).map(PathBuf::from) else { return };
    let task = std::env::var(TASK).expect("a task");
    let (verb, round) = task.split_once(' ').expect("a verb and a word");
    match verb {
        "work" => drop(work(&root, round)),
        "leave" => {
            let _open = work(&root, round);
            std::process::exit(0)
        }
        "storm" => storm(&root, round),
        "recover" => drop(open(&root)),
        _ => panic!("no task {task}"),
    }
}

/// Opens the log as a server does: checks heads and burns grants of earlier processes.
fn open(root: &Path) -> Option<GroupCommit<BoxedLog>> {
    let open = || -> Result<SoundGate<BoxedLog>, Box<dyn std::error::Error>> {
        let gate = Directory::open(directory(root))?.gate()?;
        let mut sound = crate::world::sound(gate, heads(root));
        sound.burn_running(4)?;
        Ok(sound)
    };
    match open() {
        Ok(sound) => Some(GroupCommit::new(sound, || 5)),
        Err(error) => {
            print_line(&format!("failed {error}"));
            None
        }
    }
}

fn print_line(line: &str) {
    // One write per line, so that a line is printed completely or not at all.
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n@{line}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent reads");
}

/// Runs two hundred steps of every kind, up to the first that fails. Returns the open log, to be closed or left open.
fn work(root: &Path, round: &str) -> Option<GroupCommit<BoxedLog>> {
    let shared = open(root)?;
    let mut grants: Vec<Grant> = Vec::new();
    let mut running: Vec<GrantId> = Vec::new();
    for step in 0..200 {
        if let Err(error) = run_step(&shared, round, step, &mut grants, &mut running) {
            print_line(&format!("failed {error}"));
            if shared.charge(request(&format!("{round}/late"))).is_ok() {
                print_line("violation: something was granted after a failure");
            }
            break;
        }
    }
    Some(shared)
}

fn run_step(
    shared: &GroupCommit<BoxedLog>, round: &str, step: u32, grants: &mut Vec<Grant>, running: &mut Vec<GrantId>,
) -> Result<(), GateError> {
    let time = shared.now();
    let key = format!("{round}/{step}");
    match step % 10 {
        5 => {
            let again = shared.charge(request(&format!("{round}/{}", step - 3)))?;
            if !matches!(again, ChargeOutcome::Repeated(..)) {
                print_line("violation: the same key was granted twice");
            }
        }
        6 => {
            let permit = shared.with(|gate| grants.pop().map(|grant| gate.start(time, grant)).transpose())??;
            running.extend(permit.map(|permit| permit.grant()));
            print_line(&format!("started {}", running[running.len() - 1].0));
        }
        7 => {
            let Some(grant) = grants.pop() else { return Ok(()) };
            let id = grant.id();
            shared.with(|gate| gate.cancel(time, grant))??;
            print_line(&format!("cancelled {}", id.0));
        }
        // Large enough that the write-ahead log is overwritten more than once.
        8 => shared.with(|gate| gate.note(time, "large", vec![7; 300_000]))??,
        9 if step % 20 == 9 => {
            let Some(id) = running.pop() else { return Ok(()) };
            shared.with(|gate| gate.burn(time, id))??;
            print_line(&format!("burnt {}", id.0));
        }
        _ => match shared.charge(request(&key))? {
            ChargeOutcome::Granted(grant) => {
                print_line(&format!("granted {} {key}", grant.id().0));
                grants.push(grant);
            }
            other => print_line(&format!("violation: {other:?}")),
        },
    }
    Ok(())
}

/// Eight clients that charge until the process is killed.
fn storm(root: &Path, round: &str) {
    let Some(shared) = open(root) else { return };
    std::thread::scope(|scope| {
        for client in 0..8 {
            let shared = &shared;
            scope.spawn(move || {
                for charge in 0.. {
                    let key = format!("{round}/{client}/{charge}");
                    match shared.charge(request(&key)) {
                        Ok(ChargeOutcome::Granted(grant)) if charge % 7 == 3 => {
                            let id = grant.id();
                            print_line(&format!("granted {} {key}", id.0));
                            if shared.with(|gate| gate.start(5, grant)).is_ok_and(|permit| permit.is_ok()) {
                                print_line(&format!("started {}", id.0));
                            }
                        }
                        Ok(ChargeOutcome::Granted(grant)) => print_line(&format!("granted {} {key}", grant.id().0)),
                        other => return print_line(&format!("violation: {other:?}")),
                    }
                }
            });
        }
    });
}

/// The results that a child printed, without the output of libtest.
#[derive(Clone, Default)]
pub(crate) struct Transcript {
    /// Key and number of every grant.
    pub(crate) granted: BTreeMap<u64, String>,
    pub(crate) started: Vec<u64>,
    pub(crate) cancelled: Vec<u64>,
    pub(crate) burnt: Vec<u64>,
    pub(crate) failed: Vec<String>,
}

impl Transcript {
    /// Adds the lines of a child's output.
    pub(crate) fn read(&mut self, text: &str) {
        // The last line may be incomplete.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines().filter_map(|line| line.strip_prefix('@')) {
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            let number = || rest.split(' ').next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
            match verb {
                "granted" => {
                    let key = rest.split_once(' ').expect("a number and a key").1;
                    let before = self.granted.insert(number(), key.to_owned());
                    assert_eq!(before, None, "one number for two grants");
                }
                "started" => self.started.push(number()),
                "cancelled" => self.cancelled.push(number()),
                "burnt" => self.burnt.push(number()),
                "failed" => self.failed.push(rest.to_owned()),
                _ => panic!("the child printed: {line}"),
            }
        }
    }
}

/// Opens the log again and checks that it agrees with every result that the child printed.
pub(crate) fn check_recovery(root: &Path, transcript: &Transcript, name: &str) {
    let gate = Directory::open(directory(root)).and_then(|directory| directory.gate());
    let gate = gate.unwrap_or_else(|error| panic!("{name}: {error}"));
    let spent = sum_spending(&gate);
    let mut sound = crate::world::sound(gate, heads(root));
    let state = |sound: &SoundGate<BoxedLog>, id: u64| sound.ledger().grant_state(GrantId(id));
    for &id in transcript.granted.keys() {
        assert!(state(&sound, id).is_some(), "{name}: grant {id} was acknowledged and is missing");
    }
    for &id in &transcript.started {
        let found = state(&sound, id);
        assert!(matches!(found, Some(GrantState::Started | GrantState::Burnt)), "{name}: {id} is {found:?}");
    }
    for (list, expected) in [(&transcript.cancelled, GrantState::Cancelled), (&transcript.burnt, GrantState::Burnt)] {
        for &id in list {
            assert_eq!(state(&sound, id), Some(expected), "{name}: {id}");
        }
    }
    sound.burn_running(6).unwrap_or_else(|error| panic!("{name}: {error}"));
    for &id in &transcript.started {
        assert_eq!(state(&sound, id), Some(GrantState::Burnt), "{name}: {id} was started before the crash");
    }
    let stream = sound.ledger().stream(StreamId(0)).expect("the stream");
    for block in [0, BLOCKS - 1] {
        let found = stream.spent(ContextId(0), BlockId(block), Lane::Train).expect("a block")[0];
        assert_eq!(found, spent, "{name}: block {block}");
    }
    retry_requests(sound, transcript, name);
}

/// Sends requests with the same keys in another order, and checks that they get the same grants, none of them twice.
fn retry_requests(sound: SoundGate<BoxedLog>, transcript: &Transcript, name: &str) {
    let shared = GroupCommit::new(sound, || 0);
    for (&id, key) in transcript.granted.iter().rev().step_by(7) {
        match shared.charge(request(key)) {
            Ok(ChargeOutcome::Repeated(found, state, grant)) => {
                assert_eq!(found.0, id, "{name}: {key}");
                assert_eq!(grant.is_some(), state == GrantState::Charged, "{name}: {key} is {state:?}");
            }
            other => panic!("{name}: {key} again: {other:?}"),
        }
    }
    shared.close().unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// The spending on every block by the records, counted without the ledger.
fn sum_spending(gate: &Gate<BoxedLog>) -> u128 {
    let mut head = Head::EMPTY;
    let mut charges = 0;
    loop {
        let records = gate.log().read(head.length, 1000).expect("readable");
        if records.is_empty() {
            return charges * 1_000_000;
        }
        for record in records {
            let (event, next) = record.verify(head).expect("a chain");
            head = next;
            match event {
                Event::Charged(_) => charges += 1,
                Event::Cancelled { .. } => charges -= 1,
                _ => {}
            }
        }
    }
}
