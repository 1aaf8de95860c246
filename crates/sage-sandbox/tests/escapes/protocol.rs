//! The protocol of a command: environment, messages, exit codes and output, for well-behaved and for misbehaving commands.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;
use sage_sandbox::{
    Containment, Ending, Exit, Isolation, Landlock, Line, Observer, ReadOnlyMount, Run, RunError, Sandbox,
};
use serde_json::json;

use crate::Test;
use crate::harness::{RunResult, no_isolation, python, readable_folder, run, run_folder, small_limits, superuser};

pub(crate) const TESTS: &[Test] = &[
    ("protocol: a well-behaved command", well_behaved),
    ("protocol: the same without isolation", well_behaved_without_isolation),
    ("protocol: exit codes", exit_codes),
    ("protocol: a signal", signal),
    ("protocol: garbage in messages and print", garbage),
    ("protocol: messages from a shell", shell_messages),
    ("protocol: only the documented environment", environment),
    ("protocol: only the standard descriptors", descriptors),
    ("protocol: links in the output are not followed", output_links),
    ("protocol: a read-only mount", read_only_mount),
    ("protocol: a socket that is given", socket_given),
    ("protocol: a program that does not exist", no_program),
    ("protocol: a folder without rows", no_rows),
    ("protocol: rows that the sandbox cannot read", unreadable_rows),
    ("protocol: stopped by the caller", stopped),
    ("protocol: ordinary tools work", ordinary_tools),
    ("protocol: a set-user program gains nothing", set_user),
    ("protocol: system calls of another architecture", other_architecture),
    ("protocol: an available sandbox is reported", available),
    ("protocol: an unavailable sandbox is explained", unavailable),
    ("protocol: a program that is not a stage", not_a_stage),
];

const WELL_BEHAVED: &str = "
import json, os
context = json.load(open(os.environ['SAGE_CONTEXT']))
messages = open(os.environ['SAGE_MESSAGES'], 'w')
total = 0
for name in sorted(os.listdir(context['rows'])):
    total += sum(int(cell) for cell in open(context['rows'] + '/' + name).read().split(','))
    print(json.dumps({'kind': 'progress', 'file': name}), file=messages, flush=True)
with open(os.environ['SAGE_OUTPUT'] + '/model.bin', 'w') as model:
    model.write(str(total))
print(json.dumps({'kind': 'done'}), file=messages)
print('trained')
";

fn assert_success(ran: &RunResult) {
    assert_eq!(ran.report.ending, Ending::Exit(Exit::Success), "{}", ran.printed());
}

fn check_behaviour(containment: Containment) -> RunResult {
    let ran = python(containment, WELL_BEHAVED, small_limits());
    assert_success(&ran);
    let progress = Line::Json(json!({"kind": "progress", "file": "part-0.csv"}));
    assert_eq!(ran.lines, [progress, Line::Json(json!({"kind": "done"}))]);
    let listing = ran.report.output.files().expect("a listing");
    assert_eq!((listing.files.len(), listing.skipped), (1, 0));
    assert_eq!(ran.report.output.read(Path::new("model.bin")).expect("the model"), b"6");
    assert_eq!(ran.report.standard_output.text(), "trained\n");
    ran
}

fn well_behaved() -> Result<(), Failed> {
    let ran = check_behaviour(Containment::Isolated);
    assert!(matches!(ran.report.isolation, Isolation::Full { .. }));
    Ok(())
}

fn well_behaved_without_isolation() -> Result<(), Failed> {
    let ran = check_behaviour(no_isolation());
    assert_eq!(ran.report.isolation, Isolation::None { allowed_by: "a test".to_owned() });
    Ok(())
}

fn exit_codes() -> Result<(), Failed> {
    for (code, exit) in
        [("0", Exit::Success), ("75", Exit::TryLater), ("1", Exit::Failed(1)), ("255", Exit::Failed(255))]
    {
        for containment in [Containment::Isolated, no_isolation()] {
            let ran = run(containment, &["sh", "-c", &format!("exit {code}")], None, small_limits()).expect("it runs");
            assert_eq!(ran.report.ending, Ending::Exit(exit), "{code}");
        }
    }
    Ok(())
}

fn signal() -> Result<(), Failed> {
    for containment in [Containment::Isolated, no_isolation()] {
        let ran = run(containment, &["sh", "-c", "kill -SEGV $$"], None, small_limits()).expect("it runs");
        assert_eq!(ran.report.ending, Ending::Signal(11));
    }
    Ok(())
}

