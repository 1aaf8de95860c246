//! From the columns of a row to what learners read.
//!
//! Every parameter of an encoding is public and fixed before a row is read, and every row has a value: what
//! is missing, out of range or of another type goes to a place that was named in advance. So one row's
//! numbers depend on that row alone, and no row can make the encoding fail.

mod cells;
mod encoding;
mod hash;
mod key;
mod rows;
mod scale;

pub use cells::Cells;
pub use encoding::{Encoding, EncodingError, Field, FieldKind, Join, Label, LabelKind, Mean, Source, Stated};
pub use hash::{INTEGER_SEED, hash, integer_place, text_place};
pub(crate) use hash::{PRIME, hash_key};
pub use key::{Categories, Key, KeyKind};
pub use rows::{Encoded, Example, Layout};
pub use scale::{Scale, Span};
