//! The documentation: every page is reachable from the README through the indexes, every link leads somewhere, every
//! block of commands is run as printed, and the route table is the server's own.
//!
//! After an intended change, `UPDATE_DOCUMENTS=1 cargo test -p sage --test program manual` rewrites the route table.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::http::Serving;
use crate::server::token;
use crate::workdir::{Workdir, project};

/// The pages of the documentation, by their paths from the root of the project.
fn pages() -> Vec<String> {
    let root = ["README", "GUARANTEE", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY", "STYLE"];
    let mut found: Vec<String> = root.iter().map(|name| format!("{name}.md")).collect();
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in project().join(&folder).read_dir().expect("pages").flatten() {
            let path = format!("{folder}/{}", entry.file_name().to_str().expect("a name"));
            match entry.path() {
                own if own.is_dir() => folders.push(path),
                own if own.extension().is_some_and(|kind| kind == "md") => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn text_of(page: &str) -> String {
    std::fs::read_to_string(project().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The code blocks of a page: the kind and the text of each.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match (inside, line.strip_prefix("```")) {
            (false, Some(kind)) => {
                inside = true;
                found.push((kind.to_owned(), String::new()));
            }
            (true, Some(_)) => inside = false,
            (true, None) => found.last_mut().expect("a block").1 += &format!("{line}\n"),
            (false, None) => {}
        }
    }
    assert!(!inside, "a block has no end");
    found
}

/// A page as one script: its command lines, and its files where it shows them.
pub(crate) fn script_of(page: &str) -> String {
    let mut script = String::new();
    for (kind, text) in blocks(&text_of(page)) {
        match (kind.as_str(), text.strip_prefix("# file: ").and_then(|rest| rest.split_once('\n'))) {
            ("sh", _) => script += &text,
            ("toml", Some((name, content))) => script += &format!("cat > {name} <<'END'\n{content}END\n"),
            _ => {}
        }
    }
    script
}

/// Runs a script with the program in the path, and returns its standard output.
pub(crate) fn run_script(folder: &Path, script: &str, variables: &[(&str, &str)]) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_sage")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-e", "-x", "-c", script]).current_dir(folder).env("PATH", path);
    crate::without_settings(&mut shell);
    let output = shell.envs(variables.iter().copied()).output().expect("a shell");
    assert!(output.status.success(), "{}\n{}", crate::stdout(&output), crate::stderr(&output));
    crate::stdout(&output)
}

/// The targets of the links of a page, without anchors; external links are left out.
fn targets(page: &str, text: &str) -> Vec<(String, PathBuf)> {
    let folder = Path::new(page).parent().unwrap_or(Path::new("")).to_owned();
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let inside = links.filter(|link| !link.contains("://") && !link.starts_with('#'));
    inside.map(|link| (link.to_owned(), normal(&folder.join(link.split('#').next().unwrap_or_default())))).collect()
}

/// The same path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => assert!(found.pop(), "{} leaves the project", path.display()),
            part => found.push(part),
        }
    }
    found
}

/// The page that must link to a page: the README leads to the index, the index to the pages, and the records have an
/// index of their own.
fn index_of(page: &str) -> &'static str {
    match page {
        "docs/README.md" => "README.md",
        "docs/internals/decisions/README.md" => "docs/README.md",
        page if page.starts_with("docs/internals/decisions/") => "docs/internals/decisions/README.md",
        page if page.starts_with("docs/") => "docs/README.md",
        _ => "README.md",
    }
}

#[test]
fn every_page_is_found_from_the_readme_and_every_link_leads_somewhere() {
    let named = |page: &str| -> BTreeSet<PathBuf> {
        targets(page, &text_of(page)).into_iter().map(|(_, target)| target).collect()
    };
    for page in pages().iter().filter(|page| *page != "README.md") {
        let index = index_of(page);
        assert!(named(index).contains(Path::new(page)), "{index} does not lead to {page}");
    }
    let all = pages();
    for wanted in ["guide/tutorial", "guide/concepts", "guide/operator", "guide/officer", "reference/api"] {
        assert!(all.contains(&format!("docs/{wanted}.md")), "the documentation has no page {wanted}");
    }
    let mut links = 0;
    for page in pages() {
        for (link, target) in targets(&page, &text_of(&page)) {
            assert!(project().join(&target).exists(), "{page} links to {link}, which is not there");
            links += 1;
        }
    }
    assert!(links > 150, "only {links} links were found");
}

