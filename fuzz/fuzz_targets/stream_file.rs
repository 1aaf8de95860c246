//! Runs `sage_fuzz::stream_file` with libFuzzer.

#![no_main]

use sage_fuzz::stream_file;

libfuzzer_sys::fuzz_target!(init: sage_fuzz::write_seeds(stream_file::seeds()), |bytes: &[u8]| stream_file::run(bytes));
