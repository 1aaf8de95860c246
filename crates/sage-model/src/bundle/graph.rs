//! The graph of a bundle: columns, features, fields, layers.
//!
//! A row's columns become features by formulas, features become the inputs of a model by fields, and inputs become
//! the prediction by layers. Learners translate what they fitted into this form. The inputs of the first layer are
//! the numbers in the order of their fields, then the embeddings, then one input for each category of
//! the other fields: the order of [`sage_learn::encode::Layout`], with embeddings between.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::category_index::CategoryIndex;
use super::steps::{self, Step};
use crate::formula::{Cell, Formula, FormulaRefusal, Kind, Schema};

/// Limits of a graph.
const MOST_PARTS: usize = 4_096;
const MOST_WEIGHTS: u64 = 1 << 27;
const MOST_LAYERS: usize = 64;

/// Everything but the weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outline {
    /// Columns of a row, and tables that formulas look into. The columns are the inputs of the graph; each is used.
    pub schema: Schema,
    /// The features, computed from the columns.
    pub features: Vec<Feature>,
    /// The inputs of the model, computed from the features.
    pub fields: Vec<Field>,
    /// The layers of the model; a linear model has one.
    pub layers: Vec<Shape>,
    /// The link from the last layer's outputs to the prediction.
    pub link: Link,
    /// The names of the classes whose probabilities are predicted, in the order of the outputs; empty for a model that
    /// predicts numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// The steps of a model that is not layers; there are layers or steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// A named formula.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Its name.
    pub name: String,
    /// How it is computed: a number, a truth value (which counts as 0 or 1), or a column of texts.
    pub formula: Formula,
}

/// An input of the model, computed from a feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Field {
    /// One number.
    Number(Scaled),
    /// A feature as it is, in single precision, and NaN where it is null. For steps alone.
    Plain(String),
    /// A category, one-hot encoded. The file keeps the name that earlier bundles have.
    #[serde(rename = "place")]
    OneHot(CategoryIndex),
    /// A category, embedded.
    Embedded {
        /// The category index.
        #[serde(rename = "place")]
        category: CategoryIndex,
        /// The width of the embedding.
        width: u32,
    },
}

/// A number clipped, shifted and scaled: `(clip(x) − shift) · factor`, in `f64`, then rounded to `f32`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaled {
    /// The feature.
    pub feature: String,
    /// The lower clipping bound.
    pub low: f64,
    /// The upper clipping bound.
    pub high: f64,
    /// Subtracted from the number.
    pub shift: f64,
    /// The factor after the shift.
    pub factor: f64,
    /// The input where the feature is missing (null or NaN), neither shifted nor scaled. Without it the model leaves such
    /// rows out: its prediction is NaN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<f64>,
}

/// The shape of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// The number of outputs.
    pub outputs: u32,
    /// The activation.
    pub activation: Activation,
}

/// The activation of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// None.
    Identity,
    /// ReLU.
    Relu,
    /// Hyperbolic tangent.
    Tanh,
    /// The logistic function.
    Sigmoid,
}

/// The link function from the last layer's outputs to the prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// None.
    Identity,
    /// Clipped to a range.
    Clipped {
        /// Its lower end.
        low: f32,
        /// Its upper end.
        high: f32,
    },
    /// Each a probability by the logistic function.
    Sigmoid,
    /// Softmax.
    Softmax,
}

/// The weights of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The embedding table of each embedded field, row by row.
    pub embeddings: Vec<Vec<f32>>,
    /// The layers.
    pub layers: Vec<Layer>,
    /// The arrays of the steps, in the order in which they are used.
    pub arrays: Vec<Vec<f32>>,
}

/// The weights of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Output-major weights.
    pub weights: Vec<f32>,
    /// The bias of each output.
    pub bias: Vec<f32>,
}

/// A checked graph: an outline with weights that fit it.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    outline: Outline,
    weights: Weights,
}

/// Why a graph is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphRefusal {
    /// A formula is invalid.
    Formula {
        /// The feature.
        feature: String,
        /// What is wrong with its formula.
        refusal: FormulaRefusal,
    },
    /// Something else.
    Part {
        /// The part.
        part: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl fmt::Display for GraphRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Formula { feature, refusal } => write!(f, "feature `{feature}`: {refusal}"),
            Self::Part { part, why } => write!(f, "{part}: {why}"),
        }
    }
}

impl std::error::Error for GraphRefusal {}

pub(super) fn refused(part: &str, why: &'static str) -> GraphRefusal {
    GraphRefusal::Part { part: part.to_owned(), why }
}

