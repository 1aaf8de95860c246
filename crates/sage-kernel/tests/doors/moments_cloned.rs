#[path = "common.rs"]
mod common;

fn copy(moments: &sage_kernel::Moments) -> sage_kernel::Moments {
    moments.clone()
}
fn main() {
    let _ = (copy, common::session());
}
