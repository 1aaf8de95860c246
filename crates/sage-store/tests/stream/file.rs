//! A stream's file is parsed, written back in canonical form, and refused with the line of the error.

use sage_kernel::{AccessModes, Rule};
use sage_store::stream::{Change, Kind, LateRows, Limits, Role, StreamFile, StreamFileError, Unit};

const TAXI: &str = r#"
[stream]
name = "taxi"
unit = "event"
time = "pickup"
blocks = { time = "1h" }
test_share = 0.1
retention = "400d"

[policy]
epsilon = 1.0
delta = "1e-6"
filter = "renyi"

[access]
privacy-officer = ["ada"]

[[columns]]
name = "pickup"
type = "time"
min = "2023-01-01"

[[columns]]
name = "distance"
type = "number"
min = 0
max = 100.0
outside = "clamp"

[[columns]]
name = "payment"
type = "category"
categories = ["card", "cash", "sonst \"x\""]
other = "cash"
nullable = true
"#;

const RETAIL: &str = r#"
[stream]
name = "retail"
unit = "user"
user = "customer"
contribution = 20
time = "at"
blocks = { user_range = 1000, time = "30d", attribute = "country" }
disclosure_interval = "5m"
[policy]
access_modes = ["enforced", "attested"]
[[policy.contexts]]
name = "north"
epsilon = "0.5"
delta = "1e-7"
filter = "basic"
[[policy.contexts]]
name = "south"
epsilon = "0.30000000000000000001"
delta = "0"
filter = "basic"
[policy.joint]
epsilon = "0.7"
delta = "2e-7"
filter = "strong"
[[columns]]
name = "customer"
type = "integer"
min = 0
max = 9_999_999
outside = "drop"
[[columns]]
name = "at"
type = "time"
[[columns]]
name = "country"
type = "category"
categories = ["FR", "a/b"]
[[columns]]
name = "note"
type = "text"
nullable = true
[[columns]]
name = "paid"
type = "boolean"
"#;

#[test]
fn every_key_of_a_file_is_read() {
    let taxi = StreamFile::parse(TAXI).expect("a stream");
    assert_eq!((taxi.name.as_str(), &taxi.unit, taxi.late), ("taxi", &Unit::Event, LateRows::Quarantine));
    assert_eq!(taxi.access[&Role::PrivacyOfficer], ["ada"]);
    let Limits::Single(limit) = taxi.policy.limits else { panic!("one limit") };
    assert_eq!((limit.ceiling.epsilon.to_string(), limit.rule), ("1".to_owned(), Rule::Renyi));
    assert_eq!(taxi.policy.access_modes, AccessModes::EnforcedOnly);
    assert_eq!(
        taxi.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(),
        ["pickup", "distance", "payment", "_lane"]
    );
    assert!(taxi.kernel_policy().is_some() && taxi.split().is_some());
    assert_eq!(taxi.unit_text(), "one row");

    let retail = StreamFile::parse(RETAIL).expect("a stream");
    assert_eq!(retail.unit, Unit::User { contribution: 20 });
    let policy = retail.kernel_policy().expect("a policy");
    assert_eq!(policy.contexts().iter().map(|context| context.name.as_str()).collect::<Vec<_>>(), ["north", "south"]);
    // A ceiling between two units is rounded down.
    assert_eq!(policy.contexts()[1].filter.ceiling().epsilon.to_string(), "0.3");
    assert!(policy.joint().is_some());
    assert_eq!(policy.access_modes(), AccessModes::AttestedToo);
    assert!(matches!(retail.columns[3].kind, Kind::Text { longest: 1024 }));
    assert_eq!(retail.unit_text(), "all rows of one user within one block");
}

#[test]
fn the_canonical_text_parses_to_the_same_stream() {
    for text in [TAXI, RETAIL] {
        let stream = StreamFile::parse(text).expect("a stream");
        let written = stream.to_text();
        assert_eq!(StreamFile::parse(&written).as_ref(), Ok(&stream), "{written}");
        assert_eq!(StreamFile::parse(&written).expect("a stream").to_text(), written);
    }
}

