//! The features of a pipeline: what a model sees of a row.
//!
//! Encoders have public parameters alone. The one kind of feature that is computed from rows is the mean of a
//! group; it is paid for out of the attempt's budget.

use super::parts::{Bounds, KEYS_LIMIT, Keys, read_count, read_number, read_release, read_sql, without};
use crate::document::{DocumentError, Section, Shape, quoted};

/// Where a feature's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A column of the stream.
    Column(String),
    /// An SQL expression over the columns of one row.
    Sql(String),
}

/// What a model sees.
#[derive(Clone, Debug, PartialEq)]
pub enum Feature {
    /// A number, clipped to bounds and brought to the range from 0 to 1.
    Scale {
        /// The value.
        of: Source,
        /// The bounds.
        bounds: Bounds,
        /// The rule for missing values.
        missing: Missing,
    },
    /// An input for each category; what is none of them, or missing, is a category of its own.
    OneHot {
        /// The value.
        of: Source,
        /// The categories.
        keys: Keys,
    },
    /// An input for each range between edges.
    Bucket {
        /// The value.
        of: Source,
        /// The edges, growing.
        edges: Vec<f64>,
    },
    /// An input for each value of a hash.
    Hash {
        /// The value.
        of: Source,
        /// How many values the hash has.
        places: u32,
    },
    /// An input for each pair of categories of two features above.
    Cross {
        /// The two features.
        of: [String; 2],
        /// How many values a hash of the pairs has; without it every pair is an input.
        places: Option<u32>,
    },
    /// The private mean of a value over the rows with the same key, brought to the range from 0 to 1.
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
    /// What a released table of group means has for the row's key, brought to the range from 0 to 1.
    Released(ReleasedTable),
}

/// What becomes of a row whose number is missing: null, NaN or infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Missing {
    /// The row is left out of training and of the test, and has no prediction.
    #[default]
    LeftOut,
    /// The model has one more input, 1 where the number is missing and 0 elsewhere; the number is at its low bound.
    Indicator,
    /// The number is this constant, within its bounds.
    Constant(f64),
}

/// A table that was released before: looking at it again costs nothing.
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

/// More features than a person writes down.
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
    /// How many inputs it has, where it is one category of several; one more for what is none of them.
    pub fn places(&self, features: &Features) -> Option<u64> {
        match self {
            Self::OneHot { keys, .. } => Some(u64::from(keys.count()) + 1),
            Self::Bucket { edges, .. } => Some(edges.len() as u64 + 2),
            Self::Hash { places, .. } => Some(u64::from(*places) + 1),
            Self::Cross { places: Some(places), .. } => Some(u64::from(*places)),
            Self::Cross { of, places: None } => {
                // Crosses are not crossed again, so this goes one level deep.
                let one = |name: &String| features.get(name).filter(|one| !one.is_cross())?.places(features);
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
            without(section, &["column", "sql", "scale", "onehot", "bucket", "hash"], "a group_mean is one by itself")?;
            without(section, &["missing"], "rows without the value are in no mean, and a missing key is a group")?;
            Self::GroupMean {
                of: read_sql(section, "group_mean")?,
                by: read_sql(section, "by")?,
                keys: Keys::read(section, "keys")?,
                bounds: Bounds::read(section, "bounds")?,
            }
        } else if section.has("release") {
            let others = ["column", "sql", "scale", "onehot", "bucket", "hash", "missing", "keys", "bounds"];
            without(section, &others, "a released table has its own")?;
            Self::Released(ReleasedTable { release: read_release(section, "release")?, by: read_sql(section, "by")? })
        } else {
            without(section, &["by", "keys", "bounds"], "they belong to a group_mean")?;
            read_encoded(section)?
        };
        let name = section.optional_text("name", NAME)?.map(str::to_owned).or_else(|| feature.default_name());
        let name = name.ok_or_else(|| section.missing("name", format!("{NAME}; an expression has none by itself")))?;
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
            Self::Scale { of, bounds, missing } => format!("{}, scale = {bounds}{}", source(of), missing.write()),
            Self::OneHot { of, keys } => format!("{}, onehot = {keys}", source(of)),
            Self::Bucket { of, edges } => {
                let edges: Vec<String> = edges.iter().map(|edge| format!("{edge:?}")).collect();
                format!("{}, bucket = [{}]", source(of), edges.join(", "))
            }
            Self::Hash { of, places } => format!("{}, hash = {places}", source(of)),
            Self::Cross { of: [one, two], places } => {
                let places = places.map_or_else(String::new, |places| format!(", hash = {places}"));
                format!("cross = [{}, {}]{places}", quoted(one), quoted(two))
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
            "\"left-out\" (the row is), \"indicator\" (one more input), or a number from {:?} to {:?} that stands for it",
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

    /// The key with its value; nothing for the default.
    fn write(self) -> String {
        match self {
            Self::LeftOut => String::new(),
            Self::Indicator => ", missing = \"indicator\"".to_owned(),
            Self::Constant(number) => format!(", missing = {number:?}"),
        }
    }
}

fn source(of: &Source) -> String {
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
        return Err(section.wrong(second, format!("left out: a feature is encoded in one way, and `{key}` is one")));
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
        Encoder::Hash => Feature::Hash { of, places: read_hash(section)? },
    })
}

fn read_hash(section: &Section<'_>) -> Result<u32, DocumentError> {
    read_count(section, "hash", KEYS_LIMIT, "a whole number from 1 to 1048576: how many values the hash has")
}

fn read_edges(section: &Section<'_>) -> Result<Vec<f64>, DocumentError> {
    const EDGES: &str = "a list of 1 to 1048576 finite numbers, growing";
    let edges = section.numbers("bucket", EDGES)?;
    let growing = edges.windows(2).all(|pair| pair[0] < pair[1]);
    let fine = growing && !edges.is_empty() && edges.len() <= KEYS_LIMIT as usize;
    if fine { Ok(edges) } else { Err(section.wrong("bucket", EDGES)) }
}

fn read_cross(section: &Section<'_>, before: &Features) -> Result<Feature, DocumentError> {
    const CROSS: &str = "a list of the names of two features above it that are encoded by onehot, bucket or hash";
    let why = "a cross takes two features above it, and hash = 1024 if it has too many pairs";
    let others = ["column", "sql", "scale", "onehot", "bucket", "missing", "group_mean", "by", "keys", "bounds"];
    without(section, &others, why)?;
    let names = section.texts("cross", CROSS)?.unwrap_or_default();
    let [one, two] = names.as_slice() else { return Err(section.wrong("cross", CROSS)) };
    let categories = |name: &String| {
        let found = before.get(name).filter(|feature| !feature.is_cross());
        found.and_then(|feature| feature.places(before)).ok_or_else(|| section.wrong("cross", CROSS))
    };
    let pairs = categories(one)?.saturating_mul(categories(two)?);
    if one == two {
        return Err(section.wrong("cross", CROSS));
    }
    let places = if section.has("hash") { Some(read_hash(section)?) } else { None };
    if places.is_none() && pairs > u64::from(KEYS_LIMIT) {
        return Err(section.missing("hash", format!("hash = 1048576 or less: there are {pairs} pairs")));
    }
    Ok(Feature::Cross { of: [one.clone(), two.clone()], places })
}

impl Features {
    /// The feature of that name.
    pub fn get(&self, name: &str) -> Option<&Feature> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, feature)| feature)
    }

    /// Whether one of them is computed from rows, and so has a cost.
    pub fn are_released(&self) -> bool {
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
