//! Moments cannot be printed.

#[path = "granted.rs"]
mod granted;

fn print(moments: &sage_kernel::Moments) {
    println!("{moments:?}");
}
fn main() {
    let _ = (print, granted::session());
}
