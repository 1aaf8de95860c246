//! Where rows come from: files of four formats, folders of them, or a pipe.
//!
//! A source gives batches of the declared columns, in the declared order, and holds a bounded amount of memory
//! however large it is. Bytes from outside are hostile: a decoder that panics has met a malformed file.

mod csv;
mod ipc;
mod lines;
mod ndjson;
mod outline;
mod pages;
mod parquet;
mod spool;
mod thrift;

use std::fs::{self, File};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow::array::ArrayRef;

pub use outline::{Outlined, Typed, outline};

use super::error::IngestError;
use crate::stream::StreamFile;

pub(super) use spool::Spool;

/// A format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Parquet.
    Parquet,
    /// Comma-separated values with a header; semicolons and tabs are recognised.
    Csv,
    /// A JSON object on each line.
    Ndjson,
    /// Arrow IPC, as a file or a stream.
    Arrow,
}

/// Where the rows of a batch come from.
pub enum Source {
    /// A file, or a folder whose files are taken in the order of their names.
    Path {
        /// Which.
        path: PathBuf,
        /// Its format; without it the name decides, and then the first bytes.
        format: Option<Format>,
    },
    /// Anything that can be read once, such as standard input.
    Pipe {
        /// What it is called in messages.
        name: String,
        /// The bytes.
        bytes: Box<dyn Read + Send>,
        /// Their format; without it the first bytes decide.
        format: Option<Format>,
    },
}

impl Source {
    /// A file or a folder, of a format that its name or its first bytes tell.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self::Path { path: path.into(), format: None }
    }
}

/// About how many bytes of rows are decoded at once, and how many rows at most.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_ROWS: usize = 1 << 16;

/// The declared columns of some rows, in the declared order, in the types in which they were found.
pub(super) struct Found {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
    pub(super) typing: Typing,
}

/// Whether the format has types of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typing {
    /// Columns have the types that their writer gave them.
    Typed,
    /// Everything is text and is read as what was declared.
    Text,
}

/// One file being decoded.
trait Decoder {
    fn next(&mut self) -> Result<Option<Found>, IngestError>;
}

/// The batches of a source, file after file.
pub(super) struct Batches {
    names: Vec<String>,
    spool: Spool,
    waiting: std::vec::IntoIter<Input>,
    current: Option<(String, Box<dyn Decoder>)>,
    /// The file that was taken up last, for messages.
    pub(super) file: String,
}

enum Input {
    File(PathBuf, Option<Format>),
    Pipe(String, Box<dyn Read + Send>, Option<Format>),
}

impl Batches {
    pub(super) fn open(source: Source, stream: &StreamFile, spool: Spool) -> Result<Self, IngestError> {
        let waiting = match source {
            Source::Pipe { name, bytes, format } => vec![Input::Pipe(name, bytes, format)],
            Source::Path { path, format } if path.is_dir() => {
                let mut files = Vec::new();
                files_below(&path, format, &mut files)?;
                if files.is_empty() {
                    return Err(IngestError::Empty { file: path.display().to_string() });
                }
                files
            }
            Source::Path { path, format } => vec![Input::File(path, format)],
        };
        let names = stream.columns.iter().map(|column| column.name.clone()).collect();
        Ok(Self { names, spool, waiting: waiting.into_iter(), current: None, file: String::new() })
    }

    pub(super) fn next(&mut self, stream: &StreamFile) -> Result<Option<Found>, IngestError> {
        loop {
            if let Some((file, decoder)) = &mut self.current {
                let found = guarded(file, || decoder.next())?;
                if found.is_some() {
                    return Ok(found);
                }
                self.current = None;
            }
            let Some(input) = self.waiting.next() else { return Ok(None) };
            let (file, bytes, format) = opened(input)?;
            self.file.clone_from(&file);
            // Parquet is read from its end, which a pipe does not show before it is over.
            let bytes = match (format, bytes) {
                (Format::Parquet, Opened::Pipe(bytes)) => Opened::File(self.spool.take(&file, bytes)?),
                (_, bytes) => bytes,
            };
            let decoder = guarded(&file, || decoder(&file, bytes, format, &self.names, stream))?;
            self.current = Some((file, decoder));
        }
    }
}

/// The texts of named columns of a CSV, in batches: for rows that go into no stream.
pub struct CsvTexts(csv::Rows);

/// What a CSV without a name is called in messages.
const ROWS: &str = "the rows";

impl CsvTexts {
    /// Reads the header.
    pub fn open(bytes: Box<dyn Read + Send>, names: &[String]) -> Result<Self, IngestError> {
        guarded(ROWS, || csv::Rows::open(ROWS, bytes, names)).map(Self)
    }

    /// The next rows, a column after the other, each as texts; nothing at the end.
    pub fn next_batch(&mut self) -> Result<Option<Vec<ArrayRef>>, IngestError> {
        Ok(guarded(ROWS, || self.0.next())?.map(|found| found.columns))
    }
}

/// A decoder that panics has met bytes it was not made for.
fn guarded<T>(file: &str, work: impl FnOnce() -> Result<T, IngestError>) -> Result<T, IngestError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let reason = "the file is damaged: its decoder could not go on";
        Err(IngestError::Malformed { file: file.to_owned(), line: None, reason })
    })
}

