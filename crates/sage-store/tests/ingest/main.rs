//! Rows go in as files and come out as parts: every format, every bound, every hostile file.

mod blocks;
mod bounds;
mod fixture;
mod formats;
mod hostile;
mod real;
