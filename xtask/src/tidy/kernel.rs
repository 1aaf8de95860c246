//! Rules for the trusted code: no `unsafe`, no I/O, no floats where budgets are counted, ordered maps, and a
//! page for each proof that the code refers to.

use std::collections::BTreeSet;

use super::{Findings, on_lines};
use crate::source::{Source, has_token};
use crate::workspace::{self, Failure};

const KERNEL: &str = "crates/sage-kernel/";
const STORE: &str = "crates/sage-store/";
const ENGINE: &str = "crates/sage-engine/";

/// The crates that may contain `unsafe`: bindings to another language, and to the system.
const BINDINGS: &[&str] = &["crates/sage-python/", SANDBOX];

/// The sandbox, whose `unsafe` code is in one file.
const SANDBOX: &str = "crates/sage-sandbox/";
const SANDBOX_BINDINGS: &str = "crates/sage-sandbox/src/bindings.rs";

/// The files or folders that count budgets.
const INTEGER_ONLY: &[&str] = &["budget", "ledger", "block", "event", "log"];

/// Modules that the kernel must not use.
const FORBIDDEN_MODULES: &[&str] =
    &["std::fs", "std::net", "std::env", "std::process::Command", "std::io", "std::time"];

pub(super) fn check(files: &[String], sources: &[Source]) -> Result<Findings, Failure> {
    let mut findings = proofs(files, sources);
    findings.extend(unsafe_forbidden(files)?);
    for source in sources {
        findings.extend(floats(source));
        findings.extend(unordered_maps(source));
        findings.extend(side_effects(source));
        findings.extend(unsafe_outside_bindings(source));
    }
    Ok(findings)
}

/// Every crate except the bindings forbids `unsafe`, through the workspace's lints or its own.
fn unsafe_forbidden(files: &[String]) -> Result<Findings, Failure> {
    let workspace_forbids = lints_forbid(parse(&workspace::read("Cargo.toml")?)?.get("workspace"));
    let mut findings = Findings::new();
    for path in files.iter().filter(|path| path.ends_with("/Cargo.toml")) {
        let bound = BINDINGS.iter().any(|binding| path.starts_with(binding));
        if !bound && !forbids_unsafe(&workspace::read(path)?, workspace_forbids)? {
            findings.push(format!("{path}: its lints do not forbid `unsafe_code`"));
        }
    }
    Ok(findings)
}

/// The `unsafe` code of the sandbox is in one file.
fn unsafe_outside_bindings(source: &Source) -> Findings {
    if !source.path.starts_with(SANDBOX) || source.path == SANDBOX_BINDINGS {
        return Findings::new();
    }
    on_lines(source, source.code_lines(), |line| {
        has_token(line, "unsafe").then(|| format!("`unsafe` outside {SANDBOX_BINDINGS}"))
    })
}

fn forbids_unsafe(manifest: &str, workspace_forbids: bool) -> Result<bool, Failure> {
    let table = toml::Value::Table(parse(manifest)?);
    let inherited = table.get("lints").and_then(|lints| lints.get("workspace"));
    if inherited.and_then(toml::Value::as_bool) == Some(true) {
        return Ok(workspace_forbids);
    }
    Ok(lints_forbid(Some(&table)))
}

fn lints_forbid(section: Option<&toml::Value>) -> bool {
    let rust = section.and_then(|section| section.get("lints")).and_then(|lints| lints.get("rust"));
    let level = rust.and_then(|rust| rust.get("unsafe_code"));
    level.and_then(toml::Value::as_str) == Some("forbid")
}

fn parse(manifest: &str) -> Result<toml::Table, Failure> {
    manifest.parse().map_err(|error| format!("Cargo.toml: {error}"))
}

