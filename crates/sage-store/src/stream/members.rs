//! Who may spend in which context of a policy.
//!
//! Separate ceilings stand for people who do not put together what they learn. That can only be so if nobody spends in
//! two of them: where no ceiling is over all contexts, each has to name its members, and nobody is ever a member of
//! two. Where one is, or where there is a single context, a list only says whose account it is. Nothing here counts a
//! loss: whatever is decided here, the ledger keeps each context within its ceiling.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::policy::{ContextLimit, Limits, PolicyFile};

/// Why somebody may not spend in a context, or why contexts may not have these members.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberRefusal {
    /// The policy has no such context.
    NoContext(String),
    /// Somebody else's account.
    NotMember {
        /// Who asked.
        principal: String,
        /// In which context; nothing where there is none that they are a member of.
        context: Option<String>,
    },
    /// There are several that could pay.
    Unnamed {
        /// Who asked.
        principal: String,
        /// The contexts they may spend in.
        contexts: Vec<String>,
    },
    /// Nobody is named who may spend there, and no ceiling is over all contexts.
    NoMembers(String),
    /// One person would learn what two contexts spend, and no ceiling is over both.
    Twice {
        /// Who.
        principal: String,
        /// The one they are or were a member of, and the other.
        contexts: [String; 2],
    },
}

impl fmt::Display for MemberRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[String]| names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        match self {
            Self::NoContext(name) => write!(out, "the stream's policy has no context \"{name}\""),
            Self::NotMember { principal, context: Some(context) } => write!(
                out,
                "\"{principal}\" is no member of context \"{context}\"; `members` under [[policy.contexts]] of the \
                 stream's file says who is; nothing was charged"
            ),
            Self::NotMember { principal, context: None } => write!(
                out,
                "\"{principal}\" is a member of no context of this stream; `members` under [[policy.contexts]] of its \
                 file says who is; nothing was charged"
            ),
            Self::Unnamed { principal, contexts } => write!(
                out,
                "several contexts could pay for \"{principal}\": {}; name one as `context`; nothing was charged",
                list(contexts)
            ),
            Self::NoMembers(context) => write!(
                out,
                "context \"{context}\" names no members, and without a ceiling over all contexts one person could spend \
                 in each; give every context its `members`, or the policy a [policy.joint]"
            ),
            Self::Twice { principal, contexts } => write!(
                out,
                "\"{principal}\" cannot be a member of context \"{}\" after being one of \"{}\": what is seen in one is \
                 known in the other, and no ceiling is over both; leave them in one, or create a stream with a \
                 [policy.joint]",
                contexts[1], contexts[0]
            ),
        }
    }
}

impl std::error::Error for MemberRefusal {}

impl PolicyFile {
    /// The context that pays for what somebody asks, who may have named one; nothing where the policy has no names for
    /// contexts.
    ///
    /// # Errors
    /// When they may not spend there, or it is not clear where.
    pub fn paid_by(&self, principal: &str, named: Option<&str>) -> Result<Option<String>, MemberRefusal> {
        let Limits::Contexts { contexts, .. } = &self.limits else {
            return match named {
                // What the kernel calls the only one there is.
                None | Some("default") => Ok(named.map(str::to_owned)),
                Some(name) => Err(MemberRefusal::NoContext(name.to_owned())),
            };
        };
        if let Some(name) = named {
            let context = contexts.iter().find(|context| context.name == name);
            let context = context.ok_or_else(|| MemberRefusal::NoContext(name.to_owned()))?;
            return self.admitted(principal, context).map(|()| Some(context.name.clone()));
        }
        let open: Vec<&ContextLimit> =
            contexts.iter().filter(|context| self.admitted(principal, context).is_ok()).collect();
        match open[..] {
            [] => Err(match contexts.iter().find(|context| context.members.is_empty()) {
                Some(nobody) => MemberRefusal::NoMembers(nobody.name.clone()),
                None => MemberRefusal::NotMember { principal: principal.to_owned(), context: None },
            }),
            [one] => Ok(Some(one.name.clone())),
            _ => Err(MemberRefusal::Unnamed {
                principal: principal.to_owned(),
                contexts: open.into_iter().map(|context| context.name.clone()).collect(),
            }),
        }
    }

    /// Whether somebody may still spend in the context of something they submitted. What was written down before
    /// contexts had to be named is on the account of the first.
    pub fn still_pays(&self, principal: &str, context: Option<&str>) -> bool {
        match (&self.limits, context) {
            (Limits::Contexts { contexts, .. }, None) => {
                contexts.first().is_some_and(|first| self.admitted(principal, first).is_ok())
            }
            _ => self.paid_by(principal, context).is_ok(),
        }
    }

    fn admitted(&self, principal: &str, context: &ContextLimit) -> Result<(), MemberRefusal> {
        match context.members.iter().any(|member| member == principal) {
            true => Ok(()),
            false if context.members.is_empty() && !self.is_apart() => Ok(()),
            false if context.members.is_empty() => Err(MemberRefusal::NoMembers(context.name.clone())),
            false => {
                Err(MemberRefusal::NotMember { principal: principal.to_owned(), context: Some(context.name.clone()) })
            }
        }
    }

    /// Whether there are several contexts and no ceiling over all of them.
    fn is_apart(&self) -> bool {
        matches!(&self.limits, Limits::Contexts { contexts, joint: None } if contexts.len() > 1)
    }

    /// The members of contexts that are apart, each with the context.
    pub fn parted(&self) -> impl Iterator<Item = (&str, &str)> {
        let contexts = match &self.limits {
            Limits::Contexts { contexts, .. } if self.is_apart() => &contexts[..],
            _ => &[],
        };
        contexts.iter().flat_map(|own| own.members.iter().map(|member| (member.as_str(), own.name.as_str())))
    }

    /// Refuses contexts in which one person could learn more than one ceiling allows, being a member of two now or of
    /// another one before.
    pub fn check_members(&self, before: &BTreeMap<String, String>) -> Result<(), MemberRefusal> {
        if let Limits::Contexts { contexts, .. } = &self.limits
            && self.is_apart()
            && let Some(open) = contexts.iter().find(|context| context.members.is_empty())
        {
            return Err(MemberRefusal::NoMembers(open.name.clone()));
        }
        let mut belongs: BTreeMap<&str, &str> =
            before.iter().map(|(principal, context)| (principal.as_str(), context.as_str())).collect();
        for (principal, context) in self.parted() {
            let first = *belongs.entry(principal).or_insert(context);
            if first != context {
                let contexts = [first, context].map(str::to_owned);
                return Err(MemberRefusal::Twice { principal: principal.to_owned(), contexts });
            }
        }
        Ok(())
    }

    /// Everybody whom a context names.
    pub(super) fn named(&self) -> BTreeSet<&str> {
        let contexts = match &self.limits {
            Limits::Contexts { contexts, .. } => &contexts[..],
            Limits::Single(_) => &[],
        };
        contexts.iter().flat_map(|context| context.members.iter().map(String::as_str)).collect()
    }

    /// The same ceilings and doors, whoever the members are.
    pub(super) fn allows_as_much_as(&self, other: &Self) -> bool {
        let bare = |policy: &Self| {
            let mut policy = policy.clone();
            if let Limits::Contexts { contexts, .. } = &mut policy.limits {
                contexts.iter_mut().for_each(|context| context.members.clear());
            }
            policy
        };
        bare(self) == bare(other)
    }
}
