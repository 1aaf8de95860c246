//! Checks the lemmas in `proofs/coq` with Coq, and compares the axioms they assume with a fixed list.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::packages;
use crate::workspace::{self, Failure};

const FOLDER: &str = "proofs/coq";

/// The files in the order in which they depend on each other. The last one prints each theorem and its axioms.
const FILES: [&str; 4] = ["Sums", "Block", "Renyi", "Check"];

/// The theorems that must be proved.
const THEOREMS: [&str; 2] = ["basic_block_composition", "weighted_renyi_filter"];

/// The only allowed axioms: those of Coq's real numbers.
const AXIOMS: [&str; 4] = [
    "ClassicalDedekindReals.sig_not_dec",
    "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
];

/// Words that make a Coq file assume something unproved.
const UNPROVED: [&str; 10] = [
    "Admitted",
    "admit",
    "Abort",
    "Axiom",
    "Axioms",
    "Parameter",
    "Parameters",
    "Conjecture",
    "bypass_check",
    "Unset Guard Checking",
];

/// Builds every file in a copy and checks the theorems.
pub(crate) fn check() -> Result<(), Failure> {
    packages::ensure("coqc", "coq")?;
    let folder = workspace::target_directory()?.join("coq");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut printed = String::new();
    for file in FILES {
        let name = format!("{file}.v");
        let text = workspace::read(&format!("{FOLDER}/{name}"))?;
        if let Some(word) = unproved(&text) {
            return Err(format!("{FOLDER}/{name} contains `{word}`"));
        }
        fs::write(folder.join(&name), text).map_err(|error| format!("{name}: {error}"))?;
        let mut coq = Command::new("coqc");
        printed = workspace::output(coq.arg(&name).current_dir(&folder))?;
    }
    let proved = proved(&printed)?;
    println!("coq: {} theorems proved", proved.len());
    Ok(())
}

fn unproved(text: &str) -> Option<&'static str> {
    let words: BTreeSet<&str> = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '\'')).collect();
    UNPROVED.into_iter().find(|word| if word.contains(' ') { text.contains(word) } else { words.contains(word) })
}

/// The theorems in the output of `Check.v`, if all required ones are there and assume only the allowed axioms.
fn proved(printed: &str) -> Result<BTreeSet<&str>, Failure> {
    let mut lists = 0;
    let (mut theorems, mut in_axioms) = (BTreeSet::new(), false);
    // Types are indented; names of theorems and axioms start a line.
    for line in printed.lines().filter(|line| !line.starts_with(char::is_whitespace) && !line.is_empty()) {
        let name = line.split_whitespace().next().unwrap_or_default();
        if line == "Axioms:" || line == "Closed under the global context" {
            in_axioms = line == "Axioms:";
            lists += 1;
        } else if THEOREMS.contains(&name) {
            in_axioms = false;
            theorems.insert(name);
        } else if !in_axioms || !AXIOMS.contains(&name) {
            return Err(format!("coq: `{name}` is assumed"));
        }
    }
    if theorems.len() == THEOREMS.len() && lists == THEOREMS.len() {
        return Ok(theorems);
    }
    Err(format!("coq: {} of {} theorems are checked, {lists} lists of axioms", theorems.len(), THEOREMS.len()))
}

#[cfg(test)]
mod tests {
    use super::{proved, unproved};

    const ONE: &str = "basic_block_composition\n     : forall a, a\nAxioms:\nClassical_Prop.classic : forall P, P\n";
    const OTHER: &str =
        "weighted_renyi_filter\n     : forall a, a\nAxioms:\nClassicalDedekindReals.sig_not_dec\n  : P\n";

    #[test]
    fn theorems_with_the_axioms_of_the_reals_are_proved() {
        assert_eq!(proved(&format!("{ONE}{OTHER}")).map(|names| names.len()), Ok(2));
    }

    #[test]
    fn a_missing_theorem_and_a_foreign_axiom_are_failures() {
        assert!(proved(ONE).is_err());
        let foreign = OTHER.replace("ClassicalDedekindReals.sig_not_dec", "one_world");
        assert_eq!(proved(&format!("{ONE}{foreign}")), Err("coq: `one_world` is assumed".to_owned()));
        let unlisted = OTHER.replace("Axioms:\nClassicalDedekindReals.sig_not_dec\n  : P\n", "");
        assert!(proved(&format!("{ONE}{unlisted}")).is_err());
    }

    #[test]
    fn unfinished_proofs_are_found() {
        assert_eq!(unproved("Proof. Admitted."), Some("Admitted"));
        assert_eq!(unproved("Axiom one : True."), Some("Axiom"));
        assert_eq!(unproved("Lemma admitted_on : True. Proof. exact I. Qed."), None);
    }
}
