//! Every address of the server, with who may ask and what answers.

use super::admission::json_bytes;
use super::call::{Answer, Call};
use super::models::Protocol;
use super::problem::{Problem, Style};
use super::{charges, health, log, openapi, pages, programs, queries, releases, runs, streams};

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

/// Whom a route is for, among those with a token. The description says it, and the test of who may do what is made
/// from the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// Everybody, without a token as well.
    Everybody,
    /// Whoever has a token.
    Holders,
    /// Whoever has a role in any stream, or runs the machine.
    Insiders,
    /// Whoever has a role in the stream that the request is about, or runs the machine.
    OfTheStream,
    /// Officers of any stream, and those who run the machine.
    Founders,
    /// Officers and data engineers of the stream, each for steps of their own.
    Keepers,
    /// Officers and ML engineers of the stream.
    Stoppers,
    /// Officers of the stream.
    Officers,
    /// Data engineers of the stream.
    DataEngineers,
    /// ML engineers of the stream.
    MlEngineers,
}

impl Whom {
    /// As the description says it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Everybody => "everybody",
            Self::Holders => "token",
            Self::Insiders => "some-role",
            Self::OfTheStream => "role-in-stream",
            Self::Founders => "some-privacy-officer",
            Self::Keepers => "privacy-officer, data-engineer",
            Self::Stoppers => "privacy-officer, ml-engineer",
            Self::Officers => "privacy-officer",
            Self::DataEngineers => "data-engineer",
            Self::MlEngineers => "ml-engineer",
        }
    }
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

    /// How much memory what is made of a body takes, beside the body itself.
    pub(super) fn memory(self, body: &[u8]) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Toml => body.len().saturating_mul(16),
            Self::Json => json_bytes(body),
            Self::Rows => body.len().saturating_mul(2),
            Self::Form => body.len().saturating_mul(4),
        }
    }

    /// The types that it may have.
    pub(super) const fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &[],
            Self::Toml => &["application/toml", "text/plain"],
            Self::Json => &["application/json"],
            Self::Rows => &["application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream", "text/plain"],
            Self::Form => &["application/x-www-form-urlencoded"],
        }
    }
}

/// A shape of a good answer: its status and, for JSON, the name of its schema; otherwise its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    Json(u16, &'static str),
    Other(u16, &'static str),
}

/// What answers.
#[derive(Clone, Copy)]
pub(super) enum Does {
    Answer(fn(&Call<'_>) -> Result<Answer, Problem>),
    /// What a model says, at once where that is possible.
    Predict(Protocol),
    /// Events, as long as somebody listens.
    Watch,
    /// The same for everybody, at once and without a permit: nothing that others do delays it.
    Fixed(fn() -> Answer),
}

/// What answering a request takes of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// A probe that is answered however busy the server is.
    Probe,
    /// Some milliseconds.
    Small,
    /// A processor for a while: such requests are queued, fairly between tokens.
    Costly,
}

/// A route.
pub(super) struct Route {
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    pub(super) needs: Needs,
    pub(super) whom: Whom,
    pub(super) takes: Takes,
    /// The schema of a JSON body.
    pub(super) shape: Option<&'static str>,
    pub(super) gives: &'static [Gives],
    /// What may stand in the query.
    pub(super) asks: &'static [&'static str],
    /// What may stand in headers, beyond what all routes take.
    pub(super) heads: &'static [&'static str],
    /// Whether it changes something.
    pub(super) changes: bool,
    /// Whether it is for a person in front of a browser.
    pub(super) page: bool,
    pub(super) summary: &'static str,
    pub(super) effort: Effort,
    pub(super) does: Does,
}

