//! The table of routes: who may ask, what is taken, what answers. The router is made from it, and so are the
//! description at `/openapi.json` and the test of who may do what.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use sage_engine::Principal;

use super::call::{Answer, Call, Caller, no_role, sees};
use super::problem::{Problem, Style};
use super::table::{Does, Needs, ROUTES, Route, Takes, Verb};
use super::{Server, events, pages};

/// The router of all routes.
pub(super) fn router(server: &Arc<Server>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
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

async fn unknown_route() -> Response {
    failed(&Problem::missing("there is no such address; /openapi.json lists those there are"), Style::Details)
}

async fn unknown_method() -> Response {
    let detail = "this address does not take that method; /openapi.json says which it takes";
    failed(&Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail), Style::Details)
}

/// Answers a request, whatever comes.
async fn answered(
    server: Arc<Server>, route: &'static Route, parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let attempt = match parameters {
        Ok(parameters) => attempted(&server, route, parameters, request).await,
        Err(_) => Err(Problem::wrong("the address is not UTF-8 text once its % signs are read")),
    };
    let response = match attempt {
        Ok(response) => response,
        Err(problem) => failed(&problem, route.style()),
    };
    let mut answered = server.answered.lock().unwrap_or_else(PoisonError::into_inner);
    *answered.entry(response.status().as_u16()).or_default() += 1;
    response
}

async fn attempted(
    server: &Arc<Server>, route: &'static Route, parameters: RawPathParams, request: Request,
) -> Result<Response, Problem> {
    let _room = server.room.try_acquire().map_err(|_| Problem::busy("too many requests at once; try again"))?;
    let (head, body) = request.into_parts();
    let caller = caller(server, &head.headers);
    if caller.is_none() && route.needs == Needs::Token && route.style() == Style::Page {
        return Ok(respond(Answer::elsewhere("/login")));
    }
    let parameters = parameters.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    admitted(server, route, caller.as_ref(), &parameters)?;
    let _batch = match route.takes {
        Takes::Rows => {
            Some(server.batches.try_acquire().map_err(|_| Problem::busy("other batches come in; try again"))?)
        }
        _ => None,
    };
    let body = whole(body, route.takes.most()).await?;
    let query = url::form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
    let query: BTreeMap<String, String> = query.into_owned().collect();
    let shared = Arc::clone(server);
    match route.does {
        Does::Watch => {
            let caller = caller.ok_or_else(Problem::unknown_caller)?;
            let from = head.headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
            events::watch(shared, caller, from.or_else(|| query.get("after").cloned()).as_deref())
        }
        Does::Answer(answer) => {
            let work = move || {
                let headers = head.headers;
                answer(&Call { server: &shared, route: route.path, caller, parameters, query, headers, body })
            };
            let done = tokio::task::spawn_blocking(work).await;
            done.map_err(|_| Problem::busy("this request ended badly, and nothing came of it"))?.map(respond)
        }
    }
}

/// What can be refused without the body is refused here, for every route alike: who has no token where one is
/// needed, who may not see the stream that the path names, who changes too much.
fn admitted(
    server: &Server, route: &Route, caller: Option<&Caller>, parameters: &BTreeMap<String, String>,
) -> Result<(), Problem> {
    let Some(caller) = caller else {
        return if route.needs == Needs::Nothing { Ok(()) } else { Err(Problem::unknown_caller()) };
    };
    if let Some(stream) = parameters.get("stream").filter(|stream| !sees(&server.engine, caller, stream)) {
        return Err(no_role(&caller.who, stream));
    }
    if route.changes { spend(server, caller) } else { Ok(()) }
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
fn caller(server: &Server, headers: &HeaderMap) -> Option<Caller> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let cookies = text(header::COOKIE).unwrap_or_default().split(';');
    let token = bearer.or_else(|| cookies.map(str::trim).find_map(|cookie| cookie.strip_prefix("sage_token=")))?;
    let token = server.tokens.found(token.trim())?;
    Some(Caller { who: Principal::named(&token.name)?, token: token.id, admin: token.admin })
}

/// Every change counts: so many at once, and so many each second.
fn spend(server: &Server, caller: &Caller) -> Result<(), Problem> {
    const AT_ONCE: f64 = 100.0;
    const EACH_SECOND: f64 = 20.0;
    let mut allowance = server.allowance.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let (left, since) = allowance.get(caller.who.name()).copied().unwrap_or((AT_ONCE, now));
    let left = (left + EACH_SECOND * now.duration_since(since).as_secs_f64()).min(AT_ONCE);
    if left < 1.0 {
        let detail = format!("more than {EACH_SECOND} changes a second; slow down and send this again");
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail));
    }
    allowance.insert(caller.who.name().to_owned(), (left - 1.0, now));
    Ok(())
}

fn failed(problem: &Problem, style: Style) -> Response {
    let mut answer = match style {
        Style::Page => pages::problem(problem),
        _ => {
            let (kind, body) = problem.body(style);
            Answer { status: problem.status, kind, ..Answer::json(&body) }
        }
    };
    match problem.status {
        StatusCode::UNAUTHORIZED => answer.headers.push(("www-authenticate", "Bearer".to_owned())),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
            answer.headers.push(("retry-after", "1".to_owned()));
        }
        _ => {}
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
