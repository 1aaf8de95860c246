//! Routes that are compatible with other projects: the Open Inference Protocol, Feast and MLflow.

use crate::body::BodyKind;
use crate::handlers::health;
use crate::protocols::{features, inference, mlflow};
use crate::table::{ResponseKind, Route, fixed, get, post};

const MLFLOW_PAGED: &[&str] = &["filter", "max_results", "page_token"];
const NAME_AND_VERSION: &[&str] = &["name", "version"];
const VERSION: &[ResponseKind] = &[ResponseKind::Json(200, "MlflowVersionResponse")];
const READY: &[ResponseKind] = &[ResponseKind::Json(200, "InferenceReady")];
const READY_PROBE: &[ResponseKind] = &[ResponseKind::Json(200, "Ready")];
const MODEL: &[ResponseKind] = &[ResponseKind::Json(200, "InferenceModel")];

pub(crate) const ROUTES: &[Route] = &[
    get("/v2", "Name and version of the server", inference::server)
        .responses(&[ResponseKind::Json(200, "InferenceServer")]),
    fixed("/v2/health/live", "Whether the process is running", health::live)
        .responses(&[ResponseKind::Json(200, "Live")]),
    get("/v2/health/ready", "Whether models can predict", health::ready).open().probe().responses(READY_PROBE),
    get("/v2/models/{name}", "Inputs and outputs of a model", inference::describe).responses(MODEL),
    get("/v2/models/{name}/ready", "Whether a model can predict", inference::ready).responses(READY),
    get("/v2/models/{name}/versions/{version}", "Inputs and outputs of a version", inference::describe)
        .responses(MODEL),
    get("/v2/models/{name}/versions/{version}/ready", "Whether a version can predict", inference::ready)
        .responses(READY),
    post(
        "/get-online-features",
        BodyKind::Json,
        "Lines of released statistics, as Feast's online features",
        features::online,
    )
    .read_only()
    .costly()
    .schema("FeaturesRequest")
    .responses(&[ResponseKind::Json(200, "Features")]),
    get("/api/2.0/mlflow/registered-models/alias", "MLflow: a version by alias", mlflow::by_alias)
        .query(&["name", "alias"])
        .responses(VERSION),
    get("/api/2.0/mlflow/registered-models/get", "MLflow: a model", mlflow::get_model)
        .query(&["name"])
        .responses(&[ResponseKind::Json(200, "MlflowModelResponse")]),
    get("/api/2.0/mlflow/registered-models/search", "MLflow: all models", mlflow::search_models)
        .query(MLFLOW_PAGED)
        .responses(&[ResponseKind::Json(200, "MlflowModels")]),
    get("/api/2.0/mlflow/model-versions/search", "MLflow: versions", mlflow::search_versions)
        .query(MLFLOW_PAGED)
        .responses(&[ResponseKind::Json(200, "MlflowVersions")]),
    get("/api/2.0/mlflow/model-versions/get", "MLflow: a version", mlflow::get_version)
        .query(NAME_AND_VERSION)
        .responses(VERSION),
    get("/api/2.0/mlflow/model-versions/get-download-uri", "MLflow: where the files are", mlflow::download_address)
        .query(NAME_AND_VERSION)
        .responses(&[ResponseKind::Json(200, "MlflowAddress")]),
    get("/api/2.0/mlflow-artifacts/artifacts", "MLflow: the files of a version", mlflow::list_files)
        .query(&["path"])
        .responses(&[ResponseKind::Json(200, "MlflowFiles")]),
    get("/api/2.0/mlflow-artifacts/artifacts/{*path}", "MLflow: a file", mlflow::file)
        .responses(&[ResponseKind::Other(200, "application/octet-stream")]),
];
