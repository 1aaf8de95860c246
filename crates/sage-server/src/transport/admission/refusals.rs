//! Why connections and requests are refused: counted for `/metrics` and logged, at most one line per reason and
//! [`QUIET`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::diagnostics::note;
use crate::transport::limits::since;

/// The shortest time between two log lines with the same reason.
const QUIET: Duration = Duration::from_secs(10);

/// Why a connection or request was refused or cut off. `/metrics` and the log use its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The limit of open connections is reached.
    Connections,
    /// The limit of connections from one address is reached.
    AddressConnections,
    /// An idle connection without a token was closed for a new one.
    Evicted,
    /// Too many requests are in progress.
    Requests,
    /// Too many requests of one token are in progress.
    TokenRequests,
    /// Too many requests without a token are in progress, in total or from one address.
    Anonymous,
    /// The memory for requests is exhausted, or one request needs more than its share.
    Memory,
    /// No processor was free in time.
    Processors,
    /// Too many event listeners, in total or of one token.
    Listeners,
    /// The head of a request did not arrive in time.
    HeadTimeout,
    /// The body of a request did not arrive in time.
    BodyTimeout,
    /// The response was not read in time.
    ReadTimeout,
}

impl Reason {
    pub(crate) const ALL: [Self; 12] = [
        Self::Connections,
        Self::AddressConnections,
        Self::Evicted,
        Self::Requests,
        Self::TokenRequests,
        Self::Anonymous,
        Self::Memory,
        Self::Processors,
        Self::Listeners,
        Self::HeadTimeout,
        Self::BodyTimeout,
        Self::ReadTimeout,
    ];

    /// Its name in `/metrics`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::AddressConnections => "address-connections",
            Self::Evicted => "evicted",
            Self::Requests => "requests",
            Self::TokenRequests => "token-requests",
            Self::Anonymous => "anonymous",
            Self::Memory => "memory",
            Self::Processors => "processors",
            Self::Listeners => "listeners",
            Self::HeadTimeout => "head-timeout",
            Self::BodyTimeout => "body-timeout",
            Self::ReadTimeout => "read-timeout",
        }
    }
}

/// The number of refusals by reason.
#[derive(Debug)]
pub(crate) struct Refusals {
    start: Instant,
    counts: [AtomicU64; Reason::ALL.len()],
    /// The time at which each reason was last logged, in nanoseconds since the start; zero if it never was.
    logged: [AtomicU64; Reason::ALL.len()],
}

impl Refusals {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), counts: Default::default(), logged: Default::default() }
    }

    /// Counts a refusal and logs it, unless one with this reason was logged a moment ago.
    pub(crate) fn count(&self, reason: Reason) {
        let index = reason as usize;
        let so_far = self.counts[index].fetch_add(1, Ordering::Relaxed) + 1;
        let (now, last) = (since(self.start).max(1), self.logged[index].load(Ordering::Relaxed));
        let quiet = u64::try_from(QUIET.as_nanos()).unwrap_or(u64::MAX);
        let due = last == 0 || now.saturating_sub(last) >= quiet;
        if due && self.logged[index].compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            note(&format!("limit reached: {} ({so_far} since the start); see sage_refused_total", reason.word()));
        }
    }

    /// The count of each reason.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(&self.counts).map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
    }
}
