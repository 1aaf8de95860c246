//! The per-row query of a pipeline, checked and planned before anything is charged.
//!
//! Expressions see the declared columns of the stream and nothing else: no table, no file, and not the lane column.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use sage_sql::{Expr, Kind, Program, Refusal};

use super::refusal::QueryRefusal;
use crate::blocks::LANE_COLUMN;

const FILTER: &str = "filter";
const BOOLEAN: &str = "a filter must be true or false";
const RESULT: &str = "a column is a boolean, a number or text; for a time use extract(epoch from ...) or similar";

/// The columns and the filter that are computed from each row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Rows for which this is false or null are excluded. They stay charged.
    pub filter: Option<String>,
    /// The columns of the session's rows.
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

/// A checked and planned query. It gives a value or null for every row.
pub struct PreparedQuery {
    /// The declared columns of the stream, with the text type that is decoded.
    pub(super) schema: SchemaRef,
    /// The indices of the columns that the query reads, in order.
    pub(super) columns: Vec<usize>,
    names: Vec<String>,
    filter: Option<Program>,
    outputs: Vec<Program>,
}

impl PreparedQuery {
    /// The names of the session's columns, in the order of their indices.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The rows that the filter keeps; `None` without a filter.
    pub(super) fn filter_mask(&self, batch: &RecordBatch) -> Option<BooleanArray> {
        self.filter.as_ref().map(|filter| filter.matches(batch))
    }

    /// The columns of the session for these rows.
    pub(super) fn outputs(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.outputs.iter().map(|output| output.evaluate(batch)).collect()
    }
}

/// Checks that a query is row-wise, deterministic and total, and plans it.
///
/// # Errors
/// A refusal that names the part and what is allowed instead.
pub fn prepare(schema: &Schema, query: &Query) -> Result<PreparedQuery, QueryRefusal> {
    let names: Vec<String> = query.columns.iter().map(|column| column.name.clone()).collect();
    for (index, name) in names.iter().enumerate() {
        if name.trim().is_empty() || names[..index].contains(name) {
            return Err(QueryRefusal::Name { name: name.clone() });
        }
    }
    // If the stream declared the lane column itself, queries could read it.
    if schema.field_with_name(LANE_COLUMN).is_ok() {
        return Err(QueryRefusal::Name { name: LANE_COLUMN.to_owned() });
    }
    let schema = Arc::new(decoded_schema(schema));
    let filter = query.filter.as_ref().map(|text| parse_expression(FILTER, text)).transpose()?;
    let outputs = query.columns.iter().map(|column| parse_expression(&column.name, &column.sql));
    let outputs = outputs.collect::<Result<Vec<Expr>, _>>()?;

    let whole = sage_sql::Schema::new(&schema);
    let is_read = |name: &str| filter.iter().chain(&outputs).any(|expression| expression.reads(name));
    let columns: Vec<usize> = (0..schema.fields().len()).filter(|&index| is_read(schema.field(index).name())).collect();
    let narrow = schema.project(&columns).map_err(|error| QueryRefusal::unreadable("schema", error))?;
    let schemas = Schemas { narrow: sage_sql::Schema::new(&narrow), whole };
    let filter = filter.map(|filter| plan_expression(FILTER, &filter, &schemas, Purpose::Filter)).transpose()?;
    let outputs = names.iter().zip(&outputs);
    let outputs = outputs.map(|(name, output)| plan_expression(name, output, &schemas, Purpose::Value));
    let outputs = outputs.collect::<Result<Vec<Program>, _>>()?;
    Ok(PreparedQuery { schema, columns, names, filter, outputs })
}

/// The type of an expression's values.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn value_kind(schema: &Schema, expression: &Expression) -> Result<Kind, QueryRefusal> {
    let parsed = parse_expression(&expression.name, &expression.sql)?;
    let schema = sage_sql::Schema::new(&decoded_schema(schema));
    let program = sage_sql::plan(&parsed, &schema).map_err(|why| QueryRefusal::from_sql(&expression.name, why))?;
    Ok(program.kind())
}

/// The declared schema with text as `Utf8View`, which is cheapest to filter.
pub(super) fn decoded_schema(declared: &Schema) -> Schema {
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

/// Parses an expression.
pub(super) fn parse_expression(name: &str, text: &str) -> Result<Expr, QueryRefusal> {
    sage_sql::parse(text).map_err(|why| QueryRefusal::from_sql(name, why))
}

/// The purpose of an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Filter,
    Value,
}

/// The schemas that expressions are planned on.
struct Schemas {
    /// The columns that the query reads, in the order in which batches hold them.
    narrow: sage_sql::Schema,
    /// All columns of the stream, for suggestions in refusals.
    whole: sage_sql::Schema,
}

/// Plans an expression on the columns that are read. A refused expression is planned again on all columns, so that the
/// message can name them.
fn plan_expression(
    name: &str, expression: &Expr, schemas: &Schemas, purpose: Purpose,
) -> Result<Program, QueryRefusal> {
    let refused = |why: Refusal| QueryRefusal::from_sql(name, why);
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
