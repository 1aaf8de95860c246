//! What a file says of its columns without its rows: names, and types where the format has them.
//!
//! From this a stream's file can be begun. Bounds and categories are not looked for: taken from rows, they would tell
//! something about rows, and nobody would have paid for it.

use std::path::Path;

use arrow::datatypes::DataType;

use super::{Format, IngestError, Input, Opened, csv, guarded, opened, parquet};

/// A column of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlined {
    /// Its name.
    pub name: String,
    /// Its type; nothing where the format has none.
    pub kind: Option<Typed>,
}

/// A type as a file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Real numbers.
    Number,
    /// Whole numbers.
    Integer,
    /// True or false.
    Boolean,
    /// Instants or days.
    Time,
    /// Texts, of which some are categories.
    Text,
}

/// The columns of a CSV by its header, or of a Parquet file by its footer.
///
/// # Errors
/// When the file cannot be read, or is of a format without a header.
pub fn outline(path: &Path) -> Result<Vec<Outlined>, IngestError> {
    let (file, bytes, format) = opened(Input::File(path.to_owned(), None))?;
    guarded(&file, || match (format, bytes) {
        (Format::Csv, bytes) => {
            let names = csv::names(&file, bytes.read())?;
            Ok(names.into_iter().map(|name| Outlined { name, kind: None }).collect())
        }
        (Format::Parquet, Opened::File(bytes)) => {
            let schema = parquet::schema(&file, bytes)?;
            let column = |field: &std::sync::Arc<arrow::datatypes::Field>| Outlined {
                name: field.name().clone(),
                kind: typed(field.data_type()),
            };
            Ok(schema.fields().iter().map(column).collect())
        }
        _ => {
            let reason = "it has no header; give a CSV with one, or Parquet";
            Err(IngestError::Malformed { file: file.clone(), line: None, reason })
        }
    })
}

fn typed(kind: &DataType) -> Option<Typed> {
    Some(match kind {
        DataType::Boolean => Typed::Boolean,
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => Typed::Time,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Typed::Text,
        DataType::Dictionary(_, value) => return typed(value),
        kind if kind.is_integer() => Typed::Integer,
        kind if kind.is_numeric() => Typed::Number,
        _ => return None,
    })
}
