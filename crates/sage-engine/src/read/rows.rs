//! The rows of a session: batches of typed columns that only the block reader creates.
//!
//! A batch has no public field and no public constructor, and its contents are reached only through [`Rows::row`]: in
//! enforced mode by the kernel, in attested mode by code that was charged for it. It can be neither printed nor copied.
//!
//! ```compile_fail
//! let batch = sage_engine::read::Batch { columns: Vec::new(), ends: None, length: 0 };
//! ```
//!
//! ```compile_fail
//! fn print(batch: &sage_engine::read::Batch) -> String {
//!     format!("{batch:?}")
//! }
//! ```
//!
//! ```compile_fail
//! fn copy(batch: &sage_engine::read::Batch) -> sage_engine::read::Batch {
//!     batch.clone()
//! }
//! ```
//!
//! The allowed use, which shows that the three examples above fail for the right reason:
//!
//! ```
//! use sage_kernel::Rows;
//! fn look(batch: &sage_engine::read::Batch) -> Option<f64> {
//!     batch.row(0).number(0)
//! }
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use sage_kernel::Rows;

use super::error::OpaqueFailure;

/// A column of the session.
enum Column {
    Number(Float64Array),
    Integer(Int64Array),
    Boolean(BooleanArray),
    Text(StringViewArray),
}

/// A batch of the session's rows.
pub struct Batch {
    columns: Vec<Column>,
    /// The end of each unit's records; `None` if every record is a unit.
    ends: Option<Vec<usize>>,
    length: usize,
}

impl Batch {
    /// A batch in which every record is a unit.
    pub(super) fn from_records(columns: &[ArrayRef], length: usize) -> Result<Self, OpaqueFailure> {
        let columns = columns.iter().map(typed_column).collect::<Result<_, _>>()?;
        Ok(Self { columns, ends: None, length })
    }

    /// A batch of units with several records, which end at these indices.
    pub(super) fn from_units(columns: &[ArrayRef], ends: Vec<usize>) -> Result<Self, OpaqueFailure> {
        let columns = columns.iter().map(typed_column).collect::<Result<_, _>>()?;
        Ok(Self { columns, length: ends.len(), ends: Some(ends) })
    }
}

impl Batch {
    /// Whether every record is a unit.
    pub(super) const fn is_of_records(&self) -> bool {
        self.ends.is_none()
    }

    /// All records, each as the front of its row.
    pub(crate) fn all_records(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.length).flat_map(|index| self.row(index).in_turn())
    }

    /// The records as an Arrow batch, for code that was charged for seeing them; `None` if the number of names differs
    /// from the number of columns.
    pub(crate) fn records(&self, names: &[String]) -> Option<RecordBatch> {
        let column = |column: &Column| -> ArrayRef {
            match column {
                Column::Number(column) => Arc::new(column.clone()),
                Column::Integer(column) => Arc::new(column.clone()),
                Column::Boolean(column) => Arc::new(column.clone()),
                Column::Text(column) => Arc::new(column.clone()),
            }
        };
        let named = names.iter().zip(&self.columns).map(|(name, own)| (name, column(own), true));
        let fits = names.len() == self.columns.len() && !names.is_empty();
        fits.then(|| RecordBatch::try_from_iter_with_nullable(named).ok()).flatten()
    }
}

fn typed_column(column: &ArrayRef) -> Result<Column, OpaqueFailure> {
    match column.data_type() {
        DataType::Float64 => Ok(Column::Number(column.as_primitive::<Float64Type>().clone())),
        DataType::Int64 => Ok(Column::Integer(column.as_primitive::<Int64Type>().clone())),
        DataType::Boolean => Ok(Column::Boolean(column.as_boolean().clone())),
        DataType::Utf8View => Ok(Column::Text(column.as_string_view().clone())),
        _ => Err(OpaqueFailure),
    }
}

impl Rows for Batch {
    type Row<'rows> = Row<'rows>;

    #[inline]
    fn count(&self) -> usize {
        self.length
    }

