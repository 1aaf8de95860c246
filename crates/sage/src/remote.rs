//! Commands that ask a server instead of a directory: one client, and one list of what can be asked.
//!
//! A command is turned into a request from its flags as they were parsed, so that commands need not know that there are
//! servers. The answer is the server's own JSON, as `--json` prints it, or the same as lines.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::ArgMatches;
use clap::parser::ValueSource;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::cli::Command;
use crate::failure::{Failure, quoted};
use crate::login::Logins;
use crate::output::{print, print_json, tell};
use crate::plan::text_of;
use crate::query::fresh_key;
use crate::server::{CHARGED_BUT_FAILED, KEY_REUSED};
use crate::watch;

/// The variable that holds a token.
pub(crate) const TOKEN: &str = "SAGE_TOKEN";

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    method: Method,
    path: String,
    kind: &'static str,
    body: String,
    /// What is sent again under this key has its effect once.
    key: Option<String>,
    /// The list in the answer that comes page by page.
    pages: Option<&'static str>,
    /// The part of the answer that is shown to a person, where the rest is for programs.
    shown: Option<&'static str>,
    /// What a conflict means for the exit code.
    conflict: u8,
}

impl Asked {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        let (method, path, body) = (Method::GET, path.into(), String::new());
        Self { method, path, kind: "application/json", body, key: None, pages: None, shown: None, conflict: 1 }
    }

    fn post(path: impl Into<String>, kind: &'static str, body: String) -> Self {
        Self { method: Method::POST, kind, body, ..Self::get(path) }
    }

    pub(crate) fn paged(self, list: &'static str) -> Self {
        Self { pages: Some(list), ..self }
    }

    fn showing(self, field: &'static str) -> Self {
        Self { shown: Some(field), ..self }
    }

    fn once(self, key: String) -> Self {
        Self { key: Some(key), conflict: 12, ..self }
    }
}

/// A text as a part of an address.
fn part(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// The request of a command; nothing if it is none that a server answers.
fn request(name: &str, found: &ArgMatches) -> Result<Option<Asked>, Failure> {
    let text = |id: &str| found.try_get_one::<String>(id).ok().flatten().cloned();
    let named = |id: &str| part(&text(id).unwrap_or_default());
    let run = || found.try_get_one::<u64>("run").ok().flatten().copied().unwrap_or_default();
    let file = || text_of(found.try_get_one::<PathBuf>("file").ok().flatten().unwrap_or(&PathBuf::new()));
    let toml = "application/toml";
    Ok(Some(match (name, found.subcommand()) {
        ("runs", _) => match text("stream") {
            Some(stream) => Asked::get(format!("/v1/runs?stream={}", part(&stream))).paged("runs"),
            None => Asked::get("/v1/runs").paged("runs"),
        },
        ("explain", _) => Asked::get(format!("/v1/runs/{}", run())),
        ("cancel", _) => Asked::post(format!("/v1/runs/{}/cancel", run()), toml, String::new()),
        ("plan", _) => Asked::post("/v1/plan", toml, file()?),
        ("submit", _) if found.get_flag("wait") || found.contains_id("code") => {
            return Err(Failure::usage(
                "--wait and --code are for a directory: a server works on its own, and runs no code of its clients",
                "sage submit FILE --server ADDRESS, then: sage explain RUN --server ADDRESS",
            ));
        }
        ("submit", _) => Asked::post("/v1/runs", toml, file()?).once(fresh_key()?).showing("run"),
        ("predict", _) if found.get_flag("columns") => return Ok(None),
        ("predict", _) => {
            let path = format!("/invocations?model={}", named("model"));
            Asked::post(path, "application/json", rows(&file()?).to_string()).showing("predictions")
        }
        ("census", _) => Asked::get(format!("/v1/streams/{}/census", named("stream"))),
        ("blocks", _) if found.contains_id("step") => return Ok(None),
        ("blocks", _) => Asked::get(format!("/v1/streams/{}/blocks", named("stream"))).paged("blocks"),
        ("query", _) => {
            let key = text("key").map_or_else(fresh_key, Ok)?;
            Asked::post(format!("/v1/streams/{}/query", named("stream")), "application/json", question(found)).once(key)
        }
        ("stream", Some(("show", found))) => match found.try_get_one::<String>("stream").ok().flatten() {
            Some(stream) => Asked::get(format!("/v1/streams/{}", part(stream))),
            None => Asked::get("/v1/streams"),
        },
        ("models", Some(("list", _))) => Asked::get("/v1/releases").paged("releases"),
        ("models", Some(("show", found))) => {
            let name = found.try_get_one::<String>("release").ok().flatten().cloned().unwrap_or_default();
            match name.split_once('@') {
                Some((name, version)) => Asked::get(format!("/v1/releases/{}/{}", part(name), part(version))),
                None => Asked::get(format!("/v1/releases/{}", part(&name))),
            }
        }
        _ => return Ok(None),
    }))
}

/// The body of a question.
fn question(found: &ArgMatches) -> String {
    let text = |id: &str| found.try_get_one::<String>(id).ok().flatten().cloned();
    let mut body = json!({"sql": text("sql"), "plan": found.get_flag("plan"), "all": found.get_flag("all")});
    for id in ["epsilon", "since", "until", "context"] {
        if let Some(value) = text(id) {
            body[id] = json!(value);
        }
    }
    if let Some(error) = text("error") {
        body["error"] = error.parse::<f64>().map_or_else(|_| json!(error), |number| json!(number));
    }
    if let Some(last) = found.try_get_one::<u32>("last").ok().flatten() {
        body["last"] = json!(last);
    }
    let keys: Vec<String> =
        found.try_get_many::<String>("keys").ok().flatten().into_iter().flatten().cloned().collect();
    body["blocks"] = json!(keys);
    body.to_string()
}

/// The flags of the innermost command.
fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| innermost(inner))
}

