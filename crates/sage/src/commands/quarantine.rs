//! `sage quarantine`: lists quarantined rows without counts, releases or erases them.

use clap::{Args, ValueEnum};
use sage_server::views::quarantine::{QuarantinedFile, apply};
use sage_server::views::requests::QuarantineAction;

use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage quarantine taxi --as dan
  sage quarantine taxi --do release --file part-0f3c9a1b2d4e5f60-0.parquet --as dan
  sage quarantine taxi --do erase --all --as ada

Rows without a usable time, and rows of sealed blocks where late = \"quarantine\", are set aside and never read. Releasing
sends them through ingest again, under the stream's file as it is now. The stream's retention erases them.";

/// An action on the selected files.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Step {
    /// Their rows are ingested again
    Release,
    /// They are removed
    Erase,
}

#[derive(Args, Debug)]
pub(crate) struct QuarantineArgs {
    /// The stream
    stream: String,

    /// Do this with the files named by --file, or with --all, instead of listing
    #[arg(long = "do", value_name = "STEP")]
    step: Option<Step>,

    /// A file, by its name in the list; can be repeated
    #[arg(long = "file", value_name = "NAME")]
    files: Vec<String>,

    /// All files of the list
    #[arg(long, conflicts_with = "files")]
    all: bool,

    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &QuarantineArgs) -> Result<(), Failure> {
    let engine = args.directory.open()?;
    let who = args.user.principal()?;
    let Some(step) = args.step else {
        let files = engine.quarantine(&who, &args.stream)?;
        let files: Vec<QuarantinedFile> = files.iter().map(QuarantinedFile::from).collect();
        return if args.json { print_json(&files) } else { print(&text(&files)) };
    };
    let files = match args.all {
        true => engine.quarantine_files(&args.stream),
        false => args.files.clone(),
    };
    let action = match step {
        Step::Release => QuarantineAction::Release,
        Step::Erase => QuarantineAction::Erase,
    };
    let done = apply(&engine, &who, &args.stream, action, &files)?;
    engine.close()?;
    if args.json { print_json(&done) } else { print("done\n") }
}

fn text(files: &[QuarantinedFile]) -> String {
    if files.is_empty() {
        return "no row is set aside\n".to_owned();
    }
    let line = |file: &QuarantinedFile| {
        let time = file.time.as_deref().unwrap_or("an earlier time");
        format!("{}  {time}  batch {}: {}\n", file.file, file.batch, file.reasons.join(", "))
    };
    files.iter().map(line).collect()
}
