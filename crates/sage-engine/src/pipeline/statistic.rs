//! Statistics that a pipeline releases instead of a model.

use super::parts::{Bounds, KEYS_LIMIT, Keys, forbid_keys, read_count, read_sql};
use crate::document::{DocumentError, Section, quoted};

/// A statistic of the rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Statistic {
    /// The number of rows.
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
    /// The variance of a value.
    Variance {
        /// The value: an SQL expression.
        of: String,
        /// Its bounds.
        bounds: Bounds,
    },
    /// The number of rows per key, or the share of all rows that have a key of the list.
    Histogram {
        /// The key: an SQL expression.
        by: String,
        /// The list of keys.
        keys: Keys,
        /// Whether shares are released, and compared with the target, instead of numbers.
        relative: bool,
    },
    /// The mean of a value per key.
    GroupMean {
        /// The value: an SQL expression.
        of: String,
        /// The key: an SQL expression.
        by: String,
        /// The list of keys.
        keys: Keys,
        /// The bounds of the value.
        bounds: Bounds,
    },
    /// Quantiles of a value.
    Quantile {
        /// The value: an SQL expression.
        of: String,
        /// Its bounds.
        bounds: Bounds,
        /// The quantile levels, strictly between 0 and 1, in ascending order.
        at: Vec<f64>,
        /// The number of evenly spaced candidate values.
        grid: u32,
    },
}

#[derive(Clone, Copy)]
enum Keyword {
    Count,
    Sum,
    Mean,
    Variance,
    Histogram,
    Frequencies,
    GroupMean,
    Quantile,
}

const KEYWORDS: [(&str, Keyword); 8] = [
    ("count", Keyword::Count),
    ("sum", Keyword::Sum),
    ("mean", Keyword::Mean),
    ("variance", Keyword::Variance),
    ("histogram", Keyword::Histogram),
    ("frequencies", Keyword::Frequencies),
    ("group_mean", Keyword::GroupMean),
    ("quantile", Keyword::Quantile),
];

const GRID_DEFAULT: u32 = 1024;
const STATISTIC_KEYS: [&str; 6] = ["of", "by", "keys", "bounds", "at", "grid"];

impl Statistic {
    pub(super) fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        section.only(&["kind", "statistic", "of", "by", "keys", "bounds", "at", "grid"])?;
        let word = section.choice("statistic", &KEYWORDS, None)?;
        let allowed: &[&str] = match word {
            Keyword::Count => &[],
            Keyword::Sum | Keyword::Mean | Keyword::Variance => &["of", "bounds"],
            Keyword::Histogram | Keyword::Frequencies => &["by", "keys"],
            Keyword::GroupMean => &["of", "by", "keys", "bounds"],
            Keyword::Quantile => &["of", "bounds", "at", "grid"],
        };
        let foreign: Vec<&str> = STATISTIC_KEYS.into_iter().filter(|key| !allowed.contains(key)).collect();
        forbid_keys(section, &foreign, "this statistic has no such key")?;
        let of = || read_sql(section, "of");
        let bounds = || Bounds::read(section, "bounds");
        let by = || read_sql(section, "by");
        let keys = || Keys::read(section, "keys");
        Ok(match word {
            Keyword::Count => Self::Count,
            Keyword::Sum => Self::Sum { of: of()?, bounds: bounds()? },
            Keyword::Mean => Self::Mean { of: of()?, bounds: bounds()? },
            Keyword::Variance => Self::Variance { of: of()?, bounds: bounds()? },
            Keyword::Histogram => Self::Histogram { by: by()?, keys: keys()?, relative: false },
            Keyword::Frequencies => Self::Histogram { by: by()?, keys: keys()?, relative: true },
            Keyword::GroupMean => Self::GroupMean { of: of()?, by: by()?, keys: keys()?, bounds: bounds()? },
            Keyword::Quantile => {
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
            Self::Histogram { by, keys, relative } => {
                let word = if *relative { "frequencies" } else { "histogram" };
                format!("statistic = \"{word}\"\nby = {}\nkeys = {keys}\n", quoted(by))
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
    const SHARES: &str = "a list of 1 to 1000 numbers between 0 and 1 in ascending order, such as [0.5, 0.9]";
    let shares = section.numbers("at", SHARES)?;
    let inside = shares.iter().all(|share| *share > 0.0 && *share < 1.0);
    let growing = shares.windows(2).all(|pair| pair[0] < pair[1]);
    let fine = inside && growing && (1..=1000).contains(&shares.len());
    if fine { Ok(shares) } else { Err(section.wrong("at", SHARES)) }
}

fn read_grid(section: &Section<'_>) -> Result<u32, DocumentError> {
    const GRID: &str = "a whole number from 2 to 1048576: the number of evenly spaced candidate values";
    if !section.has("grid") {
        return Ok(GRID_DEFAULT);
    }
    let grid = read_count(section, "grid", KEYS_LIMIT, GRID)?;
    if grid >= 2 { Ok(grid) } else { Err(section.wrong("grid", GRID)) }
}
