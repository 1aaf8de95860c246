//! The router, built from the route table. It authenticates, admits, reads the body and calls the handler.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::body::{BodyKind, row_format};
use crate::call::{Call, Caller, Reply, no_role, sees};
use crate::diagnostics;
use crate::handlers::events;
use crate::problem::{Problem, Style};
use crate::protocols::inference;
use crate::protocols::model_cache::Protocol;
use crate::table::{Authentication, Effort, Handler, Route, Verb, routes};
use crate::telemetry::{AttributeValue, Kind, Parent, Span, nanoseconds};
use crate::tokens::Holder;
use crate::transport::admission::{Permit, Processor, Reservation, Who};
use crate::transport::connections::Peer;
use crate::transport::limits::since;
use crate::transport::pacing::BodyDeadline;
use crate::transport::{browser, compress, pacing};
use crate::{Server, pages};

/// The path of the login form.
const LOGIN: &str = "/login";

/// The router of all routes.
pub(crate) fn router(server: &Arc<Server>) -> Router {
    let mut router = Router::new();
    for route in routes() {
        let server = Arc::clone(server);
        let filter = match route.verb {
            Verb::Get => MethodFilter::GET,
            Verb::Post => MethodFilter::POST,
        };
        let answer = move |parameters: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
            let server = Arc::clone(&server);
            async move { handle(server, route, parameters, request).await }
        };
        router = router.route(route.path, on(filter, answer));
    }
    router.fallback(unknown_route).method_not_allowed_fallback(unknown_method)
}

/// Whether a request would write to an MLflow registry.
fn writes_to_mlflow(request: &Request) -> bool {
    let path = request.uri().path();
    let theirs = ["/api/2.0/mlflow", "/api/3.0/mlflow", "/ajax-api/"].iter().any(|start| path.starts_with(start));
    theirs && !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
}

fn not_written() -> Response {
    failed(
        &Problem::forbidden("models enter only through an accepted Sage pipeline; this registry is read"),
        Style::Mlflow,
    )
}

async fn unknown_route(request: Request) -> Response {
    if writes_to_mlflow(&request) {
        return not_written();
    }
    failed(&Problem::missing("there is no such address; /openapi.json lists those there are"), Style::Details)
}

async fn unknown_method(request: Request) -> Response {
    if writes_to_mlflow(&request) {
        return not_written();
    }
    let detail = "this address does not take that method; /openapi.json says which it takes";
    failed(&Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail), Style::Details)
}

/// Handles a request and records it.
async fn handle(
    server: Arc<Server>, route: &'static Route, parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let observed = (server.telemetry.is_on() || diagnostics::is_json()).then(|| {
        let parent = request.headers().get("traceparent").and_then(|value| Parent::read(value.to_str().ok()?));
        (SystemTime::now(), Instant::now(), parent)
    });
    let attempt = match parameters {
        Ok(parameters) => try_handle(&server, route, parameters, request).await,
        Err(_) => Err(Problem::wrong("the address is not UTF-8 text once its % signs are read")),
    };
    let response = match attempt {
        Ok(response) => response,
        Err(problem) => {
            if let Some(reason) = &problem.unwritten {
                server.standing.fails(reason);
                server.wake();
            }
            failed(&problem, route.style())
        }
    };
    server.statuses.count(response.status().as_u16());
    if let Some((began, since, parent)) = observed {
        record(&server, route, response.status(), (began, since.elapsed()), parent.as_ref());
    }
    response
}

/// A request in the JSON log.
#[derive(Serialize)]
struct RequestRecord {
    method: &'static str,
    milliseconds: u64,
    route: &'static str,
    status: u16,
}

/// Records a request for logs and traces: its route, and nothing that was sent with it.
fn record(
    server: &Server, route: &Route, status: StatusCode, (began, took): (SystemTime, Duration), parent: Option<&Parent>,
) {
    let verb = match route.verb {
        Verb::Get => "GET",
        Verb::Post => "POST",
    };
    let (route, status) = (route.path, status.as_u16());
    if diagnostics::is_json() {
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        diagnostics::record("request", &RequestRecord { method: verb, milliseconds, route, status });
    }
    let fields = [
        ("http.request.method", AttributeValue::text(verb)),
        ("http.route", AttributeValue::text(route)),
        ("http.response.status_code", AttributeValue::whole(u64::from(status))),
    ];
    let name = format!("{verb} {route}");
    let (began, ended) = (nanoseconds(began), nanoseconds(began + took));
    server.telemetry.record(&Span {
        name: &name,
        parent,
        began,
        ended,
        fields: &fields,
        kind: Kind::Server,
        good: status < 500,
    });
}

