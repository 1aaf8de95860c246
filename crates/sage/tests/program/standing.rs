//! Operation of the server: first start, TLS, slow and greedy clients, a full disk, shutdown.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;

use crate::PATIENCE;
use crate::http::Serving;
use crate::server::{SMALL, token};
use crate::workdir::Workdir;

/// Whether a program is installed. If not, prints that the test is skipped.
pub(crate) fn there(program: &str, what: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("{program} is not here, so {what} is left out");
    }
    found
}

#[test]
fn a_directory_that_is_not_there_is_made_and_filled_over_the_network() {
    let workdir = Workdir::new();
    let serving = Serving::start(&workdir);
    assert_eq!(serving.get("/readyz", "").json(), json!({"ready": true}));
    let ops = workdir.good("token create --as ada --role admin").trim().to_owned();
    assert_eq!(serving.good("GET", "/v1/streams", &ops, ""), json!([]));
    assert_eq!(serving.with_token("POST", "/v1/streams", &ops, SMALL).status, 201);
    assert_eq!(serving.good("GET", "/v1/streams/small", &ops, "")["name"], "small");
    drop(serving);
    workdir.good("doctor");
    // A folder with other files is not used.
    std::fs::create_dir(workdir.path("other")).expect("a folder");
    std::fs::write(workdir.path("other/notes.txt"), "mine").expect("a file");
    workdir.fails("serve --listen 127.0.0.1:0 --dir other", 14, "is no directory of sage");
    assert!(!workdir.path("other/log.db").exists());
}

#[test]
fn slow_headers_are_cut_off_and_greedy_tokens_get_retry_after() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let mia = token(&workdir, "mia");
    let limits =
        ["serve", "--listen", "127.0.0.1:0", "--head-seconds", "1", "--most-requests", "3", "--most-changes", "3"];
    let serving = Serving::from(workdir.command(&limits));
    let (began, mut rest) = (Instant::now(), Vec::new());
    let mut slow = TcpStream::connect(&serving.address).expect("a connection");
    slow.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    slow.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n").expect("sent");
    slow.read_to_end(&mut rest).expect("it is cut off");
    assert!(began.elapsed() > Duration::from_millis(500), "cut off at once: {:?}", began.elapsed());
    assert!(!String::from_utf8_lossy(&rest).contains("200"), "{rest:?}");
    // Four requests within a second, sooner or later.
    let mut refused = None;
    crate::wait_until("requests are never refused", || {
        let reply = serving.get("/v1/streams", &mia);
        refused = (reply.status == 429).then_some(reply);
        refused.is_some()
    });
    let refused = refused.expect("a refusal");
    assert_eq!(refused.header("retry-after"), Some("1"), "{}", refused.head);
    assert!(refused.json()["detail"].as_str().is_some_and(|text| text.contains("3 requests a second")));
    // Another token of the same name has its own allowance.
    assert_eq!(serving.get("/v1/streams", &token(&workdir, "mia")).status, 200);
}

#[test]
fn requests_in_progress_are_completed_on_shutdown() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let mia = token(&workdir, "mia");
    let ops = workdir.good("token create --as ops --role admin").trim().to_owned();
    let flags = ["serve", "--listen", "127.0.0.1:0", "--stall-seconds", "600"];
    let mut serving = Serving::from(workdir.command(&flags));
    let mut late = TcpStream::connect(&serving.address).expect("a connection");
    late.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!("POST /v1/plan HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {mia}\r\nContent-Length: 9\r\n\r\n");
    let held = || crate::load::metric(&serving.get("/metrics", &ops).body, "sage_request_memory_bytes");
    let before = held();
    late.write_all(format!("{head}[pipe").as_bytes()).expect("sent");
    let mut idle = TcpStream::connect(&serving.address).expect("a connection");
    // The part of the body that has arrived is counted.
    crate::wait_until("the request is never in progress", || held() >= before + 5.0);
    serving.ask_to_end();
    crate::wait_until("a server that ends accepts connections", || TcpStream::connect(&serving.address).is_err());
    late.write_all(b"line").expect("sent");
    let mut answer = String::new();
    late.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 422"), "{answer}");
    assert_eq!(serving.child.wait().expect("an end").code(), Some(0));
    assert_eq!(idle.read(&mut [0; 8]).unwrap_or(0), 0);
}

