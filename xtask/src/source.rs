//! A scanner of Rust source for the checks: which lines are code, which belong to tests, where
//! functions start and end. It is not a parser, so it never rejects a file; text that it cannot classify
//! counts as code.

/// One source file, line by line.
pub(crate) struct Source {
    /// Path from the root of the workspace, with forward slashes.
    pub(crate) path: String,
    /// The original lines.
    pub(crate) raw: Vec<String>,
    /// The same lines with comments blanked and the contents of literals replaced by quote marks.
    pub(crate) code: Vec<String>,
    /// Whether the line exists only in a test build.
    pub(crate) test: Vec<bool>,
}

/// A function and its number of lines that are neither blank nor comment.
#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) lines: usize,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code: Vec<String> = mask(text).lines().map(str::to_owned).collect();
        let whole_file = in_test_directory(path);
        let mut test = vec![whole_file; code.len()];
        for (first, last) in test_items(&code, text) {
            test[first..=last].fill(true);
        }
        let raw = text.lines().map(str::to_owned).collect();
        Self { path: path.to_owned(), raw, code, test }
    }

    /// Treats the whole file as test code, for modules declared under `#[cfg(test)]` elsewhere.
    pub(crate) fn mark_as_test(&mut self) {
        self.test.fill(true);
    }

    /// Lines neither blank nor comment, outside tests.
    pub(crate) fn lines_outside_tests(&self) -> usize {
        self.code_outside_tests().filter(|(_, line)| !line.trim().is_empty()).count()
    }

    /// Masked lines outside tests, each with its number counted from 1.
    pub(crate) fn code_outside_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let pairs = self.code.iter().zip(&self.test).enumerate();
        pairs.filter(|(_, (_, test))| !**test).map(|(index, (line, _))| (index + 1, line.as_str()))
    }

    /// All masked lines, each with its number counted from 1.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.iter().enumerate().map(|(index, line)| (index + 1, line.as_str()))
    }

    /// The files (without `.rs`) of modules that this file declares for tests only: `#[cfg(test)] mod x;`.
    pub(crate) fn test_modules(&self) -> Vec<String> {
        let stem = self.path.trim_end_matches(".rs");
        let (parent, name) = stem.rsplit_once('/').unwrap_or(("", stem));
        let folder = if ["mod", "lib", "main"].contains(&name) { parent } else { stem };
        let mut modules = Vec::new();
        for (line, test) in self.code.iter().zip(&self.test) {
            if *test && let Some(module) = declared_module(line) {
                modules.push(format!("{folder}/{module}"));
            }
        }
        modules
    }

    /// All functions with a body, with their sizes.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let text = self.code.join("\n");
        let mut functions = Vec::new();
        for start in token_positions(&text, "fn") {
            let rest = text[start + 2..].trim_start();
            let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
            if name.is_empty() {
                continue;
            }
            let Some(end) = body_end(&text, start) else {
                continue;
            };
            let lines = text[start..=end].lines().filter(|line| !line.trim().is_empty()).count();
            functions.push(Function { name, lines });
        }
        functions
    }

    /// The attributes outside comments, each with the number of its first line.
    pub(crate) fn attributes(&self) -> Vec<(usize, String)> {
        let text = self.code.join("\n");
        let mut attributes = Vec::new();
        for (start, _) in text.match_indices('#') {
            let open = text[start + 1..].trim_start_matches('!');
            if !open.starts_with('[') {
                continue;
            }
            let bracket = text.len() - open.len();
            if let Some(end) = closing(&text, bracket) {
                let line = text[..start].matches('\n').count() + 1;
                attributes.push((line, text[start..=end].to_owned()));
            }
        }
        attributes
    }
}

/// Whether a line of masked code contains `word` as a whole word.
pub(crate) fn has_token(line: &str, word: &str) -> bool {
    token_positions(line, word).next().is_some()
}

fn token_positions<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(start, _)| start).filter(move |start| {
        let before = text[..*start].chars().next_back();
        let after = text[start + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn in_test_directory(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "benches")
}

fn declared_module(line: &str) -> Option<&str> {
    let name = line.trim().strip_suffix(';')?;
    let start = token_positions(name, "mod").next()?;
    Some(name[start + 3..].trim())
}

/// Code for tests and experiments, which no shipped build contains; `seeded` checks that.
const SEEDED: &str = "#[cfg(any(test, feature =";

/// First and last line (from 0) of each item under `#[cfg(test)]` or [`SEEDED`].
fn test_items(code: &[String], raw: &str) -> Vec<(usize, usize)> {
    let raw: Vec<&str> = raw.lines().collect();
    let text = code.join("\n");
    let line_of = |position: usize| text[..position].matches('\n').count();
    let mut items = Vec::new();
    for attribute in ["#[cfg(test)]", "#[cfg(all(test,", SEEDED] {
        for (start, _) in text.match_indices(attribute) {
            // The feature's name is masked in `code`.
            if attribute == SEEDED && !raw[line_of(start)].contains("feature = \"seeded\"") {
                continue;
            }
            let after = closing(&text, start + 1).unwrap_or(start);
            let end = body_end(&text, after + 1)
                .or_else(|| text[start..].find(';').map(|offset| start + offset))
                .unwrap_or(text.len());
            items.push((line_of(start), line_of(end)));
        }
    }
    items
}

/// The end of the first `{}` block after `start`, or `None` if a `;` comes first.
fn body_end(text: &str, start: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (offset, c) in text[start..].char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth <= 0 => return None,
            '{' if depth <= 0 => return closing(text, start + offset),
            _ => {}
        }
    }
    None
}

