//! `sage audit log`, `verify` and `export`: prints, verifies and exports the log.
//!
//! All three work on a consistent copy of the log, so that they can be used beside a running server.

use std::path::PathBuf;

use clap::Args;
use sage_engine::doctor::Finding;
use sage_engine::log::{LogCopy, hexadecimal};
use sage_engine::verify::{Verification, verify};
use sage_engine::{Engine, EngineError, EngineOptions, EventView, Opened, backup};
use sage_server::diagnostics::note;
use sage_server::event_filter::{EventFilter, EventQuery};
use sage_server::format::timestamp;
use sage_server::views::audit::{ExportResult, VerificationReport};
use sage_server::views::events::json_line;

use crate::directory::DirectoryArgs;
use crate::failure::Failure;
use crate::output::{print, print_json};

#[derive(Args, Debug)]
pub(crate) struct LogArgs {
    /// Only events of this stream
    #[arg(long, value_name = "STREAM")]
    stream: Option<String>,

    /// Only events of this kind, such as charged or released; can be repeated
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,

    /// Only events at this time (UTC) or later: 2026-11-01, 2026-11-01T08
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Only events before this time (UTC)
    #[arg(long, value_name = "TIME")]
    until: Option<String>,

    /// Only events that record this user
    #[arg(long, value_name = "NAME")]
    by: Option<String>,

    /// Only the last events, this many of them
    #[arg(long, value_name = "NUMBER")]
    last: Option<usize>,

    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object on each line
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// A new folder
    folder: PathBuf,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How many events are read at a time.
const AT_ONCE: usize = 10_000;

pub(crate) fn log(args: &LogArgs) -> Result<(), Failure> {
    let filter = EventFilter::new(&EventQuery {
        stream: args.stream.as_deref(),
        kinds: args.kinds.iter().map(String::as_str).collect(),
        by: args.by.as_deref(),
        since: args.since.as_deref(),
        until: args.until.as_deref(),
    });
    let filter = filter.map_err(|why| Failure::usage(why, "sage audit log --kind released --since 2026-11-01"))?;
    args.directory.check_exists()?;
    let copy = LogCopy::create(&args.directory.dir).map_err(EngineError::from)?;
    // A copy has neither exported heads nor a rollback fence.
    let Opened::Ready(engine) = Engine::open(copy.path(), &EngineOptions::default())? else {
        return Err(Failure::no_answer("the log cannot be read", "sage audit verify reports what is wrong"));
    };
    let mut found: Vec<EventView> = Vec::new();
    let mut from = 0;
    loop {
        let events = engine.events(from, AT_ONCE)?;
        from += events.len() as u64;
        let ended = events.len() < AT_ONCE;
        found.extend(events.into_iter().filter(|event| filter.matches(event)));
        if ended {
            break;
        }
    }
    let skipped = args.last.map_or(0, |last| found.len().saturating_sub(last));
    let line = if args.json { json_line } else { text_line };
    print(&found.iter().skip(skipped).map(line).collect::<String>())
}

fn text_line(event: &EventView) -> String {
    let mut line = format!("{:>8}  {}  {:18}", event.number, timestamp(event.time), event.kind);
    if let Some(stream) = &event.stream {
        line += &format!("  {stream}");
    }
    if let Some(run) = event.run {
        line += &format!("  run {run}");
    }
    if let Some(release) = &event.release {
        line += &format!("  {release}");
    }
    if let Some(digest) = &event.digest {
        line += &format!("  file {digest}");
    }
    if let Some(member) = &event.member {
        line += &format!("  {member}");
    }
    if !event.by.is_empty() {
        line += &format!("  by {}", event.by.join(", "));
    }
    format!("{}\n", line.trim_end())
}

pub(crate) fn check(args: &VerifyArgs) -> Result<(), Failure> {
    args.directory.check_exists()?;
    let mut verified = verify(&args.directory.dir, &args.directory.options())?;
    // Work in progress when the log was copied, or when its process ended, is not a finding.
    verified.findings.retain(|finding| !matches!(finding, Finding::Running(_)));
    if args.json {
        print_json(&VerificationReport::from(&verified))?
    } else {
        print(&text(&verified))?
    }
    match verified.is_sound() {
        true => Ok(()),
        false => Err(Failure::no_answer(
            "not everything is as the log and its exported heads say",
            "compare the directory with a backup, and see: sage doctor",
        )),
    }
}

fn text(verified: &Verification) -> String {
    let mut text = format!(
        "{} events verified from the first on: the chain, the rules of the ledger, and every sum\nhead {}\n{} files of \
         blocks checked against their digests, and every release\n",
        verified.head.length,
        hexadecimal(&verified.head.hash),
        verified.files
    );
    for (file, known, held) in &verified.heads {
        let says = if *held { "is in the log" } else { "is NOT in the log: it was cut or replaced" };
        text += &format!("the head in {}, of {} events, {says}\n", file.display(), known.head.length);
    }
    if verified.heads.is_empty() {
        text += "no exported head was given with --heads: that the end of the log was cut off would not be seen\n";
    }
    if verified.in_use {
        text += "a process is working on the directory: files that no event names were not looked for\n";
    }
    if verified.fenced {
        text += "the directory was restored from a backup and grants nothing until an officer has answered for it\n";
    }
    text += &verified.findings.iter().map(|finding| format!("  {finding}\n")).collect::<String>();
    if verified.is_sound() { text + "nothing is wrong\n" } else { text }
}

pub(crate) fn export(args: &ExportArgs) -> Result<(), Failure> {
    args.directory.check_exists()?;
    let events = backup::export(&args.directory.dir, &args.directory.options(), &args.folder)?;
    let folder = args.folder.display();
    if args.json {
        return print_json(&ExportResult { folder: args.folder.clone(), events });
    }
    note("it contains the log, the releases, the stream files and the heads, but no rows");
    print(&format!("{events} events in {folder}; check them with: python3 tools/audit.py {folder}\n"))
}
