//! Rules for every file: its name, and that it contains nothing specific to one machine.

use super::Findings;
use crate::source::is_word;
use crate::workspace::{self, Failure};

/// Names that could stand for anything.
const VAGUE_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "manager"];

/// Folders of one machine. Split in two, so that this file follows its own rule.
const MACHINE_FOLDERS: &[&str] =
    &[concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/"), concat!("/", "Users/")];

/// Hosts of package registries: the builder chooses where packages come from.
const REGISTRIES: &[&str] = &[concat!("crates", ".io"), concat!("pypi", ".org"), concat!("python", "hosted.org")];

pub(super) fn check(files: &[String]) -> Result<Findings, Failure> {
    let mut findings = Findings::new();
    for path in files {
        findings.extend(file_name(path));
        let bytes = std::fs::read(workspace::root().join(path));
        let bytes = bytes.map_err(|error| format!("{path}: {error}"))?;
        // A lock file contains cargo's own name for its registry; `deny` checks that it contains no other.
        if let Ok(text) = String::from_utf8(bytes)
            && !path.ends_with("Cargo.lock")
        {
            findings.extend(machine(path, &text));
        }
    }
    Ok(findings)
}

/// The vague word in a name, if it has one.
pub(super) fn vague_name(name: &str) -> Option<&'static str> {
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    words.find_map(|word| VAGUE_NAMES.iter().copied().find(|vague| *vague == word))
}

fn file_name(path: &str) -> Findings {
    let word = path.split('/').find_map(vague_name);
    word.map(|word| format!("{path}: `{word}` is too vague a name")).into_iter().collect()
}

fn machine(path: &str, text: &str) -> Findings {
    let mut findings = Findings::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(folder) = MACHINE_FOLDERS.iter().find(|folder| names_folder(line, folder)) {
            findings.push(format!("{path}:{}: `{folder}` is a folder of one machine", index + 1));
        }
        if let Some(host) = REGISTRIES.iter().find(|host| line.contains(**host)) {
            findings.push(format!("{path}:{}: `{host}` is the host of a package registry", index + 1));
        }
    }
    findings
}

/// Whether the line contains an absolute path in this folder; `a/work/b` and `./home/` are not.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| is_word(c) || ".-}>)".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::{MACHINE_FOLDERS, REGISTRIES, file_name, machine, vague_name};

    #[test]
    fn vague_file_names_are_found() {
        for path in ["crates/sage-kernel/src/ledger.rs", "src/commons.rs", "src/utilsome.rs"] {
            assert_eq!(file_name(path), Vec::<String>::new());
        }
        for path in ["src/utils.rs", "src/common/mod.rs", "a/block_manager.rs", "crates/sage-misc/x"] {
            assert_eq!(file_name(path).len(), 1, "{path}");
        }
        assert_eq!(vague_name("test-helpers"), Some("helpers"));
    }

    #[test]
    fn folders_of_one_machine_are_found() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(machine("a.md", &format!("see `{folder}x`")).len(), 1, "{folder}");
            assert_eq!(machine("a.md", &format!("\n\n{folder}x"))[0].split(':').nth(1), Some("3"));
            assert_eq!(machine("a.md", &format!("see ..{folder}x and a{folder}x")).len(), 0);
        }
    }

    #[test]
    fn registry_hosts_are_found() {
        for host in REGISTRIES {
            assert_eq!(machine("a.toml", &format!("url = \"https://{host}/simple\"")).len(), 1);
        }
        assert_eq!(machine("a.toml", "the public registry"), Vec::<String>::new());
    }
}
