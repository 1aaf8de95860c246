//! Checks the licences, sources and duplicate versions of dependencies.
//!
//! Uses cargo-deny if it is installed. Otherwise the lists in deny.toml are checked against cargo's
//! metadata, which is less thorough because licence texts are not read.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::workspace::{self, Failure, list, text};

/// Cargo's name for the public registry, in two parts because `tidy` bans its host name in files.
const PUBLIC_REGISTRY: &str = concat!("registry+https://github.com/rust-lang/crates", ".io-index");

/// The lists of deny.toml that the fallback check uses.
struct Lists {
    licences: Vec<String>,
    one_version: Vec<String>,
}

pub(crate) fn check() -> Result<(), Failure> {
    if installed() {
        let arguments = ["deny", "check", "bans", "licenses", "sources"];
        return workspace::run(&mut workspace::cargo(&arguments));
    }
    println!("cargo-deny is not installed: checking deny.toml against cargo metadata instead");
    let lists = lists(&workspace::read("deny.toml")?)?;
    let metadata = workspace::metadata("Cargo.toml")?;
    for warning in duplicates(&metadata) {
        println!("warning: {warning}");
    }
    let findings = findings(&metadata, &lists);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() { Ok(()) } else { Err(format!("deny: {} findings", findings.len())) }
}

fn installed() -> bool {
    let mut command = Command::new("cargo-deny");
    let status = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn lists(deny: &str) -> Result<Lists, Failure> {
    let table: toml::Table = deny.parse().map_err(|error| format!("deny.toml: {error}"))?;
    let array = |section: &str, key: &str| {
        let entries = table.get(section).and_then(|section| section.get(key));
        let entries = entries.and_then(toml::Value::as_array);
        entries.ok_or_else(|| format!("deny.toml: no list `{key}` under `{section}`"))
    };
    let licences = array("licenses", "allow")?.iter().filter_map(toml::Value::as_str);
    let once = array("bans", "deny")?
        .iter()
        .filter(|entry| entry.get("deny-multiple-versions").and_then(toml::Value::as_bool) == Some(true));
    let crates = once.filter_map(|entry| entry.get("crate").and_then(toml::Value::as_str));
    Ok(Lists { licences: licences.map(str::to_owned).collect(), one_version: crates.map(str::to_owned).collect() })
}

fn findings(metadata: &Value, lists: &Lists) -> Vec<String> {
    let mut findings = Vec::new();
    for package in list(metadata, "packages") {
        let name = format!("{} {}", text(package, "name"), text(package, "version"));
        let licence = text(package, "license");
        if !admitted(licence, &lists.licences) {
            findings.push(format!("{name}: licence `{licence}` is not in deny.toml"));
        }
        let source = &package["source"];
        if !source.is_null() && source != PUBLIC_REGISTRY {
            findings.push(format!("{name}: source {source} is not the public registry"));
        }
    }
    for (name, versions) in versions(metadata) {
        if versions.len() > 1 && lists.one_version.iter().any(|single| single == name) {
            findings.push(format!("{name}: versions {} in one dependency graph", versions.join(" and ")));
        }
    }
    findings
}

fn duplicates(metadata: &Value) -> Vec<String> {
    let several = versions(metadata).into_iter().filter(|(_, versions)| versions.len() > 1);
    several.map(|(name, versions)| format!("{name} is built as {}", versions.join(", "))).collect()
}

fn versions(metadata: &Value) -> BTreeMap<&str, Vec<&str>> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in list(metadata, "packages") {
        versions.entry(text(package, "name")).or_default().push(text(package, "version"));
    }
    versions
}

/// Whether the list satisfies a licence expression: one side of each OR, both sides of each AND. The
/// legacy `/` means OR; an expression that cannot be parsed is not admitted.
fn admitted(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) == Some(true) && rest.is_empty()
}

fn any(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut result = all(words, allowed)?;
    while words.first() == Some(&"OR") {
        *words = &words[1..];
        result |= all(words, allowed)?;
    }
    Some(result)
}

fn all(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut result = one(words, allowed)?;
    while words.first() == Some(&"AND") {
        *words = &words[1..];
        result &= one(words, allowed)?;
    }
    Some(result)
}

fn one(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    if *first == "(" {
        let inside = any(words, allowed)?;
        *words = words.strip_prefix(&[")"])?;
        return Some(inside);
    }
    let mut name = (*first).to_owned();
    if let ["WITH", exception, rest @ ..] = *words {
        name = format!("{name} WITH {exception}");
        *words = rest;
    }
    Some(allowed.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::{Lists, PUBLIC_REGISTRY, admitted, duplicates, findings, lists};
    use serde_json::{Value, json};

    fn package(name: &str, version: &str, licence: &str, source: &str) -> Value {
        json!({"name": name, "version": version, "license": licence, "source": source})
    }

    fn found(packages: &[Value]) -> usize {
        let lists = Lists { licences: vec!["MIT".to_owned()], one_version: vec!["arrow-array".to_owned()] };
        findings(&json!({ "packages": packages }), &lists).len()
    }

    #[test]
    fn licence_expressions() {
        let allowed = ["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        let check = |expression: &str, good: bool| {
            assert_eq!(admitted(expression, &allowed), good, "{expression}");
        };
        check("MIT", true);
        check("GPL-3.0", false);
        check("GPL-3.0 OR MIT", true);
        check("GPL-3.0/MIT", true);
        check("GPL-3.0 AND MIT", false);
        check("(GPL-3.0 OR MIT) AND Zlib", true);
        check("MIT AND (GPL-3.0 OR BSD-2-Clause)", false);
        check("Apache-2.0 WITH LLVM-exception", true);
        check("Apache-2.0", false);
        check("", false);
        check("MIT OR", false);
        check("(MIT", false);
        check("MIT MIT", false);
    }

    #[test]
    fn packages_are_checked_against_the_lists() {
        assert_eq!(found(&[package("a", "1.0.0", "MIT", PUBLIC_REGISTRY)]), 0);
        assert_eq!(found(&[package("a", "1.0.0", "GPL-3.0", PUBLIC_REGISTRY)]), 1);
        assert_eq!(found(&[package("a", "1.0.0", "MIT", "git+https://example.org/a")]), 1);
        assert_eq!(found(&[json!({"name": "a", "version": "1.0.0", "license": "MIT"})]), 0);
        let once = |version| package("arrow-array", version, "MIT", PUBLIC_REGISTRY);
        assert_eq!(found(&[once("59.0.0"), once("60.0.0")]), 1);
        let often = |version| package("syn", version, "MIT", PUBLIC_REGISTRY);
        assert_eq!(found(&[often("1.0.0"), often("2.0.0")]), 0);
        assert_eq!(duplicates(&json!({"packages": [often("1.0.0"), often("2.0.0")]})).len(), 1);
    }

    #[test]
    fn the_lists_are_read_from_deny_toml() {
        let text = "[licenses]\nallow = [\"MIT\"]\n[bans]\ndeny = [\"x\", \
                    { crate = \"arrow-array\", deny-multiple-versions = true }]\n";
        let read = lists(text).unwrap();
        assert_eq!((read.licences, read.one_version), (vec!["MIT".to_owned()], vec!["arrow-array".to_owned()]));
        assert!(lists("[licenses]\n").is_err());
    }
}
