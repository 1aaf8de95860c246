//! The `[train]` of a pipeline's file: a learner of ours, a statistic, or a command.

use super::parts::{read_count, read_number, read_release, read_width};
use super::statistic::Statistic;
use crate::document::{DocumentError, Section, Shape, list, quoted};
use crate::stream::Width;

/// How a ridge regression finds what it adds to the diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RidgeTerm {
    /// From the smallest eigenvalue of the moments, released privately.
    Adaptive,
    /// From the noise alone.
    Fixed,
}

/// How far steps go, over a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// Always as far.
    Constant,
    /// Falling along half a cosine, to zero after the last step.
    Cosine,
    /// Shorter by a factor after every so many steps.
    Stepwise {
        /// The factor.
        factor: f64,
        /// The steps.
        every: u32,
    },
}

/// How a model is trained by steps of noisy gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descent {
    /// Passes over the rows, by their released number.
    pub epochs: f64,
    /// Rows a step has, on average.
    pub batch: u32,
    /// How far a step goes.
    pub learning_rate: f64,
    /// How that changes.
    pub schedule: Schedule,
    /// How much of the last step's direction is kept, from zero to below one.
    pub momentum: f64,
    /// How strongly weights are drawn to zero.
    pub decay: f64,
    /// The longest gradient of one row.
    pub clip: f64,
    /// About how many rows of a block are learned from, where the stream does not count them.
    pub rows: Option<u32>,
}

/// How a pipeline is trained.
#[derive(Clone, Debug, PartialEq)]
pub enum Train {
    /// Linear regression from noisy moments.
    Ridge(RidgeTerm),
    /// Logistic regression by noisy gradients.
    Logistic(Descent),
    /// A network with hidden layers, by noisy gradients.
    Network {
        /// The width of each hidden layer.
        layers: Vec<u32>,
        /// The training.
        descent: Descent,
    },
    /// No model: a statistic.
    Statistic(Statistic),
    /// Nothing: a model that was released is tested again, on blocks that came since.
    Released {
        /// Its name or alias.
        release: String,
    },
    /// A program of its author's, for streams that admit declared costs.
    Command {
        /// The program and what it is called with.
        words: Vec<String>,
        /// After how long it is stopped.
        time_limit: Option<Width>,
        /// How it is given its rows.
        rows: Handover,
    },
}

/// How a program is given its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handover {
    /// As files in a folder.
    #[default]
    Parquet,
    /// Over a socket, by Arrow Flight.
    Flight,
}

#[derive(Clone, Copy)]
enum Word {
    Ridge,
    Logistic,
    Network,
    Statistic,
    Released,
    Command,
}

const WORDS: [(&str, Word); 6] = [
    ("ridge", Word::Ridge),
    ("logistic", Word::Logistic),
    ("mlp", Word::Network),
    ("statistic", Word::Statistic),
    ("release", Word::Released),
    ("command", Word::Command),
];
const HANDOVERS: [(&str, Handover); 2] = [("parquet", Handover::Parquet), ("flight", Handover::Flight)];
const TERMS: [(&str, RidgeTerm); 2] = [("adaptive", RidgeTerm::Adaptive), ("fixed", RidgeTerm::Fixed)];
const DESCENT: [&str; 8] = ["epochs", "batch", "learning_rate", "schedule", "momentum", "decay", "clip", "rows"];

impl Descent {
    /// What stands where a file says nothing.
    pub const DEFAULT: Self = Self {
        epochs: 3.0,
        batch: 1024,
        learning_rate: 0.1,
        schedule: Schedule::Constant,
        momentum: 0.0,
        decay: 0.0,
        clip: 1.0,
        rows: None,
    };

    fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        const BATCH: &str = "a whole number from 1 to 10000000: the rows of a step, on average";
        const ROWS: &str = "a whole number from 1 to 1000000000: the rows of a block, about, known without looking";
        let default = Self::DEFAULT;
        let number = |key: &str, allowed: &str, default: f64, fits: fn(f64) -> bool| {
            read_number(section, key, allowed, Some(default), fits)
        };
        let above_zero = |number: f64| number > 0.0 && number <= 1e6;
        Ok(Self {
            epochs: number("epochs", "a number above 0 and at most 1000000", default.epochs, above_zero)?,
            batch: match section.has("batch") {
                true => read_count(section, "batch", 10_000_000, BATCH)?,
                false => default.batch,
            },
            learning_rate: number("learning_rate", "a number above 0 and at most 1000000", 0.1, above_zero)?,
            schedule: read_schedule(section)?,
            momentum: number("momentum", "a number from 0 to below 1", default.momentum, |kept| {
                (0.0..1.0).contains(&kept)
            })?,
            decay: number("decay", "a number from 0 to 1", default.decay, |decay| (0.0..=1.0).contains(&decay))?,
            clip: number("clip", "a number above 0 and at most 1000000", default.clip, above_zero)?,
            rows: match section.has("rows") {
                true => Some(read_count(section, "rows", 1_000_000_000, ROWS)?),
                false => default.rows,
            },
        })
    }

    fn write(&self, out: &mut String) {
        let schedule = match self.schedule {
            Schedule::Constant => "\"constant\"".to_owned(),
            Schedule::Cosine => "\"cosine\"".to_owned(),
            Schedule::Stepwise { factor, every } => format!("{{ factor = {factor:?}, every = {every} }}"),
        };
        out.push_str(&format!(
            "epochs = {:?}\nbatch = {}\nlearning_rate = {:?}\nschedule = {schedule}\nmomentum = {:?}\ndecay = {:?}\n\
             clip = {:?}\n",
            self.epochs, self.batch, self.learning_rate, self.momentum, self.decay, self.clip
        ));
        if let Some(rows) = self.rows {
            out.push_str(&format!("rows = {rows}\n"));
        }
    }
}

