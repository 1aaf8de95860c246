//! The real program on neighbouring streams: two directories whose rows differ in one, the same commands on both, and
//! everything that a user, a listener or a reader of the directory sees compared: exit codes and statuses, text and
//! JSON on both output streams, log events with their order and contents, files with their sizes.
//!
//! What is random by design is masked in [`normal`] and nowhere else. [`planted`] makes one change at a time in real
//! observations and shows that each is detected.

mod normal;
mod planted;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::http::Serving;
use crate::server::token;
use crate::workdir::Workdir;

/// The result of a command or a request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reply {
    what: String,
    code: i32,
    out: String,
    err: String,
}

/// Everything that was observed of one side, in order.
#[derive(Clone, Debug, Default)]
struct Seen {
    replies: Vec<Reply>,
    /// The events of the log as they are listed. What is in them is compared by the engine's own harness.
    events: Vec<String>,
    /// The files of the directory and their sizes.
    files: Vec<(String, u64)>,
}

const STREAM: &str = r#"
[stream]
name = "people"
unit = "event"
time = "t"
blocks = { time = "1d" }
test_share = 0.3

[policy]
epsilon = "32"
delta = "1e-6"
filter = "basic"
access_modes = ["enforced", "attested"]

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]
ml-engineer = ["mia"]

[[columns]]
name = "t"
type = "time"

[[columns]]
name = "x"
type = "number"
min = 0.0
max = 1.0

[[columns]]
name = "y"
type = "number"
min = 0.0
max = 1.0

[[columns]]
name = "name"
type = "text"
"#;

/// The row that is in one stream and not in the other.
const BOB: &str = "2020-01-01T12:00:00Z,1,0,Bob\n";

fn rows(count: usize) -> String {
    let row = |number: usize| {
        let share = (number % 100) as f64 / 100.0;
        let name = ["Ann", "Cid", "Eve"][number % 3];
        format!("2020-01-01T{:02}:{:02}:00Z,{share},{share},{name}\n", number / 60 % 24, number % 60)
    };
    (0..count).map(row).collect()
}

const PIPELINES: &[(&str, &str)] = &[
    ("count", "[budget]\nepsilon0 = \"0.5\"\n[train]\nkind = \"statistic\"\nstatistic = \"count\"\n"),
    (
        "means",
        "[budget]\nepsilon0 = \"1\"\n[train]\nkind = \"statistic\"\nstatistic = \"group_mean\"\nof = \"y\"\n\
         by = \"CASE WHEN x > 0.5 THEN 1 ELSE 0 END\"\nkeys = 2\nbounds = [0, 1]\n",
    ),
    (
        "line",
        "label = \"y\"\nfeatures = [{ column = \"x\", scale = [0, 1] }]\n[budget]\nepsilon0 = \"2\"\n[train]\n\
         kind = \"ridge\"\n[validate]\nmetric = \"mse\"\ntarget = 0.9\nbound = 1.0\n",
    ),
    (
        "hopeless",
        "label = { sql = \"CASE WHEN name = 'Ann' THEN 1 ELSE 0 END\", bounds = [0, 1] }\n\
         features = [{ column = \"x\", scale = [0, 1] }]\n[budget]\nepsilon0 = \"2\"\nepsilon_max = \"2\"\n[train]\n\
         kind = \"ridge\"\n[validate]\nmetric = \"mse\"\ntarget = 0.001\nbound = 1.0\n[adapt]\nstrategy = \"frugal\"\nattempts = 1\n",
    ),
    // Bob alone divides by zero.
    (
        "gated",
        "filter = \"name <> 'Bob' OR CAST(name AS INT) / 0 > 0 OR x = 1\"\nlabel = { truth = \"name = 'Ann'\" }\n\
         features = [{ sql = \"CASE WHEN x = 1 THEN 1 / (x - x) ELSE x END\", name = \"f\", scale = [0, 1], \
         missing = \"indicator\" }]\n[budget]\nepsilon0 = \"2\"\n[train]\nkind = \"logistic\"\nrows = 2000\n\
         batch = 64\nepochs = 1\n[validate]\nmetric = \"accuracy\"\ntarget = 0.05\n",
    ),
];

