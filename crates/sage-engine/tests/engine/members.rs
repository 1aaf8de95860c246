//! Members of contexts: no user gets the sum of the ceilings of several contexts.

use sage_engine::stream::MemberRefusal;
use sage_engine::{BlockSelection, ChargeRequest, Engine, EngineError, Epsilon, PolicyOutcome, QueryRequest, Spend};

use crate::world::{RIDES, World, charge_request, days, principal, rides};

/// The stream of rides with two contexts of ε 2 each, these members, and further keys of `[policy]`.
fn file(north: &str, south: &str, more: &str) -> String {
    let context = |name: &str, members: &str| {
        format!(
            "[[policy.contexts]]\nname = \"{name}\"\n{members}\nepsilon = \"2\"\ndelta = \"1e-6\"\nfilter = \"basic\"\n"
        )
    };
    let (before, rest) = RIDES.split_once("[policy]").expect("a policy");
    let (_, after) = rest.split_once("[access]").expect("access");
    let after = after.replace("[\"mia\"]", "[\"mia\", \"max\", \"eve\"]");
    format!("{before}[policy]\n{}{}{more}\n[access]{after}", context("north", north), context("south", south))
}

const JOINT: &str = "[policy.joint]\nepsilon = \"3\"\ndelta = \"2e-6\"\nfilter = \"basic\"\n";
const MIA: &str = "members = [\"mia\"]";
const MAX: &str = "members = [\"max\"]";

/// An engine with the stream of this file and three sealed days.
fn with(world: &World, file: &str) -> Engine {
    let engine = world.open();
    engine.create_stream(&principal("ada"), file).expect("a stream");
    world.ingest_csv(&engine, "b1", &rides(1..=3, 20)).expect("a batch");
    engine.seal(&principal("dan"), "rides", &days(1..=3)).expect("sealed");
    engine
}

fn in_context(key: &str, context: Option<&str>, cost: &str) -> ChargeRequest {
    ChargeRequest { context: context.map(str::to_owned), ..charge_request(key, days(1..=1), cost) }
}

/// The loss of the stream in the context with the largest loss.
fn spent(engine: &Engine) -> Epsilon {
    engine.snapshot().expect("a snapshot").stream("rides").expect("the stream").spent
}

fn refusal<T>(outcome: Result<T, EngineError>) -> MemberRefusal {
    match outcome.map(drop) {
        Err(EngineError::Members(refusal)) => refusal,
        Err(error) => panic!("another refusal: {error}"),
        Ok(()) => panic!("it was taken"),
    }
}

fn pipeline(context: &str) -> String {
    format!(
        "[pipeline]\nname = \"count\"\nstream = \"rides\"\n{context}\n[train]\nkind = \"statistic\"\nstatistic = \"count\"\n"
    )
}

fn query_request(context: Option<&str>) -> QueryRequest {
    QueryRequest {
        key: "one".to_owned(),
        stream: "rides".to_owned(),
        context: context.map(str::to_owned),
        sql: "SELECT count(*) FROM rides".to_owned(),
        spend: Spend::Epsilon(crate::world::epsilon("0.1")),
        which: BlockSelection::All,
    }
}

#[test]
fn a_non_member_cannot_spend_in_any_way() {
    let world = World::new();
    let engine = with(&world, &file(MIA, MAX, ""));
    let other = |principal: &str| MemberRefusal::NotMember {
        principal: principal.to_owned(),
        context: Some("south".to_owned()),
    };
    let mia = principal("mia");
    assert_eq!(refusal(engine.charge(&mia, in_context("a", Some("south"), "1"))), other("mia"));
    assert_eq!(refusal(engine.query(&mia, &query_request(Some("south")))), other("mia"));
    assert_eq!(refusal(engine.plan_query(&mia, &query_request(Some("south")))), other("mia"));
    assert_eq!(refusal(engine.submit(&mia, &pipeline("context = \"south\""))), other("mia"));
    assert_eq!(refusal(engine.preview(&mia, &pipeline("context = \"south\""))), other("mia"));
    let eve = principal("eve");
    let nowhere = MemberRefusal::NotMember { principal: "eve".to_owned(), context: None };
    assert_eq!(refusal(engine.charge(&eve, in_context("b", None, "1"))), nowhere);
    assert_eq!(refusal(engine.query(&eve, &query_request(None))), nowhere);
    assert_eq!(refusal(engine.submit(&eve, &pipeline(""))), nowhere);
    let unknown = refusal(engine.charge(&mia, in_context("c", Some("west"), "1")));
    assert_eq!(unknown, MemberRefusal::UnknownContext("west".to_owned()));
    assert!(matches!(engine.charge(&principal("dan"), in_context("d", None, "1")), Err(EngineError::NotInRole { .. })));
    assert_eq!(spent(&engine), Epsilon::ZERO, "nothing was charged");
    assert!(engine.runs().is_empty());
}

