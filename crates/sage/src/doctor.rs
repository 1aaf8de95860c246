//! `sage doctor`: is everything where the log says it is?

use clap::Args;
use sage_engine::doctor::{Doctor, Finding};
use sage_engine::{Engine, Opened};
use serde_json::json;

use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::place::{PlaceArgs, WhoArgs};

#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Remove files that no event names and end grants that no process is using
    #[arg(long)]
    repair: bool,

    /// Answer, as an officer, for a directory that was put back from an old copy
    #[arg(long)]
    acknowledge: bool,

    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Shown where a rewritten log could not be found.
const NEVER_EXPORTED: &str = "no head of this log was ever exported: if it were cut, or rewritten and chained anew, \
                              nothing would show it; export heads to another machine with --heads FILE\n";

pub(crate) fn run(asked: &DoctorArgs) -> Result<(), Failure> {
    if asked.acknowledge {
        return acknowledge(asked);
    }
    let doctor = Doctor::examine(&asked.place.dir, &asked.place.places())?;
    let (events, exported) = (doctor.head().length, doctor.head_was_exported());
    let found = if asked.repair { doctor.repair()? } else { doctor.findings().to_vec() };
    let lines: Vec<String> = found.iter().map(Finding::to_string).collect();
    if asked.json {
        print_json(&json!({"events_verified": events, "head_exported": exported, "findings": lines}))?;
    } else {
        let list: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        let never = if exported { "" } else { NEVER_EXPORTED };
        print(&format!("{events} events verified from the first on\n{never}{list}"))?;
    }
    if found.is_empty() {
        return if asked.json { Ok(()) } else { print("nothing is wrong\n") };
    }
    let help =
        if asked.repair { "restore what is missing from a backup" } else { "sage doctor --repair mends what can be" };
    Err(Failure::no_answer("not everything is as the log says", help))
}

fn acknowledge(asked: &DoctorArgs) -> Result<(), Failure> {
    match Engine::open(&asked.place.dir, &asked.place.places())? {
        Opened::Ready(_) => print("the log holds every exported head; there is nothing to acknowledge\n"),
        Opened::Fenced(log) => {
            log.acknowledge(&asked.who.principal()?)?.close()?;
            print("acknowledged; the log says by whom\n")
        }
    }
}
