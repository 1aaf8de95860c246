//! Every address of the server, with who may ask and what answers.

use super::call::{Answer, Call};
use super::problem::{Problem, Style};
use super::{features, health, inference, mlflow, openapi, pages, releases, runs, streams};

/// Which kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
}

/// Who may ask at all. What somebody with a token may see of a stream is a question of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    Token,
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Toml,
    Json,
    Rows,
    Form,
}

impl Takes {
    /// The largest body.
    pub(super) const fn most(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Toml => 1 << 20,
            Self::Json => 4 << 20,
            Self::Rows => 64 << 20,
            Self::Form => 64 << 10,
        }
    }

    /// The type of it.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Toml => "application/toml",
            Self::Json => "application/json",
            Self::Rows => "application/x-ndjson",
            Self::Form => "application/x-www-form-urlencoded",
        }
    }
}

/// What answers.
#[derive(Clone, Copy)]
pub(super) enum Does {
    Answer(fn(&Call<'_>) -> Result<Answer, Problem>),
    /// Events, as long as somebody listens.
    Watch,
}

/// A route.
pub(super) struct Route {
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    pub(super) needs: Needs,
    pub(super) takes: Takes,
    /// What may stand in the query.
    pub(super) asks: &'static [&'static str],
    /// Whether it changes something.
    pub(super) changes: bool,
    /// Whether it is for a person in front of a browser.
    pub(super) page: bool,
    pub(super) summary: &'static str,
    pub(super) does: Does,
}

type Answers = fn(&Call<'_>) -> Result<Answer, Problem>;

const fn get(path: &'static str, summary: &'static str, answer: Answers) -> Route {
    let (verb, needs, takes) = (Verb::Get, Needs::Token, Takes::Nothing);
    Route { verb, path, needs, takes, asks: &[], changes: false, page: false, summary, does: Does::Answer(answer) }
}

const fn post(path: &'static str, takes: Takes, summary: &'static str, answer: Answers) -> Route {
    let (verb, needs) = (Verb::Post, Needs::Token);
    Route { verb, path, needs, takes, asks: &[], changes: true, page: false, summary, does: Does::Answer(answer) }
}

impl Route {
    /// For everybody.
    const fn open(self) -> Self {
        Self { needs: Needs::Nothing, ..self }
    }

    /// With these in the query.
    const fn with(self, asks: &'static [&'static str]) -> Self {
        Self { asks, ..self }
    }

    /// For a person in front of a browser.
    const fn page(self) -> Self {
        Self { page: true, ..self }
    }

    /// A question that is posted because it is long.
    const fn asking(self) -> Self {
        Self { changes: false, ..self }
    }

    /// Whose shape its errors have.
    pub(super) fn style(&self) -> Style {
        let begins = |start: &str| self.path.starts_with(start);
        if self.page {
            Style::Page
        } else if begins("/v2") || begins("/get-online-features") {
            Style::Inference
        } else if begins("/api/2.0") || begins("/invocations") {
            Style::Mlflow
        } else {
            Style::Details
        }
    }
}

const PAGED: &[&str] = &["after", "limit"];
const MLFLOW_PAGED: &[&str] = &["filter", "max_results", "page_token"];
const NAME_AND_VERSION: &[&str] = &["name", "version"];

/// All routes.
pub(super) const ROUTES: &[Route] = &[
    get("/livez", "Whether the process answers", health::live).open(),
    get("/readyz", "Whether the log can be used and work is done", health::ready).open(),
    get("/version", "Which release this is", health::version).open(),
    get("/openapi.json", "This description", openapi::describe).open(),
    get("/metrics", "Numbers for Prometheus, of the streams the caller has a role in", health::metrics),
    get("/v1/streams", "The streams the caller has a role in", streams::list),
    post("/v1/streams", Takes::Toml, "Creates the stream of a file, for an officer whom it names", streams::create),
    get("/v1/streams/{stream}", "A stream", streams::show),
    post("/v1/streams/{stream}/policy", Takes::Toml, "Has a stream follow a changed file", streams::change),
    post("/v1/streams/{stream}/approve", Takes::Nothing, "Agrees to a proposed policy", streams::approve),
    get("/v1/streams/{stream}/blocks", "The blocks of a stream and what they have lost", streams::list_blocks)
        .with(PAGED),
    post("/v1/streams/{stream}/blocks", Takes::Json, "Seals, retires or deletes blocks", streams::step_blocks),
    post("/v1/streams/{stream}/rows", Takes::Rows, "Takes in a batch of rows", streams::rows).with(&["batch"]),
    get("/v1/runs", "The runs on streams the caller has a role in", runs::list).with(&["stream", "after", "limit"]),
    post("/v1/runs", Takes::Toml, "Submits a pipeline, once for each Idempotency-Key", runs::submit),
    get("/v1/runs/{run}", "A run: its attempts, and why it stands as it does", runs::show),
    post("/v1/runs/{run}/cancel", Takes::Nothing, "Stops a run", runs::cancel),
    post("/v1/plan", Takes::Toml, "What would happen to a pipeline if it were submitted now", runs::plan).asking(),
    get("/v1/releases", "All releases", releases::list).with(PAGED),
    get("/v1/releases/{name}", "The newest version of a release", releases::show),
    get("/v1/releases/{name}/{version}", "A release by version or alias", releases::show),
    get("/v1/releases/{name}/{version}/files/{*path}", "A file of a release", releases::file),
    post("/v1/releases/{name}/{version}/aliases", Takes::Json, "Names a version", releases::alias),
    post("/v1/releases/{name}/{version}/withdraw", Takes::Json, "Takes a version from offer", releases::withdraw),
    get("/", "Page: streams", pages::streams).page(),
    get("/streams/{stream}", "Page: a stream and its blocks", pages::stream).page().with(&["after"]),
    get("/streams/{stream}/blocks/{*path}", "Page: a block and who read it", pages::block).page(),
    get("/runs", "Page: runs", pages::runs).page(),
    get("/runs/{run}", "Page: a run against its target", pages::run).page(),
    get("/releases", "Page: releases", pages::releases).page(),
    get("/releases/{name}/{version}", "Page: a release", pages::release).page(),
    post("/releases/{name}/{version}", Takes::Form, "Page: a model is tried", pages::try_out).asking().page(),
    get("/audit", "Page: the end of the log", pages::audit).page().with(&["before"]),
    post("/audit", Takes::Form, "Page: the log is verified", pages::verify).asking().page(),
    get("/login", "Page: where a token is pasted", pages::ask).open().page(),
    post("/login", Takes::Form, "Page: a token becomes a cookie", pages::enter).open().page(),
    post("/logout", Takes::Form, "Page: the cookie is forgotten", pages::leave).open().page(),
    get("/assets/style.css", "The look of pages", pages::style).open(),
    get("/assets/script.js", "What keeps pages up to date", pages::script).open(),
    get("/assets/icon.svg", "The sign of pages", pages::icon).open(),
    get("/v2", "What this server is", inference::server),
    get("/v2/health/live", "Whether the process answers", health::live).open(),
    get("/v2/health/ready", "Whether models can be asked", health::ready).open(),
    get("/v2/models/{name}", "What a model takes and gives", inference::describe),
    get("/v2/models/{name}/ready", "Whether a model can be asked", inference::ready),
    post("/v2/models/{name}/infer", Takes::Json, "Asks a model", inference::infer).asking(),
    get("/v2/models/{name}/versions/{version}", "What a version takes and gives", inference::describe),
    get("/v2/models/{name}/versions/{version}/ready", "Whether a version can be asked", inference::ready),
    post("/v2/models/{name}/versions/{version}/infer", Takes::Json, "Asks a version", inference::infer).asking(),
    post("/invocations", Takes::Json, "Asks a model as MLflow's scoring server would be", inference::invocations)
        .asking()
        .with(&["model"]),
    post("/get-online-features", Takes::Json, "Lines of released statistics, as Feast gives them", features::online)
        .asking(),
    get("/api/2.0/mlflow/registered-models/alias", "MLflow: a version by alias", mlflow::by_alias)
        .with(&["name", "alias"]),
    get("/api/2.0/mlflow/registered-models/get", "MLflow: a model", mlflow::get_model).with(&["name"]),
    get("/api/2.0/mlflow/registered-models/search", "MLflow: all models", mlflow::search_models).with(MLFLOW_PAGED),
    get("/api/2.0/mlflow/model-versions/search", "MLflow: versions", mlflow::search_versions).with(MLFLOW_PAGED),
    get("/api/2.0/mlflow/model-versions/get", "MLflow: a version", mlflow::get_version).with(NAME_AND_VERSION),
    get("/api/2.0/mlflow/model-versions/get-download-uri", "MLflow: where the files are", mlflow::download_address)
        .with(NAME_AND_VERSION),
    get("/api/2.0/mlflow-artifacts/artifacts", "MLflow: the files of a version", mlflow::list_files).with(&["path"]),
    get("/api/2.0/mlflow-artifacts/artifacts/{*path}", "MLflow: a file", mlflow::file),
    Route {
        verb: Verb::Get,
        path: "/v1/events",
        needs: Needs::Token,
        takes: Takes::Nothing,
        asks: &["after"],
        changes: false,
        page: false,
        summary: "What happens, as it happens: server-sent events with the log's numbers",
        does: Does::Watch,
    },
];
