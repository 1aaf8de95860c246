//! Encoding: from the columns of a row to the inputs of learners.
//!
//! Every parameter of an encoding is public and fixed before a row is read, and so is the rule for missing values: null,
//! NaN and infinities. A row without a label is left out; so is a row without a number, unless the number's scale has
//! a replacement. A missing category has an index of its own. So the encoding of a row depends on that row alone, and no
//! row can make the encoding fail. Leaving rows out is a filter: neighbouring streams stay neighbouring.

mod cells;
mod encoding;
mod hash;
mod key;
mod rows;
mod scale;

pub use cells::Cells;
pub use encoding::{Encoding, EncodingError, Field, FieldKind, Join, Label, LabelKind, Mean, Source, Stated};
pub use hash::{INTEGER_SEED, hash, integer_index, text_index};
pub use hash::{PRIME, hash_key, hash_with};
pub use key::{Categories, Key, KeyKind};
pub use rows::{Encoded, Example, Layout, UnitExamples};
pub use scale::{Scale, Span, present};
