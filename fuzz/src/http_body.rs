//! Bodies of prediction requests: rows as CSV, as lines of JSON and as an array of JSON objects.

use std::io::Cursor;

use sage_engine::serve::{RowReader, parse_json_row};

use crate::onnx_import::columns;

const BODIES: [&str; 4] = [
    "distance,passengers,tipped,pickup\n4.5,1,true,2026-01-01T08:00:00Z\n",
    "{\"distance\": 4.5, \"passengers\": 1, \"tipped\": true, \"pickup\": \"2026-01-01T08:00:00Z\"}\n",
    "[{\"distance\": 1e2, \"passengers\": null, \"tipped\": false, \"pickup\": 0}]",
    "distance;passengers;tipped;pickup\n\"1.5\";;false;1970-01-01\n",
];

/// Reads the rows of a body. A row that is accepted has one cell for each column.
pub fn run(bytes: &[u8]) {
    let columns = columns();
    if let Ok(mut reader) = RowReader::new(&columns, Cursor::new(bytes.to_vec()), None) {
        while let Ok(rows) = reader.take_rows(64) {
            if rows.is_empty() {
                break;
            }
            assert!(rows.iter().all(|row| row.len() == columns.len()), "one cell for each column");
        }
    }
    if let Ok(serde_json::Value::Array(rows)) = serde_json::from_slice(bytes) {
        for (number, row) in (1..).zip(&rows) {
            if let Some(Ok(cells)) = row.as_object().map(|object| parse_json_row(&columns, number, object)) {
                assert_eq!(cells.len(), columns.len());
            }
        }
    }
}

/// Bodies of several forms.
pub fn seeds() -> Vec<Vec<u8>> {
    BODIES.map(|text| text.as_bytes().to_vec()).to_vec()
}
