//! Users without a role on a stream see a release only after its disclosure interval (`--disclosure-interval`).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::PATIENCE;
use crate::http::Serving;
use crate::server::{pipeline, token};
use crate::workdir::Workdir;

const LATER: &str = "disclosure_interval = \"1d\"\n";

const INTERVAL_SECONDS: u64 = 7;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// The second of the day of a time such as `2026-11-16T13:05:09Z`.
fn second_of_day(text: &str) -> u64 {
    let clock = text.split_once('T').expect("a time").1.trim_end_matches('Z');
    clock.split(':').fold(0, |sum, part| 60 * sum + part.parse::<u64>().expect("a number"))
}

#[test]
fn a_release_is_shown_outside_when_its_interval_is_over() {
    let (workdir, _) = Workdir::with_rides("150_000");
    let [mia, carl, zoe] = ["mia", "carl", "zoe"].map(|name| token(&workdir, name));
    let flags = ["serve", "--listen", "127.0.0.1:0", "--disclosure-interval", &INTERVAL_SECONDS.to_string()];
    let serving = Serving::from(workdir.command(&flags));
    assert_eq!(serving.with_token("POST", "/v1/runs", &mia, &pipeline(&workdir)).status, 201);
    let heard = serving.hear(&mia, "0", "\"release\":\"taxi-duration\"");
    let event = heard.lines().rev().find_map(|line| line.strip_prefix("data: ")).expect("an event");
    let event: serde_json::Value = serde_json::from_str(event).expect("JSON");
    let made = second_of_day(event["time"].as_str().expect("a time"));
    // Users with a role see it at once, on every route.
    assert_eq!(serving.get("/v1/releases/taxi-duration", &mia).status, 200);
    let (began, mut held_back) = (Instant::now(), 0);
    let routes = [
        "/v1/releases/taxi-duration",
        "/v1/releases/taxi-duration/1/files/MLmodel",
        "/v2/models/taxi-duration/ready",
        "/releases/taxi-duration/1",
        "/api/2.0/mlflow/registered-models/get?name=taxi-duration",
    ];
    for (turn, route) in routes.iter().cycle().enumerate() {
        assert!(began.elapsed() < PATIENCE, "it is never shown");
        let who = if turn % 2 == 0 { &carl } else { &zoe };
        let shown = serving.get(route, who).status == 200;
        let lists = serving.get("/v1/releases", who).body.contains("taxi-duration");
        let boundary = now() / INTERVAL_SECONDS * INTERVAL_SECONDS;
        // The interval is a divisor of no day, but its boundaries are compared within one.
        let over = boundary % 86_400 > made || boundary % 86_400 + 43_200 < made;
        assert!(over || !(shown || lists), "{route} shows it at {boundary} though it was made at {made}");
        if shown && lists {
            break;
        }
        held_back += usize::from(!shown);
        std::thread::sleep(Duration::from_millis(50));
    }
    // Listeners without a role get the event no sooner, and without a time.
    let heard = serving.hear(&carl, "0", "event: released");
    assert!(now() / INTERVAL_SECONDS * INTERVAL_SECONDS % 86_400 != made && !heard.contains("\"time\""), "{heard}");
    println!("held back {held_back} times");
}

/// The time of day in UTC, within the first or the last minutes of which an interval of a day would end during the test.
fn is_near_midnight() -> bool {
    !(120..86_400 - 300).contains(&(now() % 86_400))
}

