//! Runs `sage_fuzz::pipeline_file` with libFuzzer.

#![no_main]

use sage_fuzz::pipeline_file;

libfuzzer_sys::fuzz_target!(init: sage_fuzz::write_seeds(pipeline_file::seeds()), |bytes: &[u8]| pipeline_file::run(bytes));
