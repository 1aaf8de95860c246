//! From nodes to steps: tracks every value of a file, and builds the graph.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::file::{Declared, File, Node};
use super::tensor::{DOUBLE, FLOAT, TEXT, TRUTH, Tensor, WHOLE};
use super::{ImportRefusal, operators, refused};
use crate::bundle::category_index::CategoryIndex;
use crate::bundle::graph::{Feature, Field, Graph, GraphRefusal, Link, Outline, Weights};
use crate::bundle::steps::{MOST_NUMBERS, MOST_STEPS, Step, WIDEST};
use crate::formula::{Column, Domain, Formula, Missing, Part, Schema};

/// The metadata property that names the columns of a single matrix input.
const COLUMNS: &str = "columns";

/// A value of the file.
#[derive(Clone)]
pub(super) enum Known {
    /// Numbers for each row.
    Rows(Rows),
    /// A column of texts: its index among the columns, and its number of dimensions.
    Text(usize, u8),
    /// Whether a value is NaN.
    Missing(Rows),
    /// The same for all rows.
    Constant(Rc<Tensor>),
}

/// Numbers for each row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Rows {
    /// The index of the value.
    pub(super) value: u32,
    pub(super) kind: Kind,
    /// The number of dimensions in the file: `[rows]`, `[rows, numbers]`, or `[rows, 1, numbers]`.
    pub(super) rank: u8,
}

/// The element type in the file. Here all are in single precision.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Whole,
    Truth,
}

/// A translation in progress.
pub(super) struct Translation<'columns> {
    columns: &'columns [Column],
    used: Vec<Column>,
    features: Vec<Feature>,
    fields: Vec<Field>,
    steps: Vec<Step>,
    arrays: Vec<Vec<f32>>,
    /// The width of each value; zero for fields that are added later.
    widths: Vec<usize>,
    known: BTreeMap<String, Known>,
    /// The number of weights copied from constants of the file.
    copied: u64,
}

/// Translates a file.
pub(super) fn translate(file: File<'_>, columns: &[Column]) -> Result<Graph, ImportRefusal> {
    let mut all = Translation {
        columns,
        used: Vec::new(),
        features: Vec::new(),
        fields: Vec::new(),
        steps: Vec::new(),
        arrays: Vec::new(),
        widths: Vec::new(),
        known: BTreeMap::new(),
        copied: 0,
    };
    let File { properties, nodes, constants, inputs, outputs, .. } = file;
    for (name, tensor) in constants {
        all.learn(name, Known::Constant(Rc::new(tensor)))?;
    }
    // Old files declare their constants as inputs too.
    let inputs: Vec<Declared<'_>> = inputs.into_iter().filter(|input| !all.known.contains_key(input.name)).collect();
    // The fields of the one-hot encoders come after those of the inputs, in the order of the nodes.
    let listed = nodes.iter().filter(|node| node.operator == "OneHotEncoder").count();
    all.inputs(&inputs, properties.get(COLUMNS).copied(), listed)?;
    for (node, number) in nodes.iter().zip(1..) {
        let [output] = node.outputs.as_slice() else {
            return Err(ImportRefusal { node: Some((number, None)), why: "it has several outputs, or none" });
        };
        let known = operators::translate(&mut all, node, number)?;
        all.learn(output, known)?;
    }
    all.finish(&outputs)
}

