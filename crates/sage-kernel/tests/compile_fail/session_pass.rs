//! A session ends by being used up.

#[path = "granted.rs"]
mod granted;

use sage_kernel::Lane;
fn main() {
    let session = granted::session();
    let finished = session.finish();
    let _ = (finished, Lane::Train);
}
