//! A permit does not open two sessions.

#[path = "granted.rs"]
mod granted;

fn main() {
    let permit = granted::permit();
    let open = || Ok::<[Vec<granted::Numbers>; 2], ()>([Vec::new(), Vec::new()]);
    let _ = permit.open(granted::noise(), |_| open());
    let _ = permit.open(granted::noise(), |_| open());
}
