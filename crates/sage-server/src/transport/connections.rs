//! Limits of open connections, in total and per address, and eviction.
//!
//! At the limit, the oldest connection that never sent a token is closed for the new one. So a flood of idle
//! connections evicts itself, and clients with a token keep theirs. A quarter of the file descriptors is always left
//! for files.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::transport::admission::{Reason, Refusals};

/// The limits of open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Most {
    pub(crate) all: usize,
    pub(crate) each_address: usize,
}

/// All open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    most: Most,
    refusals: Arc<Refusals>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    count: usize,
    by_address: BTreeMap<IpAddr, usize>,
    /// Connections that never sent a token, the oldest first.
    anonymous: BTreeMap<u64, Arc<Connection>>,
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    number: u64,
    address: IpAddr,
    known: AtomicBool,
    evicted: Notify,
    connections: Arc<Connections>,
}

/// Where a request comes from.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    connection: Arc<Connection>,
}

/// Keeps a connection counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Connection>);

impl Connections {
    /// With these limits, lowered to three quarters of the file descriptors.
    pub(crate) fn new(most: Most, descriptors: Option<usize>, refusals: Arc<Refusals>) -> Arc<Self> {
        let allowed = descriptors.map_or(most.all, |count| most.all.min(count / 4 * 3)).max(1);
        Arc::new(Self { most: Most { all: allowed, ..most }, refusals, open: Mutex::default() })
    }

    /// The number of open connections.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// The limit of open connections.
    pub(crate) const fn most(&self) -> usize {
        self.most.all
    }

    /// Counts a new connection. Returns `None` if it must be closed at once.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        self.admit_up_to(address, self.most.each_address)
    }

    /// The same for a proxy, which has no limit per address because it has many clients.
    pub(crate) fn admit_proxy(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        self.admit_up_to(address, usize::MAX)
    }

    fn admit_up_to(self: &Arc<Self>, address: IpAddr, each: usize) -> Option<Slot> {
        let address = network(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.by_address.get(&address).is_some_and(|count| *count >= each) {
            drop(open);
            self.refusals.count(Reason::AddressConnections);
            return None;
        }
        let mut reason = None;
        if open.count >= self.most.all {
            match open.anonymous.pop_first() {
                Some((_, oldest)) => {
                    oldest.evicted.notify_one();
                    reason = Some(Reason::Evicted);
                }
                None => reason = Some(Reason::Connections),
            }
        }
        let slot = (reason != Some(Reason::Connections)).then(|| {
            open.next += 1;
            open.count += 1;
            *open.by_address.entry(address).or_insert(0) += 1;
            let (number, known, evicted) = (open.next, AtomicBool::new(false), Notify::new());
            let one = Arc::new(Connection { number, address, known, evicted, connections: Arc::clone(self) });
            open.anonymous.insert(number, Arc::clone(&one));
            Slot(one)
        });
        drop(open);
        if let Some(reason) = reason {
            self.refusals.count(reason);
        }
        slot
    }
}

/// The address under which a client is counted: for IPv6 its /64 network, since one client may use many addresses of it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(own) => {
            let [one, two, three, four, ..] = own.segments();
            IpAddr::V6(Ipv6Addr::new(one, two, three, four, 0, 0, 0, 0))
        }
        four => four,
    }
}

impl Slot {
    /// Where requests of this connection come from.
    pub(crate) fn peer(&self, address: IpAddr) -> Peer {
        Peer { address: network(address), connection: Arc::clone(&self.0) }
    }

    /// The counters of refusals.
    pub(crate) fn refusals(&self) -> Arc<Refusals> {
        Arc::clone(&self.0.connections.refusals)
    }

    /// Waits until the connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.0.evicted.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let connection = &self.0;
        let mut open = connection.connections.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.anonymous.remove(&connection.number);
        open.count -= 1;
        if let Some(count) = open.by_address.get_mut(&connection.address) {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&connection.address);
            }
        }
    }
}

impl Peer {
    /// Records that a valid token was sent over this connection, so that it is never evicted.
    pub(crate) fn is_known(&self) {
        let connection = &self.connection;
        if !connection.known.swap(true, Ordering::Relaxed) {
            let mut open = connection.connections.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.anonymous.remove(&connection.number);
        }
    }

    /// The same connection with the address of the client behind a proxy.
    pub(crate) fn behind(&self, address: IpAddr) -> Self {
        Self { address: network(address), connection: Arc::clone(&self.connection) }
    }
}

/// The limit of file descriptors of this process; `None` if the system does not report it.
pub(crate) fn descriptors() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::transport::admission::{Admission, Capacity};

    fn connections(all: usize, each_address: usize) -> Arc<Connections> {
        let admission = Admission::new(Capacity { memory_bytes: 1, listeners_each: 1 });
        Connections::new(Most { all, each_address }, None, admission.refusals)
    }

    #[test]
    fn an_address_has_its_share_and_a_flood_evicts_itself() {
        let connections = connections(4, 2);
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let known = connections.admit(address(1)).expect("the first");
        known.peer(address(1)).is_known();
        let oldest = connections.admit(address(1)).expect("the second");
        assert!(connections.admit(address(1)).is_none(), "the limit per address is two");
        let rest = [2, 3].map(|last| connections.admit(address(last)).expect("others"));
        assert_eq!(connections.count(), 4);
        let fresh = connections.admit(address(4)).expect("the oldest connection without a token is evicted");
        assert!(oldest.evicted().now_or_never().is_some() && rest[0].evicted().now_or_never().is_none());
        assert!(known.evicted().now_or_never().is_none(), "a client with a token stays");
        drop((oldest, rest, fresh, known));
        assert_eq!(connections.count(), 0);
        assert!(connections.open.lock().expect("a lock").by_address.is_empty());
    }

    #[test]
    fn clients_with_tokens_are_not_closed_for_others() {
        let connections = connections(1, 9);
        let only = connections.admit(IpAddr::from([10, 0, 0, 1])).expect("the first");
        only.peer(IpAddr::from([10, 0, 0, 1])).is_known();
        assert!(connections.admit(IpAddr::from([10, 0, 0, 2])).is_none());
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let one: IpAddr = "2001:db8::1".parse().expect("an address");
        let two: IpAddr = "2001:db8::ffff:2".parse().expect("an address");
        let other: IpAddr = "2001:db8:0:1::1".parse().expect("an address");
        assert!(network(one) == network(two) && network(one) != network(other));
        assert_eq!(network("::ffff:10.0.0.1".parse().expect("an address")), IpAddr::from([10, 0, 0, 1]));
    }

    #[test]
    fn descriptors_bound_connections() {
        let admission = Admission::new(Capacity { memory_bytes: 1, listeners_each: 1 });
        let bounded = Connections::new(Most { all: 4096, each_address: 1 }, Some(1024), admission.refusals);
        assert_eq!(bounded.most(), 768);
    }
}
