//! Programs of the operating system that some tests and measurements need, and how they get there.
//!
//! They are installed where nobody minds: in CI, and when a developer asks for everything. Elsewhere a test that
//! misses one says that it was left out.

use std::path::PathBuf;
use std::process::Command;

use crate::workspace::{self, Failure};

/// Where Debian puts programs that are not for everyone.
const ELSEWHERE: &str = "/usr/sbin:/sbin";

/// Whether this is CI.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Where a program is, if it is installed.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    std::env::split_paths(&format!("{path}:{ELSEWHERE}")).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Installs Debian's package unless the program it brings is there.
pub(crate) fn ensure(program: &str, package: &str) -> Result<(), Failure> {
    if find(program).is_some() {
        return Ok(());
    }
    eprintln!("installing {package}");
    let install = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        workspace::output(&mut command).map(|_| ())
    };
    let wanted = ["install", "--yes", "--quiet", "--no-install-recommends", package];
    install(&wanted).or_else(|_| install(&["update", "--quiet"]).and_then(|()| install(&wanted)))
}

/// What the tests can use: `strace` makes system calls fail, `curl` and `sqlite3` are clients that others have made,
/// `openssl` makes certificates. Without them the tests run and say what they left out.
pub(crate) fn for_tests() -> Result<(), Failure> {
    for program in ["strace", "curl", "sqlite3", "openssl"] {
        if let Err(failure) = ensure(program, program) {
            println!("{program} is not to be had here, so the tests that need it are left out: {failure}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ensure, find};

    #[test]
    fn what_is_there_is_not_installed() {
        assert!(find("cargo").is_some() || find("sh").is_some());
        assert_eq!(find("no program has this name"), None);
        assert_eq!(ensure("sh", "no package has this name"), Ok(()));
    }
}
