//! Admission control: how much of the machine requests may use at a time, in all and for each caller.
//!
//! A request is authenticated by its head before it takes anything. Its body is read next and counted by the byte as
//! it arrives, so a client that stalls holds only what it has sent. A permit is taken once the body is complete, and
//! only while the request is processed. Each token has a share of every resource that is smaller than the
//! whole, so no single caller can exhaust it; requests without a token have a small share of their own. Refusals are
//! counted by reason and logged, at most one line per reason and [`QUIET`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::diagnostics::note;
use crate::problem::Problem;
use crate::transport::limits::since;

/// The most requests in progress, in total and per token.
const REQUESTS: usize = 256;
const REQUESTS_EACH: usize = 64;
/// The most requests in progress without a token, in total and per address.
const ANONYMOUS: usize = 32;
const ANONYMOUS_EACH: usize = 8;
/// The most readiness probes in progress.
const PROBES: usize = 16;
/// The most event listeners of all tokens together.
const LISTENERS: usize = 256;
/// How long a request waits for a processor before it is refused.
const PATIENCE: Duration = Duration::from_secs(10);
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
    fn new() -> Self {
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

/// How much of a resource is in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

/// A share of a [`Count`]; released when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    count: Count,
    amount: usize,
}

impl Count {
    /// Takes an amount, unless more than `most` would then be in use.
    pub(crate) fn take(&self, amount: usize, most: usize) -> Option<Share> {
        let next = |now: usize| now.checked_add(amount).filter(|sum| *sum <= most);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(Share { count: self.clone(), amount })
    }

    /// The amount in use.
    pub(crate) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Takes more. Changes nothing and returns `None` if more than `most` would then be in use.
    fn grow(&mut self, more: usize, most: usize) -> Option<()> {
        let mut extra = self.count.take(more, most)?;
        self.amount += std::mem::take(&mut extra.amount);
        Some(())
    }

    /// Returns all but `amount`.
    fn shrink(&mut self, amount: usize) {
        let spare = self.amount.saturating_sub(amount);
        self.count.0.fetch_sub(spare, Ordering::Relaxed);
        self.amount -= spare;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.count.0.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

/// What the requests of one token currently use.
#[derive(Debug)]
pub(crate) struct Usage {
    requests: Count,
    listeners: Count,
    memory: Count,
    processors: Arc<Semaphore>,
}

impl Default for Usage {
    fn default() -> Self {
        let processors = Arc::new(Semaphore::new((processors() / 2).max(1)));
        Self { requests: Count::default(), listeners: Count::default(), memory: Count::default(), processors }
    }
}

/// The most costly requests in progress: two per processor, so that a request that waits for the disk leaves no
/// processor idle.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(4, |count| 2 * count.get()).max(4)
}

/// The limits that the operator sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    /// Bytes of memory for request bodies, the values parsed from them, and responses.
    pub(crate) memory_bytes: usize,
    /// Listeners of one token.
    pub(crate) listeners_each: usize,
}

impl Capacity {
    /// The most bytes of one token.
    const fn memory_each(self) -> usize {
        self.memory_bytes / 2
    }

    /// The most bytes of one request.
    const fn memory_of_one(self) -> usize {
        self.memory_bytes / 4
    }

    /// The most bytes of all requests without a token.
    const fn memory_of_anonymous(self) -> usize {
        self.memory_bytes / 16
    }
}

/// The caller of a request: a token, or without one its address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who<'request> {
    Token(&'request Usage),
    Address(IpAddr),
}

/// The resources that all requests share.
#[derive(Debug)]
pub(crate) struct Admission {
    capacity: Capacity,
    requests: Count,
    anonymous: Count,
    /// Requests without a token, by address.
    addresses: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    probes: Count,
    listeners: Count,
    memory: Count,
    anonymous_memory: Count,
    processors: Arc<Semaphore>,
    pub(crate) refusals: Arc<Refusals>,
}

/// A permit to process one request. It is held by the work itself, which continues after the client disconnects.
#[derive(Debug)]
pub(crate) struct Permit {
    _all: Share,
    _each: Option<Share>,
    _address: Option<OfAddress>,
}

/// One request in progress from an address; removed when dropped.
#[derive(Debug)]
struct OfAddress {
    addresses: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Drop for OfAddress {
    fn drop(&mut self) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

/// A processor for a costly request.
#[derive(Debug)]
pub(crate) struct Processor {
    _each: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
}

/// A listener to events.
#[derive(Debug)]
pub(crate) struct Listener {
    _all: Share,
    _each: Share,
}

impl Admission {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            requests: Count::default(),
            anonymous: Count::default(),
            addresses: Arc::default(),
            probes: Count::default(),
            listeners: Count::default(),
            memory: Count::default(),
            anonymous_memory: Count::default(),
            processors: Arc::new(Semaphore::new(processors())),
            refusals: Arc::new(Refusals::new()),
        }
    }

