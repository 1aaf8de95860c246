//! From an encoding and a trained model to a graph that contains the whole preprocessing of a row.
//!
//! The encoding refers to columns by index; here each column is a feature with its formula. What an encoding supports
//! and a graph does not (a hash of text, a list of hundreds of non-consecutive integers) is refused before anything is
//! charged: [`fields`] needs no model.

use super::category_index::CategoryIndex;
use super::graph::{
    Activation, Feature, Field, Graph, GraphRefusal, Layer, Link, Outline, Scaled, Shape, Weights, refused,
};
use crate::formula::{
    Case, Column, Comparison, Domain, Formula, Keys, Kind, Lookup, Missing, Schema, SchemaRefusal, Table, TableColumn,
};
use sage_learn::encode::{Categories, Encoding, FieldKind, INTEGER_SEED, Join, Key, KeyKind, Scale, Span};
use sage_learn::linear::LinearModel;
use sage_learn::network::{Inputs, Loss, Network};

/// The most integers of a list that are compared one by one.
const LISTED: usize = 400;

/// A trained model.
#[derive(Clone, Copy)]
pub enum Model<'model> {
    /// A linear model.
    Linear(&'model LinearModel),
    /// A network.
    Network(&'model Network),
}

/// The part of a graph that follows from the encoding alone.
pub struct Fields {
    schema: Schema,
    features: Vec<Feature>,
    fields: Vec<Field>,
}

/// The features and fields of an encoding whose columns are computed by these formulas, in their order, over the
/// columns of a stream. Columns and formulas that no field needs are left out.
///
/// # Errors
/// If a graph cannot contain a field; the refusal names it.
pub fn fields(columns: &[Column], sources: &[Feature], encoding: &Encoding) -> Result<Fields, GraphRefusal> {
    let schema_refused = |refusal: SchemaRefusal| GraphRefusal::Part { part: refusal.what, why: refusal.why };
    let named: Vec<&str> = sources.iter().flat_map(|source| source.formula.columns()).collect();
    let declared = columns.iter().filter(|column| named.contains(&column.name.as_str())).cloned().collect();
    let declared = Schema::new(declared, Vec::new()).map_err(schema_refused)?;
    let sources: Vec<Feature> = sources.iter().map(|source| finite(source, &declared)).collect();
    let mut builder = GraphBuilder { sources: &sources, features: Vec::new(), tables: Vec::new() };
    let mut fields = Vec::new();
    for field in &encoding.stated().fields {
        fields.push(match &field.kind {
            FieldKind::Beside { .. } => continue,
            FieldKind::Number { column, scale } => {
                let feature = builder.source(*column)?;
                Field::Number(scaled(feature, scale))
            }
            FieldKind::Missing { column } => {
                let feature = builder.indicator(*column)?;
                Field::Number(Scaled { feature, low: 0.0, high: 1.0, shift: 0.0, factor: 1.0, missing: Some(1.0) })
            }
            FieldKind::Category(key) => Field::OneHot(builder.category(&field.name, key)?),
            FieldKind::Cross(one, other) => Field::OneHot(CategoryIndex::Cross(vec![
                builder.category(&field.name, one)?,
                builder.category(&field.name, other)?,
            ])),
            FieldKind::Join(join) => builder.join(&field.name, join)?,
        });
    }
    let used: Vec<&str> = builder.features.iter().flat_map(|feature| feature.formula.columns()).collect();
    let columns = columns.iter().filter(|column| used.contains(&column.name.as_str())).cloned().collect();
    let schema = Schema::new(columns, builder.tables).map_err(schema_refused)?;
    Ok(Fields { schema, features: builder.features, fields })
}

impl Fields {
    /// The graph of a model that was trained on rows of this encoding.
    ///
    /// # Errors
    /// When the model is of another layout, or the graph would be too large.
    pub fn with(self, model: Model<'_>) -> Result<Graph, GraphRefusal> {
        let Self { schema, features, mut fields } = self;
        let (shapes, weights, link) = match model {
            Model::Linear(model) => linear(model),
            Model::Network(network) => {
                if let Inputs::Embedded { width, .. } = network.shape().inputs() {
                    fields.iter_mut().for_each(|field| embed(field, *width));
                }
                layers(network)
            }
        };
        Graph::new(
            Outline { schema, features, fields, layers: shapes, link, classes: Vec::new(), steps: Vec::new() },
            weights,
        )
    }

    /// The graph of a model that is given layer by layer, for learners with models of their own.
    ///
    /// # Errors
    /// If the weights do not fit the fields or each other, or the graph is too large.
    pub fn with_layers(self, layers: Vec<Shape>, weights: Weights, link: Link) -> Result<Graph, GraphRefusal> {
        let Self { schema, features, fields } = self;
        Graph::new(Outline { schema, features, fields, layers, link, classes: Vec::new(), steps: Vec::new() }, weights)
    }
}

/// The graph built so far.
struct GraphBuilder<'encoding> {
    sources: &'encoding [Feature],
    features: Vec<Feature>,
    tables: Vec<Table>,
}

