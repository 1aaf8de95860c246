//! A grant is minted by the gate alone.

#[path = "granted.rs"]
mod granted;

fn main() {
    let (mut gate, grant) = granted::granted();
    let made = sage_kernel::Grant { id: grant.id() };
    let _ = gate.start(0, made);
}