/// A certificate for this machine, and its key.
fn certificate(workdir: &Workdir) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(workdir.path("server.key"))
        .arg("-out")
        .arg(workdir.path("server.pem"))
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn over_tls_the_cookie_stays_there() {
    if !there("openssl", "TLS") {
        return;
    }
    let (workdir, _) = Workdir::with_rides("2_000");
    let mia = token(&workdir, "mia");
    certificate(&workdir);
    workdir.fails("serve --tls-certificate server.pem", 2, "--tls-key");
    workdir.fails(
        "serve --listen 127.0.0.1:0 --tls-certificate server.key --tls-key server.pem",
        1,
        "--tls-certificate",
    );
    let flags = ["serve", "--listen", "127.0.0.1:0", "--tls-certificate", "server.pem", "--tls-key", "server.key"];
    let serving = Serving::from(workdir.command(&flags));
    let mut stream = over_tls(&workdir, &serving);
    let body = format!("token={mia}");
    let request = format!(
        "POST /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let answer = String::from_utf8_lossy(&answer);
    let cookie = answer.lines().find(|line| line.starts_with("set-cookie")).unwrap_or_else(|| panic!("{answer}"));
    assert!(answer.starts_with("HTTP/1.1 303") && cookie.contains("; Secure"), "{answer}");
    // Without TLS there is no response.
    let mut plain = TcpStream::connect(&serving.address).expect("a connection");
    plain.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let mut rest = Vec::new();
    drop(plain.read_to_end(&mut rest));
    assert!(!String::from_utf8_lossy(&rest).contains("HTTP/1.1"));
}

/// A TLS connection that trusts the current certificate file.
fn over_tls(workdir: &Workdir, serving: &Serving) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(workdir.path("server.pem")).expect("a certificate")).expect("a root");
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = TcpStream::connect(&serving.address).expect("a connection");
    rustls::StreamOwned::new(connection, stream)
}

/// Whether a client that trusts the current certificate file gets a response.
fn is_trusted(workdir: &Workdir, serving: &Serving) -> bool {
    let mut stream = over_tls(workdir, serving);
    let sent = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    sent.is_ok() && answer.starts_with(b"HTTP/1.1 200")
}

/// Regression: a renewed certificate used to need a restart.
#[test]
fn a_certificate_is_read_again_when_its_file_changes() {
    if !there("openssl", "TLS") {
        return;
    }
    let (workdir, _) = Workdir::with_rides("2_000");
    certificate(&workdir);
    let flags = ["serve", "--listen", "127.0.0.1:0", "--tls-certificate", "server.pem", "--tls-key", "server.key"];
    let mut serving = Serving::from(workdir.command(&flags));
    assert!(is_trusted(&workdir, &serving));
    let before = std::fs::read(workdir.path("server.pem")).expect("a certificate");
    // An invalid certificate file changes nothing.
    std::fs::write(workdir.path("server.pem"), "not yet").expect("written");
    std::thread::sleep(Duration::from_secs(3));
    std::fs::write(workdir.path("server.pem"), &before).expect("written");
    assert!(is_trusted(&workdir, &serving), "the certificate before it is no longer used");
    certificate(&workdir);
    crate::wait_until("the new certificate is not used", || is_trusted(&workdir, &serving));
    assert!(serving.child.try_wait().expect("a child").is_none(), "it is the same process");
}

/// The limit of the size of the server's files.
fn allow(serving: &Serving, bytes: &str) {
    let limit = format!("--fsize={bytes}:unlimited");
    let set = Command::new("prlimit").arg("--pid").arg(serving.child.id().to_string()).arg(limit).status();
    assert!(set.is_ok_and(|status| status.success()));
}

