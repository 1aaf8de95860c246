//! Missing values from a file to a release: nulls, NaN and infinities follow one rule in statistics, queries, training,
//! tests and predictions. Random tables are checked against a reference here, and against DuckDB where
//! `SAGE_DUCKDB_PYTHON` names a Python that has it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use sage_engine::adapt::Outcome;
use sage_engine::run::ReleasedStatistic;
use sage_engine::serve::Cell;
use sage_engine::{AttemptOutcome, BlockSelection, Engine, Epsilon, QueryRequest, RunView, Spend};
use tempfile::TempDir;

use crate::city::{frugal, principal};
use crate::loops::describe;
use crate::teams::with_rows;

const STREAM: &str = r#"
[stream]
name = "meters"
unit = "event"
time = "at"
blocks = { time = "1d" }

[policy]
epsilon = "1000"
delta = "1e-6"
filter = "FILTER"

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]
ml-engineer = ["mia"]

[[columns]]
name = "at"
type = "time"

[[columns]]
name = "x"
type = "number"
min = -4.0
max = 6.0
nullable = true

[[columns]]
name = "y"
type = "number"
min = 0.0
max = 2.0
nullable = true

[[columns]]
name = "k"
type = "category"
categories = ["a", "b", "c"]
nullable = true

[[columns]]
name = "z"
type = "number"
min = 0.0
max = 1.0
nullable = true

[[columns]]
name = "t"
type = "boolean"
nullable = true
"#;

const HEADER: &str = "at,x,y,k,z,t\n";

/// A sealed stream of one block with these lines, and its folder.
fn meters(filter: &str, lines: &str) -> (TempDir, Engine) {
    stream_of(&STREAM.replace("FILTER", filter), lines)
}

/// The same with a ceiling suitable for models: the price of vectors grows with e^ε_g.
fn meters_for_models(lines: &str) -> (TempDir, Engine) {
    stream_of(&STREAM.replace("FILTER", "renyi").replace("\"1000\"", "\"16\""), lines)
}

fn stream_of(file: &str, lines: &str) -> (TempDir, Engine) {
    let folder = tempfile::tempdir().expect("a directory");
    let engine = with_rows(folder.path(), file, "meters", &format!("{HEADER}{lines}"));
    (folder, engine)
}

/// The key of a pipeline file that names all blocks.
fn named_blocks(engine: &Engine) -> String {
    let blocks = engine.snapshot().expect("a snapshot").blocks("meters").expect("the stream");
    let keys: Vec<String> = blocks.iter().map(|block| format!("\"{}\"", block.key)).collect();
    format!("blocks = [{}]", keys.join(", "))
}

fn pipeline(name: &str, rest: &str) -> String {
    format!(
        "[pipeline]\nname = \"{name}\"\nstream = \"meters\"\n{rest}\n[budget]\nepsilon0 = \"20\"\n[adapt]\nattempts = 1\n"
    )
}

/// The same with the ε of a model.
fn model(name: &str, rest: &str) -> String {
    pipeline(name, rest).replace("epsilon0 = \"20\"", "epsilon0 = \"2\"")
}

fn statistic(name: &str, rest: &str) -> String {
    pipeline(name, &format!("[train]\nkind = \"statistic\"\n{rest}"))
}

fn ran(engine: &Engine, text: &str) -> RunView {
    let run = engine.submit_at(&principal("mia"), &frugal(text), 0).unwrap_or_else(|error| panic!("{error}: {text}"));
    engine.work(1).expect("no error");
    engine.run(run).expect("a run")
}

fn published(engine: &Engine, name: &str, rest: &str) -> ReleasedStatistic {
    let run = ran(engine, &statistic(name, rest));
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
    engine.statistic(&engine.release_named(name).expect("released")).expect("a table")
}

/// The results of a query, line by line.
fn query_cells(engine: &Engine, key: &str, sql: &str) -> BTreeMap<String, Vec<f64>> {
    let spend = Spend::Epsilon(Epsilon::cost("50").expect("an epsilon"));
    let (key, sql, stream) = (key.to_owned(), sql.to_owned(), "meters".to_owned());
    let request = QueryRequest { key, stream, context: None, sql, spend, which: BlockSelection::All };
    let table =
        engine.query(&principal("mia"), &request).unwrap_or_else(|error| panic!("{error}: {}", request.sql)).answer;
    let cells = |cells: &[sage_engine::query::Cell]| cells.iter().map(|cell| cell.value.unwrap_or(f64::NAN)).collect();
    table.lines.iter().map(|line| (line.keys.join(","), cells(&line.cells))).collect()
}

