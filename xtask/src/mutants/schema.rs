//! Mutant schemata: one source text that contains all mutants of a file, each behind a switch that is read at run time.
//!
//! `a + b` becomes `(match ((a), (b)) { (l, r) => if active(7) { l - r } else { l + r } })`: each operand is evaluated
//! once, and nested mutants need no copies of it. Comments such as `/*[7*/ … /*7]*/` mark what belongs to which mutant,
//! so that a compiler error leads to the mutant that causes it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item};

use super::operators;
use super::planter::Planter;

/// The identity of a mutant within one run.
pub(crate) type Id = u32;

/// One change of the source.
#[derive(Clone)]
pub(super) struct Mutant {
    pub(super) id: Id,
    pub(super) kind: Kind,
    pub(super) file: String,
    pub(super) line: usize,
    /// What is changed, in which function: unique but for repetitions, and without a position.
    pub(super) name: String,
}

/// What is changed. The order is that of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A result, an operator, a condition, an arm or a statement.
    Operator,
    /// A numeric constant.
    Constant,
    /// A literal number.
    Literal,
}

/// A numeric constant of the sources; every use of it is changed by the same mutants.
pub(super) struct Constant {
    pub(super) kind: &'static str,
    pub(super) ids: [Id; 2],
}

/// What the mutants of all files share.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) mutants: Vec<Mutant>,
    pub(super) constants: BTreeMap<String, Constant>,
    /// Mutants of constants that are used where a switch can be read.
    pub(super) used: BTreeSet<Id>,
    /// Mutants that do not compile.
    pub(super) dropped: BTreeSet<Id>,
    /// The names of functions that are needed at compile time, whose bodies have no switches.
    pub(super) kept_const: BTreeSet<String>,
}

impl Plan {
    pub(super) fn add(&mut self, kind: Kind, file: &str, line: usize, name: String) -> Id {
        // 0 switches all mutants off.
        let id = Id::try_from(self.mutants.len() + 1).unwrap_or(Id::MAX);
        self.mutants.push(Mutant { id, kind, file: file.to_owned(), line, name });
        id
    }

    /// Adds the mutants of the numeric constants of a file.
    pub(super) fn add_constants(&mut self, file: &str, text: &str) -> Result<(), String> {
        struct Constants(Vec<(String, usize, &'static str)>);
        impl<'a> Visit<'a> for Constants {
            fn visit_item(&mut self, item: &'a Item) {
                if !is_test(attributes(item)) {
                    visit::visit_item(self, item);
                }
            }
            fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
                let kind = operators::numeric(&item.ty);
                self.0.extend(kind.map(|kind| (item.ident.to_string(), item.span().start().line, kind)));
            }
            fn visit_impl_item_const(&mut self, item: &'a syn::ImplItemConst) {
                let kind = operators::numeric(&item.ty);
                self.0.extend(kind.map(|kind| (item.ident.to_string(), item.span().start().line, kind)));
            }
        }
        let mut found = Constants(Vec::new());
        found.visit_file(&parsed(file, text)?);
        for (name, line, kind) in found.0 {
            let changes = if kind == "f64" { ["* 2.0", "/ 2.0"] } else { ["+ 1", "- 1"] };
            let ids = changes.map(|change| {
                self.add(Kind::Constant, file, line, format!("replace constant {name} with {name} {change}"))
            });
            // A second constant of that name has no mutants: its uses cannot be distinguished.
            self.constants.entry(name).or_insert(Constant { kind, ids });
        }
        Ok(())
    }
}

fn parsed(file: &str, text: &str) -> Result<syn::File, String> {
    syn::parse_file(text).map_err(|error| format!("{file}: {error}"))
}

/// The files of modules that are declared for tests only, without `.rs`.
pub(super) fn test_modules(file: &str, text: &str) -> Result<Vec<String>, String> {
    let stem = file.trim_end_matches(".rs");
    let folder = match stem.rsplit_once('/') {
        Some((folder, "lib" | "mod")) => folder,
        _ => stem,
    };
    let modules = parsed(file, text)?.items.into_iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() && is_test(&module.attrs) => Some(module.ident),
        _ => None,
    });
    Ok(modules.map(|name| format!("{folder}/{name}")).collect())
}

/// The text of a file with the switches of all its mutants that compile. `active` is the path of the switch function.
pub(super) fn with_switches(plan: &mut Plan, file: &str, text: &str, active: &str) -> Result<String, String> {
    let tree = parsed(file, text)?;
    Ok(rendered(text, 0..text.len(), Planter::new(plan, file, text, active).edits(&tree)))
}

