//! The server over HTTP: from a submission to predictions, across crashes, and access control.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::Serving;
use crate::workdir::Workdir;

pub(crate) fn token(workdir: &Workdir, name: &str) -> String {
    workdir.good(&format!("token create --as {name}")).trim().to_owned()
}

pub(crate) fn pipeline(workdir: &Workdir) -> String {
    std::fs::read_to_string(workdir.path("examples/duration.toml")).expect("an example")
}

#[test]
fn a_pipeline_goes_in_and_a_model_comes_out() {
    let (workdir, _) = Workdir::with_rides("150_000");
    let (mia, carl) = (token(&workdir, "mia"), token(&workdir, "carl"));
    let serving = Serving::start(&workdir);
    let text = pipeline(&workdir);
    assert_eq!(serving.good("POST", "/v1/plan", &mia, &text)["starts_now"], true);
    let submitted = serving.with_token("POST", "/v1/runs", &mia, &text);
    assert_eq!(submitted.status, 201, "{}", submitted.body);
    assert!(submitted.head.contains("location: /v1/runs/1"), "{}", submitted.head);
    let heard = serving.hear(&mia, "0", "event: released");
    for kind in ["run-submitted", "attempt-chosen", "charged", "started", "blocks-sealed"] {
        assert!(heard.contains(&format!("event: {kind}\n")), "{kind} is missing in\n{heard}");
    }
    let run = serving.wait_for("/v1/runs/1", &mia, |run| run["over"] == true);
    assert_eq!((&run["status"], &run["release"]), (&json!("accepted"), &json!("taxi-duration@1")));
    let heard = serving.hear(&carl, "0", "event: released");
    assert!(!heard.contains("charged") && !heard.contains("\"run\"") && !heard.contains("time"), "{heard}");
    let named = serving.good("POST", "/v1/releases/taxi-duration/1/aliases", &mia, "{\"alias\": \"champion\"}");
    assert_eq!(named["aliases"], json!(["champion"]));
    let release = serving.good("GET", "/v1/releases/taxi-duration/champion", &carl, "");
    assert!(release["card"].as_str().is_some_and(|card| card.contains("taxi-duration")), "{release}");
    let file = serving.get("/v1/releases/taxi-duration/1/files/MLmodel", &carl);
    assert!(file.status == 200 && file.body.contains("python_function"), "{}", file.body);
    let request = json!({"dataframe_split": {
        "columns": ["pickup", "distance", "payment"],
        "data": [["2026-11-02T08:15:00", 2.5, "card"]],
    }});
    let found = serving.good("POST", "/invocations", &carl, &request.to_string());
    assert!(found["predictions"][0].is_number(), "{found}");
    let alias = "/api/2.0/mlflow/registered-models/alias?name=taxi-duration&alias=champion";
    assert_eq!(serving.good("GET", alias, &carl, "")["model_version"]["version"], "1");
    let over = serving.with_token("POST", "/v1/runs/1/cancel", &mia, "");
    assert_eq!(over.status, 409, "{}", over.body);
    let withdrawn = "/v1/releases/taxi-duration/1/withdraw";
    serving.good("POST", withdrawn, &mia, "{\"reason\": \"wrong unit\"}");
    assert_eq!(serving.get("/v1/releases/taxi-duration/1", &carl).status, 404);
}

/// A stream of one number.
pub(crate) const SMALL: &str = include_str!("../streams/small.toml");