impl GraphBuilder<'_> {
    /// The name of the feature for a column of the encoding.
    fn source(&mut self, column: u32) -> Result<String, GraphRefusal> {
        let source = self.sources.get(column as usize);
        let source = source.ok_or_else(|| refused("encoding", "it reads a column that has no formula"))?;
        Ok(self.feature(source.clone()))
    }

    /// The name of a feature that is 1 where a column of the encoding is missing and 0 elsewhere.
    fn indicator(&mut self, column: u32) -> Result<String, GraphRefusal> {
        let source = self.sources.get(column as usize);
        let source = source.ok_or_else(|| refused("encoding", "it reads a column that has no formula"))?;
        let missing = Formula::IsNull(Box::new(source.formula.clone()));
        let (name, formula) = (format!("{} is missing", source.name), Formula::AsNumber(Box::new(missing)));
        Ok(self.feature(Feature { name, formula }))
    }

    /// Adds a feature unless it exists, and returns its name. If another formula has the name, a prime is appended.
    fn feature(&mut self, mut feature: Feature) -> String {
        while let Some(known) = self.features.iter().find(|known| known.name == feature.name) {
            if known.formula == feature.formula {
                return feature.name;
            }
            feature.name.push('\'');
        }
        self.features.push(feature.clone());
        feature.name
    }

    fn category(&mut self, field: &str, key: &Key) -> Result<CategoryIndex, GraphRefusal> {
        let feature = self.source(key.column)?;
        let otherwise = key.categories() - 1;
        Ok(match &key.kind {
            KeyKind::OneOf(Categories::Texts(categories)) => {
                CategoryIndex::Category { feature, categories: categories.clone(), otherwise }
            }
            KeyKind::OneOf(Categories::Integers(integers)) => match consecutive(integers) {
                Some(first) => CategoryIndex::Index { feature, first, count: otherwise, otherwise },
                None => {
                    let feature = self.listed(field, key.column, integers)?;
                    CategoryIndex::Index { feature, first: 0, count: otherwise, otherwise }
                }
            },
            KeyKind::Bucket(edges) => CategoryIndex::Bucket { feature, edges: edges.clone(), otherwise },
            KeyKind::HashInteger(count) => {
                CategoryIndex::Hash { feature, seed: INTEGER_SEED, count: *count, otherwise }
            }
            KeyKind::HashText(_) => return Err(refused(field, "a graph cannot hash text; list its categories")),
        })
    }

    /// A feature that is the index of an integer in a list.
    fn listed(&mut self, field: &str, column: u32, integers: &[i64]) -> Result<String, GraphRefusal> {
        if integers.len() > LISTED {
            return Err(refused(field, "a graph lists at most 400 integers that are not consecutive; hash them"));
        }
        let source = &self.sources[column as usize].formula;
        let name = format!("{field} in its list");
        let formula = index_in(source, integers);
        Ok(self.feature(Feature { name, formula }))
    }

    /// A joined field: a table of released means and a lookup by key.
    fn join(&mut self, field: &str, join: &Join) -> Result<Field, GraphRefusal> {
        let missing = || refused(field, "its table has not been fitted");
        let (&otherwise, named) = join.table.split_last().ok_or_else(missing)?;
        let source = self.sources.get(join.key.column as usize);
        let source = &source.ok_or_else(|| refused(field, "it reads a column that has no formula"))?.formula;
        let counted = |count: usize| Keys::From { first: 0, count: count as u32 };
        let (keys, key) = match &join.key.kind {
            KeyKind::OneOf(Categories::Texts(texts)) => (Keys::Texts(texts.clone()), source.clone()),
            KeyKind::OneOf(Categories::Integers(integers)) => match consecutive(integers) {
                Some(first) => (Keys::From { first, count: integers.len() as u32 }, source.clone()),
                None if integers.len() <= LISTED => (counted(integers.len()), index_in(source, integers)),
                None => return Err(refused(field, "a table's keys must be consecutive, or at most 400")),
            },
            KeyKind::Bucket(edges) if edges.len() <= LISTED => (counted(edges.len() + 1), reached(source, edges)),
            _ => return Err(refused(field, "a graph looks up categories, whole numbers and buckets, not hashes")),
        };
        let mean = |&number: &f32| unscaled(number, &join.scale);
        let column = TableColumn { name: "mean".to_owned(), values: named.iter().map(mean).collect() };
        let table = Table { name: field.to_owned(), key: "key".to_owned(), keys, columns: vec![column] };
        self.tables.push(table);
        let lookup = Lookup { table: field.to_owned(), column: "mean".to_owned(), key: Box::new(key) };
        let formula = Formula::Coalesce(vec![Formula::Lookup(lookup), Formula::Number(mean(&otherwise))]);
        let feature = self.feature(Feature { name: format!("{field} looked up"), formula });
        Ok(Field::Number(scaled(feature, &join.scale)))
    }
}

