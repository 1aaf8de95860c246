//! A permit cannot be copied.

#[path = "granted.rs"]
mod granted;

fn main() {
    let permit = granted::permit();
    let _ = permit.clone();
}
