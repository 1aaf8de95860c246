//! The operator's settings: from flags, the environment or a file; shown, and enforced.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::http::Serving;
use crate::server::{SMALL, pipeline, token};
use crate::workdir::{Workdir, project};

/// The value and the origin of a setting in `config show`.
fn shown(command: &mut std::process::Command, name: &str) -> (String, String) {
    let output = command.output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let one = list.as_array().and_then(|list| list.iter().find(|one| one["setting"] == name)).cloned();
    let one = one.unwrap_or_else(|| panic!("no {name} in {list}"));
    let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    (text("value"), text("origin"))
}

#[test]
fn limits_come_from_flags_the_environment_and_the_file_in_this_order() {
    let workdir = Workdir::new();
    let show = ["config", "show", "--json"];
    std::fs::create_dir_all(workdir.path("settings/sage")).expect("a folder");
    let file = workdir.path("settings/sage/config.toml");
    for (name, variable, values) in [
        ("attempt-time", "SAGE_ATTEMPT_TIME", ["1h", "2h", "90s"]),
        ("attempt-memory", "SAGE_ATTEMPT_MEMORY", ["100", "200", "300"]),
        ("threads", "SAGE_THREADS", ["2", "3", "4"]),
        ("uncontained", "SAGE_UNCONTAINED", ["ada", "bob", "eve"]),
        ("scheduler", "SAGE_SCHEDULER", ["pack", "first-come", "dominant-share"]),
    ] {
        let [in_file, in_environment, as_flag] = values;
        std::fs::write(&file, "").expect("a file");
        let (value, origin) = shown(workdir.command(&show).env_remove(variable), name);
        let unset = if name == "scheduler" { ("even-split", "built in") } else { ("", "not set") };
        assert_eq!((value.as_str(), origin.as_str()), unset, "{name}");
        let line = if ["attempt-memory", "threads"].contains(&name) {
            format!("{name} = {in_file}\n")
        } else {
            format!("{name} = \"{in_file}\"\n")
        };
        std::fs::write(&file, line).expect("a file");
        let found = shown(workdir.command(&show).env_remove(variable), name);
        assert_eq!(found, (in_file.to_owned(), format!("file {}", file.display())));
        let found = shown(workdir.command(&show).env(variable, in_environment), name);
        assert_eq!(found, (in_environment.to_owned(), format!("environment {variable}")));
        let flag = format!("--{name}");
        let mut command = workdir.command(&[&show[..], &[flag.as_str(), as_flag]].concat());
        let found = shown(command.env(variable, in_environment), name);
        assert_eq!(found, (as_flag.to_owned(), format!("flag {flag}")));
    }
    std::fs::write(&file, "").expect("a file");
    for (flags, said) in [
        ("--attempt-time 5", "a length of time such as 90s"),
        ("--attempt-time 0s", "a length of time such as 90s"),
        ("--attempt-memory 0", "1..=100000000"),
        ("--threads 0", "a whole number from 1 to 1024"),
        ("--uncontained ''", "--uncontained"),
        ("--scheduler none", "even-split"),
    ] {
        workdir.fails(&format!("config show {flags}"), 2, said);
    }
}

/// docs/reference/settings.md lists exactly the settings that there are.
#[test]
fn the_page_of_the_operator_has_every_setting() {
    let workdir = Workdir::new();
    let settings = workdir.json("config show");
    let settings: BTreeSet<String> = settings
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["setting"].as_str().expect("a name").to_owned())
        .collect();
    let page = std::fs::read_to_string(project().join("docs/reference/settings.md")).expect("the page");
    let (_, section) = page.split_once("## Settings\n").expect("a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let named: BTreeSet<String> = rows.filter_map(|row| row.split('`').next().map(str::to_owned)).collect();
    assert_eq!(named, settings);
}

