//! Commands on a server, over its HTTP API.

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Method, Response, StatusCode};
use sage_engine::serve::RowFormat;
use sage_server::diagnostics::note;
use sage_server::format::{quoted, url_segment};
use sage_server::views::census::Census;
use sage_server::views::plan::Plan;
use sage_server::views::queries::QueryResponse;
use sage_server::views::releases::{Prediction, Predictions, Release, ReleaseSummary, ReleasesPage};
use sage_server::views::requests::RunsRequest;
use sage_server::views::runs::{Run, RunSummary, RunsPage};
use sage_server::views::streams::{Block, BlocksPage, Stream};
use sage_server::{CHARGED_BUT_FAILED, KEY_REUSED};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Cancelled, Client, KeyedQuery, PipelineRequest, PredictRequest, Target};
use crate::commands::query::fresh_key;
use crate::failure::Failure;

const JSON: &str = "application/json";
const TOML: &str = "application/toml";

/// A request over HTTP.
#[derive(Clone, Debug)]
struct HttpRequest {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
    /// A repeated request with the same key has its effect once.
    key: Option<String>,
    /// The exit code of a conflict.
    conflict: u8,
}

impl HttpRequest {
    fn get(path: impl Into<String>) -> Self {
        let (method, path, body) = (Method::GET, path.into(), Vec::new());
        Self { method, path, content_type: JSON, body, key: None, conflict: 1 }
    }

    fn post(path: impl Into<String>, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { method: Method::POST, content_type, body: body.into(), ..Self::get(path) }
    }

    fn once(self, key: String) -> Self {
        Self { key: Some(key), conflict: 12, ..self }
    }
}

/// A page of a list.
trait Page: DeserializeOwned {
    type Item;
    fn items(self) -> (Vec<Self::Item>, Option<u64>);
}

macro_rules! pages {
    ($($page:ty, $field:ident, $item:ty);+ $(;)?) => {
        $(impl Page for $page {
            type Item = $item;
            fn items(self) -> (Vec<$item>, Option<u64>) {
                (self.$field, self.next)
            }
        })+
    };
}

pages! {
    RunsPage, runs, RunSummary;
    BlocksPage, blocks, Block;
    ReleasesPage, releases, ReleaseSummary;
}

/// A client of one server.
pub(crate) struct RemoteClient {
    address: String,
    token: Option<String>,
    client: reqwest::Client,
    runtime: tokio::runtime::Runtime,
}

impl RemoteClient {
    pub(crate) fn new(address: &str, token: Option<String>) -> Result<Self, Failure> {
        let fine = url::Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !fine {
            let message = format!("{} is not the address of a server", quoted(address));
            return Err(Failure::usage(message, "write it like https://sage.example.org or http://127.0.0.1:7878"));
        }
        let failed = |error: String| {
            Failure::no_answer(
                format!("the HTTP client cannot start: {error}"),
                "check the TLS certificates and the limits of this system",
            )
        };
        let builder =
            reqwest::Client::builder().timeout(Duration::from_secs(600)).connect_timeout(Duration::from_secs(10));
        // Without TLS no certificate authorities are needed.
        let builder = builder.tls_built_in_root_certs(address.starts_with("https"));
        let client = builder.build().map_err(|error| failed(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(error.to_string()))?;
        Ok(Self { address: address.to_owned(), token, client, runtime })
    }

    /// The client of a command's target. Prints the address of the server.
    pub(crate) fn of_target(target: &Target) -> Result<Self, Failure> {
        let client = Self::new(&target.address, target.token.clone())?;
        note(&format!("using server {}", target.address));
        Ok(client)
    }

    /// All items of a list, page by page.
    fn all<P: Page>(&self, path: &str) -> Result<Vec<P::Item>, Failure> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let (mut all, mut after) = (Vec::new(), Some(0));
        while let Some(start) = after {
            let page: P = self.fetch(&HttpRequest::get(format!("{path}{separator}after={start}")))?;
            let (items, next) = page.items();
            all.extend(items);
            after = next;
        }
        Ok(all)
    }

    fn fetch<View: DeserializeOwned>(&self, request: &HttpRequest) -> Result<View, Failure> {
        self.runtime.block_on(async {
            let response = self.send(request).await?;
            let body = response.text().await.map_err(|error| self.unreachable(error))?;
            serde_json::from_str(&body).map_err(|_| Failure::Engine {
                message: format!("{} is not a server of this release of sage; name one with --server", self.address),
                code: 69,
            })
        })
    }

    /// Whether the server accepts the token.
    pub(crate) fn check_token(&self) -> Result<(), Failure> {
        self.fetch::<Value>(&HttpRequest::get("/v1/streams")).map(drop)
    }

    /// Whether a server answers.
    pub(crate) fn is_alive(&self) -> bool {
        self.fetch::<Value>(&HttpRequest::get("/livez")).is_ok()
    }

