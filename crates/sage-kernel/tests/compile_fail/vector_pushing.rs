//! A function of a row has nowhere to put it.

#[path = "granted.rs"]
mod granted;

use sage_kernel::{Lane, Sigma};
fn main() {
    let mut session = granted::session();
    let sigma = Sigma::cost("1").expect("a number");
    let mut stolen = Vec::new();
    let _ = session.vector_sum(Lane::Train, 1, 1.0, sigma, |row, _| stolen.push(row));
}
