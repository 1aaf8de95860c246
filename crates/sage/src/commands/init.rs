//! `sage init`: a new directory with two files to edit.
//!
//! From a file of the user, only the names and types of columns are taken. Bounds and categories are left open on
//! purpose: they must be known without reading rows, because a bound computed from rows leaks information about them.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use sage_engine::ingest::{ColumnOutline, ColumnType, read_outline};
use sage_engine::{Engine, EngineOptions, Opened};
use sage_server::format::quoted;

use crate::directory::UserArgs;
use crate::failure::Failure;
use crate::output::print;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage init
  sage init --from rides.csv
  sage init city --from rides.parquet --name rides --as ada

From a file the names of columns are taken, and their types if it has types; no row is read. You fill in bounds and
categories yourself: they must be known without looking at rows, because a bound computed from rows leaks information
about them that is not charged.";

#[derive(Args, Debug)]
pub(crate) struct InitArgs {
    /// The directory to create
    #[arg(value_name = "DIRECTORY", env = "SAGE_DIR", default_value = DEFAULT)]
    directory: PathBuf,
    /// A CSV file with a header or a Parquet file; the stream gets its columns
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The stream's name [default: that of the file, or "rides"]
    #[arg(long = "name", value_name = "NAME")]
    called: Option<String>,
    #[command(flatten)]
    user: UserArgs,
}

const DEFAULT: &str = "sage-data";
const STREAM: &str = "stream.toml";
const PIPELINE: &str = "pipeline.toml";
/// The placeholder for values that only the user knows.
const OPEN: &str = "\"?\"";

pub(crate) fn run(args: &InitArgs) -> Result<(), Failure> {
    let directory = &args.directory;
    for taken in ["log.db", STREAM, PIPELINE] {
        if directory.join(taken).exists() {
            let message = format!("{} has a {taken} already, and nothing is overwritten", directory.display());
            return Err(Failure::no_answer(message, "name a new directory: sage init DIRECTORY"));
        }
    }
    let who = args.user.principal()?;
    let name = args.stream_name()?;
    let columns = match &args.from {
        None => sample(),
        Some(file) => {
            read_outline(file).map_err(|error| unread(&error.to_string()))?.iter().map(Proposal::of).collect()
        }
    };
    let stream = stream_file(&name, who.name(), &columns);
    // Opening creates a missing directory.
    match Engine::open(directory, &EngineOptions::default())? {
        Opened::Ready(engine) => engine.close()?,
        Opened::Fenced(_) => return Err(Failure::no_answer("the new directory has a past", "name another")),
    }
    write(&directory.join(STREAM), &stream)?;
    write(&directory.join(PIPELINE), &pipeline_file(&name, &columns))?;
    print(&args.next(&name, stream.matches(OPEN).count()))
}

impl InitArgs {
    /// A name that a stream can have.
    fn stream_name(&self) -> Result<String, Failure> {
        let fits = |name: &str| {
            name.len() <= 64
                && name.starts_with(|sign: char| sign.is_ascii_lowercase())
                && name.chars().all(|sign| sign.is_ascii_lowercase() || sign.is_ascii_digit() || "-_".contains(sign))
        };
        if let Some(name) = &self.called {
            let message = format!("--name: a stream cannot be called {}", quoted(name));
            let help = "1 to 64 small letters, digits, - and _, starting with a letter";
            return if fits(name) { Ok(name.clone()) } else { Err(Failure::usage(message, help)) };
        }
        let stem =
            self.from.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().to_ascii_lowercase());
        Ok(stem.filter(|stem| fits(stem)).unwrap_or_else(|| "rides".to_owned()))
    }

    /// What to do now.
    fn next(&self, name: &str, open: usize) -> String {
        let folder = self.directory.display();
        let usual = std::env::var_os("SAGE_DIR").unwrap_or_else(|| DEFAULT.into());
        let mut more = String::new();
        if self.directory.as_os_str() != usual {
            more += &format!(" --dir {folder}");
        }
        let known = std::env::var("SAGE_PRINCIPAL").ok();
        if let Some(who) = self.user.name.as_ref().filter(|who| known.as_ref() != Some(*who)) {
            more += &format!(" --as {who}");
        }
        let rows = self.from.as_ref().map_or_else(|| "FILE".to_owned(), |file| file.display().to_string());
        let edit = match open {
            0 => format!("{folder}/{STREAM} is a sample: give it your columns, their bounds and a policy"),
            1 => format!("one value in {folder}/{STREAM} is marked {OPEN}: state what is publicly known"),
            open => format!("{open} values in {folder}/{STREAM} are marked {OPEN}: state what is publicly known"),
        };
        format!(
            "made {folder} with {STREAM} and {PIPELINE}\n{edit}. Then:\n  sage stream create {folder}/{STREAM}{more}\n  \
             sage ingest {name} {rows}{more}\n  sage blocks {name} --do seal --before TIME{more}\nand then: sage submit \
             {folder}/{PIPELINE} --wait{more}\n"
        )
    }
}

