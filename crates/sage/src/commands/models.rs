//! `sage models` and `sage features`: lists, shows, downloads, names and withdraws releases.
//!
//! A statistic is a release like a model; `sage features` shows its lines for use as features.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use sage_engine::{Engine, ReleaseView};
use sage_server::format::quoted;
use sage_server::views::releases::{
    NamedStatistic, PulledRelease, Release, ReleaseKind, ReleaseSummary, Statistic, StatisticLine, full_name,
};

use crate::client::{self, Client, LocalClient, Target};
use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage models list
  sage models show taxi-duration
  sage models pull taxi-duration@3 ./model
  sage models alias taxi-duration@3 champion --as mia
  sage models withdraw taxi-duration@2 --reason \"trained on a wrong unit\" --as mia

A release is named by its pipeline: taxi-duration is the newest version, taxi-duration@3 the third, and
taxi-duration@champion the one with that alias.";

pub(crate) const FEATURE_EXAMPLES: &str = "\
Examples:
  sage features list
  sage features get speed-by-hour
  sage features get speed-by-hour@2 17 --json";

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// All releases: models and statistics
    List(ListArgs),
    /// The card of a model or the table of a statistic, and what it cost
    Show(ShowArgs),
    /// Write the files of a release to a folder
    Pull(PullArgs),
    /// Give a version an alias, which is removed from any other version
    Alias(AliasArgs),
    /// Withdraw a version; what it cost stays spent
    Withdraw(WithdrawArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum FeaturesCommand {
    /// All released statistics
    List(ListArgs),
    /// The lines of a released statistic, or one of them
    Get(GetArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// The release
    #[arg(value_name = "NAME[@VERSION]")]
    release: String,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct PullArgs {
    /// The release
    #[arg(value_name = "NAME[@VERSION]")]
    release: String,
    /// A folder, new or empty
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct AliasArgs {
    /// The release
    #[arg(value_name = "NAME[@VERSION]")]
    release: String,
    /// The alias
    alias: String,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
}

#[derive(Args, Debug)]
pub(crate) struct WithdrawArgs {
    /// The release
    #[arg(value_name = "NAME[@VERSION]")]
    release: String,
    /// The reason, for its users
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
}

#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// The statistic
    #[arg(value_name = "NAME[@VERSION]")]
    release: String,
    /// Only the line of this key
    key: Option<String>,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &ModelsCommand, target: Option<&Target>) -> Result<(), Failure> {
    match command {
        ModelsCommand::List(args) => list(args, &[ReleaseKind::Model, ReleaseKind::Statistic], target),
        ModelsCommand::Show(args) => show(args, target),
        ModelsCommand::Pull(args) => pull(args),
        ModelsCommand::Alias(args) => {
            let client = LocalClient::open(&args.directory, None)?;
            let release = client.release_view(&args.release)?;
            client.engine().move_alias(&args.user.principal()?, &release, &args.alias)?;
            Box::new(client).close()?;
            print(&format!("{} is now {}@{}\n", full_name(&release), release.name, args.alias))
        }
        ModelsCommand::Withdraw(args) => {
            let client = LocalClient::open(&args.directory, None)?;
            let release = client.release_view(&args.release)?;
            client.engine().withdraw(&args.user.principal()?, &release, &args.reason)?;
            Box::new(client).close()?;
            print(&format!(
                "{} is withdrawn; what it cost stays spent, and existing copies are not affected\n",
                full_name(&release)
            ))
        }
    }
}

pub(crate) fn features(command: &FeaturesCommand) -> Result<(), Failure> {
    match command {
        FeaturesCommand::List(args) => list(args, &[ReleaseKind::Statistic], None),
        FeaturesCommand::Get(args) => get(args),
    }
}

fn list(args: &ListArgs, kinds: &[ReleaseKind], target: Option<&Target>) -> Result<(), Failure> {
    let mut releases = client::open(target, &args.directory, None)?.releases()?;
    releases.retain(|release| kinds.contains(&release.kind));
    if args.json {
        return print_json(&releases);
    }
    if releases.is_empty() {
        return print("nothing is released yet; next: sage submit FILE --wait\n");
    }
    let width = releases.iter().map(|release| release.full_name().chars().count()).max().unwrap_or(7).max(7);
    let on = releases.iter().map(|release| release.stream.chars().count()).max().unwrap_or(6).max(6);
    let mut text = format!("{:width$}  kind       {:on$}  run   also called\n", "release", "stream");
    for release in &releases {
        let notes = match &release.withdrawn {
            // The text comes from other users, so control characters are escaped.
            Some(reason) => format!("withdrawn: {}", reason.escape_debug()),
            None => release.aliases.iter().cloned().chain(release.alarm()).collect::<Vec<_>>().join(", "),
        };
        let (name, kind) = (release.full_name(), release.kind.word());
        let line = format!("{name:width$}  {kind:9}  {:on$}  {:<4}  {notes}", release.stream, release.run);
        text += &format!("{}\n", line.trim_end());
    }
    print(&text)
}

fn show(args: &ShowArgs, target: Option<&Target>) -> Result<(), Failure> {
    let release = client::open(target, &args.directory, None)?.release(&args.release)?;
    if args.json {
        return print_json(&release);
    }
    let Release { summary, receipt, card, statistic, .. } = &release;
    let what = match (statistic, card) {
        (Some(statistic), _) => format!("{}\n{}", heading(summary, statistic), table(&statistic.lines)),
        (None, card) => card.clone().unwrap_or_default(),
    };
    let alarm = summary.alarm().map_or_else(String::new, |alarm| format!("{alarm}\n"));
    print(&format!("{what}\n{alarm}receipt of {}, digest {}\n{receipt:#}\n", summary.full_name(), summary.digest))
}

fn heading(release: &ReleaseSummary, statistic: &Statistic) -> String {
    format!(
        "{}: {} on stream {}; all limits hold together with {:.2} % confidence",
        release.full_name(),
        statistic.statistic,
        release.stream,
        100.0 * statistic.confidence
    )
}

fn table(lines: &[StatisticLine]) -> String {
    let number = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let key = |line: &StatisticLine| line.key.clone().unwrap_or_else(|| "all".to_owned());
    let width = lines.iter().map(|line| key(line).chars().count()).max().unwrap_or(3).max(3);
    let mut text = format!("{:width$}  {:>22}  {:>22}  {:>22}\n", "key", "value", "low", "high");
    for line in lines {
        let (value, low, high) = (number(line.value), number(line.low), number(line.high));
        text += &format!("{:width$}  {value:>22}  {low:>22}  {high:>22}\n", key(line));
    }
    text
}

fn get(args: &GetArgs) -> Result<(), Failure> {
    let client = LocalClient::open(&args.directory, None)?;
    let release = client.release_view(&args.release)?;
    let mut statistic = Statistic::from(&client.engine().statistic(&release)?);
    if let Some(key) = &args.key {
        statistic.lines.retain(|line| line.key.as_ref() == Some(key));
        if statistic.lines.is_empty() {
            let message = format!(
                "{} has no key {}; list them with: sage features get {}",
                full_name(&release),
                quoted(key),
                release.name
            );
            return Err(Failure::Engine { message, code: 14 });
        }
    }
    if args.json {
        return print_json(&NamedStatistic { name: release.name, version: release.version, statistic });
    }
    print(&table(&statistic.lines))
}

fn pull(args: &PullArgs) -> Result<(), Failure> {
    let client = LocalClient::open(&args.directory, None)?;
    let release = client.release_view(&args.release)?;
    let names = write(client.engine(), &release, &args.folder)?;
    if args.json {
        return print_json(&PulledRelease { release: full_name(&release), digest: release.digest, files: names });
    }
    let list: String = names.iter().map(|name| format!("  {name}\n")).collect();
    print(&format!("{} in {}:\n{list}", full_name(&release), args.folder.display()))
}

fn write(engine: &Engine, release: &ReleaseView, folder: &Path) -> Result<Vec<String>, Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::no_answer(format!("{}: {error}", path.display()), "name a folder that you may write to")
    };
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        let message = format!("{} is not empty, and nothing in it is overwritten", folder.display());
        return Err(Failure::no_answer(message, "name a new folder"));
    }
    let mut names = Vec::new();
    for (name, bytes) in engine.release_files(release)? {
        let path = folder.join(&name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        std::fs::write(&path, &bytes).map_err(|error| failed(&path, error))?;
        names.push(name);
    }
    Ok(names)
}
