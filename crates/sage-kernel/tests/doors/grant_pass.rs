#[path = "common.rs"]
mod common;

fn main() {
    let (mut gate, grant) = common::granted();
    let permit = gate.start(0, grant).expect("starts");
    let _ = permit.grant();
}
