//! `cargo xtask bench`: our numbers beside those of the tools a user would take instead, measured one
//! after the other on the same machine.
//!
//! Ours come from a bench program in release mode, theirs from a Python program in a virtual environment
//! that holds nothing else. Both print one JSON object a line; here they are paired by name. Where a
//! server is the peer, our program measures both in turns, and prints both numbers.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::postgres::Server;
use crate::workspace::{self, Failure, text};

/// A set of measurements: the crates with their bench programs and the names to ask them for (all if none), and
/// the peers.
struct Suite {
    name: &'static str,
    programs: &'static [(&'static str, &'static str, &'static [&'static str])],
    peers: Peers,
}

/// Where the peers' numbers come from.
enum Peers {
    /// Programs of their own, and what they install. Ours find the same Python by their environment.
    Python(Python),
    /// A server, and a Python with what its requirements name, which our programs find by their environment.
    Beside { requirements: &'static str },
    /// In our own programs.
    Within,
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
            ("sage-learn", "predict", &[]),
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
        peers: Peers::Beside { requirements: "xtask/peers/engine_requirements.txt" },
    },
    Suite {
        name: "loop",
        programs: &[("sage-engine", "loop", &[]), ("sage-learn", "predict", &[])],
        peers: Peers::Within,
    },
    Suite {
        name: "server",
        programs: &[("sage", "server", &[])],
        peers: Peers::Python(Python { programs: &[], requirements: "xtask/peers/server_requirements.txt" }),
    },
];

/// On every Debian a directory on a real disk that everyone may write to, which the usual one need not be.
const ON_DISK: &str = "/var/tmp";

const WITHOUT_PEERS: &str = "bench: the peers did not run; --no-peers leaves them out";

struct Options<'a> {
    suite: &'a Suite,
    json: bool,
    peers: bool,
}

pub(crate) fn run(words: &[&str]) -> Result<(), Failure> {
    let options = options(words)?;
    let suite = options.suite;
    let left_out = |failure| format!("{failure}\n{WITHOUT_PEERS}");
    let beside = if options.peers { beside(suite).map_err(left_out)? } else { None };
    eprintln!("measuring ours");
    let ours = measure_ours(suite, beside.as_ref())?;
    let mut peers = Vec::new();
    if let (Peers::Python(python), Some(beside)) = (&suite.peers, &beside) {
        for program in python.programs {
            eprintln!("measuring the peers of {program}, some of which take minutes");
            let program = workspace::root().join(program);
            let measured = workspace::output(Command::new(&beside.python).arg(program)).map_err(left_out)?;
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
    let names: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with("--")).collect();
    let suite = SUITES.iter().find(|suite| names == [suite.name]);
    let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
    let suite = suite.ok_or_else(|| format!("bench: name one of {}", known.join(", ")))?;
    let mut options = Options { suite, json: false, peers: true };
    for flag in words.iter().filter(|word| word.starts_with("--")) {
        match *flag {
            "--json" => options.json = true,
            "--no-peers" => options.peers = false,
            _ => {
                return Err(format!("bench: no flag {flag}; there are --json and --no-peers"));
            }
        }
    }
    Ok(options)
}

/// What stands beside our programs while they run.
struct Beside {
    server: Option<Server>,
    python: PathBuf,
}

fn beside(suite: &Suite) -> Result<Option<Beside>, Failure> {
    let (requirements, server) = match suite.peers {
        Peers::Within => return Ok(None),
        Peers::Python(Python { requirements, .. }) => (requirements, None),
        Peers::Beside { requirements } => (requirements, Some(Server::start(Path::new(ON_DISK))?)),
    };
    Ok(Some(Beside { server, python: virtual_environment(suite.name, requirements)? }))
}

fn measure_ours(suite: &Suite, beside: Option<&Beside>) -> Result<Vec<Value>, Failure> {
    let mut measured = Vec::new();
    for (package, program, names) in suite.programs {
        let call = ["bench", "--quiet", "-p", package, "--bench", program, "--"];
        let mut command = workspace::cargo(&[&call[..], names].concat());
        command.env("SAGE_BENCH_PLACE", ON_DISK);
        if let Some(Beside { server, python }) = beside {
            command.env("SAGE_BENCH_PYTHON", python);
            if let Some(server) = server {
                command.env("SAGE_BENCH_POSTGRES", server.sockets()).env("SAGE_BENCH_PGBENCH", server.pgbench());
            }
        }
        measured.extend(lines(&workspace::output(&mut command)?)?);
    }
    Ok(measured)
}

/// The Python of an environment with the suite's requirements; made on first use and whenever they
/// change.
pub(crate) fn virtual_environment(suite: &str, requirements: &str) -> Result<PathBuf, Failure> {
    environment_of("python3", suite, requirements)
}

/// The same with the system's interpreter, which is the one that a closed box has.
pub(crate) fn system_environment(suite: &str, requirements: &str) -> Result<PathBuf, Failure> {
    environment_of("/usr/bin/python3", suite, requirements)
}

fn environment_of(interpreter: &str, suite: &str, requirements: &str) -> Result<PathBuf, Failure> {
    let place = workspace::target_directory()?.join("venv").join(suite);
    let python = place.join("bin").join("python");
    let wanted = workspace::read(requirements)?;
    let stamp = place.join("installed.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    eprintln!("installing {requirements} into a virtual environment");
    make_environment(interpreter, &place)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    workspace::output(pip.arg(workspace::root().join(requirements)))?;
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(python)
}

fn make_environment(interpreter: &str, place: &Path) -> Result<(), Failure> {
    let mut python = Command::new(interpreter);
    workspace::output(python.args(["-m", "venv", "--clear"]).arg(place))?;
    Ok(())
}

fn lines(output: &str) -> Result<Vec<Value>, Failure> {
    let lines = output.lines().filter(|line| !line.trim().is_empty());
    let parse = |line| serde_json::from_str(line).map_err(|e| format!("bench: `{line}`: {e}"));
    lines.map(parse).collect()
}

/// One row for each of our measurements, and one for each peer's that has none of ours beside it.
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

/// The peer's measurement beside ours: of the same name, but for the histories, which carry their tool's
/// name because they are printed as rows of their own too.
fn peer_name(name: &str) -> String {
    name.replace("charge_history_", "opendp_history_")
}

fn row(ours: &Value, peer: Option<&Value>) -> Result<Value, Failure> {
    // What measured both itself is its own peer.
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

/// How many times better than the peer: more of what is counted per second, less of all else.
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
    fn what_has_no_partner_is_printed_alone() {
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
        assert!(options(&["colonel"]).is_err());
        assert!(options(&[]).is_err());
    }
}
