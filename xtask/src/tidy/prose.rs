//! Rules for every file, whatever it holds: how it is named, and that it is true on every machine.

use super::Findings;
use crate::source::is_word;
use crate::workspace::{self, Failure};

/// Names for rooms in which anything could be put.
const EMPTY_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "manager"];

/// Folders of one machine. Taken apart here, so that this file keeps the rule it states.
const MACHINE_FOLDERS: &[&str] =
    &[concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/"), concat!("/", "Users/")];

/// Hosts of package registries: where packages come from is the affair of whoever builds.
const REGISTRIES: &[&str] =
    &[concat!("crates", ".io"), concat!("pypi", ".org"), concat!("python", "hosted.org")];

pub(super) fn check(files: &[String]) -> Result<Findings, Failure> {
    let mut findings = Findings::new();
    for path in files {
        findings.extend(file_name(path));
        let bytes = std::fs::read(workspace::root().join(path));
        let bytes = bytes.map_err(|error| format!("{path}: {error}"))?;
        // A lock file holds cargo's own name for its registry; `deny` checks that it holds no other.
        if let Ok(text) = String::from_utf8(bytes)
            && !path.ends_with("Cargo.lock")
        {
            findings.extend(machine(path, &text));
        }
    }
    Ok(findings)
}

/// The empty word in a name, if it has one.
pub(super) fn empty_name(name: &str) -> Option<&'static str> {
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    words.find_map(|word| EMPTY_NAMES.iter().copied().find(|empty| *empty == word))
}

fn file_name(path: &str) -> Findings {
    let word = path.split('/').find_map(empty_name);
    word.map(|word| format!("{path}: `{word}` names no idea")).into_iter().collect()
}

fn machine(path: &str, text: &str) -> Findings {
    let mut findings = Findings::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(folder) = MACHINE_FOLDERS.iter().find(|folder| names_folder(line, folder)) {
            findings.push(format!("{path}:{}: `{folder}` is one machine's folder", index + 1));
        }
        if let Some(host) = REGISTRIES.iter().find(|host| line.contains(**host)) {
            findings.push(format!("{path}:{}: `{host}` is a registry's host", index + 1));
        }
    }
    findings
}

/// Whether an absolute path begins with this folder here; `a/work/b` and `./home/` do not.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| is_word(c) || ".-}>)".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::{MACHINE_FOLDERS, REGISTRIES, empty_name, file_name, machine};

    #[test]
    fn files_are_named_for_ideas() {
        for path in ["crates/sage-kernel/src/ledger.rs", "docs/commons.md", "src/utilsome.rs"] {
            assert_eq!(file_name(path), Vec::<String>::new());
        }
        for path in ["src/utils.rs", "src/common/mod.rs", "a/block_manager.rs", "crates/sage-misc/x"] {
            assert_eq!(file_name(path).len(), 1, "{path}");
        }
        assert_eq!(empty_name("test-helpers"), Some("helpers"));
    }

    #[test]
    fn no_folder_of_one_machine() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(machine("a.md", &format!("see `{folder}x`")).len(), 1, "{folder}");
            assert_eq!(machine("a.md", &format!("\n\n{folder}x"))[0].split(':').nth(1), Some("3"));
            assert_eq!(machine("a.md", &format!("see ..{folder}x and a{folder}x")).len(), 0);
        }
    }

    #[test]
    fn no_registry_by_its_host() {
        for host in REGISTRIES {
            assert_eq!(machine("a.toml", &format!("url = \"https://{host}/simple\"")).len(), 1);
        }
        assert_eq!(machine("a.toml", "the public registry"), Vec::<String>::new());
    }
}