#[test]
fn rows_come_in_over_the_wire_and_are_sealed() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let [ada, dan, mia] = ["ada", "dan", "mia"].map(|name| token(&workdir, name));
    let serving = Serving::start(&workdir);
    let own = SMALL.replace("[\"ada\"]", "[\"mia\"]");
    for (who, file) in [(&mia, SMALL), (&mia, own.as_str()), (&ada, own.as_str())] {
        assert_eq!(serving.with_token("POST", "/v1/streams", who, file).status, 403);
    }
    assert_eq!(serving.with_token("POST", "/v1/streams", &ada, SMALL).status, 201);
    let rows = "/v1/streams/small/rows";
    let first = serving.with_token("POST", &format!("{rows}?batch=one"), &dan, "at,x\n2026-01-01T00:10:00,0.5\n");
    assert_eq!((first.status, &first.json()["stored"]), (201, &json!(1)), "{}", first.body);
    let again = serving.with_token("POST", &format!("{rows}?batch=one"), &dan, "at,x\n2026-01-01T00:20:00,0.5\n");
    assert_eq!((again.status, &again.json()["taken"]), (200, &json!(false)), "{}", again.body);
    let authorization = format!("Bearer {dan}");
    let headers = [("Authorization", authorization.as_str()), ("Content-Type", "application/x-ndjson")];
    let lines = b"{\"at\": \"2026-01-01T01:10:00\", \"x\": 0.25}\n{\"at\": \"2026-01-01T01:20:00\", \"x\": 0.5}\n";
    let second = serving.ask("POST", &format!("{rows}?batch=two"), &headers, lines);
    assert_eq!((second.status, &second.json()["stored"]), (201, &json!(2)), "{}", second.body);
    let wrong = serving.with_token("POST", &format!("{rows}?batch=three"), &dan, "no,such,columns\n1,2,3\n");
    assert_eq!(wrong.status, 422, "{}", wrong.body);
    assert_eq!(serving.with_token("POST", rows, &dan, "at,x\n").status, 400);
    let seal = "{\"do\": \"seal\", \"before\": \"2027-01-01\"}";
    let blocks = "/v1/streams/small/blocks";
    assert_eq!(serving.good("POST", blocks, &dan, seal)["blocks"].as_array().map(Vec::len), Some(2));
    assert_eq!(serving.good("POST", blocks, &dan, seal)["blocks"], json!([]));
    let page = serving.good("GET", &format!("{blocks}?limit=1"), &mia, "");
    assert_eq!((&page["blocks"][0]["state"], &page["next"]), (&json!("sealed"), &json!(1)), "{page}");
    assert_eq!(serving.with_token("POST", blocks, &dan, "{\"do\": \"sell\"}").status, 422);
    let looser = SMALL.replace("\"1.0\"", "\"2.0\"");
    let changed = serving.good("POST", "/v1/streams/small/policy", &ada, &looser);
    assert_eq!(changed["policy"], "waits for another officer");
    assert_eq!(serving.with_token("POST", "/v1/streams/small/approve", &ada, "{\"digest\": \"0\"}").status, 409);
}

#[test]
fn one_directory_has_one_server_and_a_signal_ends_it_well() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let mut serving = Serving::start(&workdir);
    let second = workdir.fails("serve --listen 127.0.0.1:0", 1, "is in use by another process");
    assert!(second.contains("send it requests instead"), "{second}");
    // A listener does not keep the server from stopping.
    let mia = token(&workdir, "mia");
    let _listening = serving.listen(&mia);
    let ended = std::process::Command::new("kill").arg(serving.child.id().to_string()).status();
    assert!(ended.is_ok_and(|status| status.success()));
    let began = Instant::now();
    assert_eq!(serving.child.wait().expect("an end").code(), Some(0));
    // Requests in progress have thirty seconds.
    assert!(began.elapsed() < Duration::from_secs(28), "took {:?}", began.elapsed());
    workdir.good("runs");
    workdir.good("doctor");
}

#[test]
fn heads_leave_as_time_goes_by() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let file = workdir.path("head");
    let mut command = workdir.command(&["serve", "--listen", "127.0.0.1:0", "--heads-every", "1", "--heads"]);
    let mut child = command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program runs");
    crate::wait_until("no head is exported while nothing happens", || file.exists());
    child.kill().expect("a child of ours");
    child.wait().expect("a child of ours");
    let line = std::fs::read_to_string(&file).expect("a head");
    assert!(line.starts_with("sage-head-2 ") && line.split(' ').count() == 6, "{line}");
}

#[test]
fn acknowledged_changes_survive_a_kill() {
    let (workdir, _) = Workdir::with_rides("150_000");
    let mia = token(&workdir, "mia");
    let text = pipeline(&workdir);
    let authorization = format!("Bearer {mia}");
    let once = |key: &'static str| [("Authorization", authorization.as_str()), ("Idempotency-Key", key)].to_vec();
    let mut acknowledged = BTreeSet::new();
    for round in 0..3 {
        let serving = Serving::start(&workdir);
        let first = serving.ask("POST", "/v1/runs", &once("the same"), text.as_bytes());
        let expected = if round == 0 { 201 } else { 200 };
        assert_eq!((first.status, &first.json()["run"]), (expected, &json!(1)), "{}", first.body);
        let other = serving.ask("POST", "/v1/runs", &once("the same"), text.replace("0.02", "0.03").as_bytes());
        assert_eq!(other.status, 409, "{}", other.body);
        let more = serving.good("POST", "/v1/runs", &mia, &text);
        acknowledged.insert(more["run"].as_u64().expect("a number"));
        serving.kill();
    }
    assert_eq!(acknowledged, BTreeSet::from([2, 3, 4]));
    let serving = Serving::start(&workdir);
    let runs = serving.wait_for("/v1/runs", &mia, |found| {
        found["runs"].as_array().is_some_and(|runs| runs.iter().all(|run| run["status"] != "running"))
    });
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(4), "{runs}");
    drop(serving);
    workdir.good("doctor --repair");
}

