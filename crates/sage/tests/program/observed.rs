//! Telemetry of the server: OpenTelemetry spans and JSON logs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::PATIENCE;
use crate::http::Serving;
use crate::server::{pipeline, token};
use crate::workdir::Workdir;

/// A receiver of spans: its address, and the bodies that come.
fn receiver() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let mut reader = BufReader::new(stream);
            // A client keeps its connection for the next ones.
            loop {
                let (mut first, mut length) = (String::new(), 0);
                if reader.read_line(&mut first).unwrap_or(0) == 0 {
                    break;
                }
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).expect("a head");
                    if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
                        length = text.trim().parse().expect("a length");
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("a body");
                let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
                reader.get_mut().write_all(answer).expect("answered");
                let body = serde_json::from_slice(&body).expect("JSON");
                if sender.send((first, body)).is_err() {
                    return;
                }
            }
        }
    });
    (address, bodies)
}

fn field<'span>(span: &'span Value, name: &str) -> &'span Value {
    let fields = span["attributes"].as_array().expect("fields");
    fields.iter().find(|one| one["key"] == name).map_or(&Value::Null, |one| &one["value"])
}

#[test]
fn spans_and_lines_tell_of_routes_and_attempts_and_of_no_row() {
    let (workdir, stored) = Workdir::with_rides("150_000");
    let mia = token(&workdir, "mia");
    let (address, bodies) = receiver();
    let mut command =
        workdir.command(&["serve", "--listen", "127.0.0.1:0", "--disclosure-interval", "2", "--log-format", "json"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &address).env("OTEL_SERVICE_NAME", "rides");
    let talk = std::fs::File::create(workdir.path("talk.txt")).expect("a file");
    let serving = Serving::talking(command, talk.into());
    let authorization = format!("Bearer {mia}");
    let parent = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let headers = [("Authorization", authorization.as_str()), parent];
    assert_eq!(serving.ask("GET", "/v1/streams/taxi?secret=word", &headers, b"").status, 200);
    assert_eq!(serving.with_token("POST", "/v1/runs", &mia, &pipeline(&workdir)).status, 201);
    let (mut spans, began) = (Vec::new(), Instant::now());
    let wanted = ["attempt", "GET /v1/streams/{stream}"];
    while !wanted.iter().all(|name| spans.iter().any(|span: &Value| span["name"] == *name)) {
        assert!(began.elapsed() < PATIENCE, "no attempt or no request among {spans:?}");
        let Ok((first, body)) = bodies.recv_timeout(Duration::from_secs(30)) else { continue };
        assert!(first.starts_with("POST /v1/traces "), "{first}");
        let resource = &body["resourceSpans"][0];
        assert_eq!(field(&resource["resource"], "service.name")["stringValue"], "rides");
        spans.extend(resource["scopeSpans"][0]["spans"].as_array().expect("spans").iter().cloned());
    }
    let span = spans.iter().find(|span| span["name"] == "GET /v1/streams/{stream}").expect("the request");
    assert_eq!(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(span["parentSpanId"], "b7ad6b7169203331");
    assert_eq!(field(span, "http.response.status_code")["intValue"], "200");
    let attempt = spans.iter().find(|span| span["name"] == "attempt").expect("the attempt");
    assert!(field(attempt, "sage.outcome")["stringValue"].is_string(), "{attempt}");
    for end in ["startTimeUnixNano", "endTimeUnixNano"] {
        let time: u64 = attempt[end].as_str().and_then(|text| text.parse().ok()).expect("a time");
        assert_eq!(time % 2_000_000_000, 0, "an attempt is reported in disclosure intervals: {attempt}");
    }
    drop(serving);
    let said = std::fs::read_to_string(workdir.path("talk.txt")).expect("what it said");
    for line in said.lines() {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        assert!(object["time"].is_string() && object["event"].is_string(), "{line}");
    }
    assert!(said.contains("\"route\":\"/v1/streams/{stream}\""), "{said}");
    let spans = Value::Array(spans).to_string();
    let secret = mia.rsplit('_').next().expect("a secret").to_owned();
    for count in [stored.to_string(), "150000".to_owned()] {
        assert!(!crate::shows(&said, &count) && !crate::shows(&spans, &count), "{count} is shown");
    }
    for leak in [secret.as_str(), "word"] {
        assert!(!said.contains(leak) && !spans.contains(leak), "{leak} is shown");
    }
}