fn read_schedule(section: &Section<'_>) -> Result<Schedule, DocumentError> {
    if section.shape("schedule") != Some(Shape::Table) {
        let words = [("constant", Schedule::Constant), ("cosine", Schedule::Cosine)];
        return section.choice("schedule", &words, Some(Descent::DEFAULT.schedule));
    }
    let Some(steps) = section.section("schedule")? else { return Ok(Descent::DEFAULT.schedule) };
    steps.only(&["factor", "every"])?;
    let factor =
        read_number(&steps, "factor", "a number above 0 and at most 1", None, |factor| factor > 0.0 && factor <= 1.0)?;
    let every = read_count(&steps, "every", u32::MAX, "a whole number of steps, at least 1")?;
    Ok(Schedule::Stepwise { factor, every })
}

impl Train {
    /// Whether it is given rows of inputs, and so needs features and a label.
    pub const fn is_model(&self) -> bool {
        !matches!(self, Self::Statistic(_))
    }

    pub(super) fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        let word = match section.has("kind") || !section.has("command") {
            true => section.choice("kind", &WORDS, None)?,
            false => Word::Command,
        };
        match word {
            Word::Ridge => {
                section.only(&["kind", "ridge"])?;
                Ok(Self::Ridge(section.choice("ridge", &TERMS, Some(RidgeTerm::Adaptive))?))
            }
            Word::Logistic => {
                section.only(&[&["kind"], &DESCENT[..]].concat())?;
                Ok(Self::Logistic(Descent::read(section)?))
            }
            Word::Network => {
                section.only(&[&["kind", "layers"], &DESCENT[..]].concat())?;
                Ok(Self::Network { layers: read_layers(section)?, descent: Descent::read(section)? })
            }
            Word::Statistic => Ok(Self::Statistic(Statistic::read(section)?)),
            Word::Released => {
                section.only(&["kind", "release"])?;
                read_release(section, "release").map(|release| Self::Released { release })
            }
            Word::Command => {
                section.only(&["kind", "command", "time_limit", "rows"])?;
                const COMMAND: &str =
                    "a list of a program and what it is called with, such as [\"python\", \"train.py\"]";
                let words = section.texts("command", COMMAND)?.ok_or_else(|| section.missing("command", COMMAND))?;
                let fine = words.first().is_some_and(|program| !program.is_empty());
                if !fine || words.iter().any(|word| word.contains('\0')) {
                    return Err(section.wrong("command", COMMAND));
                }
                let rows = section.choice("rows", &HANDOVERS, Some(Handover::default()))?;
                Ok(Self::Command { words, time_limit: read_width(section, "time_limit")?, rows })
            }
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        out.push_str("\n[train]\n");
        match self {
            Self::Ridge(term) => {
                out.push_str("kind = \"ridge\"\n");
                let (word, _) = TERMS[usize::from(*term == RidgeTerm::Fixed)];
                out.push_str(&format!("ridge = \"{word}\"\n"));
            }
            Self::Logistic(descent) => {
                out.push_str("kind = \"logistic\"\n");
                descent.write(out);
            }
            Self::Network { layers, descent } => {
                out.push_str(&format!("kind = \"mlp\"\nlayers = {layers:?}\n"));
                descent.write(out);
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
                if *rows == Handover::Flight {
                    out.push_str("rows = \"flight\"\n");
                }
            }
        }
    }
}

fn read_layers(section: &Section<'_>) -> Result<Vec<u32>, DocumentError> {
    const LAYERS: &str = "a list of 1 to 16 whole numbers from 1 to 65536, the widths of the hidden layers, such as \
                          [64, 16]";
    let widths = section.numbers("layers", LAYERS)?;
    let whole = |width: &f64| (1.0..=65_536.0).contains(width) && width.fract() == 0.0;
    let fine = widths.iter().all(whole) && (1..=16).contains(&widths.len());
    // Whole and small, as was just seen.
    if fine { Ok(widths.iter().map(|width| *width as u32).collect()) } else { Err(section.wrong("layers", LAYERS)) }
}