fn format_of_name(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "parquet" | "parq" | "pq" => Some(Format::Parquet),
        "csv" | "tsv" => Some(Format::Csv),
        "ndjson" | "jsonl" | "json" => Some(Format::Ndjson),
        "arrow" | "arrows" | "ipc" | "feather" => Some(Format::Arrow),
        _ => None,
    }
}

/// What the first bytes look like.
fn format_of_bytes(start: &[u8]) -> Option<Format> {
    let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
    let text = start.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\t' | b'\r' | b'\n'));
    match start.trim_ascii_start() {
        [b'P', b'A', b'R', b'1', ..] => Some(Format::Parquet),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xFF, 0xFF, 0xFF, 0xFF, ..] => Some(Format::Arrow),
        [b'{', ..] => Some(Format::Ndjson),
        _ => text.then_some(Format::Csv),
    }
}

/// Files of known formats, in the order of their paths. Names that start with `.` or `_` are marks of other
/// programs, as everywhere.
fn files_below(folder: &Path, format: Option<Format>, files: &mut Vec<Input>) -> Result<(), IngestError> {
    let failed = |error: std::io::Error| IngestError::Unreadable {
        file: folder.display().to_string(),
        reason: error.kind().to_string(),
    };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort_unstable();
    for path in entries {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(['.', '_']) {
            continue;
        }
        if path.is_dir() {
            files_below(&path, format, files)?;
        } else if let Some(format) = format_of_name(&path).filter(|found| format.is_none_or(|asked| asked == *found)) {
            files.push(Input::File(path, Some(format)));
        }
    }
    Ok(())
}

/// The bytes of an input, from its beginning.
enum Opened {
    File(File),
    Pipe(Box<dyn Read + Send>),
}

impl Opened {
    fn read(self) -> Box<dyn Read + Send> {
        match self {
            Self::File(file) => Box::new(file),
            Self::Pipe(bytes) => bytes,
        }
    }
}

fn unreadable(file: &str, error: &std::io::Error) -> IngestError {
    IngestError::Unreadable { file: file.to_owned(), reason: error.kind().to_string() }
}

/// Reads the first bytes of an input without losing them.
fn start_of(bytes: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    bytes.take(16).read_to_end(&mut start)?;
    Ok(start)
}

fn opened(input: Input) -> Result<(String, Opened, Format), IngestError> {
    let (file, opened, start, format) = match input {
        Input::File(path, format) => {
            let file = path.display().to_string();
            let failed = |error: &std::io::Error| unreadable(&file, error);
            let mut bytes = File::open(&path).map_err(|error| failed(&error))?;
            if bytes.metadata().map_err(|error| failed(&error))?.is_file() {
                let start = start_of(&mut bytes).map_err(|error| failed(&error))?;
                let again = File::open(&path).map_err(|error| failed(&error))?;
                let format = format.or_else(|| format_of_name(&path));
                (file, Opened::File(again), start, format)
            } else {
                return self::opened(Input::Pipe(file, Box::new(bytes), format));
            }
        }
        Input::Pipe(file, mut bytes, format) => {
            let start = start_of(&mut bytes).map_err(|error| unreadable(&file, &error))?;
            let whole = std::io::Cursor::new(start.clone()).chain(bytes);
            (file, Opened::Pipe(Box::new(whole)), start, format)
        }
    };
    if start.is_empty() {
        return Err(IngestError::Empty { file });
    }
    match format.or_else(|| format_of_bytes(&start)) {
        Some(format) => Ok((file, opened, format)),
        None => Err(IngestError::Format { file }),
    }
}

fn decoder(
    file: &str, bytes: Opened, format: Format, names: &[String], stream: &StreamFile,
) -> Result<Box<dyn Decoder>, IngestError> {
    Ok(match (format, bytes) {
        (Format::Parquet, Opened::File(bytes)) => Box::new(parquet::Rows::open(file, bytes, stream)?),
        (Format::Parquet, Opened::Pipe(_)) => return Err(IngestError::Format { file: file.to_owned() }),
        (Format::Csv, bytes) => Box::new(csv::Rows::open(file, bytes.read(), names)?),
        (Format::Ndjson, bytes) => Box::new(ndjson::Rows::open(file, bytes.read(), names)?),
        (Format::Arrow, bytes) => Box::new(ipc::Rows::open(file, bytes.read(), names)?),
    })
}

/// The place of each declared column among those that are there.
fn places(file: &str, names: &[String], there: &[&str]) -> Result<Vec<usize>, IngestError> {
    let index: std::collections::BTreeMap<&str, usize> =
        there.iter().enumerate().rev().map(|(place, name)| (*name, place)).collect();
    let mut missing = Vec::new();
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        match index.get(name.as_str()) {
            Some(place) => places.push(*place),
            None => missing.push(name.clone()),
        }
    }
    if missing.is_empty() { Ok(places) } else { Err(IngestError::Missing { file: file.to_owned(), columns: missing }) }
}
