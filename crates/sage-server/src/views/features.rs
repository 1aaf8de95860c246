//! The reply of Feast's feature server to a request for online features.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Values of features for the keys of a request.
///
/// The server writes it column by column as text, because a tree of values would take many times its memory; a test
/// reads that text back as this type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Features")]
pub struct OnlineFeatures {
    /// The names of the columns.
    pub metadata: FeatureMetadata,
    /// The columns: the keys, then each feature.
    pub results: Vec<FeatureColumn>,
}

/// The names of the columns of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FeatureMetadata {
    /// The entity, then each feature.
    pub feature_names: Vec<String>,
}

/// The values of one column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FeatureColumn {
    /// A value for each key; `null` where there is none.
    pub values: Vec<serde_json::Value>,
    /// Whether there is a value for each key.
    pub statuses: Vec<FeatureStatus>,
}

/// Whether there is a value for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FeatureStatus {
    /// There is a value.
    Present,
    /// There is none.
    NotFound,
}
