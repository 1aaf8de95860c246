//! Rules for links: a relative link of a page leads to a file and to a heading that exist, a page of `docs/` that any
//! file names is there, and so are the source files and tests that pages name.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use crate::workspace::{self, Failure};

pub(super) fn check(files: &[String]) -> Result<Findings, Failure> {
    let mut texts = BTreeMap::new();
    for path in files {
        let bytes = std::fs::read(workspace::root().join(path)).map_err(|error| format!("{path}: {error}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            texts.insert(path.as_str(), text);
        }
    }
    Ok(Project::new(files, &texts).findings())
}

/// What links can lead to.
struct Project<'a> {
    texts: &'a BTreeMap<&'a str, String>,
    /// Files, and the folders above them.
    paths: BTreeSet<&'a str>,
    /// The anchors of each page.
    anchors: BTreeMap<&'a str, BTreeSet<String>>,
    /// The names of all functions of Rust files.
    functions: BTreeSet<&'a str>,
}

impl<'a> Project<'a> {
    fn new(files: &'a [String], texts: &'a BTreeMap<&'a str, String>) -> Self {
        let mut paths = BTreeSet::new();
        for path in files {
            paths.insert(path.as_str());
            paths.extend(path.match_indices('/').map(|(end, _)| &path[..end]));
        }
        let pages = texts.iter().filter(|(path, _)| is_page(path));
        let anchors = pages.map(|(path, text)| (*path, anchors_of(text))).collect();
        let sources = texts.iter().filter(|(path, _)| path.ends_with(".rs"));
        let functions = sources.flat_map(|(_, text)| text.split("fn ").skip(1).map(first_name)).collect();
        Self { texts, paths, anchors, functions }
    }

    fn findings(&self) -> Findings {
        let mut findings = Findings::new();
        for (path, text) in self.texts {
            for (number, line) in prose_lines(text).filter(|_| is_page(path)) {
                let broken = links_of(line).filter_map(|link| Some((link, self.broken(path, link)?)));
                findings.extend(broken.map(|(link, why)| format!("{path}:{number}: link `{link}`: {why}")));
                let absent = spans_of(line).filter(|span| self.absent(path, span));
                findings.extend(absent.map(|span| format!("{path}:{number}: there is no `{span}`")));
            }
            for (number, line) in text.lines().enumerate() {
                let missing = named_pages(line).filter(|page| !self.paths.contains(page));
                findings.extend(missing.map(|page| format!("{path}:{}: there is no page `{page}`", number + 1)));
            }
        }
        findings
    }

    /// Whether a code span of a page names a source file that is not there or, in the pages on internals, a test.
    fn absent(&self, page: &str, span: &str) -> bool {
        if is_source(span) {
            return !self.paths.iter().any(|path| *path == span || path.ends_with(&format!("/{span}")));
        }
        let internal = page == "GUARANTEE.md" || page == "ARCHITECTURE.md" || page.contains("internals/");
        internal && is_sentence(span) && !self.functions.contains(span)
    }

    /// Why a link of a page leads nowhere.
    fn broken(&self, page: &str, link: &str) -> Option<String> {
        if link.contains("://") || link.starts_with("mailto:") {
            return None;
        }
        let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
        let Some(target) = resolved(page, file) else { return Some("it leaves the project".to_owned()) };
        if !self.paths.contains(target.as_str()) {
            return Some(format!("there is no `{target}`"));
        }
        let anchor = anchor?;
        let there = self.anchors.get(target.as_str()).is_some_and(|anchors| anchors.contains(anchor));
        (!there).then(|| format!("`{target}` has no heading for `#{anchor}`"))
    }
}

fn is_page(path: &str) -> bool {
    path.ends_with(".md")
}

/// The lines of a page outside of code blocks, with their numbers.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        (!code && !fence).then_some((index + 1, line))
    })
}

/// The targets of links in a line, code spans left out.
fn links_of(line: &str) -> impl Iterator<Item = &str> {
    let starts = line.match_indices("](").filter(|(at, _)| line[..*at].matches('`').count().is_multiple_of(2));
    starts.filter_map(|(at, _)| line[at + 2..].split(')').next()).filter(|link| !link.contains(char::is_whitespace))
}

