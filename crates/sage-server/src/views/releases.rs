//! Released models and statistics.

use std::collections::BTreeMap;

use sage_engine::release::Kind;
use sage_engine::run::{Line, ReleasedStatistic};
use sage_engine::serve::Predictor;
use sage_engine::{Engine, EngineError, ReleaseView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kind of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReleaseKind {
    /// A model.
    Model,
    /// A statistic.
    Statistic,
}

impl ReleaseKind {
    /// Its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Statistic => "statistic",
        }
    }
}

impl From<Kind> for ReleaseKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Model => Self::Model,
            Kind::Statistic => Self::Statistic,
        }
    }
}

/// A release without its files.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseSummary {
    /// The name of the pipeline.
    pub name: String,
    /// The version, counted from 1.
    #[schemars(range(min = 1))]
    pub version: u32,
    /// Model or statistic.
    pub kind: ReleaseKind,
    /// The stream.
    pub stream: String,
    /// The run that released it.
    pub run: u64,
    /// The digest of its files.
    pub digest: String,
    /// Other names of this version.
    pub aliases: Vec<String>,
    /// Why it was withdrawn, if it was.
    pub withdrawn: Option<String>,
    /// The run with which its alarm began: a later test of the model did not pass, and none passed since. `null` for
    /// callers without a role on the stream.
    #[serde(default)]
    pub failing: Option<u64>,
}

impl ReleaseSummary {
    /// The alarm in words, if there is one.
    #[must_use]
    pub fn alarm(&self) -> Option<String> {
        self.failing.map(|run| format!("alarm: it did not pass the test of run {run}"))
    }

    /// `name@version`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

impl From<&ReleaseView> for ReleaseSummary {
    fn from(release: &ReleaseView) -> Self {
        Self {
            name: release.name.clone(),
            version: release.version,
            kind: release.kind.into(),
            stream: release.stream.clone(),
            run: release.run,
            digest: release.digest.clone(),
            aliases: release.aliases.clone(),
            withdrawn: release.withdrawn.clone(),
            failing: release.failing,
        }
    }
}

/// A page of releases.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Releases")]
pub struct ReleasesPage {
    /// The releases.
    pub releases: Vec<ReleaseSummary>,
    /// Where the next page starts.
    pub next: Option<u64>,
}

/// A release with its receipt, and its card or its values.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Release {
    /// What identifies it.
    #[serde(flatten)]
    pub summary: ReleaseSummary,
    /// The receipt.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub receipt: Value,
    /// The names of its files.
    pub files: Vec<String>,
    /// The card of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    /// The values of a statistic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistic: Option<Statistic>,
}

/// The values of a statistic.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Statistic {
    /// The definition of the statistic.
    pub statistic: String,
    /// The confidence with which all limits hold together.
    pub confidence: f64,
    /// Its lines.
    pub lines: Vec<StatisticLine>,
}

/// A released statistic with its name and version.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NamedStatistic {
    /// The name of the release.
    pub name: String,
    /// The version.
    pub version: u32,
    /// Its values.
    #[serde(flatten)]
    pub statistic: Statistic,
}

/// One line of a statistic.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StatisticLine {
    /// The key; `null` where there is one line for all rows.
    pub key: Option<String>,
    /// The estimate.
    pub value: Option<f64>,
    /// The lower limit.
    pub low: Option<f64>,
    /// The upper limit.
    pub high: Option<f64>,
}

impl From<&Line> for StatisticLine {
    fn from(line: &Line) -> Self {
        Self { key: line.key.clone(), value: line.value, low: line.low, high: line.high }
    }
}

impl From<&ReleasedStatistic> for Statistic {
    fn from(published: &ReleasedStatistic) -> Self {
        Self {
            statistic: published.statistic.clone(),
            confidence: published.confidence,
            lines: published.lines.iter().map(StatisticLine::from).collect(),
        }
    }
}