/// The prediction of a released model for a row with these columns.
fn predicted(engine: &Engine, name: &str, row: &BTreeMap<&str, Cell>) -> f32 {
    let predictor = engine.predictor(&engine.release_named(name).expect("released")).expect("a model");
    let cells: Vec<Cell> = predictor.columns().iter().map(|column| row[column.name.as_str()].clone()).collect();
    predictor.rows(&[cells]).expect("a prediction")[0]
}

/// Half of the values are null and the others 0.8. Regression: the mean was released as 0.398 [0.389, 0.407] with a
/// confidence of 97.5 %, the group mean as 0.40, the variance as 0.034, and a model that predicts 0.40 was accepted,
/// while a query returned 0.80.
#[test]
fn half_of_the_values_null_is_the_mean_of_the_others_everywhere() {
    let mut lines = String::new();
    for row in 0..20_000 {
        let (z, t) = if row % 2 == 0 { ("0.8", "true") } else { ("", "") };
        let _ = writeln!(lines, "2026-01-01T12:00:00Z,{},1,a,{z},{t}", row % 3);
    }
    let (_folder, engine) = meters("renyi", &lines);
    let single = |name: &str, statistic: &str| {
        let found = published(&engine, name, &format!("statistic = \"{statistic}\"\nof = \"z\"\nbounds = [0, 1]\n"));
        let line = &found.lines[0];
        [line.value, line.low, line.high].map(|number| number.unwrap_or_else(|| panic!("{found:?}")))
    };
    let [value, low, high] = single("mean", "mean");
    assert!((value - 0.8).abs() < 0.01 && low > 0.75 && high < 0.85, "{value} [{low}, {high}]");
    let [value, low, _] = single("variance", "variance");
    assert!(value < 0.005 && low < 0.001, "{value} from {low}");
    let [value, ..] = single("sum", "sum");
    assert!((value - 8_000.0).abs() < 20.0, "{value}");
    let keys = "statistic = \"group_mean\"\nof = \"z\"\nby = \"k\"\nkeys = [\"a\", \"b\"]\nbounds = [0, 1]\n";
    let groups = published(&engine, "groups", keys);
    assert!((groups.lines[0].value.expect("a mean") - 0.8).abs() < 0.01, "{groups:?}");
    let at = "statistic = \"quantile\"\nof = \"z\"\nbounds = [0, 1]\nat = [0.25, 0.5]\n";
    let quantiles = published(&engine, "quantiles", at);
    assert!(quantiles.lines.iter().all(|line| (line.value.expect("a value") - 0.8).abs() < 0.02), "{quantiles:?}");
    let found = &query_cells(&engine, "one", "SELECT avg(z), sum(z), count(z), count(*), variance(z) FROM meters")[""];
    let near = |at: usize, truth: f64, off: f64| assert!((found[at] - truth).abs() <= off, "{at}: {found:?}");
    [(0, 0.8, 0.01), (1, 8_000.0, 10.0), (2, 10_000.0, 10.0), (3, 20_000.0, 10.0), (4, 0.0, 0.01)]
        .into_iter()
        .for_each(|(at, truth, off)| near(at, truth, off));
    let (_models, engine) = meters_for_models(&lines);
    let row = BTreeMap::from([("x", Cell::Number(1.0))]);
    let features = "features = [{ column = \"x\", scale = [-4, 6] }]\n";
    let line = format!(
        "label = \"z\"\n{features}[train]\nkind = \"ridge\"\n[validate]\nmetric = \"mse\"\ntarget = 0.05\nbound = 1.0\n"
    );
    let run = ran(&engine, &model("line", &line));
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
    assert!((predicted(&engine, "line", &row) - 0.8).abs() < 0.05);
    let class = format!(
        "label = {{ truth = \"t\" }}\n{features}[train]\nkind = \"logistic\"\nepochs = 4\nbatch = 512\n\
         learning_rate = 2.0\nrows = 10000\n[validate]\nmetric = \"accuracy\"\ntarget = 0.95\n"
    );
    let run = ran(&engine, &model("class", &class));
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
    assert!(predicted(&engine, "class", &row) > 0.6);
    // The released model is validated again on the same rows with a label.
    let again = "NAMED\nlabel = \"z\"\n[train]\nkind = \"release\"\nrelease = \"line@1\"\n[validate]\nmetric = \"mse\"\n\
                 target = 0.05\nbound = 1.0\n";
    let run = ran(&engine, &model("again", &again.replace("NAMED", &named_blocks(&engine))));
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
}

struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A row as stored: NaN in the file becomes null, and an infinity is clamped as the stream file states.
struct Row {
    x: Option<f64>,
    y: Option<f64>,
    k: Option<&'static str>,
    z: Option<f64>,
}

impl Row {
    /// x / y, which is missing where y is zero.
    fn ratio(&self) -> Option<f64> {
        let ratio = self.x? / self.y?;
        ratio.is_finite().then(|| ratio.clamp(-10.0, 10.0))
    }
}

/// The percentages of cells that are null, and that are NaN or infinite.
type Shares = (u64, u64);

/// A cell of the file, and the number that is stored for it.
fn cell(random: &mut Random, (nulls, odd): Shares, value: f64, (low, high): (f64, f64)) -> (String, Option<f64>) {
    match random.below(100) {
        share if share < nulls => (String::new(), None),
        share if share < nulls + odd => match random.below(3) {
            0 => ("nan".to_owned(), None),
            1 => ("inf".to_owned(), Some(high)),
            _ => ("-inf".to_owned(), Some(low)),
        },
        _ => (format!("{value:?}"), Some(value.clamp(low, high))),
    }
}

/// A random table, as lines of a file and as stored rows.
fn table(random: &mut Random, rows: usize) -> (String, Vec<Row>) {
    let (mut lines, mut stored) = (String::new(), Vec::new());
    let shares = (5 + random.below(40), 5 + random.below(20));
    for _ in 0..rows {
        let (drawn, whole) = (-6.0 + 14.0 * random.unit().min(random.unit()), random.below(3) as f64);
        let (x, own_x) = cell(random, shares, drawn, (-4.0, 6.0));
        let (y, own_y) = cell(random, shares, whole, (0.0, 2.0));
        let (z, own_z) = cell(random, shares, 0.3 + 0.05 * own_x.unwrap_or(4.0), (0.0, 1.0));
        let k = ["a", "b", "c", ""][random.below(4) as usize];
        let _ = writeln!(lines, "2026-01-01T12:00:00Z,{x},{y},{k},{z},true");
        stored.push(Row { x: own_x, y: own_y, k: Some(k).filter(|k| !k.is_empty()), z: own_z });
    }
    (lines, stored)
}

/// Count, sum, mean and variance of the values that are present.
fn moments(values: impl Iterator<Item = Option<f64>>) -> [f64; 4] {
    let present: Vec<f64> = values.flatten().collect();
    let count = present.len() as f64;
    let sum: f64 = present.iter().sum();
    let squares: f64 = present.iter().map(|value| (value - sum / count).powi(2)).sum();
    [count, sum, sum / count, squares / count]
}

/// For all rows and for each key: the number of rows, and the moments of x and of x / y.
fn reference(rows: &[Row]) -> BTreeMap<String, Vec<f64>> {
    let keys = [None, Some("a"), Some("b"), Some("c")];
    let of = |key: Option<&str>| {
        let own = || rows.iter().filter(move |row| key.is_none() || row.k == key);
        let count = own().count() as f64;
        [vec![count], moments(own().map(|row| row.x)).to_vec(), moments(own().map(Row::ratio)).to_vec()].concat()
    };
    keys.into_iter().map(|key| (key.unwrap_or("all").to_owned(), of(key))).collect()
}

const DUCKDB: &str = r#"
import duckdb, json, sys
rows = duckdb.sql(f"""
WITH raw AS (
  SELECT TRY_CAST(x AS DOUBLE) AS x, TRY_CAST(y AS DOUBLE) AS y, NULLIF(k, '') AS k
  FROM read_csv('{sys.argv[1]}', all_varchar = true, header = true)
), stored AS (
  SELECT CASE WHEN NOT isnan(x) THEN least(greatest(x, -4.0), 6.0) END AS x,
         CASE WHEN NOT isnan(y) THEN least(greatest(y, 0.0), 2.0) END AS y, k
  FROM raw
), present AS (
  SELECT k, x, CASE WHEN isfinite(x / y) THEN least(greatest(x / y, -10.0), 10.0) END AS v FROM stored
)
SELECT CASE WHEN grouping(k) = 1 THEN 'all' ELSE k END, count(*)::DOUBLE,
       count(x)::DOUBLE, sum(x), avg(x), var_pop(x), count(v)::DOUBLE, sum(v), avg(v), var_pop(v)
FROM present GROUP BY GROUPING SETS ((), (k))
""").fetchall()
print(json.dumps({row[0]: row[1:] for row in rows if row[0] is not None}))
"#;

