//! Runs `sage_fuzz::onnx_import` with libFuzzer.

#![no_main]

use sage_fuzz::onnx_import;

libfuzzer_sys::fuzz_target!(init: sage_fuzz::write_seeds(onnx_import::seeds()), |bytes: &[u8]| onnx_import::run(bytes));
