//! Released tables as Parquet files, for users who want the features without the model.
//!
//! They are copies: the graph and its description contain the numbers too, and these files are never parsed.

use std::collections::BTreeSet;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::formula::{Keys, Table};

/// The first and last four bytes of a file.
pub(super) const MAGIC: &[u8] = b"PAR1";

/// The unique file names of these tables.
pub(super) fn names(tables: &[Table]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '_' };
        let word: String = table.name.chars().map(plain).take(60).collect();
        let mut name = format!("features/{word}.parquet");
        if !taken.insert(name.clone()) {
            // It is unique: `word` contains no dot.
            name = format!("features/{word}.{number}.parquet");
        }
        names.push(name);
    }
    names
}

/// The file of a table: a row for each key.
pub(super) fn write(table: &Table) -> Result<Vec<u8>, ParquetError> {
    let column = |name: &str, physical, logical| {
        let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
        builder.with_logical_type(logical).build().map(Arc::new)
    };
    let mut columns = vec![match &table.keys {
        Keys::From { .. } => column(&table.key, Physical::INT64, None)?,
        Keys::Texts(_) => column(&table.key, Physical::BYTE_ARRAY, Some(LogicalType::String))?,
    }];
    for values in &table.columns {
        columns.push(column(&values.name, Physical::DOUBLE, None)?);
    }
    let schema = Arc::new(Type::group_type_builder("table").with_fields(columns).build()?);
    let properties = WriterProperties::builder().set_created_by("sage".to_owned()).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    if let Some(mut keys) = group.next_column()? {
        match &table.keys {
            Keys::From { first, count } => {
                let wholes: Vec<i64> = (0..i64::from(*count)).map(|offset| first + offset).collect();
                keys.typed::<Int64Type>().write_batch(&wholes, None, None)?;
            }
            Keys::Texts(texts) => {
                let texts: Vec<ByteArray> = texts.iter().map(|text| ByteArray::from(text.as_str())).collect();
                keys.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
            }
        }
        keys.close()?;
    }
    for values in &table.columns {
        if let Some(mut column) = group.next_column()? {
            column.typed::<DoubleType>().write_batch(&values.values, None, None)?;
            column.close()?;
        }
    }
    group.close()?;
    writer.into_inner()
}
