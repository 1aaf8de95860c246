//! Statistics that a pipeline releases instead of a model.

use super::parts::{Bounds, KEYS_LIMIT, Keys, read_count, read_sql, without};
use crate::document::{DocumentError, Section, quoted};

/// What is computed from the rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Statistic {
    /// How many rows there are.
    Count,
    /// The sum of a value.
    Sum {
        /// The value: an SQL expression.
        of: String,
        /// Its bounds.
        bounds: Bounds,
    },
    /// The mean of a value.
    Mean {
        /// The value: an SQL expression.
        of: String,
        /// Its bounds.
        bounds: Bounds,
    },
    /// How far values lie from their mean.
    Variance {
        /// The value: an SQL expression.
        of: String,
        /// Its bounds.
        bounds: Bounds,
    },
    /// How many rows each key has.
    Histogram {
        /// The key: an SQL expression.
        by: String,
        /// Which keys there are.
        keys: Keys,
    },
    /// The mean of a value for each key.
    GroupMean {
        /// The value: an SQL expression.
        of: String,
        /// The key: an SQL expression.
        by: String,
        /// Which keys there are.
        keys: Keys,
        /// The bounds of the value.
        bounds: Bounds,
    },
    /// Values that given shares of the rows do not exceed.
    Quantile {
        /// The value: an SQL expression.
        of: String,
        /// Its bounds.
        bounds: Bounds,
        /// The shares, strictly between zero and one, growing.
        at: Vec<f64>,
        /// Among how many evenly spaced values the answer is sought.
        grid: u32,
    },
}

#[derive(Clone, Copy)]
enum Word {
    Count,
    Sum,
    Mean,
    Variance,
    Histogram,
    GroupMean,
    Quantile,
}

const WORDS: [(&str, Word); 7] = [
    ("count", Word::Count),
    ("sum", Word::Sum),
    ("mean", Word::Mean),
    ("variance", Word::Variance),
    ("histogram", Word::Histogram),
    ("group_mean", Word::GroupMean),
    ("quantile", Word::Quantile),
];

const GRID_DEFAULT: u32 = 1024;
const OWN: [&str; 6] = ["of", "by", "keys", "bounds", "at", "grid"];

impl Statistic {
    pub(super) fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        section.only(&["kind", "statistic", "of", "by", "keys", "bounds", "at", "grid"])?;
        let word = section.choice("statistic", &WORDS, None)?;
        let own: &[&str] = match word {
            Word::Count => &[],
            Word::Sum | Word::Mean | Word::Variance => &["of", "bounds"],
            Word::Histogram => &["by", "keys"],
            Word::GroupMean => &["of", "by", "keys", "bounds"],
            Word::Quantile => &["of", "bounds", "at", "grid"],
        };
        let strange: Vec<&str> = OWN.into_iter().filter(|key| !own.contains(key)).collect();
        without(section, &strange, "this statistic has no such key")?;
        let of = || read_sql(section, "of");
        let bounds = || Bounds::read(section, "bounds");
        let by = || read_sql(section, "by");
        let keys = || Keys::read(section, "keys");
        Ok(match word {
            Word::Count => Self::Count,
            Word::Sum => Self::Sum { of: of()?, bounds: bounds()? },
            Word::Mean => Self::Mean { of: of()?, bounds: bounds()? },
            Word::Variance => Self::Variance { of: of()?, bounds: bounds()? },
            Word::Histogram => Self::Histogram { by: by()?, keys: keys()? },
            Word::GroupMean => Self::GroupMean { of: of()?, by: by()?, keys: keys()?, bounds: bounds()? },
            Word::Quantile => {
                Self::Quantile { of: of()?, bounds: bounds()?, at: read_shares(section)?, grid: read_grid(section)? }
            }
        })
    }

    pub(super) fn write(&self, out: &mut String) {
        let value = |word: &str, of: &str, bounds: &Bounds| {
            format!("statistic = \"{word}\"\nof = {}\nbounds = {bounds}\n", quoted(of))
        };
        let text = match self {
            Self::Count => "statistic = \"count\"\n".to_owned(),
            Self::Sum { of, bounds } => value("sum", of, bounds),
            Self::Mean { of, bounds } => value("mean", of, bounds),
            Self::Variance { of, bounds } => value("variance", of, bounds),
            Self::Histogram { by, keys } => {
                format!("statistic = \"histogram\"\nby = {}\nkeys = {keys}\n", quoted(by))
            }
            Self::GroupMean { of, by, keys, bounds } => {
                format!("{}by = {}\nkeys = {keys}\n", value("group_mean", of, bounds), quoted(by))
            }
            Self::Quantile { of, bounds, at, grid } => {
                let at: Vec<String> = at.iter().map(|share| format!("{share:?}")).collect();
                format!("{}at = [{}]\ngrid = {grid}\n", value("quantile", of, bounds), at.join(", "))
            }
        };
        out.push_str(&text);
    }
}

fn read_shares(section: &Section<'_>) -> Result<Vec<f64>, DocumentError> {
    const SHARES: &str = "a list of 1 to 1000 numbers between 0 and 1, growing, such as [0.5, 0.9]";
    let shares = section.numbers("at", SHARES)?;
    let inside = shares.iter().all(|share| *share > 0.0 && *share < 1.0);
    let growing = shares.windows(2).all(|pair| pair[0] < pair[1]);
    let fine = inside && growing && (1..=1000).contains(&shares.len());
    if fine { Ok(shares) } else { Err(section.wrong("at", SHARES)) }
}

fn read_grid(section: &Section<'_>) -> Result<u32, DocumentError> {
    const GRID: &str = "a whole number from 2 to 1048576: among how many evenly spaced values the answer is sought";
    if !section.has("grid") {
        return Ok(GRID_DEFAULT);
    }
    let grid = read_count(section, "grid", KEYS_LIMIT, GRID)?;
    if grid >= 2 { Ok(grid) } else { Err(section.wrong("grid", GRID)) }
}
