//! `sage models` and `sage features`: what was released, looked at, fetched, named and withdrawn.
//!
//! A statistic is a release like a model. `sage features` is a second way to look at statistics, for those who use
//! them as features.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use sage_engine::release::Kind;
use sage_engine::run::{Line, ReleasedStatistic};
use sage_engine::{Engine, EngineError, ReleaseView};
use serde_json::{Value, json};

use crate::failure::{Failure, quoted};
use crate::output::{print, print_json};
use crate::place::{PlaceArgs, WhoArgs};
use crate::suggest::hinted;

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
    /// Give a version another name, which any other version then no longer has
    Alias(AliasArgs),
    /// Have a version no longer offered; what it cost stays spent
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
    place: PlaceArgs,
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
    place: PlaceArgs,
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
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct AliasArgs {
    /// The release
    #[arg(value_name = "NAME[@VERSION]")]
    release: String,
    /// Its other name
    alias: String,
    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
pub(crate) struct WithdrawArgs {
    /// The release
    #[arg(value_name = "NAME[@VERSION]")]
    release: String,
    /// Why, for those who use it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// The statistic
    #[arg(value_name = "NAME[@VERSION]")]
    release: String,
    /// The line of this key alone
    key: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &ModelsCommand) -> Result<(), Failure> {
    match command {
        ModelsCommand::List(asked) => list(asked, &[Kind::Model, Kind::Statistic]),
        ModelsCommand::Show(asked) => show(asked),
        ModelsCommand::Pull(asked) => pull(asked),
        ModelsCommand::Alias(asked) => {
            let engine = asked.place.open()?;
            let release = named(&engine, &asked.release)?;
            engine.move_alias(&asked.who.principal()?, &release, &asked.alias)?;
            engine.close()?;
            print(&format!("{} is now {}@{}\n", full(&release), release.name, asked.alias))
        }
        ModelsCommand::Withdraw(asked) => {
            let engine = asked.place.open()?;
            let release = named(&engine, &asked.release)?;
            engine.withdraw(&asked.who.principal()?, &release, &asked.reason)?;
            engine.close()?;
            print(&format!("{} is withdrawn; what it cost stays spent, and who has it keeps it\n", full(&release)))
        }
    }
}

pub(crate) fn features(command: &FeaturesCommand) -> Result<(), Failure> {
    match command {
        FeaturesCommand::List(asked) => list(asked, &[Kind::Statistic]),
        FeaturesCommand::Get(asked) => get(asked),
    }
}

/// The release that is meant.
pub(crate) fn named(engine: &Engine, text: &str) -> Result<ReleaseView, Failure> {
    engine.release_named(text).map_err(|error| hinted(engine, error))
}

/// The name with the version.
pub(crate) fn full(release: &ReleaseView) -> String {
    format!("{}@{}", release.name, release.version)
}

/// What a release is, in a word.
pub(crate) const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Model => "model",
        Kind::Statistic => "statistic",
    }
}

/// A release without its files.
pub(crate) fn summary(release: &ReleaseView) -> Value {
    json!({
        "name": release.name,
        "version": release.version,
        "kind": word(release.kind),
        "stream": release.stream,
        "run": release.run,
        "digest": release.digest,
        "aliases": release.aliases,
        "withdrawn": release.withdrawn,
    })
}

fn list(asked: &ListArgs, kinds: &[Kind]) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let mut releases = engine.releases();
    releases.retain(|release| kinds.contains(&release.kind));
    if asked.json {
        return print_json(&releases.iter().map(summary).collect());
    }
    if releases.is_empty() {
        return print("nothing is released yet; next: sage submit FILE --wait\n");
    }
    let width = releases.iter().map(|release| full(release).chars().count()).max().unwrap_or(7).max(7);
    let on = releases.iter().map(|release| release.stream.chars().count()).max().unwrap_or(6).max(6);
    let mut text = format!("{:width$}  kind       {:on$}  run   also called\n", "release", "stream");
    for release in &releases {
        let notes = match &release.withdrawn {
            // Others wrote it: what a terminal might act on is shown, not sent.
            Some(reason) => format!("withdrawn: {}", reason.escape_debug()),
            None => release.aliases.join(", "),
        };
        let (name, kind) = (full(release), word(release.kind));
        let line = format!("{name:width$}  {kind:9}  {:on$}  {:<4}  {notes}", release.stream, release.run);
        text += &format!("{}\n", line.trim_end());
    }
    print(&text)
}

