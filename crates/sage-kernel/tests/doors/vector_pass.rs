#[path = "common.rs"]
mod common;

use sage_kernel::{Lane, Sigma};
fn main() {
    let mut session = common::session();
    let sigma = Sigma::cost("1").expect("a number");
    let _ = session.vector_sum(Lane::Train, 1, 1.0, sigma, |row, out| out[0] = row);
}
