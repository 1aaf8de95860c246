//! Untrusted files: truncated, damaged, enormous, empty, or in another format.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;
use sage_store::ingest::{IngestError, Source};

use crate::fixture::Fixture;

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
"#;

/// A value that must never appear in a message.
const SECRET: &str = "s3cr3t";

fn batch(rows: usize) -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("at", Arc::new(TimestampMicrosecondArray::from_iter_values((0..rows as i64).map(|row| row * 3_600_000_000)))),
        ("value", Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64 / 100.0)))),
        ("word", Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("{SECRET} {row}"))))),
    ];
    RecordBatch::try_from_iter(columns).expect("a batch")
}

fn every_format(batch: &RecordBatch) -> Vec<(&'static str, Vec<u8>)> {
    let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).expect("a writer");
    parquet.write(batch).expect("rows");
    let mut file = FileWriter::try_new(Vec::new(), &batch.schema()).expect("a writer");
    file.write(batch).expect("rows");
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("a writer");
    stream.write(batch).expect("rows");
    let mut csv = arrow::csv::WriterBuilder::new().with_header(true).build(Vec::new());
    csv.write(batch).expect("rows");
    let mut json = arrow::json::LineDelimitedWriter::new(Vec::new());
    json.write(batch).expect("rows");
    json.finish().expect("an end");
    vec![
        ("a.parquet", parquet.into_inner().expect("a file")),
        ("a.arrow", file.into_inner().expect("a file")),
        ("a.arrows", stream.into_inner().expect("a stream")),
        ("a.csv", csv.into_inner()),
        ("a.ndjson", json.into_inner()),
    ]
}

/// Ingests any bytes. Returns `None` if they are rows, and otherwise the error, which must not quote a value.
fn ingest_bytes(fixture: &Fixture, name: &str, bytes: &[u8]) -> Option<IngestError> {
    let file = fixture.file(name, bytes);
    match fixture.ingest(Source::path(file), "hostile") {
        Ok(ingested) => {
            for part in ingested.manifest.parts.iter().chain(&ingested.manifest.quarantine) {
                fixture.store.delete(&part.path("small")).expect("gone");
            }
            None
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains(SECRET) && !format!("{error:?}").contains(SECRET), "{text}");
            fixture.assert_empty();
            Some(error)
        }
    }
}

#[test]
fn a_truncated_file_is_an_error_or_gives_its_first_rows() {
    let fixture = Fixture::new(STREAM);
    for (name, bytes) in every_format(&batch(100)) {
        assert_eq!(ingest_bytes(&fixture, name, &bytes), None, "{name}");
        for cut in (0..bytes.len()).step_by(97) {
            let error = ingest_bytes(&fixture, name, &bytes[..cut]);
            // A text file may end after any line. The binary formats mark their end.
            let lines = matches!(name, "a.csv" | "a.ndjson");
            assert!(error.is_some() || lines, "{name} truncated at {cut}");
        }
    }
}

#[test]
fn a_damaged_byte_never_causes_a_panic() {
    let fixture = Fixture::new(STREAM);
    for (name, bytes) in every_format(&batch(20)) {
        for index in (0..bytes.len()).step_by(if std::env::var_os("SAGE_SOAK").is_some() { 1 } else { 13 }) {
            for flip in [0xFF, 0x01] {
                let mut damaged = bytes.clone();
                damaged[index] ^= flip;
                let _either = ingest_bytes(&fixture, name, &damaged);
            }
        }
    }
}

