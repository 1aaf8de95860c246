//! What can happen to a budget, and the bytes it is written as (`docs/reference/log-format.md`).
//!
//! The log holds more kinds of events than the kernel acts on; those are [`Event::Note`], carried and
//! chained like the rest. An event holds decided integers, never a formula to be evaluated again: what a
//! charge cost does not change when an accountant improves.

use sha2::{Digest, Sha256};

use crate::block::{Blocks, ContextId, StreamId};
use crate::cost::{Amounts, Cost};
use crate::policy::Policy;

/// A grant, by the number of the event that charged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(pub u64);

/// A request's key: the same key has the same effect for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey([u8; 32]);

impl RequestKey {
    /// The key for a client's own text.
    pub fn from_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// The key as it was written.
    pub(crate) const fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The digest of the client's text.
    pub const fn bytes(self) -> [u8; 32] {
        self.0
    }
}

/// How rows will be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// Only by the kernel's mechanisms.
    Enforced,
    /// By code whose author vouches for the cost.
    Declared {
        /// Who vouches.
        author: String,
        /// Why the cost is what it is said to be.
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
    /// On whose account.
    pub context: ContextId,
    /// The blocks.
    pub blocks: Blocks,
    /// What is spent on each lane, in the order of [`crate::Lane::BOTH`].
    pub costs: [Option<Cost>; 2],
    /// How rows will be read.
    pub door: Door,
    /// What for, in the client's words.
    pub purpose: String,
}

/// A request that was admitted, with the integers it came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// What was asked.
    pub request: Request,
    /// For each lane, the amounts in each book: the context's own, then the joint one.
    pub amounts: [Vec<Amounts>; 2],
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A stream exists.
    StreamCreated {
        /// Its name.
        name: String,
        /// Its policy.
        policy: Policy,
    },
    /// Blocks exist, unspent.
    BlocksAdded {
        /// Their stream.
        stream: StreamId,
        /// Their public keys, in order of arrival.
        keys: Vec<String>,
    },
    /// Budget is spent.
    Charged(Box<Charge>),
    /// Rows may be read from now on: the charge is final.
    Started {
        /// Under this charge.
        grant: GrantId,
    },
    /// The charge is taken back; nothing was read.
    Cancelled {
        /// This charge.
        grant: GrantId,
    },
    /// Something computed under the charge has left.
    Released {
        /// This charge.
        grant: GrantId,
        /// SHA-256 of what left.
        digest: [u8; 32],
    },
    /// The charge stands and nothing will leave under it.
    Burnt {
        /// This charge.
        grant: GrantId,
    },
    /// Blocks may never be read again.
    Retired {
        /// Their stream.
        stream: StreamId,
        /// The blocks.
        blocks: Blocks,
    },
    /// A stream has another policy from now on; what was spent stays spent.
    PolicyChanged {
        /// The stream.
        stream: StreamId,
        /// Its policy from now on.
        policy: Policy,
        /// Who approved it, by name.
        approvals: Vec<String>,
    },
    /// The state before this event was written down elsewhere.
    Snapshot {
        /// SHA-256 of the bytes.
        digest: [u8; 32],
    },
    /// Something that does not touch a budget.
    Note {
        /// Its kind.
        kind: String,
        /// Its content, in the words of whoever wrote it.
        body: Vec<u8>,
    },
}
