//! What somebody outside a stream sees of a release, they see once the tick is over in which it was made.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::http::Serving;
use crate::place::Place;
use crate::server::{pipeline, token};

const TICK_SECONDS: u64 = 7;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// The second of the day that a text such as `2026-11-16T13:05:09Z` says.
fn second_of_day(text: &str) -> u64 {
    let clock = text.split_once('T').expect("a time").1.trim_end_matches('Z');
    clock.split(':').fold(0, |sum, part| 60 * sum + part.parse::<u64>().expect("a number"))
}

#[test]
fn a_release_is_shown_outside_when_its_tick_is_over() {
    let (place, _) = Place::with_rides("150_000");
    let [mia, carl, zoe] = ["mia", "carl", "zoe"].map(|name| token(&place, name));
    let flags = ["serve", "--listen", "127.0.0.1:0", "--tick", &TICK_SECONDS.to_string()];
    let serving = Serving::from(place.command(&flags));
    assert_eq!(serving.with_token("POST", "/v1/runs", &mia, &pipeline(&place)).status, 201);
    let heard = serving.hear(&mia, "0", "\"release\":\"taxi-duration\"");
    let told = heard.lines().rev().find_map(|line| line.strip_prefix("data: ")).expect("an event");
    let told: serde_json::Value = serde_json::from_str(told).expect("JSON");
    let made = second_of_day(told["time"].as_str().expect("a time"));
    // Inside it is there at once, by every door.
    assert_eq!(serving.get("/v1/releases/taxi-duration", &mia).status, 200);
    let (began, mut held_back) = (Instant::now(), 0);
    let doors = [
        "/v1/releases/taxi-duration",
        "/v1/releases/taxi-duration/1/files/MLmodel",
        "/v2/models/taxi-duration/ready",
        "/releases/taxi-duration/1",
        "/api/2.0/mlflow/registered-models/get?name=taxi-duration",
    ];
    for (turn, door) in doors.iter().cycle().enumerate() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is never shown");
        let who = if turn % 2 == 0 { &carl } else { &zoe };
        let shown = serving.get(door, who).status == 200;
        let lists = serving.get("/v1/releases", who).body.contains("taxi-duration");
        let boundary = now() / TICK_SECONDS * TICK_SECONDS;
        // The tick is a divisor of no day, but its boundaries are compared within one.
        let over = boundary % 86_400 > made || boundary % 86_400 + 43_200 < made;
        assert!(over || !(shown || lists), "{door} shows it at {boundary} though it was made at {made}");
        if shown && lists {
            break;
        }
        held_back += usize::from(!shown);
        std::thread::sleep(Duration::from_millis(50));
    }
    // Listeners outside hear of it no sooner, and without a time.
    let heard = serving.hear(&carl, "0", "event: released");
    assert!(now() / TICK_SECONDS * TICK_SECONDS % 86_400 != made && !heard.contains("\"time\""), "{heard}");
    println!("held back {held_back} times");
}
