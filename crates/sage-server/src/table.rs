//! All routes of the server, each with its audience, its body, its responses and its handler.

use crate::body::BodyKind;
use crate::call::{Call, Reply};
use crate::handlers::{charges, health, log, programs, queries, releases, runs, streams};
use crate::problem::{Problem, Style};
use crate::protocols::model_cache::Protocol;
use crate::{openapi, pages};

/// The method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
}

/// Whether a request needs a token. What a token may see of a stream is decided by the stream's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authentication {
    Nothing,
    Token,
}

/// The users that a route is for. The OpenAPI document names it, and the access tests are generated from that document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Everybody, also without a token.
    Everybody,
    /// Every token.
    Token,
    /// Users with a role on any stream, and admin tokens.
    AnyRole,
    /// Users with a role on the stream of the request, and admin tokens.
    StreamRole,
    /// Officers of any stream, and admin tokens.
    AnyOfficer,
    /// Officers and data engineers of the stream, each for actions of their own.
    OfficersAndDataEngineers,
    /// Officers and ML engineers of the stream.
    OfficersAndMlEngineers,
    /// Officers of the stream.
    Officers,
    /// Data engineers of the stream.
    DataEngineers,
    /// ML engineers of the stream.
    MlEngineers,
}

impl Audience {
    /// Its name in the OpenAPI document.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Everybody => "everybody",
            Self::Token => "token",
            Self::AnyRole => "some-role",
            Self::StreamRole => "role-in-stream",
            Self::AnyOfficer => "some-privacy-officer",
            Self::OfficersAndDataEngineers => "privacy-officer, data-engineer",
            Self::OfficersAndMlEngineers => "privacy-officer, ml-engineer",
            Self::Officers => "privacy-officer",
            Self::DataEngineers => "data-engineer",
            Self::MlEngineers => "ml-engineer",
        }
    }
}

/// A successful response: its status and, for JSON, the name of its schema; otherwise its media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    Json(u16, &'static str),
    Other(u16, &'static str),
}

/// What handles a request.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// A function in a thread of its own.
    Call(HandlerFn),
    /// A prediction, on the network thread where the model is cached and the body short.
    Predict(Protocol),
    /// A stream of events.
    Watch,
    /// The same reply for everybody, without a permit: no load delays it.
    Fixed(fn() -> Reply),
}

/// The load of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// A probe, answered under any load.
    Probe,
    /// Some milliseconds.
    Small,
    /// A processor for a while: such requests are queued, fairly between tokens.
    Costly,
}

/// A route.
pub(crate) struct Route {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) authentication: Authentication,
    pub(crate) audience: Audience,
    pub(crate) body: BodyKind,
    /// The schema of a JSON body.
    pub(crate) schema: Option<&'static str>,
    pub(crate) responses: &'static [ResponseKind],
    /// Parameters of the query.
    pub(crate) query: &'static [&'static str],
    /// Headers, beyond those of all routes.
    pub(crate) headers: &'static [&'static str],
    /// Whether it changes something.
    pub(crate) changes: bool,
    /// Whether it is a page for a browser.
    pub(crate) page: bool,
    pub(crate) summary: &'static str,
    pub(crate) effort: Effort,
    pub(crate) handler: Handler,
}

