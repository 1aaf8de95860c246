//! Files that were not written for us: cut short, damaged, enormous, empty, or something else altogether.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;
use sage_store::ingest::{IngestError, Source};

use crate::fixture::Shop;

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

/// A value that must never be seen in a message.
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

/// Whatever the bytes are, there is an answer: rows, or an error that keeps what it saw to itself.
fn answered(shop: &Shop, name: &str, bytes: &[u8]) -> Option<IngestError> {
    let file = shop.file(name, bytes);
    match shop.take(Source::path(file), "hostile") {
        Ok(taken) => {
            for part in taken.manifest.parts.iter().chain(&taken.manifest.quarantine) {
                shop.store.delete(&part.path("small")).expect("gone");
            }
            None
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains(SECRET) && !format!("{error:?}").contains(SECRET), "{text}");
            shop.assert_empty();
            Some(error)
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error_or_the_rows_before() {
    let shop = Shop::new(STREAM);
    for (name, bytes) in every_format(&batch(100)) {
        assert_eq!(answered(&shop, name, &bytes), None, "{name}");
        for cut in (0..bytes.len()).step_by(97) {
            let error = answered(&shop, name, &bytes[..cut]);
            // Where a line ends, a file of lines may end; the binary formats say where they do.
            let lines = matches!(name, "a.csv" | "a.ndjson");
            assert!(error.is_some() || lines, "{name} cut at {cut}");
        }
    }
}

#[test]
fn a_damaged_byte_is_never_a_panic() {
    let shop = Shop::new(STREAM);
    for (name, bytes) in every_format(&batch(20)) {
        for place in (0..bytes.len()).step_by(if std::env::var_os("SAGE_SOAK").is_some() { 1 } else { 13 }) {
            for flip in [0xFF, 0x01] {
                let mut damaged = bytes.clone();
                damaged[place] ^= flip;
                let _either = answered(&shop, name, &damaged);
            }
        }
    }
}

#[test]
fn what_is_no_file_of_rows_is_said_to_be_none() {
    let shop = Shop::new(STREAM);
    let empty = shop.folder.path().join("empty");
    std::fs::create_dir(&empty).expect("a folder");
    for (path, holds) in [
        (empty, "holds nothing"),
        (shop.file("nothing.csv", ""), "holds nothing"),
        (shop.file("nothing", ""), "holds nothing"),
        (shop.folder.path().join("absent.csv"), "cannot be read"),
        (shop.file("a.gz", [0x1F, 0x8B, 8, 0, 0, 0, 0, 0]), "no known format"),
        (shop.file("short.parquet", "PAR1"), "no Parquet"),
        (shop.file("text.parquet", "at,value,word\n1,2,3\n4,5,6\n"), "no Parquet"),
        (shop.file("footer.parquet", b"PAR1....\xFF\xFF\xFF\x7FPAR1"), "no Parquet"),
        (shop.file("text.arrow", "at,value,word\n1,2,3\n4,5,6\n"), "no Arrow"),
        (shop.file("long.arrow", b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F"), "no Arrow"),
        (shop.file("header.csv", "at,value\n"), "lacks columns of the stream: word"),
        (shop.file("fields.csv", "at,value,word\n1,2\n"), "line 2: the number of fields"),
        (shop.file("quote.csv", "at,value,word\n1,2,\"x\n"), "ends within quotes"),
        (shop.file("after.csv", "at,value,word\n1,2,\"x\"y\n"), "followed by more text"),
        (shop.file("bytes.csv", b"at,value,word\n1,2,\xFF\xFE\n"), "not UTF-8"),
        (shop.file("a.ndjson", "{\"at\":1}\n{\"at\":\n"), "no JSON object"),
        (shop.file("b.ndjson", "[1,2]\n"), "no JSON object"),
    ] {
        let error = shop.take(Source::path(&path), "none").expect_err(holds).to_string();
        assert!(
            error.contains(holds) && error.contains("nothing of the batch was kept"),
            "{}: {error}",
            path.display()
        );
        shop.assert_empty();
    }
}

#[test]
fn a_header_without_rows_is_a_batch_without_parts() {
    let shop = Shop::new(STREAM);
    let file = shop.file("a.csv", "at,value,word\n");
    let taken = shop.take(Source::path(file), "none").expect("no rows");
    assert!(taken.manifest.parts.is_empty());
}

#[test]
fn ten_thousand_columns_are_passed_over() {
    let shop = Shop::new(STREAM);
    let rows = 200;
    let wanted = batch(rows);
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for column in 0..10_000 {
        columns.push((format!("c{column}"), Arc::new(Float64Array::from(vec![0.5; rows]))));
    }
    for (place, name) in [(7, "at"), (5000, "value"), (9999, "word")] {
        columns[place] = (name.to_owned(), Arc::clone(wanted.column_by_name(name).expect("a column")));
    }
    let wide = RecordBatch::try_from_iter(columns).expect("a batch");
    for (name, bytes) in every_format(&wide) {
        let file = shop.file(name, bytes);
        let taken = shop.take(Source::path(file), name).expect(name);
        assert_eq!(taken.report.stored, rows as u64, "{name}");
    }
}

#[test]
fn a_record_without_an_end_is_refused_before_it_fills_the_memory() {
    let shop = Shop::new(STREAM);
    for (format, start) in [("csv", "at,value,word\n1,2,\""), ("ndjson", "{\"word\":\"")] {
        let endless = std::io::Cursor::new(start.as_bytes().to_vec());
        let endless = std::io::Read::chain(endless, std::io::repeat(b'x'));
        let source = Source::Pipe { name: format.to_owned(), bytes: Box::new(endless), format: None };
        let error = shop.take(source, format).expect_err("endless").to_string();
        assert!(error.contains("longer than 16 MiB"), "{error}");
    }
}

#[test]
fn rows_all_over_time_do_not_make_blocks_without_end() {
    let shop = Shop::new(&STREAM.replace("1d", "1m"));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("at", Arc::new(TimestampMicrosecondArray::from_iter_values((0..1_100_000_i64).map(|row| row * 60_000_000)))),
        ("value", Arc::new(Float64Array::from(vec![0.5; 1_100_000]))),
        ("word", Arc::new(StringArray::from(vec!["x"; 1_100_000]))),
    ];
    let wide = RecordBatch::try_from_iter(columns).expect("a batch");
    let (name, bytes) = every_format(&wide).swap_remove(0);
    let file = shop.file(name, bytes);
    assert_eq!(shop.take(Source::path(file), "minutes"), Err(IngestError::Blocks));
    shop.assert_empty();
}