#[test]
fn a_full_disk_leaves_reads_working_and_free_space_resumes_writes() {
    if !there("prlimit", "the full disk") {
        return;
    }
    let (workdir, _) = Workdir::with_rides("150_000");
    workdir.good("submit examples/duration.toml --wait --as mia");
    let [mia, carl] = ["mia", "carl"].map(|name| token(&workdir, name));
    // A limit of the file size fails like a full disk; the signal that comes with it is ignored.
    let mut command = Command::new("sh");
    crate::without_settings(&mut command);
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_sage")]);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--disclosure-interval", "1", "--dir"])
        .arg(workdir.path("sage-data"));
    let serving = Serving::from(command);
    let alias = "/v1/releases/taxi-duration/1/aliases";
    serving.good("POST", alias, &mia, "{\"alias\": \"before\"}");
    let request = json!({"dataframe_split": {
        "columns": ["pickup", "distance", "payment"],
        "data": [["2026-11-02T08:15:00", 2.5, "card"]],
    }});
    let request = request.to_string();
    // After its disclosure interval the release is visible to everybody.
    crate::wait_until("the release is never shown", || {
        serving.with_token("POST", "/invocations?model=taxi-duration", &carl, &request).status == 200
    });
    allow(&serving, "1024");
    let failed = serving.with_token("POST", alias, &mia, "{\"alias\": \"during\"}");
    assert_eq!(failed.status, 503, "{}", failed.body);
    let ready = serving.get("/readyz", "");
    assert_eq!(ready.status, 503, "{}", ready.body);
    assert!(ready.json()["detail"].as_str().is_some_and(|text| text.contains("disk")), "{}", ready.body);
    let again = serving.with_token("POST", alias, &mia, "{\"alias\": \"during\"}");
    assert!(again.status == 503 && again.body.contains("can be read"), "{}", again.body);
    assert!(again.header("retry-after").is_some());
    // Reads still work: budgets, releases, predictions.
    assert_eq!(serving.get("/v1/streams/taxi/blocks", &mia).status, 200);
    assert_eq!(serving.with_token("POST", "/invocations?model=taxi-duration", &carl, &request).status, 200);
    allow(&serving, "unlimited");
    crate::wait_until("changes are not taken again", || {
        serving.with_token("POST", alias, &mia, "{\"alias\": \"after\"}").status == 200
    });
    assert_eq!(serving.get("/readyz", "").status, 200);
    let release = serving.good("GET", "/v1/releases/taxi-duration", &mia, "");
    let aliases: Vec<&str> =
        release["aliases"].as_array().expect("aliases").iter().filter_map(|one| one.as_str()).collect();
    assert!(aliases.contains(&"before") && aliases.contains(&"after"), "{release}");
    drop(serving);
    workdir.good("doctor");
}

#[test]
fn a_charge_for_work_elsewhere_counts_once() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let [ada, dan, mia] = ["ada", "dan", "mia"].map(|name| token(&workdir, name));
    let serving = Serving::start(&workdir);
    let small = SMALL.replace("access_modes = [\"enforced\"]", "access_modes = [\"enforced\", \"attested\"]");
    assert_eq!(serving.with_token("POST", "/v1/streams", &ada, &small).status, 201);
    let rows = "at,x\n2026-01-01T00:10:00,0.5\n";
    assert_eq!(serving.with_token("POST", "/v1/streams/small/rows?batch=one", &dan, rows).status, 201);
    serving.good("POST", "/v1/streams/small/blocks", &dan, "{\"do\": \"seal\", \"before\": \"2027-01-01\"}");
    let blocks = serving.good("GET", "/v1/streams/small/blocks", &mia, "");
    let block = &blocks["blocks"][0]["block"];
    let request = |key: &str, epsilon: &str| {
        json!({"key": key, "blocks": [block], "purpose": "a histogram", "train": {"epsilon": epsilon, "delta": "1e-9"}})
            .to_string()
    };
    let path = "/v1/streams/small/charges";
    let first = serving.with_token("POST", path, &mia, &request("one", "0.25"));
    assert_eq!(first.status, 201, "{}", first.body);
    let again = serving.with_token("POST", path, &mia, &request("one", "0.25"));
    assert_eq!((again.status, again.json()), (201, first.json()));
    let spent =
        |at: &str| serving.good("GET", "/v1/streams/small/blocks", &mia, "")["blocks"][0][at]["epsilon_spent"].clone();
    let once = spent("train");
    assert!(
        once.as_str().is_some_and(|text| text.parse::<f64>().is_ok_and(|lost| (0.2..0.5).contains(&lost))),
        "{once}"
    );
    let refused = serving.with_token("POST", path, &mia, &request("two", "5"));
    assert_eq!((refused.status, spent("train")), (409, once), "{}", refused.body);
    for wrong in ["{}", "{\"key\": \"x\"}", &request("x", "-1"), &request("x", "1e400").replace("1e-9", "x")] {
        assert_eq!(serving.with_token("POST", path, &mia, wrong).status, 422, "{wrong}");
    }
    let closed = serving.with_token("POST", "/v1/streams/taxi/charges", &mia, &request("one", "0.25"));
    assert!(matches!(closed.status, 403 | 404 | 409), "{} {}", closed.status, closed.body);
}