#[test]
fn invalid_requests_get_problem_details() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let mia = token(&workdir, "mia");
    let serving = Serving::start(&workdir);
    let long = "x".repeat((1 << 20) + 1);
    for (verb, path, body, status) in [
        ("GET", "/nowhere", "", 404),
        ("POST", "/version", "", 405),
        ("POST", "/v1/runs", "[pipeline", 422),
        ("POST", "/v1/plan", "\u{0}", 422),
        ("POST", "/v1/runs", long.as_str(), 413),
        ("GET", "/v1/runs/7", "", 404),
        ("GET", "/v1/runs/x", "", 404),
        ("GET", "/v1/runs?after=x", "", 400),
        ("GET", "/v1/releases/%ff/1", "", 400),
        ("GET", "/v1/releases/..%2f..%2ftokens.json/1", "", 404),
        ("GET", "/v1/releases/none/1", "", 404),
        ("POST", "/v1/releases/none/1/aliases", "{}", 404),
        ("GET", "/v1/streams/other", "", 403),
    ] {
        let reply = serving.with_token(verb, path, &mia, body);
        assert_eq!(reply.status, status, "{verb} {path}: {}", reply.body);
        assert!(reply.head.contains("application/problem+json"), "{verb} {path}: {}", reply.head);
        assert_eq!(reply.json()["status"], json!(status), "{}", reply.body);
    }
    let pages = "default-src 'self'";
    assert!(serving.get("/livez", "").head.contains(pages));
    // More than one change a second, sooner or later.
    drop(serving);
    let serving = Serving::from(workdir.command(&["serve", "--listen", "127.0.0.1:0", "--most-changes", "1"]));
    let mut statuses = BTreeSet::new();
    crate::wait_until("changes are never refused", || {
        statuses.insert(serving.with_token("POST", "/v1/runs", &mia, "[x").status);
        statuses.contains(&429)
    });
    assert_eq!(statuses, BTreeSet::from([422, 429]));
}

/// Officer, data engineer, ML engineer, auditor, consumer, no token.
const WHO: [&str; 6] = ["ada", "dan", "mia", "olga", "carl", ""];

