//! The worker: attempts are performed one after the other, in a thread of their own.
//!
//! It looks when something has happened and once a second. Asked to stop, it brings the attempt under way to its
//! end, because that one is paid for. When a write has failed it is the worker who opens the directory anew.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use sage_engine::Engine;
use serde_json::json;

use super::Server;
use super::telemetry::{Kind, Told, nanoseconds};
use super::ticks::widened;
use crate::explain::word;
use crate::failure::Failure;
use crate::work::{now, perform};

/// The longest pause between two attempts to open the directory anew.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

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
    let mut pause = Duration::from_secs(1);
    while !server.stop.asked() {
        if server.standing.is_troubled() {
            match server.standing.restore(&server.directory, || server.place.open()) {
                Ok(()) => pause = Duration::from_secs(1),
                Err(failure) => {
                    // Told seldom: a full disk must not be filled with what is said about it.
                    if pause >= LONGEST_PAUSE {
                        failure.tell();
                    }
                    wait(server, pause);
                    pause = (2 * pause).min(LONGEST_PAUSE);
                    continue;
                }
            }
        }
        if let Err(failure) = round(server) {
            server.standing.fails(&failure.message());
            continue;
        }
        wait(server, Duration::from_secs(1));
    }
}

/// Performs attempts until nothing can be done now.
fn round(server: &Server) -> Result<(), Failure> {
    while !server.stop.asked() && !server.standing.is_troubled() {
        let Ok(engine) = server.standing.engine() else { return Ok(()) };
        let Some(job) = engine.next_job(now())? else { return Ok(()) };
        let began = SystemTime::now();
        let run = job.run();
        perform(&engine, job)?;
        server.attempts.fetch_add(1, Ordering::Relaxed);
        if server.telemetry.is_on() {
            told(server, &engine, run, began);
        }
    }
    Ok(())
}

/// Tells of an attempt, in ticks.
fn told(server: &Server, engine: &Engine, number: u64, began: SystemTime) {
    let Some(run) = engine.run(number) else { return };
    let outcome = run.attempts.last().and_then(|attempt| attempt.outcome.as_ref()).map_or("not over", word);
    let interval = engine.disclosure_intervals().get(&run.stream).copied().unwrap_or_else(|| engine.least_interval());
    let tick = interval.saturating_mul(1_000_000);
    let (began, ended) = widened(nanoseconds(began), nanoseconds(SystemTime::now()), tick);
    let fields = [("sage.run", json!(number)), ("sage.outcome", json!(outcome))];
    let good = outcome != "lost";
    server.telemetry.tell(&Told {
        name: "attempt",
        parent: None,
        began,
        ended,
        fields: &fields,
        kind: Kind::Internal,
        good,
    });
}

/// Waits until somebody rings, or for so long.
fn wait(server: &Server, most: Duration) {
    let woken = server.woken.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok((mut woken, _)) = server.bell.wait_timeout_while(woken, most, |woken| !*woken) {
        *woken = false;
    }
}
