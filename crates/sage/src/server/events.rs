//! What happens, as it happens: server-sent events with the number of the log's event as their id.
//!
//! Whoever has a role in a stream sees the kinds of its events and the runs and releases they touch. Everybody else
//! sees that something was released, renamed or withdrawn, and no time: when an attempt ends depends on rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use sage_engine::{EventView, ProgressView};
use serde_json::json;

use super::Server;
use super::call::{Caller, sees};
use super::problem::Problem;
use crate::runs::instant;

/// How often somebody who hears nothing is told that there is nothing.
const HEARTBEAT: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(250);
const AT_A_TIME: usize = 512;

struct Watch {
    server: Arc<Server>,
    caller: Caller,
    next: u64,
    /// The next event of progress, which has no place in the log.
    next_progress: u64,
    told: Instant,
    /// Given back when the listener goes away.
    _room: Room,
}

/// A place among those who listen.
struct Room(Arc<Server>);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.watchers.add_permits(1);
    }
}

/// Events after the one with this number, or from now on.
pub(super) fn watch(server: Arc<Server>, caller: Caller, after: Option<&str>) -> Result<Response, Problem> {
    let next = match after {
        None => server.engine.log_length()?,
        Some(text) => {
            let number: u64 = text.parse().map_err(|_| Problem::wrong("Last-Event-ID is the number of an event"))?;
            number.saturating_add(1)
        }
    };
    let room = server.watchers.try_acquire().map_err(|_| Problem::busy("too many listen already; try again"))?;
    room.forget();
    let room = Room(Arc::clone(&server));
    let next_progress = server.engine.progress_length();
    let start = Watch { server, caller, next, next_progress, told: Instant::now(), _room: room };
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
            let (server, next) = (Arc::clone(&self.server), self.next);
            let found = tokio::task::spawn_blocking(move || server.engine.events(next, AT_A_TIME));
            let found = found.await.ok()?.ok()?;
            if let Some(last) = found.last() {
                self.next = last.number + 1;
                let text: String = found.iter().filter_map(|event| told(&self.server, &self.caller, event)).collect();
                if !text.is_empty() {
                    self.told = Instant::now();
                    return Some((Ok(Bytes::from(text)), self));
                }
                continue;
            }
            let progress = self.server.engine.progress(self.next_progress, AT_A_TIME);
            if let Some(last) = progress.last() {
                self.next_progress = last.number + 1;
                let text: String =
                    progress.iter().filter_map(|one| under_way(&self.server, &self.caller, one)).collect();
                if !text.is_empty() {
                    self.told = Instant::now();
                    return Some((Ok(Bytes::from(text)), self));
                }
            }
            if self.told.elapsed() >= HEARTBEAT {
                self.told = Instant::now();
                return Some((Ok(Bytes::from_static(b": nothing new\n\n")), self));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        None
    }
}

/// How far an attempt is, for those who may see its stream. It has no number to go on from: it is told once.
fn under_way(server: &Server, caller: &Caller, progress: &ProgressView) -> Option<String> {
    let ProgressView { time, stream, run, attempt, stage, percent, .. } = progress;
    let data = json!({
        "time": instant(*time), "kind": "progress", "stream": stream, "run": run, "attempt": attempt,
        "stage": stage.word(), "percent": percent,
    });
    sees(&server.engine, caller, stream).then(|| format!("event: progress\ndata: {data}\n\n"))
}

/// An event as this caller may see it.
fn told(server: &Server, caller: &Caller, event: &EventView) -> Option<String> {
    let EventView { number, time, kind, stream, run, release } = event;
    let whole = match stream {
        Some(stream) => sees(&server.engine, caller, stream),
        None => caller.admin,
    };
    let data = if whole {
        json!({"number": number, "time": instant(*time), "kind": kind, "stream": stream, "run": run, "release": release})
    } else {
        json!({"number": number, "kind": kind, "release": release.as_ref()?})
    };
    Some(format!("id: {number}\nevent: {kind}\ndata: {data}\n\n"))
}
