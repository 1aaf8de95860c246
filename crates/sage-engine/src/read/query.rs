//! A query: what of each row a pipeline reads, checked and planned before anything is charged.
//!
//! Expressions see the declared columns of the stream and nothing else: no table, no file, and not the column of the
//! lanes.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use sage_sql::{Expr, Kind, Program, Refusal};

use super::refusal::QueryRefusal;
use crate::blocks::LANE_COLUMN;

const FILTER: &str = "filter";
const BOOLEAN: &str = "a filter must be true or false";
const RESULT: &str =
    "a column is a truth value, a number or text; for a time write extract(epoch from ...) and the like";

/// The columns of a row that are read, in the SQL of one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Rows for which this is false or null are left out. They stay charged.
    pub filter: Option<String>,
    /// What the session's rows consist of.
    pub columns: Vec<Expression>,
}

/// A column of the session's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// Its name.
    pub name: String,
    /// An expression over the stream's columns.
    pub sql: String,
}

/// A query that gives a value or null for every row, whatever the row holds.
pub struct Prepared {
    /// The declared columns of the stream, text as it is read.
    pub(super) schema: SchemaRef,
    /// The indices of the columns that the query reads, in order.
    pub(super) columns: Vec<usize>,
    names: Vec<String>,
    filter: Option<Program>,
    outputs: Vec<Program>,
}

impl Prepared {
    /// The names of the session's columns, in the order of their indices.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Which rows the filter keeps; `None` if there is no filter.
    pub(super) fn kept(&self, batch: &RecordBatch) -> Option<BooleanArray> {
        self.filter.as_ref().map(|filter| filter.matches(batch))
    }

    /// The columns of the session for these rows.
    pub(super) fn outputs(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.outputs.iter().map(|output| output.evaluate(batch)).collect()
    }
}

/// Checks that a query is row by row, deterministic and total, and plans it.
///
/// # Errors
/// A refusal that names the part and says what is allowed.
pub fn prepare(schema: &Schema, query: &Query) -> Result<Prepared, QueryRefusal> {
    let names: Vec<String> = query.columns.iter().map(|column| column.name.clone()).collect();
    for (index, name) in names.iter().enumerate() {
        if name.trim().is_empty() || names[..index].contains(name) {
            return Err(QueryRefusal::Name { name: name.clone() });
        }
    }
    // A stream that declares the lanes' column for itself would let queries name it.
    if schema.field_with_name(LANE_COLUMN).is_ok() {
        return Err(QueryRefusal::Name { name: LANE_COLUMN.to_owned() });
    }
    let schema = Arc::new(as_read(schema));
    let filter = query.filter.as_ref().map(|text| parsed(FILTER, text)).transpose()?;
    let outputs = query.columns.iter().map(|column| parsed(&column.name, &column.sql));
    let outputs = outputs.collect::<Result<Vec<Expr>, _>>()?;

    let whole = sage_sql::Schema::new(&schema);
    let is_read = |name: &str| filter.iter().chain(&outputs).any(|expression| expression.reads(name));
    let columns: Vec<usize> = (0..schema.fields().len()).filter(|&index| is_read(schema.field(index).name())).collect();
    let narrow = schema.project(&columns).map_err(|error| QueryRefusal::unreadable("schema", error))?;
    let schemas = Schemas { narrow: sage_sql::Schema::new(&narrow), whole };
    let filter = filter.map(|filter| planned(FILTER, &filter, &schemas, Purpose::Filter)).transpose()?;
    let outputs = names.iter().zip(&outputs);
    let outputs = outputs.map(|(name, output)| planned(name, output, &schemas, Purpose::Value));
    let outputs = outputs.collect::<Result<Vec<Program>, _>>()?;
    Ok(Prepared { schema, columns, names, filter, outputs })
}

/// The declared schema with text in the form that is cheapest to filter.
pub(super) fn as_read(declared: &Schema) -> Schema {
    let is_text = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let field = |field: &Arc<Field>| {
        let text = match field.data_type() {
            DataType::Dictionary(_, values) => is_text(values),
            other => is_text(other),
        };
        let kind = if text { DataType::Utf8View } else { field.data_type().clone() };
        Field::new(field.name(), kind, field.is_nullable())
    };
    Schema::new(declared.fields().iter().map(field).collect::<Vec<Field>>())
}

/// The syntax tree of an expression.
pub(super) fn parsed(name: &str, text: &str) -> Result<Expr, QueryRefusal> {
    sage_sql::parse(text).map_err(|why| QueryRefusal::of(name, why))
}

/// What an expression is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Filter,
    Value,
}

/// What expressions are planned on.
struct Schemas {
    /// The columns that the query reads, in the order in which batches hold them.
    narrow: sage_sql::Schema,
    /// All columns of the stream, of which a refusal names those that are near.
    whole: sage_sql::Schema,
}

/// Plans an expression on the columns that are read. Only a refused one is planned a second time, on all columns, for a
/// message that knows them.
fn planned(name: &str, expression: &Expr, schemas: &Schemas, purpose: Purpose) -> Result<Program, QueryRefusal> {
    let refused = |why: Refusal| QueryRefusal::of(name, why);
    let program = sage_sql::plan(expression, &schemas.narrow)
        .map_err(|why| refused(sage_sql::plan(expression, &schemas.whole).err().unwrap_or(why)))?;
    match (purpose, program.kind()) {
        (Purpose::Filter, Kind::Boolean | Kind::Null) => {}
        (Purpose::Filter, _) => return Err(QueryRefusal::part(name, expression, BOOLEAN)),
        (Purpose::Value, Kind::Time) => return Err(QueryRefusal::part(name, expression, RESULT)),
        (Purpose::Value, _) => {}
    }
    sage_sql::rehearse(&program, &schemas.narrow, &expression.to_string()).map_err(refused)?;
    Ok(program)
}