/// The status for each of them on every route, with an invalid body where the route has one.
const MATRIX: &[(&str, &str, [u16; 6])] = &[
    ("get", "/livez", [200; 6]),
    ("get", "/readyz", [200; 6]),
    ("get", "/version", [200; 6]),
    ("get", "/openapi.json", [200; 6]),
    ("get", "/metrics", [200, 200, 200, 200, 403, 401]),
    ("get", "/v1/streams", [200, 200, 200, 200, 200, 401]),
    ("post", "/v1/streams", [422, 403, 403, 403, 403, 401]),
    ("get", "/v1/streams/{stream}", [200, 200, 200, 200, 403, 401]),
    ("post", "/v1/streams/{stream}/policy", [422, 403, 403, 403, 403, 401]),
    ("post", "/v1/streams/{stream}/approve", [409, 403, 403, 403, 403, 401]),
    ("post", "/v1/streams/{stream}/members", [422, 403, 403, 403, 403, 401]),
    ("get", "/v1/streams/{stream}/census", [200, 200, 200, 200, 403, 401]),
    ("get", "/v1/streams/{stream}/quarantine", [403, 200, 403, 403, 403, 401]),
    ("post", "/v1/streams/{stream}/quarantine", [422, 422, 403, 403, 403, 401]),
    ("get", "/v1/streams/{stream}/blocks", [200, 200, 200, 200, 403, 401]),
    ("post", "/v1/streams/{stream}/blocks", [403, 200, 403, 403, 403, 401]),
    ("post", "/v1/streams/{stream}/rows", [403, 400, 403, 403, 403, 401]),
    ("post", "/v1/streams/{stream}/charges", [403, 403, 422, 403, 403, 401]),
    ("post", "/v1/streams/{stream}/query", [403, 403, 200, 403, 403, 401]),
    ("get", "/v1/runs", [200, 200, 200, 200, 200, 401]),
    ("post", "/v1/runs", [403, 403, 201, 403, 403, 401]),
    ("post", "/v1/programs", [403, 403, 422, 403, 403, 401]),
    ("get", "/v1/runs/{run}", [200, 200, 200, 200, 403, 401]),
    ("post", "/v1/runs/{run}/cancel", [409, 403, 409, 403, 403, 401]),
    ("post", "/v1/plan", [403, 403, 200, 403, 403, 401]),
    ("get", "/v1/releases", [200, 200, 200, 200, 200, 401]),
    ("get", "/v1/releases/{name}", [200, 200, 200, 200, 200, 401]),
    ("get", "/v1/releases/{name}/{version}", [200, 200, 200, 200, 200, 401]),
    ("get", "/v1/releases/{name}/{version}/files/{path}", [200, 200, 200, 200, 200, 401]),
    ("post", "/v1/releases/{name}/{version}/aliases", [403, 403, 200, 403, 403, 401]),
    ("post", "/v1/releases/{name}/{version}/withdraw", [403, 403, 422, 403, 403, 401]),
    ("get", "/v1/events", [200, 200, 200, 200, 200, 401]),
    ("get", "/v1/log", [200, 200, 200, 200, 403, 401]),
    ("get", "/", [200, 200, 200, 200, 200, 303]),
    ("get", "/streams/{stream}", [200, 200, 200, 200, 403, 303]),
    ("get", "/streams/{stream}/blocks/{path}", [200, 200, 200, 200, 403, 303]),
    ("get", "/runs", [200, 200, 200, 200, 200, 303]),
    ("get", "/runs/{run}", [200, 200, 200, 200, 403, 303]),
    ("get", "/releases", [200, 200, 200, 200, 200, 303]),
    ("get", "/releases/{name}/{version}", [200, 200, 200, 200, 200, 303]),
    ("post", "/releases/{name}/{version}", [200, 200, 200, 200, 200, 303]),
    ("get", "/audit", [200, 200, 200, 200, 403, 303]),
    ("post", "/audit", [200, 200, 200, 200, 403, 303]),
    ("get", "/simulate", [200, 200, 200, 200, 200, 303]),
    ("get", "/login", [200; 6]),
    ("post", "/login", [401; 6]),
    ("post", "/logout", [303; 6]),
    ("get", "/assets/style.css", [200; 6]),
    ("get", "/assets/script.js", [200; 6]),
    ("get", "/assets/icon.svg", [200; 6]),
    ("get", "/v2", [200, 200, 200, 200, 200, 401]),
    ("get", "/v2/health/live", [200; 6]),
    ("get", "/v2/health/ready", [200; 6]),
    ("get", "/v2/models/{name}", [200, 200, 200, 200, 200, 401]),
    ("get", "/v2/models/{name}/ready", [200, 200, 200, 200, 200, 401]),
    ("post", "/v2/models/{name}/infer", [422, 422, 422, 422, 422, 401]),
    ("get", "/v2/models/{name}/versions/{version}", [200, 200, 200, 200, 200, 401]),
    ("get", "/v2/models/{name}/versions/{version}/ready", [200, 200, 200, 200, 200, 401]),
    ("post", "/v2/models/{name}/versions/{version}/infer", [422, 422, 422, 422, 422, 401]),
    ("post", "/invocations", [422, 422, 422, 422, 422, 401]),
    ("post", "/get-online-features", [422, 422, 422, 422, 422, 401]),
    ("get", "/api/2.0/mlflow/registered-models/alias", [400, 400, 400, 400, 400, 401]),
    ("get", "/api/2.0/mlflow/registered-models/get", [400, 400, 400, 400, 400, 401]),
    ("get", "/api/2.0/mlflow/registered-models/search", [200, 200, 200, 200, 200, 401]),
    ("get", "/api/2.0/mlflow/model-versions/search", [200, 200, 200, 200, 200, 401]),
    ("get", "/api/2.0/mlflow/model-versions/get", [400, 400, 400, 400, 400, 401]),
    ("get", "/api/2.0/mlflow/model-versions/get-download-uri", [400, 400, 400, 400, 400, 401]),
    ("get", "/api/2.0/mlflow-artifacts/artifacts", [404, 404, 404, 404, 404, 401]),
    ("get", "/api/2.0/mlflow-artifacts/artifacts/{path}", [200, 200, 200, 200, 200, 401]),
];