type Answers = fn(&Call<'_>) -> Result<Answer, Problem>;

const fn route(verb: Verb, path: &'static str, takes: Takes, summary: &'static str, does: Does) -> Route {
    Route {
        verb,
        path,
        needs: Needs::Token,
        whom: Whom::Holders,
        takes,
        shape: None,
        gives: &[],
        asks: &[],
        heads: &[],
        changes: matches!(verb, Verb::Post),
        page: false,
        summary,
        effort: Effort::Small,
        does,
    }
}

pub(super) const fn get(path: &'static str, summary: &'static str, answer: Answers) -> Route {
    route(Verb::Get, path, Takes::Nothing, summary, Does::Answer(answer))
}

pub(super) const fn post(path: &'static str, takes: Takes, summary: &'static str, answer: Answers) -> Route {
    route(Verb::Post, path, takes, summary, Does::Answer(answer))
}

/// The same for everybody.
pub(super) const fn fixed(path: &'static str, summary: &'static str, answer: fn() -> Answer) -> Route {
    route(Verb::Get, path, Takes::Nothing, summary, Does::Fixed(answer)).open()
}

const fn predict(path: &'static str, summary: &'static str, protocol: Protocol) -> Route {
    route(Verb::Post, path, Takes::Json, summary, Does::Predict(protocol)).asking()
}

impl Route {
    /// For everybody.
    pub(super) const fn open(self) -> Self {
        Self { needs: Needs::Nothing, whom: Whom::Everybody, ..self }
    }

    /// Answered however busy the server is.
    pub(super) const fn probe(self) -> Self {
        Self { effort: Effort::Probe, ..self }
    }

    /// With a processor for a while.
    pub(super) const fn costly(self) -> Self {
        Self { effort: Effort::Costly, ..self }
    }

    /// For these alone.
    pub(super) const fn to(self, whom: Whom) -> Self {
        Self { whom, ..self }
    }

    /// With a body of this schema.
    pub(super) const fn of(self, shape: &'static str) -> Self {
        Self { shape: Some(shape), ..self }
    }

    /// With such answers.
    pub(super) const fn gives(self, gives: &'static [Gives]) -> Self {
        Self { gives, ..self }
    }

    /// With these in the query.
    pub(super) const fn with(self, asks: &'static [&'static str]) -> Self {
        Self { asks, ..self }
    }

    /// With these in headers.
    pub(super) const fn with_heads(self, heads: &'static [&'static str]) -> Self {
        Self { heads, ..self }
    }

    /// For a person in front of a browser.
    pub(super) const fn page(self) -> Self {
        Self { page: true, gives: PAGE, ..self }
    }

    /// A question that is posted because it is long.
    pub(super) const fn asking(self) -> Self {
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

/// What is sent again under the same key has its effect once.
const ONCE: &[&str] = &["Idempotency-Key"];
const PAGED: &[&str] = &["after", "limit"];

/// A page, or the way to where one logs in.
const PAGE: &[Gives] = &[Gives::Other(200, "text/html"), Gives::Other(303, "text/plain")];
const LIVE: &[Gives] = &[Gives::Json(200, "Live")];
const READY: &[Gives] = &[Gives::Json(200, "Ready")];
const RUN: &[Gives] = &[Gives::Json(200, "Run")];
const RELEASE: &[Gives] = &[Gives::Json(200, "Release")];
const FILE: &[Gives] = &[Gives::Other(200, "application/octet-stream")];
const INFERRED: &[Gives] = &[Gives::Json(200, "InferenceAnswer")];
const POLICY: &[Gives] = &[Gives::Json(200, "PolicyState")];

/// All routes: those for machines and ours, those for people, those that others have made.
pub(super) fn routes() -> impl Iterator<Item = &'static Route> {
    OURS.iter().chain(PAGES).chain(super::foreign::ROUTES)
}

