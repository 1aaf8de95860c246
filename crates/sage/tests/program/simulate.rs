//! The loop under a simulated clock, from the command line and as a page.

use serde_json::Value;

use crate::http::Serving;
use crate::story::documented;
use crate::workdir::Workdir;

#[test]
fn a_simulation_prints_text_json_and_plots() {
    let workdir = Workdir::new();
    let line = "simulate --blocks 60 --rate 0.5 --seeds 2 --scheduler even-split --scheduler pack";
    let output = workdir.run(&format!("{line} --svg year.svg"));
    assert_eq!(output.code, Some(0), "{}", output.err);
    for part in ["even-split", "pack", "informed", "frugal", "slowest tenth", "used up", "0.5 pipelines a block"] {
        assert!(output.out.contains(part), "{part:?} is missing in\n{}", output.out);
    }
    assert!(output.out.lines().all(|line| line.chars().count() <= 140), "{}", output.out);
    let picture = std::fs::read_to_string(workdir.path("year.svg")).expect("the picture");
    assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>"), "{picture}");
    assert_eq!(picture.matches("<polyline").count(), 12, "three pictures of four lines");
    let found = workdir.json(line);
    documented(&found);
    let ways = found["ways"].as_array().expect("ways");
    documented(&ways[0]);
    assert_eq!(ways.len(), 4);
    for way in ways {
        let number = |key: &str| way[key].as_u64().unwrap_or_else(|| panic!("{key} is not a number in {way}"));
        assert_eq!(number("came"), number("released") + number("gave_up") + number("waiting"), "{way}");
        assert_eq!(way["came"], ways[0]["came"], "the same seeds bring the same pipelines");
        let after = way["after_each_block"]["released"].as_array().expect("a list");
        assert_eq!((after.len(), after.last()), (60, Some(&way["released"])), "{way}");
        let lost: f64 = way["epsilon_lost"].as_str().and_then(|lost| lost.parse().ok()).expect("a number");
        assert!(lost > 0.0 && lost <= 1.0, "{way}");
    }
    assert_eq!(workdir.json(line), found, "the same seed, another story");
    assert_ne!(workdir.json(&format!("{line} --seed 5"))["ways"], found["ways"]);
    let loose = workdir.json(&format!("{line} --epsilon 8"));
    let released = |found: &Value| found["ways"][0]["released"].as_u64();
    assert!(released(&loose) > released(&found), "eight times the budget releases no more");
}

#[test]
fn scenarios_that_cannot_be_meant_are_refused() {
    let workdir = Workdir::new();
    for (flags, said) in [
        ("--blocks 0", "blocks"),
        ("--rate 0", "rate"),
        ("--rate 1e9", "at most 5000 pipelines"),
        ("--epsilon x", "--epsilon is no ceiling: \"x\""),
        ("--epsilon 0", "--epsilon is no ceiling"),
        ("--delta 2", "--delta is no ceiling"),
        ("--seeds 0", "--seeds must be from 1 to 100"),
        ("--scheduler none", "possible values"),
    ] {
        workdir.fails(&format!("simulate {flags}"), 2, said);
    }
    workdir.fails("simulate --blocks 5 --svg nowhere/at/all.svg", 1, "cannot be written");
}

#[test]
fn the_page_takes_a_form_and_has_a_table_beside_its_pictures() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let carl = workdir.good("token create --as carl").trim().to_owned();
    let serving = Serving::start(&workdir);
    let page = serving.get("/simulate?blocks=40&rate=0.5&epsilon=2&rows=10000&patience=20", &carl);
    assert_eq!(page.status, 200, "{}", page.body);
    for part in ["<svg", "<desc", "<table", "value=\"0.5\"", "40 blocks", "even-split", "informed"] {
        assert!(page.body.contains(part), "{part:?} is missing in\n{}", page.body);
    }
    for elsewhere in ["http://", "https://", " style="] {
        assert!(!page.body.contains(elsewhere), "{elsewhere}");
    }
    for (query, said) in [
        ("blocks=100000&rate=1", "This page simulates at most 400 blocks"),
        ("rate=x", "Every field must be a number"),
        ("rate=-1", "rate is out of range"),
        ("epsilon=%3Ci%3E", "&lt;i&gt;"),
        ("patience=soon", "Every field must be a number"),
    ] {
        let page = serving.get(&format!("/simulate?{query}"), &carl);
        assert!(page.status == 200 && page.body.contains(said), "{query}: {} {}", page.status, page.body);
        assert!(!page.body.contains("<i>"), "{query}: {}", page.body);
    }
}
