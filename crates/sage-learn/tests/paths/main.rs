//! Every hot loop computes the same bits on every instruction set that this processor has.
//!
//! A process chooses its instruction set once, so each set is tested in a child process: this test program, started
//! again with `SAGE_ARCH`. If the bits differed, training on another machine would give another model.

#[path = "../../benches/loops/list.rs"]
mod list;

use std::collections::BTreeMap;
use std::process::Command;

use list::LOOPS;
use sage_numerics::InstructionSet;

/// Set in a process that prints its results instead of comparing them.
const CHILD: &str = "SAGE_TEST_PATHS_CHILD";

/// A hash of the results of every loop (FNV-1a over words), and the instruction set under the name `set`.
fn computed() -> BTreeMap<String, String> {
    let hash = |bits: Vec<u64>| {
        bits.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &word| (hash ^ word).wrapping_mul(0x0100_0000_01b3))
    };
    let loops = LOOPS.iter().map(|one| (one.name.to_owned(), format!("{:016x}", hash((one.prepare)()().bits()))));
    loops.chain([("set".to_owned(), InstructionSet::current().name().to_owned())]).collect()
}

fn computed_with(set: &str) -> BTreeMap<String, String> {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "every_instruction_set_computes_the_same_bits", "--nocapture"]);
    let output = child.env(CHILD, "1").env(InstructionSet::VARIABLE, set).output().expect("starts");
    assert!(output.status.success(), "{set}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let lines = text.lines().filter_map(|line| line.strip_prefix("computed "));
    lines.filter_map(|line| line.split_once(' ')).map(|(name, hash)| (name.to_owned(), hash.to_owned())).collect()
}

#[test]
fn every_instruction_set_computes_the_same_bits() {
    if std::env::var_os(CHILD).is_some() {
        println!();
        computed().iter().for_each(|(name, hash)| println!("computed {name} {hash}"));
        return;
    }
    let sets = InstructionSet::available();
    let mut results: Vec<BTreeMap<String, String>> = sets.iter().map(|set| computed_with(set.name())).collect();
    for (set, results) in sets.iter().zip(&mut results) {
        assert_eq!(results.remove("set").as_deref(), Some(set.name()), "the process uses another instruction set");
        assert_eq!(results.len(), LOOPS.len());
    }
    for (set, other) in sets.iter().zip(&results) {
        assert_eq!(other, &results[0], "{} and {}", set.name(), sets[0].name());
    }
}

#[test]
fn an_unknown_instruction_set_is_ignored() {
    let widest = InstructionSet::available().last().map(|set| set.name().to_owned());
    assert_eq!(computed_with("sse9").remove("set"), widest);
}

/// Results that are all zero would be equal on every instruction set, and prove nothing.
#[test]
fn every_loop_computes_something() {
    for one in LOOPS {
        let bits = (one.prepare)()().bits();
        assert!(bits.iter().any(|&bits| bits != 0), "{}", one.name);
        assert_eq!((one.prepare)()().bits(), bits, "{} differs from run to run", one.name);
    }
}
