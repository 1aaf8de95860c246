//! Rules for every Rust file: module comments, tests that really run, lint exceptions with a reason, module names.

use super::{Findings, on_lines};
use crate::source::{Source, has_token};

pub(super) fn check(sources: &[Source]) -> Findings {
    let mut findings = Findings::new();
    for source in sources {
        findings.extend(opening(source));
        findings.extend(disabled_tests(source));
        findings.extend(unexplained_lints(source));
        findings.extend(module_names(source));
    }
    findings
}

/// Every module starts with a comment that says what it is for.
fn opening(source: &Source) -> Findings {
    let first = source.raw.iter().find(|line| !line.trim().is_empty());
    if first.is_some_and(|line| line.starts_with("//!")) {
        return Findings::new();
    }
    vec![format!("{}:1: the file must start with a `//!` comment that says what it is for", source.path)]
}

/// Every test runs and states what it expects.
fn disabled_tests(source: &Source) -> Findings {
    let mut findings = Findings::new();
    for (line, attribute) in source.attributes() {
        for word in ["ignore", "should_panic"] {
            if has_token(&attribute, word) {
                findings.push(format!("{}:{line}: `{word}` on a test", source.path));
            }
        }
    }
    let lines = source.raw.iter().enumerate().map(|(index, line)| (index + 1, line.as_str()));
    findings.extend(on_lines(source, lines, |line| {
        let fence = line.trim().strip_prefix("//")?.trim_start_matches(['/', '!']).trim();
        let words = fence.strip_prefix("```")?;
        let word = ["ignore", "should_panic"].into_iter().find(|word| has_token(words, word))?;
        Some(format!("`{word}` on a documentation test"))
    }));
    findings
}

/// Every lint exception has a reason.
fn unexplained_lints(source: &Source) -> Findings {
    let mut findings = Findings::new();
    for (line, attribute) in source.attributes() {
        for word in ["allow", "expect"] {
            let silences = attribute.contains(&format!("{word}(")) && has_token(&attribute, word);
            if silences && !has_token(&attribute, "reason") {
                findings.push(format!("{}:{line}: `{word}` without a reason", source.path));
            }
        }
    }
    findings
}

/// Inline modules follow the same naming rules as files.
fn module_names(source: &Source) -> Findings {
    on_lines(source, source.code_lines(), |line| {
        let rest = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        let name = rest.strip_prefix("mod ")?.trim_end_matches(|c: char| !c.is_alphanumeric());
        let word = super::prose::vague_name(name)?;
        Some(format!("module `{name}`: `{word}` is too vague a name"))
    })
}

#[cfg(test)]
mod tests {
    use super::{disabled_tests, module_names, opening, unexplained_lints};
    use crate::source::Source;

    fn source(text: &str) -> Source {
        Source::new("a.rs", text)
    }

    #[test]
    fn modules_start_with_a_comment() {
        assert_eq!(opening(&source("\n//! Blocks.\n")), Vec::<String>::new());
        assert_eq!(opening(&source("// Blocks.\n")).len(), 1);
        assert_eq!(opening(&source("use std::fmt;\n//! Late.\n")).len(), 1);
        assert_eq!(opening(&source("")).len(), 1);
    }

    #[test]
    fn disabled_tests_are_found() {
        assert_eq!(disabled_tests(&source("#[test]\nfn ignore() {}\n")), Vec::<String>::new());
        assert_eq!(disabled_tests(&source("/// ```\n/// ignore();\n/// ```\n")).len(), 0);
        for text in [
            "#[ignore]",
            "#[ignore = \"slow\"]",
            "#[cfg_attr(miri, ignore)]",
            "#[should_panic(expected = \"x\")]",
            "/// ```ignore",
            "//! ```rust,should_panic",
        ] {
            assert_eq!(disabled_tests(&source(text)).len(), 1, "{text}");
        }
    }

    #[test]
    fn lint_exceptions_need_a_reason() {
        for text in ["a.expect(\"b\");", "#[allow(dead_code, reason = \"x\")]", "// #[allow(x)]"] {
            assert_eq!(unexplained_lints(&source(text)), Vec::<String>::new(), "{text}");
        }
        for text in ["#[allow(dead_code)]", "#![expect(a,\n b)]", "#[cfg_attr(test, allow(a))]"] {
            assert_eq!(unexplained_lints(&source(text)).len(), 1, "{text}");
        }
    }

    #[test]
    fn vague_module_names_are_found() {
        assert_eq!(module_names(&source("mod ledger {\n")), Vec::<String>::new());
        assert_eq!(module_names(&source("mod utils {\n")).len(), 1);
        assert_eq!(module_names(&source("pub(crate) mod block_manager;\n")).len(), 1);
    }
}
