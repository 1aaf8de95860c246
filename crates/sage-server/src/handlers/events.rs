//! Server-sent events, with the number of the log's event as their id.
//!
//! Users with a role on a stream get its events as they happen, with the runs and releases they touch. Other users get
//! changes of releases, without a time and at the end of the disclosure interval: when an attempt ends depends on rows.
//! So a listener has several positions in the log: one for its own streams, and one for each disclosure interval of the
//! others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use sage_engine::{Engine, EventView, ProgressView};

use crate::Server;
use crate::call::{Caller, sees};
use crate::clock::now;
use crate::problem::Problem;
use crate::transport::admission::Listener;
use crate::views::events::{Progress, PublicEvent, StreamedEvent};

/// How often an idle connection gets a comment.
const HEARTBEAT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const AT_A_TIME: usize = 512;
/// The longest duration that a request may name.
pub(crate) const LONGEST: u64 = 86_400;

/// A listener and its positions in the log.
struct Watch {
    server: Arc<Server>,
    caller: Caller,
    /// The next event of streams that the caller has a role on.
    inside: u64,
    /// The next event of other streams, by disclosure interval.
    outside: BTreeMap<u64, u64>,
    /// The next progress report, which is not in the log.
    progress: u64,
    sent: Instant,
    /// When the response ends, if the request sets a duration.
    until: Option<Instant>,
    /// Released when the listener disconnects.
    _listener: Listener,
}

/// Sends the events after the one with number `after`, or from now on; for `seconds`, or until the client disconnects.
pub(crate) fn watch(
    server: Arc<Server>, caller: Caller, listener: Listener, after: Option<&str>, seconds: Option<&str>,
) -> Result<Response, Problem> {
    let until = match seconds.map(str::parse::<u64>) {
        None => None,
        Some(Ok(seconds)) if seconds <= LONGEST => Some(Instant::now() + Duration::from_secs(seconds)),
        Some(_) => return Err(Problem::wrong(format!("seconds must be a whole number from 0 to {LONGEST}"))),
    };
    let engine = server.standing.engine()?;
    let inside = match after {
        None => engine.log_length()?,
        Some(text) => {
            let number: u64 = text.parse().map_err(|_| Problem::wrong("Last-Event-ID is the number of an event"))?;
            number.saturating_add(1)
        }
    };
    // Events that are not yet disclosed were not sent to users without a role, whatever their last event is.
    let shown = server.disclosure.outside(&engine, now());
    let outside = shown.lengths().map(|(interval, length)| (interval, inside.min(length))).collect();
    let progress = engine.progress_length();
    drop(engine);
    let start = Watch { server, caller, inside, outside, progress, sent: Instant::now(), until, _listener: listener };
    let first = futures::stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b": listening\n\n")) });
    let rest = futures::stream::unfold(start, |watch| async { watch.news().await });
    let mut response = Response::new(Body::from_stream(futures::StreamExt::chain(first, rest)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

impl Watch {
    /// Waits for events; `None` when the server stops, its log has failed, or the token is no longer valid.
    async fn news(mut self) -> Option<(Result<Bytes, std::io::Error>, Self)> {
        while !self.server.stop.is_requested() && self.server.tokens.is_valid(&self.caller.token) {
            let read = tokio::task::spawn_blocking(move || {
                let text = self.read_events();
                (text, self)
            });
            let (read, watch) = read.await.ok()?;
            self = watch;
            let (text, more) = read?;
            if !text.is_empty() {
                self.sent = Instant::now();
                return Some((Ok(Bytes::from(text)), self));
            }
            if more {
                continue;
            }
            // Everything available is sent before the stream ends.
            if self.until.is_some_and(|until| until <= Instant::now()) {
                return None;
            }
            if self.sent.elapsed() >= HEARTBEAT {
                self.sent = Instant::now();
                return Some((Ok(Bytes::from_static(b": nothing new\n\n")), self));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        None
    }

    /// The events since the last read, and whether there may be more.
    fn read_events(&mut self) -> Option<(String, bool)> {
        let engine = self.server.standing.engine().ok()?;
        let (caller, mut text) = (&self.caller, String::new());
        let (shown, mut more) = (self.server.disclosure.outside(&engine, now()), false);
        for (interval, length) in shown.lengths() {
            // A new disclosure interval starts at the slowest position: an event twice is better than none.
            let slowest = self.outside.values().copied().min().unwrap_or(length);
            let next = self.outside.entry(interval).or_insert(slowest);
            let most = usize::try_from(length.saturating_sub(*next)).unwrap_or(AT_A_TIME).min(AT_A_TIME);
            if most > 0 {
                let events = engine.events(*next, most).ok()?;
                *next = events.last()?.number + 1;
                more = true;
                let own = |event: &&EventView| {
                    shown.interval(event.stream.as_deref()) == interval && !is_inside(&engine, caller, event)
                };
                text.extend(events.iter().filter(own).filter_map(public_event));
            }
        }
        let events = engine.events(self.inside, AT_A_TIME).ok()?;
        if let Some(last) = events.last() {
            self.inside = last.number + 1;
            more = true;
            text.extend(events.iter().filter(|event| is_inside(&engine, caller, event)).map(member_event));
        }
        // A reopened directory counts progress from zero.
        self.progress = self.progress.min(engine.progress_length());
        let progress = engine.progress(self.progress, AT_A_TIME);
        if let Some(last) = progress.last() {
            self.progress = last.number + 1;
            text.extend(progress.iter().filter_map(|one| progress_event(&engine, caller, one)));
        }
        Some((text, more))
    }
}

/// The progress of an attempt, for users who may see its stream. It has no number and is not repeated.
fn progress_event(engine: &Engine, caller: &Caller, progress: &ProgressView) -> Option<String> {
    let data = json_text(&Progress::from(progress));
    sees(engine, caller, &progress.stream).then(|| format!("event: progress\ndata: {data}\n\n"))
}

fn json_text(view: &impl serde::Serialize) -> String {
    serde_json::to_string(view).unwrap_or_default()
}

/// Whether an event belongs to a stream that the caller has a role on.
fn is_inside(engine: &Engine, caller: &Caller, event: &EventView) -> bool {
    event.stream.as_ref().map_or(caller.admin, |stream| sees(engine, caller, stream))
}

/// An event for members of its stream.
fn member_event(event: &EventView) -> String {
    let data = json_text(&StreamedEvent::from(event));
    format!("id: {}\nevent: {}\ndata: {data}\n\n", event.number, event.kind)
}

/// An event for users without a role on its stream: changes of releases, without a time.
fn public_event(event: &EventView) -> Option<String> {
    let EventView { number, kind, release, .. } = event;
    let data = json_text(&PublicEvent { number: *number, kind, release: release.as_ref()? });
    Some(format!("id: {number}\nevent: {kind}\ndata: {data}\n\n"))
}
