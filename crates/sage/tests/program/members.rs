//! Contexts and their members, at the command line and over HTTP.

use serde_json::json;

use crate::http::Serving;
use crate::server::{SMALL, token};
use crate::workdir::Workdir;

const CONTEXTS: &str = r#"access_modes = ["enforced", "attested"]

[[policy.contexts]]
name = "north"
members = ["mia"]
epsilon = "1"
delta = "1e-6"

[[policy.contexts]]
name = "south"
members = ["max"]
epsilon = "1"
delta = "1e-6"
"#;

/// The small stream with two contexts; with these changes of its text.
fn file(changes: &[(&str, &str)]) -> String {
    let (before, rest) = SMALL.split_once("epsilon = ").expect("a policy");
    let (_, after) = rest.split_once("[access]").expect("access");
    let after = after.replace("[\"mia\"]", "[\"mia\", \"max\", \"eve\"]");
    let mut text = format!("{before}{CONTEXTS}\n[access]{after}");
    for (from, to) in changes {
        assert!(text.contains(from), "{from:?}");
        text = text.replacen(from, to, 1);
    }
    text
}

const COUNT: &str =
    "[pipeline]\nname = \"count\"\nstream = \"small\"\n[train]\nkind = \"statistic\"\nstatistic = \"count\"\n";

fn of_south() -> String {
    COUNT.replace("stream = \"small\"", "stream = \"small\"\ncontext = \"south\"")
}

#[test]
fn the_command_line_checks_membership_of_contexts() {
    let workdir = Workdir::new();
    let write = |name: &str, text: &str| std::fs::write(workdir.path(name), text).expect("a file");
    write("open.toml", &file(&[("members = [\"max\"]\n", "")]));
    workdir.fails("stream create open.toml --as ada", 1, "context \"south\" names no members");
    write("both.toml", &file(&[("members = [\"max\"]", "members = [\"max\", \"mia\"]")]));
    let message =
        workdir.fails("stream create both.toml --as ada", 1, "\"mia\" cannot be a member of context \"south\"");
    assert!(message.contains("[policy.joint]"), "{message}");
    write("slip.toml", &file(&[("members = [\"max\"]", "members = [\"maks\"]")]));
    workdir.fails("stream create slip.toml --as ada", 1, "`members` are ML engineers under [access]; \"maks\" is not");
    write("small.toml", &file(&[]));
    workdir.good("stream create small.toml --as ada");
    write("rows.csv", "at,x\n2026-01-01T00:10:00,0.5\n2026-01-01T00:20:00,0.25\n");
    workdir.good("ingest small rows.csv --as dan");
    workdir.good("blocks small --do seal --before 2026-03-01 --as dan");
    write("count.toml", COUNT);
    write("south.toml", &of_south());
    let query = "query small 'SELECT count(*)' --all --epsilon 0.1";
    for line in ["plan south.toml", "submit south.toml --wait", &format!("{query} --context south")] {
        let message = workdir.fails(&format!("{line} --as mia"), 13, "\"mia\" is not a member of context \"south\"");
        assert!(message.contains("nothing was charged"), "{message}");
    }
    for line in ["plan count.toml", "submit count.toml --wait", query] {
        workdir.fails(&format!("{line} --as eve"), 13, "\"eve\" is not a member of any context");
    }
    workdir.fails(&format!("{query} --context west --as mia"), 14, "no context \"west\"");
    assert_eq!(workdir.json("stream show small")["epsilon_spent"], "0", "nothing was charged");
    // A member of exactly one context does not have to name it.
    workdir.good(&format!("{query} --as mia"));
    workdir.good(&format!("{query} --context south --as max"));
    workdir.good("submit count.toml --wait --as max");
    assert!(workdir.good("stream show small --json").contains("members = [\\\"max\\\"]"), "the file is shown as it is");
    // A user who has left a context can no longer spend there.
    write(
        "later.toml",
        &COUNT.replace("name = \"count\"", "name = \"later\"").replace("[train]", "window = { min = 9 }\n[train]"),
    );
    workdir.good("submit later.toml --as mia");
    write("left.toml", &file(&[("members = [\"mia\"]", "members = [\"eve\"]")]));
    assert_eq!(workdir.good("stream change left.toml --as ada"), "in force\n");
    workdir.good("work");
    let why = workdir.good("explain 2");
    assert!(why.contains("no longer a member of the context") && why.contains(": no member"), "{why}");
    workdir.fails("watch 2", 13, "run 2 is no member");
}

