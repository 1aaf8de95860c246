//! A PostgreSQL server for one measurement: Debian's package, its default settings, a directory of its own.
//!
//! It listens on a socket in that directory and nowhere else, runs as a user who is not root, and ends with the
//! value that holds it. Its durability is never touched: that is what is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages;
use crate::workspace::{self, Failure};

/// Where Debian puts PostgreSQL, a folder for each version in it.
const INSTALLED: &str = "/usr/lib/postgresql";

/// The user that Debian's package makes, for when we are root: the server refuses to run as that.
const USER: &str = "postgres";

pub(crate) struct Server {
    programs: PathBuf,
    place: PathBuf,
}

impl Server {
    /// Installs PostgreSQL if it is missing and starts a server in a new directory below `place`.
    pub(crate) fn start(place: &Path) -> Result<Self, Failure> {
        if newest_programs().is_none() {
            packages::ensure("pg_ctl", "postgresql")?;
        }
        let programs = newest_programs().ok_or("bench: PostgreSQL is installed, but not where Debian puts it")?;
        let place = place.join(format!("sage-bench-postgres-{}", std::process::id()));
        fs::create_dir(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let server = Self { programs, place };
        if is_root()? {
            workspace::output(Command::new("chown").arg(USER).arg(&server.place))?;
        }
        let data = server.place.join("data");
        workspace::output(server.run("initdb")?.args(["-U", "sage", "-A", "trust", "-D"]).arg(&data))?;
        let options = format!("-c listen_addresses= -c unix_socket_directories={}", server.place.display());
        let log = server.place.join("log");
        let mut start = server.run("pg_ctl")?;
        start.args(["start", "--wait", "--silent", "-o", &options, "-D"]).arg(&data).arg("-l").arg(log);
        workspace::output(&mut start)?;
        Ok(server)
    }

    /// The directory of its socket.
    pub(crate) fn sockets(&self) -> &Path {
        &self.place
    }

    /// The program that puts load on it.
    pub(crate) fn pgbench(&self) -> PathBuf {
        self.programs.join("pgbench")
    }

    /// One of its programs, run as somebody who is not root.
    fn run(&self, program: &str) -> Result<Command, Failure> {
        let program = self.programs.join(program);
        let mut command = if is_root()? {
            let mut command = Command::new("runuser");
            command.args(["-u", USER, "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(&self.place);
        Ok(command)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // At the end of a measurement nothing can be done about a server that does not stop.
        if let Ok(mut stop) = self.run("pg_ctl") {
            let stop = stop.args(["stop", "--wait", "--silent", "-m", "immediate", "-D"]).arg(self.place.join("data"));
            let _ = stop.output();
        }
        let _ = fs::remove_dir_all(&self.place);
    }
}

/// The programs of the newest version that is installed.
fn newest_programs() -> Option<PathBuf> {
    let versions = fs::read_dir(INSTALLED).ok()?;
    let numbered = versions.filter_map(|entry| {
        let path = entry.ok()?.path();
        let version: u32 = path.file_name()?.to_str()?.parse().ok()?;
        Some((version, path.join("bin"))).filter(|(_, programs)| programs.join("pg_ctl").is_file())
    });
    numbered.max().map(|(_, programs)| programs)
}

fn is_root() -> Result<bool, Failure> {
    Ok(workspace::output(Command::new("id").arg("-u"))?.trim() == "0")
}
