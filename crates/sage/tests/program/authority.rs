//! Officers at the command line and over HTTP, the census, and what an auditor finds in a directory.

use serde_json::{Value, json};

use crate::http::Serving;
use crate::keeping::{STREAM, audited, rows, small_workdir};
use crate::server::token;
use crate::workdir::Workdir;

/// The small stream with two officers.
fn with_two_officers() -> Workdir {
    let workdir = Workdir::new();
    std::fs::write(workdir.path("rides.toml"), STREAM.replace("[\"ada\"]", "[\"ada\", \"bob\"]")).expect("a file");
    std::fs::write(workdir.path("rides.csv"), rows(0)).expect("a file");
    workdir.good("stream create rides.toml --as ada");
    workdir.good("ingest rides rides.csv --as dan");
    workdir.good("blocks rides --do seal --before 2026-03-01 --as dan");
    workdir
}

/// Regression: an officer approved the last proposal without having seen it.
#[test]
fn a_proposal_is_shown_and_approved_by_its_digest() {
    let workdir = with_two_officers();
    workdir.variant("rides.toml", "looser.toml", &[("epsilon = \"10\"", "epsilon = \"12\"")]);
    assert!(workdir.good("stream change looser.toml --as ada").contains("waits for another officer"));
    let shown = workdir.good("stream approve rides --as bob");
    assert!(shown.contains("- epsilon = \"10\"\n+ epsilon = \"12\"\n"), "{shown}");
    let digest = shown.split("--digest ").nth(1).expect("a digest").trim().to_owned();
    workdir.variant("rides.toml", "loosest.toml", &[("epsilon = \"10\"", "epsilon = \"16\"")]);
    workdir.good("stream change loosest.toml --as ada");
    workdir.fails(&format!("stream approve rides --digest {digest} --as bob"), 1, "another digest");
    let shown = workdir.good("stream approve rides --as bob");
    let digest = shown.split("--digest ").nth(1).expect("a digest").trim().to_owned();
    workdir.fails(&format!("stream approve rides --digest {digest} --as ada"), 1, "another officer must propose");
    assert_eq!(workdir.json("stream show rides")["policy_proposal"]["digest"], json!(digest));
    assert_eq!(workdir.good(&format!("stream approve rides --digest {digest} --as bob")), "in force\n");
    workdir.fails("stream approve rides --as bob", 1, "another officer must propose");
    let line = workdir.good("audit log --kind policy-proposed --last 1 --json");
    let event: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!((&event["digest"], &event["by"]), (&json!(digest), &json!(["ada"])));
    assert!(event["file"].as_str().expect("the text").contains("epsilon = \"16\""));
    assert!(workdir.good("audit log --kind policy-proposed").contains(&digest));
}

#[test]
fn officers_approve_suspend_and_stop_over_http() {
    let workdir = with_two_officers();
    let [ada, bob, mia, dan] = ["ada", "bob", "mia", "dan"].map(|name| token(&workdir, name));
    let serving = Serving::start(&workdir);
    let looser = std::fs::read_to_string(workdir.path("rides.toml")).expect("a file").replace("\"10\"", "\"12\"");
    serving.good("POST", "/v1/streams/rides/policy", &ada, &looser);
    let digest = serving.good("GET", "/v1/streams/rides", &bob, "")["policy_proposal"]["digest"].clone();
    let page = serving.get("/streams/rides", &bob).body;
    assert!(page.contains(digest.as_str().expect("a digest")) && page.contains("+ epsilon = "), "{page}");
    let approve = |token: &str, digest: &Value| {
        serving.with_token("POST", "/v1/streams/rides/approve", token, &json!({"digest": digest}).to_string()).status
    };
    assert_eq!((approve(&mia, &digest), approve(&ada, &digest), approve(&bob, &json!("00"))), (403, 409, 409));
    assert_eq!(approve(&bob, &digest), 200);

    let count = "[pipeline]\nname = \"count\"\nstream = \"rides\"\nwindow = { min = 9 }\n[train]\nkind = \"statistic\"\nstatistic = \"count\"\n";
    let run = serving.good("POST", "/v1/runs", &mia, count)["run"].clone();
    let cancel = format!("/v1/runs/{run}/cancel");
    assert_eq!(serving.with_token("POST", &cancel, &dan, "").status, 403);
    assert_eq!(serving.with_token("POST", &cancel, &bob, "").status, 200, "an officer stops a run");
    let members = |token: &str, body: Value| {
        serving.with_token("POST", "/v1/streams/rides/members", token, &body.to_string()).status
    };
    let suspend = json!({"do": "suspend", "member": "mia", "reason": "left"});
    assert_eq!(members(&mia, suspend.clone()), 403);
    assert_eq!((members(&ada, suspend.clone()), members(&ada, suspend)), (200, 409));
    assert_eq!(serving.with_token("POST", "/v1/runs", &mia, count).status, 403);
    assert_eq!(members(&ada, json!({"do": "reinstate", "member": "mia"})), 200);
    assert_eq!(serving.with_token("POST", "/v1/runs", &mia, count).status, 201);
}

