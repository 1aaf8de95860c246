//! The columns of a file without its rows: names, and types if the format has them.
//!
//! `sage init` drafts a stream's file from them. Bounds and categories are not read from rows, because that would
//! release information about rows without charging for it.

use std::path::Path;

use arrow::datatypes::DataType;

use super::{Format, IngestError, Input, OpenInput, catch_panics, csv, open_input, parquet};

/// A column of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnOutline {
    /// Its name.
    pub name: String,
    /// Its type, or `None` if the format has no types or the type is not supported.
    pub kind: Option<ColumnType>,
}

/// The type of a file's column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Real numbers.
    Number,
    /// Integers.
    Integer,
    /// True or false.
    Boolean,
    /// Instants or days.
    Time,
    /// Texts, possibly categories.
    Text,
}

/// Reads the columns of a CSV from its header, or of a Parquet file from its footer.
///
/// # Errors
/// When the file cannot be read, or its format has no header.
pub fn read_outline(path: &Path) -> Result<Vec<ColumnOutline>, IngestError> {
    let (file, bytes, format) = open_input(Input::File(path.to_owned(), None))?;
    catch_panics(&file, || match (format, bytes) {
        (Format::Csv, bytes) => {
            let names = csv::read_header(&file, bytes.into_reader())?;
            Ok(names.into_iter().map(|name| ColumnOutline { name, kind: None }).collect())
        }
        (Format::Parquet, OpenInput::File(bytes)) => {
            let schema = parquet::read_schema(&file, bytes)?;
            let column = |field: &std::sync::Arc<arrow::datatypes::Field>| ColumnOutline {
                name: field.name().clone(),
                kind: column_type(field.data_type()),
            };
            Ok(schema.fields().iter().map(column).collect())
        }
        _ => {
            let reason = "it has no header; give a CSV with one, or Parquet";
            Err(IngestError::Malformed { file: file.clone(), line: None, reason })
        }
    })
}

fn column_type(kind: &DataType) -> Option<ColumnType> {
    Some(match kind {
        DataType::Boolean => ColumnType::Boolean,
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => ColumnType::Time,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::Text,
        DataType::Dictionary(_, value) => return column_type(value),
        kind if kind.is_integer() => ColumnType::Integer,
        kind if kind.is_numeric() => ColumnType::Number,
        _ => return None,
    })
}