const QUERIES: &[&str] = &[
    "'SELECT count(*), sum(x), avg(y)' --all --epsilon 0.5",
    "'SELECT count(*), variance(x), stddev(x), median(x), quantile(y, 0.9)' --last 1 --epsilon 3",
    "'SELECT x > 0.5 AS half, count(*), avg(y) GROUP BY half' --all --epsilon 1",
    "'SELECT count(*) WHERE name <> \"Bob\" OR CAST(name AS INT) / 0 > 0' --all --epsilon 0.25",
    "'SELECT count(*) WHERE CASE WHEN name LIKE \"B%\" THEN sqrt(0 - x) > 1 ELSE TRUE END' --all --epsilon 0.25",
    "'SELECT count(*) WHERE date_part(\"foo\", t) > 1' --all --epsilon 0.25",
    "'SELECT max(x)' --all --epsilon 0.25",
    "'SELECT count(*)' --all --epsilon 5000",
    "'SELECT count(*)' --block day=2020-01-07 --epsilon 0.25",
];

/// Commands that change nothing.
const LOOKS: &[&str] = &[
    "stream show people",
    "blocks people",
    "budget people",
    "budget people --for line.toml --as mia",
    "plan line.toml --as mia",
    "plan hopeless.toml --as max",
    "census people",
    "quarantine people --as dan",
    "runs",
    "runs --stream people",
    "explain 1",
    "explain 3",
    "explain 5",
    "explain 7",
    "explain 99",
    "logs 1 --as mia",
    "logs 7 --as mia",
    "watch 1",
    "watch 7",
    "cancel 1 --as mia",
    "models list",
    "models show count",
    "models show means",
    "models show line",
    "features list",
    "features get count",
    "features get means",
    "features get means 1",
    "predict line --columns",
    "predict line features.csv",
    "models alias line champion --as mia",
    "audit log",
    "audit verify",
    "doctor",
    "migrate",
];

/// Pages for browsers.
const PAGES: &[&str] = &[
    "/",
    "/streams/people",
    "/streams/people?after=0",
    "/streams/people/blocks/day%3D2020-01-01",
    "/streams/people/blocks/day%3D2020-01-07",
    "/runs",
    "/runs/1",
    "/runs/2",
    "/runs/3",
    "/runs/4",
    "/releases",
    "/releases/count/1",
    "/releases/line/1",
    "/audit",
    "/simulate?blocks=10&rate=1",
];

struct Side {
    workdir: Workdir,
}

impl Side {
    fn new(with_row: bool) -> Self {
        let workdir = Workdir::new();
        let file = |name: &str, text: &str| std::fs::write(workdir.path(name), text).expect("a file");
        file("people.toml", STREAM);
        let more = if with_row { BOB } else { "" };
        file("rows.csv", &format!("t,x,y,name\n{}{more}", rows(3_000)));
        file("features.csv", "x\n0.25\n0.75\n");
        for (name, rest) in PIPELINES {
            file(&format!("{name}.toml"), &format!("[pipeline]\nname = \"{name}\"\nstream = \"people\"\n{rest}"));
        }
        workdir.good("stream create people.toml --as ada");
        workdir.good("ingest people rows.csv --as dan");
        workdir.good("blocks people --do seal --before 2021-01-01 --as dan");
        Self { workdir }
    }

