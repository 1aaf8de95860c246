//! A grant does not start twice.

#[path = "granted.rs"]
mod granted;

fn main() {
    let (mut gate, grant) = granted::granted();
    let _ = gate.start(0, grant);
    let _ = gate.start(0, grant);
}
