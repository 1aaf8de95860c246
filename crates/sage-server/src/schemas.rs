//! The schemas of the OpenAPI document, by the names that the route table uses.
//!
//! Those of Sage's own API are derived from [`crate::views`], and so are the responses of other projects'
//! protocols; the requests of those are written here. An
//! object may have more fields than its schema. The program's tests check every response against these schemas.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::views::census::Census;
use crate::views::features::OnlineFeatures;
use crate::views::inference::{InferenceError, InferenceResponse, ModelMetadata, ModelReady, ServerMetadata};
use crate::views::ingest::IngestResult;
use crate::views::mlflow::{
    ArtifactAddress, ArtifactList, MlflowError, ModelReply, ModelsPage, VersionReply, VersionsPage,
};
use crate::views::plan::Plan;
use crate::views::quarantine::{QuarantineResult, QuarantinedFile};
use crate::views::queries::QueryResponse;
use crate::views::releases::{Predictions, Release, ReleasesPage, WithdrawalResult};
use crate::views::requests::{
    AliasRequest, ApprovalRequest, BlocksRequest, ChargeRequest, MemberRequest, ProgramRequest, QuarantineRequest,
    QueryRequest, WithdrawalRequest,
};
use crate::views::runs::{Run, RunsPage};
use crate::views::service::{ChargeResult, Live, ProblemDetails, Ready, Version};
use crate::views::streams::{Block, BlocksPage, BlocksResult, CreatedStream, PolicyState, Stream, SuspendedMembers};

/// A reference to a named schema.
pub(crate) type Schema = (&'static str, fn() -> Value);

/// An object with these required fields.
fn object(fields: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({"type": "object", "required": names, "properties": properties(fields)})
}

/// An object with required and optional fields.
fn loose(required: &[(&str, Value)], optional: &[(&str, Value)]) -> Value {
    let mut whole = object(required);
    for (name, schema) in properties(optional) {
        whole["properties"][name] = schema;
    }
    whole
}

fn properties(fields: &[(&str, Value)]) -> Map<String, Value> {
    fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect()
}

fn text() -> Value {
    json!({"type": "string"})
}

fn truth() -> Value {
    json!({"type": "boolean"})
}

fn list(of: Value) -> Value {
    json!({"type": "array", "items": of})
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn inference_request() -> Value {
    let data = list(json!({"type": ["number", "string", "boolean", "null"]}));
    let shape = list(json!({"type": "integer"}));
    let tensor = loose(&[("name", text()), ("data", data)], &[("shape", shape), ("datatype", text())]);
    loose(&[("inputs", list(tensor))], &[("id", text())])
}

fn invocations_request() -> Value {
    let split = object(&[("columns", list(text())), ("data", list(list(json!({}))))]);
    loose(
        &[],
        &[("dataframe_split", split), ("dataframe_records", list(json!({"type": "object"}))), ("inputs", json!({}))],
    )
}

/// Adds the schemas of types, with those that they refer to.
macro_rules! add {
    ($generator:expr, $($view:ty),+ $(,)?) => {
        $($generator.subschema_for::<$view>();)+
    };
}

/// The schemas of responses and request bodies, derived from the types of [`crate::views`].
fn derived() -> Map<String, Value> {
    let settings = || {
        SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
    };
    let mut responses = settings().for_serialize().into_generator();
    add!(
        responses,
        Live,
        Ready,
        Version,
        ProblemDetails,
        ChargeResult,
        Stream,
        CreatedStream,
        PolicyState,
        SuspendedMembers,
        Census,
        QuarantinedFile,
        QuarantineResult,
        Block,
        BlocksPage,
        BlocksResult,
        IngestResult,
        QueryResponse,
        RunsPage,
        Run,
        Plan,
        ReleasesPage,
        Release,
        WithdrawalResult,
        Predictions,
        ServerMetadata,
        ModelMetadata,
        ModelReady,
        InferenceResponse,
        InferenceError,
        OnlineFeatures,
        VersionReply,
        ModelReply,
        ModelsPage,
        VersionsPage,
        ArtifactAddress,
        ArtifactList,
        MlflowError,
    );
    let mut requests = settings().for_deserialize().into_generator();
    add!(
        requests,
        ApprovalRequest,
        MemberRequest,
        QuarantineRequest,
        BlocksRequest,
        ChargeRequest,
        QueryRequest,
        ProgramRequest,
        AliasRequest,
        WithdrawalRequest,
    );
    let mut all = responses.take_definitions(true);
    all.extend(requests.take_definitions(true));
    all
}

/// All schemas by the names that the route table uses.
pub(crate) fn all() -> Map<String, Value> {
    let mut all = derived();
    all.extend(PROTOCOLS.iter().map(|(name, make)| ((*name).to_owned(), make())));
    all
}

/// Lists, and the requests of other projects' protocols.
const PROTOCOLS: &[Schema] = &[
    ("Event", || loose(&[("data", text())], &[("id", text()), ("event", text())])),
    ("Description", || object(&[("openapi", text()), ("paths", json!({"type": "object"}))])),
    ("Streams", || list(reference("Stream"))),
    ("Quarantine", || list(reference("QuarantinedFile"))),
    ("InferenceRequest", inference_request),
    ("InvocationsRequest", invocations_request),
    ("FeaturesRequest", || {
        let entities = json!({"type": "object", "additionalProperties": list(json!({}))});
        loose(&[("features", list(text())), ("entities", entities)], &[("full_feature_names", truth())])
    }),
];
