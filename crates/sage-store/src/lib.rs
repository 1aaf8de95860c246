//! Storage of Sage: stream files, ingest, blocks and their cached summaries, and the log on disk.
//!
//! Data passes through the modules in this order:
//!
//! - [`document`]: TOML files, parsed key by key, with the line of each error;
//! - [`stream`]: a stream's schema, block rule, policy and access list;
//! - [`ingest`]: Parquet, CSV, NDJSON and Arrow input, checked and written as block parts;
//! - [`blocks`]: block parts in a directory or a bucket, their encryption, and cached block summaries;
//! - [`log`]: the log in one SQLite file with one owner, group commit, and exported heads.
//!
//! [`private`] creates files with restricted permissions, [`quiet`] runs code that holds rows without printing its
//! panics, and [`suggest`] finds the nearest known name to a misspelt one,
//! [`threads`] holds the number of threads for all of it.
//!
//! This crate decides nothing about budgets and draws no noise: charges go through the kernel's gate, of which a
//! [`log`] store is only the storage. Rows that it holds leave it as block parts only.

pub mod blocks;
pub mod document;
pub mod ingest;
pub mod log;
pub mod private;
pub mod quiet;
pub mod stream;
pub mod suggest;
pub mod threads;