/// The same by DuckDB, if it is available.
fn duckdb(csv: &Path) -> Option<BTreeMap<String, Vec<f64>>> {
    let python = std::env::var_os("SAGE_DUCKDB_PYTHON")?;
    let output = Command::new(python).args(["-c", DUCKDB]).arg(csv).output().expect("a Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn seed() -> u64 {
    let seed = std::env::var("SAGE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_117);
    println!("seed {seed}");
    seed
}

/// Every statistic and every query aggregate, on random tables with nulls, NaN and infinities.
#[test]
fn statistics_and_queries_of_random_tables_agree_with_a_reference() {
    let seed = seed();
    for round in 0..2 {
        let (lines, rows) = table(&mut Random(seed + round), 8_000);
        let (folder, engine) = meters("basic", &lines);
        let exact = reference(&rows);
        if let Some(found) = duckdb(&folder.path().join("rows.csv")) {
            assert_eq!(found.keys().collect::<Vec<_>>(), exact.keys().collect::<Vec<_>>());
            for (key, exact) in &exact {
                let close = |(one, other): (&f64, &f64)| (one - other).abs() <= 1e-9 * other.abs().max(1.0);
                assert!(found[key].iter().zip(exact).all(close), "seed {seed}, {key}: {:?} {exact:?}", found[key]);
            }
            println!("DuckDB agrees with the reference");
        }
        // Means and variances use the train lane, a random sample.
        let near = |what: &str, found: f64, exact: f64, off: f64| {
            assert!((found - exact).abs() <= off, "seed {seed}, round {round}, {what}: {found} is not {exact}");
        };
        for (name, of, bounds, first) in [("x", "x", "[-4, 6]", 1), ("ratio", "x / y", "[-10, 10]", 5)] {
            let all = &exact["all"][first..];
            let of = format!("of = \"{of}\"\nbounds = {bounds}\n");
            for (kind, index, off) in [("sum", 1, 20.0), ("mean", 2, 0.3), ("variance", 3, 1.5)] {
                let found = published(&engine, &format!("{name}-{kind}"), &format!("statistic = \"{kind}\"\n{of}"));
                near(&format!("{kind} of {name}"), found.lines[0].value.expect("a value"), all[index], off);
            }
            let by = "by = \"k\"\nkeys = [\"a\", \"b\", \"c\"]\n";
            let found = published(&engine, &format!("{name}-by"), &format!("statistic = \"group_mean\"\n{of}{by}"));
            for line in &found.lines {
                let key = line.key.clone().expect("a key");
                near(&format!("{name} by {key}"), line.value.expect("a mean"), exact[&key][first + 2], 0.7);
            }
        }
        let count = published(&engine, "count", "statistic = \"count\"\n");
        near("count", count.lines[0].value.expect("a count"), exact["all"][0], 5.0);
        let by = published(&engine, "by", "statistic = \"histogram\"\nby = \"k\"\nkeys = [\"a\", \"b\", \"c\"]\n");
        for line in &by.lines {
            near("histogram", line.value.expect("a count"), exact[line.key.as_ref().expect("a key")][0], 5.0);
        }
        let what = "count(*), count(x), sum(x), avg(x), variance(x)";
        let whole = query_cells(&engine, "all", &format!("SELECT {what} FROM meters"));
        let groups = query_cells(&engine, "by", &format!("SELECT k, {what} FROM meters GROUP BY k"));
        for (key, found) in
            whole.values().map(|found| ("all", found)).chain(groups.iter().map(|(k, f)| (k.as_str(), f)))
        {
            for (index, off) in [5.0, 5.0, 20.0, 0.7, 3.0].into_iter().enumerate() {
                near(&format!("query, {key}, {index}"), found[index], exact[key][index], off);
            }
        }
    }
}

/// The number of files below a folder.
fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}

/// A model with each rule for missing values: its validation covers exactly the rows that have a label and that the
/// model does not exclude. The label is infinite or NaN in some rows and null in others.
#[test]
fn validation_covers_the_rows_with_a_label() {
    let seed = seed();
    let (lines, rows) = table(&mut Random(seed + 9), 20_000);
    let (folder, engine) = meters_for_models(&lines);
    let mut summaries = 0;
    // Missing where y is zero or null, and clipped to the bounds elsewhere.
    let label = |row: &Row| {
        let label = row.z? / row.y?;
        label.is_finite().then(|| label.clamp(0.0, 1.0))
    };
    for (name, rule) in [("left-out", ""), ("constant", ", missing = 4"), ("indicator", ", missing = \"indicator\"")] {
        let rest = format!(
            "label = {{ sql = \"z / y\", bounds = [0, 1] }}\n\
             features = [{{ column = \"x\", scale = [-4, 6]{rule} }}, {{ column = \"k\", onehot = [\"a\", \"b\"] }}]\n\
             [train]\nkind = \"ridge\"\n[validate]\nmetric = \"mse\"\ntarget = 0.2\nbound = 1.0\n"
        );
        let run = ran(&engine, &model(name, &rest));
        assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
        // Each rule has its own block summaries.
        let kept = files(&folder.path().join("sage").join("sums"));
        assert!(kept > summaries, "{name} was trained on the block summaries of another rule");
        summaries = kept;
        let Some(AttemptOutcome::Judged(report)) = &run.attempts[0].outcome else { panic!("{}", describe(&run)) };
        let predictor = engine.predictor(&engine.release_named(name).expect("released")).expect("a model");
        let cells = |row: &Row| -> Vec<Cell> {
            let cell = |column: &sage_engine::serve::Column| match column.name.as_str() {
                "x" => row.x.map_or(Cell::Null, Cell::Number),
                _ => row.k.map_or(Cell::Null, |k| Cell::Text(k.to_owned())),
            };
            predictor.columns().iter().map(cell).collect()
        };
        let found = predictor.rows(&rows.iter().map(cells).collect::<Vec<_>>()).expect("predictions");
        let (mut losses, mut without) = (Vec::new(), 0);
        for (row, found) in rows.iter().zip(&found) {
            assert_eq!(found.is_nan(), name == "left-out" && row.x.is_none(), "{name}");
            match label(row).filter(|_| !found.is_nan()) {
                Some(label) => losses.push((f64::from(*found) - label).powi(2)),
                None => without += 1,
            }
        }
        let exact = losses.iter().sum::<f64>() / losses.len() as f64;
        assert!(without > 5_000 && losses.len() > 3_000, "{without} {}", losses.len());
        let interval = report.estimates[0];
        let (low, high) = (interval.low.expect("a limit"), interval.high.expect("a limit"));
        assert!(low <= exact + 0.01 && exact - 0.01 <= high, "seed {seed}, {name}: {exact} is not in {interval:?}");
        assert!(
            (interval.value.expect("an estimate") - exact).abs() < 0.03,
            "seed {seed}, {name}: {exact} {interval:?}"
        );
        // As a release, it is validated on the same rows.
        let named = named_blocks(&engine);
        let again = format!(
            "{named}\nlabel = {{ sql = \"z / y\", bounds = [0, 1] }}\n[train]\nkind = \"release\"\nrelease = \"{name}@1\"\n\
             [validate]\nmetric = \"mse\"\ntarget = 0.2\nbound = 1.0\n"
        );
        let run = ran(&engine, &model(&format!("{name}-again"), &again));
        let Some(AttemptOutcome::Judged(report)) = &run.attempts[0].outcome else { panic!("{}", describe(&run)) };
        let again = report.estimates[0].value.expect("an estimate");
        assert!((again - exact).abs() < 0.03, "seed {seed}, {name} again: {again} {exact}");
    }
    // The champion's losses stay aligned with the challenger's rows where some rows are excluded.
    let better = "label = { sql = \"z / y\", bounds = [0, 1] }\nfeatures = [{ column = \"x\", scale = [-4, 6] }]\n\
                  [train]\nkind = \"ridge\"\n[validate]\nmetric = \"mse\"\nbetter_than = \"constant@1\"\nbound = 1.0\n";
    let run = ran(&engine, &model("better", better));
    let Some(AttemptOutcome::Judged(report)) = &run.attempts[0].outcome else { panic!("{}", describe(&run)) };
    let difference = report.estimates[0].value.expect("an estimate");
    assert!(difference.abs() < 0.05, "two models of one kind on the same rows: {difference}");
}