impl Release {
    /// Reads the files of a release.
    ///
    /// # Errors
    /// When a file is missing or differs from its digest.
    pub fn read(engine: &Engine, release: &ReleaseView) -> Result<Self, EngineError> {
        let files = engine.release_files(release)?;
        let (card, statistic) = match release.kind {
            Kind::Statistic => (None, Some(Statistic::from(&engine.statistic(release)?))),
            Kind::Model => (Some(file_text(&files, "README.md")), None),
        };
        Ok(Self {
            summary: release.into(),
            receipt: serde_json::from_str(&file_text(&files, "receipt.json")).unwrap_or(Value::Null),
            files: files.iter().map(|(name, _)| name.clone()).collect(),
            card,
            statistic,
        })
    }
}

/// `name@version` of a release.
#[must_use]
pub fn full_name(release: &ReleaseView) -> String {
    format!("{}@{}", release.name, release.version)
}

/// A file of a release as text; empty where there is none.
#[must_use]
pub fn file_text(files: &[(String, impl AsRef<[u8]>)], name: &str) -> String {
    let file = files.iter().find(|(file, _)| file == name);
    file.map(|(_, bytes)| String::from_utf8_lossy(bytes.as_ref()).into_owned()).unwrap_or_default()
}

/// A version that was withdrawn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WithdrawalResult {
    /// `name@version`.
    pub release: String,
    /// The reason.
    pub withdrawn: String,
}

/// The files of a release in a folder.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PulledRelease {
    /// The name and version of the release.
    pub release: String,
    /// The digest of its bundle.
    pub digest: String,
    /// The names of the files.
    pub files: Vec<String>,
}

/// The predictions of a model, with its name and version.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModelPredictions {
    /// The name and version of the model.
    pub model: String,
    /// The predictions in the order of the rows.
    pub predictions: Vec<Prediction>,
}

/// The columns that a model needs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModelColumns {
    /// The name and version of the model.
    pub model: String,
    /// The columns.
    pub columns: Vec<ColumnDomain>,
}

/// A column and the values that it may have.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ColumnDomain {
    /// The column.
    pub column: String,
    /// The values, in words.
    pub allowed: String,
}

/// Predictions in the order of the rows: a number each, a list of numbers of a model with several outputs, or a class with
/// the probabilities of all classes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Predictions {
    /// The predictions.
    pub predictions: Vec<Prediction>,
}

/// One prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Prediction {
    /// A model with one output; `null` where the model left the row out.
    One(Option<f64>),
    /// A model with several outputs.
    Several(Vec<Option<f64>>),
    /// A model that predicts classes.
    Class(ClassPrediction),
}

/// The prediction of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassPrediction {
    /// The most probable class; `null` where the model left the row out.
    pub label: Option<String>,
    /// The probability of each class.
    pub probabilities: BTreeMap<String, Option<f64>>,
}

/// The shortest decimal that reads back as the same `f32`; `None` for NaN and infinity.
pub(crate) fn shortest(value: f32) -> Option<f64> {
    value.to_string().parse::<f64>().ok().filter(|number| number.is_finite())
}

impl Prediction {
    /// The predictions of a model from its outputs, row after row.
    pub fn list(predictor: &Predictor, outputs: &[f32]) -> Vec<Self> {
        outputs.chunks(predictor.outputs().max(1)).map(|outputs| Self::new(predictor, outputs)).collect()
    }

    fn new(predictor: &Predictor, outputs: &[f32]) -> Self {
        let numbers = outputs.iter().copied().map(shortest);
        match (outputs, predictor.classes()) {
            (_, [_, ..]) => Self::Class(ClassPrediction {
                label: predictor.class(outputs).map(str::to_owned),
                probabilities: predictor.classes().iter().cloned().zip(numbers).collect(),
            }),
            ([one], []) => Self::One(shortest(*one)),
            (_, []) => Self::Several(numbers.collect()),
        }
    }
}
