//! The events of the log (`docs/reference/log-format.md`).
//!
//! Events that the kernel does not act on are [`Event::Note`]s, stored and chained like the others. An event must never
//! contain a formula that is evaluated again: its amounts are fixed integers, so a better accountant does not change the
//! cost of past charges.

use sha2::{Digest, Sha256};

use crate::block::{Blocks, ContextId, StreamId};
use crate::cost::{Amounts, Cost};
use crate::policy::Policy;

/// A grant, identified by the number of the event that charged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(pub u64);

/// The idempotency key of a request: a repeated key never charges again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey([u8; 32]);

impl RequestKey {
    /// The key for a text chosen by the client.
    pub fn from_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// The key with this digest, as stored in the log.
    pub(crate) const fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The digest of the client's text.
    pub const fn bytes(self) -> [u8; 32] {
        self.0
    }
}

/// The access mode of a request: who computes on the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// Enforced: only the kernel's mechanisms.
    Enforced,
    /// Attested: code whose author vouches for the cost.
    Attested {
        /// Name of the person who accepts the risk.
        author: String,
        /// Why the stated cost is correct.
        reason: String,
    },
}

/// A request to read blocks at a cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's key.
    pub key: RequestKey,
    /// The stream.
    pub stream: StreamId,
    /// The context that is charged.
    pub context: ContextId,
    /// The blocks.
    pub blocks: Blocks,
    /// The cost on each lane, in the order of [`crate::Lane::BOTH`].
    pub costs: [Option<Cost>; 2],
    /// The access mode.
    pub access: AccessMode,
    /// The purpose, in the client's words.
    pub purpose: String,
}

/// An admitted request with its amounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The request.
    pub request: Request,
    /// For each lane, the amounts in each book: the context's own, then the joint one.
    pub amounts: [Vec<Amounts>; 2],
}

/// An event of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A stream was created.
    StreamCreated {
        /// Its name.
        name: String,
        /// Its policy.
        policy: Policy,
    },
    /// Blocks were added, with nothing spent.
    BlocksAdded {
        /// Their stream.
        stream: StreamId,
        /// Their public keys, in order of arrival.
        keys: Vec<String>,
    },
    /// A request was charged.
    Charged(Box<Charge>),
    /// A grant started: its rows can be read and its charge is final.
    Started {
        /// The grant.
        grant: GrantId,
    },
    /// A grant was cancelled before it started; its charge is undone.
    Cancelled {
        /// The grant.
        grant: GrantId,
    },
    /// A result computed under a grant was released.
    Released {
        /// The grant.
        grant: GrantId,
        /// SHA-256 of the result.
        digest: [u8; 32],
    },
    /// A started grant ended without a release; its charge stands.
    Burnt {
        /// The grant.
        grant: GrantId,
    },
    /// Blocks were retired: they can never be read again.
    Retired {
        /// Their stream.
        stream: StreamId,
        /// The blocks.
        blocks: Blocks,
    },
    /// A stream's policy was replaced; spent amounts stay.
    PolicyChanged {
        /// The stream.
        stream: StreamId,
        /// The new policy.
        policy: Policy,
        /// The names of the officers who approved it.
        approvals: Vec<String>,
    },
    /// A snapshot of the state before this event was stored elsewhere.
    Snapshot {
        /// SHA-256 of the snapshot.
        digest: [u8; 32],
    },
    /// An event that does not affect budgets.
    Note {
        /// Its kind.
        kind: String,
        /// Its content, in the format of its writer.
        body: Vec<u8>,
    },
}
