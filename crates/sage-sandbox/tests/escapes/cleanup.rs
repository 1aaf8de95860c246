//! Attempts to leave processes behind after the command or the caller has ended.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};
use sage_sandbox::{Containment, Limits, Line, Run, Sandbox};

use crate::Test;
use crate::harness::{Host, holds_soon, no_isolation, processes_with, readable_folder, run, run_folder, small_limits};

pub(crate) const TESTS: &[Test] = &[
    ("cleanup: a daemon", daemon),
    ("cleanup: a daemon, after the time limit", daemon_after_limit),
    ("cleanup: without isolation a daemon survives", daemon_without_isolation),
    ("cleanup: the caller is killed", caller_killed),
    ("cleanup: the caller is killed while a daemon runs", caller_killed_with_daemon),
    ("cleanup: a caller that panics", caller_panics),
    ("cleanup: mounts and folders of the host", host_unchanged),
];

/// Leaves its group, its session and its parent, and sleeps under a unique name.
const DAEMON: &str = "
if os.fork() == 0:
    os.setsid()
    for number in range(1, 32):
        try: signal.signal(number, signal.SIG_IGN)
        except OSError: pass
    if os.fork() == 0:
        for number in (0, 1, 2): os.close(number)
        os.execvp('sleep', ['daemon-of-@MARK@', '600'])
    os._exit(0)
os.wait()
time.sleep(0.3)
";

fn surviving_daemons(mark: &str) -> Vec<i32> {
    processes_with(&format!("daemon-of-{mark}"))
}

fn daemon() -> Result<(), Failed> {
    let host = Host::new();
    let ran = host.attack(Containment::Isolated, DAEMON, small_limits());
    assert!(ran.printed().contains("BLOCKED no effect"), "{}", ran.printed());
    // Without waiting, because the run has returned.
    assert_eq!(surviving_daemons(&host.mark), Vec::<i32>::new());
    Ok(())
}

fn daemon_after_limit() -> Result<(), Failed> {
    let host = Host::new();
    let limits = Limits { time: Duration::from_secs(1), ..small_limits() };
    host.attack(Containment::Isolated, &format!("{DAEMON}time.sleep(600)"), limits);
    assert_eq!(surviving_daemons(&host.mark), Vec::<i32>::new());
    Ok(())
}

/// The same program survives without a sandbox, so the tests above can fail.
fn daemon_without_isolation() -> Result<(), Failed> {
    let host = Host::new();
    host.attack(no_isolation(), DAEMON, small_limits());
    assert!(holds_soon(|| surviving_daemons(&host.mark).len() == 1), "{:?}", surviving_daemons(&host.mark));
    let stayed = surviving_daemons(&host.mark);
    for process in &stayed {
        kill_process(Pid::from_raw(*process).expect("a process"), Signal::KILL).expect("killed");
    }
    assert_eq!(stayed.len(), 1);
    Ok(())
}

/// Turns this program into a caller that runs a command forever, or that checks whether a sandbox is available.
pub(crate) fn start_if_requested() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--run-forever", script] => {
            println!("started");
            let ran = run(Containment::Isolated, &["sh", "-c", script], None, small_limits());
            println!("{ran:?}");
        }
        ["--check-available"] => match Sandbox::new(Containment::Isolated).available() {
            Ok(isolation) => println!("{isolation:?}"),
            Err(error) => println!("{error}"),
        },
        _ => return,
    }
    std::process::exit(0);
}

fn kill_caller_of(script: &str, mark: &str) {
    let mut caller = Command::new("/proc/self/exe");
    caller.args(["--run-forever", script]).stdout(Stdio::piped()).stdin(Stdio::null());
    let mut caller = caller.spawn().expect("a caller");
    let mut line = String::new();
    BufReader::new(caller.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    assert!(
        holds_soon(|| !processes_with(mark).is_empty() && !sandboxed_processes(mark).is_empty()),
        "the command never ran"
    );
    caller.kill().expect("killed");
    caller.wait().expect("dead");
    assert!(holds_soon(|| sandboxed_processes(mark).is_empty()), "still there: {:?}", sandboxed_processes(mark));
}

/// The processes whose command line contains a word, except the callers.
fn sandboxed_processes(mark: &str) -> Vec<i32> {
    let caller = |process: &i32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("--run-forever")
    };
    processes_with(mark).into_iter().filter(|process| !caller(process)).collect()
}

fn caller_killed() -> Result<(), Failed> {
    let mark = format!("kept-{}", std::process::id());
    kill_caller_of(&format!("sleep 600; : {mark}"), &mark);
    Ok(())
}

fn caller_killed_with_daemon() -> Result<(), Failed> {
    let mark = format!("stays-{}", std::process::id());
    kill_caller_of(&format!("trap '' TERM HUP; setsid sh -c 'sleep 600; : {mark}' & sleep 600"), &mark);
    Ok(())
}

fn caller_panics() -> Result<(), Failed> {
    let parent = readable_folder();
    let sandbox = Sandbox::new(Containment::Isolated);
    let folder = run_folder(parent.path(), &sandbox);
    let mark = format!("panics-{}", std::process::id());
    let script = format!("echo 1 > $SAGE_MESSAGES; sleep 600; : {mark}");
    let command = ["sh", "-c", &script].map(str::to_owned).to_vec();
    let run = Run { command, folder, code: None, mounts: Vec::new(), socket: None, limits: small_limits() };
    let thread = std::thread::spawn(move || {
        sandbox.run(&run, &mut |_: Line| panic!("on purpose")).map(drop).map_err(|error| error.to_string())
    });
    assert!(thread.join().is_err(), "it did not panic");
    assert_eq!(processes_with(&mark), Vec::<i32>::new());
    Ok(())
}

fn host_unchanged() -> Result<(), Failed> {
    let mounts = || fs::read_to_string("/proc/self/mountinfo").expect("the mounts").lines().count();
    let before = mounts();
    let ran = run(
        Containment::Isolated,
        &["sh", "-c", "echo x > /tmp/left; echo x > $SAGE_OUTPUT/left"],
        None,
        small_limits(),
    );
    let ran = ran.expect("it runs");
    assert_eq!(mounts(), before);
    assert!(!std::path::Path::new("/tmp/left").exists());
    assert_eq!(ran.report.output.files().expect("a listing").files.len(), 1);
    Ok(())
}