/// The code refers to every page in `proofs/`, and every page that it refers to exists.
fn proofs(files: &[String], sources: &[Source]) -> Findings {
    let folder = format!("{KERNEL}proofs/");
    let pages = files.iter().filter_map(|path| path.strip_prefix(&folder));
    let pages: BTreeSet<String> = pages.map(str::to_owned).collect();
    let code = format!("{KERNEL}src/");
    let mut named = BTreeSet::new();
    for source in sources.iter().filter(|source| source.path.starts_with(&code)) {
        named.extend(source.raw.iter().flat_map(|line| pages_named(line)));
    }
    let missing =
        named.difference(&pages).map(|page| format!("{folder}{page}: the code refers to it, but it does not exist"));
    let unnamed = pages.difference(&named).map(|page| format!("{folder}{page}: no code refers to it"));
    missing.chain(unnamed).collect()
}

fn pages_named(line: &str) -> Vec<String> {
    let comment = line.split_once("//").map_or("", |(_, comment)| comment);
    let after = comment.split("proofs/").skip(1);
    let ends = |c: char| !(c.is_alphanumeric() || "_-./".contains(c));
    let pages = after.map(|rest| rest.split(ends).next().unwrap_or_default().trim_end_matches('.'));
    pages.filter(|page| page.ends_with(".md")).map(str::to_owned).collect()
}

/// Budgets are counted in integers.
fn floats(source: &Source) -> Findings {
    let Some(path) = source.path.strip_prefix(KERNEL).and_then(|p| p.strip_prefix("src/")) else {
        return Findings::new();
    };
    let first = path.split(['/', '.', '_']).next().unwrap_or_default();
    if !INTEGER_ONLY.contains(&first) {
        return Findings::new();
    }
    on_lines(source, source.code_outside_tests(), |line| {
        let float = has_token(line, "f64") || has_token(line, "f32") || has_float_literal(line);
        float.then(|| "a float where budgets are counted".to_owned())
    })
}