fn show(asked: &ShowArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let release = named(&engine, &asked.release)?;
    if asked.json {
        return print_json(&object(&engine, &release)?);
    }
    let files = engine.release_files(&release)?;
    let what = match release.kind {
        Kind::Statistic => {
            let published = engine.statistic(&release)?;
            format!("{}\n{}", heading(&release, &published), table(&published.lines))
        }
        Kind::Model => text_of(&files, "README.md"),
    };
    let receipt = text_of(&files, "receipt.json");
    print(&format!("{what}\nreceipt of {}, digest {}\n{receipt}\n", full(&release), release.digest))
}

/// A file of a release as text.
pub(crate) fn text_of(files: &[(String, impl AsRef<[u8]>)], name: &str) -> String {
    let file = files.iter().find(|(file, _)| file == name);
    file.map(|(_, bytes)| String::from_utf8_lossy(bytes.as_ref()).into_owned()).unwrap_or_default()
}

/// A release with its card or table, and its receipt.
pub(crate) fn object(engine: &Engine, release: &ReleaseView) -> Result<Value, EngineError> {
    let files = engine.release_files(release)?;
    let mut object = summary(release);
    object["receipt"] = serde_json::from_str(&text_of(&files, "receipt.json")).unwrap_or(Value::Null);
    object["files"] = files.iter().map(|(name, _)| json!(name)).collect();
    match release.kind {
        Kind::Statistic => {
            let published = engine.statistic(release)?;
            object["statistic"] = statistic_object(&published, &published.lines);
        }
        Kind::Model => object["card"] = json!(text_of(&files, "README.md")),
    }
    Ok(object)
}

fn heading(release: &ReleaseView, published: &ReleasedStatistic) -> String {
    format!(
        "{}: {} on stream {}; all limits hold together with {:.2} % confidence",
        full(release),
        published.statistic,
        release.stream,
        100.0 * published.confidence
    )
}

fn table(lines: &[Line]) -> String {
    let number = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let key = |line: &Line| line.key.clone().unwrap_or_else(|| "all".to_owned());
    let width = lines.iter().map(|line| key(line).chars().count()).max().unwrap_or(3).max(3);
    let mut text = format!("{:width$}  {:>22}  {:>22}  {:>22}\n", "key", "value", "low", "high");
    for line in lines {
        let (value, low, high) = (number(line.value), number(line.low), number(line.high));
        text += &format!("{:width$}  {value:>22}  {low:>22}  {high:>22}\n", key(line));
    }
    text
}

fn statistic_object(published: &ReleasedStatistic, lines: &[Line]) -> Value {
    let line = |line: &Line| json!({"key": line.key, "value": line.value, "low": line.low, "high": line.high});
    json!({
        "statistic": published.statistic,
        "confidence": published.confidence,
        "lines": lines.iter().map(line).collect::<Vec<_>>(),
    })
}

fn get(asked: &GetArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let release = named(&engine, &asked.release)?;
    let published = engine.statistic(&release)?;
    let mut lines = published.lines.clone();
    if let Some(key) = &asked.key {
        lines.retain(|line| line.key.as_ref() == Some(key));
        if lines.is_empty() {
            let message = format!(
                "{} has no key {}; list them with: sage features get {}",
                full(&release),
                quoted(key),
                release.name
            );
            return Err(Failure::Engine { message, code: 14 });
        }
    }
    if asked.json {
        let mut object = statistic_object(&published, &lines);
        object["name"] = json!(release.name);
        object["version"] = json!(release.version);
        return print_json(&object);
    }
    print(&table(&lines))
}

fn pull(asked: &PullArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let release = named(&engine, &asked.release)?;
    let names = write(&engine, &release, &asked.folder)?;
    if asked.json {
        let (release, digest) = (full(&release), &release.digest);
        return print_json(&json!({"release": release, "digest": digest, "files": names}));
    }
    let list: String = names.iter().map(|name| format!("  {name}\n")).collect();
    print(&format!("{} in {}:\n{list}", full(&release), asked.folder.display()))
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
