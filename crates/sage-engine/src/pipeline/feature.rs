//! The features of a pipeline: the inputs that a model gets from a row.
//!
//! Encoders have public parameters only. The one kind of feature that is computed from rows is the mean of a group; the
//! attempt pays for it from its budget.

use super::parts::{Bounds, KEYS_LIMIT, Keys, forbid_keys, read_count, read_number, read_release, read_sql};
use crate::document::{DocumentError, Section, Shape, quoted};

/// The source of a feature's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A column of the stream.
    Column(String),
    /// An SQL expression over the columns of one row.
    Sql(String),
}

/// A feature: a value and its encoding.
#[derive(Clone, Debug, PartialEq)]
pub enum Feature {
    /// A number, clipped to bounds and scaled to [0, 1].
    Scale {
        /// The value.
        of: Source,
        /// The bounds.
        bounds: Bounds,
        /// The rule for missing values.
        missing: Missing,
    },
    /// One-hot encoding, with one more input for unknown and missing categories.
    OneHot {
        /// The value.
        of: Source,
        /// The categories.
        keys: Keys,
    },
    /// One-hot encoding of the range between edges that the number falls into.
    Bucket {
        /// The value.
        of: Source,
        /// The edges, in ascending order.
        edges: Vec<f64>,
    },
    /// One-hot encoding of a hash of the value.
    Hash {
        /// The value.
        of: Source,
        /// The number of hash buckets.
        buckets: u32,
    },
    /// One-hot encoding of the pairs of categories of two earlier features.
    Cross {
        /// The two features.
        of: [String; 2],
        /// The number of buckets if pairs are hashed; `None` gives each pair an input.
        buckets: Option<u32>,
    },
    /// The private mean of a value over the rows with the same key, scaled to [0, 1].
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
    /// The row's entry in a released table of group means, scaled to [0, 1].
    Released(ReleasedTable),
}

/// How a missing number (null, NaN or infinite) is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Missing {
    /// The row is excluded from training and validation, and has no prediction.
    #[default]
    LeftOut,
    /// The model has one more input, 1 where the number is missing and 0 elsewhere. The number is set to its lower
    /// bound.
    Indicator,
    /// The number is replaced by this constant, which is within its bounds.
    Constant(f64),
}

/// A released table. Using it again costs nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleasedTable {
    /// Its name with its version, such as `speed-by-hour@2`.
    pub release: String,
    /// The key of a row: an SQL expression.
    pub by: String,
}

/// Features by name, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Features(pub Vec<(String, Feature)>);

/// The maximum number of features.
const FEATURES_LIMIT: usize = 4096;

#[derive(Clone, Copy)]
enum Encoder {
    Scale,
    OneHot,
    Bucket,
    Hash,
}

const ENCODERS: [(&str, Encoder); 4] =
    [("scale", Encoder::Scale), ("onehot", Encoder::OneHot), ("bucket", Encoder::Bucket), ("hash", Encoder::Hash)];
const NAME: &str = "a text of 1 to 128 characters without control characters that no other feature has";

impl Feature {
    /// The number of categories, including the one for unknown values; `None` for a feature that is a number.
    pub fn category_count(&self, features: &Features) -> Option<u64> {
        match self {
            Self::OneHot { keys, .. } => Some(u64::from(keys.count()) + 1),
            Self::Bucket { edges, .. } => Some(edges.len() as u64 + 2),
            Self::Hash { buckets, .. } => Some(u64::from(*buckets) + 1),
            Self::Cross { buckets: Some(buckets), .. } => Some(u64::from(*buckets)),
            Self::Cross { of, buckets: None } => {
                // Crosses are not crossed again, so the recursion is one level deep.
                let one = |name: &String| features.get(name).filter(|one| !one.is_cross())?.category_count(features);
                one(&of[0])?.checked_mul(one(&of[1])?)
            }
            Self::Scale { .. } | Self::GroupMean { .. } | Self::Released(_) => None,
        }
    }

    const fn is_cross(&self) -> bool {
        matches!(self, Self::Cross { .. })
    }