#[test]
fn nothing_is_written_to_the_registry_and_long_answers_are_compressed() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let mia = token(&workdir, "mia");
    let serving = Serving::start(&workdir);
    for (verb, path) in [
        ("POST", "/api/2.0/mlflow/registered-models/create"),
        ("PATCH", "/api/2.0/mlflow/model-versions/update"),
        ("POST", "/api/2.0/mlflow/registered-models/alias"),
        ("PUT", "/api/2.0/mlflow-artifacts/artifacts/x/y"),
        ("DELETE", "/api/2.0/mlflow/registered-models/delete"),
    ] {
        let reply = serving.with_token(verb, path, &mia, "{}");
        assert_eq!((reply.status, &reply.json()["error_code"]), (403, &json!("PERMISSION_DENIED")), "{verb} {path}");
    }
    let authorization = format!("Bearer {mia}");
    let headers = [("Authorization", authorization.as_str()), ("Accept-Encoding", "gzip")];
    let zipped = serving.ask("GET", "/v1/streams/taxi", &headers, b"");
    assert_eq!((zipped.status, zipped.header("content-encoding")), (200, Some("gzip")), "{}", zipped.head);
    assert!(serving.get("/v1/streams/taxi", &mia).header("content-encoding").is_none());
}

/// A pipeline with own code, on the small stream.
const OWN: &str = r#"
[pipeline]
name = "own"
stream = "small"
label = "x"
window = { min = 2 }
[train]
command = ["python3", "train.py"]
time_limit = "1m"
[validate]
metric = "mse"
target = 0.1
bound = 1.0
[budget]
epsilon0 = "0.5"
"#;

#[test]
fn a_folder_of_code_comes_with_its_pipeline_and_stays_where_it_belongs() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let [ada, mia] = ["ada", "mia"].map(|name| token(&workdir, name));
    let serving = Serving::start(&workdir);
    let small = SMALL.replace("access_modes = [\"enforced\"]", "access_modes = [\"enforced\", \"attested\"]");
    assert_eq!(serving.with_token("POST", "/v1/streams", &ada, &small).status, 201);
    let sent = |files: serde_json::Value| json!({"pipeline": OWN, "files": files}).to_string();
    for files in [
        json!({}),
        json!({"../train.py": "x"}),
        json!({"/train.py": "x"}),
        json!({"a/../../train.py": "x"}),
        json!({"train.py": 1}),
        json!({"a": "x", "a/b": "x"}),
        json!(["train.py"]),
    ] {
        let refused = serving.with_token("POST", "/v1/programs", &mia, &sent(files));
        assert_eq!(refused.status, 422, "{}", refused.body);
    }
    let authorization = format!("Bearer {mia}");
    let headers = [("Authorization", authorization.as_str()), ("Idempotency-Key", "once")];
    let body = sent(json!({"train.py": "raise SystemExit(1)\n", "parts/model.py": "x = 1\n"}));
    let first = serving.ask("POST", "/v1/programs", &headers, body.as_bytes());
    assert_eq!((first.status, &first.json()["pipeline"]), (201, &json!("own")), "{}", first.body);
    let again = serving.ask("POST", "/v1/programs", &headers, body.as_bytes());
    assert_eq!((again.status, &again.json()["run"]), (200, &first.json()["run"]), "{}", again.body);
    let other = serving.ask("POST", "/v1/programs", &headers, sent(json!({"train.py": "x"})).as_bytes());
    assert_eq!(other.status, 409, "{}", other.body);
    let kept: Vec<_> = std::fs::read_dir(workdir.path("sage-data/code")).expect("code").flatten().collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].path().join("parts/model.py").is_file());
    let entries = std::fs::read_dir(workdir.path("sage-data")).expect("a directory").flatten();
    let left = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("incoming")).count();
    assert_eq!(left, 0, "folders of requests are left behind");
    assert!(!workdir.path("train.py").exists() && !workdir.path("sage-data/train.py").exists());
}