    fn refused(&self, reason: Reason, problem: Problem) -> Problem {
        self.refusals.count(reason);
        problem
    }

    /// A permit for one request.
    pub(crate) fn admit(&self, who: Who<'_>) -> Result<Permit, Problem> {
        match who {
            Who::Token(usage) => {
                let each = usage.requests.take(1, REQUESTS_EACH).ok_or_else(|| {
                    let detail = format!("this token has {REQUESTS_EACH} requests in progress; wait for one to finish");
                    self.refused(Reason::TokenRequests, Problem::too_often(detail, Duration::from_secs(1)))
                })?;
                let busy = || Problem::busy("the server is at its limit of requests; try again");
                let all = self.requests.take(1, REQUESTS).ok_or_else(|| self.refused(Reason::Requests, busy()))?;
                Ok(Permit { _all: all, _each: Some(each), _address: None })
            }
            Who::Address(address) => {
                let busy = || Problem::busy("too many requests without a token; try again, or send a token");
                let refused = || self.refused(Reason::Anonymous, busy());
                let own = self.of_address(address).ok_or_else(refused)?;
                let all = self.anonymous.take(1, ANONYMOUS).ok_or_else(refused)?;
                Ok(Permit { _all: all, _each: None, _address: Some(own) })
            }
        }
    }

    fn of_address(&self, address: IpAddr) -> Option<OfAddress> {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let count = addresses.entry(address).or_insert(0);
        if *count >= ANONYMOUS_EACH {
            return None;
        }
        *count += 1;
        Some(OfAddress { addresses: Arc::clone(&self.addresses), address })
    }

    /// A permit for a readiness probe, which never waits for requests.
    pub(crate) fn probe(&self) -> Result<Permit, Problem> {
        let all = self.probes.take(1, PROBES).ok_or_else(|| Problem::busy("too many probes at once; try again"))?;
        Ok(Permit { _all: all, _each: None, _address: None })
    }

    /// A processor for a costly request. The wait is first come, first served; each token has at most half of the
    /// processors and waits for its own share first, so that no token starves the others.
    pub(crate) async fn processor(&self, who: Who<'_>) -> Result<Processor, Problem> {
        let wait = async {
            let each = match who {
                Who::Token(usage) => Arc::clone(&usage.processors).acquire_owned().await.ok(),
                Who::Address(_) => None,
            };
            Arc::clone(&self.processors).acquire_owned().await.ok().map(|all| Processor { _each: each, _all: all })
        };
        tokio::time::timeout(PATIENCE, wait).await.ok().flatten().ok_or_else(|| {
            self.refused(Reason::Processors, Problem::busy("costly requests are queued for too long; try again"))
        })
    }

    /// A listener of this token.
    pub(crate) fn listener(&self, usage: &Usage) -> Result<Listener, Problem> {
        let most = self.capacity.listeners_each;
        let each = usage.listeners.take(1, most).ok_or_else(|| {
            let detail = format!("this token has {most} listeners to events; close one (--most-listeners)");
            self.refused(Reason::Listeners, Problem::too_often(detail, Duration::from_secs(1)))
        })?;
        let all = self.listeners.take(1, LISTENERS).ok_or_else(|| {
            self.refused(Reason::Listeners, Problem::busy("the server is at its limit of event listeners; try again"))
        })?;
        Ok(Listener { _all: all, _each: each })
    }

    /// An empty reservation of memory for one request.
    pub(crate) fn memory(&self, who: Who<'_>) -> Reservation {
        let (own, most_own) = match who {
            Who::Token(usage) => (&usage.memory, self.capacity.memory_each()),
            Who::Address(_) => (&self.anonymous_memory, self.capacity.memory_of_anonymous()),
        };
        let none = |count: &Count| Share { count: count.clone(), amount: 0 };
        Reservation {
            own: none(own),
            all: none(&self.memory),
            most_own,
            most_all: self.capacity.memory_bytes,
            most: self.capacity.memory_of_one(),
            refusals: Arc::clone(&self.refusals),
        }
    }

    /// The requests, the listeners and the bytes of memory in use.
    pub(crate) fn in_use(&self) -> [usize; 3] {
        [self.requests.now() + self.anonymous.now(), self.listeners.now(), self.memory.now()]
    }
}

/// Memory that a request has reserved; released when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    own: Share,
    all: Share,
    most_own: usize,
    most_all: usize,
    /// The most bytes of one request.
    most: usize,
    refusals: Arc<Refusals>,
}

impl Reservation {
    /// Reserves more bytes. Waits until other requests release theirs, if necessary.
    pub(crate) async fn wait_for(&mut self, bytes: usize) -> Result<(), Problem> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && self.all.amount.saturating_add(bytes) <= self.most {
            if self.take(bytes).is_some() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.grow(bytes)
    }