    fn read(section: &Section<'_>, before: &Features) -> Result<(String, Self), DocumentError> {
        section.only(&[
            "name",
            "column",
            "sql",
            "scale",
            "onehot",
            "bucket",
            "hash",
            "missing",
            "cross",
            "group_mean",
            "release",
            "by",
            "keys",
            "bounds",
        ])?;
        let feature = if section.has("cross") {
            read_cross(section, before)?
        } else if section.has("group_mean") {
            forbid_keys(
                section,
                &["column", "sql", "scale", "onehot", "bucket", "hash"],
                "a group_mean takes group_mean, by, keys and bounds",
            )?;
            forbid_keys(section, &["missing"], "rows without the value are in no mean, and a missing key is a group")?;
            Self::GroupMean {
                of: read_sql(section, "group_mean")?,
                by: read_sql(section, "by")?,
                keys: Keys::read(section, "keys")?,
                bounds: Bounds::read(section, "bounds")?,
            }
        } else if section.has("release") {
            let others = ["column", "sql", "scale", "onehot", "bucket", "hash", "missing", "keys", "bounds"];
            forbid_keys(section, &others, "the released table defines its own keys and bounds")?;
            Self::Released(ReleasedTable { release: read_release(section, "release")?, by: read_sql(section, "by")? })
        } else {
            forbid_keys(section, &["by", "keys", "bounds"], "they belong to a group_mean")?;
            read_encoded(section)?
        };
        let name = section.optional_text("name", NAME)?.map(str::to_owned).or_else(|| feature.default_name());
        let name =
            name.ok_or_else(|| section.missing("name", format!("{NAME}; a feature with sql has no default name")))?;
        let fine = !name.is_empty() && name.chars().count() <= 128 && !name.chars().any(char::is_control);
        if !fine || before.get(&name).is_some() {
            return Err(match section.has("name") {
                true => section.wrong("name", NAME),
                false => section.missing("name", format!("{NAME}: `{name}` is taken")),
            });
        }
        Ok((name, feature))
    }

    fn default_name(&self) -> Option<String> {
        let source = match self {
            Self::Scale { of, .. } | Self::OneHot { of, .. } | Self::Bucket { of, .. } | Self::Hash { of, .. } => of,
            Self::Cross { of: [one, two], .. } => return Some(format!("{one}_x_{two}")),
            Self::Released(table) => {
                return Some(table.release.split('@').next().unwrap_or_default().to_owned());
            }
            Self::GroupMean { of, by, .. } => {
                let plain = |sql: &str| sql.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
                return (plain(of) && plain(by)).then(|| format!("{of}_by_{by}"));
            }
        };
        match source {
            Source::Column(column) => Some(column.clone()),
            Source::Sql(_) => None,
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Scale { of, bounds, missing } => format!("{}, scale = {bounds}{}", write_source(of), missing.write()),
            Self::OneHot { of, keys } => format!("{}, onehot = {keys}", write_source(of)),
            Self::Bucket { of, edges } => {
                let edges: Vec<String> = edges.iter().map(|edge| format!("{edge:?}")).collect();
                format!("{}, bucket = [{}]", write_source(of), edges.join(", "))
            }
            Self::Hash { of, buckets } => format!("{}, hash = {buckets}", write_source(of)),
            Self::Cross { of: [one, two], buckets } => {
                let buckets = buckets.map_or_else(String::new, |buckets| format!(", hash = {buckets}"));
                format!("cross = [{}, {}]{buckets}", quoted(one), quoted(two))
            }
            Self::Released(ReleasedTable { release, by }) => {
                format!("release = {}, by = {}", quoted(release), quoted(by))
            }
            Self::GroupMean { of, by, keys, bounds } => {
                let (of, by) = (quoted(of), quoted(by));
                format!("group_mean = {of}, by = {by}, keys = {keys}, bounds = {bounds}")
            }
        }
    }
}

impl Missing {
    fn read(section: &Section<'_>, bounds: Bounds) -> Result<Self, DocumentError> {
        let allowed = format!(
            "\"left-out\" (exclude the row), \"indicator\" (add an input), or a number from {:?} to {:?} to replace it",
            bounds.low(),
            bounds.high()
        );
        match section.shape("missing") {
            None => Ok(Self::default()),
            Some(Shape::Number) => {
                let fits = |number: f64| (bounds.low()..=bounds.high()).contains(&number);
                read_number(section, "missing", &allowed, None, fits).map(Self::Constant)
            }
            Some(_) => match section.text("missing", &allowed)? {
                "left-out" => Ok(Self::LeftOut),
                "indicator" => Ok(Self::Indicator),
                _ => Err(section.wrong("missing", allowed)),
            },
        }
    }

    /// The TOML key with its value; empty for the default.
    fn write(self) -> String {
        match self {
            Self::LeftOut => String::new(),
            Self::Indicator => ", missing = \"indicator\"".to_owned(),
            Self::Constant(number) => format!(", missing = {number:?}"),
        }
    }
}

pub(super) fn write_source(of: &Source) -> String {
    match of {
        Source::Column(column) => format!("column = {}", quoted(column)),
        Source::Sql(sql) => format!("sql = {}", quoted(sql)),
    }
}