/// A directory with all roles, a run that has ended and its release.
pub(crate) fn busy_workdir() -> (Workdir, u64, BTreeMap<&'static str, String>) {
    let (workdir, stored) = Workdir::with_rides("150_000");
    let auditor = "ml-engineer = [\"mia\"]\nauditor = [\"olga\"]";
    workdir.variant("rides/_stream.toml", "changed.toml", &[("ml-engineer = [\"mia\"]", auditor)]);
    workdir.good("stream change changed.toml --as ada");
    workdir.good("submit examples/duration.toml --wait --as mia");
    let tokens = WHO.iter().filter(|name| !name.is_empty()).map(|name| (*name, token(&workdir, name))).collect();
    (workdir, stored, tokens)
}

fn body_of(workdir: &Workdir, verb: &str, path: &str) -> String {
    match (verb, path) {
        ("post", "/v1/runs" | "/v1/plan") => pipeline(workdir),
        ("post", "/v1/programs") => json!({"pipeline": pipeline(workdir), "files": {"../x": ""}}).to_string(),
        ("post", "/v1/streams/{stream}/query") => {
            json!({"sql": "SELECT count(*)", "epsilon": "0.01", "all": true, "plan": true}).to_string()
        }
        ("post", "/v1/streams/{stream}/blocks") => "{\"do\": \"seal\"}".to_owned(),
        ("post", "/v1/releases/{name}/{version}/aliases") => "{\"alias\": \"good\"}".to_owned(),
        ("post", "/v1/streams/{stream}/approve") => "{\"digest\": \"0\"}".to_owned(),
        ("post", "/v1/runs/{run}/cancel") => String::new(),
        ("post", "/v1/streams/{stream}/policy" | "/v1/streams") => "[".to_owned(),
        ("post", "/login") => "token=wrong".to_owned(),
        ("post", _) => "{}".to_owned(),
        _ => String::new(),
    }
}

pub(crate) fn filled(path: &str) -> String {
    let parts = [("{stream}", "taxi"), ("{run}", "1"), ("{name}", "taxi-duration"), ("{version}", "1")];
    let path = parts.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
    let own = match path.split('/').nth(1) {
        Some("api") => "taxi-duration/1/MLmodel",
        Some("streams") => "hour=2026-01-01T00",
        _ => "MLmodel",
    };
    path.replace("{path}", own)
}

