//! The worker: performs attempts one after the other, in its own thread.
//!
//! It checks for work after every event and once a second. On a stop it completes the attempt in progress, because
//! that is already charged. After a failed write the worker reopens the directory.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use sage_engine::{Engine, EngineError};

use crate::Server;
use crate::attempts::perform;
use crate::clock::now;
use crate::diagnostics::note;
use crate::disclosure::widened;
use crate::telemetry::{AttributeValue, Kind, Span, nanoseconds};
use crate::views::runs::verdict_word;

/// The longest pause between two attempts to reopen the directory.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Marks the worker as ended, also after a panic.
struct EndMark<'server>(&'server Server);

impl Drop for EndMark<'_> {
    fn drop(&mut self) {
        self.0.working.store(false, Ordering::Relaxed);
    }
}

/// Works until the server stops.
pub(crate) fn work(server: &Arc<Server>) {
    let _ended = EndMark(server);
    let mut pause = Duration::from_secs(1);
    while !server.stop.is_requested() {
        if server.standing.is_troubled() {
            match server.standing.restore(&server.directory) {
                Ok(()) => pause = Duration::from_secs(1),
                Err(error) => {
                    // Reported rarely: a full disk must not be filled with reports about it.
                    if pause >= LONGEST_PAUSE {
                        note(&error.to_string());
                    }
                    wait(server, pause);
                    pause = (2 * pause).min(LONGEST_PAUSE);
                    continue;
                }
            }
        }
        if let Err(error) = round(server) {
            server.standing.fails(&error.to_string());
            continue;
        }
        wait(server, Duration::from_secs(1));
    }
}

/// Performs attempts until no run can proceed.
fn round(server: &Server) -> Result<(), EngineError> {
    while !server.stop.is_requested() && !server.standing.is_troubled() {
        let Ok(engine) = server.standing.engine() else { return Ok(()) };
        let Some(job) = engine.next_job(now())? else { return Ok(()) };
        let began = SystemTime::now();
        let run = job.run();
        perform(&engine, job)?;
        server.attempts.fetch_add(1, Ordering::Relaxed);
        if server.telemetry.is_on() {
            record(server, &engine, run, began);
        }
    }
    Ok(())
}

/// Records an attempt with its times rounded to disclosure intervals.
fn record(server: &Server, engine: &Engine, number: u64, began: SystemTime) {
    let Some(run) = engine.run(number) else { return };
    let outcome = run.attempts.last().and_then(|attempt| attempt.outcome.as_ref()).map_or("not over", verdict_word);
    let interval = engine.disclosure_intervals().get(&run.stream).copied().unwrap_or_else(|| engine.least_interval());
    let nanoseconds_each = interval.saturating_mul(1_000_000);
    let (began, ended) = widened(nanoseconds(began), nanoseconds(SystemTime::now()), nanoseconds_each);
    let fields = [("sage.run", AttributeValue::whole(number)), ("sage.outcome", AttributeValue::text(outcome))];
    let good = outcome != "lost";
    server.telemetry.record(&Span {
        name: "attempt",
        parent: None,
        began,
        ended,
        fields: &fields,
        kind: Kind::Internal,
        good,
    });
}

/// Waits for a wake-up, or for this long.
fn wait(server: &Server, most: Duration) {
    let woken = server.woken.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok((mut woken, _)) = server.bell.wait_timeout_while(woken, most, |woken| !*woken) {
        *woken = false;
    }
}
