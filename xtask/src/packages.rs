//! System programs that some tests and benchmarks need, and their installation.
//!
//! They are installed only in CI and by commands that say so. Otherwise a test that needs a missing program reports
//! that it was skipped.

use std::path::PathBuf;
use std::process::Command;

use crate::workspace::{self, Failure};

/// Debian's folders of administration programs.
const SYSTEM_FOLDERS: &str = "/usr/sbin:/sbin";

/// Whether this runs in CI.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// The path of a program, if it is installed.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    std::env::split_paths(&format!("{path}:{SYSTEM_FOLDERS}"))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Installs a Debian package unless its program is present.
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
    let arguments = ["install", "--yes", "--quiet", "--no-install-recommends", package];
    install(&arguments).or_else(|_| install(&["update", "--quiet"]).and_then(|()| install(&arguments)))
}

/// Installs the programs that tests can use: `strace` injects failures into system calls, `curl` and `sqlite3` are
/// third-party clients, `openssl` creates certificates, `valgrind` counts instructions. Tests that need a missing program
/// are skipped with a message.
pub(crate) fn for_tests() -> Result<(), Failure> {
    for program in ["strace", "curl", "sqlite3", "openssl", "valgrind"] {
        if let Err(failure) = ensure(program, program) {
            println!("{program} cannot be installed, so the tests that need it are skipped: {failure}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ensure, find};

    #[test]
    fn present_programs_are_not_installed() {
        assert!(find("cargo").is_some() || find("sh").is_some());
        assert_eq!(find("no program has this name"), None);
        assert_eq!(ensure("sh", "no package has this name"), Ok(()));
    }
}
