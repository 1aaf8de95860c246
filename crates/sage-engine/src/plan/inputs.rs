//! What a model sees of a row: from the features and the label of a pipeline to a query, an encoding and formulas.
//!
//! A label that is a number is learned as its share of the way between its bounds, from 0 to 1, so that learners
//! need not know its units; the trained model is stretched back. A value whose mean by group is a feature stands
//! beside the row: it is known for rows of the stream and not when the model is asked.

use sage_learn::encode::{
    Categories, Encoding, Field, FieldKind, Join, Key, KeyKind, Label as EncodedLabel, LabelKind, Mean, Scale, Span,
    Stated,
};
use sage_model::bundle::{self, Feature as GraphFeature};
use sage_model::formula::{Column as GraphColumn, Domain, Missing};

use super::refusal::PlanRefusal;
use super::{Table, Tables};
use crate::pipeline::{Bounds, Feature, Keys, Label, Metric, Missing as Absent, Pipeline, ReleasedTable, Source};
use crate::read::{Expression, Query, formula};
use crate::stream::{Column, Kind, StreamFile};
use crate::suggest::nearest;

/// What a model sees of a row.
#[derive(Clone, Debug)]
pub struct Inputs {
    encoding: Encoding,
    columns: Vec<GraphColumn>,
    sources: Vec<GraphFeature>,
    label: Option<(f64, f64)>,
}

impl Inputs {
    /// How rows are encoded; group means are not fitted yet.
    pub const fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// The bounds of a label that is a number; nothing where it is a class.
    pub const fn label(&self) -> Option<(f64, f64)> {
        self.label
    }

    /// What of a graph follows from a fitted encoding.
    ///
    /// # Errors
    /// When a graph cannot hold it, which [`super::Recipe::new`] has seen before.
    pub fn graph(&self, fitted: &Encoding) -> Result<bundle::Fields, bundle::GraphRefusal> {
        bundle::fields(&self.columns, &self.sources, fitted)
    }
}

/// The query and the inputs of a pipeline that has features.
pub(super) fn of(pipeline: &Pipeline, file: &StreamFile, tables: &dyn Tables) -> Result<(Query, Inputs), PlanRefusal> {
    let mut writing = Writing { file, tables, columns: Vec::new(), fields: Vec::new() };
    for (name, feature) in &pipeline.features.0 {
        writing.feature(name, feature, pipeline)?;
    }
    let served = writing.columns.len();
    let (label, bounds) = writing.label(pipeline)?;
    for (name, feature) in &pipeline.features.0 {
        writing.beside(name, feature);
    }
    let Writing { columns, fields, .. } = writing;
    let schema = file.row_schema();
    let source = |expression: &Expression| {
        let formula = formula(&schema, expression).map_err(PlanRefusal::Query)?;
        Ok(GraphFeature { name: expression.name.clone(), formula })
    };
    let sources = columns[..served].iter().map(source).collect::<Result<Vec<_>, PlanRefusal>>()?;
    let encoding = Encoding::new(Stated { fields, label }).map_err(PlanRefusal::Encoding)?;
    let declared = graph_columns(file);
    let inputs = Inputs { encoding, columns: declared, sources, label: bounds };
    // Whether a graph can hold it does not depend on what a table will hold.
    let mut fitted = inputs.encoding.clone();
    for (name, _, join) in inputs.encoding.joins().filter(|(.., join)| join.table.is_empty()) {
        let means = vec![join.scale.low; join.key.places() as usize];
        fitted = fitted.with_table(name, &means).map_err(PlanRefusal::Encoding)?;
    }
    inputs.graph(&fitted).map_err(PlanRefusal::Graph)?;
    Ok((Query { filter: pipeline.filter.clone(), columns }, inputs))
}

/// Columns of the query and fields of the encoding, as they come together.
struct Writing<'file> {
    file: &'file StreamFile,
    tables: &'file dyn Tables,
    columns: Vec<Expression>,
    fields: Vec<Field>,
}

