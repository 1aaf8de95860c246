//! Moments cannot be read.

#[path = "granted.rs"]
mod granted;

fn read(moments: &sage_kernel::Moments) -> usize {
    moments.sums.len()
}
fn main() {
    let _ = (read, granted::session());
}
