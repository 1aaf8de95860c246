//! Decisions of officers, alone and in pairs, and what they can stop.

use sage_engine::adapt::{End, Outcome};
use sage_engine::{Engine, EngineError, PolicyOutcome, ProposalView, Stopped};

use crate::world::{RIDES, World, charge_request, days, principal, rides};

fn proposal(engine: &Engine) -> Option<ProposalView> {
    engine.snapshot().expect("a snapshot").stream("rides").expect("the stream").proposal
}

fn with_epsilon(epsilon: &str) -> String {
    RIDES.replace("epsilon = \"20\"", &format!("epsilon = \"{epsilon}\""))
}

/// The ceiling is lowered to 5, so that there is something to raise.
fn tightened(world: &World) -> Engine {
    let engine = world.with_rides(5);
    engine.change_stream(&principal("ada"), &with_epsilon("5")).expect("one officer tightens");
    engine
}

/// Regression: an officer read one proposal and approved the latest one: the proposer could replace the text in
/// between.
#[test]
fn an_approval_is_of_the_text_that_was_read() {
    let world = World::new();
    let engine = tightened(&world);
    let (ada, bob) = (principal("ada"), principal("bob"));
    assert_eq!(engine.change_stream(&ada, &with_epsilon("6")).expect("read"), PolicyOutcome::Waits);
    let read = proposal(&engine).expect("it waits");
    assert!(read.text.contains("epsilon = \"6\"") && read.by == "ada");
    assert_eq!(read.digest, blake3::hash(read.text.as_bytes()).to_hex().to_string());
    assert_eq!(engine.change_stream(&ada, &with_epsilon("16")).expect("read"), PolicyOutcome::Waits);
    let approved = engine.approve_policy(&bob, "rides", &read.digest);
    assert!(matches!(approved, Err(EngineError::ProposalChanged(_))), "the text was replaced");
    assert!(matches!(engine.approve_policy(&bob, "rides", ""), Err(EngineError::ProposalChanged(_))));
    assert!(
        engine.charge(&principal("mia"), charge_request("much", days(1..=1), "5.5")).is_err(),
        "nothing is in force"
    );
    let newest = proposal(&engine).expect("it waits");
    engine.approve_policy(&bob, "rides", &newest.digest).expect("the new text, by its own digest");
    drop(engine.charge(&principal("mia"), charge_request("more", days(1..=1), "15")).expect("it is in force"));
    assert_eq!(proposal(&engine), None);
    // The log shows the proposal, its author, and what took effect.
    let events = engine.events(0, usize::MAX).expect("the log");
    let proposed: Vec<_> = events.iter().filter(|event| event.kind == "policy-proposed").collect();
    assert_eq!(proposed.len(), 2);
    assert_eq!(
        (proposed[1].by.as_slice(), proposed[1].digest.as_ref()),
        (&["ada".to_owned()][..], Some(&newest.digest))
    );
    assert_eq!(proposed[1].file.as_ref(), Some(&newest.text));
    let defined = events.iter().rfind(|event| event.kind == "stream-defined").expect("defined");
    assert_eq!((defined.digest.as_ref(), defined.by.as_slice()), (Some(&newest.digest), &["bob".to_owned()][..]));
}

/// Regression: one officer could add a second name of their own and then loosen the policy alone.
#[test]
fn who_the_officers_are_takes_two_of_them() {
    let world = World::new();
    let engine = tightened(&world);
    let (ada, bob, eve) = (principal("ada"), principal("bob"), principal("eve"));
    let file = with_epsilon("5");
    for officers in ["[\"ada\", \"eve\"]", "[\"ada\"]", "[\"ada\", \"bob\", \"eve\"]"] {
        let changed = file.replace("[\"ada\", \"bob\"]", officers);
        assert_eq!(engine.change_stream(&ada, &changed).expect("read"), PolicyOutcome::Waits, "{officers}");
        assert!(matches!(engine.change_stream(&eve, &changed), Err(EngineError::NotInRole { .. })), "not in force");
    }
    let digest = proposal(&engine).expect("it waits").digest;
    assert!(matches!(engine.approve_policy(&eve, "rides", &digest), Err(EngineError::NotInRole { .. })), "not hers");
    assert!(matches!(engine.approve_policy(&ada, "rides", &digest), Err(EngineError::NothingToApprove(_))));
    // The same names in another order are the same officers, and other roles take one officer.
    let sorted = file.replace("[\"ada\", \"bob\"]", "[\"bob\", \"ada\"]").replace("[\"mia\"]", "[\"mia\", \"max\"]");
    assert_eq!(engine.change_stream(&ada, &sorted).expect("read"), PolicyOutcome::InForce);
    assert_eq!(proposal(&engine), None, "a change in force ends what waited");
    let wider = sorted.replace("[\"bob\", \"ada\"]", "[\"ada\", \"bob\", \"eve\"]");
    assert_eq!(engine.change_stream(&ada, &wider).expect("read"), PolicyOutcome::Waits);
    let digest = proposal(&engine).expect("it waits").digest;
    engine.approve_policy(&bob, "rides", &digest).expect("two officers");
    assert_eq!(engine.change_stream(&eve, &wider).expect("an officer now"), PolicyOutcome::Same);
    engine.close().expect("closed");
    assert!(matches!(world.open().change_stream(&eve, &wider), Ok(PolicyOutcome::Same)), "also after a restart");
}

