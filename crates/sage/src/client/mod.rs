//! Commands that work on a directory and on a server.
//!
//! A command builds a typed request, passes it to a [`Client`] and prints the view that it returns. [`LocalClient`]
//! calls the engine, [`RemoteClient`] a server.

mod local;
mod remote;

use std::path::PathBuf;

use clap::ArgMatches;
use clap::parser::ValueSource;
use sage_engine::serve::RowFormat;
use sage_server::views::census::Census;
use sage_server::views::plan::Plan;
use sage_server::views::queries::QueryResponse;
use sage_server::views::releases::{Prediction, Release, ReleaseSummary};
use sage_server::views::requests::{QueryRequest, RunsRequest};
use sage_server::views::runs::{Run, RunSummary};
use sage_server::views::streams::{Block, Stream};

use crate::commands::login::Logins;
use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
pub(crate) use local::LocalClient;
pub(crate) use remote::RemoteClient;

/// The variable that holds a token.
pub(crate) const TOKEN: &str = "SAGE_TOKEN";

/// A pipeline's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PipelineRequest {
    /// The file, for messages.
    pub(crate) file: PathBuf,
    /// Its text.
    pub(crate) text: String,
}

/// A query with its stream and its key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyedQuery {
    pub(crate) stream: String,
    pub(crate) key: String,
    pub(crate) query: QueryRequest,
}

/// Rows for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PredictRequest {
    pub(crate) model: String,
    /// The rows; `None` for standard input.
    pub(crate) file: Option<PathBuf>,
    pub(crate) format: Option<RowFormat>,
}

/// What was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    Run,
    Recurrence,
}

/// What a directory and a server can both do.
pub(crate) trait Client {
    fn runs(&self, request: &RunsRequest) -> Result<Vec<RunSummary>, Failure>;
    fn run(&self, number: u64) -> Result<Run, Failure>;
    fn cancel(&self, number: u64) -> Result<Cancelled, Failure>;
    fn plan(&self, request: &PipelineRequest) -> Result<Plan, Failure>;
    fn submit(&self, request: &PipelineRequest) -> Result<Run, Failure>;
    fn streams(&self) -> Result<Vec<Stream>, Failure>;
    fn stream(&self, name: &str) -> Result<Stream, Failure>;
    fn blocks(&self, stream: &str) -> Result<Vec<Block>, Failure>;
    fn census(&self, stream: &str) -> Result<Census, Failure>;
    fn query(&self, request: &KeyedQuery) -> Result<QueryResponse, Failure>;
    fn releases(&self) -> Result<Vec<ReleaseSummary>, Failure>;
    fn release(&self, name: &str) -> Result<Release, Failure>;
    /// Passes predictions to `each`, in the order of the rows and in parts. Returns the full name of the model. A directory
    /// is closed before the rows are read.
    fn predict(
        self: Box<Self>, request: &PredictRequest, each: &mut dyn FnMut(Vec<Prediction>) -> Result<(), Failure>,
    ) -> Result<String, Failure>;
    /// Closes the directory; reports what could not be written.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

/// The server that executes a command.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: String,
    pub(crate) token: Option<String>,
    /// Whether `--server` is on the command line.
    pub(crate) is_flag: bool,
}

/// The server that executes the command; `None` if it works on a directory.
pub(crate) fn target(matches: &ArgMatches) -> Option<Target> {
    let own = innermost(matches);
    let source = |id: &str| own.try_contains_id(id).unwrap_or(false).then(|| own.value_source(id)).flatten();
    let named = own.try_get_one::<String>("server").ok().flatten().cloned();
    let is_flag = source("server") == Some(ValueSource::CommandLine);
    let logins = Logins::read();
    let address = match named {
        // A directory on the command line precedes a server from the environment.
        Some(_) if !is_flag && source("dir") == Some(ValueSource::CommandLine) => return None,
        Some(address) => address,
        None => {
            let path = own.try_get_one::<PathBuf>("dir").ok().flatten()?;
            let absent = source("dir") == Some(ValueSource::DefaultValue) && !path.join("log.db").exists();
            logins.last().filter(|_| absent)?.to_owned()
        }
    };
    let address = address.trim_end_matches('/').to_owned();
    let named = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
    let token = named.or_else(|| logins.token(&address).map(str::to_owned));
    Some(Target { address, token, is_flag })
}

