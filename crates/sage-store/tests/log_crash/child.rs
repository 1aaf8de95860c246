//! A process that uses a log and says on its standard output what it was told, and the judge who compares
//! what it said with what is left after it was killed, starved or cut off.

#![allow(dead_code, reason = "every test program uses a part of it")]

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sage_kernel::{
    BlockId, ChargeOutcome, ContextId, Event, Gate, GateError, Grant, GrantId, GrantState, Head, Lane, Log, StreamId,
};
use sage_store::log::{BoxedLog, Directory, GroupCommit, Heads, Sound};

use crate::world::{self, BLOCKS, FITTING, furnish, request};

/// What tells a test program that it is the child: the place it works in, and its task.
const PLACE: &str = "SAGE_CHILD_PLACE";
const TASK: &str = "SAGE_CHILD_TASK";

/// The directory and the exported head of a place.
pub(crate) fn directory(place: &Path) -> PathBuf {
    place.join("engine")
}

pub(crate) fn heads(place: &Path) -> Heads {
    Heads::new(vec![place.join("head")], NonZeroU64::new(10).expect("not zero"), place)
}

/// The place with a furnished log in it, closed in good order.
pub(crate) fn furnished(place: tempfile::TempDir) -> tempfile::TempDir {
    furnish(&mut world::gate(&directory(place.path())), FITTING);
    place
}

/// The command that runs this test program again, as the child with this task.
pub(crate) fn child(place: &Path, task: &str) -> Command {
    under(Command::new(std::env::current_exe().expect("this program")), place, task)
}

/// Whether there is `strace`; if not, the test says that it is left out.
pub(crate) fn has_strace() -> bool {
    let found = Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("left out: strace is not installed");
    }
    found
}

/// The same under another program, as a tracer.
pub(crate) fn traced(tracer: &mut Command, place: &Path, task: &str) -> Command {
    tracer.arg(std::env::current_exe().expect("this program"));
    let mut whole = Command::new(tracer.get_program());
    whole.args(tracer.get_args());
    under(whole, place, task)
}

fn under(mut command: Command, place: &Path, task: &str) -> Command {
    command.args(["act_as_child", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(PLACE, place).env(TASK, task).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// What the child does; in the parent it does nothing. Every test program that has children calls it from a
/// test of the name `act_as_child`.
pub(crate) fn act() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let task = std::env::var(TASK).expect("a task");
    let (verb, round) = task.split_once(' ').expect("a verb and a word");
    match verb {
        "work" => drop(work(&place, round)),
        "leave" => {
            let _open = work(&place, round);
            std::process::exit(0)
        }
        "storm" => storm(&place, round),
        "recover" => drop(open(&place)),
        _ => panic!("no task {task}"),
    }
}

/// Opens a place as a server would: heads compared, what ran before burnt.
fn open(place: &Path) -> Option<GroupCommit<BoxedLog>> {
    let open = || -> Result<Sound<BoxedLog>, Box<dyn std::error::Error>> {
        let gate = Directory::open(directory(place))?.gate()?;
        let mut sound = world::sound(gate, heads(place));
        sound.burn_running(4)?;
        Ok(sound)
    };
    match open() {
        Ok(sound) => Some(GroupCommit::new(sound, || 5)),
        Err(error) => {
            say(&format!("failed {error}"));
            None
        }
    }
}

fn say(line: &str) {
    // One write for each line, so that a line is there whole or not at all.
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n@{line}\n").as_bytes()).and_then(|()| out.flush()).expect("somebody listens");
}

/// Two hundred steps of every kind, one after the other; the first that fails ends it. Gives back what is to be
/// closed, or left open at the end of the process.
fn work(place: &Path, round: &str) -> Option<GroupCommit<BoxedLog>> {
    let group_commit = open(place)?;
    let mut grants: Vec<Grant> = Vec::new();
    let mut running: Vec<GrantId> = Vec::new();
    for step in 0..200 {
        if let Err(error) = one_step(&group_commit, round, step, &mut grants, &mut running) {
            say(&format!("failed {error}"));
            if group_commit.charge(request(&format!("{round}/late"))).is_ok() {
                say("violation: something was granted after a failure");
            }
            break;
        }
    }
    Some(group_commit)
}

fn one_step(
    group_commit: &GroupCommit<BoxedLog>, round: &str, step: u32, grants: &mut Vec<Grant>, running: &mut Vec<GrantId>,
) -> Result<(), GateError> {
    let time = group_commit.now();
    let key = format!("{round}/{step}");
    match step % 10 {
        5 => {
            let again = group_commit.charge(request(&format!("{round}/{}", step - 3)))?;
            if !matches!(again, Answer::Repeated(..)) {
                say("violation: the same key was granted twice");
            }
        }
        6 => {
            let permit = group_commit.with(|gate| grants.pop().map(|grant| gate.start(time, grant)).transpose())??;
            running.extend(permit.map(|permit| permit.grant()));
            say(&format!("started {}", running[running.len() - 1].0));
        }
        7 => {
            let Some(grant) = grants.pop() else { return Ok(()) };
            let id = grant.id();
            group_commit.with(|gate| gate.cancel(time, grant))??;
            say(&format!("cancelled {}", id.0));
        }
        // Large enough that the write-ahead log is written over more than once.
        8 => group_commit.with(|gate| gate.note(time, "large", vec![7; 300_000]))??,
        9 if step % 20 == 9 => {
            let Some(id) = running.pop() else { return Ok(()) };
            group_commit.with(|gate| gate.burn(time, id))??;
            say(&format!("burnt {}", id.0));
        }
        _ => match group_commit.charge(request(&key))? {
            Answer::Granted(grant) => {
                say(&format!("granted {} {key}", grant.id().0));
                grants.push(grant);
            }
            other => say(&format!("violation: {other:?}")),
        },
    }
    Ok(())
}

/// Eight clients that charge for as long as they live.
fn storm(place: &Path, round: &str) {
    let Some(group_commit) = open(place) else { return };
    std::thread::scope(|scope| {
        for client in 0..8 {
            let group_commit = &group_commit;
            scope.spawn(move || {
                for charge in 0.. {
                    let key = format!("{round}/{client}/{charge}");
                    match group_commit.charge(request(&key)) {
                        Ok(Answer::Granted(grant)) if charge % 7 == 3 => {
                            let id = grant.id();
                            say(&format!("granted {} {key}", id.0));
                            if group_commit.with(|gate| gate.start(5, grant)).is_ok_and(|permit| permit.is_ok()) {
                                say(&format!("started {}", id.0));
                            }
                        }
                        Ok(ChargeOutcome::Granted(grant)) => say(&format!("granted {} {key}", grant.id().0)),
                        other => return say(&format!("violation: {other:?}")),
                    }
                }
            });
        }
    });
}

/// What a child said, in order. What libtest says is not of it.
#[derive(Clone, Default)]
pub(crate) struct Said {
    /// Key and number of every grant.
    pub(crate) granted: BTreeMap<u64, String>,
    pub(crate) started: Vec<u64>,
    pub(crate) cancelled: Vec<u64>,
    pub(crate) burnt: Vec<u64>,
    pub(crate) failed: Vec<String>,
}

impl Said {
    pub(crate) fn hear(&mut self, text: &str) {
        // The last line may have been cut short.
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
                _ => panic!("the child says: {line}"),
            }
        }
    }
}

