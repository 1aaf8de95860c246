//! The same rows are stored from every format.

use std::fs::File;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, DictionaryArray, Float32Array, Float64Array, Int64Array, LargeStringArray,
    RecordBatch, StringArray, StringViewArray, TimestampMillisecondArray, TimestampNanosecondArray,
};
use arrow::datatypes::{Int8Type, Schema};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use sage_store::ingest::{Format, IngestError, Source};

use crate::fixture::{Fixture, RIDES};

const CSV: &str = "extra,pickup,distance,people,paid,shared,note\r\n\
    1,2026-11-01 08:15:00,2.5,3,card,true,\"a, \"\"b\"\"\"\r\n\
    2,2026-11-01T09:00:00Z,7,,cash,false,\r\n\
    \r\n\
    3,2026-11-01T08:59:59.999999,100.0,2.0,coins,,\"two\nlines\"\n";

const NDJSON: &str = r#"
{"pickup":"2026-11-01 08:15:00","distance":2.5,"people":3,"paid":"card","shared":true,"note":"a, \"b\"","extra":{"x":[1]}}
{"pickup":"2026-11-01T09:00:00Z","distance":7,"paid":"cash","shared":false}

{"note":"two\nlines","shared":null,"paid":"coins","people":2.0,"distance":"100","pickup":"2026-11-01T08:59:59.999999"}"#;

const ROWS: [&str; 3] = [
    "hour=2026-11-01T08|2026-11-01T08:15:00Z|2.5|3|card|true|a, \"b\"",
    "hour=2026-11-01T08|2026-11-01T08:59:59.999999Z|100.0|2|other|-|two\nlines",
    "hour=2026-11-01T09|2026-11-01T09:00:00Z|7.0|-|cash|false|-",
];

const PICKUPS: [i64; 3] = [1_793_520_900_000_000_000, 1_793_523_600_000_000_000, 1_793_523_599_999_999_000];

/// The rows in types that other programs use.
fn batch() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("extra", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("note", Arc::new(StringViewArray::from(vec![Some("a, \"b\""), None, Some("two\nlines")]))),
        ("pickup", Arc::new(TimestampNanosecondArray::from(PICKUPS.to_vec()).with_timezone("Europe/Paris"))),
        ("shared", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
        ("distance", Arc::new(Float32Array::from(vec![2.5, 7.0, 100.0]))),
        ("people", Arc::new(Float64Array::from(vec![Some(3.0), None, Some(2.0)]))),
        ("paid", Arc::new(vec!["card", "cash", "coins"].into_iter().collect::<DictionaryArray<Int8Type>>())),
    ];
    RecordBatch::try_from_iter(columns).expect("a batch")
}

fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).expect("a writer");
    writer.write(batch).expect("rows");
    writer.into_inner().expect("a file")
}

fn arrow_file(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batch.schema()).expect("a writer");
    writer.write(batch).expect("rows");
    writer.write(&batch.slice(0, 0)).expect("no rows");
    writer.into_inner().expect("a file")
}

fn arrow_stream(batch: &RecordBatch) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).expect("options");
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).expect("a writer");
    writer.write(batch).expect("rows");
    writer.into_inner().expect("a stream")
}

#[test]
fn every_format_gives_the_same_rows() {
    let files = [
        ("rides.csv", CSV.as_bytes().to_vec()),
        ("rides.tsv", CSV.replace("a, ", "a! ").replace(',', "\t").replace("a! ", "a, ").into_bytes()),
        ("semicolons", CSV.replace("a, ", "a! ").replace(',', ";").replace("a! ", "a, ").into_bytes()),
        ("rides.ndjson", NDJSON.as_bytes().to_vec()),
        ("mark.csv", [b"\xEF\xBB\xBF", CSV.as_bytes()].concat()),
        ("rides.parquet", parquet(&batch())),
        ("rides.arrow", arrow_file(&batch())),
        ("rides.arrows", arrow_stream(&batch())),
    ];
    for (name, bytes) in files {
        let fixture = Fixture::new(RIDES);
        let path = fixture.file(name, &bytes);
        let ingested = fixture.ingest(Source::path(&path), "from a file").expect(name);
        assert_eq!(fixture.texts(&ingested.manifest.parts), ROWS, "{name}");
        assert_eq!((ingested.report.read, ingested.report.stored, ingested.report.quarantined), (3, 3, 0), "{name}");
        // Without an extension the format is detected from the first bytes.
        let unnamed = fixture.file("unnamed", &bytes);
        let ingested = fixture.ingest(Source::path(&unnamed), "unnamed").expect(name);
        assert_eq!(fixture.texts(&ingested.manifest.parts), ROWS, "{name}");
        let pipe = || Source::Pipe {
            name: "standard input".to_owned(),
            bytes: Box::new(File::open(&path).expect("a file")),
            format: None,
        };
        let ingested = fixture.ingest(pipe(), "from a pipe").expect(name);
        assert_eq!(fixture.texts(&ingested.manifest.parts), ROWS, "{name}");
    }
}