impl Translation<'_> {
    /// Records the value of a name.
    fn learn(&mut self, name: &str, known: Known) -> Result<(), ImportRefusal> {
        if name.is_empty() || self.known.insert(name.to_owned(), known).is_some() {
            return Err(refused("two of its values have one name, or one has none"));
        }
        Ok(())
    }

    /// Records the inputs of the file as columns.
    fn inputs(&mut self, inputs: &[Declared<'_>], listed: Option<&str>, one_hot: usize) -> Result<(), ImportRefusal> {
        match (inputs, listed) {
            ([], _) => Err(refused("it has no inputs; they are named after columns of the stream")),
            ([lone], Some(names)) => self.matrix(lone, names, one_hot),
            (several, _) => {
                for input in several {
                    let (column, kind, rank) = self.input(input)?;
                    let known = match kind {
                        None => Known::Text(column, rank),
                        Some(kind) => Known::Rows(Rows { value: self.column(column)?, kind, rank }),
                    };
                    self.learn(input.name, known)?;
                }
                self.widths.resize(self.fields.len() + one_hot, 0);
                Ok(())
            }
        }
    }

    /// One input with a number for each of these columns.
    fn matrix(&mut self, input: &Declared<'_>, names: &str, one_hot: usize) -> Result<(), ImportRefusal> {
        let mut parts = Vec::new();
        for name in names.split(',') {
            let index = self.column_index(name.trim())?;
            if matches!(self.columns[index].domain, Domain::Text { .. }) {
                return Err(refused("its property `columns` names a column of texts, which has an input of its own"));
            }
            parts.push(self.column(index)?);
        }
        let width = match input.shape.as_deref() {
            Some([None, width]) => *width,
            _ => return Err(refused(SHAPE)),
        };
        if width.is_some_and(|width| width != parts.len() as i64) || !matches!(input.element, Some(FLOAT | DOUBLE)) {
            return Err(refused("its input has another width than its property `columns`, or is no float or double"));
        }
        self.widths.resize(self.fields.len() + one_hot, 0);
        let count = parts.len();
        let value = self.push(Step::Join(parts), count)?;
        self.learn(input.name, Known::Rows(Rows { value, kind: Kind::Number, rank: 2 }))
    }

    fn column_index(&self, name: &str) -> Result<usize, ImportRefusal> {
        let index = self.columns.iter().position(|column| column.name == name);
        index.ok_or_else(|| refused("an input is named after no column of the stream that a model can read"))
    }

    /// The column, the kind and the dimensions of an input; texts have no kind.
    fn input(&self, input: &Declared<'_>) -> Result<(usize, Option<Kind>, u8), ImportRefusal> {
        let rank = match input.shape.as_deref() {
            Some([None]) => 1,
            Some([None, Some(1)]) => 2,
            Some([None, _]) => {
                return Err(refused(
                    "an input has several numbers for each row; give each column an input of its own, or say by the \
                     property `columns` which they are, one after the other, with commas between",
                ));
            }
            _ => return Err(refused(SHAPE)),
        };
        let index = self.column_index(input.name)?;
        let column = &self.columns[index];
        let never_null = column.missing == Missing::Never;
        let kind = match (&column.domain, input.element) {
            (Domain::Text { .. }, Some(TEXT)) => None,
            (Domain::Text { .. }, _) => return Err(refused("an input that is a column of texts is of type string")),
            (_, Some(FLOAT | DOUBLE)) => Some(Kind::Number),
            (Domain::Whole { .. } | Domain::Hashed | Domain::Time { .. }, Some(WHOLE)) if never_null => {
                Some(Kind::Whole)
            }
            (Domain::Truth, Some(TRUTH)) if never_null => Some(Kind::Truth),
            _ => {
                return Err(refused(
                    "an input has a type that its column cannot have: a number is float or double, a whole number or \
                     a time also int64, a truth value also bool, and what can be null is float or double",
                ));
            }
        };
        Ok((index, kind, rank))
    }

    /// A column as a field of its own.
    fn column(&mut self, index: usize) -> Result<u32, ImportRefusal> {
        let name = self.feature(index);
        if self.fields.contains(&Field::Plain(name.clone())) {
            return Err(refused("two of its inputs are the same column"));
        }
        self.fields.push(Field::Plain(name));
        self.widths.push(1);
        Ok(self.fields.len() as u32 - 1)
    }

    /// The name of the feature for a column, which is added on its first use.
    fn feature(&mut self, index: usize) -> String {
        let column = &self.columns[index];
        if !self.used.contains(column) {
            let formula = Formula::Column(column.name.clone());
            let formula = match column.domain {
                Domain::Time { .. } => Formula::Part(Part::Epoch, Box::new(formula)),
                _ => formula,
            };
            self.used.push(column.clone());
            self.features.push(Feature { name: column.name.clone(), formula });
        }
        column.name.clone()
    }

    /// A column of texts, one-hot encoded.
    pub(super) fn categories(&mut self, column: usize, categories: Vec<String>) -> Result<u32, ImportRefusal> {
        let (value, count) = (self.fields.len(), categories.len());
        let feature = self.feature(column);
        let category = CategoryIndex::Category { feature, categories, otherwise: count as u32 };
        if count as u64 >= WIDEST || value >= self.widths.len() {
            return Err(refused("it has more than 65535 categories"));
        }
        self.fields.push(Field::OneHot(category));
        self.widths[value] = count + 1;
        // The index of other texts is not an input of the model.
        let columns = (0..count as u32).collect();
        self.push(Step::Pick { of: value as u32, columns }, count)
    }

    /// Adds a step with `width` outputs.
    pub(super) fn push(&mut self, step: Step, width: usize) -> Result<u32, ImportRefusal> {
        let together: usize = self.widths.iter().sum::<usize>().saturating_add(width);
        if width == 0 || width as u64 > WIDEST || together > 1 << 18 || self.steps.len() >= MOST_STEPS {
            return Err(refused("it computes no numbers for a row, more than 65536, or more than 2^18 all together"));
        }
        self.steps.push(step);
        self.widths.push(width);
        Ok(self.widths.len() as u32 - 1)
    }

    /// Adds a step with weights.
    pub(super) fn push_with(&mut self, step: Step, width: usize, array: Vec<f32>) -> Result<u32, ImportRefusal> {
        if !array.iter().all(|number| number.is_finite()) {
            return Err(refused("its weights are no finite numbers"));
        }
        self.arrays.push(array);
        self.push(step, width)
    }

    /// Limits the total of copied weights: one constant can be referenced by thousands of nodes.
    pub(super) fn reserve(&mut self, numbers: usize) -> Result<(), ImportRefusal> {
        self.copied = self.copied.saturating_add(numbers as u64);
        if self.copied > MOST_NUMBERS { Err(refused("all weights together are more than 2^24")) } else { Ok(()) }
    }

    /// The width of a value.
    pub(super) fn width(&self, rows: Rows) -> usize {
        self.widths[rows.value as usize]
    }

    /// The value of an input of a node.
    pub(super) fn input_of(&self, node: &Node<'_>, index: usize) -> Result<Known, ImportRefusal> {
        let name = node.inputs.get(index).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| refused("one of its inputs is missing"))?;
        let known = self.known.get(*name).cloned();
        known.ok_or_else(|| {
            refused("it reads a value that no node before it produces: the nodes form a cycle, or one is missing")
        })
    }

    /// An input that is numbers of type float for each row.
    pub(super) fn rows_of(&self, node: &Node<'_>, index: usize) -> Result<Rows, ImportRefusal> {
        match self.input_of(node, index)? {
            Known::Rows(rows) if rows.kind == Kind::Number => Ok(rows),
            Known::Rows(_) => Err(refused("it computes with whole numbers or truth values; cast them to float first")),
            Known::Constant(_) => Err(refused("it computes from constants alone; fold constants when it is exported")),
            Known::Text(..) => Err(refused("it computes with texts; encode them by OneHotEncoder first")),
            Known::Missing(_) => Err(refused("IsNaN is supported only as the condition of Where")),
        }
    }

    /// A constant.
    pub(super) fn constant_of(&self, node: &Node<'_>, index: usize) -> Result<Rc<Tensor>, ImportRefusal> {
        match self.input_of(node, index)? {
            Known::Constant(tensor) => Ok(tensor),
            _ => Err(refused("an input that must be a constant depends on rows")),
        }
    }

    /// The whole numbers of an optional input.
    pub(super) fn wholes_of(&self, node: &Node<'_>, index: usize) -> Result<Option<Vec<i64>>, ImportRefusal> {
        if node.inputs.get(index).is_none_or(|name| name.is_empty()) {
            return Ok(None);
        }
        let tensor = self.constant_of(node, index)?;
        let wholes = tensor.wholes().ok_or_else(|| refused("a list of integers is required"))?;
        Ok(Some(wholes.to_vec()))
    }

    /// The graph, if there is one output and it is one number for each row.
    fn finish(mut self, outputs: &[Declared<'_>]) -> Result<Graph, ImportRefusal> {
        let [output] = outputs else {
            return Err(refused("it has several outputs, or none; keep the one that predicts"));
        };
        let rows = match self.known.get(output.name) {
            Some(Known::Rows(rows)) if rows.kind == Kind::Number => *rows,
            Some(_) => return Err(refused("its output is not a number that follows from a row")),
            None => return Err(refused("its output is a value that no node computes")),
        };
        if self.width(rows) != 1 {
            return Err(refused("its output has several numbers for each row; give the one that is to be tested"));
        }
        // The last value is the prediction.
        self.push(Step::Join(vec![rows.value]), 1)?;
        let schema = Schema::new(self.used, Vec::new()).map_err(|refusal| refused(refusal.why))?;
        let (features, fields, steps) = (self.features, self.fields, self.steps);
        let outline =
            Outline { schema, features, fields, layers: Vec::new(), link: Link::Identity, classes: Vec::new(), steps };
        let weights = Weights { embeddings: Vec::new(), layers: Vec::new(), arrays: self.arrays };
        Graph::new(outline, weights).map_err(|refusal| match refusal {
            GraphRefusal::Part { why, .. } => refused(why),
            GraphRefusal::Formula { .. } => refused("one of its columns cannot be read by a model"),
        })
    }
}

const SHAPE: &str = "an input is not of the shape [rows] or [rows, 1] with any number of rows; export it with a free \
                     first dimension";