#[test]
fn a_proposal_can_be_withdrawn() {
    let world = World::new();
    let engine = tightened(&world);
    let (ada, bob) = (principal("ada"), principal("bob"));
    engine.change_stream(&ada, &with_epsilon("6")).expect("proposed");
    let digest = proposal(&engine).expect("it waits").digest;
    assert_eq!(engine.change_stream(&ada, &with_epsilon("5")).expect("read"), PolicyOutcome::Withdrawn);
    assert!(matches!(engine.approve_policy(&bob, "rides", &digest), Err(EngineError::NothingToApprove(_))));
    assert_eq!(engine.change_stream(&ada, &with_epsilon("5")).expect("read"), PolicyOutcome::Same);
}

fn count(name: &str, stream: &str) -> String {
    format!(
        "[pipeline]\nname = \"{name}\"\nstream = \"{stream}\"\n[train]\nkind = \"statistic\"\nstatistic = \"count\"\n"
    )
}

/// Regression: an ML engineer of one stream released new versions of another stream's model and moved its alias.
#[test]
fn release_names_belong_to_a_stream() {
    let world = World::new();
    let engine = world.with_rides(400);
    let other = RIDES.replace("\"rides\"", "\"walks\"").replace("[\"mia\"]", "[\"max\"]");
    engine.create_stream(&principal("ada"), &other).expect("another stream");
    let file = world.beside("walks.csv");
    std::fs::write(&file, rides(1..=3, 400)).expect("a file");
    engine.ingest(&principal("dan"), "walks", "w1", sage_engine::ingest::Source::path(&file)).expect("a batch");
    engine.seal(&principal("dan"), "walks", &days(1..=3)).expect("sealed");
    let (mia, max) = (principal("mia"), principal("max"));
    engine.submit(&mia, &count("popular", "rides")).expect("submitted");
    // Also before the first release: a refusal must not depend on how a run of the other stream ended.
    let taken = |outcome: Result<u64, EngineError>| matches!(outcome, Err(EngineError::NameTaken(_)));
    assert!(taken(engine.submit(&max, &count("popular", "walks"))));
    engine.work(0).expect("worked");
    let release = engine.release_named("popular").expect("released");
    assert_eq!((release.version, release.stream.as_str()), (1, "rides"));
    assert!(taken(engine.submit(&max, &count("popular", "walks"))));
    assert!(matches!(engine.preview(&max, &count("popular", "walks")), Err(EngineError::NameTaken(_))));
    assert!(matches!(engine.move_alias(&max, &release, "champion"), Err(EngineError::NotInRole { .. })));
    assert!(matches!(engine.withdraw(&max, &release, "mine"), Err(EngineError::NotInRole { .. })));
    engine.submit(&max, &count("own", "walks")).expect("a name of its own");
    engine.submit(&mia, &count("popular", "rides")).expect("a next version");
    engine.work(0).expect("worked");
    assert_eq!(engine.release_named("popular").expect("released").stream, "rides");
    assert_eq!(engine.release_named("own").expect("released").stream, "walks");
    let text = engine.submit(&max, &count("popular", "walks")).expect_err("refused").to_string();
    assert!(!text.contains("rides"), "the other stream is not named: {text}");
}

