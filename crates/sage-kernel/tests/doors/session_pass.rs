#[path = "common.rs"]
mod common;

use sage_kernel::Lane;
fn main() {
    let session = common::session();
    let finished = session.finish();
    let _ = (finished, Lane::Train);
}