/// The position of the bracket that closes the one at `open`.
fn closing(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (offset, c) in text[open..].char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(open + offset);
        }
    }
    None
}

/// Replaces comments by blanks and literals by quote marks, keeping line breaks.
fn mask(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let previous = masked.chars().next_back();
        let (length, fill) = match literal_or_comment(rest, previous) {
            Some(found) => found,
            None => {
                masked.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
        };
        masked.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { fill }));
        rest = &rest[length..];
    }
    masked
}

/// The length of the comment or literal at the start of `rest`, and its replacement character.
fn literal_or_comment(rest: &str, previous: Option<char>) -> Option<(usize, char)> {
    if rest.starts_with("//") {
        return Some((rest.find('\n').unwrap_or(rest.len()), ' '));
    }
    if rest.starts_with("/*") {
        return Some((block_comment(rest), ' '));
    }
    if rest.starts_with('"') {
        return Some((quoted(rest, '"'), '"'));
    }
    if rest.starts_with('\'') {
        return character(rest).map(|length| (length, '"'));
    }
    if rest.starts_with('r') && !previous.is_some_and(|c| is_word(c) && c != 'b' && c != 'c') {
        return raw_string(rest).map(|length| (length, '"'));
    }
    None
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut position = 0;
    while position < rest.len() {
        let here = &rest[position..];
        if here.starts_with("/*") {
            depth += 1;
            position += 2;
        } else if here.starts_with("*/") {
            depth -= 1;
            position += 2;
            if depth == 0 {
                return position;
            }
        } else {
            position += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (offset, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return offset + 1;
        }
    }
    rest.len()
}

/// The length of a character literal, or `None` for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut after = rest[1..].chars();
    let content = after.next()?;
    if content == '\\' {
        return Some(quoted(rest, '\''));
    }
    (after.next() == Some('\'')).then(|| content.len_utf8() + 2)
}

fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
    if !rest[1 + hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = hashes + 2;
    Some(rest[body..].find(&end).map_or(rest.len(), |found| body + found + end.len()))
}

#[cfg(test)]
mod tests {
    use super::{Function, Source, has_token};

    fn code(text: &str) -> Vec<String> {
        Source::new("a.rs", text).code
    }

    #[test]
    fn comments_are_blank_and_literals_are_quotes() {
        assert_eq!(code("let a = 1; // f64"), ["let a = 1;       "]);
        assert_eq!(code("/* a /* b */ c */x"), ["                 x"]);
        assert_eq!(code("let s = \"f64\\\"\";"), ["let s = \"\"\"\"\"\"\";"]);
        assert_eq!(code("r#\"a\"b\"#;"), ["\"\"\"\"\"\"\"\";"]);
        assert_eq!(code("fn f<'a>(c: &'a u8) { '{' }"), ["fn f<'a>(c: &'a u8) { \"\"\" }"]);
        assert_eq!(code("var\"x\""), ["var\"\"\""]);
    }

    #[test]
    fn a_line_inside_a_string_is_code() {
        let source = Source::new("a.rs", "const A: &str = \"\none\n\ntwo\";\n// no\n\n");
        assert_eq!(source.lines_outside_tests(), 3);
    }

    #[test]
    fn test_items_are_excluded() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let source = Source::new("src/a.rs", text);
        assert_eq!(source.test, [false, true, true, true, true, false]);
        assert_eq!(source.lines_outside_tests(), 2);
        assert_eq!(Source::new("crates/x/tests/a.rs", text).lines_outside_tests(), 0);
    }

    #[test]
    fn code_that_is_never_shipped_counts_as_test() {
        let source = Source::new("a.rs", "#[cfg(any(test, feature = \"seeded\"))]\nfn a() {}\n");
        assert_eq!(source.lines_outside_tests(), 0);
        let source = Source::new("a.rs", "#[cfg(any(test, feature = \"other\"))]\nfn a() {}\n");
        assert_eq!(source.lines_outside_tests(), 2);
    }

    #[test]
    fn modules_declared_for_tests_are_found() {
        let text = "#[cfg(test)]\nmod model;\nmod real;\n";
        assert_eq!(Source::new("src/ledger.rs", text).test_modules(), ["src/ledger/model"]);
        assert_eq!(Source::new("src/lib.rs", text).test_modules(), ["src/model"]);
    }

    #[test]
    fn functions_are_measured_without_blanks_and_comments() {
        let text = "fn a(x: [u8; 2]) -> u8 {\n    // why\n\n    x[0]\n}\ntrait T { fn b(&self); }\n";
        let expected = [Function { name: "a".to_owned(), lines: 3 }];
        assert_eq!(Source::new("a.rs", text).functions(), expected);
    }

    #[test]
    fn attributes_may_span_lines() {
        let source = Source::new("a.rs", "\n#[allow(\n    dead_code\n)]\nfn a() {}\n#![warn(x)]\n");
        let found = source.attributes();
        assert_eq!(found[0], (2, "#[allow(\n    dead_code\n)]".to_owned()));
        assert_eq!(found[1], (6, "#![warn(x)]".to_owned()));
    }

    #[test]
    fn tokens_are_whole_words() {
        assert!(has_token("let a: f64 = 0;", "f64"));
        assert!(!has_token("to_f64(a)", "f64"));
    }
}
