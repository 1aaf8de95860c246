//! A budget is not made of a bare number.

#[path = "granted.rs"]
mod granted;

use sage_kernel::Epsilon;
fn main() {
    let _ = (Epsilon(1), granted::session());
}
