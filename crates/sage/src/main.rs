//! The program people use: reads flags, asks the engine, prints the answer.
//!
//! Only this crate knows flags and JSON. What was asked for goes to standard output, everything else to
//! standard error, and the exit code says how it went (`sage help exit-codes`). No input makes it panic.

mod account;
mod audit;
mod audit_log;
mod backup;
mod blocks;
mod budget;
mod census;
mod cli;
mod demo;
mod difference;
mod doctor;
mod explain;
mod failure;
mod fields;
mod generate;
mod help;
mod ingest;
mod init;
mod login;
mod logs;
mod mechanism;
mod migrate;
mod models;
mod operator;
mod output;
mod place;
mod plan;
mod plot;
mod predict;
mod quarantine;
mod query;
mod remote;
mod report;
mod runs;
mod server;
mod settings;
mod simulate;
mod stream;
mod submit;
mod suggest;
mod token;
mod wanted;
mod watch;
mod work;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::settings::Settings;

/// Returns freed memory to the system. The system's allocator retains several times what requests hold once many
/// threads have served large ones, so that no bound on the server's memory could be stated.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sage_engine::enter_sandbox_if_requested();
    let settings = match Settings::read(&Cli::command()) {
        Ok(settings) => settings,
        Err(failure) => return ended(Err(failure)),
    };
    let mut command = settings.applied(Cli::command());
    // Flags of all commands are given to each of them.
    command.build();
    let parsed = command.clone().try_get_matches();
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches).map(|cli| (matches, cli)));
    let (matches, cli) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // A reader that went away is no reason to fail while explaining a flag.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    ended(match (remote::run_if_asked(&matches, &cli.command), &cli.command) {
        (Some(answered), _) => answered,
        (None, Command::Config { .. }) => settings::show(&settings, &command, &matches),
        (None, command) => run(command),
    })
}

/// Says what went wrong, if anything did, and gives the code to end with.
fn ended(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) | Err(Failure::ReaderGone) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell();
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Account(asked) => account::run(asked),
        Command::Audit { command } => audit::run(command),
        Command::Demo(asked) => demo::run(asked),
        Command::Init(asked) => init::run(asked),
        Command::Stream { command } => stream::run(command),
        Command::Ingest(asked) => ingest::run(asked),
        Command::Blocks(asked) => blocks::run(asked),
        Command::Budget(asked) => budget::run(asked),
        Command::Census(asked) => census::run(asked),
        Command::Plan(asked) => plan::run(asked),
        Command::Submit(asked) => submit::run(asked),
        Command::Work(asked) => work::run(asked),
        Command::Watch(asked) => watch::run(asked),
        Command::Runs(asked) => runs::run(asked),
        Command::Explain(asked) => explain::run(asked),
        Command::Logs(asked) => logs::run(asked),
        Command::Cancel(asked) => submit::cancel(asked),
        Command::Models { command } => models::run(command),
        Command::Features { command } => models::features(command),
        Command::Predict(asked) => predict::run(asked),
        Command::Quarantine(asked) => quarantine::run(asked),
        Command::Query(asked) => query::run(asked),
        Command::Serve(asked) => server::run(asked),
        Command::Token { command } => token::run(command),
        Command::Simulate(asked) => simulate::run(asked),
        Command::Doctor(asked) => doctor::run(asked),
        Command::Backup(asked) => backup::save(asked),
        Command::Restore(asked) => backup::restore(asked),
        Command::Migrate(asked) => migrate::run(asked),
        Command::Login(asked) => login::run(asked),
        // Shown with what was parsed, before it comes to this.
        Command::Config { .. } => Ok(()),
        Command::Completion(asked) => help::completion(asked),
        Command::Generate(asked) => generate::run(asked),
        Command::Help { topic } => help::run(topic.as_deref()),
    }
}
