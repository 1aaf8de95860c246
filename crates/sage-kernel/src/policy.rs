//! What a stream's officer decides: ceilings, by context and together, and which doors are open.

use crate::block::{BlocksError, ContextId};
use crate::event::Door;
use crate::filter::Filter;

/// Which ways of reading rows a stream admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doors {
    /// Only the kernel's own mechanisms touch rows.
    EnforcedOnly,
    /// Also code whose author vouches for its cost.
    DeclaredToo,
}

/// A ledger of its own within a stream: a developer, a team, a geography.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its name.
    pub name: String,
    /// What it may spend.
    pub filter: Filter,
}

/// The policy of a stream.
///
/// # Guarantee
/// At least one context. What leaves through one context is within that context's ceiling; what leaves
/// through all of them together is within the joint ceiling where there is one, and only where there is
/// one is anything promised against contexts that collude.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    contexts: Vec<Context>,
    joint: Option<Filter>,
    doors: Doors,
}

impl Policy {
    /// A policy with one context, named `default`.
    pub fn single(filter: Filter, doors: Doors) -> Self {
        Self { contexts: vec![Context { name: "default".to_owned(), filter }], joint: None, doors }
    }

    /// A policy with several contexts and, if the company does not rule out collusion, a joint ceiling.
    ///
    /// # Errors
    /// When there is no context.
    pub fn with_contexts(contexts: Vec<Context>, joint: Option<Filter>, doors: Doors) -> Result<Self, BlocksError> {
        if contexts.is_empty() { Err(BlocksError::Empty) } else { Ok(Self { contexts, joint, doors }) }
    }

    /// The contexts.
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// The ceiling over all contexts.
    pub const fn joint(&self) -> Option<&Filter> {
        self.joint.as_ref()
    }

    /// The doors.
    pub const fn doors(&self) -> Doors {
        self.doors
    }

    /// Whether rows may be read this way.
    pub(crate) fn opens(&self, door: &Door) -> bool {
        *door == Door::Enforced || self.doors == Doors::DeclaredToo
    }

    /// How many people must approve that the other policy takes this one's place: two if it allows anything
    /// that this one does not, else one; nothing if it may not.
    ///
    /// # Guarantee
    /// A policy that may take its place has the same books with the same numbers, so what was spent under
    /// this one is counted under the other as it stands: `proofs/block.md`.
    pub fn approvals_to_become(&self, other: &Self) -> Option<usize> {
        let alike = self.joint.is_some() == other.joint.is_some()
            && self.contexts.iter().map(|own| &own.name).eq(other.contexts.iter().map(|own| &own.name));
        let filters = || self.filters().zip(other.filters());
        if !(alike && filters().all(|(own, other)| own.may_become(other))) {
            return None;
        }
        let opened = self.doors == Doors::EnforcedOnly && other.doors == Doors::DeclaredToo;
        let raised = filters().any(|(own, other)| own.caps().iter().zip(other.caps()).any(|(own, other)| other > own));
        Some(if opened || raised { 2 } else { 1 })
    }

    /// The books a charge in this context is entered in: the context's own, then the joint one.
    pub(crate) fn books(&self, context: ContextId) -> Option<impl Iterator<Item = (usize, &Filter)> + Clone> {
        let place = context.0 as usize;
        let own = (place, &self.contexts.get(place)?.filter);
        let joint = self.joint.as_ref().map(|filter| (self.contexts.len(), filter));
        Some(std::iter::once(own).chain(joint))
    }

    /// All filters, in the order of the books.
    pub(crate) fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.contexts.iter().map(|context| &context.filter).chain(self.joint.as_ref())
    }
}