/// Blocks that are not run, by their first line, with the reason.
const SHOWN: &[(&str, &str)] = &[
    ("cargo build --release", "builds the program that the tests have built"),
    ("cargo run --release -- demo", "crates/sage/tests/program/demo.rs runs it"),
    ("cargo xtask check", "runs the tests"),
    ("docker build", "needs a daemon; packaging.rs checks the file"),
    ("sage token create --as mia", "the second works until it is stopped; every test of the server starts one"),
    ("$ sage audit canary", "its numbers are different each time; audit.rs runs it"),
];

#[test]
fn every_block_of_commands_is_run_or_has_a_reason() {
    let mut shown = BTreeSet::new();
    for page in pages() {
        for (kind, text) in blocks(&text_of(&page)) {
            let first = text.lines().next().unwrap_or_default();
            match kind.as_str() {
                // Run below, by the tutorial's test, and with their output by those of their pages.
                "sh" => assert!(RUN.contains(&page.as_str()), "{page}: no test runs `{first}`"),
                "console" => assert!(CHECKED.contains(&page.as_str()), "{page}: {first}"),
                // Diagrams.
                "" => assert_eq!(page, "ARCHITECTURE.md", "{first}"),
                "toml" | "json" | "python" => {}
                "text" => {
                    let known = SHOWN.iter().find(|(start, _)| first.starts_with(start));
                    let (start, _) =
                        known.unwrap_or_else(|| panic!("{page}: there is no reason why `{first}` is not run"));
                    shown.insert(*start);
                }
                other => panic!("{page}: a block of kind `{other}` is neither run nor shown"),
            }
        }
    }
    assert_eq!(shown.len(), SHOWN.len(), "some blocks no longer exist: {shown:?}");
}

/// Pages whose commands are run.
const RUN: &[&str] = &[
    "README.md",
    "docs/guide/concepts.md",
    "docs/guide/data-engineer.md",
    "docs/guide/ml-engineer.md",
    "docs/guide/officer.md",
    "docs/guide/operator.md",
    "docs/guide/quickstart.md",
    "docs/guide/tutorial.md",
    "docs/reference/api.md",
];

/// Pages whose console blocks are compared with what the program prints.
const CHECKED: &[&str] = &["docs/reference/accounting.md", "docs/reference/private-sql.md"];

/// From a CSV to a released model, with the tutorial's CSV and the stream file that its reader ends up with.
#[test]
fn the_readme_works_as_it_stands() {
    let script = script_of("README.md");
    for wanted in ["init", "ingest", "plan", "submit", "explain", "models", "budget"] {
        assert!(script.contains(&format!("\nsage {wanted} ")), "the README does not show {wanted}");
    }
    assert!(script.contains("| sage predict "), "the README does not show predict");
    let workdir = Workdir::new();
    let tutorial = blocks(&text_of("docs/guide/tutorial.md"));
    let block = |start: &str| {
        tutorial.iter().find_map(|(_, text)| text.starts_with(start).then_some(text)).expect("a block of the tutorial")
    };
    run_script(&workdir.path(""), block("awk"), &[]);
    let (_, edited) = block("# file: sage-data/stream.toml").split_once('\n').expect("a file");
    std::fs::write(workdir.path("edited.toml"), edited).expect("a file");
    let said = run_script(&workdir.path(""), &script, &[("EDITOR", "cp edited.toml")]);
    for part in ["rides-minutes@1", "more runs like rides-minutes"] {
        assert!(said.contains(part), "{part:?} is missing in\n{said}");
    }
}

#[test]
fn the_quickstart_works_as_it_stands() {
    let script = script_of("docs/guide/quickstart.md");
    for wanted in ["ingest", "plan", "submit", "explain", "models", "predict", "budget"] {
        assert!(script.contains(&format!("\nsage {wanted} ")), "the quickstart does not show {wanted}");
    }
    let said = run_script(&Workdir::new().path(""), &script, &[]);
    for part in ["nothing is wrong", "taxi-duration@1", "more runs like taxi-duration", "epsilon is at least"] {
        assert!(said.contains(part), "{part:?} is missing in\n{said}");
    }
}

/// The guide of each role, from an empty folder to its end.
#[test]
fn the_guides_of_the_roles_work_as_they_stand() {
    for (role, parts) in [
        ("officer", &["waits for another officer", "+ epsilon = \"2", "in force", "suspended", "events verified"][..]),
        ("data-engineer", &["nothing is wrong"]),
        ("ml-engineer", &["vendor-speed   taxi    accepted", "taxi-duration@1", "more runs like taxi-duration"]),
    ] {
        let said = run_script(&Workdir::new().path(""), &script_of(&format!("docs/guide/{role}.md")), &[]);
        for part in parts {
            assert!(said.contains(part), "{role}: {part:?} is missing in\n{said}");
        }
    }
}

