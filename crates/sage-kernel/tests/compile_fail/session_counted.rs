//! A session does not tell how many rows it has.

#[path = "granted.rs"]
mod granted;

fn main() {
    let session = granted::session();
    let _ = session.count();
}
