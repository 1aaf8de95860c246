//! The inputs of a model: the query, the encoding and the formulas that follow from a pipeline's features and label.
//!
//! A numeric label is normalised to [0, 1] by its bounds, so that learners need not know its units; the trained model
//! is rescaled. The value of a group mean is kept beside the row: it is known for rows of the stream, but not at
//! prediction.

use sage_kernel::Contribution;
use sage_learn::encode::{
    Categories, Encoding, Field, FieldKind, Join, Key, KeyKind, Label as EncodedLabel, LabelKind, Mean, Scale, Span,
    Stated,
};
use sage_model::bundle::{self, Feature as GraphFeature};
use sage_model::formula::{Column as GraphColumn, Domain, Missing};

use super::label::{LabelValues, check_label_kind, label_expression};
use super::refusal::PlanRefusal;
use super::{Table, Tables};
use crate::pipeline::{Bounds, Feature, Keys, Missing as Absent, Pipeline, ReleasedTable, Source};
use crate::read::{Expression, Query, formula};
use crate::stream::{Column, Kind, StreamFile};
use crate::suggest::nearest;

/// The inputs of a model.
#[derive(Clone, Debug)]
pub struct Inputs {
    encoding: Encoding,
    columns: Vec<GraphColumn>,
    sources: Vec<GraphFeature>,
    label: LabelValues,
    contribution: Contribution,
}

impl Inputs {
    /// The most records of a privacy unit that count.
    pub const fn contribution(&self) -> Contribution {
        self.contribution
    }

    /// The row encoding, before group means are fitted.
    pub const fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// The bounds of a numeric label; `None` for a class.
    pub const fn label(&self) -> Option<(f64, f64)> {
        self.label.bounds()
    }

    /// The classes of a label with several, whose encoded label is the index of the class; empty for other labels.
    pub fn classes(&self) -> &[String] {
        self.label.classes()
    }

    /// The width of the range of a label that is a number; one for classes.
    pub fn label_width(&self) -> f64 {
        self.label().map_or(1.0, |(low, high)| high - low)
    }

    /// The input fields of the model graph, from a fitted encoding.
    ///
    /// # Errors
    /// When the graph cannot represent them, which [`super::Recipe::new`] has ruled out.
    pub fn graph(&self, fitted: &Encoding) -> Result<bundle::Fields, bundle::GraphRefusal> {
        bundle::fields(&self.columns, &self.sources, fitted)
    }
}

/// Plans the query and the inputs of a pipeline with features.
pub(super) fn plan_inputs(
    pipeline: &Pipeline, file: &StreamFile, tables: &dyn Tables,
) -> Result<(Query, Inputs), PlanRefusal> {
    let mut builder = InputBuilder { file, tables, columns: Vec::new(), fields: Vec::new() };
    for (name, feature) in &pipeline.features.0 {
        builder.add_feature(name, feature, pipeline)?;
    }
    let served = builder.columns.len();
    let (label, values) = builder.add_label(pipeline)?;
    for (name, feature) in &pipeline.features.0 {
        builder.add_group_value(name, feature);
    }
    let InputBuilder { columns, fields, .. } = builder;
    let schema = file.row_schema();
    let source = |expression: &Expression| {
        let formula = formula(&schema, expression).map_err(PlanRefusal::Query)?;
        Ok(GraphFeature { name: expression.name.clone(), formula })
    };
    let sources = columns[..served].iter().map(source).collect::<Result<Vec<_>, PlanRefusal>>()?;
    let encoding = Encoding::new(Stated { fields, label }).map_err(PlanRefusal::Encoding)?;
    let declared = graph_columns(file);
    let contribution = file.unit.contribution();
    let inputs = Inputs { encoding, columns: declared, sources, label: values, contribution };
    // Whether the graph can represent the inputs does not depend on the values of a table.
    let mut fitted = inputs.encoding.clone();
    for (name, _, join) in inputs.encoding.joins().filter(|(.., join)| join.table.is_empty()) {
        let means = vec![join.scale.low; join.key.categories() as usize];
        fitted = fitted.with_table(name, &means).map_err(PlanRefusal::Encoding)?;
    }
    inputs.graph(&fitted).map_err(PlanRefusal::Graph)?;
    Ok((Query { filter: pipeline.filter.clone(), columns }, inputs))
}

/// Collects the columns of the query and the fields of the encoding.
struct InputBuilder<'file> {
    file: &'file StreamFile,
    tables: &'file dyn Tables,
    columns: Vec<Expression>,
    fields: Vec<Field>,
}

