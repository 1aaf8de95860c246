//! A session cannot be iterated.

#[path = "granted.rs"]
mod granted;

fn main() {
    let session = granted::session();
    for _ in session {}
}
