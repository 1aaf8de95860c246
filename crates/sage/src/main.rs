//! The command line: parses flags, calls the engine or a server, and prints the result.
//!
//! Results go to standard output and everything else to standard error; `sage help exit-codes` lists the exit codes. No
//! input makes it panic.

mod cli;
mod client;
mod commands;
mod directory;
mod failure;
mod fields;
mod operator;
mod output;
mod settings;
mod suggest;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::cli::{Cli, Command};
use crate::client::Target;
use crate::commands::{
    account, audit, backup, blocks, budget, census, demo, doctor, explain, generate, help, ingest, init, login, logs,
    migrate, models, plan, predict, quarantine, query, runs, serve, simulate, stream, submit, token, watch, work,
};
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
            // A closed output is no reason to fail while printing help.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    ended(match &cli.command {
        Command::Config { .. } => settings::show(&settings, &command, &matches),
        command => {
            let name = matches.subcommand_name().unwrap_or_default();
            run(command, name, client::target(&matches).as_ref())
        }
    })
}

/// Reports a failure and returns the exit code.
fn ended(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) | Err(Failure::ReaderGone) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(command: &Command, name: &str, target: Option<&Target>) -> Result<(), Failure> {
    if !takes_server(command) {
        client::refuse(target, name)?;
    }
    match command {
        Command::Account(args) => account::run(args),
        Command::Audit { command } => audit::run(command),
        Command::Demo(args) => demo::run(args),
        Command::Init(args) => init::run(args),
        Command::Stream { command } => stream::run(command, target),
        Command::Ingest(args) => ingest::run(args),
        Command::Blocks(args) => blocks::run(args, target),
        Command::Budget(args) => budget::run(args),
        Command::Census(args) => census::run(args, target),
        Command::Plan(args) => plan::run(args, target),
        Command::Submit(args) => submit::run(args, target),
        Command::Work(args) => work::run(args),
        Command::Watch(args) => watch::run(args, target),
        Command::Runs(args) => runs::run(args, target),
        Command::Explain(args) => explain::run(args, target),
        Command::Logs(args) => logs::run(args),
        Command::Cancel(args) => submit::cancel(args, target),
        Command::Models { command } => models::run(command, target),
        Command::Features { command } => models::features(command),
        Command::Predict(args) => predict::run(args, target),
        Command::Quarantine(args) => quarantine::run(args),
        Command::Query(args) => query::run(args, target),
        Command::Serve(args) => serve::run(args),
        Command::Token { command } => token::run(command),
        Command::Simulate(args) => simulate::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Backup(args) => backup::save(args),
        Command::Restore(args) => backup::restore(args),
        Command::Migrate(args) => migrate::run(args),
        Command::Login(args) => login::run(args),
        // Handled in `main`, which has the parsed arguments.
        Command::Config { .. } => Ok(()),
        Command::Completion(args) => help::completion(args),
        Command::Generate(args) => generate::run(args),
        Command::Help { topic } => help::run(topic.as_deref()),
    }
}

/// Whether a server can execute the command.
fn takes_server(command: &Command) -> bool {
    match command {
        Command::Plan(_) | Command::Submit(_) | Command::Watch(_) | Command::Runs(_) | Command::Explain(_) => true,
        Command::Cancel(_) | Command::Query(_) | Command::Census(_) => true,
        Command::Predict(args) => !args.is_local(),
        Command::Blocks(args) => !args.is_local(),
        Command::Stream { command } => matches!(command, stream::StreamCommand::Show(_)),
        Command::Models { command } => {
            matches!(command, models::ModelsCommand::List(_) | models::ModelsCommand::Show(_))
        }
        _ => false,
    }
}
