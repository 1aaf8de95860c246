//! Streams and their policies: created by one officer, loosened only by two.
//!
//! The kernel enforces the policy. A change of policy is an event of the ledger with the names of its approvers, and
//! the kernel refuses to loosen a policy with fewer than two. A change of the officers needs two as well, since
//! otherwise one officer could appoint the second; so does a change that shows results earlier. A change that waits for
//! a second approver is a note, and is approved by the digest of its text. An approver's name must never be recorded
//! for a text that they did not see.

use std::collections::BTreeMap;

use sage_kernel::{Context, ContextId, Filter, Gate, Policy, StreamId};

use crate::api::{Engine, EngineError, Principal, Store, authority, note, now, secret};
use crate::catalog::{Catalog, Note, Stream};
use crate::pipeline::Pipeline;
use crate::stream::{Change, Role, StreamFile, Unit};
use crate::worker::grant;

/// The result of a changed stream file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyOutcome {
    /// The file is already in force.
    Same,
    /// The change is in force.
    InForce,
    /// The change loosens the policy, shows results earlier or changes the officers: another officer must approve it.
    Waits,
    /// The file is already in force, and the waiting proposal is withdrawn.
    Withdrawn,
}

impl Engine {
    /// Creates the stream that a file describes. Repeating the same file has no effect.
    ///
    /// # Errors
    /// When the file is invalid, does not name the principal as an officer, or differs from the existing stream of its
    /// name.
    pub fn create_stream(&self, by: &Principal, text: &str) -> Result<(), EngineError> {
        let file = StreamFile::parse(text)?;
        if !file.officers().contains(by.name()) {
            return Err(not_in_role(&file.name, by, Role::PrivacyOfficer));
        }
        self.with(|gate, catalog| {
            let exists = gate.ledger().stream_named(&file.name).is_some();
            match catalog.stream(&file.name) {
                Some(before) if exists && before.file == file => return Ok(()),
                Some(_) if exists => return Err(EngineError::StreamExists(file.name.clone())),
                _ => {}
            }
            file.policy.check_members(&BTreeMap::new())?;
            let secret = match file.unit {
                Unit::Event => None,
                Unit::User { .. } => Some(secret::make(self.path(), &file.name)?),
            };
            // The definition comes before the policy: a crash in between leaves a definition without a stream, which is
            // harmless.
            note(gate, catalog, &defined(&file, secret, by, None))?;
            gate.create_stream(now(), &file.name, kernel_policy(&file)?)?;
            Ok(())
        })
    }

    /// Changes the definition of a stream, as far as one officer may decide that.
    ///
    /// A file that loosens the policy, shows results earlier or changes the officers becomes a proposal, which replaces
    /// an earlier one and waits for [`Engine::approve_policy`]. A file that is already in force withdraws a waiting
    /// proposal.
    ///
    /// # Errors
    /// When the file is invalid, changes what cannot change, or the principal is not an officer of the stream.
    pub fn change_stream(&self, by: &Principal, text: &str) -> Result<PolicyOutcome, EngineError> {
        let file = StreamFile::parse(text)?;
        self.with(|gate, catalog| {
            let (id, stream) = found(gate, catalog, &file.name)?;
            in_role(stream, by, Role::PrivacyOfficer)?;
            let changes = stream.file.changes(&file)?;
            if changes.is_empty() {
                if stream.proposal.is_none() {
                    return Ok(PolicyOutcome::Same);
                }
                note(gate, catalog, &defined(&file, stream.secret.clone(), by, None))?;
                return Ok(PolicyOutcome::Withdrawn);
            }
            file.policy.check_members(&stream.context_members)?;
            let loosens = changes.contains(&Change::Officers) || stream.file.discloses_earlier(&file);
            let mut approvals = if loosens { 2 } else { 1 };
            let mut changed = None;
            if changes.contains(&Change::Policy) {
                let (in_force, policy) = moved_policy(gate, id, &file)?;
                let needed = in_force.approvals_to_become(&policy);
                approvals = approvals.max(needed.ok_or_else(|| EngineError::OtherPolicy(file.name.clone()))?);
                changed = Some(policy);
            }
            if approvals > 1 {
                let (stream, text, by) = (file.name.clone(), file.to_text(), by.name().to_owned());
                note(gate, catalog, &Note::PolicyProposed { stream, text, by })?;
                return Ok(PolicyOutcome::Waits);
            }
            if let Some(policy) = changed {
                gate.change_policy(now(), id, policy, vec![by.name().to_owned()])?;
            }
            note(gate, catalog, &defined(&file, stream.secret.clone(), by, None))?;
            authority::end_runs(gate, catalog, by, &file, &stream.suspended)?;
            Ok(PolicyOutcome::InForce)
        })
    }