/// The retail file with lists of members.
fn with_members() -> String {
    let text = RETAIL.replace("name = \"north\"", "name = \"north\"\nmembers = [\"mia\", \"max\"]");
    let text = text.replace("name = \"south\"", "name = \"south\"\nmembers = [\"zoe\"]");
    text.replace(
        "[[columns]]\nname = \"customer\"",
        "[access]\nml-engineer = [\"mia\", \"max\", \"zoe\"]\n[[columns]]\nname = \"customer\"",
    )
}

#[test]
fn contexts_list_their_members() {
    let stream = StreamFile::parse(&with_members()).expect("a stream");
    let pays = |who: &str, named: Option<&str>| stream.policy.paying_context(who, named);
    assert_eq!(pays("mia", None), Ok(Some("north".to_owned())));
    assert_eq!(pays("zoe", Some("south")), Ok(Some("south".to_owned())));
    assert!(pays("zoe", Some("north")).is_err() && pays("eve", None).is_err());
    assert_eq!(StreamFile::parse(&stream.to_text()).as_ref(), Ok(&stream), "{}", stream.to_text());
    let without = StreamFile::parse(&with_members().replace("\nmembers = [\"zoe\"]", "")).expect("a stream");
    assert_eq!(stream.changes(&without), Ok(vec![Change::Members]), "members are not part of the ceilings");
    assert_eq!(stream.kernel_policy(), without.kernel_policy());
    for (from, to) in
        [("[\"zoe\"]", "[]"), ("[\"zoe\"]", "\"zoe\""), ("[\"zoe\"]", "[\"\"]"), ("[\"zoe\"]", "[\"zoo\"]")]
    {
        let error = StreamFile::parse(&with_members().replacen(from, to, 1)).expect_err("no such list");
        assert!(error.to_string().contains("members"), "{error}");
    }
}

/// A file from before contexts had members is still read. If one person could spend in several contexts without a joint
/// ceiling, nobody can spend until an officer lists the members.
#[test]
fn files_without_members_allow_spending_only_if_that_is_safe() {
    let joint = StreamFile::parse(RETAIL).expect("a stream");
    assert_eq!(joint.policy.paying_context("mia", Some("south")), Ok(Some("south".to_owned())));
    let (before, rest) = RETAIL.split_once("[policy.joint]").expect("a joint ceiling");
    let (_, after) = rest.split_once("[[columns]]").expect("columns");
    let apart = StreamFile::parse(&format!("{before}[[columns]]{after}")).expect("a stream");
    for named in [None, Some("north"), Some("south")] {
        let refused = apart.policy.paying_context("mia", named).expect_err("she would have both ceilings");
        assert!(refused.to_string().contains("names no members"), "{refused}");
    }
    let one = "[[policy.contexts]]\nname = \"north\"\nepsilon = \"1\"\ndelta = \"0\"\nfilter = \"basic\"\n";
    let single =
        TAXI.replace("[policy]\nepsilon = 1.0\ndelta = \"1e-6\"\nfilter = \"renyi\"\n", &format!("[policy]\n{one}"));
    let single = StreamFile::parse(&single).expect("a stream");
    assert_eq!(single.policy.paying_context("mia", None), Ok(Some("north".to_owned())));
    let taxi = StreamFile::parse(TAXI).expect("a stream");
    assert_eq!(taxi.policy.paying_context("mia", None), Ok(None));
    assert!(taxi.policy.paying_context("mia", Some("north")).is_err());
}