/// The code spans of a line.
fn spans_of(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a code span is the path of a file of ours; `NAME` stands for any name.
fn is_source(span: &str) -> bool {
    let path = span.chars().all(|c| c.is_ascii_alphanumeric() || "-_/.".contains(c)) && !span.contains("NAME");
    path && (span.ends_with(".rs") || span.contains('/') && (span.ends_with(".py") || span.ends_with(".mjs")))
}

/// Whether a code span is named like a test: four words or more.
fn is_sentence(span: &str) -> bool {
    span.matches('_').count() >= 3 && span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn first_name(text: &str) -> &str {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default()
}

/// The path that a link of a page leads to, from the root of the project.
fn resolved(page: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(page.to_owned());
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a page's headings, as they are derived in a browser: lower case, blanks as hyphens, no punctuation.
fn anchors_of(text: &str) -> BTreeSet<String> {
    let headings = prose_lines(text).filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len()).then(|| heading.strip_prefix(' ')).flatten()
    });
    headings.map(anchor_of).collect()
}

fn anchor_of(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The pages of `docs/` that a line names by their paths from the root.
fn named_pages(line: &str) -> impl Iterator<Item = &str> {
    const FOLDER: &str = concat!("docs", "/");
    line.match_indices(FOLDER).filter_map(|(start, _)| {
        let outer = line[..start].chars().next_back();
        if outer.is_some_and(|c| c.is_alphanumeric() || "-_.".contains(c)) {
            return None;
        }
        let rest = &line[start..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_/.".contains(c))).unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches('.');
        is_page(path).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, Project, anchor_of, named_pages, resolved};

    fn findings(files: &[(&'static str, &str)]) -> Vec<String> {
        let names: Vec<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
        let texts: BTreeMap<&str, String> = files.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        Project::new(&names, &texts).findings()
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let page = "# Page\n\n## The `[train]` table\n\n";
        let good = [
            "[a](b.md)",
            "[a](b.md#the-train-table)",
            "[a](#the-train-table)",
            "[folder](sub)",
            "[picture](sub/c.png)",
            "[out](https://example.org/x)",
            "`a](nowhere.md)`",
            "```\n[a](nowhere.md)\n```",
        ];
        for text in good {
            let own = format!("{page}{text}\n");
            let found = findings(&[("pages/a.md", &own), ("pages/b.md", page), ("pages/sub/c.png", "")]);
            assert_eq!(found, Vec::<String>::new(), "{text}");
        }
        for text in ["[a](c.md)", "[a](b.md#other)", "[a](#other)", "[a](../../b.md)", "[a](sub/d.png)"] {
            let own = format!("{page}{text}\n");
            let found = findings(&[("pages/a.md", &own), ("pages/b.md", page), ("pages/sub/c.png", "")]);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with("pages/a.md:5: "), "{found:?}");
        }
    }

    #[test]
    fn pages_that_code_names_are_there() {
        let named = concat!("//! See `docs", "/b.md`.");
        assert_eq!(findings(&[("src/a.rs", named), (concat!("docs", "/b.md"), "")]), Vec::<String>::new());
        assert_eq!(findings(&[("src/a.rs", named)]).len(), 1);
        let line = concat!("include_str!(\"../../docs", "/b.md\"), my-docs", "/c.md, docs", "/d.png");
        assert_eq!(named_pages(line).collect::<Vec<_>>(), [concat!("docs", "/b.md")]);
    }

    #[test]
    fn files_and_tests_that_pages_name_are_there() {
        let source = "#[test]\nfn a_row_decides_about_itself() {}\n";
        let good = "`a/b.rs`, `b.rs`, `x/NAME.rs`, `{a,b}.rs`, `train.py`, `a_row_decides_about_itself`, `two_words`\n";
        let found = |text: &str, page: &'static str| findings(&[(page, text), ("crates/a/b.rs", source)]);
        assert_eq!(found(good, "GUARANTEE.md"), Vec::<String>::new());
        for text in ["`c.rs`", "`c/b.rs`", "`tools/c.py`", "`a_row_decides_about_another`"] {
            assert_eq!(found(text, "GUARANTEE.md").len(), 1, "{text}");
        }
        assert_eq!(found("`the_name_of_a_metric`", "pages/a.md"), Vec::<String>::new());
    }

    #[test]
    fn paths_and_anchors_are_those_of_a_browser() {
        assert_eq!(resolved("pages/guide/a.md", "../reference/b.md").as_deref(), Some("pages/reference/b.md"));
        assert_eq!(resolved("a.md", "../b.md"), None);
        assert_eq!(anchor_of("Private SQL: `sage query`"), "private-sql-sage-query");
        assert_eq!(anchor_of("Back up and restore"), "back-up-and-restore");
    }
}