#[test]
fn a_stream_may_set_a_longer_interval_than_its_server() {
    if is_near_midnight() {
        println!("a day is about to end, so the interval of a day is left out");
        return;
    }
    let (workdir, _) = Workdir::with_rides("150_000");
    let [mia, carl] = ["mia", "carl"].map(|name| token(&workdir, name));
    workdir.variant("rides/_stream.toml", "later.toml", &[("[stream]\n", &format!("[stream]\n{LATER}"))]);
    workdir.good("stream change later.toml --as ada");
    workdir.fails("stream change later.toml --as mia", 13, "is no privacy-officer");
    let serving = Serving::start(&workdir);
    assert_eq!(serving.with_token("POST", "/v1/runs", &mia, &pipeline(&workdir)).status, 201);
    serving.hear(&mia, "0", "\"release\":\"taxi-duration\"");
    let listens = |token: &str| serving.get("/v1/events?after=0&seconds=0", token).body;
    // The server's own interval is a second; the stream's is a day, and counts.
    std::thread::sleep(Duration::from_secs(3));
    for path in ["/v1/releases/taxi-duration", "/v2/models/taxi-duration/ready", "/releases/taxi-duration/1"] {
        assert_eq!((serving.get(path, &mia).status, serving.get(path, &carl).status), (200, 404), "{path}");
    }
    assert!(!listens(&carl).contains("event: released"), "{}", listens(&carl));
    assert!(listens(&mia).contains("event: released"), "{}", listens(&mia));
    // An officer removes it, and the server's interval applies again.
    let text = std::fs::read_to_string(workdir.path("rides/_stream.toml")).expect("a file");
    let ada = token(&workdir, "ada");
    serving.good("POST", "/v1/streams/taxi/policy", &ada, &text);
    crate::wait_until("it is never shown", || serving.get("/v1/releases/taxi-duration", &carl).status == 200);
    assert!(listens(&carl).contains("event: released"), "{}", listens(&carl));
}

/// The server showed releases by its own `--disclosure-interval`, and the engine held results back by whole minutes.
#[test]
fn results_are_delayed_by_the_disclosure_interval_of_the_server() {
    let (workdir, _) = Workdir::with_rides("20_000");
    let mia = token(&workdir, "mia");
    let held = [("[stream]\n", "[stream]\nanswers = \"at-interval\"\n")];
    workdir.variant("rides/_stream.toml", "held.toml", &held);
    workdir.good("stream change held.toml --as ada");
    let serving = Serving::from(workdir.command(&["serve", "--listen", "127.0.0.1:0", "--disclosure-interval", "2"]));
    let request = "{\"sql\": \"SELECT count(*) FROM taxi\", \"epsilon\": \"0.01\", \"last\": 1}";
    let began = Instant::now();
    for _ in 0..4 {
        serving.good("POST", "/v1/streams/taxi/query", &mia, request);
        let milliseconds = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() % 2_000;
        println!("{milliseconds} ms into an interval");
    }
    // Four intervals of a minute would take three minutes at least.
    assert!(began.elapsed() >= Duration::from_secs(6), "they left at once: {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(150), "they left by other intervals: {:?}", began.elapsed());
}

#[test]
fn a_listener_with_a_duration_gets_all_events_and_is_closed() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let [mia, carl] = ["mia", "carl"].map(|name| token(&workdir, name));
    let serving = Serving::start(&workdir);
    let began = Instant::now();
    let all = serving.get("/v1/events?after=0&seconds=0", &mia).body;
    assert!(all.contains("event: blocks-sealed") && all.contains("event: rows-ingested"), "{all}");
    let after = all.lines().rev().find_map(|line| line.strip_prefix("id: ")).expect("a number");
    let rest = serving.get(&format!("/v1/events?after={after}&seconds=1"), &mia).body;
    assert!(!rest.contains("event: "), "{rest}");
    assert!(!serving.get("/v1/events?after=0&seconds=0", &carl).body.contains("event: "));
    assert!(began.elapsed() < PATIENCE, "took {:?}", began.elapsed());
    for wrong in ["seconds=-1", "seconds=x", "seconds=86401", "seconds=", "seconds=0&after=x", "seconds=0&after=-1"] {
        assert_eq!(serving.get(&format!("/v1/events?{wrong}"), &mia).status, 400, "{wrong}");
    }
    // Invalid numbers in the header that browsers send.
    let authorization = format!("Bearer {mia}");
    for wrong in ["", "x", "-1", "18446744073709551616", "1e3", "\u{e9}", "1, 2", "0x10"] {
        let headers = [("Authorization", authorization.as_str()), ("Last-Event-ID", wrong)];
        let status = serving.ask("GET", "/v1/events?seconds=0", &headers, b"").status;
        assert!(status == 400 || (wrong == "\u{e9}" && status == 200), "{wrong:?}: {status}");
    }
    let headers = [("Authorization", authorization.as_str()), ("Last-Event-ID", "18446744073709551615")];
    assert_eq!(serving.ask("GET", "/v1/events?seconds=0", &headers, b"").status, 200, "a number that is not there yet");
}
