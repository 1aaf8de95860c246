//! `sage doctor`: verifies the log and compares the stored files with it.

use clap::Args;
use sage_engine::doctor::{Doctor, Finding};
use sage_engine::{Engine, Opened};
use sage_server::views::directory::Diagnosis;

use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::output::{print, print_json};

#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Remove files that no event names and end grants that no process is using
    #[arg(long)]
    repair: bool,

    /// Acknowledge, as an officer, a directory that was rolled back to an old copy
    #[arg(long)]
    acknowledge: bool,

    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Shown where a rewritten log could not be found.
const NEVER_EXPORTED: &str = "no head of this log was ever exported: if it were cut, or rewritten and chained anew, \
                              nothing would show it; export heads to another machine with --heads FILE\n";

pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    if args.acknowledge {
        return acknowledge(args);
    }
    let doctor = Doctor::examine(&args.directory.dir, &args.directory.options())?;
    let (events, exported) = (doctor.head().length, doctor.head_was_exported());
    let found = if args.repair { doctor.repair()? } else { doctor.findings().to_vec() };
    let findings: Vec<String> = found.iter().map(Finding::to_string).collect();
    if args.json {
        print_json(&Diagnosis { events_verified: events, head_exported: exported, findings })?;
    } else {
        let list: String = findings.iter().map(|line| format!("  {line}\n")).collect();
        let never = if exported { "" } else { NEVER_EXPORTED };
        print(&format!("{events} events verified from the first on\n{never}{list}"))?;
    }
    if found.is_empty() {
        return if args.json { Ok(()) } else { print("nothing is wrong\n") };
    }
    let help =
        if args.repair { "restore what is missing from a backup" } else { "sage doctor --repair mends what can be" };
    Err(Failure::no_answer("the directory differs from its log", help))
}

fn acknowledge(args: &DoctorArgs) -> Result<(), Failure> {
    match Engine::open(&args.directory.dir, &args.directory.options())? {
        Opened::Ready(_) => print("the log holds every exported head; there is nothing to acknowledge\n"),
        Opened::Fenced(log) => {
            log.acknowledge(&args.user.principal()?)?.close()?;
            print("acknowledged; the log says by whom\n")
        }
    }
}
