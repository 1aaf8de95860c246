//! Attempts to stay: after the command's end, after the caller's.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};
use sage_sandbox::{Containment, Limits, Line, Run, Sandbox};

use crate::Test;
use crate::stand::{Outside, no_walls, open_folder, processes_with, run, run_folder, small, soon};

pub(crate) const TESTS: &[Test] = &[
    ("nothing left: a daemon", daemon),
    ("nothing left: a daemon, after the time limit", daemon_after_limit),
    ("nothing left: without walls a daemon stays", daemon_without_walls),
    ("nothing left: the caller is killed", caller_killed),
    ("nothing left: the caller is killed while a daemon runs", caller_killed_with_daemon),
    ("nothing left: a caller that panics", caller_panics),
    ("nothing left: mounts and folders of the machine", machine_unchanged),
];

/// Leaves its group, its session and its parent, and sleeps under a name.
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

fn left(mark: &str) -> Vec<i32> {
    processes_with(&format!("daemon-of-{mark}"))
}

fn daemon() -> Result<(), Failed> {
    let outside = Outside::new();
    let ran = outside.attack(Containment::Closed, DAEMON, small());
    assert!(ran.printed().contains("HELD nothing came"), "{}", ran.printed());
    // At once, not soon: it has returned.
    assert_eq!(left(&outside.mark), Vec::<i32>::new());
    Ok(())
}

fn daemon_after_limit() -> Result<(), Failed> {
    let outside = Outside::new();
    let limits = Limits { time: Duration::from_secs(1), ..small() };
    outside.attack(Containment::Closed, &format!("{DAEMON}time.sleep(600)"), limits);
    assert_eq!(left(&outside.mark), Vec::<i32>::new());
    Ok(())
}

/// The twin: the same program does outlive where there is no box, so the tests above can fail.
fn daemon_without_walls() -> Result<(), Failed> {
    let outside = Outside::new();
    outside.attack(no_walls(), DAEMON, small());
    let stayed = left(&outside.mark);
    for process in &stayed {
        kill_process(Pid::from_raw(*process).expect("a process"), Signal::KILL).expect("killed");
    }
    assert_eq!(stayed.len(), 1);
    Ok(())
}

/// Turns this program into a caller that runs a command for ever, or that asks whether boxes can be closed.
pub(crate) fn start_if_asked() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--run-for-ever", script] => {
            println!("started");
            let ran = run(Containment::Closed, &["sh", "-c", script], None, small());
            println!("{ran:?}");
        }
        ["--ask-whether-available"] => match Sandbox::new(Containment::Closed).available() {
            Ok(walls) => println!("{walls:?}"),
            Err(error) => println!("{error}"),
        },
        _ => return,
    }
    std::process::exit(0);
}

fn kill_caller_of(script: &str, mark: &str) {
    let mut caller = Command::new("/proc/self/exe");
    caller.args(["--run-for-ever", script]).stdout(Stdio::piped()).stdin(Stdio::null());
    let mut caller = caller.spawn().expect("a caller");
    let mut line = String::new();
    BufReader::new(caller.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    assert!(soon(|| !processes_with(mark).is_empty() && !inside(mark).is_empty()), "the command never ran");
    caller.kill().expect("killed");
    caller.wait().expect("dead");
    assert!(soon(|| inside(mark).is_empty()), "still there: {:?}", inside(mark));
}

/// The processes with a word, but for the callers, whose command lines have it too.
fn inside(mark: &str) -> Vec<i32> {
    let caller = |process: &i32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("--run-for-ever")
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
    let place = open_folder();
    let sandbox = Sandbox::new(Containment::Closed);
    let folder = run_folder(place.path(), &sandbox);
    let mark = format!("panics-{}", std::process::id());
    let script = format!("echo 1 > $SAGE_MESSAGES; sleep 600; : {mark}");
    let command = ["sh", "-c", &script].map(str::to_owned).to_vec();
    let run = Run { command, folder, code: None, shown: Vec::new(), socket: None, limits: small() };
    let thread = std::thread::spawn(move || {
        sandbox.run(&run, &mut |_: Line| panic!("on purpose")).map(drop).map_err(|error| error.to_string())
    });
    assert!(thread.join().is_err(), "it did not panic");
    assert_eq!(processes_with(&mark), Vec::<i32>::new());
    Ok(())
}

fn machine_unchanged() -> Result<(), Failed> {
    let mounts = || fs::read_to_string("/proc/self/mountinfo").expect("the mounts").lines().count();
    let before = mounts();
    let ran = run(Containment::Closed, &["sh", "-c", "echo x > /tmp/left; echo x > $SAGE_OUTPUT/left"], None, small());
    let ran = ran.expect("it runs");
    assert_eq!(mounts(), before);
    assert!(!std::path::Path::new("/tmp/left").exists());
    assert_eq!(ran.report.output.files().expect("a listing").files.len(), 1);
    Ok(())
}
