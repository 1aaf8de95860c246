//! Members of contexts: the principals who may spend in each context of a policy.
//!
//! Separate ceilings assume that the members of different contexts do not share what they learn. So if no joint ceiling
//! covers all contexts, every context must list its members, and nobody may ever be a member of two. With a joint
//! ceiling, or with a single context, the list only assigns accounts. This module counts no privacy loss: the ledger
//! keeps each context within its ceiling whatever is decided here.

use std::collections::{BTreeMap, BTreeSet};

use super::policy::{ContextLimit, Limits, PolicyFile};

/// Why a principal may not spend in a context, or why contexts may not have these members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemberRefusal {
    /// The policy has no such context.
    #[error("the stream's policy has no context \"{0}\"")]
    UnknownContext(String),
    /// The principal is not a member of the context, or of any context.
    #[error(
        "\"{principal}\" is not a member of {}; `members` under [[policy.contexts]] in the stream's file lists the \
         members; nothing was charged",
        .context.as_ref().map_or_else(|| "any context of this stream".to_owned(), |name| format!("context \"{name}\""))
    )]
    NotMember {
        /// The principal.
        principal: String,
        /// The requested context, or `None` if the principal is a member of none.
        context: Option<String>,
    },
    /// Several contexts could pay, and the request names none.
    #[error(
        "several contexts could pay for \"{principal}\": {}; name one as `context`; nothing was charged",
        quoted_list(.contexts)
    )]
    Ambiguous {
        /// The principal.
        principal: String,
        /// The contexts in which the principal may spend.
        contexts: Vec<String>,
    },
    /// A context lists no members, and no joint ceiling covers all contexts.
    #[error(
        "context \"{0}\" names no members, and without a ceiling over all contexts one person could spend in each; \
         give every context its `members`, or the policy a [policy.joint]"
    )]
    NoMembers(String),
    /// A principal would be a member of two contexts that no joint ceiling covers.
    #[error(
        "\"{principal}\" cannot be a member of context \"{}\" after being one of \"{}\": what is seen in one is known \
         in the other, and no ceiling covers both; leave them in one, or create a stream with a [policy.joint]",
        .contexts[1], .contexts[0]
    )]
    TwoContexts {
        /// The principal.
        principal: String,
        /// The context they are or were a member of, then the second one.
        contexts: [String; 2],
    },
}

fn quoted_list(names: &[String]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

impl PolicyFile {
    /// The context that pays for a principal's request, which may name one. Returns `None` if the policy has no named
    /// contexts.
    ///
    /// # Errors
    /// When the principal may not spend in the named context, or no context or several could pay.
    pub fn paying_context(&self, principal: &str, named: Option<&str>) -> Result<Option<String>, MemberRefusal> {
        let Limits::Contexts { contexts, .. } = &self.limits else {
            return match named {
                // The kernel's name for the only context.
                None | Some("default") => Ok(named.map(str::to_owned)),
                Some(name) => Err(MemberRefusal::UnknownContext(name.to_owned())),
            };
        };
        if let Some(name) = named {
            let context = contexts.iter().find(|context| context.name == name);
            let context = context.ok_or_else(|| MemberRefusal::UnknownContext(name.to_owned()))?;
            return self.check_member(principal, context).map(|()| Some(context.name.clone()));
        }
        let open: Vec<&ContextLimit> =
            contexts.iter().filter(|context| self.check_member(principal, context).is_ok()).collect();
        match open[..] {
            [] => Err(match contexts.iter().find(|context| context.members.is_empty()) {
                Some(empty) => MemberRefusal::NoMembers(empty.name.clone()),
                None => MemberRefusal::NotMember { principal: principal.to_owned(), context: None },
            }),
            [one] => Ok(Some(one.name.clone())),
            _ => Err(MemberRefusal::Ambiguous {
                principal: principal.to_owned(),
                contexts: open.into_iter().map(|context| context.name.clone()).collect(),
            }),
        }
    }

    /// Whether a principal may still spend in the context of a run they submitted. Runs that were logged before
    /// contexts had to be named belong to the first context.
    pub fn can_still_spend(&self, principal: &str, context: Option<&str>) -> bool {
        match (&self.limits, context) {
            (Limits::Contexts { contexts, .. }, None) => {
                contexts.first().is_some_and(|first| self.check_member(principal, first).is_ok())
            }
            _ => self.paying_context(principal, context).is_ok(),
        }
    }

    fn check_member(&self, principal: &str, context: &ContextLimit) -> Result<(), MemberRefusal> {
        match context.members.iter().any(|member| member == principal) {
            true => Ok(()),
            false if context.members.is_empty() && !self.has_separate_contexts() => Ok(()),
            false if context.members.is_empty() => Err(MemberRefusal::NoMembers(context.name.clone())),
            false => {
                Err(MemberRefusal::NotMember { principal: principal.to_owned(), context: Some(context.name.clone()) })
            }
        }
    }

    /// Whether there are several contexts and no joint ceiling over them.
    fn has_separate_contexts(&self) -> bool {
        matches!(&self.limits, Limits::Contexts { contexts, joint: None } if contexts.len() > 1)
    }

    /// Pairs of member and context, if the contexts are separate; nothing otherwise.
    pub fn separate_members(&self) -> impl Iterator<Item = (&str, &str)> {
        let contexts = match &self.limits {
            Limits::Contexts { contexts, .. } if self.has_separate_contexts() => &contexts[..],
            _ => &[],
        };
        contexts.iter().flat_map(|own| own.members.iter().map(|member| (member.as_str(), own.name.as_str())))
    }

    /// Checks that no principal is a member of two separate contexts, counting earlier memberships in `before`, and
    /// that separate contexts list their members. Otherwise one person could learn more than one ceiling allows.
    pub fn check_members(&self, before: &BTreeMap<String, String>) -> Result<(), MemberRefusal> {
        if let Limits::Contexts { contexts, .. } = &self.limits
            && self.has_separate_contexts()
            && let Some(empty) = contexts.iter().find(|context| context.members.is_empty())
        {
            return Err(MemberRefusal::NoMembers(empty.name.clone()));
        }
        let mut memberships: BTreeMap<&str, &str> =
            before.iter().map(|(principal, context)| (principal.as_str(), context.as_str())).collect();
        for (principal, context) in self.separate_members() {
            let first = *memberships.entry(principal).or_insert(context);
            if first != context {
                let contexts = [first, context].map(str::to_owned);
                return Err(MemberRefusal::TwoContexts { principal: principal.to_owned(), contexts });
            }
        }
        Ok(())
    }

    /// The members of all contexts.
    pub(super) fn all_members(&self) -> BTreeSet<&str> {
        let contexts = match &self.limits {
            Limits::Contexts { contexts, .. } => &contexts[..],
            Limits::Single(_) => &[],
        };
        contexts.iter().flat_map(|context| context.members.iter().map(String::as_str)).collect()
    }

    /// Whether both policies have the same ceilings and access modes. Members may differ.
    pub(super) fn has_same_limits(&self, other: &Self) -> bool {
        let without_members = |policy: &Self| {
            let mut policy = policy.clone();
            if let Limits::Contexts { contexts, .. } = &mut policy.limits {
                contexts.iter_mut().for_each(|context| context.members.clear());
            }
            policy
        };
        without_members(self) == without_members(other)
    }
}