    /// Approves the file that another officer has proposed, by the digest of its text. A proposal that was replaced
    /// since the approver read it is not approved.
    ///
    /// # Errors
    /// When no other officer has proposed a change, the digest differs, or the principal is not an officer of the
    /// stream.
    pub fn approve_policy(&self, by: &Principal, stream: &str, digest: &str) -> Result<(), EngineError> {
        self.with(|gate, catalog| {
            let (id, known) = found(gate, catalog, stream)?;
            in_role(known, by, Role::PrivacyOfficer)?;
            let still_officer = |name: &str| known.has_role(name, Role::PrivacyOfficer);
            let proposal = known.proposal.as_ref().filter(|own| own.by != by.name() && still_officer(&own.by));
            let proposal = proposal.ok_or_else(|| EngineError::NothingToApprove(stream.to_owned()))?;
            if proposal.digest() != digest {
                return Err(EngineError::ProposalChanged(stream.to_owned()));
            }
            let file = StreamFile::parse(&proposal.text)?;
            file.policy.check_members(&known.context_members)?;
            let (in_force, policy) = moved_policy(gate, id, &file)?;
            let changes_policy = *in_force != policy;
            if changes_policy {
                let approvals = vec![proposal.by.clone(), by.name().to_owned()];
                gate.change_policy(now(), id, policy, approvals)?;
            }
            note(gate, catalog, &defined(&file, known.secret.clone(), by, Some(proposal.digest())))?;
            authority::end_runs(gate, catalog, by, &file, &known.suspended)?;
            Ok(())
        })
    }
}

fn defined(file: &StreamFile, secret: Option<String>, by: &Principal, approves: Option<String>) -> Note {
    Note::StreamDefined { stream: file.name.clone(), text: file.to_text(), secret, by: by.name().to_owned(), approves }
}

/// The policy in force, and the successor that a file describes.
fn moved_policy<'gate>(
    gate: &'gate Gate<Store>, id: StreamId, file: &StreamFile,
) -> Result<(&'gate Policy, Policy), EngineError> {
    let in_force = gate.ledger().stream(id).map(|stream| stream.policy());
    let in_force = in_force.ok_or_else(|| EngineError::NoStream(file.name.clone()))?;
    Ok((in_force, successor(in_force, file)?))
}

fn kernel_policy(file: &StreamFile) -> Result<Policy, EngineError> {
    // Every parsed file has a policy, or the stream would not exist.
    file.kernel_policy().ok_or_else(|| EngineError::NoStream(file.name.clone()))
}

/// The policy of a file as a successor of the one in force: filters keep the parameters by which earlier charges were
/// counted, such as the weights of Rényi orders, and only their ceilings change.
fn successor(in_force: &Policy, file: &StreamFile) -> Result<Policy, EngineError> {
    let requested = kernel_policy(file)?;
    let moved = |before: &Filter, requested: &Filter| match before.rule() == requested.rule() {
        true => before.with_ceiling(requested.ceiling()).unwrap_or_else(|| requested.clone()),
        false => requested.clone(),
    };
    let alike = in_force.contexts().len() == requested.contexts().len();
    let pairs = in_force.contexts().iter().zip(requested.contexts()).filter(|_| alike);
    let contexts: Vec<Context> = pairs
        .map(|(before, requested)| Context {
            name: requested.name.clone(),
            filter: moved(&before.filter, &requested.filter),
        })
        .collect();
    let joint = match (in_force.joint(), requested.joint()) {
        (Some(before), Some(requested)) => Some(moved(before, requested)),
        (_, joint) => joint.cloned(),
    };
    if contexts.is_empty() {
        return Ok(requested);
    }
    Policy::with_contexts(contexts, joint, requested.access_modes()).map_err(EngineError::Blocks)
}

/// A stream by name, with its id in the ledger and its entry in the catalog.
pub(crate) fn found<'catalog>(
    gate: &Gate<Store>, catalog: &'catalog Catalog, name: &str,
) -> Result<(StreamId, &'catalog Stream), EngineError> {
    let missing = || EngineError::NoStream(name.to_owned());
    let id = gate.ledger().stream_named(name).ok_or_else(missing)?;
    Ok((id, catalog.stream(name).ok_or_else(missing)?))
}

/// The context that pays for a pipeline, and its filter.
pub(crate) fn paying<'gate>(
    gate: &'gate Gate<Store>, stream: StreamId, pipeline: &Pipeline,
) -> Result<(ContextId, &'gate Filter), EngineError> {
    let (index, own) = account(gate, stream, &pipeline.stream, pipeline.context.as_deref())?;
    Ok((index, &own.filter))
}

/// The context with this name, or the first one if `name` is `None`, and its filter.
pub(crate) fn account<'gate>(
    gate: &'gate Gate<Store>, stream: StreamId, name: &str, context: Option<&str>,
) -> Result<(ContextId, &'gate Context), EngineError> {
    let missing = || EngineError::NoStream(name.to_owned());
    let policy = gate.ledger().stream(stream).map(|stream| stream.policy()).ok_or_else(missing)?;
    let index = grant::context(policy, context)?;
    Ok((index, policy.contexts().get(index.0 as usize).ok_or_else(missing)?))
}

/// The name of the context that pays for requests of an ML engineer of the stream.
pub(crate) fn paying_context(
    known: &Stream, by: &Principal, named: Option<&str>,
) -> Result<Option<String>, EngineError> {
    in_role(known, by, Role::MlEngineer)?;
    Ok(known.file.policy.paying_context(by.name(), named)?)
}

/// Refuses a principal who does not have the role, or whose roles are suspended.
pub(crate) fn in_role(known: &Stream, by: &Principal, role: Role) -> Result<(), EngineError> {
    if known.suspended.contains_key(by.name()) {
        return Err(EngineError::Suspended { principal: by.name().to_owned(), stream: known.file.name.clone() });
    }
    if known.has_role(by.name(), role) { Ok(()) } else { Err(not_in_role(&known.file.name, by, role)) }
}

fn not_in_role(stream: &str, by: &Principal, role: Role) -> EngineError {
    EngineError::NotInRole { principal: by.name().to_owned(), role, stream: stream.to_owned() }
}
