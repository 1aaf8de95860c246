//! Ingest of Parquet and of the other formats: the first byte selects the format, the rest are the bytes of a file.

use std::io::Cursor;
use std::sync::OnceLock;

use parquet::arrow::ArrowWriter;
use sage_engine::blocks::BlockStore;
use sage_engine::ingest::{Batch, Format, LaneSource, Source, ingest};
use sage_kernel::noise::SecureNoise;

use crate::row_expression::rows;
use crate::stream_file::stream;

/// Ingests a file.
pub fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let format = match kind % 8 {
        0 => Format::Csv,
        1 => Format::Ndjson,
        2 => Format::Arrow,
        _ => Format::Parquet,
    };
    let bytes = Box::new(Cursor::new(rest.to_vec()));
    let source = Source::Pipe { name: "input".to_owned(), bytes, format: Some(format) };
    let mut noise = SecureNoise::new().expect("the system's random numbers");
    let lanes = LaneSource { noise: &mut noise, users: None };
    let _ = ingest(stream(), source, Batch { id: "batch", received: 0 }, lanes, &|_| false, store());
}

/// A store in a temporary folder, one for each process. The same batch replaces its own files.
fn store() -> &'static BlockStore {
    static STORE: OnceLock<(tempfile::TempDir, BlockStore)> = OnceLock::new();
    let create = || {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = BlockStore::local(folder.path()).expect("a store");
        (folder, store)
    };
    &STORE.get_or_init(create).1
}

/// Rows as Parquet, CSV and lines of JSON, each after the byte that selects its format.
pub fn seeds() -> Vec<Vec<u8>> {
    let rows = rows();
    let mut parquet = vec![3];
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, rows.schema(), None).expect("a writer");
    writer.write(&rows).expect("rows");
    writer.close().expect("a file");
    parquet.extend(file);
    let csv = "\0pickup,distance,passengers,tipped,payment\n2026-01-01T08:00:00Z,4.5,1,true,card\n";
    let json = "\x01{\"pickup\": \"2026-01-01T08:00:00Z\", \"distance\": 4.5, \"passengers\": 1, \"tipped\": true, \
                \"payment\": \"cash\"}\n";
    vec![parquet, csv.into(), json.into()]
}
