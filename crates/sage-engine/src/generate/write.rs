//! Writes a made-up stream as Parquet: several files, each a contiguous piece of it.
//!
//! It never touches a folder that has something in it. Files are made side by side, and which thread makes
//! one changes nothing in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, fs, io};

use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::taxi::{CHUNK, Taxi};
use crate::threads;

/// The stream's file.
pub const TAXI: &str = include_str!("taxi.toml");
/// The default number of files is a multiple of this, whatever the number of threads, so that it can be reproduced.
const FILES_MULTIPLE: u64 = 2;
/// Rides in a file where nobody says how many files there are to be.
const IN_A_FILE: u64 = 8_000_000;
/// Rides in a row group.
const IN_A_GROUP: usize = 8 * CHUNK as usize;
/// The most files.
const MOST: u64 = 10_000;

/// Why a stream was not written.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The folder has something in it.
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// So many files are not possible.
    Files,
    /// A file or folder cannot be made or written.
    Unwritable {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEmpty { folder } => {
                write!(to, "{} is not empty, and nothing in it is overwritten; name a new folder", folder.display())
            }
            Self::Files => write!(to, "there can be from 1 to {MOST} files, each with {CHUNK} rows but for the last"),
            Self::Unwritable { path, error } => {
                write!(to, "{} cannot be written: {error}; what was written so far may be deleted", path.display())
            }
        }
    }
}

impl std::error::Error for WriteError {}

/// The file that describes the stream, for `sage stream create`. Ingesting a folder passes over such a name.
pub const STREAM_FILE: &str = "_stream.toml";

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The files, in the order of time.
    pub files: Vec<PathBuf>,
    /// Their bytes.
    pub bytes: u64,
}

/// Writes the rides to a folder that is new or empty, to so many files, or as many as are good.
///
/// # Errors
/// When the folder is not empty, the number of files is out of range, or something cannot be written.
pub fn write(taxi: &Taxi, folder: &Path, files: Option<u64>) -> Result<Written, WriteError> {
    let unwritable = |error| WriteError::Unwritable { path: folder.to_owned(), error };
    // A chunk is not divided, so there are no more files than chunks.
    let wanted = files.unwrap_or_else(|| taxi.rows().div_ceil(IN_A_FILE).next_multiple_of(FILES_MULTIPLE));
    let count = match files {
        Some(count) if count == 0 || count > MOST.min(taxi.chunks()) => return Err(WriteError::Files),
        _ => wanted.clamp(1, MOST.min(taxi.chunks())),
    };
    fs::create_dir_all(folder).map_err(unwritable)?;
    if fs::read_dir(folder).map_err(unwritable)?.next().is_some() {
        return Err(WriteError::NotEmpty { folder: folder.to_owned() });
    }
    let next = AtomicU64::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(done);
            }
            let path = folder.join(format!("taxi-{number:05}.parquet"));
            let chunks = taxi.chunks() * number / count..taxi.chunks() * (number + 1) / count;
            match write_file(taxi, chunks, &path) {
                Ok(bytes) => done.push((path, bytes)),
                Err(error) => return Err(WriteError::Unwritable { path, error }),
            }
        }
    };
    let outcomes: Vec<Result<Vec<(PathBuf, u64)>, WriteError>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads()).map(|_| scope.spawn(work)).collect();
        let failed = || WriteError::Unwritable { path: folder.to_owned(), error: io::ErrorKind::Other.into() };
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err(failed()))).collect()
    });
    let mut done = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    done.sort();
    let description = folder.join(STREAM_FILE);
    fs::write(&description, TAXI).map_err(|error| WriteError::Unwritable { path: description, error })?;
    let bytes = done.iter().map(|(_, bytes)| bytes).sum();
    Ok(Written { files: done.into_iter().map(|(path, _)| path).collect(), bytes })
}

fn write_file(taxi: &Taxi, chunks: std::ops::Range<u64>, path: &Path) -> io::Result<u64> {
    let file = File::options().write(true).create_new(true).open(path)?;
    let mut writer = ArrowWriter::try_new(file, Taxi::schema(), Some(properties()))?;
    for chunk in chunks {
        writer.write(&taxi.chunk(chunk))?;
    }
    let file = writer.into_inner()?;
    Ok(file.metadata()?.len())
}

/// What is fast to write and still small: names and small numbers as dictionaries, the rest as it is.
fn properties() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled("pickup".into(), EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(IN_A_GROUP));
    for column in ["vendor", "passengers", "payment", "rate_code", "weather", "pickup_zone", "dropoff_zone"] {
        properties = properties.set_column_dictionary_enabled(column.into(), true);
    }
    properties.build()
}
