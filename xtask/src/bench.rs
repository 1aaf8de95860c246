//! `cargo xtask bench`: compares us with the tools that a user would choose instead (peers), measured one
//! after the other on the same machine.
//!
//! Our numbers come from a bench program in release mode, those of the peers from a Python program in its own virtual
//! environment. Both print one JSON object per line, and results are paired by name. If the peer is a
//! server, our program measures both alternately and prints both numbers.

mod build;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::instructions;
use crate::postgres::Server;
use crate::workspace::{self, Failure, text};

/// A set of measurements: crates with their bench programs and the names of the measurements (all if empty), and
/// the peers.
struct Suite {
    name: &'static str,
    programs: &'static [(&'static str, &'static str, &'static [&'static str])],
    peers: Peers,
}

/// How the peers are measured.
enum Peers {
    /// By Python programs with their own requirements. Our programs find the same Python through an environment variable.
    Python(Python),
    /// By our programs, against a PostgreSQL server and a Python with these requirements.
    Postgres { requirements: &'static str },
    /// By our programs alone.
    BuiltIn,
}

struct Python {
    programs: &'static [&'static str],
    requirements: &'static str,
}

const SUITES: &[Suite] = &[
    Suite {
        name: "kernel",
        programs: &[("sage-kernel", "kernel", &[]), ("sage-learn", "plan", &[])],
        peers: Peers::Python(Python {
            programs: &["xtask/peers/kernel_peers.py"],
            requirements: "xtask/peers/kernel_requirements.txt",
        }),
    },
    Suite {
        name: "learn",
        programs: &[
            ("sage-learn", "learn", &[]),
            ("sage-learn", "linear", &[]),
            ("sage-model", "predict", &[]),
            ("sage-learn", "loops", &[]),
            ("sage-engine", "scan", &["group_by_mean"]),
        ],
        peers: Peers::Python(Python {
            programs: &["xtask/peers/learn_peers.py", "xtask/peers/learn_linear.py"],
            requirements: "xtask/peers/learn_requirements.txt",
        }),
    },
    Suite {
        name: "engine",
        programs: &[
            ("sage-engine", "engine", &[]),
            ("sage-engine", "ingest", &[]),
            ("sage-engine", "scan", &["scan", "generate_taxi"]),
        ],
        peers: Peers::Postgres { requirements: "xtask/peers/engine_requirements.txt" },
    },
    Suite {
        name: "loop",
        programs: &[("sage-engine", "loop", &[]), ("sage-model", "predict", &[])],
        peers: Peers::BuiltIn,
    },
    Suite { name: "adapt", programs: &[("sage-engine", "adapt", &[])], peers: Peers::BuiltIn },
    Suite {
        name: "server",
        programs: &[("sage", "server", &[])],
        peers: Peers::Python(Python { programs: &[], requirements: "xtask/peers/server_requirements.txt" }),
    },
];

/// An instruction set, and the environment variables that limit the peers to it: PyTorch's own loops, MKL, oneDNN, and
/// NumPy's OpenBLAS.
struct Arch {
    name: &'static str,
    peers: [(&'static str, &'static str); 4],
}

const fn arch(name: &'static str, [aten, mkl, onednn, openblas]: [&'static str; 4]) -> Arch {
    let peers = [
        ("ATEN_CPU_CAPABILITY", aten),
        ("MKL_ENABLE_INSTRUCTIONS", mkl),
        ("ONEDNN_MAX_CPU_ISA", onednn),
        ("OPENBLAS_CORETYPE", openblas),
    ];
    Arch { name, peers }
}

const ARCHES: &[Arch] = &[
    arch("scalar", ["default", "SSE4_2", "SSE41", "Nehalem"]),
    arch("avx2", ["avx2", "AVX2", "AVX2", "Haswell"]),
    arch("avx512", ["avx512", "AVX512", "AVX512_CORE", "SkylakeX"]),
    arch("avx512vnni", ["avx512", "AVX512_E1", "AVX512_CORE_VNNI", "SkylakeX"]),
];

/// A world-writable directory on a real disk on every Debian system; `/tmp` may be in memory.
const ON_DISK: &str = "/var/tmp";

const WITHOUT_PEERS: &str = "bench: the peers failed to run; use --no-peers to skip them";

