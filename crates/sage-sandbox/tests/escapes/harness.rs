//! The test harness: a host with a secret, listeners and a victim process, and functions that run a program in the
//! sandbox or without one.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sage_sandbox::{Containment, Limits, Line, Report, Run, RunError, Sandbox};
use tempfile::TempDir;

/// What no program in the sandbox may read.
pub(crate) const SECRET: &str = "the-secret-of-another-run";

/// The prelude of every attack.
const PRELUDE: &str = include_str!("prelude.py");

/// Whether the tests are run by the superuser.
pub(crate) fn superuser() -> bool {
    rustix::process::geteuid().is_root()
}

/// No isolation, for the runs in which attacks succeed.
pub(crate) fn no_isolation() -> Containment {
    Containment::None { allowed_by: "a test".to_owned() }
}

/// Limits that a test can wait for.
pub(crate) fn small_limits() -> Limits {
    Limits {
        time: Duration::from_secs(120),
        processor_time: Duration::from_secs(20),
        memory_bytes: 512 << 20,
        processes: 32,
        output_bytes: 8 << 20,
        output_files: 64,
        scratch_bytes: 8 << 20,
        message_bytes: 1 << 20,
        printed_bytes: 4 << 20,
        ..Limits::default()
    }
}

/// The host outside the sandbox.
pub(crate) struct Host {
    _folder: TempDir,
    pub(crate) secret: PathBuf,
    pub(crate) victim: Child,
    /// A unique word in the victim's command line.
    pub(crate) mark: String,
    port: u16,
    datagram_port: u16,
    socket: PathBuf,
    abstract_name: String,
    open_secret: File,
}

impl Host {
    /// Every test has its own host.
    pub(crate) fn new() -> Self {
        let folder = readable_folder();
        let secret = folder.path().join("secret.txt");
        fs::write(&secret, SECRET).expect("a secret");
        let mark = format!("mark-{}-{}", std::process::id(), unique());
        let victim = sleeper(&mark);
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a listener");
        let (port, datagram_port) = (number(tcp.local_addr()), number(udp.local_addr()));
        let socket = folder.path().join("socket");
        let path = UnixListener::bind(&socket).expect("a listener");
        let abstract_name = format!("sage-test-{mark}");
        let name = SocketAddr::from_abstract_name(&abstract_name).expect("a name");
        let hidden = UnixListener::bind_addr(&name).expect("a listener");
        // The threads end with the process; each serves the listeners of one host.
        std::thread::spawn(move || tcp.incoming().flatten().for_each(|mut s| drop(s.write_all(SECRET.as_bytes()))));
        for listener in [path, hidden] {
            std::thread::spawn(move || listener.incoming().flatten().for_each(|mut s| drop(s.write_all(b"hello"))));
        }
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((count, from)) = udp.recv_from(&mut bytes) {
                drop(udp.send_to(&bytes[..count], from));
            }
        });
        let open_secret = File::open(&secret).expect("the secret");
        Self { _folder: folder, secret, victim, mark, port, datagram_port, socket, abstract_name, open_secret }
    }

    /// Substitutes the properties of this host in an attack program.
    fn substitute(&self, program: &str) -> String {
        let open_secret = std::os::fd::AsRawFd::as_raw_fd(&self.open_secret);
        let words = [
            ("@SECRET@", self.secret.display().to_string()),
            ("@PORT@", self.port.to_string()),
            ("@DATAGRAM@", self.datagram_port.to_string()),
            ("@SOCKET@", self.socket.display().to_string()),
            ("@ABSTRACT@", self.abstract_name.clone()),
            ("@VICTIM@", self.victim.id().to_string()),
            ("@TEST@", std::process::id().to_string()),
            ("@DESCRIPTOR@", open_secret.to_string()),
            ("@MARK@", self.mark.clone()),
        ];
        words.iter().fold(program.to_owned(), |text, (word, value)| text.replace(word, value))
    }

    /// Whether the victim process is still alive.
    pub(crate) fn victim_lives(&mut self) -> bool {
        self.victim.try_wait().expect("the victim's state").is_none()
    }

    /// Runs an attack.
    pub(crate) fn attack(&self, containment: Containment, body: &str, limits: Limits) -> RunResult {
        let body: String = self.substitute(body).lines().map(|line| format!("    {line}\n")).collect();
        python(containment, &PRELUDE.replace("    BODY\n", &body), limits)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.victim.kill());
        drop(self.victim.wait());
    }
}

fn number(address: std::io::Result<std::net::SocketAddr>) -> u16 {
    address.expect("an address").port()
}

fn unique() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// Starts a single sleeping process with a given name.
fn sleeper(mark: &str) -> Child {
    let mut command = Command::new("sleep");
    command.arg0(mark).arg("600").env("SECRET", SECRET);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a victim")
}

/// A world-readable folder, as the parts of a superuser's run folder must be.
pub(crate) fn readable_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("its mode");
    folder
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) report: Report,
    pub(crate) lines: Vec<Line>,
    /// Without isolation the output is in the run folder, so the folder is kept.
    pub(crate) _folder: TempDir,
}

impl RunResult {
    pub(crate) fn printed(&self) -> String {
        format!("{}{}", self.report.standard_output.text(), self.report.standard_error.text())
    }
}

/// Creates a run folder, with a row and a context that contains the path of the rows.
pub(crate) fn run_folder(parent: &Path, sandbox: &Sandbox) -> PathBuf {
    let folder = parent.join("run");
    let rows = folder.join("rows");
    fs::create_dir_all(&rows).expect("folders");
    fs::write(rows.join("part-0.csv"), "1,2,3\n").expect("a row");
    let context = format!("{{\"rows\": \"{}\"}}", sandbox.rows_path(&folder).display());
    fs::write(folder.join("context.json"), context).expect("a context");
    for (path, mode) in [(&folder, 0o700), (&rows, 0o755)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
    }
    folder
}

/// Runs any command; `code` is its folder.
pub(crate) fn run(
    containment: Containment, command: &[&str], code: Option<&Path>, limits: Limits,
) -> Result<RunResult, RunError> {
    let parent = readable_folder();
    let sandbox = Sandbox::new(containment);
    let run = Run {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        folder: run_folder(parent.path(), &sandbox),
        code: code.map(Path::to_owned),
        mounts: Vec::new(),
        socket: None,
        limits,
    };
    let mut lines = Vec::new();
    let report = sandbox.run(&run, &mut |line| lines.push(line))?;
    Ok(RunResult { report, lines, _folder: parent })
}

/// Runs a Python program.
pub(crate) fn python(containment: Containment, program: &str, limits: Limits) -> RunResult {
    let code = readable_folder();
    let file = code.path().join("program.py");
    let numbers = super::syscalls::python();
    fs::write(&file, program.replace("NUMBERS = {}", &numbers)).expect("a program");
    run(containment, &["/usr/bin/python3", "program.py"], Some(code.path()), limits).expect("it runs")
}

/// The processes of the host whose command line contains a word.
pub(crate) fn processes_with(word: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("processes");
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let has = |process: &i32| {
        let mut bytes = Vec::new();
        let read = File::open(format!("/proc/{process}/cmdline")).and_then(|mut file| file.read_to_end(&mut bytes));
        read.is_ok() && String::from_utf8_lossy(&bytes).contains(word)
    };
    numbers.filter(has).collect()
}

/// Waits for a condition, for a minute.
pub(crate) fn holds_soon(mut holds: impl FnMut() -> bool) -> bool {
    (0..3_000).any(|_| {
        let held = holds();
        if !held {
            std::thread::sleep(Duration::from_millis(20));
        }
        held
    })
}
