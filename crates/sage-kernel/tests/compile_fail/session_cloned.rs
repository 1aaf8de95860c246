//! A session cannot be copied.

#[path = "granted.rs"]
mod granted;

fn main() {
    let session = granted::session();
    let _ = session.clone();
}