/// `1.5`, but not the fields of `pair.0.1`.
fn has_float_literal(line: &str) -> bool {
    line.match_indices('.').any(|(dot, _)| {
        let before = &line[..dot];
        let whole = before.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
        let starts_number = !whole.ends_with(|c: char| c.is_alphanumeric() || c == '.');
        let digits = before.len() > whole.len();
        digits && starts_number && line[dot + 1..].starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Replaying the log must give the same state in the same order everywhere.
fn unordered_maps(source: &Source) -> Findings {
    if ![KERNEL, STORE, ENGINE].iter().any(|root| source.path.starts_with(root)) {
        return Findings::new();
    }
    on_lines(source, source.code_lines(), |line| {
        let word = ["HashMap", "HashSet"].into_iter().find(|word| has_token(line, word))?;
        Some(format!("`{word}` has no order: use `{}`", word.replace("Hash", "BTree")))
    })
}

/// The kernel does no I/O and reads no clock.
fn side_effects(source: &Source) -> Findings {
    if !source.path.starts_with(&format!("{KERNEL}src/")) {
        return Findings::new();
    }
    on_lines(source, source.code_outside_tests(), |line| {
        let module = FORBIDDEN_MODULES.iter().find(|module| has_token(line, module));
        let prints = ["println!", "eprintln!", "print!", "eprint!"];
        let printing = prints.iter().find(|word| line.contains(**word));
        Some(format!("`{}`: the kernel has no I/O, clock or environment", module.or(printing)?))
    })
}

#[cfg(test)]
mod tests {
    use super::{
        floats, forbids_unsafe, lints_forbid, pages_named, parse, proofs, side_effects, unordered_maps,
        unsafe_outside_bindings,
    };
    use crate::source::Source;

    fn kernel(file: &str, text: &str) -> Source {
        Source::new(&format!("crates/sage-kernel/src/{file}"), text)
    }

    #[test]
    fn budgets_are_counted_in_integers() {
        let text = "fn a(x: f64) {}\n";
        for file in ["budget.rs", "ledger.rs", "ledger_state.rs", "ledger/lane.rs", "event.rs"] {
            assert_eq!(floats(&kernel(file, text)).len(), 1, "{file}");
        }
        for file in ["cost.rs", "accountant/pld.rs", "blocks.rs"] {
            assert_eq!(floats(&kernel(file, text)), Vec::<String>::new(), "{file}");
        }
        for text in ["let x: f32 = y;", "let x = 0.5;", "let x = (1_000.25, 2);"] {
            assert_eq!(floats(&kernel("log.rs", text)).len(), 1, "{text}");
        }
        let tested = "#[cfg(test)]\nmod tests {\n    const A: f64 = 0.5;\n}\n";
        for text in ["// f64 0.5", "let x = a.0.1;", "for i in 0..10 {}", "\"0.5\"", tested] {
            assert_eq!(floats(&kernel("log.rs", text)), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn maps_are_ordered() {
        assert_eq!(unordered_maps(&kernel("a.rs", "use std::collections::HashMap;")).len(), 1);
        let engine = Source::new("crates/sage-engine/src/a.rs", "let a = HashSet::new();");
        assert_eq!(unordered_maps(&engine).len(), 1);
        let outside = Source::new("crates/sage/src/a.rs", "let a = HashSet::new();");
        assert_eq!(unordered_maps(&outside), Vec::<String>::new());
        assert_eq!(unordered_maps(&kernel("a.rs", "let a = BTreeMap::new();")), Vec::<String>::new());
    }

    #[test]
    fn the_kernel_has_no_side_effects() {
        for text in ["use std::fs;", "std::env::var(x)", "let t = std::time::Instant::now();"] {
            assert_eq!(side_effects(&kernel("a.rs", text)).len(), 1, "{text}");
        }
        assert_eq!(side_effects(&kernel("a.rs", "println!(\"{a}\");")).len(), 1);
        let test = Source::new("crates/sage-kernel/tests/a.rs", "use std::fs;");
        assert_eq!(side_effects(&test), Vec::<String>::new());
        assert_eq!(side_effects(&kernel("a.rs", "use std::fmt;")), Vec::<String>::new());
    }

    #[test]
    fn proofs_and_code_refer_to_each_other() {
        let page = "crates/sage-kernel/proofs/basic.md".to_owned();
        let naming = [kernel("a.rs", "/// Proof: `proofs/basic.md`.\n")];
        let silent = [kernel("a.rs", "/// Trust me.\n")];
        assert_eq!(proofs(std::slice::from_ref(&page), &naming), Vec::<String>::new());
        assert_eq!(proofs(std::slice::from_ref(&page), &silent).len(), 1);
        assert_eq!(proofs(&[], &naming).len(), 1);
        assert_eq!(pages_named("// see proofs/a.md, proofs/b/c.md."), ["a.md", "b/c.md"]);
        assert_eq!(pages_named("let a = \"proofs/a.md\";"), Vec::<String>::new());
    }

    #[test]
    fn unsafe_is_forbidden() {
        let own = "[lints.rust]\nunsafe_code = \"forbid\"\n";
        let inherited = "[lints]\nworkspace = true\n";
        assert_eq!(forbids_unsafe(own, false), Ok(true));
        assert_eq!(forbids_unsafe(&own.replace("forbid", "deny"), true), Ok(false));
        assert_eq!(forbids_unsafe(inherited, true), Ok(true));
        assert_eq!(forbids_unsafe(inherited, false), Ok(false));
        assert_eq!(forbids_unsafe("[package]\nname = \"a\"\n", true), Ok(false));
    }

    #[test]
    fn the_sandbox_has_its_bindings_in_one_file() {
        let check = |file: &str| unsafe_outside_bindings(&Source::new(file, "let a = unsafe { b() };\n")).len();
        assert_eq!(check("crates/sage-sandbox/src/run.rs"), 1);
        assert_eq!(check("crates/sage-sandbox/tests/escapes/main.rs"), 1);
        assert_eq!(check("crates/sage-sandbox/src/bindings.rs"), 0);
        assert_eq!(check("crates/sage-python/src/lib.rs"), 0);
    }

    #[test]
    fn the_lint_level_of_the_workspace_is_read() {
        let manifest = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n";
        assert!(lints_forbid(parse(manifest).unwrap().get("workspace")));
        assert!(!lints_forbid(parse("[workspace]\n").unwrap().get("workspace")));
    }
}
