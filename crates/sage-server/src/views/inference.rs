//! The replies of the Open Inference Protocol.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InferenceServer")]
pub struct ServerMetadata {
    /// Extensions of the protocol: none.
    pub extensions: Vec<String>,
    /// The program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The type and shape of an input or output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InferenceTensorMetadata")]
pub struct TensorMetadata {
    /// The type of its values.
    pub datatype: String,
    /// Its name: a column of the rows, `prediction`, or `label` and `probabilities` of a model that predicts classes.
    pub name: String,
    /// Its size in each dimension; -1 for the number of rows.
    pub shape: Vec<i64>,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InferenceModel")]
pub struct ModelMetadata {
    /// The columns of a row.
    pub inputs: Vec<TensorMetadata>,
    /// Its name.
    pub name: String,
    /// The predictions.
    pub outputs: Vec<TensorMetadata>,
    /// The format of the model.
    pub platform: String,
    /// All versions of the name.
    pub versions: Vec<String>,
}

/// Whether a model can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InferenceReady")]
pub struct ModelReady {
    /// Its name.
    pub name: String,
    /// Always `true`; a model that does not exist is an error.
    pub ready: bool,
}

/// The values of an output, row after row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TensorData {
    /// Numbers; `null` where the model left the row out.
    Numbers(Vec<Option<f64>>),
    /// Names of classes; `null` where the model left the row out.
    Texts(Vec<Option<String>>),
}

/// An output with its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InferenceTensor")]
pub struct Tensor {
    /// The values.
    pub data: TensorData,
    /// The type of its values.
    pub datatype: String,
    /// Its name.
    pub name: String,
    /// Its size in each dimension.
    pub shape: Vec<u64>,
}

/// The predictions of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InferenceResponse {
    /// The id of the request, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the model.
    pub model_name: String,
    /// The version of the model.
    pub model_version: String,
    /// One output, `prediction`; for a model that predicts classes two, `label` and `probabilities`.
    pub outputs: Vec<Tensor>,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InferenceError {
    /// What happened, why, and what to do.
    pub error: String,
}