    #[inline]
    fn row(&self, index: usize) -> Row<'_> {
        match &self.ends {
            None => Row { batch: self, first: index, end: index + 1, front: index },
            Some(ends) => {
                let first = if index == 0 { 0 } else { ends[index - 1] };
                Row { batch: self, first, end: ends[index], front: first }
            }
        }
    }

    #[inline]
    fn records(&self, index: usize) -> usize {
        let row = self.row(index);
        row.end - row.first
    }

    #[inline]
    fn record(&self, index: usize, record: usize) -> Row<'_> {
        let row = self.row(index);
        Row { front: row.first + record, ..row }
    }
}

/// A row of the session: one privacy unit, which is a record or the records of a user.
///
/// The values of a row are those of the record in front, which is the first unless the kernel takes the records in turn. A
/// user's records are in random order, so the first is a random one.
#[derive(Clone, Copy)]
pub struct Row<'rows> {
    batch: &'rows Batch,
    first: usize,
    end: usize,
    front: usize,
}

impl<'rows> Row<'rows> {
    /// The unit's records; there is at least one.
    pub fn records(self) -> impl Iterator<Item = Record<'rows>> {
        (self.first..self.end).map(move |index| Record { batch: self.batch, index })
    }

    /// The row with each of its records in front.
    pub fn in_turn(self) -> impl Iterator<Item = Self> {
        (self.first..self.end).map(move |front| Self { front, ..self })
    }

    /// How many of the unit's records are before the one in front.
    pub const fn position(self) -> usize {
        self.front - self.first
    }

    /// The record in front.
    #[inline]
    pub const fn record(self) -> Record<'rows> {
        Record { batch: self.batch, index: self.front }
    }

    /// The number in this column, as [`Record::number`].
    #[inline]
    pub fn number(self, column: usize) -> Option<f64> {
        self.record().number(column)
    }

    /// The integer in this column, as [`Record::integer`].
    #[inline]
    pub fn integer(self, column: usize) -> Option<i64> {
        self.record().integer(column)
    }

    /// The boolean in this column, as [`Record::boolean`].
    #[inline]
    pub fn boolean(self, column: usize) -> Option<bool> {
        self.record().boolean(column)
    }

    /// The text in this column, as [`Record::text`].
    pub fn text(self, column: usize) -> Option<&'rows str> {
        self.record().text(column)
    }
}

/// One record. A value is `None` if it is null, of another type, or if the query has no such column.
#[derive(Clone, Copy)]
pub struct Record<'rows> {
    batch: &'rows Batch,
    index: usize,
}

impl<'rows> Record<'rows> {
    /// A number; booleans count as 1 or 0. It may be infinite or NaN.
    #[inline]
    pub fn number(self, column: usize) -> Option<f64> {
        match self.batch.columns.get(column)? {
            Column::Number(column) => column.is_valid(self.index).then(|| column.value(self.index)),
            Column::Integer(column) => column.is_valid(self.index).then(|| column.value(self.index) as f64),
            Column::Boolean(_) => self.boolean(column).map(f64::from),
            Column::Text(_) => None,
        }
    }

    /// An integer. Floats with an integer value count too, up to 2^53, because arithmetic gives floats.
    #[inline]
    pub fn integer(self, column: usize) -> Option<i64> {
        match self.batch.columns.get(column)? {
            Column::Integer(column) => column.is_valid(self.index).then(|| column.value(self.index)),
            Column::Number(_) => {
                let whole = |number: &f64| number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
                self.number(column).filter(whole).map(|number| number as i64)
            }
            _ => None,
        }
    }

    /// A boolean.
    #[inline]
    pub fn boolean(self, column: usize) -> Option<bool> {
        match self.batch.columns.get(column)? {
            Column::Boolean(column) => column.is_valid(self.index).then(|| column.value(self.index)),
            _ => None,
        }
    }

    /// A text.
    pub fn text(self, column: usize) -> Option<&'rows str> {
        match self.batch.columns.get(column)? {
            Column::Text(column) => column.is_valid(self.index).then(|| column.value(self.index)),
            _ => None,
        }
    }
}

impl sage_learn::encode::Source for Record<'_> {
    fn number(&self, column: u32) -> Option<f64> {
        Self::number(*self, column as usize)
    }

    fn integer(&self, column: u32) -> Option<i64> {
        let truth = || self.boolean(column as usize).map(i64::from);
        Self::integer(*self, column as usize).or_else(truth)
    }

    fn text(&self, column: u32) -> Option<&str> {
        Self::text(*self, column as usize)
    }
}