impl Outline {
    /// The number of inputs of the first layer: numbers, embedding values, one-hot columns.
    pub fn inputs(&self) -> [u64; 3] {
        let mut inputs = [0; 3];
        for field in &self.fields {
            match field {
                Field::Number(_) | Field::Plain(_) => inputs[0] += 1,
                Field::Embedded { width, .. } => inputs[1] += u64::from(*width),
                Field::OneHot(category) => inputs[2] += category.categories(),
            }
        }
        inputs
    }

    /// Whether the model leaves rows out: some number has no rule for missing values.
    pub fn leaves_rows_out(&self) -> bool {
        self.strict().next().is_some()
    }

    /// Whether the model leaves this row out, which has a cell for each column: its prediction is NaN.
    pub fn leaves_out(&self, row: &[Cell]) -> bool {
        self.strict().any(|scaled| {
            let found = self.feature(&scaled.feature).map(|feature| feature.formula.evaluate(&self.schema, row));
            match found {
                Some(Cell::Number(number)) => number.is_nan(),
                Some(Cell::Truth(_)) => false,
                _ => true,
            }
        })
    }

    /// The numbers without a rule for missing values.
    fn strict(&self) -> impl Iterator<Item = &Scaled> {
        self.fields.iter().filter_map(|field| match field {
            Field::Number(scaled) if scaled.missing.is_none() => Some(scaled),
            _ => None,
        })
    }

    /// The number of outputs of a prediction.
    pub fn outputs(&self) -> u32 {
        if self.steps.is_empty() {
            return self.layers.last().map_or(1, |shape| shape.outputs);
        }
        let last = steps::widths(self).ok().and_then(|widths| widths.last().copied());
        last.and_then(|width| u32::try_from(width).ok()).unwrap_or(1)
    }

    /// The length of each array of the steps.
    pub(super) fn arrays(&self) -> Result<Vec<u64>, GraphRefusal> {
        steps::widths(self).map(|widths| steps::arrays(self, &widths))
    }

    /// For each embedded field its number of rows and their width.
    pub(super) fn embeddings(&self) -> impl Iterator<Item = (u64, u32)> {
        self.fields.iter().filter_map(|field| match field {
            Field::Embedded { category, width } => Some((category.categories(), *width)),
            _ => None,
        })
    }

    /// For each layer its number of outputs and of inputs.
    pub(super) fn sizes(&self) -> Vec<(u64, u64)> {
        let mut inputs = self.inputs().iter().sum();
        let mut sizes = Vec::new();
        for shape in &self.layers {
            sizes.push((u64::from(shape.outputs), inputs));
            inputs = u64::from(shape.outputs);
        }
        sizes
    }

    /// The feature of this name.
    pub(super) fn feature(&self, name: &str) -> Option<&Feature> {
        self.features.iter().find(|feature| feature.name == name)
    }

    /// Checks that the graph can be written and is within all limits. Allocations do not depend on the stated sizes.
    pub fn check(&self) -> Result<(), GraphRefusal> {
        let layered = self.steps.is_empty();
        if !layered && (!self.layers.is_empty() || self.link != Link::Identity) {
            return Err(refused("graph", "it has layers and a link, or steps, and not both"));
        }
        let layers = if layered { self.layers.len() } else { 1 };
        let counts = [self.features.len(), self.fields.len(), layers * MOST_PARTS / MOST_LAYERS];
        if counts.iter().any(|count| !(1..=MOST_PARTS).contains(count)) {
            return Err(refused("graph", "features and fields number 1 to 4096, layers 1 to 64"));
        }
        self.check_features()?;
        self.check_classes()?;
        for field in &self.fields {
            match field {
                Field::Number(scaled) => self.check_scaled(scaled)?,
                Field::Plain(_) if layered => return Err(refused("field", "layers take scaled numbers")),
                Field::Plain(feature) => self.require_kind(feature, Kind::Number)?,
                Field::OneHot(category) => category.check(self)?,
                Field::Embedded { category, width } => {
                    category.check(self)?;
                    if !(1..=4_096).contains(width) {
                        return Err(refused("embedding", "a row has 1 to 4096 numbers"));
                    }
                }
            }
        }
        if !layered {
            return steps::widths(self).map(|_| ());
        }
        if self.layers.iter().any(|shape| !(1..=65_536).contains(&shape.outputs)) {
            return Err(refused("layer", "a layer has 1 to 65536 outputs"));
        }
        let rows = self.embeddings().map(|(rows, width)| rows * u64::from(width));
        let products = self.sizes().into_iter().map(|(outputs, inputs)| outputs * inputs);
        let weights = rows.chain(products).fold(0_u64, u64::saturating_add);
        if weights > MOST_WEIGHTS { Err(refused("graph", "it has more than 2^27 weights")) } else { Ok(()) }
    }