/// Asks a server, if the command is to be answered by one; nothing if it is for a directory.
pub(crate) fn run_if_asked(matches: &ArgMatches, command: &Command) -> Option<Result<(), Failure>> {
    let (name, found) = matches.subcommand()?;
    let own = innermost(found);
    let given = |id: &str| own.try_contains_id(id).unwrap_or(false).then(|| own.value_source(id)).flatten();
    let named = own.try_get_one::<String>("server").ok().flatten().cloned();
    let flag = given("server") == Some(ValueSource::CommandLine);
    let logins = Logins::read();
    let address = match named {
        // A directory that is named on the command line counts before a server that is not.
        Some(_) if !flag && given("dir") == Some(ValueSource::CommandLine) => return None,
        Some(address) => address,
        None => {
            let place = own.try_get_one::<PathBuf>("dir").ok().flatten()?;
            let elsewhere = given("dir") == Some(ValueSource::DefaultValue) && !place.join("log.db").exists();
            logins.last().filter(|_| elsewhere)?.to_owned()
        }
    };
    let address = address.trim_end_matches('/').to_owned();
    if let Command::Watch(asked) = command {
        return Some(watch::on_server(asked, &address, token(&address, &logins)));
    }
    match request(name, found) {
        Ok(Some(asked)) => Some(answer(&address, &logins, &asked, own)),
        Ok(None) if flag => Some(Err(Failure::usage(
            format!("sage {name} works on a directory and asks no server"),
            "leave --server out and name the directory with --dir; docs/reference/commands.md says which commands ask a server",
        ))),
        Ok(None) => None,
        Err(failure) => Some(Err(failure)),
    }
}

/// The token that is named, or else that of the login.
fn token(address: &str, logins: &Logins) -> Option<String> {
    let named = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
    named.or_else(|| logins.token(address).map(str::to_owned))
}

