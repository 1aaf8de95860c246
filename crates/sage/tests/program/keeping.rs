//! Stored data: the log as an auditor sees it, backups and restored directories, formats, settings and logins.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::http::Serving;
use crate::workdir::{Workdir, project};

/// A stream with a few known rows and one completed query.
pub(crate) fn small_workdir() -> Workdir {
    let workdir = Workdir::new();
    std::fs::write(workdir.path("rides.toml"), STREAM).expect("a file");
    std::fs::write(workdir.path("rides.csv"), rows(0)).expect("a file");
    workdir.good("stream create rides.toml --as ada");
    workdir.good("ingest rides rides.csv --as dan");
    workdir.good("blocks rides --do seal --before 2026-03-01 --as dan");
    workdir.good("query rides 'SELECT count(*)' --all --epsilon 1 --key first --as mia");
    workdir
}

pub(crate) const STREAM: &str = r#"
[stream]
name = "rides"
unit = "user"
contribution = 1
user = "rider"
time = "pickup"
blocks = { time = "1d" }
test_share = 0.5

[policy]
epsilon = "10"
delta = "1e-6"
filter = "renyi"

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]
ml-engineer = ["mia"]

[[columns]]
name = "pickup"
type = "time"

[[columns]]
name = "rider"
type = "integer"
min = 0
max = 1000000
outside = "drop"

[[columns]]
name = "distance"
type = "number"
min = 0.0
max = 100.0
"#;

pub(crate) fn rows(first: u32) -> String {
    let line = |row: u32| format!("2026-02-{:02}T08:00:00Z,{},7.5\n", 1 + row % 3, first + row);
    "pickup,rider,distance\n".to_owned() + &(0..600).map(line).collect::<String>()
}

/// The output of the independent auditor, `tools/audit.py`, for a folder.
pub(crate) fn audited(folder: &Path) -> (bool, String) {
    let output =
        Command::new("python3").arg(project().join("tools/audit.py")).arg(folder).output().expect("python3 runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_log_is_listed_verified_and_exported_beside_a_server() {
    let workdir = small_workdir();
    let all = workdir.good("audit log");
    for kind in ["stream-created", "rows-ingested", "blocks-sealed", "charged", "started", "left", "query-answered"] {
        assert!(all.lines().any(|line| line.split_whitespace().nth(2) == Some(kind)), "{kind} is missing in\n{all}");
    }
    let lines: Vec<Value> = workdir
        .good("audit log --kind charged --kind left --stream rides --json")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(
        lines.iter().map(|line| line["kind"].as_str().unwrap_or_default()).collect::<Vec<_>>(),
        ["charged", "left"]
    );
    assert!(
        workdir.good("audit log --stream walks").is_empty() && workdir.good("audit log --since 2999-01-01").is_empty()
    );
    assert_eq!(workdir.good("audit log --last 2").lines().count(), 2);
    workdir.fails("audit log --since yesterday", 2, "\"yesterday\" is no time");
    workdir.fails("audit verify --dir elsewhere", 14, "is no directory of sage");

    let plan = "query rides 'SELECT count(*)' --all --epsilon 1 --as mia --plan";
    workdir.good(&format!("{plan} --heads head"));
    let verified = workdir.json("audit verify --heads head");
    assert_eq!((&verified["sound"], &verified["heads"][0]["held"]), (&json!(true), &json!(true)), "{verified}");
    assert!(workdir.good("audit verify").contains("no exported head was given"));
    let known = std::fs::read_to_string(workdir.path("head")).expect("a head");
    let words: Vec<&str> = known.split_whitespace().collect();
    let later = words[1].parse::<u64>().expect("a length") + 1;
    std::fs::write(workdir.path("later"), known.replacen(words[1], &later.to_string(), 1)).expect("a file");
    workdir.fails("audit verify --heads later", 1, "is not signed by the key of this directory");

    let _serving = Serving::start(&workdir);
    assert_eq!(workdir.json("audit verify --heads head")["in_use"], true);
    assert!(workdir.good("audit export bundle --heads head").contains("tools/audit.py bundle"));
    let (agreed, said) = audited(&workdir.path("bundle"));
    assert!(agreed && said.contains("1 released"), "{said}");
    for name in ["log.db", "head", "heads/0", "streams/rides.toml"] {
        assert!(workdir.path(&format!("bundle/{name}")).exists(), "{name} is missing");
    }
    for name in ["blocks", "secrets", "tokens.json"] {
        assert!(!workdir.path(&format!("bundle/{name}")).exists(), "{name} went along");
    }
    workdir.fails("audit export bundle", 2, "is not empty");
}

/// `audit verify` finds what `doctor` finds, and its exit code shows it.
#[test]
fn a_changed_file_is_found_by_verification() {
    let workdir = small_workdir();
    let mut open = vec![workdir.path("sage-data/blocks")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        } else {
            let mut bytes = std::fs::read(&path).expect("a part");
            bytes[10] ^= 1;
            std::fs::write(&path, bytes).expect("written");
            break;
        }
    }
    workdir.fails("audit verify", 1, "not everything is as the log");
    workdir.fails("backup copy", 1, "missing or changed");
}

