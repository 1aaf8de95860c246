//! Texts that nobody can list in advance: hashed at ingest, hashed into features, and hashed again in a prediction
//! request, so that a model learns from them and serves them.

use std::fmt::Write as _;

use sage_engine::adapt::Outcome;
use sage_engine::serve::RowReader;
use sage_engine::{BlockSelection, Epsilon, QueryRequest, Spend};

use crate::city::{frugal, principal};
use crate::loops::describe;
use crate::teams::with_rows;

const STREAM: &str = r#"
[stream]
name = "clicks"
unit = "event"
time = "at"
blocks = { time = "1d" }

[policy]
epsilon = "16"
delta = "1e-6"
filter = "renyi"

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]
ml-engineer = ["mia"]

[[columns]]
name = "at"
type = "time"

[[columns]]
name = "site"
type = "hashed"
nullable = true

[[columns]]
name = "price"
type = "number"
min = 0.0
max = 1.0
"#;

const PIPELINE: &str = r#"
[pipeline]
name = "price"
stream = "clicks"
label = "price"
features = [{ column = "site", hash = 64 }]
[train]
kind = "ridge"
[validate]
metric = "mse"
target = 0.02
bound = 1.0
[budget]
epsilon0 = "2"
[adapt]
attempts = 1
"#;

#[test]
fn a_model_learns_from_texts_that_are_not_listed() {
    let mut lines = "at,site,price\n".to_owned();
    for row in 0..20_000 {
        // Clicks on the first site cost 0.9, on the others 0.1, and without a site 0.5.
        let (site, price) = match row % 4 {
            0 => ("05db9164".to_owned(), 0.9),
            1 => (String::new(), 0.5),
            _ => (format!("68fd1e6{}", row % 7), 0.1),
        };
        let _ = writeln!(lines, "2026-01-01T12:00:00Z,{site},{price}");
    }
    let folder = tempfile::tempdir().expect("a directory");
    let engine = with_rows(folder.path(), STREAM, "clicks", &lines);
    let run = engine.submit_at(&principal("mia"), &frugal(PIPELINE), 0).expect("a run");
    engine.work(1).expect("no error");
    let run = engine.run(run).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));

    let predictor = engine.predictor(&engine.release_named("price").expect("released")).expect("a model");
    let rows = "{\"site\": \"05db9164\"}\n{\"site\": null}\n{\"site\": \"68fd1e63\"}\n";
    let mut reader = RowReader::new(predictor.columns(), rows.as_bytes(), None).expect("rows");
    let predictions = predictor.rows(&reader.take_rows(10).expect("three rows")).expect("predictions");
    for (prediction, price) in predictions.iter().zip([0.9, 0.5, 0.1]) {
        assert!((prediction - price).abs() < 0.1, "{predictions:?}");
    }
    assert_eq!(predictions.len(), 3);
}

/// Hashes are not numbers that mean something, so neither queries nor labels use them as such.
#[test]
fn hashes_are_neither_labels_nor_group_keys() {
    let folder = tempfile::tempdir().expect("a directory");
    let engine = with_rows(folder.path(), STREAM, "clicks", "at,site,price\n2026-01-01T12:00:00Z,a,1\n");
    let refused =
        engine.submit_at(&principal("mia"), &frugal(&PIPELINE.replace("label = \"price\"", "label = \"site\"")), 0);
    assert!(refused.expect_err("refused").to_string().contains("label"));
    for (sql, why) in [
        ("SELECT site, count(*) FROM clicks GROUP BY site", "private"),
        ("SELECT sum(site) FROM clicks", "not a number"),
    ] {
        let spend = Spend::Epsilon(Epsilon::cost("1").expect("an epsilon"));
        let (key, stream, sql) = ("one".to_owned(), "clicks".to_owned(), sql.to_owned());
        let request = QueryRequest { key, stream, context: None, sql, spend, which: BlockSelection::All };
        let refused = engine.query(&principal("mia"), &request).expect_err("refused").to_string();
        assert!(refused.contains(why), "{refused}");
    }
}
