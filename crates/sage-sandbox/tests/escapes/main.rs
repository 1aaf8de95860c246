//! Attacks on the sandbox, one test each. Each attack also runs without a sandbox, where it must succeed.
//!
//! Run by the superuser, everything runs once more as an ordinary user.

mod attacks;
mod cleanup;
mod harness;
mod limits;
mod protocol;
mod syscalls;

use std::process::Command;

use attacks::{Attack, SucceedsFor};
use harness::{Host, no_isolation, readable_folder, small_limits, superuser};
use libtest_mimic::{Arguments, Failed, Trial};
use sage_sandbox::{Containment, Ending, Exit, enter_if_requested};

/// A named test. It fails by returning an error or by panicking.
type Test = (&'static str, fn() -> Result<(), Failed>);

/// Set when the tests run again as an ordinary user.
const ORDINARY_USER_RUN: &str = "SAGE_SANDBOX_TEST_AGAIN";

fn main() {
    enter_if_requested();
    cleanup::start_if_requested();
    let mut trials: Vec<Trial> = attacks::all().into_iter().flat_map(trials).collect();
    let others = [limits::TESTS, protocol::TESTS, cleanup::TESTS].concat();
    trials.extend(others.into_iter().map(|(name, test)| Trial::test(name, test)));
    trials.push(Trial::test("there are at least sixty", || {
        let count = attacks::all().len();
        if count >= 60 { Ok(()) } else { Err(format!("{count}").into()) }
    }));
    if superuser() && std::env::var_os(ORDINARY_USER_RUN).is_none() {
        trials.push(Trial::test("everything again as an ordinary user", as_ordinary_user));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trials(attack: Attack) -> Vec<Trial> {
    let name = format!("in the sandbox: {}", attack.name);
    let mut trials = vec![Trial::test(name, move || blocked_in_the_sandbox(attack))];
    let succeeds = match attack.succeeds_for {
        SucceedsFor::AnyUser => true,
        SucceedsFor::Superuser => superuser(),
        SucceedsFor::Untested(_) => false,
    };
    if succeeds {
        let name = format!("without a sandbox: {}", attack.name);
        trials.push(Trial::test(name, move || succeeds_without_sandbox(attack)));
    }
    trials
}

fn blocked_in_the_sandbox(attack: Attack) -> Result<(), Failed> {
    let mut host = Host::new();
    let run = host.attack(Containment::Isolated, attack.body, small_limits());
    let printed = run.printed();
    if run.report.ending != Ending::Exit(Exit::Success) || printed.contains("ESCAPED") || !printed.contains("BLOCKED") {
        return Err(format!("{}: {printed}", run.report.ending).into());
    }
    if printed.contains(harness::SECRET) || !host.victim_lives() {
        return Err(format!("the secret leaked or the victim is dead: {printed}").into());
    }
    Ok(())
}

fn succeeds_without_sandbox(attack: Attack) -> Result<(), Failed> {
    let host = Host::new();
    let printed = host.attack(no_isolation(), attack.body, small_limits()).printed();
    if printed.contains("ESCAPED") { Ok(()) } else { Err(format!("blocked without a sandbox: {printed}").into()) }
}

fn as_ordinary_user() -> Result<(), Failed> {
    // An ordinary user may not be able to read the build folder.
    let folder = readable_folder();
    let copy = folder.path().join("escapes");
    std::fs::copy("/proc/self/exe", &copy)?;
    let user = ["--reuid", "65533", "--regid", "65533", "--clear-groups"];
    let output = Command::new("setpriv").args(user).arg(&copy).env(ORDINARY_USER_RUN, "1").current_dir("/").output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stdout).into_owned().into())
}
