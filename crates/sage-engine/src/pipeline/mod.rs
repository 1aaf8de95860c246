//! Pipelines: what the file of a pipeline says, in the user's words.
//!
//! A [`Pipeline`] is plain data: which stream it learns from, what it predicts from what, how it is trained,
//! when it is good enough, and how much it may spend on the way. It reads its text and writes it back in one
//! form. Everything in it is public and was decided before a row was read; it must never hold a number that
//! came from rows. SQL is only carried here: whether an expression is a function of one row is decided where
//! it is planned, before anything is charged.

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
pub use train::{Handover, Train};
pub use validate::{Goal, Metric, TestBound, Validate};

pub use crate::document::DocumentError as PipelineFileError;
use crate::document::{list, quoted};
use crate::stream::Width;

/// What a model is to predict.
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
}

/// How many of the newest blocks a pipeline reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// At first, and never fewer.
    pub min: Extent,
    /// At last, and never more; without it, as many as there are.
    pub max: Option<Extent>,
}

/// A pipeline as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// Its name, which is also the name of what it releases.
    pub name: String,
    /// The stream.
    pub stream: String,
    /// The context of the stream's policy that pays, where the policy has contexts.
    pub context: Option<String>,
    /// What is predicted; statistics predict nothing.
    pub label: Option<Label>,
    /// Which blocks.
    pub window: Window,
    /// These blocks and no others, by their keys: for streams that do not grow. The window is then all of them.
    pub blocks: Option<Vec<String>>,
    /// Which of their rows: a per-row SQL predicate. Rows left out are charged all the same.
    pub filter: Option<String>,
    /// After how long it is run again.
    pub every: Option<Width>,
    /// What is computed from a row.
    pub features: Features,
    /// How it is trained.
    pub train: Train,
    /// When it is good enough; only a statistic may do without.
    pub validate: Option<Validate>,
    /// What an attempt costs.
    pub budget: Budget,
    /// How attempts follow each other.
    pub adaptation: Adaptation,
    /// How much of the machine an attempt may use.
    pub limits: Limits,
}

impl Pipeline {
    /// Reads a pipeline from the text of its file.
    ///
    /// # Errors
    /// With the line, the field and what may stand there.
    pub fn parse(text: &str) -> Result<Self, PipelineFileError> {
        read::pipeline(text)
    }

    /// The text in its one form: equal pipelines have equal texts, and parsing it gives the pipeline back.
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

    /// This pipeline, if a file could say it: one put together by hand is held to the rules of the file.
    ///
    /// # Errors
    /// As [`Self::parse`], with the lines of [`Self::to_text`].
    pub fn checked(self) -> Result<Self, PipelineFileError> {
        Self::parse(&self.to_text())
    }
}
