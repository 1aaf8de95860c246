//! The session's rows: batches of typed columns that only the block reader makes.
//!
//! A batch has no public field and no public constructor, and what is in it is reached through
//! [`Rows::row`] alone: in the enforced mode by the kernel, in the declared mode by code that was charged
//! for it. It is neither printed nor copied.
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
//! What is allowed, so that the three above are known to fail for their reasons:
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

use super::error::Failed;

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
    /// Where each unit's records end. Nothing if every record is a unit.
    ends: Option<Vec<usize>>,
    length: usize,
}

impl Batch {
    /// Every record a unit.
    pub(super) fn of_records(columns: &[ArrayRef], length: usize) -> Result<Self, Failed> {
        let columns = columns.iter().map(typed).collect::<Result<_, _>>()?;
        Ok(Self { columns, ends: None, length })
    }

    /// Units of several records, each ending where it is said.
    pub(super) fn of_units(columns: &[ArrayRef], ends: Vec<usize>) -> Result<Self, Failed> {
        let columns = columns.iter().map(typed).collect::<Result<_, _>>()?;
        Ok(Self { columns, length: ends.len(), ends: Some(ends) })
    }
}

impl Batch {
    /// The records as Arrow has them, for code that was charged for seeing them; nothing if there are not as many
    /// names as columns.
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

fn typed(column: &ArrayRef) -> Result<Column, Failed> {
    match column.data_type() {
        DataType::Float64 => Ok(Column::Number(column.as_primitive::<Float64Type>().clone())),
        DataType::Int64 => Ok(Column::Integer(column.as_primitive::<Int64Type>().clone())),
        DataType::Boolean => Ok(Column::Boolean(column.as_boolean().clone())),
        DataType::Utf8View => Ok(Column::Text(column.as_string_view().clone())),
        _ => Err(Failed),
    }
}

impl Rows for Batch {
    type Row<'rows> = Row<'rows>;

    #[inline]
    fn count(&self) -> usize {
        self.length
    }

    #[inline]
    fn row(&self, place: usize) -> Row<'_> {
        match &self.ends {
            None => Row { batch: self, first: place, end: place + 1 },
            Some(ends) => {
                let first = if place == 0 { 0 } else { ends[place - 1] };
                Row { batch: self, first, end: ends[place] }
            }
        }
    }
}

/// A row of the session: one unit, which is a record or the records of a user.
///
/// The values of a row are those of its first record. A user's records come in the order in which they
/// were drawn, so the first is as good as any.
#[derive(Clone, Copy)]
pub struct Row<'rows> {
    batch: &'rows Batch,
    first: usize,
    end: usize,
}

impl<'rows> Row<'rows> {
    /// The unit's records; there is at least one.
    pub fn records(self) -> impl Iterator<Item = Record<'rows>> {
        (self.first..self.end).map(move |place| Record { batch: self.batch, place })
    }

    /// The first record.
    #[inline]
    pub const fn record(self) -> Record<'rows> {
        Record { batch: self.batch, place: self.first }
    }

    /// The first record's number at this place, as [`Record::number`].
    #[inline]
    pub fn number(self, place: usize) -> Option<f64> {
        self.record().number(place)
    }

    /// The first record's whole number at this place, as [`Record::integer`].
    #[inline]
    pub fn integer(self, place: usize) -> Option<i64> {
        self.record().integer(place)
    }

    /// The first record's truth value at this place, as [`Record::boolean`].
    #[inline]
    pub fn boolean(self, place: usize) -> Option<bool> {
        self.record().boolean(place)
    }

    /// The first record's text at this place, as [`Record::text`].
    pub fn text(self, place: usize) -> Option<&'rows str> {
        self.record().text(place)
    }
}

/// One record. A value is nothing if it is null, of another type, or the query has no such column.
#[derive(Clone, Copy)]
pub struct Record<'rows> {
    batch: &'rows Batch,
    place: usize,
}

impl<'rows> Record<'rows> {
    /// A number, whole or not; a truth value counts as one or zero. It may be infinite or no number at all.
    #[inline]
    pub fn number(self, place: usize) -> Option<f64> {
        match self.batch.columns.get(place)? {
            Column::Number(column) => column.is_valid(self.place).then(|| column.value(self.place)),
            Column::Integer(column) => column.is_valid(self.place).then(|| column.value(self.place) as f64),
            Column::Boolean(_) => self.boolean(place).map(f64::from),
            Column::Text(_) => None,
        }
    }

    /// A whole number. Arithmetic gives real numbers, so those that are whole count too, as far as every whole
    /// number is one.
    #[inline]
    pub fn integer(self, place: usize) -> Option<i64> {
        match self.batch.columns.get(place)? {
            Column::Integer(column) => column.is_valid(self.place).then(|| column.value(self.place)),
            Column::Number(_) => {
                let whole = |number: &f64| number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
                self.number(place).filter(whole).map(|number| number as i64)
            }
            _ => None,
        }
    }

    /// A truth value.
    #[inline]
    pub fn boolean(self, place: usize) -> Option<bool> {
        match self.batch.columns.get(place)? {
            Column::Boolean(column) => column.is_valid(self.place).then(|| column.value(self.place)),
            _ => None,
        }
    }

    /// A text.
    pub fn text(self, place: usize) -> Option<&'rows str> {
        match self.batch.columns.get(place)? {
            Column::Text(column) => column.is_valid(self.place).then(|| column.value(self.place)),
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