fn garbage() -> Result<(), Failed> {
    let program = "import os\nfile = open(os.environ['SAGE_MESSAGES'], 'wb')\n\
                   file.write(bytes(range(256)) * 40 + b'\\n{\"a\": \\n[1]\\nno newline')\nos.write(1, bytes(range(256)))\n";
    let ran = python(Containment::Isolated, program, small_limits());
    assert_success(&ran);
    assert!(ran.lines.contains(&Line::Json(json!([1]))), "{:?}", ran.lines);
    assert_eq!(ran.lines.last(), Some(&Line::Text("no newline".to_owned())));
    assert_eq!(ran.report.standard_output.total(), 256);
    Ok(())
}

fn shell_messages() -> Result<(), Failed> {
    let script = "echo '{\"a\":1}' > $SAGE_MESSAGES; echo '{\"a\":2}' >> \"$SAGE_MESSAGES\"; echo said > /dev/stderr; echo $$ > /dev/null";
    let ran = run(Containment::Isolated, &["sh", "-c", script], None, small_limits()).expect("it runs");
    assert_success(&ran);
    assert_eq!(ran.lines, [Line::Json(json!({"a": 1})), Line::Json(json!({"a": 2}))]);
    assert_eq!(ran.report.standard_error.text(), "said\n");
    Ok(())
}

fn environment() -> Result<(), Failed> {
    let ran = run(Containment::Isolated, &["env"], None, small_limits()).expect("it runs");
    let mut lines: Vec<String> = ran.report.standard_output.text().lines().map(str::to_owned).collect();
    lines.sort();
    let expected = [
        "HOME=/tmp",
        "LANG=C.UTF-8",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "SAGE_CONTEXT=/sage/context.json",
        "SAGE_MESSAGES=/sage/messages",
        "SAGE_OUTPUT=/sage/output",
        "TMPDIR=/tmp",
    ];
    assert_eq!(lines, expected);
    Ok(())
}

fn descriptors() -> Result<(), Failed> {
    // A descriptor that every child of this process inherits, as a careless library may leave open.
    let leak = File::open("/dev/zero").expect("a file");
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).expect("inheritable");
    let list = "ls -l /proc/self/fd";
    let plain = Command::new("sh").args(["-c", list]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&plain.stdout).contains("/dev/zero"), "nothing leaks");
    let ran = run(Containment::Isolated, &["sh", "-c", list], None, small_limits()).expect("it runs");
    let text = ran.report.standard_output.text();
    assert!(!text.contains("/dev/zero") && !text.contains("socket:"), "{text}");
    // The three standard ones, and the folder that is being listed.
    assert_eq!(text.lines().filter(|line| line.contains("->")).count(), 4, "{text}");
    Ok(())
}

fn output_links() -> Result<(), Failed> {
    let folder = readable_folder();
    let secret = folder.path().join("secret");
    fs::write(&secret, "secret").expect("a secret");
    let script = format!(
        "cd $SAGE_OUTPUT; ln -s {} link; ln -s / root; mkfifo pipe; echo model > model; ln model again",
        secret.display()
    );
    for containment in [Containment::Isolated, no_isolation()] {
        let ran = run(containment, &["sh", "-c", &script], None, small_limits()).expect("it runs");
        assert_success(&ran);
        let listing = ran.report.output.files().expect("a listing");
        let names: Vec<_> = listing.files.iter().map(|file| file.path.to_string_lossy().into_owned()).collect();
        assert_eq!((names, listing.skipped), (vec!["again".to_owned(), "model".to_owned()], 3));
        let below = format!("root{}", secret.display());
        for path in ["link", "pipe", below.as_str(), "../context.json"] {
            assert!(ran.report.output.read(Path::new(path)).is_err(), "{path}");
        }
    }
    Ok(())
}

fn with_folder(edit: impl FnOnce(&mut Run)) -> Result<RunResult, RunError> {
    let parent = readable_folder();
    let sandbox = Sandbox::new(Containment::Isolated);
    let folder = run_folder(parent.path(), &sandbox);
    let mut run = Run {
        command: vec!["true".to_owned()],
        folder,
        code: None,
        mounts: Vec::new(),
        socket: None,
        limits: small_limits(),
    };
    edit(&mut run);
    let mut lines = Vec::new();
    let report = sandbox.run(&run, &mut |line| lines.push(line))?;
    Ok(RunResult { report, lines, _folder: parent })
}