    fn check_classes(&self) -> Result<(), GraphRefusal> {
        let names: BTreeSet<&String> = self.classes.iter().collect();
        let named = names.len() == self.classes.len() && self.classes.iter().all(|name| !name.is_empty());
        if self.classes.is_empty() || named && self.link == Link::Softmax && names.len() == self.outputs() as usize {
            return Ok(());
        }
        Err(refused("classes", "they are different names, one for each output of a softmax"))
    }

    fn check_features(&self) -> Result<(), GraphRefusal> {
        let mut used = BTreeSet::new();
        let mut names = BTreeSet::new();
        for feature in &self.features {
            let kind = feature.formula.check(&self.schema);
            let kind = kind.map_err(|refusal| GraphRefusal::Formula { feature: feature.name.clone(), refusal })?;
            if kind == Kind::Time {
                return Err(refused(&feature.name, "a time is no feature; take a part of it"));
            }
            if !names.insert(feature.name.as_str()) {
                return Err(refused(&feature.name, "two features have this name"));
            }
            used.extend(feature.formula.columns());
        }
        let unused = self.schema.columns().iter().find(|column| !used.contains(column.name.as_str()));
        unused.map_or(Ok(()), |column| Err(refused(&column.name, "no feature uses this column")))
    }

    fn check_scaled(&self, scaled: &Scaled) -> Result<(), GraphRefusal> {
        self.require_kind(&scaled.feature, Kind::Number)?;
        let numbers = [scaled.low, scaled.high, scaled.shift, scaled.factor, scaled.missing.unwrap_or_default()];
        if numbers.iter().all(|number| number.is_finite()) && scaled.low <= scaled.high {
            return Ok(());
        }
        Err(refused(&scaled.feature, "its bounds are not in order, or a number of its scale is not finite"))
    }

    /// Checks that the feature exists, and that it is text if and only if `required` is.
    pub(super) fn require_kind(&self, feature: &str, required: Kind) -> Result<(), GraphRefusal> {
        let Some(found) = self.feature(feature) else {
            return Err(refused(feature, "there is no such feature"));
        };
        let text = found.formula.check(&self.schema) == Ok(Kind::Text);
        match (text, required == Kind::Text) {
            (true, false) => Err(refused(feature, "it is text; use a categorical field for it")),
            (false, true) => Err(refused(feature, "it is not a text column")),
            _ => Ok(()),
        }
    }
}

impl Graph {
    /// Joins an outline and its weights.
    pub fn new(outline: Outline, weights: Weights) -> Result<Self, GraphRefusal> {
        outline.check()?;
        let finite = |floats: &[f32]| floats.iter().all(|float| float.is_finite());
        let rows = outline.embeddings().map(|(rows, width)| rows * u64::from(width));
        let embeddings = rows.eq(weights.embeddings.iter().map(|rows| rows.len() as u64));
        let sizes = outline.sizes().into_iter().map(|(outputs, inputs)| (outputs * inputs, outputs));
        let layers = sizes.eq(weights.layers.iter().map(|layer| (layer.weights.len() as u64, layer.bias.len() as u64)));
        let arrays = if outline.steps.is_empty() { Vec::new() } else { outline.arrays()? };
        let arrays = arrays.into_iter().eq(weights.arrays.iter().map(|array| array.len() as u64));
        if !embeddings || !layers || !arrays {
            return Err(refused("weights", "their number is not that of the outline"));
        }
        let all = weights.embeddings.iter().chain(&weights.arrays).all(|rows| finite(rows));
        if !all || !weights.layers.iter().all(|layer| finite(&layer.weights) && finite(&layer.bias)) {
            return Err(refused("weights", "one of them is not finite"));
        }
        Ok(Self { outline, weights })
    }

    /// The same graph with the names of the classes that it predicts.
    ///
    /// # Errors
    /// If they are not different names, one for each output of a softmax.
    pub fn with_classes(mut self, classes: &[String]) -> Result<Self, GraphRefusal> {
        self.outline.classes = classes.to_vec();
        self.outline.check_classes().map(|()| self)
    }

    /// Everything but the weights.
    pub const fn outline(&self) -> &Outline {
        &self.outline
    }

    /// The weights of a graph.
    pub const fn weights(&self) -> &Weights {
        &self.weights
    }
}
