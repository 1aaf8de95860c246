//! The program people use: reads flags, asks the engine, prints the answer.
//!
//! Only this crate knows flags and JSON. What was asked for goes to standard output, everything else to
//! standard error, and the exit code says how it went (`sage help exit-codes`). No input makes it panic.

mod account;
mod audit;
mod blocks;
mod budget;
mod cli;
mod demo;
mod doctor;
mod explain;
mod failure;
mod fields;
mod generate;
mod help;
mod ingest;
mod init;
mod mechanism;
mod models;
mod output;
mod place;
mod plan;
mod plot;
mod predict;
mod report;
mod runs;
mod server;
mod simulate;
mod stream;
mod submit;
mod suggest;
mod token;
mod watch;
mod work;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    sage_engine::enter_box_if_asked();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A reader that went away is no reason to fail while explaining a flag.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let outcome = match &cli.command {
        Command::Account(asked) => account::run(asked),
        Command::Audit { command } => audit::run(command),
        Command::Demo(asked) => demo::run(asked),
        Command::Init(asked) => init::run(asked),
        Command::Stream { command } => stream::run(command),
        Command::Ingest(asked) => ingest::run(asked),
        Command::Blocks(asked) => blocks::run(asked),
        Command::Budget(asked) => budget::run(asked),
        Command::Plan(asked) => plan::run(asked),
        Command::Submit(asked) => submit::run(asked),
        Command::Work(asked) => work::run(asked),
        Command::Watch(asked) => watch::run(asked),
        Command::Runs(asked) => runs::run(asked),
        Command::Explain(asked) => explain::run(asked),
        Command::Cancel(asked) => submit::cancel(asked),
        Command::Models { command } => models::run(command),
        Command::Features { command } => models::features(command),
        Command::Predict(asked) => predict::run(asked),
        Command::Serve(asked) => server::run(asked),
        Command::Token { command } => token::run(command),
        Command::Simulate(asked) => simulate::run(asked),
        Command::Doctor(asked) => doctor::run(asked),
        Command::Generate(asked) => generate::run(asked),
        Command::Help { topic } => help::run(topic.as_deref()),
    };
    match outcome {
        Ok(()) | Err(Failure::ReaderGone) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell();
            ExitCode::from(failure.exit_code())
        }
    }
}
