//! Sources of rows: files in four formats, folders of such files, or a pipe.
//!
//! A source yields batches of the declared columns in the declared order, and uses bounded memory however large it is.
//! Its bytes are untrusted. If a decoder panics, the file is reported as malformed.

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

pub use outline::{ColumnOutline, ColumnType, read_outline};

use super::error::IngestError;
use crate::stream::StreamFile;

pub(super) use spool::Spool;

/// A format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Parquet.
    Parquet,
    /// Comma-separated values with a header. Semicolons and tabs are recognised as delimiters.
    Csv,
    /// A JSON object on each line.
    Ndjson,
    /// Arrow IPC, as a file or a stream.
    Arrow,
}

/// Where the rows of a batch come from.
pub enum Source {
    /// A file, or a folder whose files are read in the order of their paths.
    Path {
        /// The path.
        path: PathBuf,
        /// The format. Without it, the file's extension decides, then its first bytes.
        format: Option<Format>,
    },
    /// A reader that can be read once, such as standard input.
    Pipe {
        /// Its name in messages.
        name: String,
        /// The reader.
        bytes: Box<dyn Read + Send>,
        /// The format. Without it, the first bytes decide.
        format: Option<Format>,
    },
}

impl Source {
    /// A file or a folder whose format is detected.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self::Path { path: path.into(), format: None }
    }
}

/// About the most bytes of a decoded batch, and the most rows.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_ROWS: usize = 1 << 16;

/// A batch of rows as decoded: the declared columns in the declared order, with their types in the file.
pub(super) struct RawBatch {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
    pub(super) typing: Typing,
}

/// Whether the format has types of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typing {
    /// Columns have the types that their writer gave them.
    Typed,
    /// Every value is text and is parsed as the declared type.
    Text,
}

/// The decoder of one file.
trait Decoder {
    /// Decodes the next batch, or returns `None` at the end of the file.
    fn next(&mut self) -> Result<Option<RawBatch>, IngestError>;
}

/// The batches of a source, file after file.
pub(super) struct Batches {
    names: Vec<String>,
    spool: Spool,
    inputs: std::vec::IntoIter<Input>,
    current: Option<(String, Box<dyn Decoder>)>,
    /// The file that was opened last, for messages.
    pub(super) file: String,
}

enum Input {
    File(PathBuf, Option<Format>),
    Pipe(String, Box<dyn Read + Send>, Option<Format>),
}

impl Batches {
    pub(super) fn open(source: Source, stream: &StreamFile, spool: Spool) -> Result<Self, IngestError> {
        let inputs = match source {
            Source::Pipe { name, bytes, format } => vec![Input::Pipe(name, bytes, format)],
            Source::Path { path, format } if path.is_dir() => {
                let mut files = Vec::new();
                list_files(&path, format, &mut files)?;
                if files.is_empty() {
                    return Err(IngestError::Empty { file: path.display().to_string() });
                }
                files
            }
            Source::Path { path, format } => vec![Input::File(path, format)],
        };
        let names = stream.columns.iter().map(|column| column.name.clone()).collect();
        Ok(Self { names, spool, inputs: inputs.into_iter(), current: None, file: String::new() })
    }

    /// The next batch, or `None` after the last file.
    pub(super) fn next(&mut self, stream: &StreamFile) -> Result<Option<RawBatch>, IngestError> {
        loop {
            if let Some((file, decoder)) = &mut self.current {
                let batch = catch_panics(file, || decoder.next())?;
                if batch.is_some() {
                    return Ok(batch);
                }
                self.current = None;
            }
            let Some(input) = self.inputs.next() else { return Ok(None) };
            let (file, bytes, format) = open_input(input)?;
            self.file.clone_from(&file);
            // Parquet is read from its end, so a pipe is spooled to a file.
            let bytes = match (format, bytes) {
                (Format::Parquet, OpenInput::Pipe(bytes)) => OpenInput::File(self.spool.store(&file, bytes)?),
                (_, bytes) => bytes,
            };
            let decoder = catch_panics(&file, || open_decoder(&file, bytes, format, &self.names, stream))?;
            self.current = Some((file, decoder));
        }
    }
}

/// A reader of named columns of a CSV as text, in batches, for rows that are not ingested.
pub struct CsvTexts(csv::Rows);

/// The name of such a CSV in messages.
const ROWS: &str = "the rows";

impl CsvTexts {
    /// Reads the header.
    pub fn open(bytes: Box<dyn Read + Send>, names: &[String]) -> Result<Self, IngestError> {
        catch_panics(ROWS, || csv::Rows::open(ROWS, bytes, names)).map(Self)
    }

    /// The columns of the next rows, or `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<Vec<ArrayRef>>, IngestError> {
        Ok(catch_panics(ROWS, || self.0.next())?.map(|batch| batch.columns))
    }
}

/// Runs a decoder and turns a panic into an error: a decoder panics on bytes that it does not expect.
fn catch_panics<T>(file: &str, work: impl FnOnce() -> Result<T, IngestError>) -> Result<T, IngestError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let reason = "the file is damaged and cannot be decoded";
        Err(IngestError::Malformed { file: file.to_owned(), line: None, reason })
    })
}