#[test]
fn the_limits_of_the_machine_are_kept_by_the_commands_that_work() {
    let (workdir, _) = Workdir::with_rides("60_000");
    let submit = "submit examples/duration.toml --as mia";
    for line in ["plan examples/duration.toml --as mia --attempt-memory 1", &format!("{submit} --attempt-memory 1")] {
        let output = workdir.fails(line, 1, "million bytes of memory and the limit is 1");
        assert!(output.contains("--attempt-memory"), "{output}");
    }
    assert_eq!(workdir.json("runs"), json!([]), "nothing was submitted");
    workdir.good("plan examples/duration.toml --as mia --attempt-memory 4000");
    // Training that by its public sizes would take much longer than a second is not started.
    let long = "kind = \"mlp\"\nlayers = [64]\nbatch = 512\nepochs = 3000\nrows = 40000";
    let table = "  { group_mean = \"3600 * distance / duration\", by = \"extract(hour from pickup)\", name = \
                 \"usual_speed\", keys = 24, bounds = [0, 60] },\n";
    let changes = [("kind = \"ridge\"", long), (table, ""), ("\"taxi-duration\"", "\"long\"")];
    workdir.variant("examples/duration.toml", "long.toml", &changes);
    workdir.good("submit long.toml --as mia");
    workdir.good("work --attempt-time 1s");
    let why = workdir.good("explain 1");
    assert!(why.contains("would take longer than allowed") && why.contains("raise time in [limits]"), "{why}");
    assert!(!why.contains("attempt 1"), "nothing was charged: {why}");
    workdir.fails("watch 1", 11, "over its time");
}

#[test]
fn the_limits_of_the_machine_are_kept_by_the_server() {
    let (workdir, _) = Workdir::with_rides("20_000");
    let mia = token(&workdir, "mia");
    let serving = Serving::from(workdir.command(&["serve", "--listen", "127.0.0.1:0", "--attempt-memory", "1"]));
    for path in ["/v1/plan", "/v1/runs"] {
        let refused = serving.with_token("POST", path, &mia, &pipeline(&workdir));
        assert_eq!(refused.status, 422, "{}", refused.body);
        assert!(refused.body.contains("million bytes of memory and the limit is 1"), "{}", refused.body);
    }
}

/// Own code without a sandbox can write outside its folder, which is why a named person has to accept the risk.
#[test]
fn own_code_runs_without_a_sandbox_only_if_a_person_accepts_it() {
    let workdir = Workdir::new();
    let write = |name: &str, text: &str| std::fs::write(workdir.path(name), text).expect("a file");
    write("small.toml", &SMALL.replace("access_modes = [\"enforced\"]", "access_modes = [\"enforced\", \"attested\"]"));
    workdir.good("stream create small.toml --as ada");
    write("rows.csv", "at,x\n2026-01-01T00:10:00,0.5\n2026-01-01T01:20:00,0.25\n");
    workdir.good("ingest small rows.csv --as dan");
    workdir.good("blocks small --do seal --before 2026-03-01 --as dan");
    let mark = workdir.path("mark");
    std::fs::create_dir(workdir.path("code")).expect("a folder");
    write("code/mark.sh", &format!("touch '{}'\nexit 1\n", mark.display()));
    let own = |name: &str| {
        format!(
            "[pipeline]\nname = \"{name}\"\nstream = \"small\"\nlabel = \"x\"\n[train]\ncommand = [\"sh\", \
             \"mark.sh\"]\n[validate]\nmetric = \"mse\"\ntarget = 0.1\nbound = 1.0\n[budget]\nepsilon0 = \"0.05\"\n"
        )
    };
    write("boxed.toml", &own("boxed"));
    write("bare.toml", &own("bare"));
    workdir.good("submit boxed.toml --code code --as mia");
    workdir.good("work");
    assert!(!mark.exists(), "own code in a sandbox wrote outside its folder");
    workdir.good("submit bare.toml --code code --as mia");
    workdir.good("work --uncontained ada");
    assert!(mark.exists(), "{}", workdir.good("explain 2"));
}
