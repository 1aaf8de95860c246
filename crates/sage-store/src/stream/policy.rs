//! The `[policy]` table of a stream's file, and its conversion to the kernel's policy.
//!
//! Ceilings stay decimal text until the kernel parses them, so no number passes through a float.

use sage_kernel::{AccessModes, Ceiling, Context, Delta, Epsilon, Filter, Policy, Rule};

use crate::document::{DocumentError, Section, list, quoted};

/// A ceiling and the composition rule that enforces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The ceiling (ε_g, δ_g).
    pub ceiling: Ceiling,
    /// The rule by which costs compose.
    pub rule: Rule,
}

/// The ceilings of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limits {
    /// One ceiling for all principals.
    Single(Limit),
    /// A ceiling for each context, and optionally a joint one.
    Contexts {
        /// The contexts in the order of the file, which is their order in the log.
        contexts: Vec<ContextLimit>,
        /// The ceiling over all contexts together.
        joint: Option<Limit>,
    },
}

/// A context of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextLimit {
    /// Its name.
    pub name: String,
    /// The ceiling of the context.
    pub limit: Limit,
    /// The principals who may spend in it. If the list is empty, every ML engineer of the stream may, unless that would
    /// give one person the sum of several ceilings.
    pub members: Vec<String>,
}

/// The policy of a stream as its file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFile {
    /// The ceilings.
    pub limits: Limits,
    /// The access modes in which rows may be read.
    pub access_modes: AccessModes,
}

const RULES: [(&str, Rule); 3] = [("basic", Rule::Basic), ("strong", Rule::Strong), ("renyi", Rule::Renyi)];
const ACCESS_MODES: &str = "[\"enforced\"] or [\"enforced\", \"attested\"]";
/// The key of the access modes, and its word for `attested`, in files of earlier releases.
const FORMER_KEY: &str = "doors";
const FORMER_ATTESTED: &str = "declared";

impl Limit {
    /// Reads `epsilon`, `delta` and `filter` of a table.
    fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        const EPSILON: &str = "a decimal above zero and at most 1000000, such as \"1.0\"";
        const DELTA: &str = "a decimal from zero to below one, such as \"1e-6\"";
        let epsilon = section.decimal("epsilon", EPSILON)?.ok_or_else(|| section.missing("epsilon", EPSILON))?;
        let delta = section.decimal("delta", DELTA)?.ok_or_else(|| section.missing("delta", DELTA))?;
        let epsilon = Epsilon::ceiling(&epsilon)
            .map_err(|error| section.wrong("epsilon", format!("{EPSILON} (this is {error})")))?;
        let delta =
            Delta::ceiling(&delta).map_err(|error| section.wrong("delta", format!("{DELTA} (this is {error})")))?;
        let rule = section.choice("filter", &RULES, Some(Rule::Renyi))?;
        let limit = Self { ceiling: Ceiling { epsilon, delta }, rule };
        let accepted = Filter::new(rule, limit.ceiling).is_some();
        accepted.then_some(limit).ok_or_else(|| section.wrong("epsilon", EPSILON))
    }

    fn write(&self, out: &mut String) {
        let Ceiling { epsilon, delta } = self.ceiling;
        out.push_str(&format!("epsilon = \"{epsilon}\"\ndelta = \"{delta}\"\nfilter = \"{}\"\n", self.rule));
    }

    fn filter(&self) -> Option<Filter> {
        Filter::new(self.rule, self.ceiling)
    }
}