/// A column as it is proposed.
struct Proposal {
    name: String,
    kind: &'static str,
    /// Keys and what stands behind them.
    keys: Vec<(&'static str, String)>,
    says: &'static str,
}

impl Proposal {
    fn of(column: &ColumnOutline) -> Self {
        let open = |keys: &[&'static str]| keys.iter().map(|key| (*key, OPEN.to_owned())).collect();
        let (kind, keys, says) = match column.kind {
            Some(ColumnType::Number) => ("number", open(&["min", "max"]), "what is outside becomes the nearest bound"),
            Some(ColumnType::Integer) => {
                ("integer", open(&["min", "max"]), "what is outside becomes the nearest bound")
            }
            Some(ColumnType::Boolean) => ("boolean", Vec::new(), ""),
            Some(ColumnType::Time) => ("time", Vec::new(), ""),
            Some(ColumnType::Text) => {
                ("category", vec![("categories", format!("[{OPEN}]"))], "or type = \"hashed\" if nobody can list them")
            }
            None if sounds_like_a_time(&column.name) => ("time", Vec::new(), "by its name; a CSV has no types"),
            None => (
                "?",
                Vec::new(),
                "number, integer (both: min, max), category (categories), boolean, time, hashed or text",
            ),
        };
        Self { name: column.name.clone(), kind, keys, says }
    }

    fn text(&self) -> String {
        let says = if self.says.is_empty() { String::new() } else { format!("    # {}", self.says) };
        let mut text = format!("\n[[columns]]\nname = {}\ntype = \"{}\"{says}\n", toml_text(&self.name), self.kind);
        for (key, value) in &self.keys {
            text += &format!("{key} = {value}\n");
        }
        text
    }
}

/// The columns of a stream that is only there to be changed.
fn sample() -> Vec<Proposal> {
    let column = |name: &str, kind, keys: &[(&'static str, &str)], says| Proposal {
        name: name.to_owned(),
        kind,
        keys: keys.iter().map(|(key, value)| (*key, (*value).to_owned())).collect(),
        says,
    };
    vec![
        column("at", "time", &[], ""),
        column("distance", "number", &[("min", "0.0"), ("max", "100.0")], "what is outside becomes the nearest bound"),
        column("minutes", "number", &[("min", "0.0"), ("max", "180.0")], ""),
        column("payment", "category", &[("categories", "[\"card\", \"cash\"]")], "rows with another are left out"),
    ]
}

fn sounds_like_a_time(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let parts: Vec<&str> = name.split(['_', '-', ' ']).collect();
    parts.iter().any(|part| ["at", "time", "timestamp", "date", "datetime", "pickup"].contains(part))
}

/// A text in quotes, as TOML has it.
fn toml_text(text: &str) -> String {
    let mut out = String::from("\"");
    for sign in text.chars() {
        match sign {
            '"' | '\\' => out.extend(['\\', sign]),
            sign if sign.is_control() => out += &format!("\\u{:04X}", u32::from(sign)),
            sign => out.push(sign),
        }
    }
    out + "\""
}

fn stream_file(name: &str, who: &str, columns: &[Proposal]) -> String {
    let times: Vec<&Proposal> = columns.iter().filter(|column| column.kind == "time").collect();
    let time = match times.as_slice() {
        [only] => toml_text(&only.name),
        _ => OPEN.to_owned(),
    };
    let (who, columns): (String, String) = (toml_text(who), columns.iter().map(Proposal::text).collect());
    format!(
        "# A stream: what a row is, how rows fall into blocks, how much may be lost, who may do what.\n\
         # All of it is public and decided before the first row comes in. Every key: docs/reference/stream-file.md\n\
         \n[stream]\nname = \"{name}\"\n\
         unit = \"event\"              # one row is hidden; \"user\" hides all rows of a person\n\
         time = {time}                # the column that says when a row happened\n\
         blocks = {{ time = \"1d\" }}    # a block for each day: budgets are spent and retired by blocks\n\
         late = \"quarantine\"         # rows of a day that is sealed already are set aside\n\
         test_share = 0.1            # one row in ten is kept for testing models\n\
         \n[policy]\n# What everything ever released from a block may lose together. One officer can lower it later, and\n\
         # only two together can raise it.\n\
         epsilon = \"1.0\"\ndelta = \"1e-6\"\nfilter = \"renyi\"\naccess_modes = [\"enforced\"]\n\
         \n[access]\n# Best are different people; one name is enough to begin.\n\
         privacy-officer = [{who}]\ndata-engineer = [{who}]\nml-engineer = [{who}]\n\
         \n# Columns. Bounds and categories are what everybody knows beforehand (a day has 24 hours, a ride in this city\n\
         # is shorter than 100 miles), never values taken from the rows: the largest value of a column is the value\n\
         # of one person's row. Columns that are not listed here are not stored.\n{columns}"
    )
}

/// A pipeline that works on any stream, and the beginning of a model.
fn pipeline_file(name: &str, columns: &[Proposal]) -> String {
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    format!(
        "# A pipeline: what is computed from which blocks, when it is good enough, and what it may spend.\n\
         # Every key: docs/reference/pipeline-file.md\n\
         \n[pipeline]\nname = \"{name}-count\"\nstream = \"{name}\"\nwindow = {{ min = 1 }}       # the newest block; more \
         follow if that is not enough\n\
         \n[train]\nkind = \"statistic\"\nstatistic = \"count\"\n\
         \n# A model instead, from the columns {}:\n\
         #\n# [pipeline]\n# name = \"{name}-model\"\n# stream = \"{name}\"\n\
         # label = \"...\"              # the column to predict, with the bounds that the stream declares\n\
         # window = {{ min = \"7d\" }}\n# features = [\n#   {{ column = \"...\", scale = [0, 100] }},\n\
         #   {{ column = \"...\", onehot = [\"...\", \"...\"] }},\n# ]\n\
         # [train]\n# kind = \"ridge\"\n# [validate]\n# metric = \"mse\"\n# target = 0.02             # released only if its \
         error is at most this\n# bound = 0.25\n",
        names.join(", ").replace(char::is_control, " ")
    )
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let made = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    made.map_err(|error| Failure::no_answer(format!("{} cannot be written: {error}", path.display()), "name another"))
}

fn unread(message: &str) -> Failure {
    // No batch was ingested here, so this part of the message would be confusing.
    let message = message.trim_end_matches(" (nothing of the batch was kept)");
    Failure::no_answer(format!("--from: {message}"), "give a CSV with a header or a Parquet file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sage_engine::pipeline::Pipeline;
    use sage_engine::stream::StreamFile;

    #[test]
    fn the_sample_is_a_stream_and_a_pipeline_as_it_stands() {
        let columns = sample();
        let stream = StreamFile::parse(&stream_file("rides", "ada", &columns)).expect("a stream's file");
        assert_eq!(stream.columns.len(), columns.len());
        Pipeline::parse(&pipeline_file("rides", &columns)).expect("a pipeline's file");
    }

    #[test]
    fn what_only_the_user_knows_is_left_open_and_refused_until_it_is_stated() {
        let outlined = |name: &str, kind| ColumnOutline { name: name.to_owned(), kind };
        let columns: Vec<Proposal> = [
            outlined("at", Some(ColumnType::Time)),
            outlined("far \"away\"", Some(ColumnType::Number)),
            outlined("paid", Some(ColumnType::Text)),
            outlined("rain", Some(ColumnType::Boolean)),
        ]
        .iter()
        .map(Proposal::of)
        .collect();
        let text = stream_file("rides", "ada", &columns);
        assert_eq!(text.matches(OPEN).count(), 3, "{text}");
        let refused = StreamFile::parse(&text).expect_err("bounds are missing").to_string();
        assert!(refused.contains("min") && refused.contains("known without looking at rows"), "{refused}");
        let stated = text.replace("= \"?\"", "= 5").replace("[\"?\"]", "[\"card\"]");
        StreamFile::parse(&stated).expect("a stream's file");
        // A CSV has no types.
        let open = Proposal::of(&outlined("speed", None)).text();
        assert!(open.contains("type = \"?\""), "{open}");
        assert!(Proposal::of(&outlined("picked_up_at", None)).text().contains("type = \"time\""));
        assert!(!sounds_like_a_time("rate"), "a word within another is no time");
    }
}
