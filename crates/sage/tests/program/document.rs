//! Examples in documents are run, and their output compared: a document cannot drift from the program.
//!
//! After an intended change, `UPDATE_DOCUMENTS=1 cargo test -p sage document` writes the new output;
//! read the difference before committing it.

use std::path::Path;

use crate::{sage, stdout, words};

/// The document with the output of every `$ sage` command in it as the program gives it now.
fn run_examples(document: &str) -> String {
    let mut result = String::new();
    let mut lines = document.lines().peekable();
    let mut inside = false;
    while let Some(line) = lines.next() {
        result += line;
        result.push('\n');
        if line.starts_with("```") {
            inside = line == "```console";
        }
        let Some(command) = line.strip_prefix("$ sage ").filter(|_| inside) else { continue };
        let mut command = command.to_owned();
        while command.ends_with('\\') {
            let more = lines.next().expect("a continued line has a next line");
            result += more;
            result.push('\n');
            command.truncate(command.len() - 1);
            command += more;
        }
        let output = sage(words(&command));
        result += &stdout(&output);
        result += &crate::stderr(&output);
        while lines.next_if(|line| !line.starts_with("```")).is_some() {}
    }
    result
}

/// Whether two texts agree: word by word, and numbers to a millionth. The last digits of a loss
/// distribution depend on which instructions the machine has.
fn says_the_same(one: &str, other: &str) -> bool {
    let same = |(one, other): (&str, &str)| {
        let number = |word: &str| word.trim_end_matches([',', '.']).trim_start_matches("e^").parse::<f64>().ok();
        match (number(one), number(other)) {
            (Some(one), Some(other)) => (one - other).abs() <= 1e-6 * one.abs().max(other.abs()),
            _ => one == other,
        }
    };
    let (one, other): (Vec<&str>, Vec<&str>) = (one.split_whitespace().collect(), other.split_whitespace().collect());
    one.len() == other.len() && one.into_iter().zip(other).all(same)
}

#[test]
fn different_documents_are_distinguished() {
    assert!(says_the_same("pld 2.25785, and", "pld  2.257850000001, and"));
    for other in ["pld 2.25786, and", "pld 2.25785, or", "pld 2.25785,", "pld 2.25785, and so"] {
        assert!(!says_the_same("pld 2.25785, and", other), "{other}");
    }
}

#[test]
fn every_example_in_the_document_prints_what_it_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/accounting.md");
    let document = std::fs::read_to_string(&path).expect("the document");
    let now = run_examples(&document);
    assert!(document.matches("$ sage ").count() >= 3, "the document has examples");
    if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
        std::fs::write(&path, now).expect("the document can be written");
        return;
    }
    assert!(
        says_the_same(&document, &now),
        "docs/reference/accounting.md differs from what the program prints now:\n{now}"
    );
}