/// Regression: a run continued to spend for a person who had lost the role; only membership of contexts was checked.
#[test]
fn a_removed_ml_engineer_stops_spending() {
    let world = World::new();
    let engine = world.with_rides(5);
    let (ada, mia) = (principal("ada"), principal("mia"));
    let run = engine.submit(&mia, &count("hers", "rides")).expect("submitted");
    let job = engine.next_job(0).expect("the loop").expect("it is charged");
    let waits = engine.submit(&mia, &count("waits", "rides")).expect("submitted");
    let spent = || engine.snapshot().expect("a snapshot").stream("rides").expect("the stream").spent;
    let charged = spent();
    engine.change_stream(&ada, &RIDES.replace("[\"mia\"]", "[\"max\"]")).expect("she is removed");
    for number in [run, waits] {
        let outcome = engine.run(number).expect("a run").outcome();
        assert_eq!(outcome, Some(Outcome::Stopped(End::NotMember)), "run {number}");
    }
    // A charge that was not started is refunded, and nothing is released.
    engine.perform(job).expect("performed");
    assert!(spent() < charged, "{} is spent", spent());
    assert_eq!(engine.work(u64::MAX / 2).expect("worked"), 0);
    assert!(engine.releases().is_empty());
    assert!(matches!(engine.submit(&mia, &count("more", "rides")), Err(EngineError::NotInRole { .. })));
    let ended = engine.events(0, usize::MAX).expect("the log").into_iter().rfind(|event| event.kind == "run-ended");
    assert_eq!(ended.expect("ended").by, ["ada"], "the log shows who ended it");
}

#[test]
fn an_officer_stops_a_run_a_recurrence_and_a_person() {
    let world = World::new();
    let engine = world.with_rides(400);
    let (ada, bob, mia) = (principal("ada"), principal("bob"), principal("mia"));
    let one = engine.submit(&mia, &count("one", "rides")).expect("submitted");
    assert!(matches!(engine.stop_run(&principal("dan"), one), Err(EngineError::NotInRole { .. })));
    assert_eq!(engine.stop_run(&ada, one).expect("an officer stops it"), Stopped::Run);
    assert!(matches!(engine.stop_run(&ada, one), Err(EngineError::RunOver(_))));
    let ended = engine.events(0, usize::MAX).expect("the log").into_iter().rfind(|event| event.kind == "run-ended");
    assert_eq!(ended.expect("ended").by, ["ada"]);

    let again = count("again", "rides").replace("[train]", "every = \"1h\"\n[train]");
    let first = engine.submit_at(&mia, &again, 0).expect("submitted");
    engine.work(0).expect("worked");
    assert_eq!(engine.run(first).expect("a run").outcome(), Some(Outcome::Accepted));
    world.ingest_csv(&engine, "b2", &rides(4..=4, 400)).expect("a batch");
    engine.seal(&principal("dan"), "rides", &days(4..=4)).expect("sealed");
    assert_eq!(engine.stop_run(&ada, first).expect("an officer stops it"), Stopped::Recurrence);
    let runs = engine.runs().len();
    let hour = 3_600_000;
    engine.work(2 * hour).expect("worked");
    assert_eq!(engine.runs().len(), runs, "it is not submitted again");
    engine.close().expect("closed");
    let engine = world.open();
    engine.work(3 * hour).expect("worked");
    assert_eq!(engine.runs().len(), runs, "nor after a restart");

    let waits = engine.submit_at(&mia, &again, 3 * hour).expect("a new submission recurs again");
    engine.suspend(&ada, "rides", "mia", "left the team").expect("suspended");
    assert_eq!(engine.run(waits).expect("a run").outcome(), Some(Outcome::Stopped(End::NotMember)));
    let refused = |outcome: Result<(), EngineError>| matches!(outcome, Err(EngineError::Suspended { .. }));
    assert!(refused(engine.submit(&mia, &count("more", "rides")).map(drop)));
    assert!(refused(engine.charge(&mia, charge_request("k", days(1..=1), "1")).map(drop)));
    assert!(engine.roles(&mia, "rides").is_empty());
    assert!(
        engine.suspend(&ada, "rides", "mia", "again").is_err() && engine.suspend(&ada, "rides", "ada", "").is_err()
    );
    assert!(engine.suspend(&ada, "rides", "nobody", "").is_err());
    assert!(matches!(engine.suspend(&mia, "rides", "dan", ""), Err(EngineError::Suspended { .. })));
    // An officer suspended by another one cannot approve.
    engine.suspend(&ada, "rides", "bob", "lost a key").expect("suspended");
    assert!(refused(engine.retire(&bob, "rides", &days(1..=1))));
    assert!(refused(engine.reinstate(&bob, "rides", "bob")), "not by themselves");
    engine.close().expect("closed");
    let engine = world.open();
    assert!(refused(engine.submit(&mia, &count("more", "rides")).map(drop)), "also after a restart");
    engine.reinstate(&ada, "rides", "mia").expect("reinstated");
    engine.submit(&mia, &count("more", "rides")).expect("she may again");
    let kinds: Vec<_> = engine.events(0, usize::MAX).expect("the log").into_iter().map(|event| event.kind).collect();
    for kind in ["member-suspended", "member-reinstated", "recurrence-stopped"] {
        assert!(kinds.contains(&kind), "{kind} is in the log");
    }
}