struct Options<'a> {
    suite: &'a Suite,
    json: bool,
    peers: bool,
    arch: Option<&'static Arch>,
}

pub(crate) fn run(words: &[&str]) -> Result<(), Failure> {
    if words.contains(&"build") {
        return build::run(words);
    }
    let options = options(words)?;
    let suite = options.suite;
    if let Some(arch) = options.arch {
        instructions::require(arch.name)?;
    }
    let with_hint = |failure| format!("{failure}\n{WITHOUT_PEERS}");
    let environment = if options.peers { prepare_peers(suite).map_err(with_hint)? } else { None };
    eprintln!("measuring ours");
    let ours = measure_ours(suite, environment.as_ref(), options.arch)?;
    let mut peers = Vec::new();
    if let (Peers::Python(python), Some(environment)) = (&suite.peers, &environment) {
        for program in python.programs {
            eprintln!("measuring the peers of {program}, some of which take minutes");
            let program = workspace::root().join(program);
            let mut command = Command::new(&environment.python);
            command.arg(program).envs(options.arch.iter().flat_map(|arch| arch.peers));
            let measured = workspace::output(&mut command).map_err(with_hint)?;
            peers.extend(lines(&measured)?);
        }
    }
    let rows = pair(&ours, &peers)?;
    if !options.json {
        println!("{}", heading());
    }
    for row in &rows {
        let line = if options.json { row.to_string() } else { as_text(row) };
        println!("{line}");
    }
    Ok(())
}

fn options<'a>(words: &[&str]) -> Result<Options<'a>, Failure> {
    let (mut json, mut peers, mut arch, mut names) = (false, true, None, Vec::new());
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match *word {
            "--json" => json = true,
            "--no-peers" => peers = false,
            "--arch" => arch = Some(arch_named(rest.next().copied().unwrap_or_default())?),
            flag if flag.starts_with("--") => {
                return Err(format!("bench: unknown flag {flag}; the flags are --json, --no-peers and --arch"));
            }
            name => names.push(name),
        }
    }
    let suite = SUITES.iter().find(|suite| names == [suite.name]);
    let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).chain(["build"]).collect();
    let suite = suite.ok_or_else(|| format!("bench: name one of {}", known.join(", ")))?;
    if arch.is_some() && suite.name != "learn" {
        return Err("bench: --arch works only with learn; the other suites have no vectorised loops".to_owned());
    }
    Ok(Options { suite, json, peers, arch })
}

fn arch_named(name: &str) -> Result<&'static Arch, Failure> {
    let known: Vec<&str> = ARCHES.iter().map(|arch| arch.name).collect();
    let found = ARCHES.iter().find(|arch| arch.name == name);
    found.ok_or_else(|| format!("bench: --arch takes one of {}", known.join(", ")))
}

/// What the peers need while our programs run.
struct PeerEnvironment {
    server: Option<Server>,
    python: PathBuf,
}

fn prepare_peers(suite: &Suite) -> Result<Option<PeerEnvironment>, Failure> {
    let (requirements, server) = match suite.peers {
        Peers::BuiltIn => return Ok(None),
        Peers::Python(Python { requirements, .. }) => (requirements, None),
        Peers::Postgres { requirements } => (requirements, Some(Server::start(Path::new(ON_DISK))?)),
    };
    Ok(Some(PeerEnvironment { server, python: virtual_environment(suite.name, requirements)? }))
}

fn measure_ours(
    suite: &Suite, environment: Option<&PeerEnvironment>, arch: Option<&Arch>,
) -> Result<Vec<Value>, Failure> {
    let mut measured = Vec::new();
    for (package, program, names) in suite.programs {
        let call = ["bench", "--quiet", "-p", package, "--bench", program, "--"];
        let mut command = workspace::cargo(&[&call[..], names].concat());
        command.env("SAGE_BENCH_DIRECTORY", ON_DISK).envs(arch.map(|arch| (instructions::VARIABLE, arch.name)));
        if let Some(PeerEnvironment { server, python }) = environment {
            command.env("SAGE_BENCH_PYTHON", python);
            if let Some(server) = server {
                command.env("SAGE_BENCH_POSTGRES", server.sockets()).env("SAGE_BENCH_PGBENCH", server.pgbench());
            }
        }
        measured.extend(lines(&workspace::output(&mut command)?)?);
    }
    Ok(measured)
}

