//! `sage help`: the commands, and topics that belong to no single one.

use clap::CommandFactory;
use sage_server::format::quoted;

use crate::cli::{Cli, CompletionArgs};
use crate::failure::Failure;
use crate::output::print;
use crate::suggest::nearest;

const EXIT_CODES: &str = "\
Exit codes of sage

    0  done; the run that was waited for was accepted
    1  failure: the question was clear and could not be answered
    2  usage: the command line cannot be meant as it stands
   10  REJECT: no model of the kind can reach the target
   11  RETRY gave up or timed out
   12  budget refused, or no blocks with enough of it left
   13  not authorised
   14  not found
   15  charged and failed: the charge stands, and asking again is charged again
   69  server unreachable
  130  interrupted

Code 69 belongs to commands that talk to a server. Data goes to standard output and everything
else to standard error, so that a script can trust both.
";

const TOPICS: [&str; 33] = [
    "account",
    "audit",
    "backup",
    "blocks",
    "budget",
    "cancel",
    "completion",
    "config",
    "demo",
    "doctor",
    "exit-codes",
    "explain",
    "features",
    "generate",
    "help",
    "ingest",
    "init",
    "login",
    "logs",
    "migrate",
    "models",
    "plan",
    "predict",
    "query",
    "restore",
    "runs",
    "serve",
    "simulate",
    "stream",
    "submit",
    "token",
    "watch",
    "work",
];

/// Prints the script that completes commands and flags in a shell.
pub(crate) fn completion(args: &CompletionArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sage", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Prints the help for a topic, or for everything.
pub(crate) fn run(topic: Option<&str>) -> Result<(), Failure> {
    let mut command = Cli::command();
    match topic {
        None | Some("help") => print(&command.render_long_help().to_string()),
        Some("exit-codes") => print(EXIT_CODES),
        Some(name) => match command.find_subcommand_mut(name) {
            Some(found) => {
                let mut found = found.clone().bin_name(format!("sage {name}"));
                print(&found.render_long_help().to_string())
            }
            None => Err(unknown(name)),
        },
    }
}

fn unknown(topic: &str) -> Failure {
    let message = format!("there is no help on {}", quoted(topic));
    match nearest(topic, &TOPICS) {
        Some(meant) => Failure::usage(message, format!("did you mean: sage help {meant}")),
        None => Failure::usage(message, format!("sage help [{}]", TOPICS.join("|"))),
    }
}
