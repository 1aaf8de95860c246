//! The columns and tables that formulas may refer to.
//!
//! ONNX runtimes have no nulls. So in the inputs of a graph null is represented by a value: NaN in a column of numbers,
//! the empty text in a column of texts. Inside a formula null is a separate state.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The most columns or tables, and the longest name in bytes.
const MOST: usize = 4_096;
const LONGEST_NAME: usize = 200;
/// The most keys of a table.
const MOST_KEYS: usize = 1 << 20;

/// A column of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type and declared bounds.
    pub domain: Domain,
    /// Whether it can be null.
    pub missing: Missing,
}

/// Whether a column can be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// Every row has a value.
    Never,
    /// Some rows may have none.
    Possible,
}

/// The type of a column with its declared bounds, from which synthetic rows are drawn. Formulas do not clip to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Domain {
    /// Numbers.
    Number {
        /// The least.
        low: f64,
        /// The greatest.
        high: f64,
    },
    /// Whole numbers. Formulas see them as `f64`, exact up to 2⁵³.
    Whole {
        /// The least.
        low: i64,
        /// The greatest.
        high: i64,
    },
    /// Truth values.
    Truth,
    /// Times, in whole seconds from 1970.
    Time {
        /// The earliest.
        first: i64,
        /// The latest.
        last: i64,
    },
    /// Texts.
    Text {
        /// The declared categories.
        categories: Vec<String>,
    },
    /// Hashes of texts: whole numbers from 0 to [`GREATEST_HASH`].
    Hashed,
}

/// The greatest value of a [`Domain::Hashed`] column. Formulas see hashes as `f64`, in which all up to 2⁵³ are exact.
pub const GREATEST_HASH: i64 = (1 << 53) - 1;

/// A table of released numbers by key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The name of its key.
    pub key: String,
    /// The keys.
    pub keys: Keys,
    /// The columns of values.
    pub columns: Vec<TableColumn>,
}

/// The keys of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Keys {
    /// Consecutive whole numbers.
    From {
        /// The first of them.
        first: i64,
        /// The number of keys.
        count: u32,
    },
    /// Texts.
    Texts(Vec<String>),
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// A finite number for each key.
    pub values: Vec<f64>,
}

/// Checked columns and tables: names are unique, bounds are ordered, numbers are finite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Schema {
    columns: Vec<Column>,
    tables: Vec<Table>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    columns: Vec<Column>,
    tables: Vec<Table>,
}

/// Why columns or tables are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaRefusal {
    /// The column or table, or what there is too much of.
    pub what: String,
    /// The reason.
    pub why: &'static str,
}

impl fmt::Display for SchemaRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.what, self.why)
    }
}

impl std::error::Error for SchemaRefusal {}

impl Keys {
    /// The number of keys.
    pub fn count(&self) -> usize {
        match self {
            Self::From { count, .. } => *count as usize,
            Self::Texts(texts) => texts.len(),
        }
    }
}

impl Schema {
    /// Checks columns and tables.
    pub fn new(columns: Vec<Column>, tables: Vec<Table>) -> Result<Self, SchemaRefusal> {
        if columns.len() > MOST || tables.len() > MOST {
            return Err(refusal("columns and tables", "there are too many"));
        }
        unique(columns.iter().map(|column| column.name.as_str()))?;
        unique(tables.iter().map(|table| table.name.as_str()))?;
        columns.iter().try_for_each(check_column)?;
        tables.iter().try_for_each(check_table)?;
        Ok(Self { columns, tables })
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The tables.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    pub(crate) fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, column)| column.name == name)
    }

    pub(crate) fn table(&self, name: &str, column: &str) -> Option<(&Table, &TableColumn)> {
        let table = self.tables.iter().find(|table| table.name == name)?;
        table.columns.iter().find(|candidate| candidate.name == column).map(|column| (table, column))
    }
}

impl TryFrom<Parts> for Schema {
    type Error = SchemaRefusal;

    fn try_from(parts: Parts) -> Result<Self, SchemaRefusal> {
        Self::new(parts.columns, parts.tables)
    }
}

impl From<Schema> for Parts {
    fn from(schema: Schema) -> Self {
        Self { columns: schema.columns, tables: schema.tables }
    }
}

fn refusal(what: &str, why: &'static str) -> SchemaRefusal {
    SchemaRefusal { what: what.to_owned(), why }
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), SchemaRefusal> {
    let mut seen = BTreeSet::new();
    for name in names {
        // Slashes are reserved for names inside the graph.
        let plain =
            !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(|c: char| c.is_control() || c == '/');
        if !plain {
            return Err(refusal(name, "a name has 1 to 200 bytes, and neither slashes nor control characters"));
        }
        if !seen.insert(name) {
            return Err(refusal(name, "the name is taken"));
        }
    }
    Ok(())
}

fn distinct(texts: &[String]) -> bool {
    texts.len() <= MOST_KEYS && texts.iter().collect::<BTreeSet<_>>().len() == texts.len()
}

fn check_column(column: &Column) -> Result<(), SchemaRefusal> {
    let in_order = match &column.domain {
        Domain::Number { low, high } => low.is_finite() && high.is_finite() && low <= high,
        Domain::Whole { low, high } => low <= high,
        Domain::Time { first, last } => first <= last,
        Domain::Truth | Domain::Hashed => true,
        Domain::Text { categories } => distinct(categories),
    };
    if !in_order {
        return Err(refusal(&column.name, "its bounds are not in order, not finite, or a category is a duplicate"));
    }
    let empty = matches!(&column.domain, Domain::Text { categories } if categories.iter().any(String::is_empty));
    if empty && column.missing == Missing::Possible {
        return Err(refusal(
            &column.name,
            "in a column that can be null the empty text means null and cannot be a category",
        ));
    }
    Ok(())
}

fn check_table(table: &Table) -> Result<(), SchemaRefusal> {
    unique(table.columns.iter().map(|column| column.name.as_str()).chain([table.key.as_str()]))?;
    let count = table.keys.count();
    let keys = match &table.keys {
        Keys::From { first, .. } => first.unsigned_abs() <= 1 << 52,
        Keys::Texts(texts) => distinct(texts),
    };
    if !keys || count == 0 || count > MOST_KEYS {
        return Err(refusal(&table.name, "it has no keys, too many, one out of range, or a duplicate"));
    }
    let values = table
        .columns
        .iter()
        .all(|column| column.values.len() == count && column.values.iter().all(|value| value.is_finite()));
    if !values || table.columns.is_empty() {
        return Err(refusal(&table.name, "it needs a finite value for each key in at least one column"));
    }
    Ok(())
}
