//! Streams that are shared or that never grow: contexts, users, countries.

use std::fmt::Write as _;
use std::path::Path;

use sage_engine::adapt::{End, Outcome};
use sage_engine::generate::TAXI;
use sage_engine::ingest::Source;
use sage_engine::{Engine, EngineOptions, Epsilon, Opened};

use crate::city::{COUNT, City, SPEED, frugal, principal};
use crate::loops::{describe, pass_hours, spent};

/// A directory with a stream of this file and the rows of a CSV.
pub(crate) fn with_rows(folder: &Path, file: &str, stream: &str, csv: &str) -> Engine {
    // The stream does not grow, and equal shares are too small for every run: the rest is lent.
    let Ok(Opened::Ready(engine)) = Engine::open(&folder.join("sage"), &EngineOptions::default()) else {
        panic!("a new directory")
    };
    engine.create_stream(&principal("ada"), file).expect("a stream");
    let rows = folder.join("rows.csv");
    std::fs::write(&rows, csv).expect("a file");
    engine.ingest(&principal("dan"), stream, "all", Source::path(&rows)).expect("a batch");
    let keys = engine.snapshot().expect("a snapshot").blocks(stream).expect("the stream");
    let keys: Vec<String> = keys.into_iter().map(|block| block.key).collect();
    engine.seal(&principal("dan"), stream, &keys).expect("sealed");
    *engine
}

#[test]
fn two_teams_have_their_own_ceilings_and_one_together() {
    let city = City::new(60_000);
    let contexts = r#"
access_modes = ["enforced"]

[[policy.contexts]]
name = "rides"
epsilon = "2"
delta = "1e-6"

[[policy.contexts]]
name = "fares"
epsilon = "2"
delta = "1e-6"

[policy.joint]
epsilon = "2.5"
delta = "1e-6"
"#;
    let engine = city.with_policy(contexts);
    let mia = principal("mia");
    let greedy = |context: &str| {
        let text = SPEED.replace("speed-by-vendor", context).replace("target = 4.0", "target = 0.0001");
        let text = text.replace("window", &format!("context = \"{context}\"\nwindow"));
        engine.submit_at(&mia, &frugal(&format!("{text}\n[adapt]\nmode = \"aggressive\"\ntimeout = \"9h\"\n")), 0)
    };
    let (one, two) = (greedy("rides").expect("submitted"), greedy("fares").expect("submitted"));
    assert!(greedy("nobody").is_err(), "there is no such context");
    pass_hours(&city, &engine, 1..12);
    for run in [one, two] {
        let run = engine.run(run).expect("a run");
        assert_eq!(run.outcome(), Some(Outcome::Stopped(End::TimedOut)), "{}", describe(&run));
        assert!(!run.attempts.is_empty(), "both got something: {}", describe(&run));
    }
    // The view shows the context with the least remaining budget.
    let (least, most) = (Epsilon::ceiling("1.9").expect("a number"), Epsilon::ceiling("2.5").expect("a number"));
    assert!((least..=most).contains(&spent(&engine)), "{}", spent(&engine));
}

/// A run continues as long as its submitter is a member, whatever it waits for.
#[test]
fn runs_of_a_removed_member_end() {
    let city = City::new(60_000);
    let context = |name: &str, members: &str| {
        format!("\n[[policy.contexts]]\nname = \"{name}\"\nmembers = {members}\nepsilon = \"4\"\ndelta = \"1e-6\"\n")
    };
    let (before, rest) = TAXI.split_once("[policy]").expect("a policy");
    let (_, after) = rest.split_once("[access]").expect("access");
    let after = after.replace("[\"mia\"]", "[\"mia\", \"max\", \"eve\"]");
    let file = |rides: &str| {
        format!("{before}[policy]\n{}{}\n[access]{after}", context("rides", rides), context("fares", "[\"eve\"]"))
    };
    let engine = city.with_file(&file("[\"mia\", \"max\"]"));
    let counted = |name: &str| {
        let text = COUNT.replace("name = \"rides\"", &format!("name = \"{name}\""));
        text.replace("stream = \"taxi\"", "stream = \"taxi\"\nevery = \"1h\"")
    };
    let hers = engine.submit_at(&principal("mia"), &frugal(&counted("hers")), 0).expect("submitted");
    let his = engine.submit_at(&principal("max"), &frugal(&counted("his")), 0).expect("submitted");
    let precise = SPEED.replace("target = 4.0", "target = 0.0001");
    let waits = engine.submit_at(&principal("mia"), &frugal(&precise), 0).expect("submitted");
    pass_hours(&city, &engine, 1..4);
    let outcome = |engine: &Engine, run: u64| engine.run(run).expect("a run").outcome();
    assert_eq!((outcome(&engine, hers), outcome(&engine, his)), (Some(Outcome::Accepted), Some(Outcome::Accepted)));
    assert_eq!(outcome(&engine, waits), None);
    engine.change_stream(&principal("ada"), &file("[\"max\"]")).expect("she leaves");
    engine.close().expect("closed");
    let engine = city.open();
    let tried = engine.run(waits).expect("a run").attempts.len();
    let versions = |name: &str| engine.releases().iter().filter(|release| release.name == name).count();
    let (so_far, others) = (versions("hers"), versions("his"));
    pass_hours(&city, &engine, 4..10);
    assert_eq!(outcome(&engine, waits), Some(Outcome::Stopped(End::NotMember)));
    assert_eq!(engine.run(waits).expect("a run").attempts.len(), tried, "nothing more was charged");
    assert_eq!(versions("hers"), so_far, "what she had done again and again is not done again");
    assert!(versions("his") > others + 1, "his run continues");
    let ended = engine.runs().into_iter().filter(|run| run.outcome() == Some(Outcome::Stopped(End::NotMember)));
    assert_eq!(ended.count(), 1, "the one that waited ends, and the one that recurs is not submitted again");
}

