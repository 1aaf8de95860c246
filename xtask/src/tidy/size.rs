//! Size limits of files and functions, with a ratchet: whatever is too long today is recorded with its size
//! and may only become shorter.

use std::collections::BTreeMap;

use super::Findings;
use crate::source::Source;
use crate::workspace::{self, Failure};

/// The maximum length of a file, in lines that are neither blank nor comment, without its tests.
const FILE_LINES: usize = 400;

/// The maximum length of a file in full: with blank lines, comments and the tests inside it. Files of tests alone are
/// exempt, since their tables can be long.
const ALL_LINES: usize = 500;

/// Ends the name of a file in the ratchet whose size is that in full.
const IN_FULL: &str = " in full";

/// The maximum length of a function, in lines that are neither blank nor comment. It applies to test functions too: a
/// long one usually contains a table, which belongs in a constant.
const FUNCTION_LINES: usize = 70;

const RATCHET: &str = "xtask/tidy-ratchet.toml";

const HEADING: &str = "\
# Files (over 400 lines) and functions (over 70 lines) that are longer than STYLE.md allows, with their current size in
# lines that are neither blank nor comment, and files with over 500 lines of any kind (`in full`). An entry may only
# become smaller, and is removed once it fits; `cargo xtask tidy --lower` does both. New entries are added by hand, with
# the reason in the commit.

";

/// Sizes above the limit, by file or by `file::function`.
type Sizes = BTreeMap<String, usize>;

pub(super) fn check(sources: &[Source]) -> Result<Findings, Failure> {
    Ok(compare(&oversized(sources), &recorded(&workspace::read(RATCHET)?)?))
}

/// Lowers the recorded sizes to the current ones; an entry that has grown remains a finding.
pub(super) fn lower(sources: &[Source]) -> Result<(), Failure> {
    let now = oversized(sources);
    let before = recorded(&workspace::read(RATCHET)?)?;
    let mut text = HEADING.to_owned();
    for (name, limit) in before {
        if let Some(size) = now.get(&name) {
            text.push_str(&format!("\"{name}\" = {}\n", limit.min(*size)));
        }
    }
    std::fs::write(workspace::root().join(RATCHET), text).map_err(|e| format!("{RATCHET}: {e}"))
}

fn oversized(sources: &[Source]) -> Sizes {
    let mut sizes = Sizes::new();
    for source in sources {
        let lines = source.lines_outside_tests();
        if lines > FILE_LINES {
            sizes.insert(source.path.clone(), lines);
        }
        if lines > 0 && source.raw.len() > ALL_LINES {
            sizes.insert(format!("{}{IN_FULL}", source.path), source.raw.len());
        }
        for function in source.functions().iter().filter(|f| f.lines > FUNCTION_LINES) {
            let size = sizes.entry(format!("{}::{}", source.path, function.name)).or_default();
            *size = function.lines.max(*size);
        }
    }
    sizes
}

fn recorded(text: &str) -> Result<Sizes, Failure> {
    let table: toml::Table = text.parse().map_err(|error| format!("{RATCHET}: {error}"))?;
    let mut sizes = Sizes::new();
    for (name, value) in table {
        let size = value.as_integer().and_then(|size| usize::try_from(size).ok());
        let size = size.ok_or_else(|| format!("{RATCHET}: {name} has no size"))?;
        sizes.insert(name, size);
    }
    Ok(sizes)
}

fn compare(now: &Sizes, recorded: &Sizes) -> Findings {
    let mut findings = Findings::new();
    for (name, size) in now {
        let limit = match name {
            name if name.contains("::") => FUNCTION_LINES,
            name if name.ends_with(IN_FULL) => ALL_LINES,
            _ => FILE_LINES,
        };
        match recorded.get(name) {
            None => findings.push(format!("{name}: {size} lines, at most {limit}: split it by concept")),
            Some(before) if size > before => {
                findings.push(format!("{name}: grew from {before} to {size} lines; limit {limit}"));
            }
            Some(before) if size < before => findings.push(shrunk(name)),
            Some(_) => {}
        }
    }
    let gone = recorded.keys().filter(|name| !now.contains_key(*name));
    findings.extend(gone.map(|name| shrunk(name)));
    findings
}

fn shrunk(name: &str) -> String {
    format!("{name}: became shorter: record the new size with `cargo xtask tidy --lower`")
}

#[cfg(test)]
mod tests {
    use super::{ALL_LINES, FILE_LINES, FUNCTION_LINES, Sizes, compare, oversized, recorded};
    use crate::source::Source;

    fn sizes(entries: &[(&str, usize)]) -> Sizes {
        entries.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect()
    }

    #[test]
    fn long_files_are_found_without_their_tests() {
        let long = "const A: u8 = 1;\n".repeat(FILE_LINES + 1);
        let tested = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        let sources = [Source::new("long.rs", &long), Source::new("tested.rs", &tested)];
        assert_eq!(oversized(&sources), sizes(&[("long.rs", FILE_LINES + 1)]));
    }

    #[test]
    fn files_that_are_long_in_full_are_found() {
        let text = |count: usize| format!("fn a() {{}}\n{}", "// A comment.\n".repeat(count - 1));
        let check = |path: &str, count: usize| oversized(&[Source::new(path, &text(count))]);
        assert_eq!(check("crates/x/src/a.rs", ALL_LINES), sizes(&[]));
        assert_eq!(check("crates/x/src/a.rs", ALL_LINES + 1), sizes(&[("crates/x/src/a.rs in full", ALL_LINES + 1)]));
        assert_eq!(check("crates/x/tests/a.rs", ALL_LINES + 1), sizes(&[]), "tests alone");
    }

    #[test]
    fn long_functions_are_found_in_tests_too() {
        let body = "    one();\n".repeat(FUNCTION_LINES - 1);
        let text = format!("fn fits() {{\n{}}}\nfn long() {{\n{body}}}\n", &body[11..]);
        let sources = [Source::new("crates/x/tests/a.rs", &text)];
        let expected = sizes(&[("crates/x/tests/a.rs::long", FUNCTION_LINES + 1)]);
        assert_eq!(oversized(&sources), expected);
    }

    #[test]
    fn the_ratchet_turns_one_way() {
        let now = sizes(&[("a.rs", 450)]);
        let check = |entries: &[(&str, usize)]| compare(&now, &sizes(entries)).len();
        assert_eq!(check(&[("a.rs", 450)]), 0);
        assert_eq!(check(&[]), 1, "new");
        assert_eq!(check(&[("a.rs", 449)]), 1, "grown");
        assert_eq!(check(&[("a.rs", 451)]), 1, "shrunk and not written down");
        assert_eq!(check(&[("a.rs", 450), ("b.rs", 500)]), 1, "gone and not written down");
    }

    #[test]
    fn the_ratchet_file_is_read_or_refused() {
        assert_eq!(recorded("\"a.rs::f\" = 80\n"), Ok(sizes(&[("a.rs::f", 80)])));
        assert!(recorded("\"a.rs\" = \"long\"\n").is_err());
    }
}
