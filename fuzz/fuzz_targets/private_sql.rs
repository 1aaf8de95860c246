//! Runs `sage_fuzz::private_sql` with libFuzzer.

#![no_main]

use sage_fuzz::private_sql;

libfuzzer_sys::fuzz_target!(init: sage_fuzz::write_seeds(private_sql::seeds()), |bytes: &[u8]| private_sql::run(bytes));
