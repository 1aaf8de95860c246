//! A permit opens one session.

#[path = "granted.rs"]
mod granted;

fn main() {
    let permit = granted::permit();
    let rows = vec![granted::Numbers(vec![1.0])];
    let session = permit.open(granted::noise(), |_| Ok::<_, ()>([rows, Vec::new()]));
    let _ = session.is_ok();
}
