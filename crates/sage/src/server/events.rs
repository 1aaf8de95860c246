//! What happens, as it happens: server-sent events with the number of the log's event as their id.
//!
//! Whoever has a role in a stream sees the kinds of its events and the runs and releases they touch, as they happen.
//! Everybody else sees that something was released, renamed or withdrawn, without a time and once the tick is over in
//! which it was: when an attempt ends depends on rows. So there are several places in the log from which a listener is
//! told: one for streams of their own, and one for each tick of all others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use sage_engine::{Engine, EventView, ProgressView};
use serde_json::json;

use super::Server;
use super::admission::Listener;
use super::call::{Caller, sees};
use super::problem::Problem;
use crate::runs::instant;
use crate::work::now;

/// How often somebody who hears nothing is told that there is nothing.
const HEARTBEAT: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(250);
const AT_A_TIME: usize = 512;
/// The most seconds that can be asked for; who wants more leaves it out.
pub(super) const LONGEST: u64 = 86_400;

struct Watch {
    server: Arc<Server>,
    caller: Caller,
    /// Of streams that the caller has a role in, everything before this event was told.
    inside: u64,
    /// Of all others, by their ticks.
    outside: BTreeMap<u64, u64>,
    /// Of progress, which has no place in the log.
    progress: u64,
    told: Instant,
    /// When to tell no more, for those who listen for a time.
    until: Option<Instant>,
    /// Given back when the listener goes away.
    _listener: Listener,
}

/// Events after the one with this number, or from now on; for so many seconds, or for ever.
pub(super) fn watch(
    server: Arc<Server>, caller: Caller, listener: Listener, after: Option<&str>, seconds: Option<&str>,
) -> Result<Response, Problem> {
    let until = match seconds.map(str::parse::<u64>) {
        None => None,
        Some(Ok(seconds)) if seconds <= LONGEST => Some(Instant::now() + Duration::from_secs(seconds)),
        Some(_) => return Err(Problem::wrong(format!("seconds is a whole number from 0 to {LONGEST}"))),
    };
    let engine = server.standing.engine()?;
    let inside = match after {
        None => engine.log_length()?,
        Some(text) => {
            let number: u64 = text.parse().map_err(|_| Problem::wrong("Last-Event-ID is the number of an event"))?;
            number.saturating_add(1)
        }
    };
    // What is not yet shown to those outside was not told to them, whatever they have heard since.
    let shown = server.ticks.outside(&engine, now());
    let outside = shown.lengths().map(|(tick, length)| (tick, inside.min(length))).collect();
    let progress = engine.progress_length();
    drop(engine);
    let start = Watch { server, caller, inside, outside, progress, told: Instant::now(), until, _listener: listener };
    let first = futures::stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b": listening\n\n")) });
    let rest = futures::stream::unfold(start, |watch| async { watch.news().await });
    let mut response = Response::new(Body::from_stream(futures::StreamExt::chain(first, rest)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

impl Watch {
    /// Waits for something to tell; nothing when the server stops, its log has failed, or the token no longer counts.
    async fn news(mut self) -> Option<(Result<Bytes, std::io::Error>, Self)> {
        while !self.server.stop.asked() && self.server.tokens.counts(&self.caller.token) {
            let looked = tokio::task::spawn_blocking(move || {
                let text = self.look();
                (text, self)
            });
            let (looked, watch) = looked.await.ok()?;
            self = watch;
            let (text, more) = looked?;
            if !text.is_empty() {
                self.told = Instant::now();
                return Some((Ok(Bytes::from(text)), self));
            }
            if more {
                continue;
            }
            // What there was is told, also to those who do not wait for more.
            if self.until.is_some_and(|until| until <= Instant::now()) {
                return None;
            }
            if self.told.elapsed() >= HEARTBEAT {
                self.told = Instant::now();
                return Some((Ok(Bytes::from_static(b": nothing new\n\n")), self));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        None
    }

    /// What can be told since the last time, and whether there may be more.
    fn look(&mut self) -> Option<(String, bool)> {
        let engine = self.server.standing.engine().ok()?;
        let (caller, mut text) = (&self.caller, String::new());
        let (shown, mut more) = (self.server.ticks.outside(&engine, now()), false);
        for (tick, length) in shown.lengths() {
            // A tick that no stream had before begins where the slowest is: told twice is better than never.
            let slowest = self.outside.values().copied().min().unwrap_or(length);
            let next = self.outside.entry(tick).or_insert(slowest);
            let most = usize::try_from(length.saturating_sub(*next)).unwrap_or(AT_A_TIME).min(AT_A_TIME);
            if most > 0 {
                let events = engine.events(*next, most).ok()?;
                *next = events.last()?.number + 1;
                more = true;
                let own = |event: &&EventView| {
                    shown.tick(event.stream.as_deref()) == tick && !is_inside(&engine, caller, event)
                };
                text.extend(events.iter().filter(own).filter_map(told_outside));
            }
        }
        let events = engine.events(self.inside, AT_A_TIME).ok()?;
        if let Some(last) = events.last() {
            self.inside = last.number + 1;
            more = true;
            text.extend(events.iter().filter(|event| is_inside(&engine, caller, event)).map(told_inside));
        }
        // A directory that was opened anew counts progress from the beginning.
        self.progress = self.progress.min(engine.progress_length());
        let progress = engine.progress(self.progress, AT_A_TIME);
        if let Some(last) = progress.last() {
            self.progress = last.number + 1;
            text.extend(progress.iter().filter_map(|one| under_way(&engine, caller, one)));
        }
        Some((text, more))
    }
}

/// How far an attempt is, for those who may see its stream. It has no number to go on from: it is told once.
fn under_way(engine: &Engine, caller: &Caller, progress: &ProgressView) -> Option<String> {
    let ProgressView { time, stream, run, attempt, stage, percent, .. } = progress;
    let data = json!({
        "time": instant(*time), "kind": "progress", "stream": stream, "run": run, "attempt": attempt,
        "stage": stage.word(), "percent": percent,
    });
    sees(engine, caller, stream).then(|| format!("event: progress\ndata: {data}\n\n"))
}

/// Whether an event is of a stream that the caller has a role in.
fn is_inside(engine: &Engine, caller: &Caller, event: &EventView) -> bool {
    event.stream.as_ref().map_or(caller.admin, |stream| sees(engine, caller, stream))
}

fn told_inside(event: &EventView) -> String {
    let EventView { number, time, kind, stream, run, release, .. } = event;
    let time = instant(*time);
    let data = json!({"number": number, "time": time, "kind": kind, "stream": stream, "run": run, "release": release});
    format!("id: {number}\nevent: {kind}\ndata: {data}\n\n")
}

fn told_outside(event: &EventView) -> Option<String> {
    let EventView { number, kind, release, .. } = event;
    let data = json!({"number": number, "kind": kind, "release": release.as_ref()?});
    Some(format!("id: {number}\nevent: {kind}\ndata: {data}\n\n"))
}