/// The Python interpreter of a virtual environment with the given requirements; created on first use and whenever they
/// change.
pub(crate) fn virtual_environment(suite: &str, requirements: &str) -> Result<PathBuf, Failure> {
    create_environment("python3", suite, requirements)
}

/// The same with the system's interpreter, which is the one available in the sandbox.
pub(crate) fn system_environment(suite: &str, requirements: &str) -> Result<PathBuf, Failure> {
    create_environment("/usr/bin/python3", suite, requirements)
}

fn create_environment(interpreter: &str, suite: &str, requirements: &str) -> Result<PathBuf, Failure> {
    let folder = workspace::target_directory()?.join("venv").join(suite);
    let python = folder.join("bin").join("python");
    let required = workspace::read(requirements)?;
    let stamp = folder.join("installed.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == required) {
        return Ok(python);
    }
    eprintln!("installing {requirements} into a virtual environment");
    make_environment(interpreter, &folder)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    workspace::output(pip.arg(workspace::root().join(requirements)))?;
    std::fs::write(&stamp, required).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(python)
}

fn make_environment(interpreter: &str, folder: &Path) -> Result<(), Failure> {
    let mut python = Command::new(interpreter);
    workspace::output(python.args(["-m", "venv", "--clear"]).arg(folder))?;
    Ok(())
}

fn lines(output: &str) -> Result<Vec<Value>, Failure> {
    let lines = output.lines().filter(|line| !line.trim().is_empty());
    let parse = |line| serde_json::from_str(line).map_err(|e| format!("bench: `{line}`: {e}"));
    lines.map(parse).collect()
}

/// One row for each of our measurements, and one for each peer measurement without a counterpart.
fn pair(ours: &[Value], peers: &[Value]) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    for line in ours {
        let wanted = peer_name(text(line, "name"));
        rows.push(row(line, peers.iter().find(|peer| text(peer, "name") == wanted))?);
    }
    for peer in peers {
        if !ours.iter().any(|line| line["name"] == peer["name"]) {
            let nothing = json!({"name": peer["name"], "unit": peer["unit"]});
            rows.push(row(&nothing, Some(peer))?);
        }
    }
    Ok(rows)
}

/// The name of the peer's measurement: the same as ours, except for histories, which carry the name of their tool
/// because they are also printed as separate rows.
fn peer_name(name: &str) -> String {
    name.replace("charge_history_", "opendp_history_")
}

fn row(ours: &Value, peer: Option<&Value>) -> Result<Value, Failure> {
    // A program that measured both is its own peer.
    let peer = peer.or(ours.get("peer").map(|_| ours)).unwrap_or(&Value::Null);
    if !peer.is_null() && peer["unit"] != ours["unit"] {
        return Err(format!("bench: {} has units {} and {}", ours["name"], ours["unit"], peer["unit"]));
    }
    let mut row = json!({
        "name": ours["name"],
        "ours": ours["ours"],
        "peer": peer["peer"],
        "ratio": ratio(ours["ours"].as_f64(), peer["peer"].as_f64(), text(ours, "unit")),
        "unit": ours["unit"],
    });
    for (key, value) in [("value", &ours["value"]), ("peer_value", &peer["value"])] {
        if !value.is_null() {
            row[key] = value.clone();
        }
    }
    Ok(row)
}

/// How many times better than the peer: higher is better for rates, lower for all other units.
fn ratio(ours: Option<f64>, peer: Option<f64>, unit: &str) -> Option<f64> {
    let (ours, peer) = (ours?, peer?);
    Some(if unit.ends_with("/s") { ours / peer } else { peer / ours })
}

fn heading() -> String {
    format!("{:<22}{:>14}{:>14}{:>10}  unit", "name", "ours", "peer", "ratio")
}

fn as_text(row: &Value) -> String {
    let number = |key: &str| row[key].as_f64().map_or("-".to_owned(), four_digits);
    let mut line = format!("{:<22}", text(row, "name"));
    line.push_str(&format!("{:>14}{:>14}", number("ours"), number("peer")));
    line.push_str(&format!("{:>10}  {}", number("ratio"), text(row, "unit")));
    if row.get("value").is_some() || row.get("peer_value").is_some() {
        line.push_str(&format!("  (gives {}, peer {})", number("value"), number("peer_value")));
    }
    line
}