/// The command can connect to the given socket, repeatedly, and to no other.
fn socket_given() -> Result<(), Failed> {
    const CLIENT: &str = "
import os, socket
def receive(address):
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(60)
    try:
        peer.connect(address)
        return peer.recv(5)
    except OSError as error:
        return None
assert receive('/sage/socket') == b'hello' and receive('/sage/socket') == b'hello'
for other in ['@OTHER@', '@GIVEN@', '\\0@ABSTRACT@', '/proc/@TEST@/root@OTHER@', '/sage/socket/../other']:
    assert receive(other) is None, other
for family in [socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET]:
    try:
        socket.socket(family, socket.SOCK_RAW if family > 10 else socket.SOCK_STREAM)
    except OSError:
        continue
    raise SystemExit(3)
there = '/sage/socket'
for change, rest in [(os.unlink, []), (os.rename, ['/tmp/x']), (os.chmod, [0])]:
    try:
        change(there, *rest)
    except OSError:
        continue
    raise SystemExit(4)
";
    let folder = readable_folder();
    let (given, other) = (folder.path().join("given"), folder.path().join("other"));
    let abstract_name = format!("sage-test-{}", std::process::id());
    let name = SocketAddr::from_abstract_name(&abstract_name).expect("a name");
    for listener in [UnixListener::bind(&given), UnixListener::bind(&other), UnixListener::bind_addr(&name)] {
        let listener = listener.expect("a listener");
        std::thread::spawn(move || listener.incoming().flatten().for_each(|mut peer| drop(peer.write_all(b"hello"))));
    }
    for socket in [&given, &other] {
        fs::set_permissions(socket, Permissions::from_mode(0o666)).expect("a mode");
    }
    let words = [
        ("@OTHER@", other.display().to_string()),
        ("@GIVEN@", given.display().to_string()),
        ("@ABSTRACT@", abstract_name),
        ("@TEST@", std::process::id().to_string()),
    ];
    let program = words.iter().fold(CLIENT.to_owned(), |text, (word, value)| text.replace(word, value));
    let ran = with_folder(|run| {
        run.command = ["python3", "-c", &program].map(str::to_owned).to_vec();
        run.socket = Some(given.clone());
    });
    assert_success(&ran.expect("it runs"));
    let file = folder.path().join("file");
    fs::write(&file, "no socket").expect("a file");
    let refused = with_folder(|run| run.socket = Some(file));
    assert!(matches!(refused, Err(RunError::Invalid(_))), "{refused:?}");
    Ok(())
}

fn read_only_mount() -> Result<(), Failed> {
    let folder = readable_folder();
    fs::write(folder.path().join("library"), "shown").expect("a file");
    let ran = with_folder(|run| {
        let script = "cat /opt/environment/library; echo x > /opt/environment/library";
        run.command = ["sh", "-c", script].map(str::to_owned).to_vec();
        run.mounts = vec![ReadOnlyMount { source: folder.path().to_owned(), target: "/opt/environment".into() }];
    });
    let ran = ran.expect("it runs");
    assert_eq!(ran.report.standard_output.text(), "shown");
    assert_ne!(ran.report.ending, Ending::Exit(Exit::Success));
    let reserved = ReadOnlyMount { source: folder.path().to_owned(), target: "/proc".into() };
    let refused = with_folder(|run| run.mounts = vec![reserved]);
    assert!(matches!(refused, Err(RunError::Invalid(_))), "{refused:?}");
    Ok(())
}

fn no_program() -> Result<(), Failed> {
    for containment in [Containment::Isolated, no_isolation()] {
        let ran = run(containment, &["no-program-has-this-name"], None, small_limits());
        assert!(matches!(&ran, Err(RunError::Refused { step, .. }) if step.contains("no-program")), "{ran:?}");
    }
    Ok(())
}

fn no_rows() -> Result<(), Failed> {
    let ran = with_folder(|run| fs::remove_file(run.folder.join("context.json")).expect("removed"));
    assert!(matches!(ran, Err(RunError::Invalid(_))), "{ran:?}");
    let ran = with_folder(|run| run.command.clear());
    assert!(matches!(ran, Err(RunError::Invalid(_))), "{ran:?}");
    Ok(())
}

fn unreadable_rows() -> Result<(), Failed> {
    let ran = with_folder(|run| {
        let row = run.folder.join("rows/part-0.csv");
        fs::set_permissions(row, Permissions::from_mode(0o000)).expect("a mode");
    });
    assert!(matches!(&ran, Err(RunError::Refused { reason, .. }) if reason.contains("part-0.csv")), "{ran:?}");
    Ok(())
}

struct Impatient(u32);

impl Observer for Impatient {
    fn message(&mut self, _: Line) {}

