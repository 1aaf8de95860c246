//! A function of a row may write its vector.

#[path = "granted.rs"]
mod granted;

use sage_kernel::{Lane, Sigma};
fn main() {
    let mut session = granted::session();
    let sigma = Sigma::cost("1").expect("a number");
    let _ = session.vector_sum(Lane::Train, 1, 1.0, sigma, |row, out| out[0] = row);
}