type HandlerFn = fn(&Call<'_>) -> Result<Reply, Problem>;

const fn route(verb: Verb, path: &'static str, body: BodyKind, summary: &'static str, handler: Handler) -> Route {
    Route {
        verb,
        path,
        authentication: Authentication::Token,
        audience: Audience::Token,
        body,
        schema: None,
        responses: &[],
        query: &[],
        headers: &[],
        changes: matches!(verb, Verb::Post),
        page: false,
        summary,
        effort: Effort::Small,
        handler,
    }
}

pub(crate) const fn get(path: &'static str, summary: &'static str, handler: HandlerFn) -> Route {
    route(Verb::Get, path, BodyKind::Nothing, summary, Handler::Call(handler))
}

pub(crate) const fn post(path: &'static str, body: BodyKind, summary: &'static str, handler: HandlerFn) -> Route {
    route(Verb::Post, path, body, summary, Handler::Call(handler))
}

/// A fixed reply.
pub(crate) const fn fixed(path: &'static str, summary: &'static str, answer: fn() -> Reply) -> Route {
    route(Verb::Get, path, BodyKind::Nothing, summary, Handler::Fixed(answer)).open()
}

const fn predict(path: &'static str, body: BodyKind, summary: &'static str, protocol: Protocol) -> Route {
    route(Verb::Post, path, body, summary, Handler::Predict(protocol)).read_only()
}

impl Route {
    /// Open without a token.
    pub(crate) const fn open(self) -> Self {
        Self { authentication: Authentication::Nothing, audience: Audience::Everybody, ..self }
    }

    /// A readiness probe.
    pub(crate) const fn probe(self) -> Self {
        Self { effort: Effort::Probe, ..self }
    }

    /// A request that computes for a while.
    pub(crate) const fn costly(self) -> Self {
        Self { effort: Effort::Costly, ..self }
    }

    /// For this audience.
    pub(crate) const fn audience(self, audience: Audience) -> Self {
        Self { audience, ..self }
    }

    /// With a body of this schema.
    pub(crate) const fn schema(self, schema: &'static str) -> Self {
        Self { schema: Some(schema), ..self }
    }

    /// With these responses.
    pub(crate) const fn responses(self, responses: &'static [ResponseKind]) -> Self {
        Self { responses, ..self }
    }

    /// With these query parameters.
    pub(crate) const fn query(self, query: &'static [&'static str]) -> Self {
        Self { query, ..self }
    }

    /// With these headers.
    pub(crate) const fn headers(self, headers: &'static [&'static str]) -> Self {
        Self { headers, ..self }
    }

    /// A page for a browser.
    pub(crate) const fn page(self) -> Self {
        Self { page: true, responses: PAGE, ..self }
    }

    /// A POST that changes nothing.
    pub(crate) const fn read_only(self) -> Self {
        Self { changes: false, ..self }
    }

    /// The format of its errors.
    pub(crate) fn style(&self) -> Style {
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

/// A repeated request with the same key has its effect once.
const ONCE: &[&str] = &["Idempotency-Key"];
const PAGED: &[&str] = &["after", "limit"];

/// A page, or the redirect to the login.
const PAGE: &[ResponseKind] = &[ResponseKind::Other(200, "text/html"), ResponseKind::Other(303, "text/plain")];
const LIVE: &[ResponseKind] = &[ResponseKind::Json(200, "Live")];
const READY: &[ResponseKind] = &[ResponseKind::Json(200, "Ready")];
const RUN: &[ResponseKind] = &[ResponseKind::Json(200, "Run")];
const RELEASE: &[ResponseKind] = &[ResponseKind::Json(200, "Release")];
const FILE: &[ResponseKind] = &[ResponseKind::Other(200, "application/octet-stream")];
const INFERRED: &[ResponseKind] = &[ResponseKind::Json(200, "InferenceResponse")];
const POLICY: &[ResponseKind] = &[ResponseKind::Json(200, "PolicyState")];

/// All routes: the API, the pages, and the protocols of other projects.
pub(crate) fn routes() -> impl Iterator<Item = &'static Route> {
    OURS.iter().chain(PAGES).chain(crate::protocols::foreign::ROUTES)
}

