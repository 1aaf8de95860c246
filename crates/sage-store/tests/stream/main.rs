//! Stream files, block keys, and the store of blocks.

mod file;
mod keys;
mod store;