fn answer(address: &str, logins: &Logins, asked: &Asked, found: &ArgMatches) -> Result<(), Failure> {
    let client = Client::new(address, token(address, logins))?;
    let value = client.ask(asked)?;
    tell(&format!("answered by {address}"));
    if found.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or(false) {
        return print_json(&value);
    }
    match asked.shown.map(|field| &value[field]) {
        Some(Value::Array(list)) => print(&list.iter().map(lines).collect::<String>()),
        Some(one) => print(&lines(one)),
        None => print(&lines(&value)),
    }
}

/// Rows of a file as the server takes them: lines of JSON, or CSV with a header.
fn rows(text: &str) -> Value {
    if text.trim_start().starts_with('{') {
        let records = text.lines().filter(|line| !line.trim().is_empty());
        // What is no JSON is sent as text, and the server says which row it was.
        let record = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| json!(line));
        return json!({"dataframe_records": records.map(record).collect::<Vec<Value>>()});
    }
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).map(cells);
    let columns = lines.next().unwrap_or_default();
    let cell = |text: String| if text.is_empty() { Value::Null } else { json!(text) };
    let data: Vec<Vec<Value>> = lines.map(|line| line.into_iter().map(cell).collect()).collect();
    json!({"dataframe_split": {"columns": columns, "data": data}})
}

/// The cells of a line of CSV; what stands between double quotes is one cell.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        let doubled = sign == '"' && quoted && signs.peek() == Some(&'"');
        match (sign, cells.last_mut()) {
            ('"', Some(cell)) if doubled => {
                signs.next();
                cell.push('"');
            }
            ('"', _) => quoted = !quoted,
            (',', _) if !quoted => cells.push(String::new()),
            (sign, Some(cell)) => cell.push(sign),
            (_, None) => {}
        }
    }
    cells
}