    fn should_stop(&mut self) -> bool {
        self.0 += 1;
        self.0 > 5
    }
}

fn stopped() -> Result<(), Failed> {
    for containment in [Containment::Isolated, no_isolation()] {
        let parent = readable_folder();
        let sandbox = Sandbox::new(containment);
        let folder = run_folder(parent.path(), &sandbox);
        let command = vec!["sleep".to_owned(), "600".to_owned()];
        let run = Run { command, folder, code: None, mounts: Vec::new(), socket: None, limits: small_limits() };
        let report = sandbox.run(&run, &mut Impatient(0)).expect("it runs");
        assert_eq!(report.ending, Ending::Stopped);
        assert!(report.time < Duration::from_secs(60));
    }
    Ok(())
}

fn ordinary_tools() -> Result<(), Failed> {
    let program = "
import asyncio, concurrent.futures, ctypes, datetime, multiprocessing, os, pwd, sqlite3, subprocess, tempfile, threading, zlib
assert subprocess.run(['sh', '-c', 'echo a | tr a b'], capture_output=True, text=True).stdout == 'b\\n'
assert pwd.getpwuid(os.getuid()).pw_name == 'sage', os.getuid()
with tempfile.NamedTemporaryFile() as file: file.write(b'x')
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
with concurrent.futures.ThreadPoolExecutor(2) as pool: assert list(pool.map(abs, [-1])) == [1]
asyncio.run(asyncio.sleep(0))
assert len(os.sched_getaffinity(0)) >= 1 and os.cpu_count() >= 1
os.sched_setaffinity(0, os.sched_getaffinity(0))
base = sqlite3.connect(os.environ['SAGE_OUTPUT'] + '/base')
base.execute('create table t(a)'); base.commit()
os.mkfifo(os.environ['TMPDIR'] + '/pipe')
datetime.datetime.now().astimezone()
try: os.abort() if os.fork() == 0 else os.wait()
finally: print('done')
";
    let ran = python(Containment::Isolated, program, small_limits());
    assert_success(&ran);
    Ok(())
}

/// A program that belongs to the superuser and has the set-user bit, where only a superuser can make one.
fn set_user() -> Result<(), Failed> {
    if !superuser() {
        return Ok(());
    }
    let folder = readable_folder();
    let program = folder.path().join("id");
    fs::copy("/usr/bin/id", &program).expect("a copy");
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).expect("a mode");
    let words = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let plain = Command::new("setpriv").args(words).arg(&program).arg("-u").output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&plain.stdout), "0\n", "the set-user bit has no effect here");
    let ran = run(Containment::Isolated, &["./id", "-u"], Some(folder.path()), small_limits()).expect("it runs");
    assert_eq!(ran.report.standard_output.text(), "1000\n");
    Ok(())
}

/// 32-bit system calls have different numbers, which the seccomp filter does not allow.
fn other_architecture() -> Result<(), Failed> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    let program = "
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex('b814000000cd80c3'))
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
print('before', flush=True)
print('after', call())
";
    let ran = python(Containment::Isolated, program, small_limits());
    assert_eq!(ran.report.standard_output.text(), "before\n");
    // Killed by the seccomp filter, or by a kernel without 32-bit system calls.
    assert!(matches!(ran.report.ending, Ending::Signal(31 | 11)), "{}", ran.report.ending);
    Ok(())
}

fn available() -> Result<(), Failed> {
    let isolation = Sandbox::new(Containment::Isolated).available().expect("a sandbox is available here");
    assert!(matches!(isolation, Isolation::Full { landlock: Landlock::Full | Landlock::Partial | Landlock::Absent }));
    Ok(())
}

/// In a user namespace that may not create others, no sandbox can be set up.
fn unavailable() -> Result<(), Failed> {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" --check-available";
    let folder = readable_folder();
    let copy = folder.path().join("asks");
    fs::copy("/proc/self/exe", &copy).expect("a copy");
    let output = Command::new("unshare").args(["--user", "--map-root-user", "sh", "-c", script]).arg(&copy).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = if superuser() { "user 65534 is not known" } else { "max_user_namespaces is 0" };
    assert!(text.contains(why), "{text} {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn not_a_stage() -> Result<(), Failed> {
    for program in ["/bin/true", "/bin/cat"] {
        let sandbox = Sandbox::with_program(Containment::Isolated, program.into());
        let result = sandbox.available();
        assert!(matches!(result, Err(RunError::NoResponse)), "{program}: {result:?}");
    }
    Ok(())
}
