#[path = "common.rs"]
mod common;

use sage_kernel::Session;
fn main() {
    let rows = [vec![common::Numbers(vec![1.0])], Vec::new()];
    let _: Session<common::Numbers> = Session { rows };
}
