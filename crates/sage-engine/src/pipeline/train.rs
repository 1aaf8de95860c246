//! The table `[train]` of a pipeline file: a built-in learner, a statistic, or a command.

use super::parts::{read_count, read_number, read_release, read_width};
use super::statistic::Statistic;
use crate::document::{DocumentError, Section, Shape, list, quoted};
use crate::stream::Width;

/// How ridge regression chooses its regularisation term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RidgeTerm {
    /// From the smallest eigenvalue of the moments, released privately.
    Adaptive,
    /// From the noise alone.
    Fixed,
}

/// The learning-rate schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// A constant learning rate.
    Constant,
    /// Cosine decay to zero after the last step.
    Cosine,
    /// Multiplied by a factor every `every` steps.
    Stepwise {
        /// The factor.
        factor: f64,
        /// The number of steps between two changes.
        every: u32,
    },
}

/// The hyperparameters of DP-SGD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdConfig {
    /// The number of passes over the rows, by their released count.
    pub epochs: f64,
    /// The expected number of rows per step.
    pub batch: u32,
    /// The initial learning rate.
    pub learning_rate: f64,
    /// The learning-rate schedule.
    pub schedule: Schedule,
    /// The momentum, from 0 to below 1.
    pub momentum: f64,
    /// The weight decay.
    pub decay: f64,
    /// The clipping norm of per-row gradients.
    pub clip: f64,
    /// The approximate number of training rows per block, if the stream has no census.
    pub rows: Option<u32>,
}

/// How a pipeline is trained.
#[derive(Clone, Debug, PartialEq)]
pub enum Train {
    /// Ridge regression from noisy moments.
    Ridge(RidgeTerm),
    /// Logistic regression by DP-SGD.
    Logistic(SgdConfig),
    /// A multilayer perceptron, by DP-SGD.
    Network {
        /// The width of each hidden layer.
        layers: Vec<u32>,
        /// The hyperparameters.
        sgd: SgdConfig,
    },
    /// A statistic instead of a model.
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
    Ridge,
    Logistic,
    Network,
    Statistic,
    Released,
    Command,
}

const KEYWORDS: [(&str, Keyword); 6] = [
    ("ridge", Keyword::Ridge),
    ("logistic", Keyword::Logistic),
    ("mlp", Keyword::Network),
    ("statistic", Keyword::Statistic),
    ("release", Keyword::Released),
    ("command", Keyword::Command),
];
const TRANSPORTS: [(&str, RowTransport); 2] = [("parquet", RowTransport::Parquet), ("flight", RowTransport::Flight)];
const TERMS: [(&str, RidgeTerm); 2] = [("adaptive", RidgeTerm::Adaptive), ("fixed", RidgeTerm::Fixed)];
const SGD_KEYS: [&str; 8] = ["epochs", "batch", "learning_rate", "schedule", "momentum", "decay", "clip", "rows"];

impl SgdConfig {
    /// The defaults.
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
        const BATCH: &str = "a whole number from 1 to 10000000: the expected number of rows per step";
        const ROWS: &str = "a whole number from 1 to 1000000000: the approximate number of rows per block, known without looking at the data";
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
        return section.choice("schedule", &words, Some(SgdConfig::DEFAULT.schedule));
    }
    let Some(steps) = section.section("schedule")? else { return Ok(SgdConfig::DEFAULT.schedule) };
    steps.only(&["factor", "every"])?;
    let factor =
        read_number(&steps, "factor", "a number above 0 and at most 1", None, |factor| factor > 0.0 && factor <= 1.0)?;
    let every = read_count(&steps, "every", u32::MAX, "a whole number of steps, at least 1")?;
    Ok(Schedule::Stepwise { factor, every })
}

impl Train {
    /// Whether it produces or tests a model, and so needs a label.
    pub const fn is_model(&self) -> bool {
        !matches!(self, Self::Statistic(_))
    }

    pub(super) fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        let word = match section.has("kind") || !section.has("command") {
            true => section.choice("kind", &KEYWORDS, None)?,
            false => Keyword::Command,
        };
        match word {
            Keyword::Ridge => {
                section.only(&["kind", "ridge"])?;
                Ok(Self::Ridge(section.choice("ridge", &TERMS, Some(RidgeTerm::Adaptive))?))
            }
            Keyword::Logistic => {
                section.only(&[&["kind"], &SGD_KEYS[..]].concat())?;
                Ok(Self::Logistic(SgdConfig::read(section)?))
            }
            Keyword::Network => {
                section.only(&[&["kind", "layers"], &SGD_KEYS[..]].concat())?;
                Ok(Self::Network { layers: read_layers(section)?, sgd: SgdConfig::read(section)? })
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
            Self::Ridge(term) => {
                out.push_str("kind = \"ridge\"\n");
                let (word, _) = TERMS[usize::from(*term == RidgeTerm::Fixed)];
                out.push_str(&format!("ridge = \"{word}\"\n"));
            }
            Self::Logistic(sgd) => {
                out.push_str("kind = \"logistic\"\n");
                sgd.write(out);
            }
            Self::Network { layers, sgd } => {
                out.push_str(&format!("kind = \"mlp\"\nlayers = {layers:?}\n"));
                sgd.write(out);
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

fn read_layers(section: &Section<'_>) -> Result<Vec<u32>, DocumentError> {
    const LAYERS: &str = "a list of 1 to 16 whole numbers from 1 to 65536, the widths of the hidden layers, such as \
                          [64, 16]";
    let widths = section.numbers("layers", LAYERS)?;
    let whole = |width: &f64| (1.0..=65_536.0).contains(width) && width.fract() == 0.0;
    let fine = widths.iter().all(whole) && (1..=16).contains(&widths.len());
    // `fine` checked that all widths are small integers.
    if fine { Ok(widths.iter().map(|width| *width as u32).collect()) } else { Err(section.wrong("layers", LAYERS)) }
}