const OURS: &[Route] = &[
    fixed("/livez", "Whether the process is running", health::live).responses(LIVE),
    get("/readyz", "Whether the log can be used and the worker is running", health::ready)
        .open()
        .probe()
        .responses(READY),
    fixed("/version", "The release of the server", health::version).responses(&[ResponseKind::Json(200, "Version")]),
    fixed("/openapi.json", "The OpenAPI document", openapi::describe)
        .responses(&[ResponseKind::Json(200, "Description")]),
    get("/metrics", "Metrics for Prometheus", health::metrics)
        .audience(Audience::AnyRole)
        .responses(&[ResponseKind::Other(200, "text/plain")]),
    get("/v1/streams", "The streams that the caller has a role on", streams::list)
        .responses(&[ResponseKind::Json(200, "Streams")]),
    post("/v1/streams", BodyKind::Toml, "Creates a stream from its file, for an officer named in it", streams::create)
        .audience(Audience::AnyOfficer)
        .responses(&[ResponseKind::Json(201, "CreatedStream")]),
    get("/v1/streams/{stream}", "A stream", streams::show)
        .audience(Audience::StreamRole)
        .responses(&[ResponseKind::Json(200, "Stream")]),
    post(
        "/v1/streams/{stream}/policy",
        BodyKind::Toml,
        "Changes a stream to a new version of its file",
        streams::change,
    )
    .audience(Audience::Officers)
    .responses(POLICY),
    post("/v1/streams/{stream}/approve", BodyKind::Json, "Approves a proposed file by its digest", streams::approve)
        .audience(Audience::Officers)
        .schema("ApprovalRequest")
        .responses(POLICY),
    post("/v1/streams/{stream}/members", BodyKind::Json, "Suspends or reinstates a member", streams::suspend)
        .audience(Audience::Officers)
        .schema("MemberRequest")
        .responses(&[ResponseKind::Json(200, "SuspendedMembers")]),
    get("/v1/streams/{stream}/census", "The private counts of a stream's units", streams::census)
        .audience(Audience::StreamRole)
        .responses(&[ResponseKind::Json(200, "Census")]),
    get("/v1/streams/{stream}/quarantine", "Quarantined rows, without counts", streams::quarantine)
        .audience(Audience::DataEngineers)
        .responses(&[ResponseKind::Json(200, "Quarantine")]),
    post(
        "/v1/streams/{stream}/quarantine",
        BodyKind::Json,
        "Releases or erases quarantined rows",
        streams::step_quarantine,
    )
    .audience(Audience::OfficersAndDataEngineers)
    .schema("QuarantineRequest")
    .responses(&[ResponseKind::Json(200, "QuarantineResult")]),
    get("/v1/streams/{stream}/blocks", "The blocks of a stream and what they have lost", streams::list_blocks)
        .query(PAGED)
        .audience(Audience::StreamRole)
        .responses(&[ResponseKind::Json(200, "Blocks")]),
    post("/v1/streams/{stream}/blocks", BodyKind::Json, "Seals, retires or deletes blocks", streams::step_blocks)
        .audience(Audience::OfficersAndDataEngineers)
        .schema("BlocksRequest")
        .responses(&[ResponseKind::Json(200, "BlocksResult")]),
    post("/v1/streams/{stream}/rows", BodyKind::Rows, "Ingests a batch of rows", streams::rows)
        .costly()
        .query(&["batch"])
        .audience(Audience::DataEngineers)
        .responses(&[ResponseKind::Json(200, "IngestResult"), ResponseKind::Json(201, "IngestResult")]),
    post("/v1/streams/{stream}/charges", BodyKind::Json, "Charges a computation outside Sage", charges::charge)
        .audience(Audience::MlEngineers)
        .schema("ChargeRequest")
        .responses(&[ResponseKind::Json(201, "ChargeResult")]),
    post(
        "/v1/streams/{stream}/query",
        BodyKind::Json,
        "Runs a private SQL query, once for each Idempotency-Key",
        queries::query,
    )
    .costly()
    .headers(ONCE)
    .audience(Audience::MlEngineers)
    .schema("QueryRequest")
    .responses(&[ResponseKind::Json(200, "QueryResponse")]),
    get("/v1/runs", "The runs on streams that the caller has a role on", runs::list)
        .query(&["stream", "after", "limit"])
        .responses(&[ResponseKind::Json(200, "Runs")]),
    post("/v1/runs", BodyKind::Toml, "Submits a pipeline, once for each Idempotency-Key", runs::submit)
        .costly()
        .headers(ONCE)
        .audience(Audience::MlEngineers)
        .responses(&[ResponseKind::Json(200, "Run"), ResponseKind::Json(201, "Run")]),
    post("/v1/programs", BodyKind::Json, "Submits a pipeline with its own code", programs::submit)
        .costly()
        .headers(ONCE)
        .audience(Audience::MlEngineers)
        .schema("ProgramRequest")
        .responses(&[ResponseKind::Json(200, "Run"), ResponseKind::Json(201, "Run")]),
    get("/v1/runs/{run}", "A run: its attempts and the reason of its status", runs::show)
        .audience(Audience::StreamRole)
        .responses(RUN),
    post(
        "/v1/runs/{run}/cancel",
        BodyKind::Nothing,
        "Stops a run, or the recurrence of one that has ended",
        runs::cancel,
    )
    .audience(Audience::OfficersAndMlEngineers)
    .responses(RUN),
    post("/v1/plan", BodyKind::Toml, "What would happen to a pipeline if it were submitted now", runs::plan)
        .costly()
        .read_only()
        .audience(Audience::MlEngineers)
        .responses(&[ResponseKind::Json(200, "Plan")]),
    get("/v1/releases", "All releases", releases::list).query(PAGED).responses(&[ResponseKind::Json(200, "Releases")]),
    get("/v1/releases/{name}", "The newest version of a release", releases::show).responses(RELEASE),
    get("/v1/releases/{name}/{version}", "A release by version or alias", releases::show).responses(RELEASE),
    get("/v1/releases/{name}/{version}/files/{*path}", "A file of a release", releases::file).responses(FILE),
    post("/v1/releases/{name}/{version}/aliases", BodyKind::Json, "Names a version", releases::alias)
        .audience(Audience::MlEngineers)
        .schema("AliasRequest")
        .responses(RELEASE),
    post("/v1/releases/{name}/{version}/withdraw", BodyKind::Json, "Withdraws a version", releases::withdraw)
        .audience(Audience::MlEngineers)
        .schema("WithdrawalRequest")
        .responses(&[ResponseKind::Json(200, "WithdrawalResult")]),
    route(Verb::Get, "/v1/events", BodyKind::Nothing, "Server-sent events, numbered as in the log", Handler::Watch)
        .query(&["after", "seconds"])
        .headers(&["Last-Event-ID"])
        .responses(&[ResponseKind::Other(200, "text/event-stream")]),
    get("/v1/log", "Events of the log that the caller may see, as JSON lines", log::export)
        .costly()
        .query(&["from", "stream", "kind", "by", "since", "until"])
        .audience(Audience::AnyRole)
        .responses(&[ResponseKind::Other(200, "application/x-ndjson")]),
    predict("/v2/models/{name}/infer", BodyKind::Json, "Predicts with a model", Protocol::Inference)
        .schema("InferenceRequest")
        .responses(INFERRED),
    predict(
        "/v2/models/{name}/versions/{version}/infer",
        BodyKind::Json,
        "Predicts with a version",
        Protocol::Inference,
    )
    .schema("InferenceRequest")
    .responses(INFERRED),
    predict(
        "/invocations",
        BodyKind::Records,
        "Predicts with a model, as MLflow's scoring server does",
        Protocol::Invocations,
    )
    .query(&["model"])
    .schema("InvocationsRequest")
    .responses(&[ResponseKind::Json(200, "Predictions")]),
];

