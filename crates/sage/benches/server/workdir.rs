//! Directories to measure on, and the processes that serve them.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::Question;

/// The program, as it is shipped.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_sage");

/// A stream whose policy lets charges for work elsewhere in.
fn wide() -> String {
    include_str!("../../tests/streams/small.toml")
        .replace("\"small\"", "\"wide\"")
        .replace("access_modes = [\"enforced\"]", "access_modes = [\"enforced\", \"attested\"]")
}

/// A folder with a directory of sage in it.
pub(crate) struct Workdir {
    folder: PathBuf,
    /// The keys of the blocks of its stream.
    pub(crate) blocks: Vec<String>,
}

impl Workdir {
    /// With nothing in it, not even a directory.
    pub(crate) fn empty(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        Self { folder: folder.to_owned(), blocks: Vec::new() }
    }

    /// With the linear model of the examples, which also lies in the folder `model`.
    pub(crate) fn with_model(folder: &Path) -> Self {
        let workdir = Self::empty(folder);
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/duration.toml");
        std::fs::copy(example, folder.join("duration.toml")).expect("an example");
        workdir.run("generate taxi --rows 150_000 --start 2026-01-01 --out rides");
        workdir.run("stream create rides/_stream.toml --as ada");
        workdir.run("ingest taxi rides --as dan");
        workdir.run("blocks taxi --do seal --before 2027-01-01 --as dan");
        workdir.run("submit duration.toml --wait --as mia");
        workdir.run("models pull taxi-duration model");
        workdir
    }

    /// With a stream of so many sealed blocks of one row each.
    pub(crate) fn with_blocks(folder: &Path, count: usize) -> Self {
        let mut workdir = Self::empty(folder);
        let mut rows = "at,x\n".to_owned();
        for hour in 0..count {
            writeln!(rows, "{},0.5", instant(hour)).expect("a text");
        }
        std::fs::write(folder.join("wide.toml"), wide()).expect("a file");
        std::fs::write(folder.join("rows.csv"), rows).expect("a file");
        workdir.run("stream create wide.toml --as ada");
        workdir.run("ingest wide rows.csv --as dan");
        workdir.run("blocks wide --do seal --before 2030-01-01 --as dan");
        let found: Value = serde_json::from_str(&workdir.run("blocks wide --json")).expect("JSON");
        let keys = found.as_array().expect("blocks").iter().filter_map(|block| block["block"].as_str());
        workdir.blocks = keys.map(str::to_owned).collect();
        assert_eq!(workdir.blocks.len(), count);
        workdir
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.folder.join("sage-data")
    }

    fn run(&self, line: &str) -> String {
        let mut command = Command::new(PROGRAM);
        let output = command.args(line.split_whitespace()).current_dir(&self.folder).output().expect("it runs");
        assert!(output.status.success(), "sage {line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    pub(crate) fn token(&self, name: &str) -> String {
        self.run(&format!("token create --as {name}")).trim().to_owned()
    }

    /// The scoring server of MLflow with the same model, where there is a Python for it.
    pub(crate) fn mlflow(&self) -> Option<Serving> {
        let python = std::env::var_os("SAGE_BENCH_PYTHON")?;
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        // It starts programs of its own, which lie beside the Python.
        let beside = Path::new(&python).parent().map(Path::to_owned).unwrap_or_default();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(&python);
        command.env("PATH", format!("{}:{path}", beside.display())).process_group(0);
        command.args(["-m", "mlflow", "models", "serve", "--model-uri", "model", "--env-manager", "local", "--host"]);
        command.args(["127.0.0.1", "--port", &port.to_string()]).current_dir(&self.folder);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("Python runs");
        let serving = Serving { child, address: format!("127.0.0.1:{port}") };
        let began = Instant::now();
        while std::net::TcpStream::connect(&serving.address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(120), "MLflow's server does not start");
            std::thread::sleep(Duration::from_millis(200));
        }
        // It listens before it can answer.
        Question::bare("/ping").once(&serving.address);
        Some(serving)
    }
}

/// An hour, counted from the start of 2025, as rows have it. No leap year is that near.
fn instant(hour: usize) -> String {
    const MONTHS: [usize; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (day, hour) = (hour / 24, hour % 24);
    let (year, mut day, mut month) = (2025 + day / 365, day % 365, 0);
    while day >= MONTHS[month] {
        day -= MONTHS[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}T{hour:02}:30:00", month + 1, day + 1)
}

/// A server, ended with this.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: String,
}

impl Serving {
    pub(crate) fn start(workdir: &Workdir, flags: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(flags).current_dir(&workdir.folder).process_group(0);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("http://").expect("an address").to_owned();
        Self { child, address }
    }

    /// What it holds in memory, in MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kibibytes / 1024.0
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // What it has started ends with it.
        drop(Command::new("kill").args(["-9", "--", &format!("-{}", self.child.id())]).status());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
