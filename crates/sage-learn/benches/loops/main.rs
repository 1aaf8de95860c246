//! Times every hot loop on the instruction set that the process uses (`SAGE_ARCH`), one JSON object per line:
//! `name`, `ours` (microseconds, the best of many runs) and `unit`.
//!
//! `loops --once NAME` runs one loop once, inside a function that `cargo xtask check` counts the instructions of, and
//! prints the instruction set that it used. `--names` and `--sets` list the loops and the instruction sets.

mod list;

use std::hint::black_box;
use std::time::Instant;

use list::{LOOPS, Loop, Output};
use sage_numerics::InstructionSet;

/// The number of runs of a loop: many, so that the best one is undisturbed on a shared machine.
const RUNS: usize = 100;

/// What is counted: nothing of the loop's preparation. The name is that of `xtask/src/instructions.rs`.
#[inline(never)]
fn counted_loop(prepared: Box<dyn FnOnce() -> Output>) -> Output {
    prepared()
}

fn microseconds(measured: &Loop) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let prepared = (measured.prepare)();
        let start = Instant::now();
        black_box(counted_loop(prepared));
        best = best.min(start.elapsed().as_secs_f64());
    }
    best * 1e6
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| *word != "--bench").collect();
    match words[..] {
        ["--names"] => LOOPS.iter().for_each(|one| println!("{}", one.name)),
        ["--sets"] => InstructionSet::available().iter().for_each(|set| println!("{}", set.name())),
        ["--once", name] => {
            let one = LOOPS.iter().find(|one| one.name == name).expect("the name of a loop");
            black_box(counted_loop((one.prepare)()).bits());
            println!("{}", InstructionSet::current().name());
        }
        _ => {
            let wanted = |name: &str| words.is_empty() || words.contains(&name);
            for one in LOOPS.iter().filter(|one| wanted(one.name)) {
                let (name, time) = (one.name, microseconds(one));
                println!(r#"{{"name": "loop_{name}", "ours": {time:?}, "unit": "us"}}"#);
            }
        }
    }
}