/// Each member gets the ceiling of their own context, named or not, and nothing of the other's.
#[test]
fn a_member_of_one_context_gets_that_one() {
    let world = World::new();
    let engine = with(&world, &file(MIA, MAX, ""));
    let (mia, max) = (principal("mia"), principal("max"));
    drop(engine.charge(&mia, in_context("a", None, "1.5")).expect("north has 2"));
    assert!(matches!(engine.charge(&mia, in_context("b", None, "1.5")), Err(EngineError::Refused(_))));
    // The second context pays for its member, although no context is named and the first is used up.
    drop(engine.charge(&max, in_context("c", None, "1.5")).expect("south has 2"));
    drop(engine.charge(&max, in_context("d", Some("south"), "0.5")).expect("and this is the rest"));
    assert!(matches!(engine.charge(&max, in_context("e", None, "0.1")), Err(EngineError::Refused(_))));
    let run = engine.submit(&mia, &pipeline("")).expect("submitted");
    assert!(engine.run(run).expect("a run").text.contains("context = \"north\""), "the account is written down");
    let result = engine.query(&mia, &query_request(None)).expect("a result");
    assert!(result.cost.is_some(), "charged now");
}

#[test]
fn a_member_of_several_contexts_names_one() {
    let world = World::new();
    let engine = with(&world, &file("", "members = [\"max\"]", JOINT));
    let (mia, max) = (principal("mia"), principal("max"));
    let both = MemberRefusal::Ambiguous {
        principal: "max".to_owned(),
        contexts: ["north", "south"].map(str::to_owned).to_vec(),
    };
    assert_eq!(refusal(engine.charge(&max, in_context("a", None, "1"))), both);
    assert_eq!(refusal(engine.submit(&max, &pipeline(""))), both);
    assert_eq!(spent(&engine), Epsilon::ZERO);
    // With a joint ceiling, a context without a list is open to all ML engineers.
    drop(engine.charge(&mia, in_context("b", None, "2")).expect("north"));
    assert!(matches!(
        refusal(engine.charge(&mia, in_context("c", Some("south"), "1"))),
        MemberRefusal::NotMember { .. }
    ));
    drop(engine.charge(&max, in_context("d", Some("south"), "1")).expect("south"));
    assert!(
        matches!(engine.charge(&max, in_context("e", Some("south"), "0.5")), Err(EngineError::Refused(_))),
        "together they have 3"
    );
}

#[test]
fn one_person_is_never_given_two_ceilings() {
    let world = World::new();
    let engine = world.open();
    let ada = principal("ada");
    let refused = |file: &str| refusal(engine.create_stream(&ada, file));
    assert_eq!(refused(&file("", "", "")), MemberRefusal::NoMembers("north".to_owned()));
    assert_eq!(refused(&file(MIA, "", "")), MemberRefusal::NoMembers("south".to_owned()));
    let twice = |one: &str, other: &str| MemberRefusal::TwoContexts {
        principal: "mia".to_owned(),
        contexts: [one, other].map(str::to_owned),
    };
    assert_eq!(refused(&file(MIA, "members = [\"max\", \"mia\"]", "")), twice("north", "south"));
    assert!(engine.stream_names().is_empty(), "none of them was created");
    engine.create_stream(&ada, &file(MIA, MAX, "")).expect("a stream");
    // She keeps what she learned in one context, also after leaving it and after a restart.
    assert_eq!(
        refusal(engine.change_stream(&ada, &file("members = [\"eve\"]", "members = [\"mia\"]", ""))),
        twice("north", "south")
    );
    let without = file("members = [\"eve\"]", MAX, "");
    assert_eq!(engine.change_stream(&ada, &without).expect("one officer"), PolicyOutcome::InForce);
    engine.close().expect("closed");
    let engine = world.open();
    let back = file("members = [\"eve\"]", "members = [\"max\", \"mia\"]", "");
    assert_eq!(refusal(engine.change_stream(&ada, &back)), twice("north", "south"));
    let home = file("members = [\"eve\", \"mia\"]", MAX, "");
    assert_eq!(engine.change_stream(&ada, &home).expect("where she was"), PolicyOutcome::InForce);
    assert_eq!(engine.change_stream(&ada, &home).expect("read"), PolicyOutcome::Same);
    // With a joint ceiling, membership of both contexts gains nothing.
    let joint = file(MIA, MIA, JOINT).replace("name = \"rides\"", "name = \"shared\"");
    engine.create_stream(&ada, &joint).expect("a stream");
}

#[test]
fn the_members_of_a_looser_policy_are_checked_too() {
    let world = World::new();
    let engine = world.open();
    let (ada, bob) = (principal("ada"), principal("bob"));
    engine.create_stream(&ada, &file(MIA, MAX, "")).expect("a stream");
    let looser = file(MIA, "members = [\"max\", \"eve\"]", "").replace("epsilon = \"2\"", "epsilon = \"4\"");
    assert_eq!(engine.change_stream(&ada, &looser).expect("read"), PolicyOutcome::Waits);
    // Meanwhile eve joins the other context. The pending proposal lapses with the file it was based on, and is refused
    // now.
    let moved = file("members = [\"mia\", \"eve\"]", MAX, "");
    assert_eq!(engine.change_stream(&ada, &moved).expect("read"), PolicyOutcome::InForce);
    let digest = |engine: &Engine| {
        let view = engine.snapshot().expect("a snapshot").stream("rides").expect("the stream");
        view.proposal.map(|proposal| proposal.digest).unwrap_or_default()
    };
    assert!(engine.approve_policy(&bob, "rides", &digest(&engine)).is_err());
    assert!(matches!(refusal(engine.change_stream(&ada, &looser)), MemberRefusal::TwoContexts { .. }));
}