    fn take(&mut self, bytes: usize) -> Option<()> {
        self.own.grow(bytes, self.most_own)?;
        let all = self.all.grow(bytes, self.most_all);
        if all.is_none() {
            self.own.shrink(self.own.amount - bytes);
        }
        all
    }

    /// Reserves more bytes.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        if self.all.amount.saturating_add(bytes) > self.most {
            self.refusals.count(Reason::Memory);
            let detail = format!(
                "this request needs more memory than the {} MB that one may have; send fewer values at a time, or raise \
                 --most-memory",
                self.most / 1_000_000
            );
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        }
        self.take(bytes).ok_or_else(|| {
            self.refusals.count(Reason::Memory);
            Problem::busy("the memory for requests is in use; try again")
        })
    }

    /// Returns all but so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        self.own.shrink(bytes);
        self.all.shrink(bytes);
    }
}

/// An upper bound of the memory that a JSON text takes once it is parsed into values: 32 bytes for each value, and a
/// node of an ordered map for every eleven fields of an object, at least one. Strings are skipped.
pub(crate) fn json_bytes(body: &[u8]) -> usize {
    const VALUE: usize = 64;
    const OBJECT: usize = 768;
    let (mut total, mut quoted, mut escaped) = (body.len().saturating_add(VALUE), false, false);
    for byte in body {
        match (quoted, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => quoted = !quoted,
            (false, b'{') => total = total.saturating_add(OBJECT),
            // A list doubles its buffer as it grows, and a field of an object has its name beside its value.
            (false, b'[' | b',' | b':') => total = total.saturating_add(VALUE),
            _ => {}
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(memory_bytes: usize) -> Admission {
        Admission::new(Capacity { memory_bytes, listeners_each: 2 })
    }

    /// Regression test: 256 stalled logins used to take every permit.
    #[test]
    fn no_caller_takes_every_permit() {
        let admission = admission(1 << 20);
        let (mia, zoe) = (Usage::default(), Usage::default());
        let of_mia: Vec<_> = (0..REQUESTS).filter_map(|_| admission.admit(Who::Token(&mia)).ok()).collect();
        assert_eq!(of_mia.len(), REQUESTS_EACH);
        assert!(admission.admit(Who::Token(&zoe)).is_ok());
        let addresses = (0..=255).map(|last| IpAddr::from([127, 0, 0, last]));
        let anonymous: Vec<_> = addresses
            .flat_map(|one| (0..REQUESTS).map(move |_| one))
            .filter_map(|one| admission.admit(Who::Address(one)).ok())
            .collect();
        assert_eq!(anonymous.len(), ANONYMOUS);
        let first = anonymous
            .iter()
            .filter(|permit| permit._address.as_ref().is_some_and(|own| own.address == IpAddr::from([127, 0, 0, 0])))
            .count();
        assert_eq!(first, ANONYMOUS_EACH);
        assert!(admission.admit(Who::Token(&zoe)).is_ok());
        drop(anonymous);
        assert!(admission.addresses.lock().expect("a lock").is_empty(), "addresses without requests are removed");
        let listeners: Vec<_> = (0..5).filter_map(|_| admission.listener(&mia).ok()).collect();
        assert_eq!((listeners.len(), admission.listener(&zoe).is_ok()), (2, true));
    }

    #[test]
    fn memory_is_reserved_given_back_and_never_more_than_there_is() {
        let admission = admission(1000);
        let (mia, zoe) = (Usage::default(), Usage::default());
        let mut one = admission.memory(Who::Token(&mia));
        assert_eq!(one.grow(251).expect_err("more than a quarter").status, StatusCode::PAYLOAD_TOO_LARGE);
        one.grow(250).expect("a quarter");
        let mut two = admission.memory(Who::Token(&mia));
        two.grow(250).expect("the second quarter");
        let mut three = admission.memory(Who::Token(&mia));
        assert_eq!(three.grow(1).expect_err("more than half").status, StatusCode::SERVICE_UNAVAILABLE);
        let mut other = admission.memory(Who::Token(&zoe));
        other.grow(250).expect("a quarter of another token");
        assert_eq!(admission.in_use()[2], 750);
        one.shrink(50);
        three.grow(200).expect("what was given back");
        drop((one, two, three, other));
        assert_eq!((admission.in_use()[2], mia.memory.now(), zoe.memory.now()), (0, 0, 0));
    }

    #[test]
    fn what_json_takes_is_bounded_from_above() {
        for (text, least) in
            [("[0,0,0,0,0,0,0,0]", 8 * 32), ("[{\"\":0},{\"\":0},{\"\":0}]", 3 * 640), ("[[],[],[]]", 3 * 32)]
        {
            assert!(json_bytes(text.as_bytes()) >= least, "{text}");
        }
        // Brackets inside a string are not counted.
        let text = format!("\"{}\\\"{{{{\"", "{[,".repeat(1000));
        assert!(json_bytes(text.as_bytes()) < 2 * text.len());
    }
}