/// Opens the place again and holds it to everything the child was told. `exact` keys are asked for again.
pub(crate) fn judge(place: &Path, said: &Said, name: &str) {
    let gate = Directory::open(directory(place)).and_then(|directory| directory.gate());
    let gate = gate.unwrap_or_else(|error| panic!("{name}: {error}"));
    let spent = balance(&gate);
    let mut sound = world::sound(gate, heads(place));
    let state = |sound: &Sound<BoxedLog>, id: u64| sound.ledger().grant_state(GrantId(id));
    for &id in said.granted.keys() {
        assert!(state(&sound, id).is_some(), "{name}: grant {id} was acknowledged and is gone");
    }
    for &id in &said.started {
        let found = state(&sound, id);
        assert!(matches!(found, Some(GrantState::Started | GrantState::Burnt)), "{name}: {id} is {found:?}");
    }
    for (list, expected) in [(&said.cancelled, GrantState::Cancelled), (&said.burnt, GrantState::Burnt)] {
        for &id in list {
            assert_eq!(state(&sound, id), Some(expected), "{name}: {id}");
        }
    }
    sound.burn_running(6).unwrap_or_else(|error| panic!("{name}: {error}"));
    for &id in &said.started {
        assert_eq!(state(&sound, id), Some(GrantState::Burnt), "{name}: {id} was started before the crash");
    }
    let stream = sound.ledger().stream(StreamId(0)).expect("the stream");
    for block in [0, BLOCKS - 1] {
        let found = stream.spent(ContextId(0), BlockId(block), Lane::Train).expect("a block")[0];
        assert_eq!(found, spent, "{name}: block {block}");
    }
    ask_again(sound, said, name);
}

/// The same keys again, in another order: the same grants, and none that is handed out a second time.
fn ask_again(sound: Sound<BoxedLog>, said: &Said, name: &str) {
    let group_commit = GroupCommit::new(sound, || 0);
    for (&id, key) in said.granted.iter().rev().step_by(7) {
        match group_commit.charge(request(key)) {
            Ok(Answer::Repeated(found, state, grant)) => {
                assert_eq!(found.0, id, "{name}: {key}");
                assert_eq!(grant.is_some(), state == GrantState::Charged, "{name}: {key} is {state:?}");
            }
            other => panic!("{name}: {key} again: {other:?}"),
        }
    }
    group_commit.close().unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// What the records say was spent on every block, counted without the ledger.
fn balance(gate: &Gate<BoxedLog>) -> u128 {
    let mut head = Head::EMPTY;
    let mut standing = 0;
    loop {
        let records = gate.log().read(head.length, 1000).expect("readable");
        if records.is_empty() {
            return standing * 1_000_000;
        }
        for record in records {
            let (event, next) = record.verify(head).expect("a chain");
            head = next;
            match event {
                Event::Charged(_) => standing += 1,
                Event::Cancelled { .. } => standing -= 1,
                _ => {}
            }
        }
    }
}
