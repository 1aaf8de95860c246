//! Moments are made in a session.

#[path = "granted.rs"]
mod granted;

use sage_kernel::{Lane, MomentBounds};
fn main() {
    let session = granted::session();
    let bounds = MomentBounds { width: 1, feature_norm: 1.0, label_size: 1.0 };
    let moments = session.moments(Lane::Train, bounds, |row, out| {
        out[0] = row;
        row
    });
    let _ = moments.is_ok();
}