/// Each case: a text of the taxi file, its replacement, and what the error must contain.
#[test]
fn errors_name_the_line_the_key_and_the_allowed_values() {
    for (from, to, expected) in [
        ("epsilon = 1.0", "epsilom = 1.0", &["line 11", "`policy.epsilom`", "did you mean `epsilon`?"][..]),
        ("epsilon = 1.0", "epsilon = 0", &["line 11", "`policy.epsilon` is 0", "above zero"]),
        ("epsilon = 1.0", "epsilon = nan", &["line 11", "`policy.epsilon` is nan"]),
        ("epsilon = 1.0", "epsilon = -1.0", &["line 11", "negative"]),
        ("epsilon = 1.0", "", &["`policy.epsilon` is missing"]),
        ("delta = \"1e-6\"", "delta = \"1\"", &["line 12", "below one"]),
        ("filter = \"renyi\"", "filter = \"reny\"", &["line 13", "did you mean \"renyi\"?"]),
        ("[policy]", "[polcy]", &["line 10", "`polcy`", "did you mean `policy`?"]),
        ("unit = \"event\"", "unit = \"row\"", &["line 4", "\"event\" or \"user\""]),
        ("unit = \"event\"", "", &["line 2", "`stream.unit` is missing"]),
        ("unit = \"event\"", "unit = \"user\"\ncontribution = 5", &["`stream.user` is missing"]),
        ("unit = \"event\"", "unit = \"event\"\ncontribution = 5", &["`stream.contribution` is 5", "left out"]),
        ("time = \"pickup\"", "time = \"distance\"", &["line 5", "of type \"time\""]),
        ("time = \"pickup\"", "", &["`stream.time` is missing"]),
        ("{ time = \"1h\" }", "{ time = \"1y\" }", &["line 6", "`stream.blocks.time`", "\"15m\""]),
        ("{ time = \"1h\" }", "{}", &["line 6", "`stream.blocks`", "user_range"]),
        ("{ time = \"1h\" }", "{ attribute = \"payment\" }", &["line 6", "category", "not nullable"]),
        ("{ time = \"1h\" }", "{ user_range = 0 }", &["line 6", "1 to 1000000000"]),
        ("test_share = 0.1", "test_share = 1.0", &["line 7", "between zero and one"]),
        ("retention = \"400d\"", "retention = 400", &["line 8", "`stream.retention` is 400"]),
        (
            "retention = \"400d\"",
            "disclosure_interval = \"2d\"",
            &["line 8", "`stream.disclosure_interval` is \"2d\"", "at most a day"],
        ),
        (
            "retention = \"400d\"",
            "disclosure_interval = \"30s\"",
            &["`stream.disclosure_interval` is \"30s\"", "at least a minute"],
        ),
        ("name = \"taxi\"", "name = \"../taxi\"", &["line 3", "small letters"]),
        ("privacy-officer", "officer", &["`access.officer`", "did you mean `privacy-officer`?"]),
        ("privacy-officer = [\"ada\"]", "privacy-officer = \"ada\"", &["a list of names"]),
        ("name = \"distance\"", "name = \"_lane\"", &["`columns[1].name`", "neither starts with `_`"]),
        ("name = \"distance\"", "name = \"pickup\"", &["no other column"]),
        ("max = 100.0", "max = -1.0", &["line 27", "`columns[1].max` is -1.0", "at least `min`"]),
        ("max = 100.0", "max = inf", &["finite"]),
        ("max = 100.0", "", &["`columns[1].max` is missing", "without looking at rows"]),
        ("outside = \"clamp\"", "categories = [\"a\"]", &["no such key"]),
        ("other = \"cash\"", "other = \"coin\"", &["\"drop\" or one of the categories"]),
        ("\"card\", \"cash\"", "\"cash\", \"cash\"", &["different texts"]),
        ("min = \"2023-01-01\"", "min = \"soon\"", &["line 21", "in UTC"]),
        ("type = \"number\"", "type = \"float\"", &["\"number\" or \"integer\""]),
        ("[stream]", "[stream", &["line 2", "invalid TOML"]),
    ] {
        assert!(TAXI.contains(from), "the table is out of date: {from}");
        let error = StreamFile::parse(&TAXI.replacen(from, to, 1)).expect_err(to).to_string();
        for part in expected {
            assert!(error.contains(part), "{to}: {error} lacks {part}");
        }
    }
    assert!(matches!(StreamFile::parse(""), Err(StreamFileError::Missing { line: 1, .. })));
}