fn read_encoded(section: &Section<'_>) -> Result<Feature, DocumentError> {
    const COLUMN: &str = "the name of a column";
    let of = match (section.optional_text("column", COLUMN)?, section.has("sql")) {
        (Some(""), _) => return Err(section.wrong("column", COLUMN)),
        (Some(column), false) => Source::Column(column.to_owned()),
        (None, true) => Source::Sql(read_sql(section, "sql")?),
        (Some(_), true) => return Err(section.wrong("sql", "left out: the feature has a column")),
        (None, false) => {
            return Err(section.missing("column", "a column, or sql = \"...\", or a cross, or a group_mean"));
        }
    };
    let mut encoders = ENCODERS.into_iter().filter(|(key, _)| section.has(key));
    let Some((key, encoder)) = encoders.next() else {
        let how = "how the value is encoded: scale = [0, 100], onehot = 24, onehot = [\"a\", \"b\"], bucket = [1, 5] or \
                   hash = 1024";
        return Err(section.missing("scale", how));
    };
    if let Some((second, _)) = encoders.next() {
        return Err(section.wrong(second, format!("left out: a feature has one encoding, and `{key}` is given")));
    }
    if !matches!(encoder, Encoder::Scale) {
        section.choice("missing", &[("category", ())], Some(()))?;
    }
    Ok(match encoder {
        Encoder::Scale => {
            let bounds = Bounds::read(section, "scale")?;
            Feature::Scale { of, bounds, missing: Missing::read(section, bounds)? }
        }
        Encoder::OneHot => Feature::OneHot { of, keys: Keys::read(section, "onehot")? },
        Encoder::Bucket => Feature::Bucket { of, edges: read_edges(section)? },
        Encoder::Hash => Feature::Hash { of, buckets: read_hash(section)? },
    })
}

fn read_hash(section: &Section<'_>) -> Result<u32, DocumentError> {
    read_count(section, "hash", KEYS_LIMIT, "a whole number from 1 to 1048576: the number of hash buckets")
}

fn read_edges(section: &Section<'_>) -> Result<Vec<f64>, DocumentError> {
    const EDGES: &str = "a list of 1 to 1048576 finite numbers in ascending order";
    let edges = section.numbers("bucket", EDGES)?;
    let growing = edges.windows(2).all(|pair| pair[0] < pair[1]);
    let fine = growing && !edges.is_empty() && edges.len() <= KEYS_LIMIT as usize;
    if fine { Ok(edges) } else { Err(section.wrong("bucket", EDGES)) }
}

fn read_cross(section: &Section<'_>, before: &Features) -> Result<Feature, DocumentError> {
    const CROSS: &str = "a list of the names of two earlier features that are encoded by onehot, bucket or hash";
    let why = "a cross takes the names of two earlier features, and hash = 1024 if there are too many pairs";
    let others = ["column", "sql", "scale", "onehot", "bucket", "missing", "group_mean", "by", "keys", "bounds"];
    forbid_keys(section, &others, why)?;
    let names = section.texts("cross", CROSS)?.unwrap_or_default();
    let [one, two] = names.as_slice() else { return Err(section.wrong("cross", CROSS)) };
    let categories = |name: &String| {
        let found = before.get(name).filter(|feature| !feature.is_cross());
        found.and_then(|feature| feature.category_count(before)).ok_or_else(|| section.wrong("cross", CROSS))
    };
    let pairs = categories(one)?.saturating_mul(categories(two)?);
    if one == two {
        return Err(section.wrong("cross", CROSS));
    }
    let buckets = if section.has("hash") { Some(read_hash(section)?) } else { None };
    if buckets.is_none() && pairs > u64::from(KEYS_LIMIT) {
        return Err(section.missing("hash", format!("hash = 1048576 or less: there are {pairs} pairs")));
    }
    Ok(Feature::Cross { of: [one.clone(), two.clone()], buckets })
}

impl Features {
    /// The feature with this name.
    pub fn get(&self, name: &str) -> Option<&Feature> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, feature)| feature)
    }

    /// Whether a feature is computed from rows, and so has a cost.
    pub fn depend_on_rows(&self) -> bool {
        self.0.iter().any(|(_, feature)| matches!(feature, Feature::GroupMean { .. }))
    }

    pub(super) fn read(pipeline: &Section<'_>) -> Result<Self, DocumentError> {
        let mut features = Self::default();
        let sections = pipeline.sections("features")?;
        if sections.len() > FEATURES_LIMIT {
            return Err(pipeline.wrong("features", "at most 4096 features"));
        }
        for section in sections {
            let feature = Feature::read(&section, &features)?;
            features.0.push(feature);
        }
        Ok(features)
    }

    pub(super) fn write(&self, out: &mut String) {
        if self.0.is_empty() {
            return;
        }
        out.push_str("features = [\n");
        for (name, feature) in &self.0 {
            out.push_str(&format!("  {{ name = {}, {} }},\n", quoted(name), feature.write()));
        }
        out.push_str("]\n");
    }
}
