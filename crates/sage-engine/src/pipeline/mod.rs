//! Pipelines: the pipeline file as plain data, in the user's terms.
//!
//! A [`Pipeline`] names the stream it learns from, the label and the features, the learner, the target, and the budget.
//! It is parsed from text and written back in canonical form. Everything in it is public and fixed before a row is
//! read: it must never contain a number computed from rows. SQL is not checked here. The planner checks that an
//! expression is a function of one row, before anything is charged.

mod budget;
mod feature;
mod limits;
mod parts;
mod read;
mod statistic;
mod train;
mod validate;

pub use budget::{Adaptation, Budget, Shares};
pub use feature::{Feature, Features, Missing, ReleasedTable, Source};
pub use limits::Limits;
pub use parts::{Bounds, Extent, Keys};
pub(crate) use parts::{read_count, read_number};
pub use statistic::Statistic;
pub use train::{RowTransport, Train};
pub use validate::{CONSTANT, Goal, TestBound, Validate};

pub use crate::document::DocumentError as PipelineFileError;
use crate::document::{list, quoted};
use crate::stream::Width;

/// What a model predicts.
#[derive(Clone, Debug, PartialEq)]
pub enum Label {
    /// A column, with the type and the bounds that the stream declares.
    Column(String),
    /// A number: an SQL expression, clipped to these bounds.
    Number {
        /// The expression.
        sql: String,
        /// The bounds.
        bounds: Bounds,
    },
    /// Whether an SQL expression is true.
    Truth(String),
    /// One of several classes: a text. Rows with another text are left out.
    Classes {
        /// The text.
        of: Source,
        /// The classes, in the order of the predicted probabilities.
        classes: Vec<String>,
    },
}

/// The range of the number of newest blocks that a pipeline reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The window of the first attempt, and the minimum.
    pub min: Extent,
    /// The maximum; `None` for all blocks.
    pub max: Option<Extent>,
}

/// A pipeline as described by its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// The name of the pipeline and of its releases.
    pub name: String,
    /// The stream.
    pub stream: String,
    /// The context of the stream's policy that pays, if the policy has contexts.
    pub context: Option<String>,
    /// What is predicted; `None` for statistics.
    pub label: Option<Label>,
    /// How many blocks are read.
    pub window: Window,
    /// A fixed list of block keys, for streams that do not grow. The window is then all of them.
    pub blocks: Option<Vec<String>>,
    /// A per-row SQL predicate that selects rows. Rows that it excludes are charged all the same.
    pub filter: Option<String>,
    /// The interval at which the pipeline runs again.
    pub every: Option<Width>,
    /// The inputs of the model.
    pub features: Features,
    /// The learner or the statistic.
    pub train: Train,
    /// The target that a result must reach; optional only for a statistic.
    pub validate: Option<Validate>,
    /// The cost of an attempt.
    pub budget: Budget,
    /// How the attempts of a run follow each other.
    pub adaptation: Adaptation,
    /// The resource limits of an attempt.
    pub limits: Limits,
}

impl Pipeline {
    /// Parses a pipeline file.
    ///
    /// # Errors
    /// With the line, the key and the allowed values.
    pub fn parse(text: &str) -> Result<Self, PipelineFileError> {
        read::parse_pipeline(text)
    }

    /// The canonical text: equal pipelines have equal texts, and parsing the text returns the pipeline.
    pub fn to_text(&self) -> String {
        let mut out = format!("[pipeline]\nname = {}\nstream = {}\n", quoted(&self.name), quoted(&self.stream));
        for (key, text) in [("context", &self.context), ("filter", &self.filter)] {
            if let Some(text) = text {
                out.push_str(&format!("{key} = {}\n", quoted(text)));
            }
        }
        match &self.label {
            Some(Label::Column(column)) => out.push_str(&format!("label = {}\n", quoted(column))),
            Some(Label::Number { sql, bounds }) => {
                out.push_str(&format!("label = {{ sql = {}, bounds = {bounds} }}\n", quoted(sql)));
            }
            Some(Label::Truth(sql)) => out.push_str(&format!("label = {{ truth = {} }}\n", quoted(sql))),
            Some(Label::Classes { of, classes }) => {
                out.push_str(&format!("label = {{ {}, classes = {} }}\n", feature::write_source(of), list(classes)));
            }
            None => {}
        }
        match &self.blocks {
            Some(blocks) => out.push_str(&format!("blocks = {}\n", list(blocks))),
            None => {
                let max = self.window.max.map_or_else(String::new, |max| format!(", max = {max}"));
                out.push_str(&format!("window = {{ min = {}{max} }}\n", self.window.min));
            }
        }
        if let Some(every) = self.every {
            out.push_str(&format!("every = \"{every}\"\n"));
        }
        self.features.write(&mut out);
        self.train.write(&mut out);
        if let Some(validate) = &self.validate {
            validate.write(&mut out);
        }
        self.budget.write(&mut out);
        self.adaptation.write(&mut out);
        self.limits.write(&mut out);
        out
    }

    /// Whether its model must be better than the best constant prediction.
    pub(crate) fn compares_with_constant(&self) -> bool {
        self.validate.as_ref().is_some_and(|validate| validate.goal.is_better_than_constant())
    }

    /// Validates a pipeline that was built in code by the rules for files.
    ///
    /// # Errors
    /// As [`Self::parse`], with the lines of [`Self::to_text`].
    pub fn checked(self) -> Result<Self, PipelineFileError> {
        Self::parse(&self.to_text())
    }
}