/// The source with NaN and infinities as null, if it is a number that can be either.
fn finite(source: &Feature, schema: &Schema) -> Feature {
    let number = source.formula.check(schema) == Ok(Kind::Number) && !is_finite(&source.formula, schema);
    let formula = source.formula.clone();
    let formula = if number { Formula::Finite(Box::new(formula)) } else { formula };
    Feature { name: source.name.clone(), formula }
}

/// Whether a formula is finite wherever it is not null.
fn is_finite(formula: &Formula, schema: &Schema) -> bool {
    match formula {
        Formula::Column(name) => schema.column(name).is_some_and(|(_, column)| {
            matches!(column.domain, Domain::Whole { .. } | Domain::Hashed) && column.missing == Missing::Never
        }),
        Formula::Number(_) | Formula::Part(..) | Formula::AsNumber(_) | Formula::Lookup(_) => true,
        _ => false,
    }
}

/// The first of consecutive integers; `None` if they are not consecutive.
fn consecutive(integers: &[i64]) -> Option<i64> {
    let follows = integers.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    integers.first().copied().filter(|_| follows)
}

/// The index of a number in a list of integers; null if it is not listed.
fn index_in(source: &Formula, integers: &[i64]) -> Formula {
    let equal = |&integer: &i64| {
        Formula::Compare(Comparison::Equal, Box::new(source.clone()), Box::new(Formula::Number(integer as f64)))
    };
    let branches = integers.iter().zip(0..).map(|(integer, index)| (equal(integer), Formula::Number(f64::from(index))));
    Formula::Case(Case { branches: branches.collect(), otherwise: None })
}

/// The number of edges that a number reaches; null for null and NaN.
fn reached(source: &Formula, edges: &[f64]) -> Formula {
    let below =
        |&edge: &f64| Formula::Compare(Comparison::Less, Box::new(source.clone()), Box::new(Formula::Number(edge)));
    let mut branches: Vec<(Formula, Formula)> =
        edges.iter().zip(0..).map(|(edge, index)| (below(edge), Formula::Number(f64::from(index)))).collect();
    if let Some(last) = edges.last() {
        let above = Formula::Compare(Comparison::AtLeast, Box::new(source.clone()), Box::new(Formula::Number(*last)));
        branches.push((above, Formula::Number(edges.len() as f64)));
    }
    Formula::Case(Case { branches, otherwise: None })
}

fn scaled(feature: String, scale: &Scale) -> Scaled {
    let (low, high) = (scale.low, scale.high);
    let (shift, factor) = match scale.span {
        Span::Unit => (low, 1.0 / (high - low)),
        Span::Signed => (0.5 * low + 0.5 * high, 2.0 / (high - low)),
    };
    Scaled { feature, low, high, shift, factor, missing: scale.missing.map(f64::from) }
}

/// The inverse of the scale.
fn unscaled(number: f32, scale: &Scale) -> f64 {
    let share = match scale.span {
        Span::Unit => f64::from(number),
        Span::Signed => 0.5 * (f64::from(number) + 1.0),
    };
    scale.low + share * (scale.high - scale.low)
}

fn embed(field: &mut Field, width: u32) {
    if let Field::OneHot(category) = field {
        *field = Field::Embedded { category: category.clone(), width };
    }
}

fn linear(model: &LinearModel) -> (Vec<Shape>, Weights, Link) {
    let weights = model.weights.iter().map(|&weight| weight as f32).collect();
    let layer = Layer { weights, bias: vec![model.bias as f32] };
    let (low, high) = (model.label.0 as f32, model.label.1 as f32);
    let shape = Shape { outputs: 1, activation: Activation::Identity };
    let weights = Weights { embeddings: Vec::new(), layers: vec![layer], arrays: Vec::new() };
    (vec![shape], weights, Link::Clipped { low, high })
}

/// The layers of a network. Its own weights are input-major, with the biases last.
fn layers(network: &Network) -> (Vec<Shape>, Weights, Link) {
    let shapes = network.shape().layers();
    let embedded = match network.shape().inputs() {
        Inputs::Direct => 0,
        Inputs::Embedded { fields, .. } => fields.len(),
    };
    let (embeddings, dense) = network.parameters().split_at(embedded);
    let last = dense.len().saturating_sub(1);
    let mut layers = Vec::with_capacity(dense.len());
    let mut outline = Vec::with_capacity(dense.len());
    for (depth, (parameters, shape)) in dense.iter().zip(&shapes[embedded..]).enumerate() {
        let outputs = shape.outputs as usize;
        let (weights, bias) = parameters.split_at(parameters.len() - outputs);
        let of = |output: usize| weights.iter().skip(output).step_by(outputs).copied();
        layers.push(Layer { weights: (0..outputs).flat_map(of).collect(), bias: bias.to_vec() });
        let activation = if depth == last { Activation::Identity } else { Activation::Relu };
        outline.push(Shape { outputs: shape.outputs, activation });
    }
    let link = match network.shape().loss() {
        Loss::Squared => Link::Identity,
        Loss::Logistic => Link::Sigmoid,
        Loss::Softmax { .. } => Link::Softmax,
    };
    (outline, Weights { embeddings: embeddings.to_vec(), layers, arrays: Vec::new() }, link)
}
