//! `sage stream`: streams and their files.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sage_engine::{EngineError, PolicyOutcome, stream};
use sage_server::diagnostics::note;
use sage_server::difference::changed_lines;
use sage_server::views::streams::Stream;

use crate::client::{self, Target};
use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::output::{print, print_json};

#[derive(Debug, Subcommand)]
pub(crate) enum StreamCommand {
    /// Create a stream from its file
    Create(FileArgs),
    /// Change a stream to a new version of its file; loosening the policy needs a second officer
    Change(FileArgs),
    /// Show what another officer has proposed, or approve it by its digest
    Approve(ApproveArgs),
    /// Suspend all roles of a member: their runs and recurring pipelines stop
    Suspend(SuspendArgs),
    /// Give a suspended member their roles back
    Reinstate(MemberArgs),
    /// Show one stream, or all
    Show(ShowArgs),
}

#[derive(Args, Debug)]
pub(crate) struct FileArgs {
    /// The stream's file
    file: PathBuf,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ApproveArgs {
    /// The stream
    stream: String,
    /// The digest of the proposal, as this command shows it without the flag
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
}

#[derive(Args, Debug)]
pub(crate) struct MemberArgs {
    /// The stream
    stream: String,
    /// The member's name, as in the stream's file
    member: String,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
}

#[derive(Args, Debug)]
pub(crate) struct SuspendArgs {
    #[command(flatten)]
    member: MemberArgs,
    /// The reason, for the log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// The stream; all of them if none is named
    stream: Option<String>,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &StreamCommand, target: Option<&Target>) -> Result<(), Failure> {
    match command {
        StreamCommand::Create(args) => {
            let (who, text) = (args.user.principal()?, args.text()?);
            let engine = args.directory.open_or_create()?;
            engine.create_stream(&who, &text)?;
            engine.close()?;
            if stream::StreamFile::parse(&text).is_ok_and(|file| file.officers().len() < 2) {
                note(
                    "the stream has one privacy officer: its policy can never be loosened and its officers can never \
                     change, since both need two",
                );
            }
            print("created; next: sage ingest STREAM FILE\n")
        }
        StreamCommand::Change(args) => {
            let engine = args.directory.open()?;
            let outcome = engine.change_stream(&args.user.principal()?, &args.text()?)?;
            engine.close()?;
            print(match outcome {
                PolicyOutcome::Same => "nothing changes\n",
                PolicyOutcome::InForce => "in force\n",
                PolicyOutcome::Withdrawn => "nothing changes; the proposal that waited is withdrawn\n",
                PolicyOutcome::Waits => {
                    "it loosens the policy, shows results earlier or changes the officers, and waits for another officer: \
                     sage stream approve STREAM\n"
                }
            })
        }
        StreamCommand::Approve(args) => approve(args),
        StreamCommand::Suspend(SuspendArgs { member: args, reason }) => {
            let engine = args.directory.open()?;
            engine.suspend(&args.user.principal()?, &args.stream, &args.member, reason)?;
            engine.close()?;
            print("suspended; what their runs were charged stays charged\n")
        }
        StreamCommand::Reinstate(args) => {
            let engine = args.directory.open()?;
            engine.reinstate(&args.user.principal()?, &args.stream, &args.member)?;
            engine.close()?;
            print("reinstated; runs that ended stay ended\n")
        }
        StreamCommand::Show(args) => show(args, target),
    }
}

impl FileArgs {
    fn text(&self) -> Result<String, Failure> {
        std::fs::read_to_string(&self.file)
            .map_err(|error| Failure::usage(format!("{}: {error}", self.file.display()), "give a stream's TOML file"))
    }
}

/// Shows the proposal that waits, or approves the one with the digest given.
fn approve(args: &ApproveArgs) -> Result<(), Failure> {
    let engine = args.directory.open()?;
    if let Some(digest) = &args.digest {
        engine.approve_policy(&args.user.principal()?, &args.stream, digest)?;
        engine.close()?;
        return print("in force\n");
    }
    let snapshot = engine.snapshot()?;
    let view = snapshot.stream(&args.stream).ok_or_else(|| EngineError::NoStream(args.stream.clone()))?;
    let Some(proposal) = &view.proposal else { return Err(EngineError::NothingToApprove(view.name.clone()).into()) };
    print(&format!(
        "{}proposed by {}; lines with - are in force, lines with + would replace them\n\
         approve it with: sage stream approve {} --digest {}\n",
        changed_lines(&view.file, &proposal.text),
        proposal.by,
        view.name,
        proposal.digest
    ))
}

fn show(args: &ShowArgs, target: Option<&Target>) -> Result<(), Failure> {
    let client = client::open(target, &args.directory, None)?;
    let streams = match &args.stream {
        None => client.streams()?,
        Some(name) => vec![client.stream(name)?],
    };
    match streams.as_slice() {
        // The JSON of a stream that was named is an object; without a name it is a list.
        [one] if args.json && args.stream.is_some() => print_json(one),
        all if args.json => print_json(&all),
        all => print(&all.iter().map(text).collect::<Vec<_>>().join("\n")),
    }
}

fn text(stream: &Stream) -> String {
    let states = ["open", "sealed", "retired", "deleted"];
    let states = states.iter().filter_map(|state| Some(format!("{} {state}", stream.blocks.get(*state)?)));
    let waits = match &stream.policy_proposed_by {
        Some(name) => format!("  waits    a policy proposed by {name}: sage stream approve {}\n", stream.name),
        None => String::new(),
    };
    let suspended = stream.suspended.iter().enumerate().map(|(index, member)| {
        let reason = stream.suspension_reasons.get(index).map_or_else(String::new, |reason| format!(": {reason}"));
        format!("  suspended  {member}{reason}\n")
    });
    format!(
        "{}\n  promise  {}\n  spent    epsilon {} on the block that has spent most\n  blocks   {}\n{waits}{}",
        stream.name,
        stream.promise,
        stream.epsilon_spent,
        states.collect::<Vec<_>>().join(", "),
        suspended.collect::<String>()
    )
}