/// The mutants to which a compiler error at this byte of the text belongs: those of the innermost mark around it.
pub(super) fn mutants_at(text: &str, at: usize) -> Vec<Id> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = 0;
    while let Some(start) = text[rest..].find("/*").map(|found| rest + found).filter(|&start| start <= at) {
        let end = text[start..].find("*/").map_or(text.len(), |found| start + found);
        let mark = &text[start + 2..end];
        if let Some(ids) = mark.strip_prefix('[') {
            open.push(ids);
        } else if mark.ends_with(']') {
            open.pop();
        }
        rest = end;
    }
    let ids = open.last().map_or("", |ids| ids);
    ids.split(',').filter_map(|id| id.parse().ok()).collect()
}

/// A change of the text.
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    /// At one byte: first what closes (inner before outer), then what opens (outer before inner), then replacements.
    pub(super) order: (u8, i64),
    pub(super) text: String,
}

/// A part of the text with the edits.
pub(super) fn rendered(text: &str, range: Range<usize>, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.range.start, edit.order));
    let mut out = String::with_capacity(2 * range.len());
    let mut at = range.start;
    for edit in edits {
        out.push_str(text.get(at..edit.range.start).unwrap_or_default());
        out.push_str(&edit.text);
        at = at.max(edit.range.end);
    }
    out.push_str(text.get(at..range.end).unwrap_or_default());
    out
}

pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether an item is compiled for tests only: it has `test` in a `cfg`, or is a test.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let words = list.tokens.to_string();
            words.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == "test")
                && !words.starts_with("not")
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::{Id, Plan, mutants_at, test_modules, with_switches};

    fn planted(text: &str, dropped: &[Id]) -> (Vec<String>, String) {
        let mut plan = Plan { dropped: dropped.iter().copied().collect(), ..Plan::default() };
        plan.add_constants("a.rs", text).expect("it parses");
        let planted = with_switches(&mut plan, "a.rs", text, "on").expect("it parses");
        syn::parse_file(&planted).expect("the mutants parse");
        (plan.mutants.into_iter().map(|mutant| mutant.name).collect(), planted)
    }

    #[test]
    fn operators_and_results_have_mutants() {
        for (text, expected) in [
            ("fn f(a: u8, b: u8) -> u8 { a + b }", "replace + with - of `a + b` in f"),
            ("fn f(a: u8, b: u8) -> bool { a < b }", "replace < with <= of `a < b` in f"),
            ("fn f(a: bool, b: bool) -> bool { a && b }", "replace && with || of `a && b` in f"),
            ("fn f(a: bool) -> bool { !a }", "delete ! of `!a` in f"),
            ("fn f() -> Option<u8> { g() }", "return Some(1) in f"),
            ("impl A { fn f(&mut self) { self.g(); } }", "delete the statement `self.g()` in A::f"),
            ("fn f(mut a: u8, b: u8) { a[b + 1] += b * 2; }", "replace += with -= of `a[b + 1] += b * 2` in f"),
            ("fn f(a: u8) -> u8 { match a { 1 if a > 0 => 2, 3 => 4, _ => 5 } }", "delete the arm `3` in f"),
            ("fn f(a: A) { if a.is_empty() && let Some(b) = a.c() {} }", "negate `a.is_empty()` in f"),
            ("const N: u8 = 3; fn f() -> u8 { N }", "replace constant N with N + 1"),
        ] {
            let (names, planted) = planted(text, &[]);
            assert!(names.iter().any(|name| name == expected), "{names:?}");
            assert_eq!(planted.matches("/*[").count(), planted.matches("]*/").count(), "{planted}");
        }
    }

    #[test]
    fn an_error_leads_to_its_mutant() {
        let (names, planted) = planted("fn f(a: A, b: A) { g(a * b) }", &[]);
        let at = planted.find("l / r").expect("a mutant");
        let ids = mutants_at(&planted, at);
        assert_eq!(ids.len(), 1);
        assert_eq!(names[ids[0] as usize - 1], "replace * with / of `a * b` in f");
        let (same, without) = self::planted("fn f(a: A, b: A) { g(a * b) }", &ids);
        assert!(same == names && !without.contains("l / r") && without.contains("l + r"));
        assert!(mutants_at("fn f() {}", 3).is_empty());
    }

    #[test]
    fn tests_have_no_mutants() {
        assert!(planted("#[cfg(test)] mod tests { fn f() -> u8 { 1 + 2 } }", &[]).0.is_empty());
        let text = "#[cfg(any(test, feature = \"x\"))] mod a; mod b;";
        assert_eq!(test_modules("src/noise/mod.rs", text).expect("it parses"), ["src/noise/a"]);
        assert_eq!(test_modules("src/noise.rs", text).expect("it parses"), ["src/noise/a"]);
    }
}