#[test]
fn a_backup_under_load_is_restored_behind_a_fence() {
    let workdir = small_workdir();
    let mia = workdir.good("token create --as mia").trim().to_owned();
    let serving = Serving::start(&workdir);
    let request = json!({"sql": "SELECT count(*)", "epsilon": "0.01", "all": true}).to_string();
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            (0..20)
                .map(|_| serving.with_token("POST", "/v1/streams/rides/query", &mia, &request).status)
                .collect::<Vec<_>>()
        });
        for copy in 0..3 {
            let saved = workdir.json(&format!("backup copy-{copy}"));
            assert!(saved["events"].as_u64() > Some(0) && saved["files"].as_u64() >= Some(5), "{saved}");
        }
        assert_eq!(load.join().expect("the load"), [200; 20]);
    });
    let verified = workdir.json("audit verify");
    assert_eq!((&verified["sound"], &verified["in_use"]), (&json!(true), &json!(true)), "{verified}");
    drop(serving);
    workdir.fails("backup copy-0", 2, "is not empty");
    for copy in 0..3 {
        let made = workdir.json(&format!("restore copy-{copy} --dir made-{copy}"));
        assert_eq!(made["fenced"], true);
        assert!(audited(&workdir.path(&format!("made-{copy}"))).0);
        assert_eq!(workdir.json(&format!("audit verify --dir made-{copy}"))["fenced"], true);
    }
    let refused = "query rides 'SELECT count(*)' --all --epsilon 1 --as mia";
    for command in [refused, "ingest rides rides.csv --batch-id again --as dan", "runs"] {
        workdir.fails(&format!("{command} --dir made-0"), 1, "was restored from a backup");
    }
    workdir.fails("doctor --acknowledge --as ada --dir made-0", 1, "sage restore --acknowledge");
    workdir.fails("restore --acknowledge --as ada --dir made-0", 2, "--nothing-since");
    workdir.fails("restore --acknowledge --nothing-since --as mia --dir made-0", 13, "is no privacy-officer");
    workdir.fails(&format!("{refused} --dir made-0"), 1, "nothing is granted");
    assert!(workdir.good("restore --acknowledge --nothing-since --as ada --dir made-0").contains("acknowledged"));
    workdir.good(&format!("{refused} --dir made-0"));
    assert!(
        workdir.good("restore --acknowledge --nothing-since --as ada --dir made-0").contains("nothing to acknowledge")
    );
    workdir.good("restore --acknowledge --retire-all --as ada --dir made-1");
    workdir.fails(&format!("{refused} --dir made-1"), 1, "no sealed block is chosen");
    let states = workdir.json("stream show rides --dir made-1")["blocks"].clone();
    assert_eq!((&states["retired"], &states["sealed"]), (&json!(3), &json!(0)));
    assert!(workdir.good("audit log --dir made-1").contains("restore-acknowledged"));
    for directory in ["made-0", "made-1"] {
        assert!(workdir.good(&format!("doctor --dir {directory}")).contains("nothing is wrong"));
        let (agreed, said) = audited(&workdir.path(directory));
        assert!(agreed, "{said}");
    }
}

