//! Disclosure intervals: for a user without a role in a stream, every route answers the same before a release and after
//! it, until the interval is over. The routes are those that the server describes, so a new one is covered at once.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::http::Serving;
use crate::server::{SMALL, pipeline, token};
use crate::workdir::Workdir;

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// A length of intervals, in seconds, of which one ends in some seconds and the next one much later.
fn interval() -> u64 {
    let now = seconds();
    let ends_soon = |length: &u64| (3..=8).contains(&(length - now % length));
    (900..80_000).find(ends_soon).expect("one of so many lengths ends soon")
}

/// Starts a server with intervals of this length.
fn start(workdir: &Workdir, seconds: u64) -> Serving {
    Serving::from(workdir.command(&["serve", "--listen", "127.0.0.1:0", "--disclosure-interval", &seconds.to_string()]))
}

/// A path with the names of the example in place of its parameters, by several versions.
fn addresses(path: &str) -> Vec<String> {
    let files = [("{stream}", "taxi"), ("{run}", "2"), ("{name}", "taxi-duration")];
    let path = files.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
    let queries = match path.rsplit('/').next().unwrap_or_default() {
        "alias" => vec!["?name=taxi-duration&alias=champion", "?name=taxi-duration&alias=fresh"],
        "get" | "get-download-uri" => vec!["?name=taxi-duration&version=1", "?name=taxi-duration&version=2"],
        "artifacts" => vec!["?path=taxi-duration/1", "?path=taxi-duration/2"],
        "invocations" => vec!["?model=taxi-duration", "?model=taxi-duration@2", "?model=taxi-duration@fresh"],
        "events" => vec!["?after=0&seconds=0"],
        _ => vec![""],
    };
    let versions = if path.contains("{version}") { vec!["1", "2", "champion", "fresh", "latest"] } else { vec![""] };
    let own = |version: &str| match path.split('/').nth(1) {
        Some("api") => vec!["taxi-duration/1/MLmodel".to_owned(), "taxi-duration/2/MLmodel".to_owned()],
        _ => vec![format!("MLmodel{}", version.replace(char::is_alphanumeric, ""))],
    };
    let mut all = Vec::new();
    for version in versions {
        for file in own(version) {
            let path = path.replace("{version}", version).replace("{path}", &file);
            all.extend(queries.iter().map(|query| format!("{path}{query}")));
        }
    }
    all.dedup();
    all
}

/// What is sent to a route.
fn body(verb: &str, path: &str, tables: &str) -> String {
    let row = json!({"dataframe_split": {
        "columns": ["pickup", "distance", "payment"],
        "data": [["2026-11-02T08:15:00", 2.5, "card"]],
    }});
    match (verb, path) {
        ("GET", _) => String::new(),
        (_, "/invocations") => row.to_string(),
        (_, "/v1/plan" | "/v1/runs") => tables.to_owned(),
        (_, "/v1/programs") => json!({"pipeline": tables, "files": {"train.py": ""}}).to_string(),
        (_, "/get-online-features") => {
            json!({"features": ["taxi-duration:value"], "entities": {"vendor": ["1"]}}).to_string()
        }
        _ if path.ends_with("infer") => json!({"inputs": [
            {"name": "pickup", "data": ["2026-11-02T08:15:00"], "shape": [1], "datatype": "BYTES"},
            {"name": "distance", "data": [2.5], "shape": [1], "datatype": "FP64"},
            {"name": "payment", "data": ["card"], "shape": [1], "datatype": "BYTES"},
        ]})
        .to_string(),
        _ => "{}".to_owned(),
    }
}

/// What every route answers to a caller. Steps that change something are left out where the caller may do them.
fn walk(serving: &Serving, caller: &str, pipelines: &[String]) -> BTreeMap<String, String> {
    let described = serving.described().clone();
    let mut found = BTreeMap::new();
    for (path, verbs) in described["paths"].as_object().expect("paths") {
        for verb in verbs.as_object().expect("verbs").keys().map(|verb| verb.to_uppercase()) {
            if matches!(path.as_str(), "/simulate" | "/logout" | "/v1/streams") && verb == "POST" {
                continue;
            }
            for (number, pipeline) in pipelines.iter().enumerate() {
                for address in addresses(path) {
                    let reply = serving.with_token(&verb, &address, caller, &body(&verb, path, pipeline));
                    let said = format!("{} {}", reply.status, reply.body);
                    found.insert(format!("{verb} {address} ({number})"), said);
                }
                if verb == "GET" || !matches!(path.as_str(), "/v1/plan" | "/v1/runs" | "/v1/programs") {
                    break;
                }
            }
        }
    }
    found
}

