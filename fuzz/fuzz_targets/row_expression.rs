//! Runs `sage_fuzz::row_expression` with libFuzzer.

#![no_main]

use sage_fuzz::row_expression;

libfuzzer_sys::fuzz_target!(init: sage_fuzz::write_seeds(row_expression::seeds()), |bytes: &[u8]| row_expression::run(bytes));
