//! Runs `sage_fuzz::log_bytes` with libFuzzer.

#![no_main]

use sage_fuzz::log_bytes;

libfuzzer_sys::fuzz_target!(init: sage_fuzz::write_seeds(log_bytes::seeds()), |bytes: &[u8]| log_bytes::run(bytes));