const OURS: &[Route] = &[
    fixed("/livez", "Whether the process answers", health::live).gives(LIVE),
    get("/readyz", "Whether the log can be used and work is done", health::ready).open().probe().gives(READY),
    fixed("/version", "Which release this is", health::version).gives(&[Gives::Json(200, "Version")]),
    fixed("/openapi.json", "This description", openapi::describe).gives(&[Gives::Json(200, "Description")]),
    get("/metrics", "Numbers for Prometheus", health::metrics)
        .to(Whom::Insiders)
        .gives(&[Gives::Other(200, "text/plain")]),
    get("/v1/streams", "The streams the caller has a role in", streams::list).gives(&[Gives::Json(200, "Streams")]),
    post("/v1/streams", Takes::Toml, "Creates the stream of a file, for an officer whom it names", streams::create)
        .to(Whom::Founders)
        .gives(&[Gives::Json(201, "Created")]),
    get("/v1/streams/{stream}", "A stream", streams::show).to(Whom::OfTheStream).gives(&[Gives::Json(200, "Stream")]),
    post("/v1/streams/{stream}/policy", Takes::Toml, "Has a stream follow a changed file", streams::change)
        .to(Whom::Officers)
        .gives(POLICY),
    post("/v1/streams/{stream}/approve", Takes::Json, "Approves a proposed file by its digest", streams::approve)
        .to(Whom::Officers)
        .of("Approval")
        .gives(POLICY),
    post("/v1/streams/{stream}/members", Takes::Json, "Suspends a member, or gives their roles back", streams::suspend)
        .to(Whom::Officers)
        .of("MemberStep")
        .gives(&[Gives::Json(200, "Suspended")]),
    get("/v1/streams/{stream}/census", "The private counts of a stream's units", streams::census)
        .to(Whom::OfTheStream)
        .gives(&[Gives::Json(200, "Census")]),
    get("/v1/streams/{stream}/quarantine", "Rows that were set aside, without a number", streams::quarantine)
        .to(Whom::DataEngineers)
        .gives(&[Gives::Json(200, "Quarantine")]),
    post("/v1/streams/{stream}/quarantine", Takes::Json, "Releases or erases rows set aside", streams::step_quarantine)
        .to(Whom::Keepers)
        .of("QuarantineStep")
        .gives(&[Gives::Json(200, "QuarantineStepped")]),
    get("/v1/streams/{stream}/blocks", "The blocks of a stream and what they have lost", streams::list_blocks)
        .with(PAGED)
        .to(Whom::OfTheStream)
        .gives(&[Gives::Json(200, "Blocks")]),
    post("/v1/streams/{stream}/blocks", Takes::Json, "Seals, retires or deletes blocks", streams::step_blocks)
        .to(Whom::Keepers)
        .of("BlocksStep")
        .gives(&[Gives::Json(200, "BlocksStepped")]),
    post("/v1/streams/{stream}/rows", Takes::Rows, "Takes in a batch of rows", streams::rows)
        .costly()
        .with(&["batch"])
        .to(Whom::DataEngineers)
        .gives(&[Gives::Json(200, "Ingested"), Gives::Json(201, "Ingested")]),
    post("/v1/streams/{stream}/charges", Takes::Json, "Charges what is computed elsewhere", charges::charge)
        .to(Whom::MlEngineers)
        .of("ChargeAsked")
        .gives(&[Gives::Json(201, "Charged")]),
    post("/v1/streams/{stream}/query", Takes::Json, "Answers private SQL, once for each Idempotency-Key", queries::ask)
        .costly()
        .with_heads(ONCE)
        .to(Whom::MlEngineers)
        .of("QueryAsked")
        .gives(&[Gives::Json(200, "QueryResult")]),
    get("/v1/runs", "The runs on streams the caller has a role in", runs::list)
        .with(&["stream", "after", "limit"])
        .gives(&[Gives::Json(200, "Runs")]),
    post("/v1/runs", Takes::Toml, "Submits a pipeline, once for each Idempotency-Key", runs::submit)
        .costly()
        .with_heads(ONCE)
        .to(Whom::MlEngineers)
        .gives(&[Gives::Json(200, "Run"), Gives::Json(201, "Run")]),
    post("/v1/programs", Takes::Json, "Submits a pipeline with the folder of its program", programs::submit)
        .costly()
        .with_heads(ONCE)
        .to(Whom::MlEngineers)
        .of("Program")
        .gives(&[Gives::Json(200, "Run"), Gives::Json(201, "Run")]),
    get("/v1/runs/{run}", "A run: its attempts, and why it stands as it does", runs::show)
        .to(Whom::OfTheStream)
        .gives(RUN),
    post("/v1/runs/{run}/cancel", Takes::Nothing, "Stops a run, or the recurrence of one that is over", runs::cancel)
        .to(Whom::Stoppers)
        .gives(RUN),
    post("/v1/plan", Takes::Toml, "What would happen to a pipeline if it were submitted now", runs::plan)
        .costly()
        .asking()
        .to(Whom::MlEngineers)
        .gives(&[Gives::Json(200, "Plan")]),
    get("/v1/releases", "All releases", releases::list).with(PAGED).gives(&[Gives::Json(200, "Releases")]),
    get("/v1/releases/{name}", "The newest version of a release", releases::show).gives(RELEASE),
    get("/v1/releases/{name}/{version}", "A release by version or alias", releases::show).gives(RELEASE),
    get("/v1/releases/{name}/{version}/files/{*path}", "A file of a release", releases::file).gives(FILE),
    post("/v1/releases/{name}/{version}/aliases", Takes::Json, "Names a version", releases::alias)
        .to(Whom::MlEngineers)
        .of("Alias")
        .gives(RELEASE),
    post("/v1/releases/{name}/{version}/withdraw", Takes::Json, "Takes a version from offer", releases::withdraw)
        .to(Whom::MlEngineers)
        .of("Withdrawal")
        .gives(&[Gives::Json(200, "Withdrawn")]),
    route(
        Verb::Get,
        "/v1/events",
        Takes::Nothing,
        "What happens, as it happens: server-sent events with the log's numbers",
        Does::Watch,
    )
    .with(&["after", "seconds"])
    .with_heads(&["Last-Event-ID"])
    .gives(&[Gives::Other(200, "text/event-stream")]),
    get("/v1/log", "Events of the log that the caller may see, as lines of JSON", log::export)
        .costly()
        .with(&["from", "stream", "kind", "by", "since", "until"])
        .to(Whom::Insiders)
        .gives(&[Gives::Other(200, "application/x-ndjson")]),
    predict("/v2/models/{name}/infer", "Asks a model", Protocol::Inference).of("InferenceAsked").gives(INFERRED),
    predict("/v2/models/{name}/versions/{version}/infer", "Asks a version", Protocol::Inference)
        .of("InferenceAsked")
        .gives(INFERRED),
    predict("/invocations", "Asks a model as MLflow's scoring server would be", Protocol::Invocations)
        .with(&["model"])
        .of("InvocationsAsked")
        .gives(&[Gives::Json(200, "Predictions")]),
];

