//! A stream with a store in a temporary folder, and a reader of its parts.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::DataType;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use sage_kernel::LaneKey;
use sage_kernel::noise::SecureNoise;
use sage_store::blocks::{BlockStore, LANE_COLUMN, Part};
use sage_store::ingest::{Batch, IngestError, IngestedBatch, LaneSource, Source, ingest};
use sage_store::stream::{StreamFile, parse_time};

pub(crate) const RIDES: &str = r#"
[stream]
name = "rides"
unit = "event"
time = "pickup"
blocks = { time = "1h" }
[policy]
epsilon = "1"
delta = "1e-6"
[[columns]]
name = "pickup"
type = "time"
min = "2000-01-01"
max = "2100-01-01"
[[columns]]
name = "distance"
type = "number"
min = 0
max = 100
[[columns]]
name = "people"
type = "integer"
min = 0
max = 9
outside = "drop"
nullable = true
[[columns]]
name = "paid"
type = "category"
categories = ["card", "cash", "other"]
other = "other"
[[columns]]
name = "shared"
type = "boolean"
nullable = true
[[columns]]
name = "note"
type = "text"
longest = 20
nullable = true
"#;

pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) stream: StreamFile,
    pub(crate) store: BlockStore,
    noise: RefCell<SecureNoise>,
    key: LaneKey,
}

/// The rows of a part and their block.
pub(crate) struct StoredPart {
    pub(crate) block: String,
    pub(crate) rows: RecordBatch,
}

impl Fixture {
    pub(crate) fn new(stream: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = BlockStore::local(folder.path().join("blocks")).expect("a store");
        let noise = RefCell::new(SecureNoise::new().expect("randomness"));
        let stream = StreamFile::parse(stream).expect("a stream");
        Self { folder, stream, store, noise, key: LaneKey::from_bytes([7; 32]) }
    }

    /// Ingests a source as a batch with this id, while no block is closed.
    pub(crate) fn ingest(&self, source: Source, batch: &str) -> Result<IngestedBatch, IngestError> {
        self.ingest_with_closed(source, batch, &|_| false)
    }

    pub(crate) fn ingest_with_closed(
        &self, source: Source, batch: &str, closed: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<IngestedBatch, IngestError> {
        let received = parse_time("2026-11-16T02:00").expect("an instant");
        let noise = &mut self.noise.borrow_mut();
        let lanes = LaneSource { noise, users: Some(&self.key) };
        ingest(&self.stream, source, Batch { id: batch, received }, lanes, closed, &self.store)
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, bytes).expect("written");
        path
    }

    /// Reads every part with a plain Parquet reader, and checks that each row group has rows of one lane.
    pub(crate) fn stored(&self, parts: &[Part]) -> Vec<StoredPart> {
        let read = |part: &Part| {
            let bytes = self.store.read(&part.path(&self.stream.name)).expect("a part");
            assert_eq!(*blake3::hash(&bytes).as_bytes(), part.digest, "{}", part.file);
            StoredPart { block: part.block.clone(), rows: read_part(bytes) }
        };
        parts.iter().map(read).collect()
    }

    /// Every stored row as text, sorted: the block and the columns without the lane, joined by `|`.
    pub(crate) fn texts(&self, parts: &[Part]) -> Vec<String> {
        let mut texts = Vec::new();
        for StoredPart { block, rows } in self.stored(parts) {
            let columns: Vec<ArrayRef> =
                rows.columns().iter().map(|column| cast(column, &DataType::Utf8).expect("text")).collect();
            for row in 0..rows.num_rows() {
                let value = |column: &ArrayRef| {
                    let texts = column.as_string::<i32>();
                    if texts.is_null(row) { "-".to_owned() } else { texts.value(row).to_owned() }
                };
                let mut values = vec![block.clone()];
                let declared = self.stream.columns.len().min(columns.len());
                values.extend(columns[..declared].iter().map(value));
                texts.push(values.join("|"));
            }
        }
        texts.sort_unstable();
        texts
    }

    /// Checks that the store has no files.
    pub(crate) fn assert_empty(&self) {
        assert_eq!(self.store.list(&self.stream.name).expect("a list"), Vec::<String>::new());
    }
}

pub(crate) fn read_part(bytes: Bytes) -> RecordBatch {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).expect("a Parquet file");
    let schema = builder.schema().clone();
    let groups = builder.metadata().num_row_groups();
    let mut whole = Vec::new();
    let mut before = false;
    for group in 0..groups {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).expect("a Parquet file");
        let reader = builder.with_row_groups(vec![group]).build().expect("a group");
        let rows: Vec<RecordBatch> = reader.map(|rows| rows.expect("rows")).collect();
        let rows = concat_batches(&schema, &rows).expect("one schema");
        if let Some(lane) = rows.column_by_name(LANE_COLUMN) {
            let lane: &BooleanArray = lane.as_boolean();
            let tests = lane.true_count();
            assert!(tests == 0 || tests == lane.len(), "a row group has both lanes");
            assert!(!before || tests > 0, "train comes first");
            before = tests > 0;
        }
        whole.push(rows);
    }
    concat_batches(&schema, &whole).expect("one schema")
}

/// The path of a file with real rows, if `SAGE_DATA` names its folder.
pub(crate) fn real(file: &str) -> Option<PathBuf> {
    let found = std::env::var_os("SAGE_DATA").map(|folder| Path::new(&folder).join(file)).filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: SAGE_DATA names no folder with {file}");
    }
    found
}
