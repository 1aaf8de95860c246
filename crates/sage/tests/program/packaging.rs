//! The files under `packaging/` agree with the program: flags, paths, metrics.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::http::Serving;
use crate::sage;
use crate::workdir::{Workdir, project};

fn read(name: &str) -> String {
    std::fs::read_to_string(project().join("packaging").join(name)).expect("a file of packaging")
}

/// Whether the program knows the flags of a command line.
fn is_known(line: &str) -> bool {
    let help = String::from_utf8(sage(["serve", "--help"]).stdout).expect("text");
    line.split_whitespace().filter(|word| word.starts_with("--")).all(|flag| help.contains(flag))
}

#[test]
fn the_unit_of_systemd_can_be_read_and_starts_the_server() {
    let unit = read("sage.service");
    let mut section = "";
    let mut settings = BTreeSet::new();
    for line in unit.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("no setting: {line}"));
        settings.insert(format!("{section}.{name}"));
        if name == "ExecStart" {
            assert!(value.contains(" serve ") && is_known(value), "{value}");
        }
    }
    for needed in ["Unit.Description", "Service.ExecStart", "Service.KillSignal", "Install.WantedBy"] {
        assert!(settings.contains(needed), "{needed} is missing");
    }
    for name in
        unit.split(|sign: char| !sign.is_ascii_uppercase() && sign != '_').filter(|word| word.starts_with("SAGE_"))
    {
        let help = String::from_utf8(sage(["serve", "--help"]).stdout).expect("text");
        assert!(help.contains(&format!("[env: {name}=")), "{name} is no variable of sage serve");
    }
    let file = project().join("packaging/sage.service");
    match Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(file).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            // The only allowed finding is that the program is not installed here.
            let faults: Vec<&str> =
                said.lines().filter(|line| line.contains("sage.service") && !line.contains("not executable")).collect();
            assert!(faults.is_empty(), "{faults:?}");
        }
        Err(_) => println!("systemd-analyze is not here, so only our own reading of the unit counts"),
    }
}

#[test]
fn the_image_is_built_from_what_there_is() {
    let text = read("Dockerfile");
    let toolchain = std::fs::read_to_string(project().join("rust-toolchain.toml")).expect("a toolchain");
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["COPY", first, ..] if first.starts_with("--from") => {}
            ["COPY", ref paths @ .., _] => {
                for path in paths {
                    assert!(project().join(path).exists(), "{path} of {line} is not there");
                }
            }
            ["FROM", image, "AS", "build"] => {
                let version = image.trim_start_matches("rust:").split('-').next().unwrap_or_default();
                assert!(toolchain.contains(version), "{image} is not of the toolchain {toolchain}");
            }
            ["ENV", ref pairs @ ..] => {
                let help = String::from_utf8(sage(["serve", "--help"]).stdout).expect("text");
                for pair in pairs {
                    let name = pair.split('=').next().unwrap_or_default();
                    assert!(help.contains(&format!("[env: {name}=")), "{name} is no variable of sage serve");
                }
            }
            _ => {}
        }
    }
    assert!(text.contains("--package sage") && text.contains("CMD [\"serve\"]") && text.contains("\nUSER 10001"));
}

#[test]
fn the_dashboard_shows_numbers_that_are_there() {
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).expect("JSON");
    let (workdir, _) = Workdir::with_rides("150_000");
    workdir.good("submit examples/duration.toml --wait --as mia");
    let ops = workdir.good("token create --as ops --role admin").trim().to_owned();
    let serving = Serving::start(&workdir);
    // A response is counted after it is sent.
    assert_eq!(serving.get("/readyz", "").status, 200);
    let metrics = serving.get("/metrics", &ops).body;
    let there: BTreeSet<&str> =
        metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_whitespace().next()).collect();
    for name in &there {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "{name} has no number in\n{metrics}");
    }
    let mut shown = BTreeSet::new();
    let text = dashboard.to_string();
    for word in
        text.split(|sign: char| !sign.is_ascii_lowercase() && sign != '_').filter(|word| word.starts_with("sage_"))
    {
        shown.insert(word.to_owned());
    }
    let shown: BTreeSet<&str> = shown.iter().map(String::as_str).collect();
    assert_eq!(shown, there, "the dashboard and /metrics differ");
    let panels = dashboard["panels"].as_array().expect("panels");
    assert!(panels.len() >= 6 && panels.iter().all(|panel| panel["targets"][0]["expr"].is_string()));
}
