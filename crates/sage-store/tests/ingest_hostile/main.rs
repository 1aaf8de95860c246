//! Parquet files that claim to be much larger than they are: each is refused, or ingested with bounded memory.
//!
//! The only test of its program, because it measures the peak memory of the process.

mod craft;

use std::io::Write;

use craft::{BY_DICTIONARY, Column, PLAIN, Structure, dictionary, file, page, plain_text, with_footer, zero_indices};
use sage_kernel::noise::SecureNoise;
use sage_store::blocks::BlockStore;
use sage_store::ingest::{Batch, IngestError, IngestedBatch, LaneSource, Source, ingest};
use sage_store::stream::StreamFile;

const STREAM: &str = r#"
[stream]
name = "small"
unit = "event"
time = "at"
blocks = { time = "1d" }
[policy]
epsilon = 1
delta = "1e-6"
[[columns]]
name = "at"
type = "time"
[[columns]]
name = "value"
type = "number"
min = 0
max = 1
[[columns]]
name = "word"
type = "text"
longest = 100_000
"#;

const MEBIBYTE: usize = 1 << 20;

/// The limit of peak memory for hostile files, and for files that also fill the buffer of rows.
const BOUND: usize = 512 * MEBIBYTE;
const BOUND_WITH_ROWS: usize = 640 * MEBIBYTE;

const UNPACKED: i32 = 0;
const SNAPPY: i32 = 1;
const GZIP: i32 = 2;
const BROTLI: i32 = 4;
const LZ4: i32 = 5;
const ZSTANDARD: i32 = 6;

fn column(name: &'static str, physical: i32, logical: Option<i32>, pages: Vec<u8>, values: i64) -> Column {
    Column { name, physical, logical, width: 0, codec: UNPACKED, pages, values }
}

/// The three columns, with equal rows.
fn columns(rows: i32, word: &str) -> [Column; 3] {
    let indices = zero_indices(rows as u64);
    let pages =
        |value: &[u8]| [dictionary(1, value.len(), value), page(rows, BY_DICTIONARY, indices.len(), &indices)].concat();
    let count = i64::from(rows);
    [
        column("at", 2, Some(10), pages(&1_800_000_000_000_000_i64.to_le_bytes()), count),
        column("value", 5, None, pages(&0.5_f64.to_le_bytes()), count),
        column("word", 6, Some(0), pages(&plain_text(word)), count),
    ]
}

/// The file with another column `word`.
fn with_word(codec: i32, pages: Vec<u8>) -> Vec<u8> {
    let mut columns = columns(2, "x");
    columns[2].codec = codec;
    columns[2].pages = pages;
    file(&columns, 2)
}

/// Writes zeros to a compressor.
fn write_zeros(count: usize, compressor: &mut dyn Write) {
    for _ in 0..count / MEBIBYTE {
        compressor.write_all(&[0; MEBIBYTE]).expect("memory");
    }
}

fn gzip(count: usize) -> Vec<u8> {
    let mut compressor = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    write_zeros(count, &mut compressor);
    compressor.finish().expect("memory")
}

fn brotli(count: usize) -> Vec<u8> {
    let mut compressor = brotli::CompressorWriter::new(Vec::new(), MEBIBYTE, 1, 22);
    write_zeros(count, &mut compressor);
    compressor.into_inner()
}

fn lz4(count: usize) -> Vec<u8> {
    let mut compressor = lz4_flex::frame::FrameEncoder::new(Vec::new());
    write_zeros(count, &mut compressor);
    compressor.finish().expect("memory")
}

/// A schema of nested groups.
fn nested(depth: usize) -> Vec<u8> {
    let element = Structure::default().number(3, 0).text(4, "a", 1).number(5, 1).end();
    let leaf = Structure::default().number(1, 2).number(3, 0).text(4, "at", 2).end();
    let elements = [vec![element; depth], vec![leaf]].concat();
    with_footer(b"PAR1".to_vec(), &craft::footer(&elements, 1, 0).list(4, 12, &[], 0))
}

/// A footer that claims a number of row groups.
fn groups(present: usize, claimed: u64) -> Vec<u8> {
    let leaf = Structure::default().number(1, 2).number(3, 0).text(4, "at", 2).end();
    let group = Structure::default().list(1, 12, &[], 0).long(2, 0).long(3, 0).end();
    with_footer(b"PAR1".to_vec(), &craft::footer(&[leaf], 1, 0).list(4, 12, &vec![group; present], claimed))
}

/// A header whose statistics claim two gigabytes.
fn long_header() -> Vec<u8> {
    let statistics = Structure::default().text(1, "x", (1 << 31) - 1);
    let data = Structure::default().number(1, 2).number(2, PLAIN).number(3, 3).number(4, 3).structure(5, &statistics);
    Structure::default().number(1, 0).number(2, 10).number(3, 10).structure(5, &data).end()
}

fn crowded() -> Vec<u8> {
    let mut columns = columns(2, "x");
    for column in &mut columns {
        column.codec = ZSTANDARD;
        column.pages = page(2, PLAIN, 120 * MEBIBYTE, &[0; 9]);
    }
    file(&columns, 2)
}