fn four_digits(number: f64) -> String {
    let size = number.abs();
    match size {
        _ if size >= 1e6 => format!("{number:.3e}"),
        _ if size >= 1e3 => format!("{number:.0}"),
        _ if size >= 1.0 => format!("{number:.3}"),
        _ if size >= 1e-3 => format!("{number:.5}"),
        _ => format!("{number:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{as_text, options, pair};
    use serde_json::{Value, json};

    #[test]
    fn better_is_above_one_whatever_the_unit() {
        let check = |unit: &str, ours: f64, peer: f64, expected: f64| {
            let ours = [json!({"name": "a", "ours": ours, "unit": unit})];
            let peers = [json!({"name": "a", "peer": peer, "unit": unit})];
            assert_eq!(pair(&ours, &peers).unwrap()[0]["ratio"], expected, "{unit}");
        };
        check("ns/draw", 50.0, 100.0, 2.0);
        check("s", 50.0, 100.0, 2.0);
        check("bytes", 50.0, 100.0, 2.0);
        check("charges/s", 50.0, 100.0, 0.5);
    }

    #[test]
    fn measurements_without_counterpart_are_printed_alone() {
        let ours = [json!({"name": "charge_history_10", "ours": 100.0, "unit": "ns/charge"})];
        let peers = [json!({"name": "opendp_history_10", "peer": 200.0, "unit": "ns/charge"})];
        let rows = pair(&ours, &peers).unwrap();
        assert_eq!(rows[0]["ratio"], 2.0);
        assert_eq!((&rows[1]["ours"], &rows[1]["ratio"]), (&Value::Null, &Value::Null));
        assert_eq!(rows[1]["peer"], 200.0);
        assert_eq!(pair(&ours, &[]).unwrap()[0]["peer"], Value::Null);
    }

    #[test]
    fn every_row_has_the_five_fields_and_values_where_there_are_any() {
        let ours = [json!({"name": "pld", "ours": 0.01, "unit": "s", "value": 0.5})];
        let peers = [json!({"name": "pld", "peer": 1.0, "unit": "s", "value": 0.25})];
        let row = &pair(&ours, &peers).unwrap()[0];
        for key in ["name", "ours", "peer", "ratio", "unit", "value", "peer_value"] {
            assert!(row.get(key).is_some(), "{key}");
        }
        assert!(as_text(row).contains("(gives 0.50000, peer 0.25000)"));
    }

    #[test]
    fn a_program_may_measure_its_peer_itself() {
        let ours = [json!({"name": "durable_8", "ours": 600.0, "peer": 100.0, "unit": "charges/s"})];
        let row = &pair(&ours, &[]).unwrap()[0];
        assert_eq!((&row["peer"], &row["ratio"]), (&json!(100.0), &json!(6.0)));
    }

    #[test]
    fn units_that_differ_are_an_error() {
        let ours = [json!({"name": "a", "ours": 1.0, "unit": "s"})];
        let peers = [json!({"name": "a", "peer": 1.0, "unit": "ns"})];
        assert!(pair(&ours, &peers).is_err());
    }

    #[test]
    fn flags_are_known_or_refused() {
        assert!(options(&["kernel", "--json"]).is_ok_and(|options| options.json && options.peers));
        assert!(options(&["--no-peers", "kernel"]).is_ok_and(|options| !options.peers));
        assert!(options(&["kernel", "--jsn"]).is_err());
        for arch in ["scalar", "avx2", "avx512", "avx512vnni"] {
            let found = options(&["learn", "--arch", arch, "--json"]);
            assert!(found.is_ok_and(|options| options.json && options.arch.is_some_and(|found| found.name == arch)));
        }
        assert!(options(&["learn"]).is_ok_and(|options| options.arch.is_none()));
        assert!(options(&["learn", "--arch", "sse9"]).is_err());
        assert!(options(&["learn", "--arch"]).is_err());
        assert!(options(&["kernel", "--arch", "avx2"]).is_err());
        assert!(options(&["colonel"]).is_err());
        assert!(options(&[]).is_err());
    }
}
