//! `sage stream`: streams and their files.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sage_engine::{EngineError, PolicyOutcome, StreamView, stream};
use serde_json::{Value, json};

use crate::difference::changed_lines;
use crate::failure::Failure;
use crate::output::{print, print_json, tell};
use crate::place::{PlaceArgs, WhoArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum StreamCommand {
    /// Create the stream a file describes
    Create(FileArgs),
    /// Have a stream follow a changed file; loosening its policy waits for a second officer
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
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ApproveArgs {
    /// The stream
    stream: String,
    /// The digest of the proposal, as this command shows it without the flag
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
pub(crate) struct MemberArgs {
    /// The stream
    stream: String,
    /// The member's name, as in the stream's file
    member: String,
    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
pub(crate) struct SuspendArgs {
    #[command(flatten)]
    member: MemberArgs,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// The stream; all of them if none is named
    stream: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &StreamCommand) -> Result<(), Failure> {
    match command {
        StreamCommand::Create(asked) => {
            let (who, text) = (asked.who.principal()?, asked.text()?);
            let engine = asked.place.open_or_make()?;
            engine.create_stream(&who, &text)?;
            engine.close()?;
            if stream::StreamFile::parse(&text).is_ok_and(|file| file.officers().len() < 2) {
                tell(
                    "the stream has one privacy officer: its policy can never be loosened and its officers can never \
                     change, since both need two",
                );
            }
            print("created; next: sage ingest STREAM FILE\n")
        }
        StreamCommand::Change(asked) => {
            let engine = asked.place.open()?;
            let outcome = engine.change_stream(&asked.who.principal()?, &asked.text()?)?;
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
        StreamCommand::Approve(asked) => approve(asked),
        StreamCommand::Suspend(SuspendArgs { member: asked, reason }) => {
            let engine = asked.place.open()?;
            engine.suspend(&asked.who.principal()?, &asked.stream, &asked.member, reason)?;
            engine.close()?;
            print("suspended; what their runs were charged stays charged\n")
        }
        StreamCommand::Reinstate(asked) => {
            let engine = asked.place.open()?;
            engine.reinstate(&asked.who.principal()?, &asked.stream, &asked.member)?;
            engine.close()?;
            print("reinstated; runs that ended stay ended\n")
        }
        StreamCommand::Show(asked) => show(asked),
    }
}

impl FileArgs {
    fn text(&self) -> Result<String, Failure> {
        std::fs::read_to_string(&self.file)
            .map_err(|error| Failure::usage(format!("{}: {error}", self.file.display()), "give a stream's TOML file"))
    }
}

/// Shows the proposal that waits, or approves the one with the digest given.
fn approve(asked: &ApproveArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    if let Some(digest) = &asked.digest {
        engine.approve_policy(&asked.who.principal()?, &asked.stream, digest)?;
        engine.close()?;
        return print("in force\n");
    }
    let snapshot = engine.snapshot()?;
    let view = snapshot.stream(&asked.stream).ok_or_else(|| EngineError::NoStream(asked.stream.clone()))?;
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

fn show(asked: &ShowArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let snapshot = engine.snapshot()?;
    let views = match &asked.stream {
        None => snapshot.streams(),
        Some(name) => vec![snapshot.stream(name).ok_or_else(|| EngineError::NoStream(name.clone()))?],
    };
    if asked.json {
        return print_json(&Value::Array(views.iter().map(object).collect()));
    }
    print(&views.iter().map(text).collect::<Vec<_>>().join("\n"))
}

/// A stream as an object.
pub(crate) fn object(view: &StreamView) -> Value {
    let blocks: serde_json::Map<String, Value> =
        view.blocks.iter().map(|(state, count)| (state.to_string(), json!(count))).collect();
    json!({
        "name": view.name,
        "unit": view.unit,
        "promise": view.promise,
        "epsilon_spent": view.spent.to_string(),
        "blocks": blocks,
        "policy_proposed_by": view.proposed_by,
        "policy_proposal": view.proposal.as_ref().map(|proposal| json!({
            "by": proposal.by,
            "digest": proposal.digest,
            "text": proposal.text,
        })),
        "suspended": view.suspended.iter().map(|(member, _)| member).collect::<Vec<_>>(),
        "file": view.file,
    })
}

fn text(view: &StreamView) -> String {
    let blocks: Vec<String> = view.blocks.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let waits = match &view.proposed_by {
        Some(name) => format!("  waits    a policy proposed by {name}: sage stream approve {}\n", view.name),
        None => String::new(),
    };
    let stopped: String =
        view.suspended.iter().map(|(member, reason)| format!("  suspended  {member}: {reason}\n")).collect();
    format!(
        "{}\n  promise  {}\n  spent    epsilon {} on the block that has spent most\n  blocks   {}\n{waits}{stopped}",
        view.name,
        view.promise,
        view.spent,
        blocks.join(", ")
    )
}