fn wide_value() -> Vec<u8> {
    let mut columns = columns(2, "x");
    columns[1].physical = 7;
    columns[1].width = 1 << 30;
    file(&columns, 2)
}

/// Name, bytes and expected error of each hostile file.
fn bombs() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let texts = plain_text("x").repeat(2);
    let huge = i32::MAX as usize;
    let large = 600 * MEBIBYTE;
    vec![
        ("a page of two gigabytes", with_word(ZSTANDARD, page(2, PLAIN, huge, &texts)), "128 MiB"),
        ("the same with another codec", with_word(SNAPPY, page(2, PLAIN, huge, &texts)), "128 MiB"),
        ("a dictionary of 40 MiB", with_word(ZSTANDARD, dictionary(9, 40 * MEBIBYTE, &texts)), "32 MiB"),
        ("more gzip than claimed", with_word(GZIP, page(2, PLAIN, 10, &gzip(large))), "128 MiB"),
        ("more brotli than claimed", with_word(BROTLI, page(2, PLAIN, 10, &brotli(large))), "128 MiB"),
        ("more lz4 than claimed", with_word(LZ4, page(2, PLAIN, 10, &lz4(large))), "128 MiB"),
        ("pages that are too large together", crowded(), "320 MiB"),
        ("a dictionary of 2³¹ values", with_word(UNPACKED, dictionary(i32::MAX, 5, &plain_text("x"))), "damaged"),
        ("a page of 2³¹ values", with_word(UNPACKED, page(i32::MAX, PLAIN, texts.len(), &texts)), "damaged"),
        ("a negative size", with_word(UNPACKED, page(2, PLAIN, u32::MAX as usize, &texts)), "damaged"),
        ("delta-encoded texts", with_word(UNPACKED, page(2, 7, texts.len(), &texts)), "delta encoding"),
        ("delta-encoded lengths", with_word(UNPACKED, page(2, 6, texts.len(), &texts)), "delta encoding"),
        ("a long header", with_word(UNPACKED, long_header()), "damaged"),
        ("a value of a gigabyte", wide_value(), "has type FixedSizeBinary"),
        ("groups 40 deep", nested(40), "32 deep"),
        ("groups 200,000 deep", nested(200_000), "32 deep"),
        ("2³¹ row groups claimed", groups(1, (1 << 31) - 1), "damaged"),
        ("a million row groups", groups(1_000_000, 1_000_000), "larger row groups"),
    ]
}

/// Ingests a file. Returns the result and the files in the store.
fn ingest_bytes(bytes: &[u8]) -> (Result<IngestedBatch, IngestError>, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.parquet");
    std::fs::write(&path, bytes).expect("written");
    let store = BlockStore::local(folder.path().join("blocks")).expect("a store");
    let stream = StreamFile::parse(STREAM).expect("a stream");
    let mut noise = SecureNoise::new().expect("randomness");
    let lanes = LaneSource { noise: &mut noise, users: None };
    let batch = Batch { id: "hostile", received: 0 };
    let result = ingest(&stream, Source::path(path), batch, lanes, &|_| false, &store);
    (result, store.list("small").expect("a list"))
}

/// The peak memory of the process, if the system reports it.
fn peak_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn assert_bounded(name: &str, bound: usize) {
    match peak_bytes() {
        Some(peak) => assert!(peak < bound, "{name}: {} MiB", peak / MEBIBYTE),
        None => println!("skipped: this system does not report peak memory"),
    }
}

#[test]
fn false_claims_do_not_exhaust_memory() {
    // Without a false claim the crafted file is valid. The claimed number of rows has no effect.
    for claimed in [2, 1 << 40] {
        let (plain, _) = ingest_bytes(&file(&columns(2, "x"), claimed));
        assert_eq!(plain.expect("a file").report.stored, 2, "{claimed}");
        assert_bounded("a plain file", BOUND);
    }
    for (name, bytes, expected) in bombs() {
        let (result, remaining) = ingest_bytes(&bytes);
        let error = result.expect_err(name).to_string();
        assert!(error.contains(expected) && error.contains("nothing of the batch was kept"), "{name}: {error}");
        assert_eq!(remaining, Vec::<String>::new(), "{name}");
        assert_bounded(name, BOUND);
    }
    // A text that is too long, and one that just fits, each shared by many rows: 16 TiB and 1 GiB if copied.
    let (result, _) = ingest_bytes(&file(&columns(1 << 20, &"x".repeat(16 * MEBIBYTE)), 1 << 20));
    let report = result.expect("a file").report;
    assert_eq!((report.read, report.stored), (1 << 20, 0));
    assert_bounded("a long text", BOUND);
    let (result, _) = ingest_bytes(&file(&columns(10_000, &"x".repeat(100_000)), 10_000));
    assert_eq!(result.expect("a file").report.stored, 10_000);
    assert_bounded("a text that fits", BOUND_WITH_ROWS);
}
