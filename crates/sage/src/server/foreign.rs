//! Routes in the words of other projects: the Open Inference Protocol's, Feast's, MLflow's.

use super::table::{Gives, Route, Takes, fixed, get, post};
use super::{features, health, inference, mlflow};

const MLFLOW_PAGED: &[&str] = &["filter", "max_results", "page_token"];
const NAME_AND_VERSION: &[&str] = &["name", "version"];
const VERSION: &[Gives] = &[Gives::Json(200, "MlflowVersionAnswer")];
const READY: &[Gives] = &[Gives::Json(200, "InferenceReady")];
const READY_PROBE: &[Gives] = &[Gives::Json(200, "Ready")];
const MODEL: &[Gives] = &[Gives::Json(200, "InferenceModel")];

pub(super) const ROUTES: &[Route] = &[
    get("/v2", "What this server is", inference::server).gives(&[Gives::Json(200, "InferenceServer")]),
    fixed("/v2/health/live", "Whether the process answers", health::live).gives(&[Gives::Json(200, "Live")]),
    get("/v2/health/ready", "Whether models can be asked", health::ready).open().probe().gives(READY_PROBE),
    get("/v2/models/{name}", "What a model takes and gives", inference::describe).gives(MODEL),
    get("/v2/models/{name}/ready", "Whether a model can be asked", inference::ready).gives(READY),
    get("/v2/models/{name}/versions/{version}", "What a version takes and gives", inference::describe).gives(MODEL),
    get("/v2/models/{name}/versions/{version}/ready", "Whether a version can be asked", inference::ready).gives(READY),
    post("/get-online-features", Takes::Json, "Lines of released statistics, as Feast gives them", features::online)
        .asking()
        .costly()
        .of("FeaturesAsked")
        .gives(&[Gives::Json(200, "Features")]),
    get("/api/2.0/mlflow/registered-models/alias", "MLflow: a version by alias", mlflow::by_alias)
        .with(&["name", "alias"])
        .gives(VERSION),
    get("/api/2.0/mlflow/registered-models/get", "MLflow: a model", mlflow::get_model)
        .with(&["name"])
        .gives(&[Gives::Json(200, "MlflowModelAnswer")]),
    get("/api/2.0/mlflow/registered-models/search", "MLflow: all models", mlflow::search_models)
        .with(MLFLOW_PAGED)
        .gives(&[Gives::Json(200, "MlflowModels")]),
    get("/api/2.0/mlflow/model-versions/search", "MLflow: versions", mlflow::search_versions)
        .with(MLFLOW_PAGED)
        .gives(&[Gives::Json(200, "MlflowVersions")]),
    get("/api/2.0/mlflow/model-versions/get", "MLflow: a version", mlflow::get_version)
        .with(NAME_AND_VERSION)
        .gives(VERSION),
    get("/api/2.0/mlflow/model-versions/get-download-uri", "MLflow: where the files are", mlflow::download_address)
        .with(NAME_AND_VERSION)
        .gives(&[Gives::Json(200, "MlflowAddress")]),
    get("/api/2.0/mlflow-artifacts/artifacts", "MLflow: the files of a version", mlflow::list_files)
        .with(&["path"])
        .gives(&[Gives::Json(200, "MlflowFiles")]),
    get("/api/2.0/mlflow-artifacts/artifacts/{*path}", "MLflow: a file", mlflow::file)
        .gives(&[Gives::Other(200, "application/octet-stream")]),
];
