//! A query: what of each row a pipeline looks at, checked and planned before anything is charged.
//!
//! The planner sees the declared columns of the stream and nothing else: no table, no file, and not the
//! column of the lanes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::ExecutionProps;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

use super::evaluate::{Failed, truths, values};
use super::refusal::QueryRefusal;
use super::{allow, probe, quick, total};
use crate::blocks::LANE_COLUMN;

/// The longest text of an expression.
const LONGEST: usize = 20_000;

const FILTER: &str = "filter";
const BOOLEAN: &str = "a filter must be true or false";
const RESULT: &str =
    "a column is a truth value, a number or text; for a time write extract(epoch from ...) and the like";
const FAILS: &str = "it cannot be evaluated for every row that the schema allows";

/// What of each row is looked at, in the SQL of one row.
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

/// A query that gives a value for every row, whatever the row holds.
pub struct Prepared {
    /// The declared columns of the stream, text as it is read.
    pub(super) schema: SchemaRef,
    /// The places of the columns the query looks at, in order.
    pub(super) places: Vec<usize>,
    names: Vec<String>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    outputs: Vec<Arc<dyn PhysicalExpr>>,
}

impl Prepared {
    /// The names of the session's columns; a row gives them by their places.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Which rows the filter keeps. Nothing if there is no filter.
    pub(super) fn kept(&self, batch: &RecordBatch) -> Result<Option<BooleanArray>, Failed> {
        self.filter.as_ref().map(|filter| truths(filter, batch)).transpose()
    }