/// Talks to one server.
pub(crate) struct Client {
    address: String,
    token: Option<String>,
    client: reqwest::Client,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    pub(crate) fn new(address: &str, token: Option<String>) -> Result<Self, Failure> {
        let fine = url::Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !fine {
            let message = format!("{} is no address of a server", quoted(address));
            return Err(Failure::usage(message, "write it like https://sage.example.org or http://127.0.0.1:7878"));
        }
        let failed = |error: String| Failure::no_answer(format!("no request can be made: {error}"), "try again");
        let builder =
            reqwest::Client::builder().timeout(Duration::from_secs(600)).connect_timeout(Duration::from_secs(10));
        // Without TLS there is nothing to be trusted, and no list of authorities to be read.
        let builder = builder.tls_built_in_root_certs(address.starts_with("https"));
        let client = builder.build().map_err(|error| failed(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(error.to_string()))?;
        Ok(Self { address: address.to_owned(), token, client, runtime })
    }

    /// The answer to a request, all pages of it.
    pub(crate) fn ask(&self, asked: &Asked) -> Result<Value, Failure> {
        let Some(list) = asked.pages else { return self.once(asked, &asked.path) };
        let mut all = Vec::new();
        let mut after = Some(0);
        while let Some(place) = after {
            let sign = if asked.path.contains('?') { '&' } else { '?' };
            let page = self.once(asked, &format!("{}{sign}after={place}", asked.path))?;
            all.extend(page[list].as_array().into_iter().flatten().cloned());
            after = page["next"].as_u64();
        }
        Ok(Value::Array(all))
    }

    fn once(&self, asked: &Asked, path: &str) -> Result<Value, Failure> {
        self.runtime.block_on(async {
            let response = self.send(asked, path).await?;
            let body = response.text().await.map_err(|error| self.unreachable(error))?;
            serde_json::from_str(&body).map_err(|_| Failure::Engine {
                message: format!("what answers at {} is no server of sage; name it with --server", self.address),
                code: 69,
            })
        })
    }

    /// What the server answers, if it does what it is asked.
    async fn send(&self, asked: &Asked, path: &str) -> Result<Response, Failure> {
        let mut request = self.client.request(asked.method.clone(), format!("{}{path}", self.address));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(key) = &asked.key {
            request = request.header("idempotency-key", key);
        }
        if asked.method == Method::POST {
            request = request.header(CONTENT_TYPE, asked.kind).body(asked.body.clone());
        }
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.text().await.map_err(|error| self.unreachable(error))?;
        let value: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
        let detail = value["detail"].as_str().map_or_else(|| format!("the server answered {status}"), str::to_owned);
        let (code, help) = match status {
            StatusCode::UNAUTHORIZED => (13, "\n  help  sage login ADDRESS"),
            StatusCode::FORBIDDEN => (13, ""),
            StatusCode::NOT_FOUND => (14, ""),
            StatusCode::CONFLICT if value["type"] == KEY_REUSED => (2, ""),
            StatusCode::CONFLICT if value["type"] == CHARGED_BUT_FAILED => (15, ""),
            StatusCode::CONFLICT => (asked.conflict, ""),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => (69, ""),
            _ => (1, ""),
        };
        Err(Failure::Engine { message: format!("{detail}{help}"), code })
    }

    fn unreachable(&self, error: reqwest::Error) -> Failure {
        let message = format!(
            "{} cannot be reached: {}\n  help  see that the server runs and the address is right",
            self.address,
            error.without_url()
        );
        Failure::Engine { message, code: 69 }
    }

    /// Begins to listen to what happens on the server.
    pub(crate) fn listen(&self) -> Result<Response, Failure> {
        self.runtime.block_on(self.send(&Asked::get("/v1/events"), "/v1/events"))
    }

    /// What is heard in this time: nothing if there is only silence, and an error once the server tells no more.
    pub(crate) fn hear(&self, events: &mut Response, patience: Duration) -> Result<Option<Bytes>, Gone> {
        self.runtime.block_on(async {
            match tokio::time::timeout(patience, events.chunk()).await {
                Err(_) => Ok(None),
                Ok(Ok(Some(heard))) => Ok(Some(heard)),
                Ok(Ok(None) | Err(_)) => Err(Gone),
            }
        })
    }
}

/// The server stopped, or the connection broke.
pub(crate) struct Gone;

/// An answer as lines: a list of objects as a table, an object as its fields.
fn lines(value: &Value) -> String {
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    match value {
        Value::Array(list) if list.is_empty() => "nothing\n".to_owned(),
        Value::Array(list) if list.iter().all(Value::is_object) => {
            let names: Vec<&String> = list[0].as_object().into_iter().flat_map(serde_json::Map::keys).collect();
            let mut rows: Vec<Vec<String>> = vec![names.iter().map(|name| (*name).clone()).collect()];
            rows.extend(list.iter().map(|one| names.iter().map(|name| plain(&one[name.as_str()])).collect()));
            let widths: Vec<usize> =
                (0..names.len()).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
            let line = |row: &Vec<String>| {
                let cells = row.iter().zip(&widths).map(|(text, width)| format!("{text:width$}"));
                format!("{}\n", cells.collect::<Vec<String>>().join("  ").trim_end())
            };
            rows.iter().map(line).collect()
        }
        Value::Object(map) => {
            let width = map.keys().map(|name| name.chars().count()).max().unwrap_or(0);
            map.iter().map(|(name, value)| format!("{name:width$}  {}\n", plain(value))).collect()
        }
        other => format!("{}\n", plain(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_tables_and_objects_are_fields() {
        let list = json!([{"run": 1, "status": "accepted"}, {"run": 12, "status": null}]);
        assert_eq!(lines(&list), "run  status\n1    accepted\n12   -\n");
        assert_eq!(lines(&json!({"a": 1, "long": [2]})), "a     1\nlong  [2]\n");
        assert_eq!(lines(&json!([])), "nothing\n");
        assert_eq!(part("a b/c@1"), "a%20b%2Fc%401");
        assert_eq!(cells("a,\"b,c\",\"d\"\"e\","), ["a", "b,c", "d\"e", ""]);
        let csv = json!({"dataframe_split": {"columns": ["x", "y"], "data": [["1", null]]}});
        assert_eq!(rows("x,y\n1,\n"), csv);
        assert_eq!(rows("{\"x\": 1}\n"), json!({"dataframe_records": [{"x": 1}]}));
    }
}
