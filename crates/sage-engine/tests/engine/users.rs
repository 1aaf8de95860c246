//! Streams of users: lanes by user, bounded contributions, and the private running count.

use std::fmt::Write as _;

use sage_engine::ingest::Source;
use sage_engine::{AccessMode, ChargeRequest, Engine, EngineError, Lane, TableNoise};

use crate::world::{World, epsilon, laplace, principal, query};

const SHOPS: &str = r#"
[stream]
name = "shops"
unit = "user"
user = "customer"
contribution = 3
blocks = { user_range = 100 }
test_share = 0.5
census = { epsilon = "4", horizon = 8 }

[policy]
epsilon = "100"
delta = "1e-6"
filter = "basic"

[access]
privacy-officer = ["ada"]
data-engineer = ["dan"]
ml-engineer = ["mia"]

[[columns]]
name = "customer"
type = "integer"
min = 0
max = 100000
outside = "drop"

[[columns]]
name = "amount"
type = "number"
min = 0.0
max = 10.0
"#;

const USERS: usize = 600;

/// Two batches in which every user buys five times.
fn with_shops(world: &World) -> Engine {
    let engine = world.open();
    engine.create_stream(&principal("ada"), SHOPS).expect("a stream");
    for batch in ["b1", "b2"] {
        let mut text = "customer,amount\n".to_owned();
        for index in 0..USERS * 5 {
            let _ = writeln!(text, "{},{}", index % USERS, 1 + index % 3);
        }
        let file = world.beside(batch);
        std::fs::write(&file, text).expect("a file");
        let source = Source::path(file.with_extension("csv"));
        std::fs::rename(&file, file.with_extension("csv")).expect("renamed");
        engine.ingest(&principal("dan"), "shops", batch, source).expect("a batch");
    }
    engine
}

fn keys() -> Vec<String> {
    (0..USERS / 100).map(|range| format!("users={:010}", range * 100)).collect()
}

#[test]
fn a_user_is_one_row_of_the_session_with_a_bounded_number_of_records() {
    let world = World::new();
    let engine = with_shops(&world);
    engine.seal(&principal("dan"), "shops", &keys()).expect("sealed");
    let request = ChargeRequest {
        key: "units".to_owned(),
        stream: "shops".to_owned(),
        context: None,
        blocks: keys(),
        costs: laplace("40"),
        access: AccessMode::Enforced,
        purpose: "a test".to_owned(),
    };
    let granted = engine.charge(&principal("mia"), request).expect("granted");
    let mut session = engine.open_session(granted, &query(None, &[("amount", "amount")])).expect("a session");
    let noise = TableNoise::Laplace(epsilon("20"));
    let mut users = 0.0;
    for lane in Lane::BOTH {
        let counts = session.histogram(lane, 6, noise, |user| u32::try_from(user.records().count()).ok());
        let counts = counts.expect("covered by the charge");
        // Ten records each, of which three are selected.
        assert!(counts.iter().enumerate().all(|(kept, &count)| kept == 3 || count.abs() < 20.0), "{counts:?}");
        users += counts[3];
    }
    assert!((users - USERS as f64).abs() < 20.0, "every user once, in one lane: {users}");
}

#[test]
fn the_running_count_is_close_and_its_lower_bound_holds() {
    let world = World::new();
    let engine = with_shops(&world);
    for key in keys() {
        engine.seal(&principal("dan"), "shops", std::slice::from_ref(&key)).expect("sealed");
        engine.count_sealed("shops").expect("counted");
        // A block is in several nodes, and is read for the first one only.
        std::fs::remove_dir_all(world.path().join("blocks/shops").join(&key)).expect("removed");
    }
    let look = engine.snapshot().expect("a snapshot");
    let count = look.units("shops").expect("a census");
    // Six steps are two nodes on two lanes, each with noise of scale 1.
    assert!((count.estimate - USERS as i64).abs() < 60, "{count:?}");
    assert!(count.at_least <= count.estimate && count.at_least > USERS as i64 - 120, "{count:?}");
    // Each block has spent at most the census's share on both lanes: four levels at 1 each.
    let blocks = look.blocks("shops").expect("the stream");
    let spent: Vec<_> = blocks.iter().map(|block| block.lanes[0].spent).collect();
    assert!(spent.iter().all(|&spent| spent <= epsilon("4")), "{spent:?}");
    assert_eq!(spent[0], epsilon("3"), "the first block is in nodes of one, two and four");
    engine.count_sealed("shops").expect("nothing is due");
    drop(engine);
    let again = world.open().snapshot().expect("a snapshot").units("shops");
    assert_eq!(again, Some(count), "the log knows it");
}

#[test]
fn without_its_secret_a_stream_of_users_takes_no_rows() {
    let world = World::new();
    drop(with_shops(&world));
    let secret = world.path().join("secrets/shops");
    let kept = std::fs::read(&secret).expect("a secret");
    assert!(is_private(&secret), "the owner alone may read it");
    let engine = world.open();
    let file = world.beside("more.csv");
    std::fs::write(&file, "customer,amount\n1,1\n").expect("a file");
    for wrong in [None, Some(vec![0; 32]), Some(Vec::new()), Some(kept[..31].to_vec())] {
        match wrong {
            None => std::fs::remove_file(&secret).expect("removed"),
            Some(bytes) => std::fs::write(&secret, bytes).expect("written"),
        }
        let refused = engine.ingest(&principal("dan"), "shops", "b3", Source::path(&file));
        assert!(matches!(refused, Err(EngineError::Secret(_))));
    }
    std::fs::write(&secret, kept).expect("put back");
    engine.ingest(&principal("dan"), "shops", "b3", Source::path(&file)).expect("taken");
}

fn is_private(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().expect("a file").permissions().mode() & 0o077 == 0
}
