//! `sage migrate`: the format of a directory, and whether this release can use it.
//!
//! There has been only one format so far, so there is nothing to migrate.

use clap::Args;
use sage_engine::EngineError;
use sage_engine::log::{FORMAT, OpenError, read_format};
use sage_server::views::directory::FormatReport;

use crate::directory::DirectoryArgs;
use crate::failure::Failure;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage migrate
  sage migrate --dir sage-data --json

A directory of this release's format is left as it is. One of another format is never written to.";

#[derive(Args, Debug)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &MigrateArgs) -> Result<(), Failure> {
    args.directory.check_exists()?;
    let found = read_format(&args.directory.dir).map_err(EngineError::from)?;
    if args.json {
        print_json(&FormatReport { format: found, format_of_this_release: FORMAT, usable: found == FORMAT })?;
    }
    if found != FORMAT {
        return Err(Failure::from(EngineError::from(OpenError::Format { found, known: FORMAT })));
    }
    if args.json { Ok(()) } else { print(&format!("format {found} is the format of this release: nothing to do\n")) }
}
