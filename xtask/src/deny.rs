//! Checks which dependencies the product may have.
//!
//! Licences, sources and duplicates are checked by cargo-deny, with the rules in deny.toml. It is a large install, so
//! `check` runs it only where it is installed already; `check --all` installs it. The rule that breaks the
//! build in a way that is hard to read, a second version of Arrow, is checked here without any install.
//! The reasons are in docs/internals/decisions/0071-cargo-deny.md.

use std::collections::BTreeSet;

use crate::workspace::{self, Failure};

/// The version of cargo-deny that reads deny.toml.
const VERSION: &str = "0.20.2";

/// Crates whose types pass between packages, so that the dependency graph may contain only one version.
const SINGLE_VERSION: [&str; 3] = ["arrow-array", "arrow-schema", "parquet"];

/// Checks for duplicates of `SINGLE_VERSION`, and runs cargo-deny where it is installed.
pub(crate) fn check() -> Result<(), Failure> {
    let findings = duplicates(&workspace::read("Cargo.lock")?)?;
    if !findings.is_empty() {
        return Err(format!("deny: {}", findings.join("; ")));
    }
    if !installed() {
        println!("cargo-deny {VERSION} is not installed: licences and sources are checked by `check --all`");
        return Ok(());
    }
    // The advisory database is left out because it cannot be fetched everywhere.
    workspace::run(&mut workspace::cargo(&["deny", "--locked", "check", "bans", "licenses", "sources"]))
}

/// Installs cargo-deny unless the pinned version is installed.
pub(crate) fn install() -> Result<(), Failure> {
    if installed() {
        return Ok(());
    }
    println!("installing cargo-deny {VERSION}, which takes some minutes");
    let arguments = ["install", "cargo-deny", "--locked", "--force", "--version", VERSION];
    workspace::run(&mut workspace::cargo(&arguments))
}

/// Whether cargo-deny is installed in the pinned version.
fn installed() -> bool {
    let output = workspace::cargo(&["deny", "--version"]).output();
    output.is_ok_and(|output| output.status.success() && is_pinned(&String::from_utf8_lossy(&output.stdout)))
}

fn is_pinned(printed: &str) -> bool {
    printed.split_whitespace().last() == Some(VERSION)
}

/// The crates of `SINGLE_VERSION` that a lock file contains in several versions.
fn duplicates(lock: &str) -> Result<Vec<String>, Failure> {
    let table: toml::Table = lock.parse().map_err(|error| format!("Cargo.lock: {error}"))?;
    let packages = table.get("package").and_then(toml::Value::as_array).ok_or("Cargo.lock: no packages")?;
    let versions = |name: &str| {
        let named =
            packages.iter().filter(move |package| package.get("name").and_then(toml::Value::as_str) == Some(name));
        named.filter_map(|package| package.get("version")?.as_str()).collect::<BTreeSet<_>>()
    };
    let several = SINGLE_VERSION.into_iter().map(|name| (name, versions(name))).filter(|(_, found)| found.len() > 1);
    let list = |versions: BTreeSet<&str>| versions.into_iter().collect::<Vec<_>>().join(" and ");
    Ok(several.map(|(name, found)| format!("{name} is in Cargo.lock as {}", list(found))).collect())
}

#[cfg(test)]
mod tests {
    use super::{VERSION, duplicates, is_pinned};

    #[test]
    fn a_second_arrow_is_found() {
        let package = |name: &str, version: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n");
        let one = package("arrow-array", "59.0.0") + &package("syn", "1.0.0") + &package("syn", "2.0.0");
        assert_eq!(duplicates(&one), Ok(Vec::new()));
        let two = one + &package("arrow-array", "60.0.0");
        assert_eq!(duplicates(&two), Ok(vec!["arrow-array is in Cargo.lock as 59.0.0 and 60.0.0".to_owned()]));
        assert!(duplicates("version = 4\n").is_err());
    }

    #[test]
    fn only_the_pinned_version_counts_as_installed() {
        assert!(is_pinned(&format!("cargo-deny {VERSION}\n")));
        assert!(!is_pinned("cargo-deny 0.1.0\n"));
        assert!(!is_pinned(""));
    }
}
