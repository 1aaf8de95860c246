//! A budget is read from decimal text.

#[path = "granted.rs"]
mod granted;

use sage_kernel::Epsilon;
fn main() {
    let _ = (Epsilon::cost("0.1"), granted::session());
}
