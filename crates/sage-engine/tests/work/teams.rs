//! Streams that several share or that never grow: contexts, users, countries.

use std::fmt::Write as _;
use std::path::Path;

use sage_engine::adapt::{End, Outcome};
use sage_engine::ingest::Source;
use sage_engine::{Engine, Epsilon, Opened, Places};

use crate::city::{City, SPEED, somebody};
use crate::loops::{pass_hours, spent, told};

/// A directory with a stream of this file, fed with a CSV.
fn fed(folder: &Path, file: &str, stream: &str, csv: &str) -> Engine {
    let Ok(Opened::Ready(engine)) = Engine::open(&folder.join("sage"), &Places::default()) else {
        panic!("a new directory")
    };
    engine.create_stream(&somebody("ada"), file).expect("a stream");
    let rows = folder.join("rows.csv");
    std::fs::write(&rows, csv).expect("a file");
    engine.ingest(&somebody("dan"), stream, "all", Source::path(&rows)).expect("a batch");
    let keys = engine.snapshot().expect("a snapshot").blocks(stream).expect("the stream");
    let keys: Vec<String> = keys.into_iter().map(|block| block.key).collect();
    engine.seal(&somebody("dan"), stream, &keys).expect("sealed");
    *engine
}

#[test]
fn two_teams_have_their_own_ceilings_and_one_together() {
    let city = City::new(60_000);
    let contexts = r#"
doors = ["enforced"]

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
    let mia = somebody("mia");
    let greedy = |context: &str| {
        let text = SPEED.replace("speed-by-vendor", context).replace("target = 4.0", "target = 0.0001");
        let text = text.replace("window", &format!("context = \"{context}\"\nwindow"));
        engine.submit_at(&mia, &format!("{text}\n[adapt]\nmode = \"aggressive\"\ntimeout = \"9h\"\n"), 0)
    };
    let (one, two) = (greedy("rides").expect("submitted"), greedy("fares").expect("submitted"));
    assert!(greedy("nobody").is_err(), "there is no such context");
    pass_hours(&city, &engine, 1..12);
    for run in [one, two] {
        let run = engine.run(run).expect("a run");
        assert_eq!(run.outcome(), Some(Outcome::Stopped(End::TimedOut)), "{}", told(&run));
        assert!(!run.attempts.is_empty(), "both got something: {}", told(&run));
    }
    // Shown is the book that has least left: that of a team that took all it may.
    let (least, most) = (Epsilon::ceiling("1.9").expect("a number"), Epsilon::ceiling("2.5").expect("a number"));
    assert!((least..=most).contains(&spent(&engine)), "{}", spent(&engine));
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
    let engine = fed(folder.path(), SHOP, "shop", &csv);
    engine.count_sealed("shop").expect("counted");
    let units = engine.snapshot().expect("a snapshot").units("shop").expect("a census");
    assert!((1800..=2200).contains(&units.estimate), "users are counted, not their rows: {units:?}");
    let mia = somebody("mia");
    engine.submit_at(&mia, AMOUNT, 0).expect("submitted");
    engine.work(1).expect("nothing fails");
    let run = engine.run(1).expect("a run");
    assert_eq!(run.outcome(), Some(Outcome::Accepted), "{}", told(&run));
    let mean = engine.statistic(&engine.release_named("amount").expect("released")).expect("a number");
    let value = mean.lines[0].value.expect("a mean");
    assert!((4.0..=6.0).contains(&value), "{mean:?}");
    let timed = AMOUNT.replace("min = 2", "min = \"7d\"").replace("\"amount\"\nstream", "\"timed\"\nstream");
    let refused = engine.submit_at(&mia, &timed, 0).expect_err("a window of time has no number of blocks here");
    assert!(refused.to_string().contains("window.min: a number of blocks"), "{refused}");
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

/// Whatever is asked of some countries is charged to those alone: the loss is that of the country asked most often,
/// where accounting by the whole data set would add up all questions.
#[test]
fn countries_are_charged_for_what_is_asked_of_them() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut csv = "country,height\n".to_owned();
    for (place, country) in ["de", "fr", "it", "jp", "kr", "cn"].iter().enumerate() {
        for person in 0..4000 {
            let _ = writeln!(csv, "{country},{}", 160 + 2 * place + person % 20);
        }
    }
    let engine = fed(folder.path(), COUNTRIES, "people", &csv);
    let all = ["country=cn", "country=de", "country=fr", "country=it", "country=jp", "country=kr"];
    let (europe, asia) = (["country=de", "country=fr", "country=it"], ["country=cn", "country=jp", "country=kr"]);
    let overlapping = ["country=fr", "country=jp"];
    let groups: Vec<&[&str]> =
        all.iter().map(std::slice::from_ref).chain([&europe[..], &asia[..], &overlapping[..]]).collect();
    let mut asked = 0.0;
    for (place, group) in groups.iter().enumerate() {
        let mean = engine.mean_of_blocks(place, group);
        asked += 0.25;
        assert!((150.0..190.0).contains(&mean), "{group:?}: {mean}");
    }
    let loss = spent_of(&engine, "people");
    assert_eq!(loss, Epsilon::ceiling("0.75").expect("a number"), "France and Japan are in three groups");
    assert!(asked > 2.0, "the whole data set would have lost {asked}");
}

fn spent_of(engine: &Engine, stream: &str) -> Epsilon {
    engine.snapshot().expect("a snapshot").stream(stream).expect("the stream").spent
}

trait MeanOfBlocks {
    fn mean_of_blocks(&self, place: usize, blocks: &[&str]) -> f64;
}

impl MeanOfBlocks for Engine {
    /// A mean of these blocks for an ε of a quarter, charged by hand: a pipeline takes the newest blocks, and here
    /// the question names them.
    fn mean_of_blocks(&self, place: usize, blocks: &[&str]) -> f64 {
        use sage_engine::read::{Expression, Query};
        use sage_engine::{Ask, Cost, Door, Lane, Mechanism, TableNoise};
        let epsilon = Epsilon::cost("0.25").expect("a number");
        let cost = Cost::new(vec![Mechanism::Laplace { epsilon, count: 1 }]).expect("a cost");
        let ask = Ask {
            key: format!("mean {place}"),
            stream: "people".to_owned(),
            context: None,
            blocks: blocks.iter().map(|key| (*key).to_owned()).collect(),
            costs: [Some(cost), None],
            door: Door::Enforced,
            purpose: "a mean".to_owned(),
        };
        let granted = self.charge(&somebody("mia"), ask).expect("granted");
        let height = Expression { name: "height".to_owned(), sql: "height".to_owned() };
        let query = Query { filter: None, columns: vec![height] };
        let mut session = self.open_session(granted, &query).expect("a session");
        let mean = sage_learn::statistics::Mean { bounds: (100.0, 220.0), noise: TableNoise::Laplace(epsilon) };
        let found = mean.run(&mut session, Lane::Train, 0.05, |row| row.number(0).unwrap_or(f64::NAN));
        let found = found.expect("a mean").expect("rows");
        self.release(session.finish(), [0; 32]).expect("released");
        found.value
    }
}