impl PolicyFile {
    pub(super) fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        let access_modes = read_access_modes(section)?;
        let limits = if section.has("contexts") { read_contexts(section)? } else { read_single(section)? };
        Ok(Self { limits, access_modes })
    }

    pub(super) fn write(&self, out: &mut String) {
        out.push_str("\n[policy]\n");
        if let Limits::Single(limit) = &self.limits {
            limit.write(out);
        }
        out.push_str(match self.access_modes {
            AccessModes::EnforcedOnly => "access_modes = [\"enforced\"]\n",
            AccessModes::AttestedToo => "access_modes = [\"enforced\", \"attested\"]\n",
        });
        if let Limits::Contexts { contexts, joint } = &self.limits {
            for ContextLimit { name, limit, members } in contexts {
                out.push_str(&format!("\n[[policy.contexts]]\nname = {}\n", quoted(name)));
                if !members.is_empty() {
                    out.push_str(&format!("members = {}\n", list(members)));
                }
                limit.write(out);
            }
            if let Some(joint) = joint {
                out.push_str("\n[policy.joint]\n");
                joint.write(out);
            }
        }
    }

    /// The index of a context in the kernel's policy. Without a name it is the first; an unknown name gives `None`.
    /// This is cheaper than building the kernel's policy, which computes caps.
    pub fn context_index(&self, context: Option<&str>) -> Option<u32> {
        let index = match (&self.limits, context) {
            // The kernel's name for the only context.
            (_, None) | (Limits::Single(_), Some("default")) => 0,
            (Limits::Contexts { contexts, .. }, Some(name)) => contexts.iter().position(|own| own.name == name)?,
            (Limits::Single(_), Some(_)) => return None,
        };
        u32::try_from(index).ok()
    }

    /// The kernel's policy. A policy that was read from a file always has one; `None` is for values built by hand that
    /// the kernel rejects.
    pub fn kernel(&self) -> Option<Policy> {
        match &self.limits {
            Limits::Single(limit) => Some(Policy::single(limit.filter()?, self.access_modes)),
            Limits::Contexts { contexts, joint } => {
                let mut kernel_contexts = Vec::with_capacity(contexts.len());
                for ContextLimit { name, limit, .. } in contexts {
                    kernel_contexts.push(Context { name: name.clone(), filter: limit.filter()? });
                }
                let joint = match joint {
                    Some(limit) => Some(limit.filter()?),
                    None => None,
                };
                Policy::with_contexts(kernel_contexts, joint, self.access_modes).ok()
            }
        }
    }
}

/// Reads the access modes, also under the key that earlier releases used. The texts of stream files in old logs have it.
fn read_access_modes(section: &Section<'_>) -> Result<AccessModes, DocumentError> {
    const KEYS: [&str; 7] = ["epsilon", "delta", "filter", "access_modes", "contexts", "joint", FORMER_KEY];
    // Messages name the former key only where a file has it.
    let former = section.has(FORMER_KEY);
    section.only(if former { &KEYS } else { &KEYS[..6] })?;
    let (key, attested) = match (section.has("access_modes"), former) {
        (true, true) => return Err(section.wrong(FORMER_KEY, "left out: it is the former name of `access_modes`")),
        (_, false) => ("access_modes", "attested"),
        (false, true) => (FORMER_KEY, FORMER_ATTESTED),
    };
    match section.texts(key, ACCESS_MODES)?.as_deref() {
        None => Ok(AccessModes::EnforcedOnly),
        Some([one]) if one == "enforced" => Ok(AccessModes::EnforcedOnly),
        Some([one, two]) if one == "enforced" && two == attested => Ok(AccessModes::AttestedToo),
        Some(_) => Err(section.wrong(key, ACCESS_MODES)),
    }
}

fn read_single(section: &Section<'_>) -> Result<Limits, DocumentError> {
    if section.has("joint") {
        return Err(section.wrong("joint", "left out: it is the ceiling over several [[policy.contexts]]"));
    }
    Ok(Limits::Single(Limit::read(section)?))
}

fn read_contexts(section: &Section<'_>) -> Result<Limits, DocumentError> {
    for key in ["epsilon", "delta", "filter"] {
        if section.has(key) {
            return Err(section.wrong(key, "left out: with contexts, each of them and `joint` has its own"));
        }
    }
    let mut contexts: Vec<ContextLimit> = Vec::new();
    for context in section.sections("contexts")? {
        context.only(&["name", "members", "epsilon", "delta", "filter"])?;
        const NAME: &str = "the context's name, which no other context has";
        let name = context.text("name", NAME)?;
        if name.is_empty() || contexts.iter().any(|other| other.name == name) {
            return Err(context.wrong("name", NAME));
        }
        const MEMBERS: &str = "a list of names, such as [\"mia\"], or left out for every ML engineer";
        let members = context.texts("members", MEMBERS)?;
        if members.as_ref().is_some_and(|names| names.is_empty() || names.iter().any(String::is_empty)) {
            return Err(context.wrong("members", MEMBERS));
        }
        let (name, members) = (name.to_owned(), members.unwrap_or_default());
        contexts.push(ContextLimit { name, limit: Limit::read(&context)?, members });
    }
    if contexts.is_empty() {
        return Err(section.wrong("contexts", "a list with at least one context"));
    }
    let joint = match section.section("joint")? {
        Some(joint) => {
            joint.only(&["epsilon", "delta", "filter"])?;
            Some(Limit::read(&joint)?)
        }
        None => None,
    };
    Ok(Limits::Contexts { contexts, joint })
}
