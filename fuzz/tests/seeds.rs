//! Every target runs on its seeds, and the seeds that must be valid are.

use sage_engine::pipeline::Pipeline;
use sage_engine::stream::StreamFile;
use sage_fuzz::{
    http_body, log_bytes, onnx_import, parquet_ingest, pipeline_file, private_sql, row_expression, stream_file,
};

type Target = (&'static str, fn(&[u8]), fn() -> Vec<Vec<u8>>);

const TARGETS: [Target; 8] = [
    ("log_bytes", log_bytes::run, log_bytes::seeds),
    ("row_expression", row_expression::run, row_expression::seeds),
    ("onnx_import", onnx_import::run, onnx_import::seeds),
    ("stream_file", stream_file::run, stream_file::seeds),
    ("pipeline_file", pipeline_file::run, pipeline_file::seeds),
    ("private_sql", private_sql::run, private_sql::seeds),
    ("parquet_ingest", parquet_ingest::run, parquet_ingest::seeds),
    ("http_body", http_body::run, http_body::seeds),
];

#[test]
fn every_target_runs_on_its_seeds() {
    for (name, run, seeds) in TARGETS {
        let seeds = seeds();
        assert!(!seeds.is_empty(), "{name}");
        for seed in seeds {
            run(&seed);
            // Damaged seeds too: a prefix, and a flipped bit in the middle.
            run(&seed[..seed.len() / 2]);
            let mut damaged = seed.clone();
            damaged[seed.len() / 2] ^= 1;
            run(&damaged);
        }
    }
}

#[test]
fn text_seeds_are_valid() {
    let text = |seed: Vec<u8>| String::from_utf8(seed).expect("UTF-8");
    for seed in stream_file::seeds().into_iter().map(text) {
        assert!(StreamFile::parse(&seed).is_ok(), "{seed}");
    }
    for seed in pipeline_file::seeds().into_iter().map(text) {
        assert!(Pipeline::parse(&seed).is_ok(), "{seed}");
    }
    for seed in row_expression::seeds().into_iter().map(text) {
        assert!(sage_sql::parse(&seed).is_ok(), "{seed}");
    }
    for seed in private_sql::seeds().into_iter().map(text) {
        assert!(sage_sql::parse_select(&seed).is_ok(), "{seed}");
    }
}