async fn try_handle(
    server: &Arc<Server>, route: &'static Route, parameters: RawPathParams, request: Request,
) -> Result<Response, Problem> {
    if let Handler::Fixed(answer) = route.handler {
        return Ok(respond(answer()));
    }
    let (head, body) = request.into_parts();
    let peer = head.extensions.get::<Peer>().ok_or_else(handler_panicked)?;
    let (way, peer) = (server.exposure.route(peer, &head.headers), server.exposure.client(peer, &head.headers));
    let (cookie, bearer) = (browser::cookie(&head.headers), browser::bearer(&head.headers));
    let holder = bearer.or(cookie).and_then(|token| server.tokens.found(token));
    if holder.is_some() {
        peer.is_known();
    } else if route.authentication == Authentication::Token && route.style() == Style::Page {
        return Ok(respond(Reply::redirect("/login")));
    }
    let parameters = parameters.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let caller = admitted(server, route, holder.as_deref(), &parameters)?;
    let who = holder.as_ref().map_or(Who::Address(peer.address), |holder| Who::Token(&holder.meters.usage));
    let stall = server.patience.stall;
    let deadline = if holder.is_some() { BodyDeadline::token(stall) } else { BodyDeadline::anonymous(stall) };
    let (mut memory, refusals) = (server.admission.memory(who), &server.admission.refusals);
    // The body comes before the permit: a client that stalls holds its connection and what it has sent.
    let body = pacing::whole(body, &head.headers, route.body.most(), deadline, &mut memory, refusals).await?;
    if route.verb == Verb::Post {
        match cookie.filter(|_| bearer.is_none() && holder.is_some()) {
            _ if route.path == LOGIN => way.check_login(&head.headers)?,
            Some(cookie) => way.check_form(&head.headers, cookie, &body)?,
            None => {}
        }
    }
    let query = url::form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
    let query: BTreeMap<String, String> = query.into_owned().collect();
    let request =
        AdmittedRequest { route, caller, parameters, query, secure: way.secure, headers: head.headers, body, memory };
    match route.handler {
        Handler::Watch => watched(server, who, request).await,
        Handler::Predict(protocol) => predicted(server, who, protocol, request).await,
        Handler::Call(handler) => run_blocking(server, who, route.effort, request, handler).await,
        Handler::Fixed(answer) => Ok(respond(answer())),
    }
}

/// An admitted request with its whole body.
struct AdmittedRequest {
    route: &'static Route,
    caller: Option<Caller>,
    parameters: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
    secure: bool,
    headers: HeaderMap,
    body: Bytes,
    memory: Reservation,
}

fn handler_panicked() -> Problem {
    Problem::busy(
        "the handler of this request failed unexpectedly; the operator finds the reason in the server's output",
    )
}

/// Streams events to a listener.
async fn watched(server: &Arc<Server>, who: Who<'_>, request: AdmittedRequest) -> Result<Response, Problem> {
    let caller = request.caller.ok_or_else(Problem::unknown_caller)?;
    let Who::Token(usage) = who else { return Err(Problem::unknown_caller()) };
    let listener = server.admission.listener(usage)?;
    let from = request.headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let from = from.or_else(|| request.query.get("after").cloned());
    let seconds = request.query.get("seconds").cloned();
    let shared = Arc::clone(server);
    let watching = move || events::watch(shared, caller, listener, from.as_deref(), seconds.as_deref());
    tokio::task::spawn_blocking(watching).await.map_err(|_| handler_panicked())?
}

/// The resources of a request while it is handled. They move to the handler's thread: when the client disconnects, the
/// work continues and stays accounted for.
struct RequestResources {
    _permit: Permit,
    _processor: Option<Processor>,
    _batch: Option<OwnedSemaphorePermit>,
}

/// How long a batch of rows waits for others to be ingested.
const BATCH_PATIENCE: Duration = Duration::from_secs(10);

async fn hold(
    server: &Arc<Server>, who: Who<'_>, effort: Effort, request: &mut AdmittedRequest,
) -> Result<RequestResources, Problem> {
    if effort == Effort::Probe {
        return Ok(RequestResources { _permit: server.admission.probe()?, _processor: None, _batch: None });
    }
    let permit = server.admission.admit(who)?;
    let batch = match request.route.body {
        BodyKind::Rows => {
            let turn = tokio::time::timeout(BATCH_PATIENCE, Arc::clone(&server.batches).acquire_owned()).await;
            Some(turn.ok().and_then(Result::ok).ok_or_else(|| Problem::busy("other batches come in; try again"))?)
        }
        _ => None,
    };
    let processor = match effort {
        Effort::Costly => Some(server.admission.processor(who).await?),
        Effort::Small | Effort::Probe => None,
    };
    request.memory.wait_for(request.route.body.memory(&request.body, content_type(&request.headers))).await?;
    Ok(RequestResources { _permit: permit, _processor: processor, _batch: batch })
}

