//! Pipeline files: parsing, canonical text, and error messages with the line at fault.

mod hostile;
mod read;
mod refused;
