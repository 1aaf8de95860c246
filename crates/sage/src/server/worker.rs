//! The worker: attempts are performed one after the other, in a thread of their own.
//!
//! It looks when something has happened and once a second. Asked to stop, it brings the attempt under way to its
//! end, because that one is paid for.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::Server;
use crate::output::tell;
use crate::work::advance;

/// However the worker ends, nobody is told that it is well.
struct Ended<'server>(&'server Server);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.working.store(false, Ordering::Relaxed);
    }
}

/// Works until the server stops.
pub(super) fn work(server: &Arc<Server>) {
    let _ended = Ended(server);
    while !server.stop.asked() {
        match advance(&server.engine, &server.stop, || false) {
            Ok(performed) => {
                server.attempts.fetch_add(performed as u64, Ordering::Relaxed);
            }
            Err(failure) => {
                // The log has failed: nothing is granted until the server is started anew, and it says so.
                failure.tell();
                tell("no attempt is performed until the server is started anew");
                return;
            }
        }
        let woken = server.woken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok((mut woken, _)) = server.bell.wait_timeout_while(woken, Duration::from_secs(1), |woken| !*woken) {
            *woken = false;
        }
    }
}
