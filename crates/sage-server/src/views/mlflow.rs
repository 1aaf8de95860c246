//! The replies of MLflow's model registry, as its clients read them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A property of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MlflowTag")]
pub struct Tag {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// A version of a registered model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MlflowVersion")]
pub struct ModelVersion {
    /// The aliases that name it.
    pub aliases: Vec<String>,
    /// Always zero: the end of an attempt depends on rows, so no time is returned. Versions are ordered without it.
    pub creation_timestamp: u64,
    /// Always `None`, since stages are not used.
    pub current_stage: String,
    /// Always empty.
    pub description: String,
    /// Always zero, as the time of its creation.
    pub last_updated_timestamp: u64,
    /// The name of the model.
    pub name: String,
    /// Always empty.
    pub run_id: String,
    /// Always empty.
    pub run_link: String,
    /// The address of its artefacts.
    pub source: String,
    /// Always `READY`.
    pub status: String,
    /// The stream, the blocks and the guarantee of the release.
    pub tags: Vec<Tag>,
    /// Its number.
    pub version: String,
}

/// An alias and the version that it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MlflowAlias")]
pub struct Alias {
    /// The alias.
    pub alias: String,
    /// The version.
    pub version: String,
}

/// A registered model: all versions of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MlflowModel")]
pub struct RegisteredModel {
    /// All aliases of its versions.
    pub aliases: Vec<Alias>,
    /// Always zero, as for a version.
    pub creation_timestamp: u64,
    /// Always zero, as for a version.
    pub last_updated_timestamp: u64,
    /// The newest version.
    pub latest_versions: Vec<ModelVersion>,
    /// The name.
    pub name: String,
    /// Always empty: versions have tags.
    pub tags: Vec<Tag>,
}

/// One version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MlflowVersionResponse")]
pub struct VersionReply {
    /// The version.
    pub model_version: ModelVersion,
}

/// One registered model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MlflowModelResponse")]
pub struct ModelReply {
    /// The model.
    pub registered_model: RegisteredModel,
}

/// A page of registered models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MlflowModels")]
pub struct ModelsPage {
    /// Where the next page starts; empty on the last one.
    pub next_page_token: String,
    /// The models.
    pub registered_models: Vec<RegisteredModel>,
}

/// A page of versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MlflowVersions")]
pub struct VersionsPage {
    /// The versions.
    pub model_versions: Vec<ModelVersion>,
    /// Where the next page starts; empty on the last one.
    pub next_page_token: String,
}

/// The address of the artefacts of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MlflowAddress")]
pub struct ArtifactAddress {
    /// The address.
    pub artifact_uri: String,
}

/// A file or a folder of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MlflowFile")]
pub struct Artifact {
    /// Its size in bytes; absent for a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<u64>,
    /// Whether it is a folder.
    pub is_dir: bool,
    /// Its name in the folder.
    pub path: String,
}

/// The files of a folder of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MlflowFiles")]
pub struct ArtifactList {
    /// The files and folders.
    pub files: Vec<Artifact>,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MlflowError {
    /// MLflow's name of the error.
    pub error_code: String,
    /// What happened, why, and what to do.
    pub message: String,
}