#[test]
fn the_server_refuses_users_who_are_not_members() {
    let workdir = Workdir::new();
    let serving = Serving::start(&workdir);
    let ada = workdir.good("token create --as ada --role admin").trim().to_owned();
    let [dan, mia, max, eve] = ["dan", "mia", "max", "eve"].map(|name| token(&workdir, name));
    let open = serving.with_token("POST", "/v1/streams", &ada, &file(&[("members = [\"max\"]\n", "")]));
    assert_eq!(open.status, 409, "{}", open.body);
    assert_eq!(serving.with_token("POST", "/v1/streams", &ada, &file(&[])).status, 201);
    let rows = "at,x\n2026-01-01T00:10:00,0.5\n";
    assert_eq!(serving.with_token("POST", "/v1/streams/small/rows?batch=one", &dan, rows).status, 201);
    serving.good("POST", "/v1/streams/small/blocks", &dan, "{\"do\": \"seal\", \"before\": \"2027-01-01\"}");
    let block = serving.good("GET", "/v1/streams/small/blocks", &mia, "")["blocks"][0]["block"].clone();
    let charge = |context: serde_json::Value| {
        let mut request =
            json!({"key": "one", "blocks": [block], "purpose": "a histogram", "train": {"epsilon": "0.5"}});
        if !context.is_null() {
            request["context"] = context;
        }
        request.to_string()
    };
    let question = |context: serde_json::Value| {
        json!({"sql": "SELECT count(*)", "epsilon": "0.1", "all": true, "context": context}).to_string()
    };
    let request = |path: &str, who: &str, body: &str| {
        let authorization = format!("Bearer {who}");
        serving.ask("POST", path, &[("Authorization", &authorization), ("Idempotency-Key", who)], body.as_bytes())
    };
    let (charges, queries) = ("/v1/streams/small/charges", "/v1/streams/small/query");
    for (path, body) in [
        ("/v1/runs", of_south()),
        ("/v1/plan", of_south()),
        (charges, charge(json!("south"))),
        (queries, question(json!("south"))),
    ] {
        let refused = request(path, &mia, &body);
        assert_eq!(refused.status, 403, "{path}: {}", refused.body);
        assert!(refused.body.contains("is not a member of context"), "{path}: {}", refused.body);
    }
    for (path, body) in [
        ("/v1/runs", COUNT.to_owned()),
        (charges, charge(serde_json::Value::Null)),
        (queries, question(serde_json::Value::Null)),
    ] {
        assert_eq!(request(path, &eve, &body).status, 403, "{path}");
    }
    assert_eq!(serving.good("GET", "/v1/streams/small", &mia, "")["epsilon_spent"], "0", "nothing was charged");
    // Half of each ceiling, twice: contexts do not share their budgets.
    for who in [&mia, &max] {
        let charged = request(charges, who, &charge(serde_json::Value::Null));
        assert_eq!(charged.status, 201, "{}", charged.body);
        assert_eq!(request(queries, who, &question(serde_json::Value::Null)).status, 200);
    }
    assert_eq!(request("/v1/runs", &max, &of_south()).status, 201);
    // With a ceiling over both contexts she may be a member of both, and then has to name one.
    let joint = "[policy.joint]\nepsilon = \"1.5\"\ndelta = \"1e-6\"\n\n[access]";
    let shared = file(&[("members = [\"mia\"]\n", ""), ("members = [\"max\"]\n", ""), ("[access]", joint)]);
    let shared = shared.replace("name = \"small\"", "name = \"shared\"");
    assert_eq!(serving.with_token("POST", "/v1/streams", &ada, &shared).status, 201);
    let unnamed = request("/v1/runs", &mia, &COUNT.replace("small", "shared"));
    assert_eq!(unnamed.status, 422, "{}", unnamed.body);
    assert!(unnamed.body.contains("name one as `context`"), "{}", unnamed.body);
}