impl Writing<'_> {
    /// The place of an expression among the columns; the same text has one place.
    fn column(&mut self, name: &str, sql: &str) -> u32 {
        if let Some(place) = self.columns.iter().position(|column| column.sql == sql) {
            return place as u32;
        }
        self.columns.push(Expression { name: name.to_owned(), sql: sql.to_owned() });
        (self.columns.len() - 1) as u32
    }

    fn source(&mut self, name: &str, of: &Source) -> Result<u32, PlanRefusal> {
        match of {
            Source::Sql(sql) => Ok(self.column(name, sql)),
            Source::Column(column) => {
                known(self.file, column)?;
                Ok(self.column(name, &identifier(column)))
            }
        }
    }

    fn feature(&mut self, name: &str, feature: &Feature, pipeline: &Pipeline) -> Result<(), PlanRefusal> {
        let kind = match feature {
            Feature::Scale { of, bounds, missing } => {
                let (column, low) = (self.source(name, of)?, unit_scale(*bounds, Some(0.0)));
                let missing = match missing {
                    Absent::LeftOut => None,
                    Absent::Constant(constant) => low.apply(Some(*constant)),
                    Absent::Indicator => {
                        let kind = FieldKind::Missing { column };
                        self.fields.push(Field { name: indicator_name(name), kind });
                        Some(0.0)
                    }
                };
                FieldKind::Number { column, scale: Scale { missing, ..low } }
            }
            Feature::Cross { of: [one, two], places } => {
                if places.is_some() {
                    let why = "a cross into a hash cannot be trained yet; leave `hash` out, or cross fewer categories";
                    return Err(PlanRefusal::part(name, why));
                }
                FieldKind::Cross(self.key(one, pipeline)?, self.key(two, pipeline)?)
            }
            Feature::GroupMean { by, keys, bounds, .. } => {
                let key = Key { column: self.column(name, by), kind: one_of(keys) };
                let mean = Mean::Field(beside_name(name));
                FieldKind::Join(Join { key, mean, scale: unit_scale(*bounds, Some(0.0)), table: Vec::new() })
            }
            Feature::Released(table) => self.released(name, table)?,
            _ => FieldKind::Category(self.key(name, pipeline)?),
        };
        self.fields.push(Field { name: name.to_owned(), kind });
        Ok(())
    }

    /// A released table, looked up by the row's key. What the table does not know is the middle of its bounds.
    fn released(&mut self, name: &str, table: &ReleasedTable) -> Result<FieldKind, PlanRefusal> {
        let versioned = table.release.split_once('@').is_some_and(|(_, version)| version.parse::<u32>().is_ok());
        if !versioned {
            let why = "a released table is named with its version, such as `speed-by-hour@2`: an alias can move";
            return Err(PlanRefusal::part(name, why));
        }
        let missing = || PlanRefusal::part(name, format!("there is no released group_mean `{}`", table.release));
        let Table { keys, bounds, values } = self.tables.table(&table.release).ok_or_else(missing)?;
        let scale = unit_scale(bounds, Some(0.0));
        let middle = bounds.low() + 0.5 * (bounds.high() - bounds.low());
        let known = values.into_iter().map(|value| value.unwrap_or(middle)).chain([middle]);
        let table_of = known.filter_map(|value| scale.apply(Some(value))).collect();
        let key = Key { column: self.column(name, &table.by), kind: one_of(&keys) };
        // Whose mean it is was settled when it was released.
        Ok(FieldKind::Join(Join { key, mean: Mean::Label, scale, table: table_of }))
    }

    /// The key of a feature that is one of several places.
    fn key(&mut self, name: &str, pipeline: &Pipeline) -> Result<Key, PlanRefusal> {
        let missing = || PlanRefusal::part(name, "it is no feature with places");
        let feature = pipeline.features.get(name).ok_or_else(missing)?;
        let (of, kind) = match feature {
            Feature::OneHot { of, keys } => (of, one_of(keys)),
            Feature::Bucket { of, edges } => (of, KeyKind::Bucket(edges.clone())),
            Feature::Hash { of, places } => (of, KeyKind::HashInteger(*places)),
            _ => return Err(missing()),
        };
        Ok(Key { column: self.source(name, of)?, kind })
    }

    /// The value that a group mean is of, beside the row. A row without it is in no mean.
    fn beside(&mut self, name: &str, feature: &Feature) {
        if let Feature::GroupMean { of, bounds, .. } = feature {
            let name = beside_name(name);
            let column = self.column(&name, of);
            self.fields.push(Field { name, kind: FieldKind::Beside { column, scale: unit_scale(*bounds, None) } });
        }
    }

    fn label(&mut self, pipeline: &Pipeline) -> Result<(EncodedLabel, Option<(f64, f64)>), PlanRefusal> {
        let (sql, bounds) = label_of(pipeline, self.file)?;
        bounds_of(pipeline, bounds)?;
        let (sql, kind) = match bounds {
            None => (sql, LabelKind::Truth),
            Some((low, high)) => {
                let share = format!("(({sql}) - ({low:?})) / {:?}", high - low);
                (share, LabelKind::Number { low: 0.0, high: 1.0 })
            }
        };
        Ok((EncodedLabel { column: self.column("label", &sql), kind }, bounds))
    }
}