    /// A successful response, or the failure that the server reports.
    async fn send(&self, sent: &HttpRequest) -> Result<Response, Failure> {
        let mut request = self.client.request(sent.method.clone(), format!("{}{}", self.address, sent.path));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(key) = &sent.key {
            request = request.header("idempotency-key", key);
        }
        if sent.method == Method::POST {
            request = request.header(CONTENT_TYPE, sent.content_type).body(sent.body.clone());
        }
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.text().await.map_err(|error| self.unreachable(error))?;
        let value: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
        let detail = value["detail"]
            .as_str()
            .or_else(|| value["message"].as_str())
            .map_or_else(|| format!("the server answered {status}"), str::to_owned);
        let (code, help) = match status {
            StatusCode::UNAUTHORIZED => (13, "\n  help  sage login ADDRESS"),
            StatusCode::FORBIDDEN => (13, ""),
            StatusCode::NOT_FOUND => (14, ""),
            StatusCode::CONFLICT if value["type"] == KEY_REUSED => (2, ""),
            StatusCode::CONFLICT if value["type"] == CHARGED_BUT_FAILED => (15, ""),
            StatusCode::CONFLICT => (sent.conflict, ""),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => (69, ""),
            _ => (1, ""),
        };
        Err(Failure::Engine { message: format!("{detail}{help}"), code })
    }

    fn unreachable(&self, error: reqwest::Error) -> Failure {
        let message = format!(
            "{} cannot be reached: {}\n  help  check that the server is running and the address is right",
            self.address,
            error.without_url()
        );
        Failure::Engine { message, code: 69 }
    }

    /// Subscribes to the events of the server.
    pub(crate) fn listen(&self) -> Result<Response, Failure> {
        self.runtime.block_on(self.send(&HttpRequest::get("/v1/events")))
    }

    /// The next bytes of events; `None` after the timeout.
    pub(crate) fn hear(&self, events: &mut Response, patience: Duration) -> Result<Option<Bytes>, Disconnected> {
        self.runtime.block_on(async {
            match tokio::time::timeout(patience, events.chunk()).await {
                Err(_) => Ok(None),
                Ok(Ok(Some(heard))) => Ok(Some(heard)),
                Ok(Ok(None) | Err(_)) => Err(Disconnected),
            }
        })
    }
}

/// The server stopped, or the connection broke.
pub(crate) struct Disconnected;

impl Client for RemoteClient {
    fn runs(&self, request: &RunsRequest) -> Result<Vec<RunSummary>, Failure> {
        match &request.stream {
            Some(stream) => self.all::<RunsPage>(&format!("/v1/runs?stream={}", url_segment(stream))),
            None => self.all::<RunsPage>("/v1/runs"),
        }
    }

    fn run(&self, number: u64) -> Result<Run, Failure> {
        self.fetch(&HttpRequest::get(format!("/v1/runs/{number}")))
    }

    fn cancel(&self, number: u64) -> Result<Cancelled, Failure> {
        let run: Run = self.fetch(&HttpRequest::post(format!("/v1/runs/{number}/cancel"), TOML, Vec::new()))?;
        Ok(if run.status == "cancelled" { Cancelled::Run } else { Cancelled::Recurrence })
    }

    fn plan(&self, request: &PipelineRequest) -> Result<Plan, Failure> {
        self.fetch(&HttpRequest::post("/v1/plan", TOML, request.text.clone()))
    }

    fn submit(&self, request: &PipelineRequest) -> Result<Run, Failure> {
        self.fetch(&HttpRequest::post("/v1/runs", TOML, request.text.clone()).once(fresh_key()?))
    }

    fn streams(&self) -> Result<Vec<Stream>, Failure> {
        self.fetch(&HttpRequest::get("/v1/streams"))
    }

    fn stream(&self, name: &str) -> Result<Stream, Failure> {
        self.fetch(&HttpRequest::get(format!("/v1/streams/{}", url_segment(name))))
    }

    fn blocks(&self, stream: &str) -> Result<Vec<Block>, Failure> {
        self.all::<BlocksPage>(&format!("/v1/streams/{}/blocks", url_segment(stream)))
    }

    fn census(&self, stream: &str) -> Result<Census, Failure> {
        self.fetch(&HttpRequest::get(format!("/v1/streams/{}/census", url_segment(stream))))
    }

    fn query(&self, request: &KeyedQuery) -> Result<QueryResponse, Failure> {
        let body = serde_json::to_vec(&request.query).unwrap_or_default();
        let path = format!("/v1/streams/{}/query", url_segment(&request.stream));
        self.fetch(&HttpRequest::post(path, JSON, body).once(request.key.clone()))
    }

    fn releases(&self) -> Result<Vec<ReleaseSummary>, Failure> {
        self.all::<ReleasesPage>("/v1/releases")
    }

    fn release(&self, name: &str) -> Result<Release, Failure> {
        self.fetch(&HttpRequest::get(match name.split_once('@') {
            Some((name, version)) => format!("/v1/releases/{}/{}", url_segment(name), url_segment(version)),
            None => format!("/v1/releases/{}", url_segment(name)),
        }))
    }

    fn predict(
        self: Box<Self>, request: &PredictRequest, each: &mut dyn FnMut(Vec<Prediction>) -> Result<(), Failure>,
    ) -> Result<String, Failure> {
        let mut rows = Vec::new();
        request.input()?.read_to_end(&mut rows).map_err(|error| {
            Failure::usage(format!("the rows cannot be read: {error}"), "name a file of rows, or - for standard input")
        })?;
        let is_json = || rows.trim_ascii_start().starts_with(b"{");
        let content_type = match request.format {
            Some(RowFormat::Csv) => "text/csv",
            Some(RowFormat::Ndjson) => "application/x-ndjson",
            None if is_json() => "application/x-ndjson",
            None => "text/csv",
        };
        let path = format!("/invocations?model={}", url_segment(&request.model));
        let found: Predictions = self.fetch(&HttpRequest::post(path, content_type, rows))?;
        each(found.predictions)?;
        Ok(request.model.clone())
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}
