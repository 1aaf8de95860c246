#[path = "common.rs"]
mod common;

fn main() {
    let session = common::session();
    let _ = &session.rows;
}