#[test]
fn every_route_answers_every_role_as_the_table_says() {
    let (workdir, _, tokens) = busy_workdir();
    let serving = Serving::start(&workdir);
    let described = serving.get("/openapi.json", "").json();
    let paths = described["paths"].as_object().expect("paths");
    let served: BTreeSet<(String, String)> = paths
        .iter()
        .flat_map(|(path, verbs)| verbs.as_object().into_iter().flatten().map(|(verb, _)| (verb.clone(), path.clone())))
        .collect();
    let listed: BTreeSet<(String, String)> =
        MATRIX.iter().map(|(verb, path, _)| ((*verb).to_owned(), (*path).to_owned())).collect();
    assert_eq!(served, listed, "every route needs a line in the table, and every line a route");
    let mut wrong = Vec::new();
    for (verb, path, statuses) in MATRIX {
        for (who, status) in WHO.iter().zip(statuses) {
            let token = tokens.get(who).map_or("", String::as_str);
            let found = if *path == "/v1/events" && *status == 200 {
                serving.hear(token, "0", "HTTP/1.1 200");
                200
            } else {
                let body = body_of(&workdir, verb, path);
                serving.with_token(&verb.to_uppercase(), &filled(path), token, &body).status
            };
            if found != *status {
                wrong.push(format!("{verb} {path} as {who:?}: {found}, not {status}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_role_in_one_stream_is_none_in_another() {
    let (workdir, _, tokens) = busy_workdir();
    let zoe = token(&workdir, "zoe");
    let serving = Serving::start(&workdir);
    let small = SMALL.replace("\"mia\"", "\"zoe\"");
    assert_eq!(serving.with_token("POST", "/v1/streams", &tokens["ada"], &small).status, 201);
    // A row, so that it has the block whose page is requested.
    let row = "at,x\n2026-01-01T00:10:00,0.5\n";
    assert_eq!(serving.with_token("POST", "/v1/streams/small/rows?batch=one", &tokens["dan"], row).status, 201);
    for (verb, path, statuses) in
        MATRIX.iter().filter(|(_, path, _)| path.contains("{stream}") || path.contains("{run}"))
    {
        let reply = serving.with_token(&verb.to_uppercase(), &filled(path), &zoe, &body_of(&workdir, verb, path));
        assert!(matches!(reply.status, 403 | 404), "{verb} {path}: {} {}", reply.status, reply.body);
        let own = filled(path).replace("taxi", "small");
        if *verb == "get" && path.contains("{stream}") {
            // As an ML engineer of any stream.
            assert_eq!(serving.get(&own, &zoe).status, statuses[2], "{own}");
        }
    }
    for path in ["/v1/runs", "/v1/plan"] {
        assert_eq!(serving.with_token("POST", path, &zoe, &pipeline(&workdir)).status, 403, "{path}");
    }
    assert_eq!(serving.good("GET", "/v1/runs", &zoe, "")["runs"], json!([]));
    let streams = serving.good("GET", "/v1/streams", &zoe, "");
    assert_eq!((streams.as_array().map(Vec::len), &streams[0]["name"]), (Some(1), &json!("small")));
    let heard = serving.hear(&zoe, "0", "\"stream\":\"small\"");
    assert!(heard.contains("event: released") && !heard.contains("charged") && !heard.contains("\"taxi\""), "{heard}");
    for page in ["/", "/runs", "/audit", "/metrics"] {
        let said = serving.get(page, &zoe).body;
        assert!(!said.contains("taxi<") && !said.contains("\"taxi\""), "{page}: {said}");
    }
}

/// Every text and number in a JSON value.
fn leaves(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|one| leaves(one, found)),
        Value::Object(map) => map.values().for_each(|one| leaves(one, found)),
        Value::String(text) => drop(found.insert(text.clone())),
        other => drop(found.insert(other.to_string())),
    }
}

#[test]
fn a_consumer_learns_neither_counts_of_rows_nor_what_blocks_have_lost() {
    let (workdir, stored, tokens) = busy_workdir();
    let serving = Serving::start(&workdir);
    let blocks = serving.good("GET", "/v1/streams/taxi/blocks", &tokens["ada"], "");
    let mut secrets = BTreeSet::new();
    for block in blocks["blocks"].as_array().expect("blocks") {
        leaves(&block["train"], &mut secrets);
        leaves(&block["test"], &mut secrets);
    }
    // The cost of a release is public.
    let mut public = BTreeSet::new();
    leaves(&serving.good("GET", "/v1/releases/taxi-duration", &tokens["carl"], "")["receipt"]["epsilon"], &mut public);
    secrets.retain(|secret| !public.contains(secret));
    // Round numbers occur for other reasons.
    secrets.retain(|secret| secret.len() >= 8);
    assert!(!secrets.is_empty(), "{blocks}");
    secrets.extend([stored.to_string(), "150000".to_owned()]);
    let mut said = serving.hear(&tokens["carl"], "0", "released");
    let consumer = &tokens["carl"];
    for (verb, path, _) in MATRIX.iter().filter(|(_, path, _)| *path != "/v1/events") {
        let reply = serving.with_token(&verb.to_uppercase(), &filled(path), consumer, &body_of(&workdir, verb, path));
        said += &format!("\n{verb} {path}\n{}\n{}", reply.head, reply.body);
    }
    for secret in &secrets {
        assert!(!crate::shows(&said, secret), "{secret} is said to a consumer");
    }
    let metrics = serving.get("/metrics", &tokens["olga"]).body;
    assert!(metrics.contains("sage_blocks{stream=\"taxi\",state=\"sealed\"}"), "{metrics}");
    assert!(!crate::shows(&metrics, &stored.to_string()) && !metrics.contains("day="), "{metrics}");
}

#[test]
fn tokens_are_listed_without_secrets_and_stop_when_revoked() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let mia = token(&workdir, "mia");
    let serving = Serving::start(&workdir);
    assert_eq!(serving.get("/v1/streams", &mia).status, 200);
    let id = mia.split('_').nth(2).expect("an id");
    let list = workdir.good("token list");
    assert!(list.contains(id) && list.contains("mia") && !list.contains(mia.rsplit('_').next().expect("a secret")));
    let mut listening = serving.listen(&mia);
    workdir.good(&format!("token revoke {id}"));
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut listening, &mut rest).expect("an end");
    assert_eq!(serving.get("/v1/streams", &mia).status, 401);
    workdir.fails("token revoke none", 14, "there is no token");
    let admin = workdir.good("token create --as ops --role admin");
    assert_eq!(serving.get("/v1/streams/taxi/blocks", admin.trim()).status, 200);
    assert_eq!(serving.with_token("POST", "/v1/streams/taxi/rows?batch=1", admin.trim(), "x").status, 403);
}
