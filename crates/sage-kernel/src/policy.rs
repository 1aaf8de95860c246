//! The policy of a stream, set by its officer: ceilings for each context and for all of them, and access modes.

use crate::block::{BlocksError, ContextId};
use crate::event::AccessMode;
use crate::filter::Filter;

/// The access modes that a stream admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessModes {
    /// Enforced only: nothing but the kernel's mechanisms reads rows.
    EnforcedOnly,
    /// Enforced and attested: code whose author attests its cost can also read rows.
    AttestedToo,
}

/// A separate account within a stream: a developer, a team, a geography.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its name.
    pub name: String,
    /// The filter that bounds what it spends.
    pub filter: Filter,
}

/// The policy of a stream.
///
/// # Guarantee
/// There is at least one context. What is released through one context stays within its ceiling. What is released
/// through all contexts together stays within the joint ceiling, if there is one; without one there is no guarantee
/// against contexts that collude.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    contexts: Vec<Context>,
    joint: Option<Filter>,
    access_modes: AccessModes,
}

impl Policy {
    /// A policy with one context, named `default`.
    pub fn single(filter: Filter, access_modes: AccessModes) -> Self {
        Self { contexts: vec![Context { name: "default".to_owned(), filter }], joint: None, access_modes }
    }

    /// A policy with several contexts and an optional joint ceiling, which protects against collusion of contexts.
    ///
    /// # Errors
    /// When there is no context.
    pub fn with_contexts(
        contexts: Vec<Context>, joint: Option<Filter>, access_modes: AccessModes,
    ) -> Result<Self, BlocksError> {
        if contexts.is_empty() { Err(BlocksError::Empty) } else { Ok(Self { contexts, joint, access_modes }) }
    }

    /// The contexts.
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// The filter over all contexts.
    pub const fn joint(&self) -> Option<&Filter> {
        self.joint.as_ref()
    }

    /// The admitted access modes.
    pub const fn access_modes(&self) -> AccessModes {
        self.access_modes
    }

    /// Whether the policy admits the access mode.
    pub(crate) fn admits(&self, access: &AccessMode) -> bool {
        *access == AccessMode::Enforced || self.access_modes == AccessModes::AttestedToo
    }

    /// The number of approvals needed to replace this policy by the other: two if the other allows anything that this
    /// one does not, otherwise one; `None` if it cannot replace this one.
    ///
    /// # Guarantee
    /// A policy that can replace this one has the same books with the same components, so amounts spent under this
    /// policy are valid under the other without conversion: `proofs/block.md`.
    pub fn approvals_to_become(&self, other: &Self) -> Option<usize> {
        let alike = self.joint.is_some() == other.joint.is_some()
            && self.contexts.iter().map(|own| &own.name).eq(other.contexts.iter().map(|own| &own.name));
        let filters = || self.filters().zip(other.filters());
        if !(alike && filters().all(|(own, other)| own.may_become(other))) {
            return None;
        }
        let opened = self.access_modes == AccessModes::EnforcedOnly && other.access_modes == AccessModes::AttestedToo;
        let raised = filters().any(|(own, other)| own.caps().iter().zip(other.caps()).any(|(own, other)| other > own));
        Some(if opened || raised { 2 } else { 1 })
    }

    /// The books of a context, with their filters: the context's own, then the joint one if there is one.
    ///
    /// A book is the account of amounts spent that one filter bounds.
    pub(crate) fn books(&self, context: ContextId) -> Option<impl Iterator<Item = (usize, &Filter)> + Clone> {
        let index = context.0 as usize;
        let own = (index, &self.contexts.get(index)?.filter);
        let joint = self.joint.as_ref().map(|filter| (self.contexts.len(), filter));
        Some(std::iter::once(own).chain(joint))
    }

    /// All filters, in the order of the books.
    pub(crate) fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.contexts.iter().map(|context| &context.filter).chain(self.joint.as_ref())
    }
}
