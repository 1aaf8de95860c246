#[path = "common.rs"]
mod common;

fn main() {
    let (mut gate, grant) = common::granted();
    let made = sage_kernel::Grant { id: grant.id() };
    let _ = gate.start(0, made);
}
