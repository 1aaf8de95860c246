//! `cargo xtask tidy`: checks the rules of STYLE.md and ARCHITECTURE.md that can be checked automatically.
//!
//! Every rule is a function from the project to a list of findings, `path:line: what is wrong`, and has
//! a test with a sample that breaks it.

mod arrows;
mod kernel;
mod links;
mod prose;
mod rust;
mod size;
mod words;

use crate::source::Source;
use crate::workspace::{self, Failure};

/// The violations that a rule found, one sentence each.
type Findings = Vec<String>;

/// Checks every rule; fails with the number of findings after printing them.
pub(crate) fn check() -> Result<(), Failure> {
    let files = workspace::files()?;
    let sources = workspace::sources(&files)?;
    let mut findings = arrows::check()?;
    findings.extend(size::check(&sources)?);
    findings.extend(rust::check(&sources));
    findings.extend(kernel::check(&files, &sources)?);
    findings.extend(prose::check(&files)?);
    findings.extend(links::check(&files)?);
    findings.extend(words::check(&files, &sources)?);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("tidy: {count} findings")),
    }
}

/// Lowers the ratchet to the current sizes; it never raises an entry.
pub(crate) fn lower_ratchet() -> Result<(), Failure> {
    let sources = workspace::sources(&workspace::files()?)?;
    size::lower(&sources)
}

/// Applies `wrong` to each line and reports the lines for which it returns a message.
fn on_lines<'a>(
    source: &Source, lines: impl Iterator<Item = (usize, &'a str)>, wrong: impl Fn(&str) -> Option<String>,
) -> Findings {
    let found = lines.filter_map(|(number, line)| Some((number, wrong(line)?)));
    found.map(|(number, what)| format!("{}:{number}: {what}", source.path)).collect()
}
