//! Ingest of rows: formats, bounds, blocks and lanes, and malformed files.

mod blocks;
mod bounds;
mod fixture;
mod formats;
mod hostile;
mod real;
