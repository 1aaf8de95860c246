//! The `[train]` of a pipeline's file: a learner, a statistic, a released model, or a command.

use std::sync::Arc;

use super::parts::{read_release, read_width};
use super::statistic::Statistic;
use crate::document::{DocumentError, Section, list, quoted};
use crate::learners::{self, Learner, LearnerKind, NOT_LEARNERS, Targets, TrainKeys};
use crate::stream::Width;

/// How a pipeline is trained.
#[derive(Clone, Debug, PartialEq)]
pub enum Train {
    /// A model, by one of the learners.
    Model(Arc<dyn Learner>),
    /// No model: a statistic.
    Statistic(Statistic),
    /// A released model, which is validated again on newer blocks.
    Released {
        /// Its name or alias.
        release: String,
    },
    /// A user's program, for streams that admit attested costs.
    Command {
        /// The program and its arguments.
        words: Vec<String>,
        /// The time after which it is stopped.
        time_limit: Option<Width>,
        /// How it receives its rows.
        rows: RowTransport,
    },
}

/// How a user's program receives its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowTransport {
    /// As Parquet files in a folder.
    #[default]
    Parquet,
    /// By Arrow Flight over a socket.
    Flight,
}

#[derive(Clone, Copy)]
enum Keyword {
    Learner(LearnerKind),
    Statistic,
    Released,
    Command,
}

/// The values of `kind`: the learners, and what is not a learner.
fn keywords() -> Vec<(&'static str, Keyword)> {
    let learners = learners::kinds().into_iter().map(|kind| (kind.name, Keyword::Learner(kind)));
    let others = NOT_LEARNERS.into_iter().zip([Keyword::Statistic, Keyword::Released, Keyword::Command]);
    learners.chain(others).collect()
}

const TRANSPORTS: [(&str, RowTransport); 2] = [("parquet", RowTransport::Parquet), ("flight", RowTransport::Flight)];
impl Train {
    /// Whether it produces or tests a model, and so needs a label.
    pub const fn is_model(&self) -> bool {
        !matches!(self, Self::Statistic(_))
    }

    /// Whether its learner predicts classes and nothing else.
    pub(crate) fn learns_classes(&self) -> bool {
        matches!(self, Self::Model(learner) if learner.targets() == Targets::Classes)
    }

    /// Whether it can train models that predict several classes.
    pub(crate) fn supports_several_classes(&self) -> bool {
        match self {
            Self::Model(learner) => learner.supports_several_classes(),
            Self::Released { .. } | Self::Statistic(_) | Self::Command { .. } => false,
        }
    }

    pub(super) fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        let word = match section.has("kind") || !section.has("command") {
            true => section.choice("kind", &keywords(), None)?,
            false => Keyword::Command,
        };
        match word {
            Keyword::Learner(kind) => {
                section.only(&[&["kind"], kind.keys].concat())?;
                (kind.parse)(&TrainKeys::new(section.clone())).map(Self::Model)
            }
            Keyword::Statistic => Ok(Self::Statistic(Statistic::read(section)?)),
            Keyword::Released => {
                section.only(&["kind", "release"])?;
                read_release(section, "release").map(|release| Self::Released { release })
            }
            Keyword::Command => {
                section.only(&["kind", "command", "time_limit", "rows"])?;
                const COMMAND: &str = "a list of a program and its arguments, such as [\"python\", \"train.py\"]";
                let words = section.texts("command", COMMAND)?.ok_or_else(|| section.missing("command", COMMAND))?;
                let fine = words.first().is_some_and(|program| !program.is_empty());
                if !fine || words.iter().any(|word| word.contains('\0')) {
                    return Err(section.wrong("command", COMMAND));
                }
                let rows = section.choice("rows", &TRANSPORTS, Some(RowTransport::default()))?;
                Ok(Self::Command { words, time_limit: read_width(section, "time_limit")?, rows })
            }
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        out.push_str("\n[train]\n");
        match self {
            Self::Model(learner) => {
                out.push_str(&format!("kind = \"{}\"\n", learner.kind()));
                learner.write_keys(out);
            }
            Self::Statistic(statistic) => {
                out.push_str("kind = \"statistic\"\n");
                statistic.write(out);
            }
            Self::Released { release } => {
                out.push_str(&format!("kind = \"release\"\nrelease = {}\n", quoted(release)));
            }
            Self::Command { words, time_limit, rows } => {
                out.push_str(&format!("kind = \"command\"\ncommand = {}\n", list(words)));
                if let Some(limit) = time_limit {
                    out.push_str(&format!("time_limit = \"{limit}\"\n"));
                }
                if *rows == RowTransport::Flight {
                    out.push_str("rows = \"flight\"\n");
                }
            }
        }
    }
}