#[test]
fn a_changed_backup_is_not_restored() {
    let workdir = small_workdir();
    workdir.good("backup copy");
    let list: Value =
        serde_json::from_slice(&std::fs::read(workdir.path("copy/backup.json")).expect("a list")).expect("JSON");
    let names: Vec<String> = list["files"]
        .as_array()
        .expect("files")
        .iter()
        .filter_map(|file| Some(file["path"].as_str()?.to_owned()))
        .collect();
    for wanted in ["log.db", "secrets/rides", "blocks/rides/"] {
        assert!(names.iter().any(|name| name.starts_with(wanted)), "{wanted} is not in {names:?}");
    }
    for name in &names {
        let path = workdir.path(&format!("copy/{name}"));
        let whole = std::fs::read(&path).expect("a file");
        let mut changed = whole.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        std::fs::write(&path, changed).expect("written");
        workdir.fails("restore copy --dir made", 1, "differs from the file that was saved");
        assert!(!workdir.path("made").exists(), "nothing is written before everything is looked at");
        std::fs::write(&path, whole).expect("written");
    }
    std::fs::rename(workdir.path("copy/backup.json"), workdir.path("copy/list")).expect("renamed");
    workdir.fails("restore copy --dir made", 14, "is not a complete backup");
    std::fs::rename(workdir.path("copy/list"), workdir.path("copy/backup.json")).expect("renamed");
    workdir.good("restore copy --dir made");
    workdir.fails("restore copy --dir made", 2, "is not empty");
    #[cfg(unix)]
    for path in ["copy", "copy/secrets/rides", "made", "made/secrets/rides"] {
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(workdir.path(path)).expect("there").permissions(),
        );
        assert_eq!(mode & 0o077, 0, "{path} can be read by others");
    }
}

/// Two directories with the same past: their noise differs, and the lanes of users do not.
#[test]
fn two_directories_of_one_backup_draw_different_noise_and_keep_users_in_their_lanes() {
    let workdir = small_workdir();
    workdir.good("backup copy");
    let mut drawn = BTreeSet::new();
    let mut secrets = BTreeSet::new();
    std::fs::write(workdir.path("more.csv"), rows(0).replace("2026-02-", "2026-04-")).expect("a file");
    for made in ["one", "two"] {
        workdir.good(&format!("restore copy --dir {made}"));
        workdir.good(&format!("restore --acknowledge --nothing-since --as ada --dir {made}"));
        workdir.good(&format!("ingest rides more.csv --as dan --dir {made}"));
        workdir.good(&format!("blocks rides --do seal --before 2026-05-01 --as dan --dir {made}"));
        for question in 0..20 {
            let command =
                format!("query rides 'SELECT count(*)' --since 2026-04-01 --epsilon 0.1 --key q{question} --as mia");
            let found = workdir.json(&format!("{command} --dir {made}"));
            drawn.insert(found["lines"][0]["values"]["count(*)"]["value"].to_string());
        }
        secrets.insert(std::fs::read(workdir.path(&format!("{made}/secrets/rides"))).expect("a secret"));
    }
    assert_eq!(drawn.len(), 40, "a number was drawn twice");
    assert_eq!(secrets.len(), 1, "with another secret users would fall into both lanes");
}

#[test]
fn a_directory_has_a_format_and_unknown_ones_are_refused() {
    let workdir = small_workdir();
    assert_eq!(workdir.json("migrate"), json!({"format": 1, "format_of_this_release": 1, "usable": true}));
    assert!(workdir.good("migrate").contains("nothing to do"));
    workdir.fails("migrate --dir elsewhere", 14, "is no directory of sage");
    for (format, said) in [(2, "use the release that wrote it"), (0, "open it once with a release between them")] {
        let script = format!(
            "import sqlite3; c = sqlite3.connect('sage-data/log.db'); c.execute('PRAGMA user_version = {format}')"
        );
        let output =
            Command::new("python3").args(["-c", &script]).current_dir(workdir.path("")).status().expect("python3 runs");
        assert!(output.success());
        let before = std::fs::read(workdir.path("sage-data/log.db")).expect("a log");
        workdir.fails("migrate", 1, said);
        workdir.fails("runs", 1, said);
        assert_eq!(
            std::fs::read(workdir.path("sage-data/log.db")).expect("a log"),
            before,
            "format {format} was written to"
        );
    }
}