    fn command(&self, line: &str) -> Reply {
        // Double quotes stand for those of SQL within the words of a command line.
        let arguments: Vec<String> = line
            .split('\'')
            .enumerate()
            .flat_map(|(index, piece)| match index % 2 {
                0 => piece.split_whitespace().map(str::to_owned).collect(),
                _ => vec![piece.replace('"', "'")],
            })
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output =
            self.workdir.command(&arguments).stdin(std::process::Stdio::null()).output().expect("the program runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let code = output.status.code().expect("an exit code");
        Reply { what: line.to_owned(), code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// The log and the files as they are now.
    fn store(&self, seen: &mut Seen) {
        let directory = self.workdir.path("sage-data");
        seen.events = self.workdir.good("audit log --json").lines().map(str::to_owned).collect();
        list(&directory, &directory, &mut seen.files);
        seen.files.sort_unstable();
    }
}

fn list(top: &Path, folder: &Path, files: &mut Vec<(String, u64)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => list(top, &path, files),
            false => {
                let name = path.strip_prefix(top).expect("below").to_string_lossy().into_owned();
                files.push((normal::tokens(&name), path.metadata().map_or(0, |file| file.len())));
            }
        }
    }
}

/// How far the sizes of a file may differ: not at all, unless rows or noisy numbers are in it.
fn slack(name: &str, size: u64) -> u64 {
    match name {
        // Rows themselves, and their number: files of the data's owner, which no user of the stream sees.
        _ if name.starts_with("blocks/") => u64::MAX,
        // Pages of noisy numbers in decimal digits.
        _ if name.starts_with("log.db") => (1 << 16) + size / 4,
        // Noisy numbers in decimal digits.
        _ if name.ends_with(".json") || name.ends_with(".md") || name.ends_with(".parquet") => 256,
        _ => 0,
    }
}

/// How two sides differ; `None` if they do not. The rules that were used are added to `used`.
fn difference(one: &Seen, two: &Seen, used: &mut BTreeSet<String>) -> Option<String> {
    for (left, right) in one.replies.iter().zip(&two.replies) {
        let (left, right) = (normal::reply(left, used), normal::reply(right, used));
        if left != right {
            return Some(format!("{left:#?}\n{right:#?}"));
        }
    }
    if one.replies.len() != two.replies.len() {
        return Some("one more reply".to_owned());
    }
    let events = |seen: &Seen| seen.events.iter().map(|event| normal::tokens(event)).collect::<Vec<String>>();
    let (left, right) = (events(one), events(two));
    if left != right {
        let first = left.iter().zip(&right).find(|(left, right)| left != right);
        return Some(format!("{} and {} events, first {first:?}", left.len(), right.len()));
    }
    let names = |seen: &Seen| seen.files.iter().map(|(name, _)| name.clone()).collect::<Vec<String>>();
    let (left, right) = (names(one), names(two));
    if left != right {
        let first = left.iter().zip(&right).find(|(left, right)| left != right);
        return Some(format!("{} and {} files, first {first:?}", left.len(), right.len()));
    }
    let mut sizes = one.files.iter().zip(&two.files);
    let other = sizes.find(|((name, left), (_, right))| left.abs_diff(*right) > slack(name, *left));
    other.map(|(left, right)| format!("the size of a file: {left:?} and {right:?}"))
}

/// Runs every command, as text and as JSON.
fn commands(side: &Side) -> Seen {
    let mut seen = Seen::default();
    let mut lines = Vec::new();
    for (name, _) in PIPELINES {
        lines.push(format!("submit {name}.toml --wait --as mia"));
        lines.push(format!("submit {name}.toml --as mia --json"));
        lines.push("work".to_owned());
    }
    for (index, query) in QUERIES.iter().enumerate() {
        lines.push(format!("query people {query} --plan --as mia"));
        lines.push(format!("query people {query} --plan --as mia --json"));
        lines.push(format!("query people {query} --as mia --key t{index}"));
        lines.push(format!("query people {query} --as mia --key j{index} --json"));
        lines.push(format!("query people {query} --as mia --key t{index}"));
    }
    for look in LOOKS {
        lines.push((*look).to_owned());
        lines.push(format!("{look} --json"));
    }
    seen.replies = lines.iter().map(|line| side.command(line)).collect();
    side.store(&mut seen);
    seen
}

#[test]
fn commands_on_neighbours_look_alike() {
    let [one, two] = [false, true].map(|with_row| commands(&Side::new(with_row)));
    let mut used = BTreeSet::new();
    assert_eq!(difference(&one, &two, &mut used), None, "a row shows");
    // What is compared is what was meant: of each kind of end there is one.
    for code in [0, 1, 2, 11, 12, 13, 14] {
        assert!(one.replies.iter().any(|reply| reply.code == code), "no command ends with {code}");
    }
    let unused: Vec<String> = normal::rules().difference(&used).cloned().collect();
    assert!(unused.is_empty(), "rules that nothing needs: {unused:?}");
    planted::every_planted_leak_is_found(&one);
}

/// The server's own view: every route that the description has, and a query and a run over the wire.
fn requests(side: &Side) -> Seen {
    let mut seen = Seen::default();
    let [mia, carl] = ["mia", "carl"].map(|name| token(&side.workdir, name));
    side.command("submit count.toml --wait --as mia");
    side.command("submit line.toml --wait --as mia");
    let serving = Serving::start(&side.workdir);
    let mut ask = |verb: &str, path: &str, token: &str, body: &str| {
        let reply = serving.with_token(verb, path, token, body);
        let mut head: Vec<&str> = reply.head.lines().skip(1).collect();
        // The length of a body is that of its noisy numbers, and the date is the clock's.
        head.retain(|line| !line.starts_with("content-length") && !line.starts_with("date"));
        seen.replies.push(Reply {
            what: format!("{verb} {path}"),
            code: i32::from(reply.status),
            out: reply.body.clone(),
            err: head.join("\n"),
        });
    };
    for (index, sql) in
        ["SELECT count(*), avg(x)", "SELECT count(*) WHERE name = 'Bob'", "SELECT min(x)"].iter().enumerate()
    {
        for plan in [true, false] {
            let body = json!({"sql": sql, "epsilon": "1", "all": true, "plan": plan}).to_string();
            ask("POST", "/v1/streams/people/query", &mia, &body);
        }
        ask("POST", "/v1/streams/people/query", &carl, &json!({"sql": sql, "epsilon": index}).to_string());
    }
    let pipeline = std::fs::read_to_string(side.workdir.path("hopeless.toml")).expect("a pipeline");
    ask("POST", "/v1/plan", &mia, &pipeline);
    // How far the worker already is when this is answered is a race between two threads; the end of the run is compared.
    serving.good("POST", "/v1/runs", &mia, &pipeline);
    serving.wait_for("/v1/runs/3", &mia, |run| run["over"] == true);
    for path in [
        "/v1/streams",
        "/v1/streams/people",
        "/v1/streams/people/blocks",
        "/v1/streams/people/census",
        "/v1/runs",
        "/v1/runs/1",
        "/v1/runs/2",
        "/v1/runs/3",
        "/v1/runs/4",
        "/v1/releases",
        "/v1/releases/count/1",
        "/v1/releases/line/1",
        "/v1/log",
    ] {
        ask("GET", path, &mia, "");
        ask("GET", path, &carl, "");
    }
    for path in PAGES {
        ask("GET", path, &mia, "");
        ask("GET", path, &carl, "");
    }
    serving.stop();
    side.store(&mut seen);
    seen
}

#[test]
fn requests_on_neighbours_look_alike() {
    let [one, two] = [false, true].map(|with_row| requests(&Side::new(with_row)));
    assert_eq!(difference(&one, &two, &mut BTreeSet::new()), None, "a row shows");
    let statuses: BTreeSet<i32> = one.replies.iter().map(|reply| reply.code).collect();
    assert!(statuses.is_superset(&BTreeSet::from([200, 403, 404, 422])), "{statuses:?}");
    for reply in &one.replies {
        let page = PAGES.iter().any(|page| reply.what == format!("GET {page}"));
        match page {
            true => assert!(reply.out.starts_with("<!doctype html>"), "{reply:?}"),
            false => {
                assert!(serde_json::from_str::<Value>(&reply.out).is_ok() || reply.what.contains("log"), "{reply:?}")
            }
        }
    }
    planted::every_planted_leak_in_a_page_is_found(&one);
}
