//! No session without a permit.

#[path = "granted.rs"]
mod granted;

use sage_kernel::Session;
fn main() {
    let rows = [vec![granted::Numbers(vec![1.0])], Vec::new()];
    let _: Session<granted::Numbers> = Session { rows };
}
