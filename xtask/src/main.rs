//! The developer commands, one file each. They know cargo, git and the layout of the workspace, and
//! nothing about the product itself.

mod bench;
mod bucket;
mod check;
mod coq;
mod deny;
mod fuzz;
mod instructions;
mod mutants;
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
      Everything that CI runs, with the time of each step: format, lints, tests, tidy, deny, docs, a check that no
      shipped build contains seeded noise, and instructions. With --all also the steps that need large installs.
      Example: cargo xtask check

  cargo xtask tidy [--lower]
      Checks the rules of STYLE.md: crate dependencies, sizes, names, comments, floats, maps, links
      between pages. With --lower it first lowers the recorded sizes in xtask/tidy-ratchet.toml to the current ones.
      Example: cargo xtask tidy

  cargo xtask trust [--json]
      Reports the size of the kernel, its dependencies, the uses of the attested access mode, and the result of
      the last committed mutation test.
      Example: cargo xtask trust --json

  cargo xtask instructions
      Measures every hot loop on every instruction set of this processor: instruction counts of AVX2 and scalar code,
      by valgrind, and times of AVX-512 and AVX2. Fails where a loop has lost its inlining.
      Example: cargo xtask instructions

  cargo xtask bench NAME [--json] [--no-peers] [--arch SET]
      Runs our benchmarks and those of the tools that a user would choose instead (peers): Python packages in their
      own virtual environment, Debian's PostgreSQL for the engine, MLflow for the server.
      NAME: kernel, learn, engine, loop, adapt, server, build. With --arch (learn only), our programs and the
      peers use one instruction set: scalar, avx2, avx512 or avx512vnni; the processor must support it.
      `build` measures clean and incremental builds in a target directory of its own and takes about an hour.
      Example: cargo xtask bench kernel --json

  cargo xtask pages [--picture]
      Tests every page of the server in a real browser, as an engineer and as a consumer: keyboard, contrast, light and
      dark colour scheme, narrow screens, live updates. Installs Chromium; screenshots are in target/pages/screenshots.
      With --picture it also updates the picture in the README.
      Example: cargo xtask pages

  cargo xtask soak [TEST]
      Runs the tests of kernel, learners, engine and server in release mode at full size: they read SAGE_SOAK=1 and
      scale up. Without TEST it also runs every fuzz target for five minutes, and `cargo xtask mutants`.
      Example: cargo xtask soak ledger

  cargo xtask fuzz [TARGET] [--seconds N]
      Runs the fuzz targets of fuzz/, each for a minute or N seconds, and prints executions per second. Failing inputs
      are in target/fuzz/artifacts.
      Example: cargo xtask fuzz log_bytes --seconds 600

  cargo xtask mutants [--resume] [--literals] [FILE ...]
      Mutates kernel and numerics, or the given files, in one build with a switch for each mutant. Fails for each
      mutant that survives the tests and is not explained in xtask/mutants-survivors.toml. `--resume` runs only
      those that no earlier run killed, `--literals` also those of literal numbers.
      Example: cargo xtask mutants crates/sage-kernel/src/accountant/gaussian.rs

  cargo xtask coq
      Checks the lemmas in proofs/coq (installs Coq if missing) and the axioms they assume.
      Example: cargo xtask coq
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
        ["trust"] => trust::show(trust::Format::Text),
        ["trust", "--json"] => trust::show(trust::Format::Json),
        ["bench", rest @ ..] => bench::run(rest),
        ["instructions"] => instructions::check(),
        ["pages"] => pages::check(),
        ["pages", "--picture"] => pages::draw(),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["soak"] => soak::run(None).and_then(|()| fuzz::soak()).and_then(|()| mutants::run(&[])),
        ["mutants", files @ ..] => mutants::run(files),
        ["coq"] => coq::check(),
        ["soak", test] => soak::run(Some(test)),
        _ => Err(format!("unknown command `cargo xtask {}`\n\n{HELP}", words.join(" "))),
    }
}