fn differences(one: &BTreeMap<String, String>, two: &BTreeMap<String, String>) -> Vec<String> {
    let differs = |(key, text): (&String, &String)| {
        let other = two.get(key).map_or("nothing", String::as_str);
        (text != other).then(|| format!("{key}\n  before: {text}\n  after:  {other}"))
    };
    one.iter().filter_map(differs).collect()
}

/// `/v1/plan` with `better_than` showed a release before its interval was over, and so did the reason why a version was
/// withdrawn.
///
/// `/audit` showed users with a role in another stream how many events the log has.
///
/// Moving an alias to a fresh version answered 404 to users without a role until the interval was over.
#[test]
fn no_route_shows_a_release_before_its_interval_is_over() {
    let (workdir, _) = Workdir::with_rides("300_000");
    workdir.good("submit examples/duration.toml --wait --as mia");
    workdir.good("models alias taxi-duration@1 champion --as mia");
    let [ada, mia, carl, zoe] = ["ada", "mia", "carl", "zoe"].map(|name| token(&workdir, name));
    let length = interval();
    let serving = start(&workdir, length);
    let small = SMALL.replace("\"mia\"", "\"zoe\"");
    assert_eq!(serving.with_token("POST", "/v1/streams", &ada, &small).status, 201);
    let champion = |token: &str| serving.get("/v1/releases/taxi-duration/champion", token);
    // The first version is shown at the start of an interval, and all that follows happens in that one.
    crate::wait_until("the first version is never shown", || champion(&carl).status == 200);
    let this = seconds() / length;
    // Zoe has a role in another stream, and her pipelines name what she must not know of yet.
    let challenger = |name: &str| {
        pipeline(&workdir)
            .replace("stream = \"taxi\"", "stream = \"small\"")
            .replace("target = 0.02", &format!("better_than = \"{name}\""))
    };
    let names = ["taxi-duration@2", "taxi-duration@fresh", "taxi-duration@champion", "taxi-withdrawn@1"];
    let pipelines: Vec<String> = names.map(challenger).to_vec();
    let seen = || [&carl, &zoe].map(|caller| walk(&serving, caller, &pipelines));
    let before = seen();
    assert!(before[0].len() > 80, "{}", before[0].len());
    // A second version, another release that is withdrawn at once, and aliases that are moved to the fresh version.
    serving.good("POST", "/v1/runs", &mia, &pipeline(&workdir));
    let withdrawn = pipeline(&workdir).replace("\"taxi-duration\"", "\"taxi-withdrawn\"");
    serving.good("POST", "/v1/runs", &mia, &withdrawn);
    for path in ["/v1/releases/taxi-duration/2", "/v1/releases/taxi-withdrawn/1"] {
        crate::wait_until(path, || serving.get(path, &mia).status == 200);
    }
    serving.good("POST", "/v1/releases/taxi-withdrawn/1/withdraw", &mia, "{\"reason\": \"too early\"}");
    for alias in ["fresh", "champion"] {
        serving.good("POST", "/v1/releases/taxi-duration/2/aliases", &mia, &json!({"alias": alias}).to_string());
    }
    let after = seen();
    let [of_carl, of_mia] = [&carl, &mia].map(|token| champion(token).json());
    assert_eq!(seconds() / length, this, "the machine is too slow: an interval of {length} s is over");
    for (who, (one, two)) in ["carl", "zoe"].iter().zip(before.iter().zip(&after)) {
        let different = differences(one, two);
        assert!(different.is_empty(), "{who} sees:\n{}", different.join("\n"));
    }
    // An alias keeps its version until the new one is shown.
    assert_eq!((&of_carl["version"], &of_carl["aliases"]), (&json!(1), &json!(["champion"])), "{of_carl}");
    assert_eq!((&of_mia["version"], &of_mia["aliases"]), (&json!(2), &json!(["champion", "fresh"])), "{of_mia}");
    // The interval is over: everything is there.
    drop(serving);
    let serving = Serving::start(&workdir);
    let shown = walk(&serving, &carl, &pipelines);
    assert_eq!(serving.good("GET", "/v1/releases/taxi-duration/champion", &carl, "")["version"], 2);
    let different = differences(&before[0], &shown);
    for path in ["/v1/releases/taxi-duration/2", "/v1/releases/taxi-duration/fresh", "alias=champion", "/v1/events"] {
        assert!(different.iter().any(|one| one.contains(path)), "{path} shows nothing new:\n{}", different.join("\n"));
    }
}
