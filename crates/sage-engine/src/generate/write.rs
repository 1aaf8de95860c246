//! Writes a synthetic stream as Parquet files, each a contiguous part of it.
//!
//! It never writes to a folder that is not empty. Files are written in parallel, and their contents do not depend on
//! the thread.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::taxi::{CHUNK, Taxi};
use crate::threads;

/// The stream file.
pub const TAXI: &str = include_str!("taxi.toml");
/// The number of files written in parallel.
const THREADS: usize = 2;
/// The default number of rides per file.
const ROWS_PER_FILE: u64 = 8_000_000;
/// Rides per row group.
const ROWS_PER_GROUP: usize = 8 * CHUNK as usize;
/// The maximum number of files.
const MAX_FILES: u64 = 10_000;

/// Why a stream was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The folder is not empty.
    #[error("{} is not empty, and nothing in it is overwritten; name a new folder", .folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// The number of files is out of range.
    #[error(
        "the number of files must be from 1 to {most}, with at least {rows} rows per file",
        most = MAX_FILES,
        rows = CHUNK
    )]
    Files,
    /// A file or folder cannot be created or written.
    #[error("{} cannot be written: {error}; files written so far may be deleted", .path.display())]
    Unwritable {
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
}

/// The name of the stream file, for `sage stream create`. Ingesting a folder skips it.
pub const STREAM_FILE: &str = "_stream.toml";

/// The written files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFiles {
    /// The files, in order of time.
    pub files: Vec<PathBuf>,
    /// Their total size.
    pub bytes: u64,
}

/// Writes the rides to a new or empty folder, as `files` files or a suitable number.
///
/// # Errors
/// When the folder is not empty, the number of files is out of range, or something cannot be written.
pub fn write(taxi: &Taxi, folder: &Path, files: Option<u64>) -> Result<WrittenFiles, WriteError> {
    let unwritable = |error| WriteError::Unwritable { path: folder.to_owned(), error };
    // A chunk is not split, so there are at most as many files as chunks.
    let wanted = files.unwrap_or_else(|| taxi.rows().div_ceil(ROWS_PER_FILE).next_multiple_of(THREADS as u64));
    let count = match files {
        Some(count) if count == 0 || count > MAX_FILES.min(taxi.chunks()) => return Err(WriteError::Files),
        _ => wanted.clamp(1, MAX_FILES.min(taxi.chunks())),
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
    Ok(WrittenFiles { files: done.into_iter().map(|(path, _)| path).collect(), bytes })
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

/// Parquet settings that are fast to write: dictionaries for names and small numbers, the rest plain.
fn properties() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled("pickup".into(), EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROWS_PER_GROUP));
    for column in ["vendor", "passengers", "payment", "rate_code", "weather", "pickup_zone", "dropoff_zone"] {
        properties = properties.set_column_dictionary_enabled(column.into(), true);
    }
    properties.build()
}
