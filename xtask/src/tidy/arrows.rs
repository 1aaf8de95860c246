//! The allowed dependencies between crates, and of the kernel.

use serde_json::Value;

use super::Findings;
use crate::workspace::{self, Failure, list, text};

/// Each crate with the workspace crates it may depend on. `experiments` depends on the kernel to enable its seeded noise;
/// the front ends use kernel items through the engine, except the Python package, whose own code runs
/// inside a session. A crate may depend on itself to enable a feature in its tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("sage-numerics", &[]),
    ("sage-kernel", &["sage-numerics"]),
    ("sage-learn", &["sage-numerics", "sage-kernel"]),
    ("sage-model", &["sage-numerics", "sage-kernel", "sage-learn"]),
    ("sage-sandbox", &[]),
    ("sage-sql", &["sage-sql"]),
    ("sage-store", &["sage-kernel"]),
    ("sage-engine", &["sage-kernel", "sage-learn", "sage-model", "sage-sandbox", "sage-sql", "sage-store"]),
    ("sage-server", &["sage-engine"]),
    ("sage", &["sage-engine", "sage-server"]),
    ("sage-python", &["sage-engine", "sage-kernel"]),
    ("experiments", &["sage-engine", "sage-kernel", "sage-learn"]),
    ("sage-fuzz", &["sage-engine", "sage-kernel", "sage-model", "sage-sql"]),
    ("xtask", &[]),
];

/// The external dependencies that the kernel may have: secure randomness, a hash, elementary functions, an FFT, and a
/// safe SIMD dispatcher. An addition needs a record in docs/internals/decisions.
const KERNEL_DEPENDENCIES: &[&str] = &["getrandom", "libm", "pulp", "rand_chacha", "realfft", "sha2"];

pub(super) fn check() -> Result<Findings, Failure> {
    let mut findings = edges(&workspace::metadata("Cargo.toml")?);
    for manifest in ["experiments/Cargo.toml", "fuzz/Cargo.toml"] {
        if workspace::exists(manifest) {
            findings.extend(edges(&workspace::metadata(manifest)?));
        }
    }
    Ok(findings)
}

fn edges(metadata: &Value) -> Findings {
    workspace::members(metadata).into_iter().flat_map(edges_from).collect()
}

fn edges_from(package: &Value) -> Findings {
    let name = text(package, "name");
    let Some((_, allowed)) = ARROWS.iter().find(|(member, _)| *member == name) else {
        return vec![format!("{name}: a crate that is not in the list of crates; add it to ARCHITECTURE.md as well")];
    };
    let mut findings = Findings::new();
    for dependency in list(package, "dependencies") {
        let other = text(dependency, "name");
        let member = ARROWS.iter().any(|(member, _)| *member == other);
        if member && !allowed.contains(&other) {
            findings.push(format!("{name}: must not depend on {other}"));
        }
        let shipped = dependency["kind"] != "dev";
        if name == "sage-kernel" && shipped && !member && !KERNEL_DEPENDENCIES.contains(&other) {
            findings.push(format!("{name}: depends on {other}, which is not in the kernel's list of dependencies"));
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
    fn dependencies_point_one_way() {
        check("sage-engine", "sage-kernel", Value::Null, true);
        check("sage", "sage-engine", Value::Null, true);
        check("sage", "clap", Value::Null, true);
        check("sage", "sage-server", Value::Null, true);
        check("sage-server", "sage", Value::Null, false);
        check("sage-server", "sage-kernel", Value::Null, false);
        check("sage-engine", "sage-sandbox", Value::Null, true);
        check("sage-engine", "sage-store", Value::Null, true);
        check("sage-store", "sage-engine", Value::Null, false);
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
    fn the_kernel_has_a_closed_list_of_dependencies() {
        check("sage-kernel", "sha2", Value::Null, true);
        check("sage-kernel", "proptest", json!("dev"), true);
        check("sage-kernel", "serde", Value::Null, false);
        check("sage-kernel", "cc", json!("build"), false);
    }
}