#[test]
fn all_files_of_a_folder_are_read_except_metadata() {
    let fixture = Fixture::new(RIDES);
    for (name, bytes) in [
        ("in/day=1/a.csv", CSV.as_bytes().to_vec()),
        ("in/day=2/b.parquet", parquet(&batch())),
        ("in/_SUCCESS", Vec::new()),
        ("in/.c.csv.crc", vec![1, 2, 3]),
        ("in/README.md", b"rides".to_vec()),
    ] {
        fixture.file(name, bytes);
    }
    let folder = fixture.folder.path().join("in");
    let ingested = fixture.ingest(Source::path(&folder), "folder").expect("rows");
    let twice: Vec<&str> = ROWS.iter().flat_map(|row| [*row, *row]).collect();
    assert_eq!(fixture.texts(&ingested.manifest.parts), twice);
    let only = Source::Path { path: folder, format: Some(Format::Csv) };
    let ingested = fixture.ingest(only, "folder, CSV").expect("rows");
    assert_eq!(fixture.texts(&ingested.manifest.parts), ROWS);
}

/// Each case: the column of the batch that is replaced, its new values, and the type that is refused, if it is.
#[test]
fn types_are_converted_without_loss_or_refused_by_name() {
    let times = |array: ArrayRef| ("pickup", array);
    let cases: Vec<((&str, ArrayRef), Option<&str>)> = vec![
        (times(Arc::new(TimestampMillisecondArray::from(vec![PICKUPS[0] / 1_000_000; 3]))), None),
        (times(Arc::new(Date32Array::from(vec![20_758; 3]))), None),
        (times(Arc::new(StringArray::from(vec!["2026-11-01"; 3]))), None),
        (times(Arc::new(Int64Array::from(vec![1; 3]))), Some("Int64")),
        (times(Arc::new(BooleanArray::from(vec![true; 3]))), Some("Boolean")),
        (("distance", Arc::new(Int64Array::from(vec![1; 3]))), None),
        (("distance", Arc::new(StringArray::from(vec!["1"; 3]))), Some("Utf8")),
        (("distance", Arc::new(Date32Array::from(vec![1; 3]))), Some("Date32")),
        (("people", Arc::new(Int64Array::from(vec![1; 3]))), None),
        (("people", Arc::new(BooleanArray::from(vec![true; 3]))), Some("Boolean")),
        (("paid", Arc::new(LargeStringArray::from(vec!["cash"; 3]))), None),
        (("paid", Arc::new(Int64Array::from(vec![1; 3]))), None),
        (("paid", Arc::new(Float64Array::from(vec![1.0; 3]))), Some("Float64")),
        (("shared", Arc::new(Int64Array::from(vec![1; 3]))), Some("Int64")),
        (("note", Arc::new(arrow::array::NullArray::new(3))), None),
    ];
    for ((column, array), refused) in cases {
        let fixture = Fixture::new(RIDES);
        let whole = batch();
        let index = whole.schema().index_of(column).expect("a column");
        let mut fields: Vec<_> = whole.schema().fields().iter().cloned().collect();
        fields[index] =
            Arc::new(fields[index].as_ref().clone().with_data_type(array.data_type().clone()).with_nullable(true));
        let mut columns = whole.columns().to_vec();
        columns[index] = array;
        let changed = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a batch");
        for (name, bytes) in [("rides.arrow", arrow_file(&changed)), ("rides.parquet", parquet(&changed))] {
            let path = fixture.file(name, bytes);
            match (fixture.ingest(Source::path(path), name), refused) {
                (Ok(ingested), None) => assert_eq!(ingested.report.stored, 3, "{column} in {name}"),
                // Parquet has no null type.
                (Err(IngestError::Type { column: named, found, allowed, .. }), Some(kind)) => {
                    assert_eq!((named.as_str(), found.as_str()), (column, kind), "{name}");
                    assert!(!allowed.is_empty());
                    fixture.assert_empty();
                }
                (found, _) => panic!("{column} in {name}: {found:?}"),
            }
            let parts = fixture.store.list("rides").expect("a list");
            parts.iter().for_each(|path| fixture.store.delete(path).expect("gone"));
        }
    }
}

#[test]
fn all_missing_columns_are_listed() {
    let fixture = Fixture::new(RIDES);
    let bare = batch().project(&[0, 1, 3, 5]).expect("a batch");
    for (name, bytes) in [
        ("rides.csv", b"Pickup,people,note,shared\n".to_vec()),
        ("rides.parquet", parquet(&bare)),
        ("rides.arrow", arrow_file(&bare)),
    ] {
        let path = fixture.file(name, bytes);
        let error = fixture.ingest(Source::path(path), name).expect_err(name);
        let IngestError::Missing { columns, .. } = &error else { panic!("{name}: {error}") };
        assert_eq!(columns, &["pickup", "distance", "paid"], "{name}");
        fixture.assert_empty();
    }
}
