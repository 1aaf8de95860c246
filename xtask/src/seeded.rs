//! Checks that no shipped build can draw reproducible noise.
//!
//! The kernel's seeded noise source contains a marker. It must be absent from the bytes of the release binary and
//! present in those of the experiments, which are built with the feature; otherwise the search would prove
//! nothing. The feature itself must be absent from the product's dependency graph and present in that of the experiments.

use std::path::Path;

use crate::workspace::{self, Failure};

/// The text that the kernel's seeded noise mixes into its seed; it must equal the kernel's constant.
const MARKER: &[u8] = b"sage seeded noise: experiments and tests only";

const FEATURE: &str = "sage-kernel feature \"seeded\"";

/// An experiment that draws seeded noise.
const SEEDED_PROGRAM: &str = "fits";

pub(crate) fn check() -> Result<(), Failure> {
    let target = workspace::target_directory()?;
    let experiments = ["--manifest-path", "experiments/Cargo.toml"];
    let build = ["build", "--release", "-p", "sage"];
    workspace::run(&mut workspace::cargo(&build))?;
    let build = [&["build", "--release", "--bin", SEEDED_PROGRAM], &experiments[..]].concat();
    workspace::run(workspace::cargo(&build).env("CARGO_TARGET_DIR", &target))?;

    let tree = ["tree", "--edges", "normal,features"];
    let product = workspace::output(&mut workspace::cargo(&[&tree[..], &["-p", "sage"]].concat()))?;
    let experiment_tree = workspace::output(&mut workspace::cargo(&[&tree[..], &experiments].concat()))?;

    let release = target.join("release");
    judge(
        Evidence { feature: product.contains(FEATURE), marker: holds_marker(&release.join("sage"))? },
        Evidence { feature: experiment_tree.contains(FEATURE), marker: holds_marker(&release.join(SEEDED_PROGRAM))? },
    )
}

/// The traces of seeded noise: in the dependency graph, and in the bytes of the program.
struct Evidence {
    feature: bool,
    marker: bool,
}

fn judge(product: Evidence, experiments: Evidence) -> Result<(), Failure> {
    let problems = [
        (product.feature, "the product is built with the feature `seeded`"),
        (product.marker, "the release binary contains the marker of seeded noise"),
        (!experiments.feature, "experiments are built without `seeded`: the search proves nothing"),
        (!experiments.marker, "no marker in an experiment that uses it: the search proves nothing"),
    ];
    let found: Vec<&str> = problems.iter().filter(|(bad, _)| *bad).map(|(_, what)| *what).collect();
    if found.is_empty() { Ok(()) } else { Err(found.join("; ")) }
}

fn holds_marker(program: &Path) -> Result<bool, Failure> {
    let bytes = std::fs::read(program).map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(contains(&bytes, MARKER))
}

fn contains(bytes: &[u8], pattern: &[u8]) -> bool {
    bytes.windows(pattern.len()).any(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use super::{Evidence, MARKER, contains, judge};

    #[test]
    fn the_marker_is_found_anywhere_in_the_bytes() {
        let program = [&[0, 1, 2], MARKER, &[3]].concat();
        assert!(contains(&program, MARKER));
        assert!(contains(MARKER, MARKER));
        assert!(!contains(&program[..MARKER.len() + 2], MARKER));
        assert!(!contains(b"short", MARKER));
    }

    #[test]
    fn seeded_noise_is_outside_the_product_and_inside_experiments() {
        let evidence = |feature, marker| Evidence { feature, marker };
        assert_eq!(judge(evidence(false, false), evidence(true, true)), Ok(()));
        assert!(judge(evidence(true, false), evidence(true, true)).is_err());
        assert!(judge(evidence(false, true), evidence(true, true)).is_err());
        assert!(judge(evidence(false, false), evidence(false, true)).is_err());
        assert!(judge(evidence(false, false), evidence(true, false)).is_err());
    }
}
