#[path = "common.rs"]
mod common;

use sage_kernel::Epsilon;
fn main() {
    let _ = (Epsilon(1), common::session());
}
