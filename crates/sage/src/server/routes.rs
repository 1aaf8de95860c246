//! The table of routes: who may ask, what is taken, what answers. The router is made from it, and so are the
//! description at `/openapi.json` and the test of who may do what.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use serde_json::json;

use super::call::{Answer, Call, Caller, no_role, sees};
use super::limits::since;
use super::models::Protocol;
use super::problem::{Problem, Style};
use super::table::{Does, Needs, Route, Takes, Verb, routes};
use super::telemetry::{Kind, Parent, Told, nanoseconds};
use super::tokens::Holder;
use super::{Server, compress, events, inference, pages};
use crate::output::{talks_json, tell_fields};

/// The router of all routes.
pub(super) fn router(server: &Arc<Server>) -> Router {
    let mut router = Router::new();
    for route in routes() {
        let server = Arc::clone(server);
        let filter = match route.verb {
            Verb::Get => MethodFilter::GET,
            Verb::Post => MethodFilter::POST,
        };
        let answer = move |parameters: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
            let server = Arc::clone(&server);
            async move { answered(server, route, parameters, request).await }
        };
        router = router.route(route.path, on(filter, answer));
    }
    router.fallback(unknown_route).method_not_allowed_fallback(unknown_method)
}

/// Whether a request would write to a registry of MLflow's.
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

/// Answers a request, whatever comes.
async fn answered(
    server: Arc<Server>, route: &'static Route, parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let observed = (server.telemetry.is_on() || talks_json()).then(|| {
        let parent = request.headers().get("traceparent").and_then(|value| Parent::read(value.to_str().ok()?));
        (SystemTime::now(), Instant::now(), parent)
    });
    let attempt = match parameters {
        Ok(parameters) => attempted(&server, route, parameters, request).await,
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
    server.answers.count(response.status().as_u16());
    if let Some((began, since, parent)) = observed {
        tell_of(&server, route, response.status(), (began, since.elapsed()), parent.as_ref());
    }
    response
}

/// Tells those who observe the server of a request: its route, and nothing that was sent with it.
fn tell_of(
    server: &Server, route: &Route, status: StatusCode, (began, took): (SystemTime, Duration), parent: Option<&Parent>,
) {
    let verb = match route.verb {
        Verb::Get => "GET",
        Verb::Post => "POST",
    };
    let (route, status) = (route.path, status.as_u16());
    if talks_json() {
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        tell_fields("request", json!({"method": verb, "route": route, "status": status, "milliseconds": milliseconds}));
    }
    let fields = [
        ("http.request.method", json!(verb)),
        ("http.route", json!(route)),
        ("http.response.status_code", json!(status)),
    ];
    let name = format!("{verb} {route}");
    let (began, ended) = (nanoseconds(began), nanoseconds(began + took));
    server.telemetry.tell(&Told {
        name: &name,
        parent,
        began,
        ended,
        fields: &fields,
        kind: Kind::Server,
        good: status < 500,
    });
}

async fn attempted(
    server: &Arc<Server>, route: &'static Route, parameters: RawPathParams, request: Request,
) -> Result<Response, Problem> {
    let _room = server.room.try_acquire().map_err(|_| Problem::busy("too many requests at once; try again"))?;
    let (head, body) = request.into_parts();
    let holder = holder(server, &head.headers);
    if holder.is_none() && route.needs == Needs::Token && route.style() == Style::Page {
        return Ok(respond(Answer::elsewhere("/login")));
    }
    let parameters = parameters.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let caller = admitted(server, route, holder.as_deref(), &parameters)?;
    let _batch = match route.takes {
        Takes::Rows => {
            Some(server.batches.try_acquire().map_err(|_| Problem::busy("other batches come in; try again"))?)
        }
        _ => None,
    };
    let body = whole(body, route.takes.most()).await?;
    let query = url::form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
    let query: BTreeMap<String, String> = query.into_owned().collect();
    let asked = Asked { route: route.path, caller, parameters, query, headers: head.headers, body };
    match route.does {
        Does::Watch => {
            let caller = asked.caller.ok_or_else(Problem::unknown_caller)?;
            let from = asked.headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
            let from = from.or_else(|| asked.query.get("after").cloned());
            let seconds = asked.query.get("seconds").cloned();
            let shared = Arc::clone(server);
            let watching =
                tokio::task::spawn_blocking(move || events::watch(shared, caller, from.as_deref(), seconds.as_deref()));
            watching.await.map_err(|_| ended_badly())?
        }
        Does::Predict(protocol) => predicted(server, protocol, asked).await,
        Does::Answer(answer) => beside(server, asked, answer).await,
    }
}

