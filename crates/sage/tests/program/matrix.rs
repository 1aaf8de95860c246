//! Access control of every operation in the OpenAPI document: each role, on the stream of the request and on another
//! one, a consumer, an admin token, and no token. The expectation comes from the document;
//! `server::every_route_answers_every_role_as_the_table_says` checks the same against a list written by hand.

use crate::http::Serving;
use crate::server::{SMALL, busy_workdir, filled, pipeline, token};

/// A user: name, role, and the stream of the role.
const PEOPLE: [(&str, &str, &str); 11] = [
    ("ada", "privacy-officer", "taxi"),
    ("dan", "data-engineer", "taxi"),
    ("mia", "ml-engineer", "taxi"),
    ("olga", "auditor", "taxi"),
    ("oscar", "privacy-officer", "small"),
    ("otto", "data-engineer", "small"),
    ("zoe", "ml-engineer", "small"),
    ("olaf", "auditor", "small"),
    ("carl", "", ""),
    ("ops", "admin", ""),
    ("", "", ""),
];

/// Whether the document allows a user this operation on a stream.
fn is_let(whom: &str, (name, role, own): (&str, &str, &str), stream: &str) -> bool {
    let (admin, officer) = (role == "admin", role == "privacy-officer");
    match whom {
        "everybody" => true,
        "token" => !name.is_empty(),
        "some-role" => admin || !own.is_empty(),
        "role-in-stream" => admin || own == stream,
        // The file must name its officers, so admin tokens are refused later, by its content.
        "some-privacy-officer" => admin || officer,
        roles => own == stream && roles.split(", ").any(|one| one == role),
    }
}

fn body(verb: &str, path: &str, role: &str, pipeline: &str, token: &str) -> String {
    match (verb, path) {
        ("post", "/v1/runs" | "/v1/plan") => pipeline.to_owned(),
        ("post", "/v1/programs") => serde_json::json!({"pipeline": pipeline, "files": {"../x": ""}}).to_string(),
        ("post", "/v1/streams/{stream}/blocks") if role == "privacy-officer" => "{\"do\": \"retire\"}".to_owned(),
        ("post", "/v1/streams/{stream}/blocks") => "{\"do\": \"seal\"}".to_owned(),
        ("post", "/v1/streams/{stream}/approve") => "{\"digest\": \"0\"}".to_owned(),
        ("post", "/v1/runs/{run}/cancel") => String::new(),
        ("post", "/v1/streams/{stream}/policy" | "/v1/streams") => "[".to_owned(),
        ("post", "/login") => format!("token={token}"),
        ("post", _) => "{}".to_owned(),
        _ => String::new(),
    }
}

/// Whether a request was refused.
fn is_denied(serving: &Serving, verb: &str, path: &str, token: &str, body: &str) -> (bool, u16) {
    let reply = serving.with_token(&verb.to_uppercase(), path, token, body);
    let to_login = reply.status == 303 && reply.header("location") == Some("/login") && path != "/logout";
    (matches!(reply.status, 401 | 403 | 404) || to_login, reply.status)
}

#[test]
fn every_operation_admits_exactly_its_audience() {
    let (workdir, _, _) = busy_workdir();
    let tokens = PEOPLE.map(|(name, role, _)| match (name, role) {
        ("", _) => String::new(),
        (name, "admin") => workdir.good(&format!("token create --as {name} --role admin")).trim().to_owned(),
        (name, _) => token(&workdir, name),
    });
    let serving = Serving::start(&workdir);
    let others = "privacy-officer = [\"ada\", \"oscar\"]\nauditor = [\"olaf\"]";
    let small = SMALL
        .replace("privacy-officer = [\"ada\"]", others)
        .replace("\"dan\"", "\"otto\"")
        .replace("\"mia\"", "\"zoe\"");
    assert_eq!(serving.with_token("POST", "/v1/streams", &tokens[0], &small).status, 201);
    let (pipeline, mut cells, mut wrong) = (pipeline(&workdir), 0, Vec::new());
    let described = serving.described().clone();
    for (path, verbs) in described["paths"].as_object().expect("paths") {
        for (verb, operation) in verbs.as_object().expect("verbs") {
            let whom = operation["x-audience"].as_str().unwrap_or_else(|| panic!("{verb} {path} is for nobody"));
            let streams: &[&str] = if path.contains("{stream}") { &["taxi", "small"] } else { &["taxi"] };
            for (stream, (person, token)) in
                streams.iter().flat_map(|stream| PEOPLE.iter().zip(&tokens).map(move |pair| (*stream, pair)))
            {
                // Ada has founded the other stream and is an officer of both.
                let own =
                    if person.0 == "ada" && *person != ("", "", "") { (person.0, person.1, stream) } else { *person };
                let expected = is_let(whom, own, stream);
                if path == "/v1/events" && expected {
                    serving.hear(token, "0", "HTTP/1.1 200");
                    continue;
                }
                let address = filled(&path.replace("{stream}", stream));
                let body = body(verb, path, person.1, &pipeline, &tokens[2]);
                let (denied, status) = is_denied(&serving, verb, &address, token, &body);
                // What is there and what is not is for other tests; for callers with the role a 404 says nothing here.
                if expected == denied && !(expected && status == 404) {
                    wrong.push(format!("{verb} {address} ({whom}) as {person:?}: {status}"));
                }
                cells += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "of {cells}:\n{}", wrong.join("\n"));
    assert!(cells > 500, "{cells}");
}
