//! The developer commands, one file each. They know cargo, git and the shape of the workspace, and
//! nothing of what the product does.

mod bench;
mod bucket;
mod check;
mod deny;
mod packages;
mod pages;
mod postgres;
mod seeded;
mod soak;
mod source;
mod tidy;
mod trust;
mod workspace;

use std::process::ExitCode;

use workspace::Failure;

const HELP: &str = "\
Developer commands of Sage.

  cargo xtask check [--all]
      Everything CI runs, each step with its time: format, lints, tests, tidy, deny, docs, and that
      seeded noise is in no shipped build. With --all also what needs large installs.
      Example: cargo xtask check

  cargo xtask tidy [--lower]
      The rules of STYLE.md: crate arrows, sizes, names, comments, floats, maps. With --lower it first
      writes down what has become shorter in xtask/tidy-ratchet.toml.
      Example: cargo xtask tidy

  cargo xtask trust [--json]
      How large the kernel is, what it depends on, and who uses the declared door.
      Example: cargo xtask trust --json

  cargo xtask bench NAME [--json] [--no-peers]
      Measures us beside the tools a user would take instead: for the kernel from the Python registry, in a
      virtual environment of their own; for the engine PostgreSQL, as Debian has it; for the
      server MLflow's. NAME: kernel, learn, engine, loop, server.
      Example: cargo xtask bench kernel --json

  cargo xtask pages [--picture]
      Every page of the server in a real browser, for an engineer and for a consumer: keyboard, contrast, both schemes of
      colours, narrow screens, live updates. Installs Chromium; screenshots stay in target/pages/screenshots. With
      --picture the picture of the README is drawn anew.
      Example: cargo xtask pages

  cargo xtask soak [TEST]
      The tests of kernel, learners and engine in release mode at full size: they read SAGE_SOAK=1 and scale
      themselves up.
      Example: cargo xtask soak ledger
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(words: &[&str]) -> Result<(), Failure> {
    match words {
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        ["check"] => check::everyday(),
        ["check", "--all"] => check::everything(),
        ["tidy"] => tidy::check(),
        ["tidy", "--lower"] => tidy::lower_ratchet().and_then(|()| tidy::check()),
        ["trust"] => trust::show(trust::Form::Text),
        ["trust", "--json"] => trust::show(trust::Form::Json),
        ["bench", rest @ ..] => bench::run(rest),
        ["pages"] => pages::check(),
        ["pages", "--picture"] => pages::draw(),
        ["soak"] => soak::run(None),
        ["soak", test] => soak::run(Some(test)),
        _ => Err(format!("there is no `cargo xtask {}`\n\n{HELP}", words.join(" "))),
    }
}
