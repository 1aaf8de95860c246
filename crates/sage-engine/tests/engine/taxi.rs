//! A synthetic stream from its first file to a released number, and the stream file of the docs.

use sage_engine::generate::{self, STREAM_FILE, TAXI, Taxi};
use sage_engine::ingest::Source;
use sage_engine::stream::{StreamFile, parse_time};
use sage_engine::{AccessMode, ChargeRequest, IngestOutcome, Lane, TableNoise};

use crate::world::{World, epsilon, laplace, principal, query};

#[test]
fn the_stream_file_of_synthetic_rides_describes_them() {
    let file = StreamFile::parse(TAXI).expect("a stream's file");
    let made = Taxi::schema();
    let declared: Vec<&str> = file.columns.iter().map(|column| column.name.as_str()).collect();
    let columns: Vec<&str> = made.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(declared, columns);
}

#[test]
fn the_stream_file_of_the_docs_is_valid() {
    let page = include_str!("../../../../docs/reference/stream-file.md");
    let shown = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a file on the page");
    let file = StreamFile::parse(shown).expect("a stream's file");
    assert_eq!(StreamFile::parse(&file.to_text()).expect("its own text"), file);
}

#[test]
fn synthetic_rides_give_a_noisy_count() {
    let world = World::new();
    let folder = world.beside("rides");
    // A year of a large city's cabs.
    let rides = if std::env::var_os("SAGE_SOAK").is_some() { 37_000_000 } else { 100_000 };
    let taxi = Taxi::new(rides, "2026-01-01".parse().expect("a day"), 1).expect("rides");
    generate::write(&taxi, &folder, None).expect("written");
    let engine = world.open();
    let text = std::fs::read_to_string(folder.join(STREAM_FILE)).expect("the stream's file");
    let loose = text.replace("epsilon = \"1.0\"", "epsilon = \"10\"");
    engine.create_stream(&principal("ada"), &loose).expect("a stream");
    let ingested = engine.ingest(&principal("dan"), "taxi", "all", Source::path(&folder)).expect("a batch");
    let IngestOutcome::Ingested(report) = ingested else { panic!("ingested before") };
    assert_eq!(report.read, rides);
    let dirty = rides * generate::DIRTY / generate::CHUNK;
    // Four of the five kinds of dirt drop a row: no time, a negative duration, an absurd distance, no price.
    let lost = report.read - report.stored;
    assert!(lost.abs_diff(4 * dirty) < 2 * dirty, "{report:?}");
    let blocks = engine.over_before("taxi", parse_time("2027-01-01").expect("a time")).expect("a stream");
    assert_eq!(blocks.len() as u64, rides.div_ceil(4_224), "an hour each");
    engine.seal(&principal("dan"), "taxi", &blocks).expect("sealed");
    let request = ChargeRequest {
        key: "rain".to_owned(),
        stream: "taxi".to_owned(),
        context: None,
        blocks,
        costs: laplace("8"),
        access: AccessMode::Enforced,
        purpose: "a test".to_owned(),
    };
    let granted = engine.charge(&principal("mia"), request).expect("granted");
    let filter = "duration BETWEEN 60 AND 9000 AND distance > 0";
    let columns = [("hour", "date_part('hour', pickup)"), ("speed", "3600 * distance / duration")];
    let mut session = engine.open_session(granted, &query(Some(filter), &columns)).expect("a session");
    let noise = TableNoise::Laplace(epsilon("8"));
    let mut counted = 0.0;
    for lane in Lane::BOTH {
        let hours = session.histogram(lane, 24, noise, |ride| ride.number(0).map(|hour| hour as u32));
        counted += hours.expect("covered by the charge").iter().sum::<f64>();
    }
    assert!(counted > 0.9 * report.stored as f64 && counted < 1.01 * report.stored as f64, "{counted}");
}
