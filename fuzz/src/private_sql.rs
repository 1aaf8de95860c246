//! Private SQL.

use sage_engine::query::PrivateQuery;

use crate::stream_file::stream;

const QUERIES: [&str; 6] = [
    "SELECT count(*) FROM taxi",
    "SELECT payment, count(*), avg(distance) FROM taxi GROUP BY payment",
    "SELECT extract(hour from pickup) AS hour, sum(distance) FROM taxi GROUP BY extract(hour from pickup)",
    "SELECT median(distance) FROM taxi WHERE passengers > 1",
    "SELECT tipped, stddev(distance) AS spread FROM taxi GROUP BY tipped",
    "SELECT payment, passengers, quantile(distance, 0.9) FROM taxi GROUP BY payment, passengers",
];

/// Plans or refuses a query from its text and the stream's file alone.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match PrivateQuery::new(text, stream()) {
        Ok(question) => assert!(question.names().count() > 0, "a query has columns"),
        Err(refusal) => drop(refusal.to_string()),
    }
}

/// Queries of several kinds.
pub fn seeds() -> Vec<Vec<u8>> {
    QUERIES.map(|text| text.as_bytes().to_vec()).to_vec()
}