/// A request that was let in.
struct Asked {
    route: &'static str,
    caller: Option<Caller>,
    parameters: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
    headers: HeaderMap,
    body: Bytes,
}

fn ended_badly() -> Problem {
    Problem::busy("this request ended badly, and nothing came of it")
}

/// Answers beside the threads that wait for the network.
async fn beside(
    server: &Arc<Server>, asked: Asked, answer: impl FnOnce(&Call<'_>) -> Result<Answer, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let shared = Arc::clone(server);
    let work = move || {
        let Asked { route, caller, parameters, query, headers, body } = asked;
        let zipped = compress::is_wanted(headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()));
        let engine = shared.standing.engine()?;
        let found = answer(&Call { server: &shared, engine, route, caller, parameters, query, headers, body })?;
        Ok(respond(if zipped { compress::compressed(found) } else { found }))
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| ended_badly())?
}

/// The longest body that is worked on where the network is waited for.
const SHORT: usize = 16 << 10;

/// Asks a model: at once if it was found a moment ago and the question is short, otherwise beside.
async fn predicted(server: &Arc<Server>, protocol: Protocol, asked: Asked) -> Result<Response, Problem> {
    let part = |name: &str| asked.parameters.get(name).or_else(|| asked.query.get(name)).map_or("", String::as_str);
    let token = asked.caller.as_ref().map_or("", |caller| caller.token.as_str());
    let key = format!("{token}\n{}\n{}\n{}", part("name"), part("version"), part("model"));
    if asked.body.len() <= SHORT
        && let Some(model) = server.models.fresh(&key)
    {
        return inference::predict(protocol, &model, &asked.body).map(respond);
    }
    beside(server, asked, move |call| {
        let model = Arc::new(inference::asked(call, protocol)?);
        call.server.models.keep(key, Arc::clone(&model));
        inference::predict(protocol, &model, &call.body)
    })
    .await
}

/// What can be refused without the body is refused here, for every route alike: who has no token where one is
/// needed, who may not see the stream that the path names, who asks or changes too much.
fn admitted(
    server: &Server, route: &Route, holder: Option<&Holder>, parameters: &BTreeMap<String, String>,
) -> Result<Option<Caller>, Problem> {
    let Some((holder, who)) = holder.and_then(|holder| Some((holder, holder.who.clone()?))) else {
        return if route.needs == Needs::Nothing { Ok(None) } else { Err(Problem::unknown_caller()) };
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
        if route.needs == Needs::Token {
            server.standing.writable()?;
        }
    }
    Ok(Some(caller))
}

/// The whole body, if it is not too large and does not take for ever.
async fn whole(body: Body, most: usize) -> Result<Bytes, Problem> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let read = tokio::time::timeout(PATIENCE, axum::body::to_bytes(body, most)).await;
    let read = read.map_err(|_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body took too long; send it again"))?;
    read.map_err(|_| {
        let detail = format!("the body is cut off, or larger than the {most} bytes taken here");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    })
}

/// Who asks: the holder of the token in the header, or of the one that logged in.
fn holder(server: &Server, headers: &HeaderMap) -> Option<Arc<Holder>> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let cookies = text(header::COOKIE).unwrap_or_default().split(';');
    let token = bearer.or_else(|| cookies.map(str::trim).find_map(|cookie| cookie.strip_prefix("sage_token=")))?;
    server.tokens.found(token.trim())
}

fn failed(problem: &Problem, style: Style) -> Response {
    let mut answer = match style {
        Style::Page => pages::problem(problem),
        _ => {
            let (kind, body) = problem.body(style);
            Answer { status: problem.status, kind, ..Answer::json(&body) }
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

/// What every answer carries: nothing is loaded from elsewhere, guessed at, framed or kept.
const ALWAYS: [(&str, &str); 5] = [
    ("content-security-policy", "default-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
];

pub(super) fn respond(answer: Answer) -> Response {
    let mut response = Response::new(Body::from(answer.body));
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