/// A directory that an earlier release wrote can be opened and used.
#[test]
fn directories_of_earlier_formats_can_be_used() {
    let workdir = Workdir::new();
    copy(&project().join("crates/sage/tests/golden/directory-format-1"), &workdir.path("sage-data"));
    assert_eq!(workdir.json("audit verify")["sound"], true);
    let again = workdir.json("query rides 'SELECT count(*)' --all --epsilon 1 --key first --as mia");
    assert_eq!(again["answered_before"], true, "the answer is in the log");
    workdir.good("query rides 'SELECT count(*)' --all --epsilon 1 --as mia");
    let (agreed, said) = audited(&workdir.path("sage-data"));
    assert!(agreed, "{said}");
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(std::fs::copy(&path, &target).expect("copied")),
        }
    }
}

#[test]
fn a_login_is_tried_kept_for_its_owner_and_used_where_there_is_no_directory() {
    let workdir = small_workdir();
    let mia = workdir.good("token create --as mia").trim().to_owned();
    workdir.said.borrow_mut().clear();
    // An address of its own: after the server has stopped, no other test answers there.
    let serving = Serving::from(workdir.command(&["serve", "--listen", "127.20.0.1:0"]));
    let address = format!("http://{}", serving.address);
    let wrong = workdir.with_input(&format!("login {address}"), "sage_pat_no_token\n");
    assert_eq!(wrong.code, Some(13), "{}", wrong.err);
    assert!(!workdir.path("settings/sage/login.json").exists(), "a token that does not work is not kept");
    let unreachable = workdir.with_input("login http://127.0.0.1:9", &mia);
    assert_eq!(unreachable.code, Some(69), "{}", unreachable.err);
    assert_eq!(workdir.with_input("login nowhere", &mia).code, Some(2));
    let output = workdir.with_input(&format!("login {address}/"), &format!("{mia}\n"));
    assert_eq!((output.code, output.out.contains("logged in")), (Some(0), true), "{}", output.err);
    let kept = workdir.path("settings/sage/login.json");
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(kept).expect("there").permissions()) & 0o077,
        0,
        "others can read the token"
    );
    assert!(!workdir.said.borrow().contains(&mia), "the token is printed");

    let flag = format!("--server {address}");
    assert_eq!(workdir.json(&format!("stream show rides {flag}"))["name"], "rides");
    assert_eq!(workdir.json(&format!("blocks rides {flag}")).as_array().map(Vec::len), Some(3));
    assert!(workdir.good(&format!("blocks rides {flag}")).contains("day=2026-02-01"));
    let command = "query rides 'SELECT count(*)' --all --epsilon 0.5 --as mia";
    let found = workdir.json(&format!("{command} {flag} --key far"));
    let again = workdir.json(&format!("{command} {flag} --key far"));
    assert_eq!((&found["lines"], &again["answered_before"]), (&again["lines"], &json!(true)));
    workdir.fails(&format!("query rides 'SELECT count(*)' --all --epsilon 50 {flag}"), 12, "");
    workdir.fails(&format!("query rides 'SELECT distance' --all --epsilon 1 {flag}"), 1, "cannot be returned");
    workdir.fails(&format!("explain 7 {flag}"), 14, "there is no such run");
    workdir.fails(&format!("doctor {flag}"), 2, "works on a directory");
    assert_eq!(workdir.json(&format!("runs {flag}")), json!([]));
    std::fs::create_dir(workdir.path("empty")).expect("a folder");
    let elsewhere = workdir.command(&["runs", "--json"]).current_dir(workdir.path("empty")).output().expect("runs");
    assert!(elsewhere.status.success() && elsewhere.stdout.starts_with(b"[]"), "{elsewhere:?}");
    let named = workdir.command(&["runs", "--dir", "none"]).current_dir(workdir.path("empty")).output().expect("runs");
    assert_eq!(named.status.code(), Some(14), "a directory that is named counts before a login");
    drop(serving);
    workdir.fails(&format!("runs {flag}"), 69, "cannot be reached");
}

