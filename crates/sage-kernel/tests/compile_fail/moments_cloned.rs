//! Moments cannot be copied.

#[path = "granted.rs"]
mod granted;

fn copy(moments: &sage_kernel::Moments) -> sage_kernel::Moments {
    moments.clone()
}
fn main() {
    let _ = (copy, granted::session());
}
