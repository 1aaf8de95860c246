//! Runs `sage_fuzz::parquet_ingest` with libFuzzer.

#![no_main]

use sage_fuzz::parquet_ingest;

libfuzzer_sys::fuzz_target!(init: sage_fuzz::write_seeds(parquet_ingest::seeds()), |bytes: &[u8]| parquet_ingest::run(bytes));