#[test]
fn settings_come_from_flags_then_the_environment_then_a_file() {
    let workdir = small_workdir();
    let origin = |command: &mut Command| {
        let output = command.output().expect("runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let dir = list.as_array().expect("a list").iter().find(|one| one["setting"] == "dir").expect("dir").clone();
        (dir["value"].as_str().unwrap_or_default().to_owned(), dir["origin"].as_str().unwrap_or_default().to_owned())
    };
    let show = ["config", "show", "--json"];
    assert_eq!(origin(&mut workdir.command(&show)), ("sage-data".to_owned(), "built in".to_owned()));
    std::fs::create_dir_all(workdir.path("settings/sage")).expect("a folder");
    let file = workdir.path("settings/sage/config.toml");
    std::fs::write(&file, "dir = \"from-file\"\nas = \"mia\"\n").expect("a file");
    assert_eq!(origin(&mut workdir.command(&show)), ("from-file".to_owned(), format!("file {}", file.display())));
    let environment = origin(workdir.command(&show).env("SAGE_DIR", "from-environment"));
    assert_eq!(environment, ("from-environment".to_owned(), "environment SAGE_DIR".to_owned()));
    let flag =
        origin(workdir.command(&[&show[..], &["--dir", "from-flag"]].concat()).env("SAGE_DIR", "from-environment"));
    assert_eq!(flag, ("from-flag".to_owned(), "flag --dir".to_owned()));
    std::fs::write(&file, "dir = \"sage-data\"\nas = \"mia\"\n").expect("a file");
    workdir.good("query rides 'SELECT count(*)' --all --epsilon 1 --plan");
    assert!(workdir.good("config show").contains("file "));
    std::fs::write(&file, "dirs = \"x\"\n").expect("a file");
    workdir.fails("config show", 2, "did you mean dir?");
}

#[test]
fn shells_complete_every_command() {
    let workdir = Workdir::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = workdir.good(&format!("completion {shell}"));
        for command in ["query", "restore", "audit", "completion"] {
            assert!(script.contains(command), "{shell} does not know {command}");
        }
    }
    workdir.fails("completion csh", 2, "csh");
}

#[test]
fn logs_show_the_steps_of_a_run() {
    let (workdir, stored) = Workdir::with_rides("20_000");
    workdir.run("submit examples/speed.toml --wait --as mia");
    let output = workdir.good("logs 1 --as mia");
    assert!(output.contains("attempt-chosen") && output.contains("epsilon"), "{output}");
    let object = workdir.json("logs 1 --as mia");
    assert_eq!((&object["run"], &object["printed"]), (&json!(1), &json!([])));
    assert!(object["steps"].as_array().is_some_and(|steps| steps.len() >= 3), "{object}");
    assert!(!crate::shows(&output, &stored.to_string()), "{output}");
    workdir.fails("logs 9 --as mia", 14, "there is no run 9");
}

#[test]
fn every_key_of_these_objects_is_in_the_documents() {
    let workdir = small_workdir();
    let first = |list: Value| list.as_array().and_then(|list| list.first().cloned()).expect("a list");
    let line = workdir.good("audit log --last 1 --json");
    let query = "query rides 'SELECT count(*)' --all --epsilon 1 --as mia";
    let objects = [
        ("commands", serde_json::from_str(&line).expect("JSON")),
        ("commands", workdir.json("audit verify")),
        ("commands", workdir.json("audit export bundle")),
        ("commands", workdir.json("backup copy")),
        ("commands", workdir.json("restore copy --dir made")),
        ("commands", workdir.json("restore --acknowledge --nothing-since --as ada --dir made")),
        ("commands", workdir.json("migrate")),
        ("commands", first(workdir.json("config show"))),
        ("private-sql", workdir.json(query)),
        ("private-sql", workdir.json(query)["lines"][0].clone()),
        ("private-sql", workdir.json(query)["lines"][0]["values"]["count(*)"].clone()),
        ("private-sql", workdir.json(&format!("{query} --plan"))),
    ];
    for (page, object) in &objects {
        let document = std::fs::read_to_string(project().join(format!("docs/reference/{page}.md"))).expect("a page");
        for key in object.as_object().expect("an object").keys() {
            assert!(document.contains(&format!("`{key}`")), "docs/reference/{page}.md does not say what `{key}` is");
        }
    }
}
