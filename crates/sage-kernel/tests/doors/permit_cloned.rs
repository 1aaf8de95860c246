#[path = "common.rs"]
mod common;

fn main() {
    let permit = common::permit();
    let _ = permit.clone();
}
