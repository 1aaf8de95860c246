//! A request and its reply, independent of the transport.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use sage_engine::stream::Role;
use sage_engine::{Engine, Head, Principal, ReleaseView, RunView};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Server;
use crate::clock::now;
use crate::problem::Problem;
use crate::transport::admission::Reservation;
use crate::transport::browser;

/// The user behind a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) who: Principal,
    /// The id of their token.
    pub(crate) token: String,
    /// Whether it is an admin token.
    pub(crate) admin: bool,
}

/// A request.
pub(crate) struct Call<'server> {
    pub(crate) server: &'server Server,
    /// The engine as it is during this request.
    pub(crate) engine: Arc<Engine>,
    /// The pattern of its route, such as `/v1/runs/{run}`.
    pub(crate) route: &'static str,
    /// `None` if the route needs no token.
    pub(crate) caller: Option<Caller>,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) query: BTreeMap<String, String>,
    /// Whether the client's end of the connection is encrypted.
    pub(crate) secure: bool,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The memory that is reserved for this request.
    pub(crate) memory: Mutex<Reservation>,
}

/// The response to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) kind: &'static str,
    pub(crate) body: Bytes,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Reply {
    /// A value as JSON. Views have text keys and serialize without an error.
    pub(crate) fn json(value: &impl Serialize) -> Self {
        Self::new("application/json", serde_json::to_vec(value).unwrap_or_default())
    }

    pub(crate) fn created(value: &impl Serialize) -> Self {
        Self { status: StatusCode::CREATED, ..Self::json(value) }
    }

    pub(crate) fn new(kind: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status: StatusCode::OK, kind, body: body.into(), headers: Vec::new() }
    }

    /// Redirects a browser.
    pub(crate) fn redirect(path: &str) -> Self {
        let headers = vec![("location", path.to_owned())];
        Self { status: StatusCode::SEE_OTHER, kind: "text/plain", body: Bytes::new(), headers }
    }
}

impl Call<'_> {
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The caller of a route that needs a token.
    pub(crate) fn caller(&self) -> Result<&Caller, Problem> {
        self.caller.as_ref().ok_or_else(Problem::unknown_caller)
    }

    pub(crate) fn who(&self) -> Result<&Principal, Problem> {
        Ok(&self.caller()?.who)
    }

    /// Reserves memory for the response, beyond the body and its parsed values.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), Problem> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).grow(bytes)
    }

    /// The hidden field of every form, for users who are logged in with a cookie.
    pub(crate) fn form_field(&self) -> String {
        browser::form_field(browser::cookie(&self.headers).filter(|_| self.caller.is_some()))
    }

    /// A part of the path.
    pub(crate) fn part(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    /// A field of the query.
    pub(crate) fn query_value(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as text.
    pub(crate) fn text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.body).map_err(|_| Problem::wrong("the body is not UTF-8 text"))
    }

    /// The body as JSON.
    pub(crate) fn object(&self) -> Result<Value, Problem> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Problem::wrong(format!("the body is no JSON: line {line}, column {column}"))
        })
    }

    /// The body as a typed request. `shape` shows what is expected.
    pub(crate) fn request<Request: DeserializeOwned>(&self, shape: &str) -> Result<Request, Problem> {
        serde_json::from_value(self.object()?)
            .map_err(|error| Problem::unfit(format!("{error}; the body looks like {shape}")))
    }

    /// Whether the caller may see what happens in a stream, beyond what was released.
    pub(crate) fn sees(&self, stream: &str) -> bool {
        self.caller.as_ref().is_some_and(|caller| sees(self.engine(), caller, stream))
    }

    /// Refuses a caller without this role on a stream, before anything about the stream is disclosed.
    pub(crate) fn require_role(&self, role: Role, stream: &str) -> Result<(), Problem> {
        if self.engine().roles(self.who()?, stream).contains(&role) {
            return Ok(());
        }
        let who = self.who()?.name();
        Err(Problem::forbidden(format!(
            "\"{who}\" is no {role} of a stream \"{stream}\"; its file's [access] says who is"
        )))
    }

    /// The run in the path, if the caller may see it.
    pub(crate) fn run(&self) -> Result<RunView, Problem> {
        let number = self.part("run").parse::<u64>().ok();
        let run = number.and_then(|number| self.engine().run(number)).filter(|run| self.sees(&run.stream));
        // Whether a run exists is not public, so a run that is missing and one that is not visible get the same reply.
        run.ok_or_else(|| match self.has_a_role() {
            true => Problem::missing("there is no such run; list them with GET /v1/runs"),
            false => Problem::forbidden("runs are visible to users with a role on a stream"),
        })
    }

    /// The log head that the caller may know: the current one with a role on every stream, otherwise the one at the end
    /// of the last disclosure interval of the streams without a role. No activity of a stream is shown earlier.
    pub(crate) fn log_head(&self) -> Result<Head, Problem> {
        let engine = self.engine();
        let unseen: Vec<String> = engine.stream_names().into_iter().filter(|stream| !self.sees(stream)).collect();
        let length = match unseen.is_empty() {
            true => engine.log_length()?,
            false => self.server.disclosure.outside(engine, now()).length_without(&unseen),
        };
        Ok(engine.head_at(length)?)
    }

    /// Whether the caller has a role on any stream, or an admin token.
    pub(crate) fn has_a_role(&self) -> bool {
        self.engine().stream_names().iter().any(|stream| self.sees(stream))
    }

    /// The release in the path.
    pub(crate) fn release(&self) -> Result<ReleaseView, Problem> {
        let (name, version) = (self.part("name"), self.part("version"));
        let text = if version.is_empty() { name.to_owned() } else { format!("{name}@{version}") };
        self.release_named(&text)
    }

    /// The release with the name `name`, `name@3`, `name@champion` or `name@latest`, if it is disclosed to the caller.
    pub(crate) fn release_named(&self, text: &str) -> Result<ReleaseView, Problem> {
        Ok(self.known_alarm(self.engine().release_shown(text, &self.shown())?))
    }

    /// All releases that are disclosed to the caller, by name and version.
    pub(crate) fn releases(&self) -> Vec<ReleaseView> {
        let releases = self.engine().releases_shown(&self.shown());
        releases.into_iter().map(|release| self.known_alarm(release)).collect()
    }

    /// The release without its alarm, where the caller may not see what happens in its stream: an alarm begins and ends
    /// at the moment of an attempt.
    fn known_alarm(&self, release: ReleaseView) -> ReleaseView {
        let failing = release.failing.filter(|_| self.sees(&release.stream));
        ReleaseView { failing, ..release }
    }

    /// Whether a release is disclosed to the caller: at once with a role on its stream, otherwise after the disclosure
    /// interval in which it was released.
    pub(crate) fn shown(&self) -> impl Fn(&ReleaseView) -> bool {
        let outside = std::cell::OnceCell::new();
        move |release| {
            let found = || self.server.disclosure.outside(self.engine(), now());
            self.sees(&release.stream) || outside.get_or_init(found).has(release)
        }
    }
}

/// Whether a caller may see what happens in a stream, beyond its releases.
pub(crate) fn sees(engine: &Engine, caller: &Caller, stream: &str) -> bool {
    caller.admin || !engine.roles(&caller.who, stream).is_empty()
}

/// The refusal of a user without a role. It does not reveal whether the stream exists.
pub(crate) fn no_role(who: &Principal, stream: &str) -> Problem {
    Problem::forbidden(format!(
        "\"{}\" has no role in a stream \"{stream}\"; what was released is at /v1/releases, and an officer can give a role \
         in the [access] of the stream's file",
        who.name()
    ))
}
