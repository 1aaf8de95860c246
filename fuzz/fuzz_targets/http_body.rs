//! Runs `sage_fuzz::http_body` with libFuzzer.

#![no_main]

use sage_fuzz::http_body;

libfuzzer_sys::fuzz_target!(init: sage_fuzz::write_seeds(http_body::seeds()), |bytes: &[u8]| http_body::run(bytes));
