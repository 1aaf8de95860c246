//! A budget is not made of a float.

#[path = "granted.rs"]
mod granted;

use sage_kernel::Epsilon;
fn main() {
    let _ = (Epsilon::cost(0.1), granted::session());
}