const SHOP: &str = r#"
[stream]
name = "shop"
unit = "user"
user = "customer"
contribution = 4
time = "day"
blocks = { user_range = 500, time = "7d" }
census = { epsilon = "0.5", horizon = 1 }

[policy]
epsilon = "3"
delta = "1e-6"

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]
ml-engineer = ["mia"]

[[columns]]
name = "customer"
type = "integer"
min = 0
max = 99999
outside = "drop"

[[columns]]
name = "day"
type = "time"

[[columns]]
name = "amount"
type = "number"
min = 0.0
max = 10.0
"#;

const AMOUNT: &str = r#"
[pipeline]
name = "amount"
stream = "shop"
window = { min = 2 }
[train]
kind = "statistic"
statistic = "mean"
of = "amount"
bounds = [0, 10]
[validate]
metric = "precision"
target = 0.75
"#;

#[test]
fn users_are_hidden_in_blocks_of_users_and_weeks() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut csv = "customer,day,amount\n".to_owned();
    for customer in 0..2000 {
        for visit in 0..6 {
            let _ = writeln!(csv, "{customer},2026-01-{:02}T12:00:00Z,{}", 1 + visit, 4 + customer % 3);
        }
    }
    let engine = with_rows(folder.path(), SHOP, "shop", &csv);
    engine.count_sealed("shop").expect("counted");
    let units = engine.snapshot().expect("a snapshot").units("shop").expect("a census");
    assert!((1800..=2200).contains(&units.estimate), "users are counted, not their rows: {units:?}");
    let mia = principal("mia");
    engine.submit_at(&mia, &frugal(AMOUNT), 0).expect("submitted");
    engine.work(1).expect("no error");
    let run = engine.run(1).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", describe(&run));
    let mean = engine.statistic(&engine.release_named("amount").expect("released")).expect("a number");
    let value = mean.lines[0].value.expect("a mean");
    assert!((4.0..=6.0).contains(&value), "{mean:?}");
    let timed = AMOUNT.replace("min = 2", "min = \"7d\"").replace("\"amount\"\nstream", "\"timed\"\nstream");
    let refused =
        engine.submit_at(&mia, &frugal(&timed), 0).expect_err("a window of time has no number of blocks here");
    assert!(refused.to_string().contains("window.min: it must be a number of blocks"), "{refused}");
}

const COUNTRIES: &str = r#"
[stream]
name = "people"
unit = "event"
blocks = { attribute = "country" }
test_share = 0.1

[policy]
epsilon = "1"
delta = "1e-6"
filter = "basic"

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]
ml-engineer = ["mia"]

[[columns]]
name = "country"
type = "category"
categories = ["de", "fr", "it", "jp", "kr", "cn"]

[[columns]]
name = "height"
type = "number"
min = 100.0
max = 220.0
"#;

/// The mean height in these countries, for an ε of a quarter.
fn height(name: &str, countries: &[&str]) -> String {
    let keys: Vec<String> = countries.iter().map(|country| format!("\"country={country}\"")).collect();
    format!(
        "[pipeline]\nname = \"{name}\"\nstream = \"people\"\nblocks = [{}]\n[train]\nkind = \"statistic\"\n\
         statistic = \"mean\"\nof = \"height\"\nbounds = [100, 220]\n[budget]\nepsilon0 = \"0.25\"\n",
        keys.join(", ")
    )
}

/// Statistics of some countries are charged to those only: the loss is that of the most used country, where accounting
/// by the whole data set would add up all statistics.
#[test]
fn countries_are_charged_for_their_own_statistics() {
    let folder = tempfile::tempdir().expect("a directory");
    let countries = ["de", "fr", "it", "jp", "kr", "cn"];
    let mut csv = "country,height\n".to_owned();
    for (index, country) in countries.iter().enumerate() {
        for person in 0..4000 {
            let _ = writeln!(csv, "{country},{}", 160 + 2 * index + person % 20);
        }
    }
    let engine = with_rows(folder.path(), COUNTRIES, "people", &csv);
    let mia = principal("mia");
    let each = countries.iter().map(|country| (format!("height-{country}"), vec![*country]));
    let groups = [("europe", vec!["de", "fr", "it"]), ("asia", vec!["jp", "kr", "cn"]), ("both", vec!["fr", "jp"])];
    let all: Vec<(String, Vec<&str>)> =
        each.chain(groups.into_iter().map(|(name, group)| (name.to_owned(), group))).collect();
    for (name, group) in &all {
        engine.submit_at(&mia, &frugal(&height(name, group)), 0).expect("submitted");
    }
    engine.work(1).expect("no error");
    for (name, _) in &all {
        let released = engine.release_named(name);
        let released = released.unwrap_or_else(|error| panic!("{name}: {error}: {:?}", engine.runs()));
        let mean = engine.statistic(&released).expect("a number").lines[0].value.expect("a mean");
        assert!((150.0..190.0).contains(&mean), "{name}: {mean}");
    }
    let loss = engine.snapshot().expect("a snapshot").stream("people").expect("the stream").spent;
    assert_eq!(loss, Epsilon::ceiling("0.75").expect("a number"), "France and Japan are in three groups");
    let whole = 0.25 * all.len() as f64;
    println!("the stream lost {loss}; accounting by the whole data set would have lost {whole}");
    assert!(whole > 2.0);
    let strange =
        engine.submit_at(&mia, &frugal(&height("nowhere", &["xx"])), 0).expect_err("there can be no such block");
    assert!(strange.to_string().contains("`country=xx` is not a valid block key"), "{strange}");
}
