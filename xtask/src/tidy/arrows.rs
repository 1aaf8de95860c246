//! Which crate may depend on which, and on what the kernel may depend.

use serde_json::Value;

use super::Findings;
use crate::workspace::{self, Failure, list, text};

/// Each room with the rooms it may name. `experiments` names the kernel to enable its seeded noise; the
/// front ends reach kernel items through the engine, but for the Python package, whose own code runs
/// inside a session.
const ARROWS: &[(&str, &[&str])] = &[
    ("sage-exact", &[]),
    ("sage-kernel", &["sage-exact"]),
    ("sage-learn", &["sage-exact", "sage-kernel"]),
    ("sage-sandbox", &[]),
    ("sage-engine", &["sage-kernel", "sage-learn", "sage-sandbox"]),
    ("sage", &["sage-engine"]),
    ("sage-python", &["sage-engine", "sage-kernel"]),
    ("experiments", &["sage-engine", "sage-kernel", "sage-learn"]),
    ("xtask", &[]),
];

/// What the kernel may be built on: secure randomness, a hash, elementary functions, an FFT, matrix
/// products, a safe SIMD dispatcher. An addition is argued in ARCHITECTURE.md.
const KERNEL_DEPENDENCIES: &[&str] = &["getrandom", "libm", "pulp", "rand_chacha", "realfft", "sha2"];

pub(super) fn check() -> Result<Findings, Failure> {
    let mut findings = edges(&workspace::metadata("Cargo.toml")?);
    if workspace::exists("experiments/Cargo.toml") {
        findings.extend(edges(&workspace::metadata("experiments/Cargo.toml")?));
    }
    Ok(findings)
}

fn edges(metadata: &Value) -> Findings {
    workspace::members(metadata).into_iter().flat_map(edges_from).collect()
}

fn edges_from(package: &Value) -> Findings {
    let name = text(package, "name");
    let Some((_, allowed)) = ARROWS.iter().find(|(room, _)| *room == name) else {
        return vec![format!("{name}: a crate that ARCHITECTURE.md has no room for")];
    };
    let mut findings = Findings::new();
    for dependency in list(package, "dependencies") {
        let other = text(dependency, "name");
        let room = ARROWS.iter().any(|(room, _)| *room == other);
        if room && !allowed.contains(&other) {
            findings.push(format!("{name}: depends on {other}, against the arrows"));
        }
        let shipped = dependency["kind"] != "dev";
        if name == "sage-kernel" && shipped && !room && !KERNEL_DEPENDENCIES.contains(&other) {
            findings.push(format!("{name}: depends on {other}, which is not in the kernel's list"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::edges;
    use serde_json::{Value, json};

    fn workspace(name: &str, dependency: &str, kind: Value) -> Value {
        json!({
            "workspace_members": ["a"],
            "packages": [
                {"id": "a", "name": name, "dependencies": [{"name": dependency, "kind": kind}]},
                {"id": "b", "name": "elsewhere", "dependencies": [{"name": "sage-kernel"}]},
            ],
        })
    }

    fn check(name: &str, dependency: &str, kind: Value, good: bool) {
        let findings = edges(&workspace(name, dependency, kind));
        assert_eq!(findings.is_empty(), good, "{name} -> {dependency}: {findings:?}");
    }

    #[test]
    fn arrows_point_one_way() {
        check("sage-engine", "sage-kernel", Value::Null, true);
        check("sage", "sage-engine", Value::Null, true);
        check("sage", "clap", Value::Null, true);
        check("sage-engine", "sage-sandbox", Value::Null, true);
        check("sage-sandbox", "sage-kernel", Value::Null, false);
        check("sage-python", "sage-kernel", Value::Null, true);
        check("sage", "sage-kernel", Value::Null, false);
        check("sage", "sage-learn", Value::Null, false);
        check("sage-kernel", "sage-engine", Value::Null, false);
        check("sage-kernel", "sage-engine", json!("dev"), false);
        check("xtask", "sage-kernel", Value::Null, false);
        check("sage-utils", "serde", Value::Null, false);
    }

    #[test]
    fn the_kernel_has_a_closed_list() {
        check("sage-kernel", "sha2", Value::Null, true);
        check("sage-kernel", "proptest", json!("dev"), true);
        check("sage-kernel", "serde", Value::Null, false);
        check("sage-kernel", "cc", json!("build"), false);
    }
}