    /// The columns of the session for these rows.
    pub(super) fn outputs(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, Failed> {
        self.outputs.iter().map(|output| values(output, batch)).collect()
    }
}

/// Checks that a query is row by row, always the same and without failure for any row, and plans it.
///
/// # Errors
/// A refusal that names the part and says what is allowed.
pub fn prepare(schema: &Schema, query: &Query) -> Result<Prepared, QueryRefusal> {
    let names: Vec<String> = query.columns.iter().map(|column| column.name.clone()).collect();
    for (place, name) in names.iter().enumerate() {
        if name.trim().is_empty() || names[..place].contains(name) {
            return Err(QueryRefusal::Name { name: name.clone() });
        }
    }
    // A stream that declares the lanes' column for itself would let queries name it.
    if schema.field_with_name(LANE_COLUMN).is_ok() {
        return Err(QueryRefusal::Name { name: LANE_COLUMN.to_owned() });
    }
    let schema = Arc::new(as_read(schema));
    let whole = planned(&schema)?;
    let state = SessionStateBuilder::new().with_default_features().build();
    let mut filter = None;
    if let Some(text) = &query.filter {
        filter = Some(logical(&state, &whole, FILTER, text)?);
    }
    let outputs = query.columns.iter().map(|column| logical(&state, &whole, &column.name, &column.sql));
    let outputs = outputs.collect::<Result<Vec<Expr>, _>>()?;

    let looked_at = |field: &str| {
        let names = |expression: &Expr| expression.column_refs().iter().any(|column| column.name == field);
        filter.iter().chain(&outputs).any(names)
    };
    let places: Vec<usize> =
        (0..schema.fields().len()).filter(|&place| looked_at(schema.field(place).name())).collect();
    let narrow = Arc::new(schema.project(&places).map_err(|error| QueryRefusal::unreadable("schema", error))?);
    let visible = planned(&narrow)?;
    let filter = filter.map(|filter| physical(FILTER, filter, &visible, Wanted::Truth)).transpose()?;
    let columns = names.iter().zip(outputs);
    let outputs = columns.map(|(name, output)| physical(name, output, &visible, Wanted::Value));
    let prepared = Prepared { outputs: outputs.collect::<Result<_, _>>()?, schema, places, names, filter };
    rehearse(&prepared, query, &narrow)?;
    Ok(prepared)
}

/// The declared schema with text in the form that is cheapest to filter.
pub(super) fn as_read(declared: &Schema) -> Schema {
    let is_text = |found: &DataType| match found {
        DataType::Dictionary(_, values) => total::is_text(values),
        other => total::is_text(other),
    };
    let field = |field: &Arc<Field>| match is_text(field.data_type()) {
        true => Field::new(field.name(), DataType::Utf8View, field.is_nullable()),
        false => Field::new(field.name(), field.data_type().clone(), field.is_nullable()),
    };
    Schema::new(declared.fields().iter().map(field).collect::<Vec<Field>>())
}

/// What the planner sees: any column may hold nulls, since a time that is too far away becomes one.
pub(super) fn planned(schema: &Schema) -> Result<DFSchema, QueryRefusal> {
    let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
    let schema = Schema::new(schema.fields().iter().map(nullable).collect::<Vec<Field>>());
    DFSchema::try_from(schema).map_err(|error| QueryRefusal::unreadable("schema", error.strip_backtrace()))
}

fn logical(state: &SessionState, schema: &DFSchema, place: &str, text: &str) -> Result<Expr, QueryRefusal> {
    total::make(place, allowed(state, schema, place, text)?, schema)
}

/// An expression all of whose parts are allowed.
pub(super) fn allowed(state: &SessionState, schema: &DFSchema, place: &str, text: &str) -> Result<Expr, QueryRefusal> {
    if text.len() > LONGEST {
        return Err(QueryRefusal::TooLarge { expression: place.to_owned() });
    }
    let parsed = state.create_logical_expr(text, schema);
    let expression = parsed.map_err(|error| QueryRefusal::unreadable(place, error.strip_backtrace()))?.unalias();
    allow::check(place, &expression)?;
    Ok(expression)
}

/// What an expression is for.
#[derive(Clone, Copy)]
enum Wanted {
    Truth,
    Value,
}

fn physical(
    place: &str, expression: Expr, schema: &DFSchema, wanted: Wanted,
) -> Result<Arc<dyn PhysicalExpr>, QueryRefusal> {
    let refused = |error: datafusion::error::DataFusionError| QueryRefusal::unreadable(place, error.strip_backtrace());
    let found = expression.get_type(schema).map_err(refused)?;
    let shown = expression.human_display().to_string();
    let to = match (wanted, &found) {
        (_, DataType::Boolean) | (Wanted::Truth, DataType::Null) => DataType::Boolean,
        (Wanted::Truth, _) => return Err(QueryRefusal::part(place, shown, BOOLEAN)),
        (Wanted::Value, DataType::Null | DataType::UInt64) => DataType::Float64,
        (Wanted::Value, found) if found.is_floating() => DataType::Float64,
        (Wanted::Value, found) if found.is_integer() => DataType::Int64,
        (Wanted::Value, found) if total::is_text(found) => DataType::Utf8View,
        _ => return Err(QueryRefusal::part(place, shown, RESULT)),
    };
    let expression = if found == to { expression } else { total::cast_to(expression, to) };
    let expression = quick::quicker(expression).map_err(refused)?;
    create_physical_expr(&expression, schema, &ExecutionProps::new(), &PhysicalPlanningContext::default())
        .map_err(refused)
}

/// Evaluates the query on made-up rows of the worst kind: what fails there is refused here, where nothing
/// can be learnt from it, instead of on rows that somebody sent.
fn rehearse(prepared: &Prepared, query: &Query, schema: &SchemaRef) -> Result<(), QueryRefusal> {
    for batch in probe::batches(schema).map_err(|_| QueryRefusal::part("schema", "a column", FAILS))? {
        let filtered = catch_unwind(AssertUnwindSafe(|| prepared.kept(&batch)));
        if !matches!(filtered, Ok(Ok(_))) {
            return Err(QueryRefusal::part(FILTER, query.filter.as_deref().unwrap_or_default(), FAILS));
        }
        for (column, output) in query.columns.iter().zip(&prepared.outputs) {
            let evaluated = catch_unwind(AssertUnwindSafe(|| values(output, &batch)));
            if !matches!(evaluated, Ok(Ok(_))) {
                return Err(QueryRefusal::part(&column.name, &column.sql, FAILS));
            }
        }
    }
    Ok(())
}
