//! A PostgreSQL server for one benchmark: Debian's package with default settings in a temporary directory.
//!
//! The server listens only on a socket in that directory, does not run as root, and is stopped when its
//! value is dropped. Its durability settings are never changed, because durability is what is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages;
use crate::workspace::{self, Failure};

/// Debian's folder of PostgreSQL, with one folder per version.
const INSTALLED: &str = "/usr/lib/postgresql";

/// The user that Debian's package creates. The server refuses to run as root.
const USER: &str = "postgres";

pub(crate) struct Server {
    programs: PathBuf,
    folder: PathBuf,
}

impl Server {
    /// Installs PostgreSQL if it is missing and starts a server in a new directory below `folder`.
    pub(crate) fn start(folder: &Path) -> Result<Self, Failure> {
        if newest_programs().is_none() {
            packages::ensure("pg_ctl", "postgresql")?;
        }
        let programs = newest_programs().ok_or("bench: PostgreSQL is installed, but not in Debian's folder")?;
        let folder = folder.join(format!("sage-bench-postgres-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let server = Self { programs, folder };
        if is_root()? {
            workspace::output(Command::new("chown").arg(USER).arg(&server.folder))?;
        }
        let data = server.folder.join("data");
        workspace::output(server.run("initdb")?.args(["-U", "sage", "-A", "trust", "-D"]).arg(&data))?;
        let options = format!("-c listen_addresses= -c unix_socket_directories={}", server.folder.display());
        let log = server.folder.join("log");
        let mut start = server.run("pg_ctl")?;
        start.args(["start", "--wait", "--silent", "-o", &options, "-D"]).arg(&data).arg("-l").arg(log);
        workspace::output(&mut start)?;
        Ok(server)
    }

    /// The directory of the socket.
    pub(crate) fn sockets(&self) -> &Path {
        &self.folder
    }

    /// The path of the load generator.
    pub(crate) fn pgbench(&self) -> PathBuf {
        self.programs.join("pgbench")
    }

    /// One of PostgreSQL's programs, run as a user other than root.
    fn run(&self, program: &str) -> Result<Command, Failure> {
        let program = self.programs.join(program);
        let mut command = if is_root()? {
            let mut command = Command::new("runuser");
            command.args(["-u", USER, "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(&self.folder);
        Ok(command)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors are ignored: nothing can be done about a server that does not stop.
        if let Ok(mut stop) = self.run("pg_ctl") {
            let stop = stop.args(["stop", "--wait", "--silent", "-m", "immediate", "-D"]).arg(self.folder.join("data"));
            let _ = stop.output();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The programs of the newest installed version.
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
