//! Fuzz targets: one module for each kind of bytes that Sage reads from outside.
//!
//! Each module has `run`, which fails by panicking, and `seeds`: small valid inputs from which the fuzzer starts. Seeds
//! are generated, so that no binary file is committed and a change of a format changes them. The programs in
//! `fuzz_targets` only connect a module to libFuzzer. Targets use public items of the product alone and keep no state
//! that makes the result for one input depend on another.
//!
//! A feature for each crate of the product lets a target be built without the crates that it does not need.

#[cfg(feature = "engine")]
pub mod http_body;
#[cfg(feature = "kernel")]
pub mod log_bytes;
#[cfg(feature = "model")]
pub mod onnx_import;
#[cfg(feature = "engine")]
pub mod parquet_ingest;
#[cfg(feature = "engine")]
pub mod pipeline_file;
#[cfg(feature = "engine")]
pub mod private_sql;
#[cfg(feature = "sql")]
pub mod row_expression;
#[cfg(feature = "engine")]
pub mod stream_file;

use std::path::Path;

/// The variable with the folder of the corpus; set by `cargo xtask fuzz`.
pub const CORPUS: &str = "SAGE_FUZZ_CORPUS";

/// Writes seeds into the folder of the corpus, if one is given.
///
/// # Panics
/// When the folder cannot be written.
pub fn write_seeds(seeds: Vec<Vec<u8>>) {
    let Some(folder) = std::env::var_os(CORPUS) else { return };
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder).expect("the folder of the corpus");
    for (number, seed) in seeds.into_iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), seed).expect("a seed");
    }
}
