//! The hints of `sage explain`: one line each, and the same as JSON.

use crate::workdir::{Workdir, project};

/// The lines that begin with `or`.
fn others(output: &str) -> Vec<String> {
    output.lines().filter_map(|line| line.strip_prefix("  or    ")).map(str::to_owned).collect()
}

fn kinds(workdir: &Workdir, run: u64) -> Vec<String> {
    let options = workdir.json(&format!("explain {run}"))["options"].clone();
    let kinds = options.as_array().expect("a list").iter().map(|one| one["kind"].as_str().expect("a kind").to_owned());
    kinds.collect()
}

#[test]
fn explain_shows_what_a_run_waits_for() {
    let workdir = Workdir::new();
    workdir.good("generate taxi --rows 20_000 --start 2026-01-01 --out rides");
    workdir.good("stream create rides/_stream.toml --as ada");
    workdir.good("ingest taxi rides --as dan");
    workdir.variant("examples/speed.toml", "wide.toml", &[("min = 4", "min = 40")]);
    let wide = std::fs::read_to_string(workdir.path("wide.toml")).expect("a pipeline");
    std::fs::write(workdir.path("wide.toml"), format!("{wide}\n[budget]\nepsilon0 = \"1.0\"\n")).expect("a file");
    let count =
        "[pipeline]\nname = \"quick\"\nstream = \"taxi\"\n[train]\nkind = \"statistic\"\nstatistic = \"count\"\n";
    std::fs::write(workdir.path("quick.toml"), format!("{count}[budget]\nepsilon0 = \"1.0\"\n")).expect("a file");
    let small = count.replace("quick", "small");
    std::fs::write(workdir.path("small.toml"), small).expect("a file");
    // New blocks are reserved for the first waiting run, as far as its next attempt needs them.
    workdir.good("submit wide.toml --as mia");
    workdir.good("blocks taxi --do seal --before 2027-01-01 --as dan");
    workdir.good("submit quick.toml --as mia");
    workdir.good("submit small.toml --as mia");
    assert!(workdir.good("work").starts_with("1 attempt performed"), "what is not promised is lent");
    assert_eq!(workdir.json("explain 3")["status"], "accepted");
    let sealed = workdir.json("explain 1")["waits_for"]["sealed_blocks"].as_u64().expect("a number");
    let lines = others(&workdir.good("explain 1"));
    assert_eq!(lines, [format!("wait for {} blocks more that admit the attempt", 40 - sealed)], "{lines:?}");
    assert_eq!(kinds(&workdir, 1), ["wait_for_blocks"]);
    let lines = others(&workdir.good("explain 2"));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("wait until runs that came earlier have made their next attempts"), "{lines:?}");
    assert_eq!(kinds(&workdir, 2), ["larger_share"]);
    let why = workdir.json("explain 2");
    assert_eq!(why["waits_for"]["blocks_free_now"], 0);
    assert!(why["why"].as_str().expect("a text").contains("promised to runs that came earlier"), "{why}");
    workdir.good("cancel 1 --as mia");
    assert!(workdir.good("work").starts_with("1 attempt performed"), "its share came back");
    assert_eq!(kinds(&workdir, 2), Vec::<String>::new(), "nothing stands in its way any more");
}

/// Each limit that blocks a run is named by its key in docs/reference/pipeline-file.md, with its current value.
#[test]
fn every_limit_that_blocks_a_run_is_named() {
    let (workdir, _) = Workdir::with_rides("60_000");
    let document = std::fs::read_to_string(project().join("docs/reference/pipeline-file.md")).expect("the page");
    let budget = "[budget]\nepsilon0 = \"0.1\"\nepsilon_max = \"0.1\"\n[adapt]\nstrategy = \"frugal\"\n";
    let still =
        "[budget]\nepsilon0 = \"0.1\"\nepsilon_max = \"0.15\"\n[adapt]\nstrategy = \"frugal\"\ndata_doublings = 1\n";
    for (number, name, window, rest, wanted) in [
        (1, "small", "min = 2, max = 4", budget, &["window.max", "epsilon_max"][..]),
        (2, "few", "min = 2", "[adapt]\nstrategy = \"frugal\"\nattempts = 1\n", &["attempts"]),
        (3, "still", "min = 2", still, &["data_doublings", "epsilon_max"]),
    ] {
        let changes = [("min = 4", window), ("target = 4.0", "target = 0.0001"), ("speed-by-vendor", name)];
        workdir.variant("examples/speed.toml", "one.toml", &changes);
        let text = std::fs::read_to_string(workdir.path("one.toml")).expect("a pipeline");
        std::fs::write(workdir.path("one.toml"), format!("{text}\n{rest}")).expect("a file");
        let output = workdir.run("submit one.toml --wait --as mia");
        assert_eq!(output.code, Some(11), "{name}: {}", output.err);
        let lines = others(&workdir.good(&format!("explain {number}")));
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
        assert_eq!(kinds(&workdir, number).last().map(String::as_str), Some("looser_target"));
        assert_eq!(kinds(&workdir, number).len(), lines.len(), "as many for programs as for people");
    }
    assert!(others(&workdir.good("explain 1"))[0].ends_with("now 4 blocks"));
    assert!(others(&workdir.good("explain 2"))[0].ends_with("now 1"));
    let kinds: Vec<String> = (1..=3).flat_map(|run| kinds(&workdir, run)).collect();
    for kind in ["larger_window", "more_budget", "more_attempts", "more_data_doublings"] {
        assert!(kinds.iter().any(|one| one == kind), "{kind} is missing in {kinds:?}");
    }
}