const PAGES: &[Route] = &[
    get("/", "Page: streams", pages::streams).page(),
    get("/streams/{stream}", "Page: a stream and its blocks", pages::stream)
        .page()
        .with(&["after"])
        .to(Whom::OfTheStream),
    get("/streams/{stream}/blocks/{*path}", "Page: a block and who read it", pages::block).page().to(Whom::OfTheStream),
    get("/runs", "Page: runs", pages::runs).page(),
    get("/runs/{run}", "Page: a run against its target", pages::run).page().to(Whom::OfTheStream),
    get("/releases", "Page: releases", pages::releases).page(),
    get("/releases/{name}/{version}", "Page: a release", pages::release).page(),
    post("/releases/{name}/{version}", Takes::Form, "Page: a model is tried", pages::try_out).asking().page(),
    get("/audit", "Page: the end of the log", pages::audit)
        .page()
        .with(&["before", "stream", "kind", "by", "since", "until"])
        .to(Whom::Insiders),
    post("/audit", Takes::Form, "Page: the log is verified", pages::verify).asking().costly().page().to(Whom::Insiders),
    get("/simulate", "Page: the loop under a simulated clock", pages::simulate)
        .with(&["blocks", "rate", "epsilon", "rows", "patience"])
        .costly()
        .page(),
    get("/login", "Page: where a token is pasted", pages::ask).open().page(),
    post("/login", Takes::Form, "Page: a token becomes a cookie", pages::enter).open().page(),
    post("/logout", Takes::Form, "Page: the cookie is forgotten", pages::leave).open().page(),
    fixed("/assets/style.css", "The look of pages", pages::style).gives(&[Gives::Other(200, "text/css")]),
    fixed("/assets/script.js", "What keeps pages up to date", pages::script)
        .gives(&[Gives::Other(200, "text/javascript")]),
    fixed("/assets/icon.svg", "The sign of pages", pages::icon).gives(&[Gives::Other(200, "image/svg+xml")]),
];