#[test]
fn the_rows_of_a_user_stay_in_one_block() {
    for (from, to, expected) in [
        // A late block would give one user's window two budgets.
        ("contribution = 20", "contribution = 20\nlate = \"late-block\"", "two blocks"),
        // Clamping would turn one user into another.
        ("outside = \"drop\"", "outside = \"clamp\"", "outside = \"drop\""),
        ("min = 0", "min = -5", "min = 0 or more"),
        ("contribution = 20", "", "`stream.contribution` is missing"),
    ] {
        let error = StreamFile::parse(&RETAIL.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
    let ids_as_text =
        RETAIL.replace("type = \"integer\"\nmin = 0\nmax = 9_999_999\noutside = \"drop\"", "type = \"text\"");
    assert!(StreamFile::parse(&ids_as_text).is_err(), "ranges need numbers");
    assert!(StreamFile::parse(&ids_as_text.replace("user_range = 1000, ", "")).is_ok());
}

#[test]
fn allowed_changes_are_listed_and_others_refused() {
    let old = StreamFile::parse(TAXI).expect("a stream");
    for (from, to, expected) in [
        ("epsilon = 1.0", "epsilon = 1.0", Ok(vec![])),
        ("epsilon = 1.0", "epsilon = 2.0", Ok(vec![Change::Policy])),
        ("[\"ada\"]", "[\"ada\", \"bob\"]", Ok(vec![Change::Officers])),
        ("test_share = 0.1", "test_share = 0.1\nanswers = \"at-interval\"", Ok(vec![Change::Disclosure])),
        ("retention = \"400d\"", "late = \"late-block\"", Ok(vec![Change::Retention, Change::Late])),
        ("test_share = 0.1", "test_share = 0.1\ntick = \"5m\"", Ok(vec![Change::DisclosureInterval])),
        ("max = 100.0", "max = 101.0", Err("`distance`")),
        ("time = \"1h\"", "time = \"2h\"", Err("`blocks`")),
        ("name = \"distance\"", "name = \"length\"", Err("columns cannot")),
        ("test_share = 0.1", "test_share = 0.2", Err("`test_share`")),
    ] {
        let new = StreamFile::parse(&TAXI.replacen(from, to, 1)).expect(to);
        match (old.changes(&new), expected) {
            (Ok(changes), Ok(expected)) => assert_eq!(changes, expected, "{to}"),
            (Err(refused), Err(part)) => assert!(refused.to_string().contains(part), "{to}: {refused}"),
            (found, expected) => panic!("{to}: {found:?}, not {expected:?}"),
        }
    }
}

#[test]
fn the_parser_never_panics() {
    for cut in 0..TAXI.len() {
        if TAXI.is_char_boundary(cut) {
            let _either = StreamFile::parse(&TAXI[..cut]);
            let _either = StreamFile::parse(&TAXI[cut..]);
        }
    }
    let deep = format!("a = {}", "[".repeat(100_000));
    assert!(StreamFile::parse(&deep).is_err());
}

/// The keys of earlier releases, which the texts of streams in old logs have, mean the same; the canonical text has the
/// present ones.
#[test]
fn former_keys_are_read() {
    let present = StreamFile::parse(RETAIL).expect("a stream");
    let former = RETAIL
        .replace("disclosure_interval = \"5m\"", "tick = \"5m\"")
        .replace("access_modes = [\"enforced\", \"attested\"]", "doors = [\"enforced\", \"declared\"]");
    assert!(former.contains("tick") && former.contains("declared"), "the table is out of date");
    let read = StreamFile::parse(&former).expect("a stream");
    assert_eq!(read, present);
    assert_eq!(read.policy.access_modes, AccessModes::AttestedToo);
    assert!(!read.to_text().contains("tick =") && !read.to_text().contains("doors"));
    for (from, to, expected) in [
        ("tick = \"5m\"", "tick = \"5m\"\ndisclosure_interval = \"5m\"", "the former name of `disclosure_interval`"),
        ("[policy]", "[policy]\naccess_modes = [\"enforced\"]", "the former name of `access_modes`"),
        // Each word belongs to its own key.
        ("\"declared\"", "\"attested\"", "`policy.doors`"),
        ("tick = \"5m\"", "tick = \"2d\"", "`stream.tick` is \"2d\""),
    ] {
        assert!(former.contains(from), "the table is out of date: {from}");
        let error = StreamFile::parse(&former.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
    let error =
        StreamFile::parse(&RETAIL.replace("\"attested\"", "\"declared\"")).expect_err("a former word").to_string();
    assert!(error.contains("`policy.access_modes`"), "{error}");
    // Messages about other keys do not name them.
    let error = StreamFile::parse(&RETAIL.replace("[policy]", "[policy]\nmode = 1")).expect_err("no key").to_string();
    assert!(!error.contains("doors"), "{error}");
}
