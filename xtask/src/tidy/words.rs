//! Rules for words: names and prose use the field's terms, not words that only this project would understand.
//!
//! A house word is looked for in every part of every word of a file, so that `fn last_asked` and `AskedQuery` are found
//! and `Laplace`, `replace` and `clockwise` are not. Some words are good English in prose and only bad names; they are
//! looked for in the names of Rust code alone.

use super::Findings;
use crate::source::Source;
use crate::workspace::{self, Failure};

/// Words that neither names nor prose may have, and what to write instead.
const WORDS: &[(&str, &str)] = &[
    ("asked", "requested, or a noun such as `request` or `query`"),
    ("told", "reported, returned or distinguished"),
    ("fed", "ingested"),
    ("law", "distribution"),
    ("laws", "distributions"),
    ("desk", "group commit"),
    ("shelf", "artifact store"),
    ("relief", "hints"),
    ("rival", "baseline"),
    ("rivals", "baselines"),
    ("door", "access mode"),
    ("doors", "access modes"),
    ("tick", "disclosure interval, or step of the clock"),
    ("ticks", "disclosure intervals, or steps of the clock"),
    ("whoever", "the caller, the user or the officer"),
    ("somebody", "the caller, the user or the officer"),
];

/// Words that are English in prose and say nothing as a name.
const NAMES: &[(&str, &str)] = &[
    ("place", "index, category, column or directory"),
    ("places", "indices, categories, columns or options"),
    ("room", "buffer, capacity or margin"),
];

/// Phrases that prose may not have.
const PHRASES: &[(&str, &str)] = &[
    ("held against", "checked against or compared with"),
    ("is no number", "NaN"),
    ("made-up", "synthetic, generated or simulated"),
    ("goes its way", "continues or resumes"),
    ("goes on its way", "continues or resumes"),
    ("lives through", "simulates"),
    ("kept sums", "cached block summaries"),
    ("louder door", "the attested access mode"),
    ("make room", "free space or free memory"),
    ("ways forward and back", "forward and backward pass"),
];

/// Lines that keep a word: the path begins with the first text and the line contains the second. The third says why.
const KEPT: &[(&str, &str, &str)] = &[
    ("xtask/src/tidy/words.rs", "", "the lists of this rule"),
    ("CHANGELOG.md", "now ", "what was renamed"),
    ("crates/sage/tests/program/former_names.rs", "", "the test of former names"),
    ("crates/sage/tests/golden/", "", "what earlier releases wrote"),
    ("crates/sage-engine/src/api/query.rs", "\"asked: query of", "the text of a key in logs"),
    ("crates/sage-engine/src/worker/grant.rs", "\"asked: ", "the text of a key in logs"),
    ("crates/sage-engine/src/catalog/note.rs", "rename = \"asked\"", "a member of notes in logs"),
    ("crates/sage-engine/src/release/receipt.rs", "`door`", "the former name"),
    ("crates/sage-engine/src/release/receipt.rs", "alias = \"door\"", "the former name"),
    ("crates/sage-server/src/views/queries.rs", "alias = \"asked\"", "the former name"),
    ("crates/sage-store/src/log/directory.rs", "Whoever holds the lock", "the bytes of lock files"),
    ("crates/sage-store/src/stream/policy.rs", "FORMER_KEY: &str", "the former name"),
    ("crates/sage-store/src/stream/read.rs", "FORMER_INTERVAL: &str", "the former name"),
    ("crates/sage-store/tests/stream/file.rs", "tick", "the test of former names"),
    ("crates/sage-store/tests/stream/file.rs", "doors", "the test of former names"),
    ("docs/reference/stream-file.md", "former", "the former names"),
    ("docs/reference/log-format.md", "`asked", "members and keys in logs"),
    ("tools/audit_catalog.py", "asked: query of", "the text of a key in logs"),
    ("tools/test_audit.py", "asked: query of", "the text of a key in logs"),
    ("crates/sage-kernel/src/budget.rs", "places", "decimal places"),
    ("crates/sage-kernel/src/budget.rs", "PLACES", "decimal places"),
    ("crates/sage-kernel/src/filter/mod.rs", "places", "decimal places"),
    ("crates/sage-kernel/src/filter/mod.rs", "PLACES", "decimal places"),
    ("crates/sage-kernel/src/refusal.rs", ".places()", "decimal places"),
    ("crates/sage-kernel/tests/mechanisms/boundary/filters.rs", "places", "decimal places"),
    ("crates/sage-server/src/pages/html.rs", "places", "decimal places"),
    ("crates/sage/src/commands/query.rs", "places", "decimal places"),
    ("crates/sage-store/src/blocks/keys.rs", "in_place", "a name of another crate"),
    ("crates/sage-server/src/pages/picture.rs", "tick", "ticks of an axis"),
    ("crates/sage-server/src/pages/style.css", "tick", "ticks of an axis"),
    ("xtask/src/bench/build.rs", "ticks", "clock ticks of the system"),
    ("crates/sage-kernel/proofs/randomness.md", "tick", "clock ticks of the machine"),
    ("crates/sage-numerics/src/spectral.rs", "Sylvester", "the name of a theorem"),
    ("crates/sage-sql/src/evaluate/vector.rs", "De Morgan", "the name of a theorem"),
];

