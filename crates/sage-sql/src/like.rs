//! LIKE patterns: compiled once, matched in time linear in the length of the text and independent of its contents.
//!
//! A pattern is a nondeterministic automaton with at most 127 positions, whose set of states is one 128-bit integer.
//! Each character of the text takes one step, so the time depends only on the number of characters.

use std::collections::BTreeMap;

/// The most characters of a pattern that are not `%`.
const LONGEST: usize = 127;

/// A compiled pattern: `_` stands for any character, `%` for any characters or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// For each character of the pattern, the positions that it advances from. Bit `i` is the state after `i` tokens.
    advances: BTreeMap<char, u128>,
    /// The positions that any character advances from.
    any: u128,
    /// The positions that any character keeps.
    stays: u128,
    /// The accepting state.
    end: u128,
    /// Whether letters match in either case.
    case_insensitive: bool,
}

impl Pattern {
    /// Compiles a pattern; returns `None` if it is too long. A backslash escapes the next character.
    pub(crate) fn new(pattern: &str, case_insensitive: bool) -> Option<Self> {
        let mut compiled = Self { advances: BTreeMap::new(), any: 0, stays: 0, end: 1, case_insensitive };
        let mut length = 0;
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let literal = match character {
                '%' => {
                    compiled.stays |= 1 << length;
                    continue;
                }
                '_' => None,
                '\\' => Some(characters.next().unwrap_or('\\')),
                other => Some(other),
            };
            let bit = 1_u128 << length;
            match literal {
                None => compiled.any |= bit,
                // A letter whose lower case has several characters matches only itself.
                Some(literal) => *compiled.advances.entry(fold_case(literal, case_insensitive)).or_default() |= bit,
            }
            length += 1;
            if length > LONGEST {
                return None;
            }
        }
        compiled.end = 1 << length;
        Some(compiled)
    }

    /// Whether the pattern matches the whole text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let mut states = 1_u128;
        for character in text.chars() {
            let advances =
                self.advances.get(&fold_case(character, self.case_insensitive)).copied().unwrap_or(0) | self.any;
            states = ((states & advances) << 1) | (states & self.stays);
        }
        states & self.end != 0
    }
}

fn fold_case(character: char, case_insensitive: bool) -> char {
    if !case_insensitive {
        return character;
    }
    let mut lower = character.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => character,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, by exhaustive search.
    fn matches_by_definition(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('%', rest)) => (0..=text.len()).any(|skipped| matches_by_definition(rest, &text[skipped..])),
            Some(('_', rest)) => !text.is_empty() && matches_by_definition(rest, &text[1..]),
            Some((character, rest)) => text.first() == Some(character) && matches_by_definition(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn the_automaton_matches_by_definition(pattern in "[ab%_é]{0,8}", text in "[abé]{0,9}") {
            let characters = |text: &str| text.chars().collect::<Vec<char>>();
            let compiled = Pattern::new(&pattern, false).expect("short");
            prop_assert_eq!(compiled.matches(&text), matches_by_definition(&characters(&pattern), &characters(&text)));
        }
    }

    #[test]
    fn case_escapes_and_length() {
        let like = |pattern: &str, text: &str| Pattern::new(pattern, false).expect("short").matches(text);
        let ilike = |pattern: &str, text: &str| Pattern::new(pattern, true).expect("short").matches(text);
        assert!(ilike("%STRASSE", "Hauptstrasse") && !like("%STRASSE", "Hauptstrasse"));
        assert!(ilike("É_", "éx"));
        assert!(like("100\\%", "100%") && !like("100\\%", "1000"));
        assert!(like("a\\_b", "a_b") && !like("a\\_b", "axb"));
        assert!(like("\\", "\\"));
        assert!(like("%", "") && like("", "") && !like("", "a"));
        assert!(Pattern::new(&"a".repeat(127), false).is_some());
        assert!(Pattern::new(&"a".repeat(128), false).is_none());
        assert!(like(&"%".repeat(10_000), "x"));
    }
}
