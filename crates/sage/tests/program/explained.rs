//! The hints of `sage explain`: one line each, and the same as JSON.

use crate::place::{Place, project};

/// The lines that begin with `or`.
fn others(output: &str) -> Vec<String> {
    output.lines().filter_map(|line| line.strip_prefix("  or    ")).map(str::to_owned).collect()
}

fn kinds(place: &Place, run: u64) -> Vec<String> {
    let options = place.json(&format!("explain {run}"))["options"].clone();
    let kinds = options.as_array().expect("a list").iter().map(|one| one["kind"].as_str().expect("a kind").to_owned());
    kinds.collect()
}

#[test]
fn explain_shows_what_a_run_waits_for() {
    let place = Place::new();
    place.good("generate taxi --rows 20_000 --start 2026-01-01 --out rides");
    place.good("stream create rides/_stream.toml --as ada");
    place.good("ingest taxi rides --as dan");
    place.variant("examples/speed.toml", "wide.toml", &[("min = 4", "min = 40")]);
    let wide = std::fs::read_to_string(place.path("wide.toml")).expect("a pipeline");
    std::fs::write(place.path("wide.toml"), format!("{wide}\n[budget]\nepsilon0 = \"1.0\"\n")).expect("a file");
    let count =
        "[pipeline]\nname = \"quick\"\nstream = \"taxi\"\n[train]\nkind = \"statistic\"\nstatistic = \"count\"\n";
    std::fs::write(place.path("quick.toml"), format!("{count}[budget]\nepsilon0 = \"1.0\"\n")).expect("a file");
    let small = count.replace("quick", "small");
    std::fs::write(place.path("small.toml"), small).expect("a file");
    // New blocks are reserved for the first waiting run, as far as its next attempt needs them.
    place.good("submit wide.toml --as mia");
    place.good("blocks taxi --do seal --before 2027-01-01 --as dan");
    place.good("submit quick.toml --as mia");
    place.good("submit small.toml --as mia");
    assert!(place.good("work").starts_with("1 attempt performed"), "what is not promised is lent");
    assert_eq!(place.json("explain 3")["status"], "accepted");
    let sealed = place.json("explain 1")["waits_for"]["sealed_blocks"].as_u64().expect("a number");
    let lines = others(&place.good("explain 1"));
    assert_eq!(lines, [format!("wait for {} blocks more that admit the attempt", 40 - sealed)], "{lines:?}");
    assert_eq!(kinds(&place, 1), ["wait_for_blocks"]);
    let lines = others(&place.good("explain 2"));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("wait until runs that came earlier have made their next attempts"), "{lines:?}");
    assert_eq!(kinds(&place, 2), ["larger_share"]);
    let why = place.json("explain 2");
    assert_eq!(why["waits_for"]["blocks_free_now"], 0);
    assert!(why["why"].as_str().expect("a text").contains("promised to runs that came earlier"), "{why}");
    place.good("cancel 1 --as mia");
    assert!(place.good("work").starts_with("1 attempt performed"), "its share came back");
    assert_eq!(kinds(&place, 2), Vec::<String>::new(), "nothing stands in its way any more");
}

/// Each limit that blocks a run is named by its key in docs/reference/pipeline-file.md, with its current value.
#[test]
fn every_limit_that_blocks_a_run_is_named() {
    let (place, _) = Place::with_rides("60_000");
    let document = std::fs::read_to_string(project().join("docs/reference/pipeline-file.md")).expect("the page");
    let budget = "[budget]\nepsilon0 = \"0.1\"\nepsilon_max = \"0.1\"\n";
    let still = "[budget]\nepsilon0 = \"0.1\"\nepsilon_max = \"0.15\"\n[adapt]\ndata_doublings = 1\n";
    for (number, name, window, rest, wanted) in [
        (1, "small", "min = 2, max = 4", budget, &["window.max", "epsilon_max"][..]),
        (2, "few", "min = 2", "[adapt]\nattempts = 1\n", &["attempts"]),
        (3, "still", "min = 2", still, &["data_doublings", "epsilon_max"]),
    ] {
        let changes = [("min = 4", window), ("target = 4.0", "target = 0.0001"), ("speed-by-vendor", name)];
        place.variant("examples/speed.toml", "one.toml", &changes);
        let text = std::fs::read_to_string(place.path("one.toml")).expect("a pipeline");
        std::fs::write(place.path("one.toml"), format!("{text}\n{rest}")).expect("a file");
        let output = place.run("submit one.toml --wait --as mia");
        assert_eq!(output.code, Some(11), "{name}: {}", output.err);
        let lines = others(&place.good(&format!("explain {number}")));
        assert_eq!(lines.len(), wanted.len() + 1, "{name}: {lines:?}");
        for (line, key) in lines.iter().zip(wanted) {
            assert!(line.contains(&format!("raise {key} in [")), "{name}: {line}");
            let own = key.rsplit('.').next().expect("a key");
            assert!(document.contains(own), "docs/reference/pipeline-file.md has no {own}");
        }
        let met = lines.last().and_then(|line| line.strip_prefix("a looser target: the last test would have met "));
        let met: f64 = met.and_then(|met| met.parse().ok()).unwrap_or_else(|| panic!("{name}: {lines:?}"));
        assert!(met > 0.0001, "{name}: {met}");
        // A target that the last test would have met is met again by the same attempt, up to noise.
        assert_eq!(kinds(&place, number).last().map(String::as_str), Some("looser_target"));
        assert_eq!(kinds(&place, number).len(), lines.len(), "as many for programs as for people");
    }
    assert!(others(&place.good("explain 1"))[0].ends_with("now 4 blocks"));
    assert!(others(&place.good("explain 2"))[0].ends_with("now 1"));
    let kinds: Vec<String> = (1..=3).flat_map(|run| kinds(&place, run)).collect();
    for kind in ["larger_window", "more_budget", "more_attempts", "more_data_doublings"] {
        assert!(kinds.iter().any(|one| one == kind), "{kind} is missing in {kinds:?}");
    }
}