/// The reference lists every command that the program has.
#[test]
fn every_command_is_in_the_reference() {
    let help = Workdir::new().good("help");
    let (_, commands) = help.split_once("\nCommands:\n").expect("a list of commands");
    let names = commands.lines().take_while(|line| line.starts_with("  ")).filter_map(|line| {
        line.strip_prefix("  ").filter(|rest| rest.starts_with(char::is_alphabetic))?.split_whitespace().next()
    });
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    assert!(names.len() > 25, "{names:?}");
    let page = text_of("docs/reference/commands.md");
    for name in names {
        assert!(page.contains(&format!("`sage {name}")), "docs/reference/commands.md does not list sage {name}");
    }
}

#[test]
fn the_concepts_page_works_as_it_stands() {
    let said = run_script(&Workdir::new().path(""), &script_of("docs/guide/concepts.md"), &[]);
    for part in ["as the ledger counts; requested: epsilon 0.05", "It was accepted and released.", "events verified"] {
        assert!(said.contains(part), "{part:?} is missing in\n{said}");
    }
}

#[test]
fn the_operator_page_makes_and_restores_a_backup() {
    let (workdir, _) = Workdir::with_rides("2_000");
    run_script(&workdir.path(""), &script_of("docs/guide/operator.md"), &[]);
    assert_eq!(workdir.json("audit verify --dir sage-new")["fenced"], false, "an officer has acknowledged it");
    workdir.good("doctor --dir sage-new");
}

/// The list of routes, as the server describes itself.
fn listed(described: &Value) -> String {
    let mut list = "| route | audience | request | responses | |\n| --- | --- | --- | --- | --- |\n".to_owned();
    let kinds = |content: &Value| -> Vec<String> {
        let content = content["content"].as_object().into_iter().flatten();
        let kind = |(kind, own): (&String, &Value)| match own["schema"]["$ref"].as_str() {
            Some(name) => format!("`{}`", name.rsplit('/').next().unwrap_or_default()),
            None => kind.clone(),
        };
        content.map(kind).collect()
    };
    for (path, verbs) in described["paths"].as_object().expect("paths") {
        for (verb, operation) in verbs.as_object().expect("verbs") {
            let named = |location: &str| {
                let all = operation["parameters"].as_array().into_iter().flatten();
                all.filter(|one| one["in"] == location)
                    .filter_map(|one| one["name"].as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let (queried, headed) = (named("query"), named("header"));
            let mut takes = kinds(&operation["requestBody"]);
            takes.extend((!queried.is_empty()).then(|| format!("query: {queried}")));
            takes.extend((!headed.is_empty()).then(|| format!("header: {headed}")));
            let good =
                operation["responses"].as_object().into_iter().flatten().filter(|(status, _)| *status != "default");
            let gives: Vec<String> =
                good.map(|(status, content)| format!("{status} {}", kinds(content).join(" "))).collect();
            list += &format!(
                "| `{} {path}` | {} | {} | {} | {} |\n",
                verb.to_uppercase(),
                operation["x-audience"].as_str().expect("an audience"),
                takes.join("; "),
                gives.join("; "),
                operation["summary"].as_str().expect("a summary")
            );
        }
    }
    list
}

#[test]
fn the_list_of_routes_is_the_servers_own_and_the_first_conversation_works() {
    let (workdir, _) = Workdir::with_rides("150_000");
    let mia = token(&workdir, "mia");
    let serving = Serving::start(&workdir);
    let text = text_of("docs/reference/api.md");
    let end = text.find("<!-- what follows").and_then(|at| Some(at + text[at..].find("-->\n")? + 4)).expect("a mark");
    let (before, rest) = text.split_at(end);
    let now = listed(serving.described());
    if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
        std::fs::write(project().join("docs/reference/api.md"), format!("{before}\n{now}"))
            .expect("the page can be written");
    } else {
        assert_eq!(rest.trim(), now.trim(), "docs/reference/api.md does not list the routes of the server");
    }
    if !crate::standing::there("curl", "the first conversation of docs/reference/api.md") {
        return;
    }
    let address = serving.address();
    let variables = [("SAGE_SERVER", address.as_str()), ("SAGE_TOKEN", mia.as_str())];
    let said = run_script(&workdir.path(""), &script_of("docs/reference/api.md"), &variables);
    for part in [
        "\"name\":\"taxi\"",
        "\"starts_now\":true",
        "\"run\":1",
        "\"half_width\"",
        "event: charged",
        "\"kind\":\"charged\"",
    ] {
        assert!(said.contains(part), "{part:?} is missing in\n{said}");
    }
}
