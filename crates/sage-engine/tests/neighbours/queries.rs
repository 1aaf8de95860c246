//! Private SQL with generated expressions on generated rows.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sage_engine::query::PrivateQuery;
use sage_engine::stream::StreamFile;
use sage_engine::{BlockSelection, EngineOptions, Epsilon, QueryRequest, Spend};
use sage_sql::synthetic::{self, Dice};
use sage_sql::{Schema, parse, plan};

use crate::kinds;
use crate::observe::{difference, observed};
use crate::pair::{STREAM, Side, neighbours, person, with_bob};
use crate::rows;

/// How many expressions one query has, beside its condition and its keys.
const EXPRESSIONS: usize = 20;

/// Pairs of streams, and queries on each: with the expressions of a query more than 10,000 pairs of expression and
/// data, and more than 1,000,000 in a soak.
fn sizes() -> (u64, u64) {
    if std::env::var_os("SAGE_SOAK").is_some() { (100, 500) } else { (10, 50) }
}

pub(crate) fn seed() -> u64 {
    let seed = std::env::var("SAGE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5a6e_1515);
    println!("SAGE_SEED={seed}");
    seed
}

/// An expression of a kind that the planner accepts.
pub(crate) fn accepted(dice: &mut Dice, generate: impl Fn(&mut Dice, u32) -> String) -> String {
    let schema = Schema::new(&synthetic::schema());
    loop {
        let depth = u32::try_from(1 + dice.below(3)).expect("small");
        let sql = generate(dice, depth);
        if parse(&sql).is_ok_and(|expression| plan(&expression, &schema).is_ok()) {
            return sql;
        }
    }
}

/// A generated number between bounds, which is not the same for every row.
pub(crate) fn bounded(dice: &mut Dice, most: u32) -> String {
    format!("greatest(0, least({most}, CASE WHEN b THEN {} ELSE x END))", accepted(dice, synthetic::number))
}

fn aggregate(dice: &mut Dice) -> String {
    match dice.below(16) {
        0..3 => format!("sum(CASE WHEN {} THEN 1 ELSE 0 END)", accepted(dice, synthetic::condition)),
        3..5 => format!("avg(CASE WHEN {} > 0.5 THEN 1 ELSE 0 END)", accepted(dice, synthetic::number)),
        5..8 => format!("count({})", accepted(dice, synthetic::text)),
        8..10 => format!("sum(CASE WHEN {} IS NULL THEN 1 ELSE 0 END)", accepted(dice, synthetic::time)),
        10 => format!("sum({})", bounded(dice, 100)),
        11 => format!("avg({})", bounded(dice, 100)),
        12 => format!("variance({})", bounded(dice, 7)),
        13 => format!("stddev({})", bounded(dice, 7)),
        14 => "count(*)".to_owned(),
        _ => format!("quantile({}, 0.{})", bounded(dice, 9), 1 + dice.below(9)),
    }
}

fn key(dice: &mut Dice) -> String {
    match dice.below(5) {
        0 => format!("CASE WHEN {} THEN 'one' ELSE 'two' END", accepted(dice, synthetic::condition)),
        1 => format!("({}) IS TRUE", accepted(dice, synthetic::condition)),
        2 => format!("floor({})", bounded(dice, 3)),
        3 => "m".to_owned(),
        _ => "date_part('dow', u)".to_owned(),
    }
}

/// A query with many generated expressions.
fn query(dice: &mut Dice) -> String {
    let aggregates: Vec<String> = (0..EXPRESSIONS).map(|index| format!("{} AS a{index}", aggregate(dice))).collect();
    let condition = accepted(dice, synthetic::condition);
    let keys: Vec<String> = (0..[0, 0, 0, 1, 2][dice.below(5) as usize]).map(|_| key(dice)).collect();
    let keys = if keys.is_empty() { String::new() } else { format!(" GROUP BY {}", keys.join(", ")) };
    format!("SELECT {} FROM people WHERE {condition}{keys}", aggregates.join(", "))
}

/// Plans and asks a query. Its cells are noise and are left out; how many there are, and everything else, is not.
pub(crate) fn ask(side: &Side, key: &str, sql: &str) -> Result<Vec<String>, String> {
    let request = QueryRequest {
        key: key.to_owned(),
        stream: "people".to_owned(),
        context: None,
        sql: sql.to_owned(),
        spend: Spend::Epsilon(Epsilon::cost("0.001").expect("a cost")),
        which: BlockSelection::All,
    };
    let plan = side.engine.plan_query(&person("mia"), &request).map_err(|error| error.to_string())?;
    let found = side.engine.query(&person("mia"), &request).map_err(|error| error.to_string())?;
    let answer = &found.answer;
    let mut shown = vec![format!("{plan:?}"), format!("{:?} {}", found.cost, found.charge)];
    shown.push(format!("{:?} {:?} {}", answer.keys, answer.columns, answer.confidence));
    shown.extend(answer.lines.iter().map(|line| format!("{:?} {}", line.keys, line.cells.len())));
    shown.push(format!("{:?}", side.engine.snapshot().map_err(|error| error.to_string())?.blocks("people")));
    Ok(shown)
}

pub(crate) fn every_kind_of_query_runs() {
    let file = StreamFile::parse(STREAM).expect("a stream");
    let (seed, mut found) = (seed(), BTreeSet::new());
    for number in 0..100 {
        let sql = query(&mut Dice(seed.wrapping_add(number)));
        found.extend(PrivateQuery::new(&sql, &file).map(|question| kinds::of_query(&question)).unwrap_or_default());
    }
    assert_eq!(found, kinds::of_all_queries(), "left: run by the harness; right: kinds there are");
}

pub(crate) fn queries_on_neighbours_look_alike() {
    let (seed, (streams, queries)) = (seed(), sizes());
    let (mut answered, mut refused) = (0, 0);
    for stream in 0..streams {
        let mut dice = Dice(seed.wrapping_add(stream << 32));
        let count = 20 + dice.below(40) as usize;
        let more = *dice.pick(&rows::CONSPICUOUS);
        let sides = neighbours(STREAM, rows::HEADER, &rows::random(&mut dice, count), more);
        for number in stream * queries..(stream + 1) * queries {
            let sql = query(&mut Dice(seed.wrapping_add(number)));
            let key = format!("q{number}");
            let [one, two] = [0, 1].map(|side| observed(&sides[side], |side| ask(side, &key, &sql)));
            assert_eq!(difference(&one, &two), None, "stream {stream}, query {number}: {sql}");
            match &one.end {
                Ok(()) => answered += 1,
                Err(refusal) => {
                    println!("query {number}: {refusal}");
                    refused += 1;
                }
            }
        }
    }
    println!("{answered} answered, {refused} refused");
    assert!(answered > 8 * refused, "nearly all are answered: {answered}, {refused}");
}

/// The queries that broke the guarantee once.
pub(crate) fn known_attacks_show_nothing() {
    let sides = with_bob(40);
    let long = "a".repeat(5_000);
    for (number, condition) in [
        "CASE WHEN name='Bob' THEN date_part('foo', t) WHEN name='Zed' THEN 2 ELSE 1 END > 0".to_owned(),
        format!("name <> 'Bob' OR note LIKE '{long}'"),
        "CASE WHEN name = 'Bob' THEN 1 / (n - n) ELSE 1 END > 0".to_owned(),
        "CASE WHEN name = 'Bob' THEN CAST(note AS INT) ELSE 1 END > 0".to_owned(),
        "name <> 'Bob' OR extract(year from CAST(note AS TIMESTAMP)) > 0".to_owned(),
        "x * x * x > 1 OR power(n, n) > 1".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        let sql = format!("SELECT count(*) WHERE {condition}");
        let key = format!("attack {number}");
        let [one, two] = [0, 1].map(|side| observed(&sides[side], |side| ask(side, &key, &sql)));
        assert_eq!(difference(&one, &two), None, "{condition}");
    }
}

/// Where a stream's results leave at intervals, a result comes at the end of one, also for the caller.
pub(crate) fn an_answer_leaves_at_an_interval() {
    let file = STREAM.replace("[policy]", "answers = \"at-interval\"\n\n[policy]");
    let options = EngineOptions { interval: Some(Duration::from_secs(2)), ..EngineOptions::default() };
    let side = Side::new(&file, &options, &format!("{}{}", rows::HEADER, rows::regular(20)), false);
    let interval = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() / 2_000;
    for key in ["one", "two"] {
        let before = interval();
        ask(&side, key, "SELECT count(*)").expect("answered");
        assert!(interval() > before, "answered within the interval of the request");
    }
}
