//! Attacks on the box, one test each, and each attack a second time without a box, where it must come through.
//!
//! Run by the superuser it runs everything once more as an ordinary user.

mod attacks;
mod limits;
mod nothing_left;
mod numbers;
mod protocol;
mod stand;

use std::process::Command;

use attacks::{Attack, Without};
use libtest_mimic::{Arguments, Failed, Trial};
use sage_sandbox::{Containment, Ending, Exit, enter_if_asked};
use stand::{Outside, no_walls, open_folder, small, superuser};

/// A test by its name. It fails by panicking.
type Test = (&'static str, fn() -> Result<(), Failed>);

/// Set in the second round.
const AGAIN: &str = "SAGE_SANDBOX_TEST_AGAIN";

fn main() {
    enter_if_asked();
    nothing_left::start_if_asked();
    let mut trials: Vec<Trial> = attacks::all().into_iter().flat_map(trials).collect();
    let others = [limits::TESTS, protocol::TESTS, nothing_left::TESTS].concat();
    trials.extend(others.into_iter().map(|(name, test)| Trial::test(name, test)));
    trials.push(Trial::test("there are at least sixty", || {
        let count = attacks::all().len();
        if count >= 60 { Ok(()) } else { Err(format!("{count}").into()) }
    }));
    if superuser() && std::env::var_os(AGAIN).is_none() {
        trials.push(Trial::test("everything again as an ordinary user", as_ordinary_user));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trials(attack: Attack) -> Vec<Trial> {
    let mut trials = vec![Trial::test(format!("in the box: {}", attack.name), move || in_the_box(attack))];
    let comes_through = match attack.without {
        Without::Anyone => true,
        Without::Superuser => superuser(),
        Without::Untried(_) => false,
    };
    if comes_through {
        trials.push(Trial::test(format!("without a box: {}", attack.name), move || without_a_box(attack)));
    }
    trials
}

fn in_the_box(attack: Attack) -> Result<(), Failed> {
    let mut outside = Outside::new();
    let ran = outside.attack(Containment::Closed, attack.body, small());
    let printed = ran.printed();
    if ran.report.ending != Ending::Exit(Exit::Ready) || printed.contains("ESCAPED") || !printed.contains("HELD") {
        return Err(format!("{}: {printed}", ran.report.ending).into());
    }
    if printed.contains(stand::SECRET) || !outside.victim_lives() {
        return Err(format!("the secret is out or the victim dead: {printed}").into());
    }
    Ok(())
}

fn without_a_box(attack: Attack) -> Result<(), Failed> {
    let outside = Outside::new();
    let printed = outside.attack(no_walls(), attack.body, small()).printed();
    if printed.contains("ESCAPED") { Ok(()) } else { Err(format!("held by nothing: {printed}").into()) }
}

fn as_ordinary_user() -> Result<(), Failed> {
    // Where the tests are built an ordinary user may not be able to look.
    let place = open_folder();
    let copy = place.path().join("escapes");
    std::fs::copy("/proc/self/exe", &copy)?;
    let user = ["--reuid", "65533", "--regid", "65533", "--clear-groups"];
    let output = Command::new("setpriv").args(user).arg(&copy).env(AGAIN, "1").current_dir("/").output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stdout).into_owned().into())
}
