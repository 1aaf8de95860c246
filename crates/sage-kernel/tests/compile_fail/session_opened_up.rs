//! The rows of a session are out of reach.

#[path = "granted.rs"]
mod granted;

fn main() {
    let session = granted::session();
    let _ = &session.rows;
}