const PAGES: &[Route] = &[
    get("/", "Page: streams", pages::streams).page(),
    get("/streams/{stream}", "Page: a stream and its blocks", pages::stream)
        .page()
        .query(&["after"])
        .audience(Audience::StreamRole),
    get("/streams/{stream}/blocks/{*path}", "Page: a block and who read it", pages::block)
        .page()
        .audience(Audience::StreamRole),
    get("/runs", "Page: runs", pages::runs).page(),
    get("/runs/{run}", "Page: a run against its target", pages::run).page().audience(Audience::StreamRole),
    get("/releases", "Page: releases", pages::releases).page(),
    get("/releases/{name}/{version}", "Page: a release", pages::release).page(),
    post("/releases/{name}/{version}", BodyKind::Form, "Page: a model is tried", pages::try_out).read_only().page(),
    get("/audit", "Page: the end of the log", pages::audit)
        .page()
        .query(&["before", "stream", "kind", "by", "since", "until"])
        .audience(Audience::AnyRole),
    post("/audit", BodyKind::Form, "Page: the log is verified", pages::verify)
        .read_only()
        .costly()
        .page()
        .audience(Audience::AnyRole),
    get("/simulate", "Page: the loop under a simulated clock", pages::simulate)
        .query(&["blocks", "rate", "epsilon", "rows", "patience"])
        .costly()
        .page(),
    get("/login", "Page: where a token is pasted", pages::ask).open().page(),
    post("/login", BodyKind::Form, "Page: a token becomes a cookie", pages::enter).open().page(),
    post("/logout", BodyKind::Form, "Page: the cookie is forgotten", pages::leave).open().page(),
    fixed("/assets/style.css", "The style sheet of the pages", pages::style)
        .responses(&[ResponseKind::Other(200, "text/css")]),
    fixed("/assets/script.js", "The script of the pages", pages::script)
        .responses(&[ResponseKind::Other(200, "text/javascript")]),
    fixed("/assets/icon.svg", "The icon of the pages", pages::icon)
        .responses(&[ResponseKind::Other(200, "image/svg+xml")]),
];
