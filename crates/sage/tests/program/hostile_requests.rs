//! For any request the server sends a response, refuses in the format of the protocol, and keeps running.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::http::Serving;
use crate::workdir::Workdir;

const NAMES: &[&str] = &[
    "taxi",
    "1",
    "taxi-duration",
    "latest",
    "..",
    "%2e%2e%2f",
    "a%00b",
    "%ff",
    "-1",
    "99999999999999999999",
    "@",
    "taxi-duration@1",
    "speed-by-vendor",
];

const QUERIES: &[&str] = &[
    "",
    "?after=-1",
    "?after=99999999999999999999",
    "?limit=0",
    "?batch=%00",
    "?batch=x",
    "?name=taxi-duration&version=1&alias=champion",
    "?path=taxi-duration/1",
    "?path=../..",
    "?filter=name%3D%27",
    "?max_results=x",
    "?model=taxi-duration",
    "?%ff=%ff",
];

const BODIES: &[&str] = &[
    "",
    "{}",
    "[]",
    "null",
    "{\"inputs\":[{\"name\":\"distance\",\"data\":[1],\"shape\":[-1]}]}",
    "{\"inputs\":[{\"name\":\"distance\",\"data\":[1],\"shape\":[18446744073709551615,18446744073709551615]}]}",
    "{\"inputs\":{\"pickup\":[1],\"payment\":[null],\"distance\":[1e400]}}",
    "{\"dataframe_split\":{\"columns\":[\"a\"],\"data\":[[1,2]]}}",
    "{\"dataframe_records\":[1]}",
    "{\"features\":[\"taxi-duration:value\"],\"entities\":{\"a\":[null,{}]}}",
    "{\"do\":\"seal\",\"blocks\":[\"zz\"]}",
    "{\"do\":\"retire\",\"before\":\"2026\"}",
    "{\"alias\":\"1\"}",
    "{\"reason\":\"\"}",
    "[pipeline]\nname = \"x\"",
    "token=%00",
    "pickup,distance\n\u{0},NaN\n",
];

/// A fixed sequence of numbers.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

fn one<'list>(list: &[&'list str], state: &mut u64) -> &'list str {
    list[next(state) % list.len()]
}

/// A path with something in the place of each of its names.
fn filled(path: &str, state: &mut u64) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { one(NAMES, state) } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn nothing_that_is_sent_makes_it_fail() {
    let (workdir, stored) = Workdir::with_rides("150_000");
    workdir.good("submit examples/duration.toml --wait --as mia");
    let tokens =
        ["mia", "carl", "dan"].map(|name| workdir.good(&format!("token create --as {name}")).trim().to_owned());
    let serving = Serving::start(&workdir);
    let described = serving.get("/openapi.json", "").json();
    let routes: Vec<(String, String)> = described["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .flat_map(|(path, verbs)| {
            verbs.as_object().into_iter().flatten().map(|(verb, _)| (verb.to_uppercase(), path.clone()))
        })
        .filter(|(_, path)| path != "/v1/events")
        .collect();
    let mut statuses = BTreeSet::new();
    for case in 0..1500_u64 {
        let mut state = case;
        let (verb, path) = &routes[next(&mut state) % routes.len()];
        let address = format!("{}{}", filled(path, &mut state), one(QUERIES, &mut state));
        let body = if verb == "POST" { one(BODIES, &mut state) } else { "" };
        let token = &tokens[next(&mut state) % tokens.len()];
        let reply = serving.with_token(verb, &address, token, body);
        let said = format!("case {case}: {verb} {address} with {body:?}: {} {}", reply.status, reply.body);
        assert!((200..500).contains(&reply.status), "{said}");
        assert!(!crate::shows(&reply.body, &stored.to_string()), "{said}");
        if reply.status >= 400 && !reply.head.contains("text/html") {
            let problem: Value = reply.json();
            let text = ["detail", "error", "message"].iter().find_map(|key| problem[*key].as_str());
            assert!(text.is_some_and(|text| !text.is_empty()), "{said}");
        }
        statuses.insert(reply.status);
    }
    assert!(statuses.is_superset(&BTreeSet::from([200, 400, 403, 404, 422])), "{statuses:?}");
    assert_eq!(serving.get("/readyz", "").status, 200);
}