/// The format by the file's extension.
fn detect_by_extension(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "parquet" | "parq" | "pq" => Some(Format::Parquet),
        "csv" | "tsv" => Some(Format::Csv),
        "ndjson" | "jsonl" | "json" => Some(Format::Ndjson),
        "arrow" | "arrows" | "ipc" | "feather" => Some(Format::Arrow),
        _ => None,
    }
}

/// The format by the first bytes.
fn detect_by_content(start: &[u8]) -> Option<Format> {
    let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
    let text = start.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\t' | b'\r' | b'\n'));
    match start.trim_ascii_start() {
        [b'P', b'A', b'R', b'1', ..] => Some(Format::Parquet),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xFF, 0xFF, 0xFF, 0xFF, ..] => Some(Format::Arrow),
        [b'{', ..] => Some(Format::Ndjson),
        _ => text.then_some(Format::Csv),
    }
}

/// Lists the files of known formats below a folder, sorted by path. Names that start with `.` or `_` are skipped: by
/// convention they are metadata of other programs.
fn list_files(folder: &Path, format: Option<Format>, files: &mut Vec<Input>) -> Result<(), IngestError> {
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
            list_files(&path, format, files)?;
        } else if let Some(found) = detect_by_extension(&path).filter(|&found| format.is_none_or(|only| only == found))
        {
            files.push(Input::File(path, Some(found)));
        }
    }
    Ok(())
}

/// An open input, positioned at its beginning.
enum OpenInput {
    File(File),
    Pipe(Box<dyn Read + Send>),
}

impl OpenInput {
    fn into_reader(self) -> Box<dyn Read + Send> {
        match self {
            Self::File(file) => Box::new(file),
            Self::Pipe(bytes) => bytes,
        }
    }
}

fn unreadable(file: &str, error: &std::io::Error) -> IngestError {
    IngestError::Unreadable { file: file.to_owned(), reason: error.kind().to_string() }
}

/// Reads the first bytes of an input.
fn read_start(bytes: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    bytes.take(16).read_to_end(&mut start)?;
    Ok(start)
}

/// Opens an input and detects its format. Returns its name for messages, the open input and the format.
fn open_input(input: Input) -> Result<(String, OpenInput, Format), IngestError> {
    let (file, opened, start, format) = match input {
        Input::File(path, format) => {
            let file = path.display().to_string();
            let failed = |error: &std::io::Error| unreadable(&file, error);
            let mut bytes = File::open(&path).map_err(|error| failed(&error))?;
            if bytes.metadata().map_err(|error| failed(&error))?.is_file() {
                let start = read_start(&mut bytes).map_err(|error| failed(&error))?;
                let again = File::open(&path).map_err(|error| failed(&error))?;
                let format = format.or_else(|| detect_by_extension(&path));
                (file, OpenInput::File(again), start, format)
            } else {
                return open_input(Input::Pipe(file, Box::new(bytes), format));
            }
        }
        Input::Pipe(file, mut bytes, format) => {
            let start = read_start(&mut bytes).map_err(|error| unreadable(&file, &error))?;
            let whole = std::io::Cursor::new(start.clone()).chain(bytes);
            (file, OpenInput::Pipe(Box::new(whole)), start, format)
        }
    };
    if start.is_empty() {
        return Err(IngestError::Empty { file });
    }
    match format.or_else(|| detect_by_content(&start)) {
        Some(format) => Ok((file, opened, format)),
        None => Err(IngestError::Format { file }),
    }
}

fn open_decoder(
    file: &str, bytes: OpenInput, format: Format, names: &[String], stream: &StreamFile,
) -> Result<Box<dyn Decoder>, IngestError> {
    Ok(match (format, bytes) {
        (Format::Parquet, OpenInput::File(bytes)) => Box::new(parquet::Rows::open(file, bytes, stream)?),
        (Format::Parquet, OpenInput::Pipe(_)) => return Err(IngestError::Format { file: file.to_owned() }),
        (Format::Csv, bytes) => Box::new(csv::Rows::open(file, bytes.into_reader(), names)?),
        (Format::Ndjson, bytes) => Box::new(ndjson::Rows::open(file, bytes.into_reader(), names)?),
        (Format::Arrow, bytes) => Box::new(ipc::Rows::open(file, bytes.into_reader(), names)?),
    })
}

/// The index of each declared column among the columns of a file.
fn column_indices(file: &str, names: &[String], present: &[&str]) -> Result<Vec<usize>, IngestError> {
    let by_name: std::collections::BTreeMap<&str, usize> =
        present.iter().enumerate().rev().map(|(index, name)| (*name, index)).collect();
    let mut missing = Vec::new();
    let mut indices = Vec::with_capacity(names.len());
    for name in names {
        match by_name.get(name.as_str()) {
            Some(index) => indices.push(*index),
            None => missing.push(name.clone()),
        }
    }
    if missing.is_empty() { Ok(indices) } else { Err(IngestError::Missing { file: file.to_owned(), columns: missing }) }
}
