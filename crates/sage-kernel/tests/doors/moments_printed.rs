#[path = "common.rs"]
mod common;

fn print(moments: &sage_kernel::Moments) {
    println!("{moments:?}");
}
fn main() {
    let _ = (print, common::session());
}