/// The label as SQL, and its bounds where it is a number.
pub(super) fn label_of(pipeline: &Pipeline, file: &StreamFile) -> Result<(String, Option<(f64, f64)>), PlanRefusal> {
    let missing = || PlanRefusal::part("label", "what is predicted: a column, or an expression with its bounds");
    Ok(match pipeline.label.as_ref().ok_or_else(missing)? {
        Label::Truth(sql) => (sql.clone(), None),
        Label::Number { sql, bounds } => (sql.clone(), Some((bounds.low(), bounds.high()))),
        Label::Column(column) => (identifier(column), label_bounds(known(file, column)?)?),
    })
}

/// Whether learner and metric are about what the label is: classes have no bounds, numbers do.
pub(super) fn bounds_of(pipeline: &Pipeline, bounds: Option<(f64, f64)>) -> Result<(), PlanRefusal> {
    let metric = pipeline.validate.as_ref().map(|validate| validate.metric);
    let classes = metric.is_some_and(Metric::is_of_classes) || pipeline.train.learns_classes();
    match (classes, bounds) {
        (true, Some(_)) => Err(PlanRefusal::part("label", "a class: { truth = \"...\" } or a column of truth values")),
        (false, None) => {
            Err(PlanRefusal::part("label", "a number: a column with bounds, or { sql = \"...\", bounds = [0, 1] }"))
        }
        _ => Ok(()),
    }
}

/// The name of what stands beside a row for a group mean. No feature has a name with a control character.
fn beside_name(name: &str) -> String {
    format!("{name}\u{1}")
}

/// The name of the indicator of a feature that is missing.
fn indicator_name(name: &str) -> String {
    format!("{name}\u{2}")
}

fn known<'file>(file: &'file StreamFile, name: &str) -> Result<&'file Column, PlanRefusal> {
    file.column(name).map(|(_, column)| column).ok_or_else(|| {
        let names: Vec<&str> = file.columns.iter().map(|column| column.name.as_str()).collect();
        PlanRefusal::NoColumn { name: name.to_owned(), nearest: nearest(name, &names).map(str::to_owned) }
    })
}

/// A column's name as SQL.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn unit_scale(bounds: Bounds, missing: Option<f32>) -> Scale {
    Scale { low: bounds.low(), high: bounds.high(), span: Span::Unit, missing }
}

fn one_of(keys: &Keys) -> KeyKind {
    KeyKind::OneOf(match keys {
        Keys::Count(count) => Categories::Integers((0..i64::from(*count)).collect()),
        Keys::Texts(texts) => Categories::Texts(texts.clone()),
    })
}

/// The bounds of a column that is a number; nothing where it is a truth value.
fn label_bounds(column: &Column) -> Result<Option<(f64, f64)>, PlanRefusal> {
    match column.kind {
        Kind::Boolean => Ok(None),
        Kind::Number { min, max, .. } if min < max => Ok(Some((min, max))),
        Kind::Integer { min, max, .. } if min < max => Ok(Some((min as f64, max as f64))),
        _ => Err(PlanRefusal::part("label", "a column of numbers with bounds, or of truth values, or an expression")),
    }
}

/// The columns of a stream as a graph sees them.
pub(crate) fn graph_columns(file: &StreamFile) -> Vec<GraphColumn> {
    file.columns.iter().filter_map(graph_column).collect()
}

/// The column as a graph sees it; texts that are no categories it does not.
fn graph_column(column: &Column) -> Option<GraphColumn> {
    let domain = match &column.kind {
        Kind::Number { min, max, .. } => Domain::Number { low: *min, high: *max },
        Kind::Integer { min, max, .. } => Domain::Whole { low: *min, high: *max },
        Kind::Boolean => Domain::Truth,
        Kind::Time { span } => {
            Domain::Time { first: span.0.div_euclid(1_000_000), last: (span.1 - 1).div_euclid(1_000_000) }
        }
        Kind::Category { categories, .. } => Domain::Text { categories: categories.clone() },
        Kind::Text { .. } => return None,
    };
    let missing = if column.nullable { Missing::Possible } else { Missing::Never };
    Some(GraphColumn { name: column.name.clone(), domain, missing })
}
