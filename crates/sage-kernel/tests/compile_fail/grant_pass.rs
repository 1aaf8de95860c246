//! A grant starts once.

#[path = "granted.rs"]
mod granted;

fn main() {
    let (mut gate, grant) = granted::granted();
    let permit = gate.start(0, grant).expect("starts");
    let _ = permit.grant();
}
