//! Filtering and exporting the log, only of streams that the caller may see.

use serde_json::Value;

use crate::http::{Reply, Serving};
use crate::server::{SMALL, busy_workdir, token};

fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// The rows of the table of events on a page.
fn rows(page: &str) -> usize {
    let table = page.split("<tbody>").nth(1).and_then(|rest| rest.split("</tbody>").next()).expect("a table");
    table.matches("<tr>").count()
}

#[test]
fn events_are_filtered_and_exported() {
    let (workdir, _, tokens) = busy_workdir();
    let (mia, olga) = (&tokens["mia"], &tokens["olga"]);
    let serving = Serving::start(&workdir);
    let all = lines(&serving.get("/v1/log", mia));
    let length = workdir.good("audit log --json").lines().count();
    assert_eq!(all.len(), length, "a member of the only stream sees every event");
    let numbers: Vec<u64> = all.iter().filter_map(|event| event["number"].as_u64()).collect();
    assert_eq!(numbers, (0..length as u64).collect::<Vec<u64>>());
    let kinds = |kind: &str| all.iter().filter(|event| event["kind"] == kind).count();
    assert!(kinds("released") == 1 && kinds("charged") >= 1 && kinds("run-submitted") == 1, "{all:?}");
    let released = lines(&serving.get("/v1/log?kind=released&by=mia&stream=taxi", olga));
    assert_eq!(released.len(), 1);
    assert_eq!((&released[0]["release"], &released[0]["by"]), (&"taxi-duration".into(), &serde_json::json!(["mia"])));
    for (query, expected) in [
        (
            "by=ada",
            all.iter().filter(|event| event["by"].as_array().is_some_and(|by| by.contains(&"ada".into()))).count(),
        ),
        ("by=nobody", 0),
        ("stream=nowhere", 0),
        ("since=2999-01-01", 0),
        ("until=2020-01-01", 0),
        ("since=2020-01-01&until=2999-01-01&kind=&by=", length),
        ("kind=charged", kinds("charged")),
        ("from=3", length - 3),
        ("from=99999999", 0),
    ] {
        assert_eq!(lines(&serving.get(&format!("/v1/log?{query}"), mia)).len(), expected, "{query}");
    }
    // The same on the page, with a form and download links.
    let page = serving.get("/audit?kind=released&by=mia", mia);
    assert_eq!((page.status, rows(&page.body)), (200, 1), "{}", page.body);
    for part in [
        "<form method=\"get\" action=\"/audit\">",
        "<option value=\"released\" selected>",
        "name=\"by\" value=\"mia\"",
        "href=\"/v1/log?from=0&amp;kind=released&amp;by=mia\" download",
    ] {
        assert!(page.body.contains(part), "{part} is missing in\n{}", page.body);
    }
    let none = serving.get("/audit?since=2999-01-01", mia).body;
    assert!(rows(&none) == 0 && none.contains("No event from"), "{none}");
    let older = serving.get("/audit?before=4&stream=taxi", mia).body;
    assert!(rows(&older) <= 4 && older.contains("newest events") && !older.contains("older events"), "{older}");
    // The command line has the same filters.
    assert_eq!(workdir.good("audit log --kind released --by mia --until 2999-01-01").lines().count(), 1);
    workdir.fails("audit log --kind relesed", 2, "did you mean released?");
    for query in ["kind=relesed", "since=yesterday", "until=%3Cb%3E", "from=-1", "from=x"] {
        assert_eq!(serving.get(&format!("/v1/log?{query}"), mia).status, 400, "{query}");
    }
    let wrong = serving.get("/audit?kind=%3Cb%3E", mia);
    assert!(wrong.status == 400 && !wrong.body.contains("<b>"), "{}", wrong.body);
}

#[test]
fn the_log_of_a_stream_needs_a_role_on_it() {
    let (workdir, _, tokens) = busy_workdir();
    let zoe = token(&workdir, "zoe");
    let serving = Serving::start(&workdir);
    let small = SMALL.replace("\"mia\"", "\"zoe\"");
    assert_eq!(serving.with_token("POST", "/v1/streams", &tokens["ada"], &small).status, 201);
    for query in ["", "?stream=taxi", "?by=mia", "?kind=charged", "?from=2"] {
        let reply = serving.get(&format!("/v1/log{query}"), &zoe);
        let seen = lines(&reply);
        assert!(seen.iter().all(|event| event["stream"] == "small" || event["stream"].is_null()), "{query}: {seen:?}");
        assert!(!reply.body.contains("taxi") && !reply.body.contains("mia"), "{query}: {}", reply.body);
        let page = serving.get(&format!("/audit{}", query.replace("from", "before")), &zoe).body;
        assert!(!page.contains("<td>mia") && !page.contains(">taxi<"), "{query}: {page}");
    }
    assert!(!lines(&serving.get("/v1/log?stream=small", &zoe)).is_empty());
    assert_eq!(serving.get("/v1/log", &tokens["carl"]).status, 403);
    assert_eq!(serving.get("/v1/log", "").status, 401);
}
