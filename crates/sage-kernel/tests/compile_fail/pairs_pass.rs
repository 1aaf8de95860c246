//! A function of a row may look at it.

#[path = "granted.rs"]
mod granted;

use sage_kernel::{Epsilon, Lane, Range, Rounding, TableNoise};
fn main() {
    let mut session = granted::session();
    let range = Range::new(0.0, 1.0).expect("a range");
    let noise = TableNoise::Laplace(Epsilon::cost("0.5").expect("a number"));
    let _ = session.pairs(Lane::Train, 1, range, Rounding::Up, noise, |row| Some((0, row)));
}