/// The flags of the innermost command.
fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| innermost(inner))
}

/// Opens the directory or connects to the server.
pub(crate) fn open(
    target: Option<&Target>, directory: &DirectoryArgs, user: Option<&UserArgs>,
) -> Result<Box<dyn Client>, Failure> {
    match target {
        Some(target) => Ok(Box::new(RemoteClient::of_target(target)?)),
        None => Ok(Box::new(LocalClient::open(directory, user)?)),
    }
}

/// Refuses `--server` at a command that works on a directory only.
pub(crate) fn refuse(target: Option<&Target>, command: &str) -> Result<(), Failure> {
    match target {
        Some(Target { is_flag: true, .. }) => Err(Failure::usage(
            format!("sage {command} works on a directory and cannot use a server"),
            "leave --server out and name the directory with --dir; docs/reference/commands.md lists the commands that can use a \
             server",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction, CommandFactory, FromArgMatches};

    use crate::cli::{Cli, Command};

    /// Flags of a directory, of the local user and of the output, which a server does not need.
    const LOCAL: &[&str] = &[
        "dir",
        "heads",
        "blocks",
        "key_file",
        "key_command",
        "name",
        "json",
        "server",
        "help",
        "attempt_time",
        "attempt_memory",
        "scheduler",
        "uncontained",
        "show",
        "threads",
    ];

    /// Commands that a server answers, with the flags that make them local or are refused with `--server`.
    const ANSWERED: &[(&[&str], &[&str])] = &[
        (&["runs"], &[]),
        (&["query", "taxi", "SELECT count(*)"], &["key"]),
        (&["predict", "model"], &["columns"]),
        (&["explain", "1"], &[]),
        (&["cancel", "1"], &[]),
        (&["plan", "-"], &[]),
        (&["submit", "-"], &["wait", "code"]),
        (&["census", "taxi"], &[]),
        (&["blocks", "taxi"], &["step", "keys", "before"]),
        (&["watch"], &["timeout"]),
        (&["stream", "show"], &[]),
        (&["models", "list"], &[]),
        (&["models", "show", "model"], &[]),
    ];

    fn parse(words: &[String]) -> Command {
        let words = std::iter::once("sage".to_owned()).chain(words.iter().cloned());
        let matches = Cli::command().try_get_matches_from(words).expect("a command");
        Cli::from_arg_matches(&matches).expect("a command").command
    }

    /// The typed request of a command that has one.
    fn request(command: &Command) -> String {
        match command {
            Command::Runs(args) => format!("{:?}", args.request()),
            Command::Query(args) => format!("{:?}", args.request().expect("a query")),
            Command::Predict(args) => format!("{:?}", args.request()),
            _ => String::new(),
        }
    }

    fn with_flag(words: &[String], argument: &Arg) -> Vec<String> {
        let mut words = words.to_vec();
        words.push(format!("--{}", argument.get_long().expect("a flag")));
        if !matches!(argument.get_action(), ArgAction::SetTrue) {
            words.push(match argument.get_id().as_str() {
                "format" => "csv".to_owned(),
                _ => "7".to_owned(),
            });
        }
        words
    }

    /// A flag that is neither local nor refused has to change the request that a server gets.
    #[test]
    fn every_flag_of_an_answered_command_is_sent() {
        for (words, refused) in ANSWERED {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let base = request(&parse(&words));
            let whole = Cli::command();
            let mut command = &whole;
            for word in &words {
                command = command.find_subcommand(word).unwrap_or(command);
            }
            let flags = command.get_arguments().filter(|argument| !argument.is_positional());
            for argument in flags {
                let id = argument.get_id().as_str();
                if LOCAL.contains(&id) || refused.contains(&id) {
                    continue;
                }
                let changed = request(&parse(&with_flag(&words, argument)));
                assert_ne!(changed, base, "{words:?}: --{id} is not sent to a server");
            }
        }
    }
}