/// Regression: the census had no command, no route and no page, and blocks of users could not be sealed by time.
#[test]
fn the_census_of_users_can_be_read_and_user_blocks_seal_like_others() {
    let workdir = Workdir::new();
    let shop = STREAM.replace("name = \"rides\"", "name = \"shop\"").replace(
        "blocks = { time = \"1d\" }",
        "blocks = { user_range = 300 }\ncensus = { epsilon = \"2\", horizon = 4 }",
    );
    std::fs::write(workdir.path("shop.toml"), shop).expect("a file");
    std::fs::write(workdir.path("rides.csv"), rows(0)).expect("a file");
    workdir.good("stream create shop.toml --as ada");
    workdir.good("ingest shop rides.csv --as dan");
    assert!(workdir.good("census shop").contains("none yet"));
    assert!(workdir.good("blocks shop --do seal --before 2020-01-01 --as dan").contains("no block"), "rows came later");
    workdir.good("blocks shop --do seal --before 2100-01-01 --as dan");
    let blocks = workdir.json("blocks shop");
    assert!(blocks.as_array().expect("blocks").iter().all(|block| block["state"] == "sealed"), "{blocks}");
    let census = workdir.json("census shop");
    let estimate = census["estimate"].as_i64().expect("a number");
    assert!((400..=800).contains(&estimate), "600 users, noise of scale 3/2: {census}");
    assert!(census["at_least"].as_i64().expect("a number") <= estimate && census["unit"] == "all rows of one user");
    assert!(!census["counts"].as_array().expect("counts").is_empty());
    assert!(workdir.good("census shop").contains(&format!("about {estimate}")));
    workdir.fails("census nowhere", 14, "no stream");
    let [mia, eve] = ["mia", "eve"].map(|name| token(&workdir, name));
    let serving = Serving::start(&workdir);
    assert_eq!(serving.good("GET", "/v1/streams/shop/census", &mia, ""), census);
    assert_eq!(serving.get("/v1/streams/shop/census", &eve).status, 403, "not for users without a role");
    assert!(serving.get("/streams/shop", &mia).body.contains(&format!("About {estimate} in all sealed blocks")));
    drop(serving);
    assert!(workdir.good("blocks shop --do retire --before 2100-01-01 --as ada").contains("done"));
}

/// Regression: altered weights, a missing model file, a changed feature table and a smuggled release passed.
#[test]
fn the_independent_auditor_looks_at_the_files_of_releases() {
    let workdir = small_workdir();
    let count =
        "[pipeline]\nname = \"count\"\nstream = \"rides\"\n[train]\nkind = \"statistic\"\nstatistic = \"count\"\n";
    std::fs::write(workdir.path("count.toml"), count).expect("a file");
    workdir.good("submit count.toml --wait --as mia");
    let directory = workdir.path("sage-data");
    let (agreed, said) = audited(&directory);
    assert!(agreed && said.contains("1 releases") && said.contains("no exported head was given"), "{said}");
    let release = workdir.json("models list")[0]["digest"].as_str().expect("a digest").to_owned();
    let folder = directory.join("releases").join(&release);
    let found = |what: &str| {
        let (agreed, said) = audited(&directory);
        assert!(!agreed && said.contains(what), "{what}: {said}");
    };
    for name in ["statistic.json", "statistic.parquet", "receipt.json"] {
        let (file, mut bytes) = (folder.join(name), std::fs::read(folder.join(name)).expect("a file"));
        let whole = bytes.clone();
        bytes[20] ^= 1;
        std::fs::write(&file, &bytes).expect("altered");
        found("its files are not those that were released");
        std::fs::remove_file(&file).expect("removed");
        found("its files are not those that were released");
        std::fs::write(&file, &whole).expect("put back");
        assert!(audited(&directory).0);
    }
    let smuggled = directory.join("releases").join("ab".repeat(32));
    std::fs::create_dir(&smuggled).expect("a folder");
    std::fs::write(smuggled.join("model.onnx"), "a model").expect("a file");
    found("no event of the log released it");
    std::fs::remove_dir_all(&smuggled).expect("removed");
    let part = directory.join("blocks/rides/day=2026-02-01");
    let part = part.read_dir().expect("a folder").next().expect("a part").expect("an entry").path();
    let mut bytes = std::fs::read(&part).expect("a part");
    bytes[30] ^= 1;
    std::fs::write(&part, &bytes).expect("altered");
    found("is not the file that was ingested");
}

/// A user who can write the directory can rewrite the log with a new hash chain; only a head elsewhere detects it.
#[test]
fn the_doctor_says_when_no_head_was_ever_exported() {
    let workdir = small_workdir();
    assert!(workdir.good("doctor").contains("no head of this log was ever exported"));
    assert_eq!(workdir.json("doctor")["head_exported"], false);
    workdir.good("query rides 'SELECT count(*)' --all --epsilon 1 --as mia --plan --heads head");
    assert!(!workdir.good("doctor").contains("exported"));
    assert_eq!(workdir.json("doctor")["head_exported"], true);
}
