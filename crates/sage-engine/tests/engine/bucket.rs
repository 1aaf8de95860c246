//! Blocks in a bucket, over a network. `cargo xtask check --all` starts a server for it.

use sage_engine::blocks::BlockStore;
use sage_engine::doctor::Doctor;
use sage_engine::{Lane, State, TableNoise};

use crate::world::{World, charge_request, days, epsilon, principal, query, rides};

/// The address of a bucket, if one is configured.
fn bucket(folder: &str) -> Option<String> {
    let address = std::env::var("SAGE_BUCKET").ok();
    if address.is_none() {
        println!("left out: SAGE_BUCKET names no bucket");
    }
    address.map(|address| format!("{address}/{folder}-{}", std::process::id()))
}

#[test]
fn rows_live_and_end_in_a_bucket() {
    let Some(address) = bucket("life") else { return };
    let mut world = World::new();
    world.options.blocks = Some(address.clone());
    let engine = world.with_rides(200);
    let store = BlockStore::open(&address).expect("the bucket");
    // Including the quarantined rows.
    let parts = || -> Vec<String> {
        store.list("rides").expect("a list").into_iter().filter(|path| path.starts_with("rides/day=")).collect()
    };
    assert_eq!(parts().len(), 3, "one part for each day");
    assert!(!world.path().join("blocks").exists(), "and none in the directory");

    let granted = engine.charge(&principal("mia"), charge_request("one", days(1..=3), "8")).expect("granted");
    let mut session = engine.open_session(granted, &query(None, &[("d", "distance")])).expect("a session");
    let noise = TableNoise::Laplace(epsilon("8"));
    let count = [Lane::Train, Lane::Test].map(|lane| session.histogram(lane, 1, noise, |_| Some(0)).expect("paid")[0]);
    engine.release(session.finish(), [1; 32]).expect("released");
    let all: f64 = count.iter().sum();
    assert!((all - 600.0).abs() < 24.0, "{all}");

    engine.retire(&principal("ada"), "rides", &days(1..=1)).expect("retired");
    assert!(
        engine.charge(&principal("mia"), charge_request("two", days(1..=1), "1")).is_err(),
        "a retired block stays retired"
    );
    engine.delete(&principal("ada"), "rides", &days(1..=1)).expect("deleted");
    assert_eq!(parts().len(), 2);
    world.ingest_csv(&engine, "b2", &rides(4..=4, 50)).expect("a batch");
    engine.close().expect("closed");

    let engine = world.open();
    let blocks = engine.snapshot().expect("a snapshot").blocks("rides").expect("the stream");
    let states: Vec<State> = blocks.iter().map(|block| block.state).collect();
    assert_eq!(states, [State::Deleted, State::Sealed, State::Sealed, State::Open]);
    engine.close().expect("closed");

    let orphan = "rides/day=2026-11-02/stranger.parquet";
    store.put(orphan, bytes::Bytes::from_static(b"x")).expect("stored");
    let doctor = Doctor::examine(&world.path(), &world.options).expect("a snapshot");
    assert_eq!(doctor.findings().len(), 1);
    assert_eq!(doctor.repair().expect("removed").len(), 0);
    assert_eq!(parts().len(), 3);
}