#[test]
fn files_without_valid_rows_are_refused() {
    let fixture = Fixture::new(STREAM);
    let empty = fixture.folder.path().join("empty");
    std::fs::create_dir(&empty).expect("a folder");
    for (path, expected) in [
        (empty, "contains no rows"),
        (fixture.file("nothing.csv", ""), "contains no rows"),
        (fixture.file("nothing", ""), "contains no rows"),
        (fixture.folder.path().join("absent.csv"), "cannot be read"),
        (fixture.file("a.gz", [0x1F, 0x8B, 8, 0, 0, 0, 0, 0]), "is not supported"),
        (fixture.file("short.parquet", "PAR1"), "not Parquet"),
        (fixture.file("text.parquet", "at,value,word\n1,2,3\n4,5,6\n"), "not Parquet"),
        (fixture.file("footer.parquet", b"PAR1....\xFF\xFF\xFF\x7FPAR1"), "not Parquet"),
        (fixture.file("text.arrow", "at,value,word\n1,2,3\n4,5,6\n"), "not Arrow"),
        (fixture.file("long.arrow", b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F"), "not Arrow"),
        (fixture.file("header.csv", "at,value\n"), "lacks columns of the stream: word"),
        (fixture.file("fields.csv", "at,value,word\n1,2\n"), "line 2: the number of fields"),
        (fixture.file("quote.csv", "at,value,word\n1,2,\"x\n"), "ends within quotes"),
        (fixture.file("after.csv", "at,value,word\n1,2,\"x\"y\n"), "followed by more text"),
        (fixture.file("bytes.csv", b"at,value,word\n1,2,\xFF\xFE\n"), "not UTF-8"),
        (fixture.file("a.ndjson", "{\"at\":1}\n{\"at\":\n"), "not one JSON object"),
        (fixture.file("b.ndjson", "[1,2]\n"), "not one JSON object"),
    ] {
        let error = fixture.ingest(Source::path(&path), "none").expect_err(expected).to_string();
        assert!(
            error.contains(expected) && error.contains("nothing of the batch was kept"),
            "{}: {error}",
            path.display()
        );
        fixture.assert_empty();
    }
}

#[test]
fn a_header_without_rows_is_a_batch_without_parts() {
    let fixture = Fixture::new(STREAM);
    let file = fixture.file("a.csv", "at,value,word\n");
    let ingested = fixture.ingest(Source::path(file), "none").expect("no rows");
    assert!(ingested.manifest.parts.is_empty());
}

#[test]
fn ten_thousand_other_columns_are_skipped() {
    let fixture = Fixture::new(STREAM);
    let rows = 200;
    let wanted = batch(rows);
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for column in 0..10_000 {
        columns.push((format!("c{column}"), Arc::new(Float64Array::from(vec![0.5; rows]))));
    }
    for (index, name) in [(7, "at"), (5000, "value"), (9999, "word")] {
        columns[index] = (name.to_owned(), Arc::clone(wanted.column_by_name(name).expect("a column")));
    }
    let wide = RecordBatch::try_from_iter(columns).expect("a batch");
    for (name, bytes) in every_format(&wide) {
        let file = fixture.file(name, bytes);
        let ingested = fixture.ingest(Source::path(file), name).expect(name);
        assert_eq!(ingested.report.stored, rows as u64, "{name}");
    }
}

#[test]
fn an_endless_record_is_refused_before_it_exhausts_memory() {
    let fixture = Fixture::new(STREAM);
    for (format, start) in [("csv", "at,value,word\n1,2,\""), ("ndjson", "{\"word\":\"")] {
        let endless = std::io::Cursor::new(start.as_bytes().to_vec());
        let endless = std::io::Read::chain(endless, std::io::repeat(b'x'));
        let source = Source::Pipe { name: format.to_owned(), bytes: Box::new(endless), format: None };
        let error = fixture.ingest(source, format).expect_err("endless").to_string();
        assert!(error.contains("longer than 16 MiB"), "{error}");
    }
}

#[test]
fn a_batch_with_too_many_blocks_is_refused() {
    let fixture = Fixture::new(&STREAM.replace("1d", "1m"));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("at", Arc::new(TimestampMicrosecondArray::from_iter_values((0..1_100_000_i64).map(|row| row * 60_000_000)))),
        ("value", Arc::new(Float64Array::from(vec![0.5; 1_100_000]))),
        ("word", Arc::new(StringArray::from(vec!["x"; 1_100_000]))),
    ];
    let wide = RecordBatch::try_from_iter(columns).expect("a batch");
    let (name, bytes) = every_format(&wide).swap_remove(0);
    let file = fixture.file(name, bytes);
    assert_eq!(fixture.ingest(Source::path(file), "minutes"), Err(IngestError::Blocks));
    fixture.assert_empty();
}