/// Runs a handler in a thread of its own, so that the network threads never block.
async fn run_blocking(
    server: &Arc<Server>, who: Who<'_>, effort: Effort, mut request: AdmittedRequest,
    answer: impl FnOnce(&Call<'_>) -> Result<Reply, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let held = hold(server, who, effort, &mut request).await?;
    let shared = Arc::clone(server);
    let work = move || {
        let _held = held;
        let AdmittedRequest { route, caller, parameters, query, secure, headers, body, memory } = request;
        let zipped = compress::is_wanted(headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()));
        let (engine, route) = (shared.standing.engine()?, route.path);
        let memory = Mutex::new(memory);
        let call = Call { server: &shared, engine, route, caller, parameters, query, secure, headers, body, memory };
        let found = answer(&call)?;
        let memory = call.memory.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(respond_metered(if zipped { compress::compressed(found) } else { found }, memory))
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| handler_panicked())?
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok())
}

/// The longest body that is handled on a network thread.
const SHORT: usize = 16 << 10;

/// Predicts: on the network thread if the model is cached and the body short, otherwise in a thread of its own.
async fn predicted(
    server: &Arc<Server>, who: Who<'_>, protocol: Protocol, request: AdmittedRequest,
) -> Result<Response, Problem> {
    let part = |name: &str| request.parameters.get(name).or_else(|| request.query.get(name)).map_or("", String::as_str);
    let token = request.caller.as_ref().map_or("", |caller| caller.token.as_str());
    let key = format!("{token}\n{}\n{}\n{}", part("name"), part("version"), part("model"));
    let effort = if request.body.len() <= SHORT { Effort::Small } else { Effort::Costly };
    if effort == Effort::Small
        && let Some(model) = server.models.fresh(&key)
    {
        let format = row_format(content_type(&request.headers));
        return inference::predict(protocol, &model, &request.body, format).map(respond);
    }
    run_blocking(server, who, effort, request, move |call| {
        let model = Arc::new(inference::load(call, protocol)?);
        call.server.models.keep(key, Arc::clone(&model));
        inference::predict(protocol, &model, &call.body, row_format(call.header("content-type")))
    })
    .await
}

/// The checks of every route that need no body: a required token, a role on the stream in the path, and the rate
/// limits.
fn admitted(
    server: &Server, route: &Route, holder: Option<&Holder>, parameters: &BTreeMap<String, String>,
) -> Result<Option<Caller>, Problem> {
    let Some((holder, who)) = holder.and_then(|holder| Some((holder, holder.who.clone()?))) else {
        return if route.authentication == Authentication::Nothing { Ok(None) } else { Err(Problem::unknown_caller()) };
    };
    let now = since(server.start);
    let requests = server.rates.requests;
    holder.meters.requests.count(requests, now).map_err(|wait| {
        Problem::too_often(
            format!("more than {} requests a second with one token; slow down", requests.each_second()),
            wait,
        )
    })?;
    let caller = Caller { who, token: holder.token.id.clone(), admin: holder.token.admin };
    if let Some(stream) = parameters.get("stream") {
        let engine = server.standing.engine()?;
        if !sees(&engine, &caller, stream) {
            return Err(no_role(&caller.who, stream));
        }
    }
    if route.changes {
        let changes = server.rates.changes;
        holder.meters.changes.count(changes, now).map_err(|wait| {
            let detail = format!("more than {} changes a second; slow down and send this again", changes.each_second());
            Problem::too_often(detail, wait)
        })?;
        if route.authentication == Authentication::Token {
            server.standing.writable()?;
        }
    }
    Ok(Some(caller))
}

fn failed(problem: &Problem, style: Style) -> Response {
    let mut answer = match style {
        Style::Page => pages::problem(problem),
        _ => {
            let (kind, body) = problem.body(style);
            Reply { status: problem.status, kind, ..Reply::json(&body) }
        }
    };
    if problem.status == StatusCode::UNAUTHORIZED {
        answer.headers.push(("www-authenticate", "Bearer".to_owned()));
    }
    if let Some(seconds) = problem.retry_after {
        answer.headers.push(("retry-after", seconds.to_string()));
    }
    respond(answer)
}

/// Headers of every response: no foreign content, no sniffing, no framing, no caching. With a referrer policy of
/// `no-referrer` browsers would send `Origin: null` with forms of our own pages.
const ALWAYS: [(&str, &str); 5] = [
    ("content-security-policy", "default-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cache-control", "no-store"),
];

pub(crate) fn respond(answer: Reply) -> Response {
    let body = Body::from(answer.body.clone());
    with_head(answer, body)
}

/// A response whose memory stays reserved until it is sent.
fn respond_metered(answer: Reply, memory: Reservation) -> Response {
    let (length, body) = (answer.body.len(), pacing::metered(answer.body.clone(), memory));
    let mut response = with_head(answer, body);
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    response
}

fn with_head(answer: Reply, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.kind));
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.append(name, value);
        }
    }
    response
}