impl InputBuilder<'_> {
    /// The index of an expression among the columns. Equal texts share a column.
    fn column_index(&mut self, name: &str, sql: &str) -> u32 {
        if let Some(index) = self.columns.iter().position(|column| column.sql == sql) {
            return index as u32;
        }
        self.columns.push(Expression { name: name.to_owned(), sql: sql.to_owned() });
        (self.columns.len() - 1) as u32
    }

    fn source_index(&mut self, name: &str, of: &Source) -> Result<u32, PlanRefusal> {
        match of {
            Source::Sql(sql) => Ok(self.column_index(name, sql)),
            Source::Column(column) => {
                find_column(self.file, column)?;
                Ok(self.column_index(name, &identifier(column)))
            }
        }
    }

    fn add_feature(&mut self, name: &str, feature: &Feature, pipeline: &Pipeline) -> Result<(), PlanRefusal> {
        let kind = match feature {
            Feature::Scale { of, bounds, missing } => {
                let (column, low) = (self.source_index(name, of)?, unit_scale(*bounds, Some(0.0)));
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
            Feature::Cross { of: [one, two], buckets } => {
                if buckets.is_some() {
                    let why = "a cross into a hash cannot be trained yet; leave `hash` out, or cross fewer categories";
                    return Err(PlanRefusal::part(name, why));
                }
                FieldKind::Cross(self.feature_key(one, pipeline)?, self.feature_key(two, pipeline)?)
            }
            Feature::GroupMean { by, keys, bounds, .. } => {
                let key = Key { column: self.column_index(name, by), kind: category_key(keys) };
                let mean = Mean::Field(group_value_name(name));
                FieldKind::Join(Join { key, mean, scale: unit_scale(*bounds, Some(0.0)), table: Vec::new() })
            }
            Feature::Released(table) => self.released_table(name, table)?,
            _ => FieldKind::Category(self.feature_key(name, pipeline)?),
        };
        self.fields.push(Field { name: name.to_owned(), kind });
        Ok(())
    }

    /// A released table, looked up by the row's key. Unknown keys get the middle of the bounds.
    fn released_table(&mut self, name: &str, table: &ReleasedTable) -> Result<FieldKind, PlanRefusal> {
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
        let key = Key { column: self.column_index(name, &table.by), kind: category_key(&keys) };
        // A released table is not fitted again, so `mean` is not used.
        Ok(FieldKind::Join(Join { key, mean: Mean::Label, scale, table: table_of }))
    }

    /// The key of a categorical feature.
    fn feature_key(&mut self, name: &str, pipeline: &Pipeline) -> Result<Key, PlanRefusal> {
        let missing = || PlanRefusal::part(name, "it is not a categorical feature; use onehot, bucket or hash");
        let feature = pipeline.features.get(name).ok_or_else(missing)?;
        let (of, kind) = match feature {
            Feature::OneHot { of, keys } => (of, category_key(keys)),
            Feature::Bucket { of, edges } => (of, KeyKind::Bucket(edges.clone())),
            Feature::Hash { of, buckets } => (of, KeyKind::HashInteger(*buckets)),
            _ => return Err(missing()),
        };
        Ok(Key { column: self.source_index(name, of)?, kind })
    }

    /// Adds the value of a group mean beside the row. Rows without the value are in no mean.
    fn add_group_value(&mut self, name: &str, feature: &Feature) {
        if let Feature::GroupMean { of, bounds, .. } = feature {
            let name = group_value_name(name);
            let column = self.column_index(&name, of);
            self.fields.push(Field { name, kind: FieldKind::Beside { column, scale: unit_scale(*bounds, None) } });
        }
    }

    fn add_label(&mut self, pipeline: &Pipeline) -> Result<(EncodedLabel, LabelValues), PlanRefusal> {
        let (sql, values) = label_expression(pipeline, self.file)?;
        check_label_kind(pipeline, &values)?;
        let (sql, kind) = match &values {
            LabelValues::Number { low, high } => {
                let normalised = format!("(({sql}) - ({low:?})) / {:?}", high - low);
                (normalised, LabelKind::Number { low: 0.0, high: 1.0 })
            }
            LabelValues::Truth | LabelValues::Classes(_) => (sql, values.kind()),
        };
        Ok((EncodedLabel { column: self.column_index("label", &sql), kind }, values))
    }
}

/// The field name of a group mean's value. Feature names contain no control characters, so it is unique.
fn group_value_name(name: &str) -> String {
    format!("{name}\u{1}")
}

/// The field name of the missing-value indicator of a feature.
fn indicator_name(name: &str) -> String {
    format!("{name}\u{2}")
}

pub(super) fn find_column<'file>(file: &'file StreamFile, name: &str) -> Result<&'file Column, PlanRefusal> {
    file.column(name).map(|(_, column)| column).ok_or_else(|| {
        let names: Vec<&str> = file.columns.iter().map(|column| column.name.as_str()).collect();
        PlanRefusal::NoColumn { name: name.to_owned(), nearest: nearest(name, &names).map(str::to_owned) }
    })
}

/// A column name as a quoted SQL identifier.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn unit_scale(bounds: Bounds, missing: Option<f32>) -> Scale {
    Scale { low: bounds.low(), high: bounds.high(), span: Span::Unit, missing }
}

fn category_key(keys: &Keys) -> KeyKind {
    KeyKind::OneOf(match keys {
        Keys::Count(count) => Categories::Integers((0..i64::from(*count)).collect()),
        Keys::Texts(texts) => Categories::Texts(texts.clone()),
    })
}

/// The columns of a stream that a model graph can take.
pub(crate) fn graph_columns(file: &StreamFile) -> Vec<GraphColumn> {
    file.columns.iter().filter_map(graph_column).collect()
}

/// The column as an input of a model graph; `None` for text without categories.
fn graph_column(column: &Column) -> Option<GraphColumn> {
    let domain = match &column.kind {
        Kind::Number { min, max, .. } => Domain::Number { low: *min, high: *max },
        Kind::Integer { min, max, .. } => Domain::Whole { low: *min, high: *max },
        Kind::Boolean => Domain::Truth,
        Kind::Time { span } => {
            Domain::Time { first: span.0.div_euclid(1_000_000), last: (span.1 - 1).div_euclid(1_000_000) }
        }
        Kind::Category { categories, .. } => Domain::Text { categories: categories.clone() },
        Kind::Hashed => Domain::Hashed,
        Kind::Text { .. } => return None,
    };
    let missing = if column.nullable { Missing::Possible } else { Missing::Never };
    Some(GraphColumn { name: column.name.clone(), domain, missing })
}