/// The files with text that people write.
const TEXTS: &[&str] = &[".rs", ".md", ".py", ".mjs", ".js", ".toml", ".html", ".css", ".sh", ".yml", ".v"];

pub(super) fn check(files: &[String], sources: &[Source]) -> Result<Findings, Failure> {
    let mut findings = Findings::new();
    for path in files.iter().filter(|path| TEXTS.iter().any(|end| path.ends_with(end))) {
        let bytes = std::fs::read(workspace::root().join(path)).map_err(|error| format!("{path}: {error}"))?;
        findings.extend(in_text(path, &String::from_utf8_lossy(&bytes)));
    }
    findings.extend(sources.iter().flat_map(in_names));
    Ok(findings)
}

/// House words and phrases anywhere in a file.
fn in_text(path: &str, text: &str) -> Findings {
    let mut findings = Findings::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !is_kept(path, line)) {
        let small = line.to_lowercase();
        let phrases = PHRASES.iter().filter(|(phrase, _)| small.contains(phrase));
        let found = house_words(line, WORDS).into_iter().chain(phrases);
        findings.extend(found.map(|(word, instead)| finding(path, index + 1, word, instead)));
    }
    findings
}

/// House words in the names of Rust code, without comments and texts.
fn in_names(source: &Source) -> Findings {
    let lines = source.code_lines().filter(|(number, _)| !is_kept(&source.path, &source.raw[number - 1]));
    let found = lines.flat_map(|(number, line)| house_words(line, NAMES).into_iter().map(move |found| (number, found)));
    found.map(|(number, (word, instead))| finding(&source.path, number, word, instead)).collect()
}

fn finding(path: &str, number: usize, word: &str, instead: &str) -> String {
    format!("{path}:{number}: `{word}` is a word of this project alone; write {instead}")
}

fn is_kept(path: &str, line: &str) -> bool {
    KEPT.iter().any(|(start, part, _)| path.starts_with(start) && line.contains(part))
}

/// The words of the list that are a part of a word in the line, each once.
fn house_words<'list>(line: &str, list: &'list [(&str, &str)]) -> Vec<&'list (&'list str, &'list str)> {
    // In a text in Rust, the first letter after a line break is not a part of the break.
    let line = line.replace("\\n", " ");
    let names = line.split(|c: char| !c.is_ascii_alphanumeric());
    let parts: Vec<String> =
        names.map(|name| name.trim_end_matches(|c: char| c.is_ascii_digit())).flat_map(parts).collect();
    list.iter().filter(|(word, _)| parts.iter().any(|part| part == word)).collect()
}

/// The parts of a name in camel case, in small letters; a name in small or capital letters alone is one part.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_small = false;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && after_small {
            parts.push(String::new());
        }
        after_small = letter.is_ascii_lowercase();
        if let Some(part) = parts.last_mut() {
            part.push(letter.to_ascii_lowercase());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{KEPT, in_names, in_text, is_kept, parts};
    use crate::source::Source;

    #[test]
    fn house_words_are_found_in_names_and_prose() {
        for text in [
            "let asked = request();",
            "let asked2 = request();",
            "fn a_run_is_told() {}",
            "pub struct QueryAsked;",
            "const SAGE_TICK: u8 = 1;",
            "// The rows are fed to the session.",
            "doors = [\"enforced\"]",
            "filter = \\\"renyi\\\"\\ndoors = [\\\"enforced\\\"]",
            "Whoever comes waits.",
            "A law is held against another.",
        ] {
            assert!(!in_text("a.rs", text).is_empty(), "{text}");
        }
        let found = in_text("a.md", "fine\n\nthe door is made-up\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|finding| finding.starts_with("a.md:3: ")), "{found:?}");
        for text in [
            "masked",
            "a ticket on Monday",
            "indoors",
            "flawless lawn",
            "federated",
            "untold",
            "in place of",
            "9c8fed8b5d",
        ] {
            assert_eq!(in_text("a.md", text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn words_that_are_english_are_found_in_names_alone() {
        let names = |text: &str| in_names(&Source::new("a.rs", text)).len();
        for text in ["let place = 1;", "fn category_place() {}", "struct Places;", "Field::Place(x)", "let ROOM = 2;"] {
            assert_eq!(names(text), 1, "{text}");
        }
        for text in ["// in place of the room", "let a = \"takes place\";", "Laplace(x).replace(y)", "Placeholder"] {
            assert_eq!(names(text), 0, "{text}");
        }
    }

    #[test]
    fn kept_lines_are_kept_in_their_file_alone() {
        let line = "    #[serde(alias = \"door\")]";
        assert!(is_kept("crates/sage-engine/src/release/receipt.rs", line));
        assert!(!is_kept("crates/sage-engine/src/release/artefact.rs", line));
        assert!(KEPT.iter().all(|(path, _, why)| !path.is_empty() && !why.is_empty()));
    }

    #[test]
    fn names_have_parts() {
        assert_eq!(parts("QueryAsked"), ["query", "asked"]);
        assert_eq!(parts("SAGE"), ["sage"]);
        assert_eq!(parts("sage"), ["sage"]);
    }
}
