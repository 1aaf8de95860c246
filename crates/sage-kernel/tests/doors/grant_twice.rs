#[path = "common.rs"]
mod common;

fn main() {
    let (mut gate, grant) = common::granted();
    let _ = gate.start(0, grant);
    let _ = gate.start(0, grant);
}
