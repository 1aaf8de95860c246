//! Charge before read, in a system-call trace: no block file is opened before the charge and then the start of its
//! grant are flushed to disk.

use std::path::Path;
use std::process::{Command, Stdio};

use sage_engine::{Engine, EngineOptions, Opened};

use crate::world::{World, charge_request, days, principal, query};

const CHILD: &str = "SAGE_ORDER_CHILD";

/// Opens a file name that marks a position in the trace.
fn mark(name: &str) {
    drop(std::fs::File::open(format!("mark-{name}")));
}

/// Charges and reads in the child process; otherwise does nothing.
#[test]
fn act_as_child() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let opened = Engine::open(Path::new(&directory), &EngineOptions::default()).expect("a sound directory");
    let Opened::Ready(engine) = opened else { panic!("the directory is not fenced") };
    for round in 0..5 {
        mark("requested");
        let granted =
            engine.charge(&principal("mia"), charge_request(&format!("{round}"), days(1..=3), "1")).expect("granted");
        mark("granted");
        let session = engine.open_session(granted, &query(None, &[("d", "distance")])).expect("a session");
        mark("read");
        engine.release(session.finish(), [0; 32]).expect("released");
    }
}

#[test]
fn no_block_is_opened_before_its_charge_and_start_are_on_the_disk() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("left out: strace is not installed");
        return;
    }
    let world = World::new();
    world.with_rides(50).close().expect("closed");
    let trace = world.beside("trace");
    let status = Command::new("strace")
        .args(["-f", "-y", "-qq", "-e", "trace=openat,fdatasync,fsync", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().expect("this program"))
        .args(["order::act_as_child", "--exact", "--test-threads=1"])
        .env(CHILD, world.path())
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("strace runs").success());
    let trace = std::fs::read_to_string(&trace).expect("a trace");
    let (mut flushes, mut phase, mut reads) = (0, "", 0);
    for line in trace.lines() {
        let flushed = line.contains("log.db-wal") && line.contains("sync(") && line.ends_with("= 0");
        let opened = line.contains("openat(") && line.contains("/blocks/rides/day=");
        match ["requested", "granted", "read"].into_iter().find(|mark| line.contains(&format!("mark-{mark}"))) {
            Some(mark) => {
                // The charge is flushed before the grant is returned.
                assert!(mark != "granted" || flushes > 0, "granted without a flush");
                (phase, flushes) = (mark, 0);
            }
            None if opened => {
                assert_eq!(phase, "granted", "a block was opened without a grant: {line}");
                assert!(flushes > 0, "a block was opened before its start was flushed: {line}");
                reads += 1;
            }
            None => flushes += usize::from(flushed),
        }
    }
    assert!(reads >= 5 * 3, "{reads} blocks were seen to be opened");
}
