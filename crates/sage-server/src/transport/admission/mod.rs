//! Admission control: how much of the machine requests may use at a time, in all and for each caller.
//!
//! A request is authenticated by its head before it takes anything. Its body is read next and counted by the byte as
//! it arrives, so a client that stalls holds only what it has sent. A permit is taken once the body is complete, and
//! only while the request is processed. Each token has a share of every resource that is smaller than the
//! whole, so no single caller can exhaust it; requests without a token have a small share of their own. Refusals are
//! counted by reason and logged ([`Refusals`]).

mod count;
mod memory;
mod refusals;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;

pub(crate) use count::{Count, Share};
pub(crate) use memory::{Reservation, json_bytes};
pub(crate) use refusals::{Reason, Refusals};

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
        let most = [most_own, self.capacity.memory_bytes, self.capacity.memory_of_one()];
        Reservation::new([own, &self.memory], most, Arc::clone(&self.refusals))
    }

    /// The requests, the listeners and the bytes of memory in use.
    pub(crate) fn in_use(&self) -> [usize; 3] {
        [self.requests.now() + self.anonymous.now(), self.listeners.now(), self.memory.now()]
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

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
}
