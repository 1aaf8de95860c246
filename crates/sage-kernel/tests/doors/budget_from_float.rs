#[path = "common.rs"]
mod common;

use sage_kernel::Epsilon;
fn main() {
    let _ = (Epsilon::cost(0.1), common::session());
}
