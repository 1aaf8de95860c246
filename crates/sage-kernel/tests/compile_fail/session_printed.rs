//! A session cannot be printed.

#[path = "granted.rs"]
mod granted;

fn main() {
    let session = granted::session();
    println!("{session:?}");
}
