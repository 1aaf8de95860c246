//! `sage backup` and `sage restore`: a copy of everything, and a directory restored from it behind the rollback fence.

use std::path::PathBuf;

use clap::Args;
use sage_engine::backup::{self, RestoredTokens};
use sage_engine::log::SinceBackup;
use sage_engine::{Engine, Opened};
use sage_server::diagnostics::note;
use sage_server::views::directory::{Acknowledgement, BackupResult, RestoreResult};

use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::output::{print, print_json};

pub(crate) const BACKUP_EXAMPLES: &str = "\
Examples:
  sage backup /backups/monday
  sage backup /backups/monday --dir sage-data --json

The directory may be in use: the log is copied as it is at one moment, then every file that it names, each checked against
its digest. The copy holds rows and secrets and is readable by its owner alone; keep it as safe as the directory.";

pub(crate) const RESTORE_EXAMPLES: &str = "\
Examples:
  sage restore /backups/monday --dir sage-new
  sage restore --acknowledge --nothing-since --dir sage-new --as ada
  sage restore --acknowledge --retire-all --dir sage-new --as ada

A restored log forgets what was spent after the backup, and two directories of one past would spend one budget twice. So
a restored directory grants nothing until an officer says that the original is out of service, and either that it granted
nothing after the backup, or that this is not known: then every block in it is retired and new blocks are the refresh.
Tokens of the server are revoked by restoring, since a backup also has those that were revoked after it was made;
--keep-tokens has them count again.";

#[derive(Args, Debug)]
pub(crate) struct BackupArgs {
    /// A new folder
    folder: PathBuf,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RestoreArgs {
    /// The backup's folder; the directory is made at --dir
    #[arg(required_unless_present = "acknowledge")]
    folder: Option<PathBuf>,

    /// Confirm, as an officer, that the original is out of service, and let the restored directory grant again
    #[arg(long, conflicts_with = "folder")]
    acknowledge: bool,

    /// With --acknowledge: the original granted nothing after the backup was made
    #[arg(long, requires = "acknowledge", conflicts_with = "retire_all")]
    nothing_since: bool,

    /// With --acknowledge: what the original granted since is not known, so retire every block
    #[arg(long, requires = "acknowledge")]
    retire_all: bool,

    /// Keep the tokens of the backup valid, including those that were revoked after it
    #[arg(long, requires = "folder")]
    keep_tokens: bool,

    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn save(args: &BackupArgs) -> Result<(), Failure> {
    args.directory.check_exists()?;
    let saved = backup::save(&args.directory.dir, &args.directory.options(), &args.folder)?;
    if args.json {
        return print_json(&BackupResult {
            folder: args.folder.clone(),
            events: saved.events,
            head: saved.head,
            files: saved.files.len() as u64,
        });
    }
    note("it contains rows and secrets: protect it like the directory");
    print(&format!(
        "{} files in {}, with the log up to event {}\n",
        saved.files.len(),
        args.folder.display(),
        saved.events
    ))
}

pub(crate) fn restore(args: &RestoreArgs) -> Result<(), Failure> {
    let Some(folder) = &args.folder else { return acknowledge(args) };
    let tokens = if args.keep_tokens { RestoredTokens::Kept } else { RestoredTokens::Revoked };
    let saved = backup::restore(folder, &args.directory.dir, &args.directory.options(), tokens)?;
    let directory = args.directory.dir.display();
    if args.json {
        return print_json(&RestoreResult {
            directory: args.directory.dir.clone(),
            events: saved.events,
            files: saved.files.len() as u64,
            fenced: true,
            tokens_kept: args.keep_tokens,
        });
    }
    if !args.keep_tokens {
        note("tokens of the backup are not valid; create new ones with: sage token create --as NAME");
    }
    note(&format!(
        "it grants nothing until an officer has answered for it: sage restore --acknowledge --nothing-since --dir {directory} \
         --as NAME"
    ));
    print(&format!("{} files in {directory}, with the log up to event {}\n", saved.files.len(), saved.events))
}

fn acknowledge(args: &RestoreArgs) -> Result<(), Failure> {
    let since = match (args.nothing_since, args.retire_all) {
        (true, false) => SinceBackup::Nothing,
        (false, true) => SinceBackup::Unknown,
        _ => {
            return Err(Failure::usage(
                "it is not said what the original granted after the backup",
                "add --nothing-since if it granted nothing, or --retire-all if that is not known",
            ));
        }
    };
    let who = args.user.principal()?;
    args.directory.check_exists()?;
    let said = match Engine::open(&args.directory.dir, &args.directory.options())? {
        Opened::Ready(_) => "the directory is not fenced; there is nothing to acknowledge",
        Opened::Fenced(log) if !log.is_restored() => {
            return Err(Failure::no_answer(
                "the directory was put back by other means than sage restore",
                "sage doctor --acknowledge --as NAME",
            ));
        }
        Opened::Fenced(log) => {
            log.acknowledge_restore(&who, since)?.close()?;
            match since {
                SinceBackup::Nothing => "acknowledged; the log says by whom",
                SinceBackup::Unknown => "acknowledged, and every block is retired; the log says by whom",
            }
        }
    };
    if args.json { print_json(&Acknowledgement { said: said.to_owned() }) } else { print(&format!("{said}\n")) }
}
